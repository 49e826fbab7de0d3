"""One layer summed up in one pass: what stays of it where its queries and keys are not kept."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.questions import by_distance, entropy, image, mass, received, topk
from regard.core.weights import Weights
from regard.recording.diagnoses import Sign
from regard.recording.recording import Layer
from regard.recording.roles import in_numpy, patterns_of, role_of, scores_of
from regard.rules.masks import Spans

PIXELS = 256
"""The largest side of a head's image."""
LONG = 4096
"""Queries of a layer from which it leaves so much free memory that it is given back."""
STRONGEST = 8
"""How many keys of each query are told apart."""
LOCAL = 8
"""Keys no farther than this, before or after, are near a query."""
SINK = 0.3
"""The mean weight, of the queries that may see it, that makes a key a sink."""


@dataclass(frozen=True, eq=False, repr=False)
class LayerStatistics:
    """What is known of one attention layer, in memory that grows with T + S."""

    name: str
    """The module's name in the model."""
    kind: str
    """As :attr:`Layer.kind`."""
    shape: tuple[int, ...]
    """(B, H, T, S) of the weights that were summed up."""
    entropy: NDArray[np.float32]
    """(B, H, T) in nats."""
    received: NDArray[np.float32]
    """(B, H, S) the weight of each key, summed over the queries."""
    top_keys: NDArray[np.int32]
    """(B, H, T, k) the strongest keys of each query, strongest first; −1 where there are fewer."""
    top_weights: NDArray[np.float32]
    """(B, H, T, k) their weights."""
    image: NDArray[np.float32]
    """(B, H, h, w) means over blocks of the same size; rows are queries."""
    scores: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    """(B, H) of every role, see ``roles``."""
    distance: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    """(B, H) the mean of |i − j|, each pair of query and key counted by its weight."""
    local: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))
    """(B, H) the share of all weight that lies no farther than ``LOCAL`` keys from its query."""
    seers: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    """(B, S) how many queries may attend to each key."""
    chosen: NDArray[np.int32] | None = None
    """(C,) the positions between which every weight was kept; None where there are none."""
    links: NDArray[np.float32] | None = None
    """(B, H, C, C) those weights, exact: row = query, column = key; None without such positions."""
    signs: tuple[Sign, ...] = ()
    """What was wrong with the layer, for :meth:`Recording.diagnose`."""
    real: NDArray[np.bool_] | None = None
    """(B, T) which queries are no padding; None where all are.  Padding looks at nothing here."""

    @property
    def sides(self) -> tuple[int, int]:
        """T and S, how many queries and keys it has."""
        return self.shape[-2], self.shape[-1]

    @property
    def heads(self) -> int:
        """How many query heads the layer has."""
        return int(self.shape[1])

    @property
    def nbytes(self) -> int:
        """What is kept, in bytes."""
        arrays: list[NDArray[Any]] = [self.entropy, self.received, self.top_keys, self.top_weights]
        arrays += [self.image, self.distance, self.local, self.seers, *self.scores.values()]
        arrays += [one for one in (self.chosen, self.links, self.real) if one is not None]
        return sum(array.nbytes for array in arrays)

    def role(self, head: int, sample: int = 0) -> str:
        """What the head does, in one word: ``previous``, ``first``, … ``none``."""
        return role_of({role: float(of[sample, head]) for role, of in self.scores.items()})

    def sinks(self, head: int, sample: int = 0) -> tuple[int, ...]:
        """The keys that take more than ``SINK`` of the weight of the queries that may see them.

        Only keys that half of the queries may see: of the others a few queries decide.

        Source: Gu et al. 2025 ("When attention sink emerges in language models"), section 3.
        """
        if not self.seers.size:
            return ()
        seers = self.seers[sample]
        mean = self.received[sample, head] / np.maximum(seers, 1)
        queries = self.shape[2] if self.real is None else self.real[sample].sum()
        return tuple(np.flatnonzero((mean > SINK) & (2 * seers >= queries)).tolist())

    def __repr__(self) -> str:
        return f"LayerStatistics({self.name!r}, {' × '.join(map(str, self.shape))})"


def summarise(
    layer: Layer,
    *,
    strongest: int = STRONGEST,
    pixels: int = PIXELS,
    separators: tuple[int, ...] = (),
    ids: NDArray[np.int64] | None = None,
    chosen: tuple[int, ...] = (),
    real: NDArray[np.bool_] | None = None,
) -> LayerStatistics:
    """Sum up ``layer``, all samples and heads, in one pass over its weights.

    Args:
        strongest: how many keys of each query are told apart.
        pixels: the largest side of a head's image.
        separators: the keys that are punctuation or special tokens.
        ids: (B, T) the token numbers, for the roles of repeated tokens.
        chosen: the positions between which every weight is kept; those that the layer has not are
            left out.
        real: (B, T) the queries that are no padding, as ``roles.real_of`` knows them; all unless
            given.
    """
    W = (layer if real is None else of_text(layer, real)).weights
    B, H, T, S = W.shape
    begins = np.zeros(B, np.int64)
    if real is not None and T == S and layer.kind != "cross":
        begins = real.argmax(1)
    firsts = np.unique(begins)
    between = np.array([at for at in chosen if at < min(T, S)], np.int32)
    spread, got, diagonal, separator, picture, *rest = (
        in_numpy(answer)
        for answer in W.ask(
            entropy(),
            received(),
            by_distance(),
            mass([s for s in separators if 0 < s < S]),
            image(pixels, pixels),
            *(mass([key] if S else []) for key in firsts.tolist()),
            *([topk(strongest)] if strongest else []),
        )
    )
    first, top = rest[0], rest[len(firsts) :]
    if begins.any():
        first = np.stack([rest[n][b] for b, n in enumerate(np.searchsorted(firsts, begins))])
        marked = np.isin(begins, separators) & (begins > 0)
        separator = np.maximum(separator - first * marked[:, None, None], 0.0)
    near = _near(diagonal[0], diagonal[1], (B, H))
    away = np.abs(np.broadcast_to(diagonal[0], (B, diagonal[0].shape[-1])))[:, None]
    weight = diagonal[1].astype(np.float64)
    whole = np.maximum(weight.sum(-1), np.finfo(np.float64).tiny)
    visible = np.broadcast_to(W.visible.reshape(-1, T), (B, T))
    whose = [slice(None)] * B if real is None else list(real)
    scored = [
        [
            scores_of(
                first[b, h][rows].astype(np.float64),
                separator[b, h][rows].astype(np.float64),
                spread[b, h][rows],
                {d: float(at[b, h]) for d, at in near.items()},
                visible[b][rows],
            )
            for h in range(H)
        ]
        for b, rows in enumerate(whose)
    ]
    return LayerStatistics(
        name=layer.name,
        kind=layer.kind,
        shape=(B, H, T, S),
        entropy=spread.astype(np.float32, copy=False),
        received=got.astype(np.float32, copy=False),
        top_keys=top[0][1].astype(np.int32, copy=False)
        if top
        else np.zeros((B, H, T, 0), np.int32),
        top_weights=top[0][0].astype(np.float32, copy=False)
        if top
        else np.zeros((B, H, T, 0), np.float32),
        image=picture.astype(np.float32),
        scores={
            role: np.array([[one[role] for one in sample] for sample in scored])
            for role in scored[0][0]
        }
        | patterns_of(W, tokens_of(layer, ids, real), real),
        distance=(weight * away).sum(-1) / whole,
        local=(weight * (away <= LOCAL)).sum(-1) / whole,
        seers=_seers(W),
        chosen=between if len(between) else None,
        links=in_numpy(W[..., between, between]).astype(np.float32) if len(between) else None,
        real=real,
    )


def of_text(layer: Layer, real: NDArray[np.bool_]) -> Layer:
    """The layer with queries of padding that see nothing."""
    only = Spans(np.zeros(real.shape, np.int64), real * int(layer.k.shape[-2]))
    return replace(layer, mask=only if layer.mask is None else layer.mask & only)


def tokens_of(
    layer: Layer, ids: NDArray[np.int64] | None, real: NDArray[np.bool_] | None = None
) -> NDArray[np.int64] | None:
    """(B, T) the numbers of the tokens that are the layer's queries and keys too, if any are.

    Those of padding are like no other's.
    """
    sizes = {layer.q.shape[-2], layer.k.shape[-2]}
    if ids is None or layer.kind == "cross" or sizes != {ids.shape[-1]}:
        return None
    if ids.shape[0] != layer.q.shape[0]:
        return None
    return ids if real is None else np.where(real, ids, -1 - np.arange(ids.shape[1]))


def _seers(W: Weights) -> NDArray[np.int64]:
    """(B, S) how many queries may attend to each key; all between the outermost if not known."""
    B, _, T, S = W.shape
    ranges = W._call.ranges
    if ranges is None:
        first, last = (side[..., None] for side in W._call.hull)
    else:
        first, last = ranges.start, ranges.stop
    found = np.zeros((B, S + 1), np.int64)
    for b in range(B):
        start, stop = (np.broadcast_to(side, (B, T, side.shape[-1]))[b] for side in (first, last))
        some = start < stop
        np.add.at(found[b], start[some], 1)
        np.add.at(found[b], stop[some], -1)
    return found.cumsum(-1)[:, :S]


def give_back() -> None:
    """Give what is free in the heap back to the system, where that can be asked for (glibc).

    The little that is kept of each layer lies between what the model asks for and lets go of, so
    the next layer's activations find no room as large and the heap would grow by them every time.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def _near(
    distance: NDArray[np.int64], weight: NDArray[Any], lead: tuple[int, int]
) -> dict[int, NDArray[Any]]:
    """(B, H) the weight at the distances 1, 0 and −1, whichever of them there are."""
    found = {}
    for d in (1, 0, -1):
        there = np.broadcast_to(distance == d, (lead[0], distance.shape[-1]))
        found[d] = (weight * there[:, None]).sum(-1)
    return found
