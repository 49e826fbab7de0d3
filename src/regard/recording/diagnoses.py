"""What is wrong with a model's attention, as a recording shows it: five faults, each by its sign.

``padding``
    queries of real tokens put weight on padding:  Σ_j in padding w_ij > 0
``inverted``
    a mask says the opposite: real tokens look at hidden ones only, or a causal model at the future
``future``
    in a causal layer a query puts weight on a later key:  Σ_{j > start + i} w_ij > 0
``cache``
    the keys of a step are not those of the step before and the new ones
``grouping``
    key heads were repeated so that query head h reads key head h mod G, not h // (H / G)

Nothing is guessed from how weights usually look, so a right model gives no alarm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._words import Language, say
from regard.core.call import check
from regard.recording.roles import real_of

if TYPE_CHECKING:
    from regard.recording.recording import Layer, Recording, Run
    from regard.rules.ranges import Ranges

TRACE = 1e-4
"""Weight that counts as some: more than rounding leaves where exactly nothing belongs."""
ALL = 0.99
"""The share of a row that counts as all of it."""
ROWS = 64
"""Queries whose weights on the future are looked at together."""


@dataclass(frozen=True)
class Diagnosis:
    """One fault, and the layers that show it."""

    fault: str
    """``padding``, ``inverted``, ``future``, ``cache`` or ``grouping``."""
    layers: tuple[str, ...]
    """The names of the modules; none where the fault is in the model's inputs."""
    run: int
    """The number of the run that shows it first."""
    key: str
    """The sentence's key in the catalogue."""
    values: dict[str, Any] = field(default_factory=dict)

    def say(self, lang: Language = "en") -> str:
        """What is wrong, where, and what to look for, in English or Chinese."""
        first, more = (self.layers[0] if self.layers else ""), len(self.layers) - 1
        where = say("recording.and-more", lang, layer=first, more=more) if more > 0 else first
        return say(self.key, lang, layers=where, run=self.run, **self.values)

    def __str__(self) -> str:
        return self.say()


@dataclass(frozen=True)
class Sign:
    """What one layer shows."""

    fault: str
    layer: str
    values: dict[str, Any]
    key: str


def signs_of(layer: Layer, run: Run) -> Iterator[Sign]:
    """What a layer shows by itself, while its queries and keys are there: all but ``cache``."""
    checks: Sequence[Callable[[Layer, Run], Sign | None]] = (_padding, _future, _grouping)
    for shown in checks:
        if (sign := shown(layer, run)) is not None:
            yield sign


def diagnose(recording: Recording) -> tuple[Diagnosis, ...]:
    """Name what is wrong with the attention in ``recording``; see :meth:`Recording.diagnose`."""
    found: dict[str, list[tuple[int, Sign]]] = {}
    for number, run in enumerate(recording.runs):
        before = recording.runs[number - 1] if number else None
        for sign in _signs(run, before):
            found.setdefault(sign.key, []).append((number, sign))
    return tuple(
        Diagnosis(
            fault=signs[0][1].fault,
            layers=tuple(dict.fromkeys(sign.layer for _, sign in signs if sign.layer)),
            run=signs[0][0],
            key=key,
            values=signs[0][1].values,
        )
        for key, signs in found.items()
    )


def _signs(run: Run, before: Run | None) -> Iterator[Sign]:
    for mask in run.expected.inverted:
        yield Sign("inverted", "", {"argument": mask}, "recording.inverted-argument")
    for summed_up in run.statistics:
        yield from summed_up.signs
    earlier = _by_name(before)
    for place, layer in _numbered(run):
        yield from signs_of(layer, run)
        if (sign := _cache(layer, earlier.get(place))) is not None:
            yield sign


def _numbered(run: Run) -> Iterator[tuple[tuple[str, int], Layer]]:
    """Each layer with its name and how often a layer of that name came before."""
    seen: dict[str, int] = {}
    for layer in run.layers:
        yield (layer.name, seen.get(layer.name, 0)), layer
        seen[layer.name] = seen.get(layer.name, 0) + 1


def _by_name(run: Run | None) -> dict[tuple[str, int], Layer]:
    return {} if run is None else dict(_numbered(run))


def _real(layer: Layer, run: Run) -> NDArray[np.bool_]:
    """(B, T) the queries that are no padding."""
    real = real_of(layer, run)
    return np.ones((layer.q.shape[0], layer.q.shape[-2]), np.bool_) if real is None else real


def _padding(layer: Layer, run: Run) -> Sign | None:
    """The weight of real queries on padding: W @ v, where v is 1 on padding and 0 elsewhere."""
    import torch

    hidden = run.expected.padding.get(layer.keys)
    B, G, S = (int(layer.k.shape[axis]) for axis in (0, 1, -2))
    if hidden is None or len(hidden) != B:
        return None
    there = np.zeros((B, S), np.bool_)
    width = min(S, hidden.shape[1])
    there[:, :width] = hidden[:, -width:]
    both = np.any(~there, axis=1) & np.any(there, axis=1)
    real = _real(layer, run) & both[:, None]
    if not (real & _may_see(layer, there)).any():
        return None
    on = torch.as_tensor(there, device=layer.k.device).to(layer.k.dtype)
    mass = layer.weights @ on[:, None, :, None].expand(B, G, S, 1).contiguous()
    rows = _array(mass[..., 0]).transpose(0, 2, 1)[real]  # (n, H)
    most = float(rows.mean(0).max(initial=0))
    if not most > TRACE:
        return None
    # Of padding before a causal text a first query may see nothing else: most rows decide.
    if np.mean(rows > ALL) > ALL:
        return Sign("inverted", layer.name, {"share": most}, "recording.inverted-padding")
    return Sign("padding", layer.name, {"share": most}, "recording.on-padding")


def _may_see(layer: Layer, keys: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(B, T) whether the layer's mask lets a query see any of ``keys`` (B, S); True if not known.

    A right mask hides all padding, and where it is key ranges that is known without a weight.
    """
    ranges, T = _ranges(layer), layer.q.shape[-2]
    if ranges is None:
        return np.ones((len(keys), T), np.bool_)
    before = np.zeros((len(keys), keys.shape[1] + 1), np.int64)
    before[:, 1:] = keys.cumsum(1)
    start, stop = (
        np.broadcast_to(a.reshape(-1, T, a.shape[-1]), (len(keys), T, a.shape[-1]))
        for a in (ranges.start, np.maximum(ranges.start, ranges.stop))
    )
    samples = np.arange(len(keys))[:, None, None]
    return np.asarray((before[samples, stop] > before[samples, start]).any(-1))


def _future(layer: Layer, run: Run) -> Sign | None:
    """The weight that real queries of a causal layer put on keys after their own."""
    if layer.kind == "cross" or layer.name not in run.expected.causal:
        return None
    W = layer.weights
    T, S = W.shape[-2:]
    start = np.asarray(S - T if layer.start is None else layer.start).reshape(-1, 1)
    own = start + np.arange(T)
    last = _last_seen(layer)
    real = _real(layer, run)
    suspects = np.flatnonzero(((last > own + 1) & real).any(0))
    for chunk in np.split(suspects, range(ROWS, len(suspects), ROWS)):
        if not len(chunk):
            continue
        rows = _array(W[..., chunk, :])
        later = np.arange(S) > np.broadcast_to(own, (len(rows), T))[:, chunk, None]
        mass = (rows * later[:, None]).sum(-1).transpose(0, 2, 1)[real[:, chunk]]
        if mass.size and (most := float(mass.mean(0).max())) > TRACE:
            inverted = most > ALL and float((mass > ALL).mean()) > ALL
            key = "recording.inverted-causal" if inverted else "recording.future"
            return Sign("inverted" if inverted else "future", layer.name, {"share": most}, key)
    return None


def _last_seen(layer: Layer) -> NDArray[np.int64]:
    """(B or 1, T) one after the last key that each query may see."""
    ranges, T, S = _ranges(layer), layer.q.shape[-2], layer.k.shape[-2]
    if ranges is None:
        return np.full((1, T), S)
    last = np.where(ranges.start < ranges.stop, ranges.stop, 0).max(axis=-1, initial=0)
    return np.asarray(last.reshape(-1, T))


def _ranges(layer: Layer) -> Ranges | None:
    return check(layer.q, layer.k, None, layer.mask, start=layer.start).ranges


def _cache(layer: Layer, before: Layer | None) -> Sign | None:
    """Whether the keys of a step are those of the step before, in their order, and new ones."""
    T, S = layer.q.shape[-2], layer.k.shape[-2]
    if layer.kind == "cross" or S <= T:
        return None
    if before is None or before.k.shape[1] != layer.k.shape[1] or before.k.dtype != layer.k.dtype:
        return None
    old, new = (_array(one.k[:, 0].float()) for one in (before, layer))
    for sample in range(len(new)):
        fits = [_fits(old[other], new[sample], T) for other in range(len(old))]
        if True not in fits and False in fits:
            return Sign("cache", layer.name, {}, "recording.cache")
    return None


def _fits(old: NDArray[Any], new: NDArray[Any], T: int) -> bool | None:
    """Whether keys (S, D) follow from those a step ago and T more; None of another text's."""
    old, new = _written(old), _written(new)
    known = {row.tobytes(): at for at, row in enumerate(old)}
    at = np.array([known.get(row.tobytes(), -1) for row in new])
    kept = at[at >= 0]
    if len(kept) < min(len(old), len(new) - T) / 2 or not len(kept):
        return None
    # A cache that grows keeps all; one that slides loses the oldest; both keep the order.
    grown = len(new) - len(kept) == T and (at[: len(kept)] == kept).all()
    return bool(grown and (np.diff(kept) == 1).all() and kept[-1] == len(old) - 1)


def _written(keys: NDArray[Any]) -> NDArray[Any]:
    """The keys without the places at the end to which a static cache has not yet written."""
    return keys[: 1 + np.flatnonzero(keys.any(-1)).max(initial=-1)]


def _grouping(layer: Layer, _: Run) -> Sign | None:
    """Whether key heads were repeated as a whole, k₀ k₁ k₀ k₁, not one by one, k₀ k₀ k₁ k₁."""
    import torch

    H, k = layer.k.shape[1], layer.k
    if layer.q.shape[1] != H or H < 4 or 0 in k.shape:
        return None
    for G in range(2, H // 2 + 1):
        # One key decides in nearly every case; all of them make sure.
        for part in (k[:, :, -1:], k):
            if H % G or not torch.equal(part[:, G:], part[:, :-G]):
                break
        else:
            apart = all(not torch.equal(k[:, 0], k[:, g]) for g in range(1, G))
            if apart:
                return Sign("grouping", layer.name, {"G": G, "group": H // G}, "recording.grouping")
    return None


def _array(tensor: Any) -> NDArray[Any]:
    return np.asarray(tensor.detach().cpu())
