"""One layer summed up in one pass: what stays of it where its queries and keys are not kept."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.questions import by_distance, entropy, image, mass, received, topk
from regard.recording.diagnoses import Sign
from regard.recording.recording import Layer
from regard.recording.roles import role_of, scores_of

PIXELS = 256
"""The largest side of a head's image."""
LONG = 4096
"""Queries of a layer from which it leaves so much free memory that it is given back."""
STRONGEST = 8
"""How many keys of each query are told apart."""


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
    signs: tuple[Sign, ...] = ()
    """What was wrong with the layer, for :meth:`Recording.diagnose`."""

    @property
    def heads(self) -> int:
        """How many query heads the layer has."""
        return int(self.shape[1])

    @property
    def nbytes(self) -> int:
        """What is kept, in bytes."""
        arrays: list[NDArray[Any]] = [self.entropy, self.received, self.top_keys, self.top_weights]
        return sum(array.nbytes for array in (*arrays, self.image, *self.scores.values()))

    def role(self, head: int, sample: int = 0) -> str:
        """What the head does, in one word: ``previous``, ``first``, … ``none``."""
        return role_of({role: float(of[sample, head]) for role, of in self.scores.items()})

    def __repr__(self) -> str:
        return f"LayerStatistics({self.name!r}, {' × '.join(map(str, self.shape))})"


def summarise(
    layer: Layer,
    *,
    strongest: int = STRONGEST,
    pixels: int = PIXELS,
    separators: tuple[int, ...] = (),
) -> LayerStatistics:
    """Sum up ``layer``, all samples and heads, in one pass over its weights.

    Args:
        strongest: how many keys of each query are told apart.
        pixels: the largest side of a head's image.
        separators: the keys that are punctuation or special tokens.
    """
    W = layer.weights
    B, H, T, S = W.shape
    spread, got, diagonal, first, separator, picture, *top = (
        _arrays(answer)
        for answer in W.ask(
            entropy(),
            received(),
            by_distance(),
            mass([0] if S else []),
            mass([s for s in separators if 0 < s < S]),
            image(pixels, pixels),
            *([topk(strongest)] if strongest else []),
        )
    )
    near = _near(diagonal[0], diagonal[1], (B, H))
    visible = np.broadcast_to(W.visible.reshape(-1, T), (B, T))
    scored = [
        [
            scores_of(
                first[b, h].astype(np.float64),
                separator[b, h].astype(np.float64),
                spread[b, h],
                {d: float(at[b, h]) for d, at in near.items()},
                visible[b],
            )
            for h in range(H)
        ]
        for b in range(B)
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
        },
    )


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


def _arrays(answer: Any) -> Any:
    """The answer in NumPy's arrays."""
    if isinstance(answer, tuple):
        return tuple(_arrays(one) for one in answer)
    return np.asarray(answer.cpu() if hasattr(answer, "cpu") else answer)
