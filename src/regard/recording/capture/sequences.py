"""The calls of a generation, joined to one matrix a sequence.

A cache hands its layer all keys so far at every step, so nothing but the new rows is copied: where
the last key that is known stands in a step's keys, the new ones follow.  That is seen from the
numbers themselves, for any cache: dynamic ones, static ones with empty places, sliding ones that
have let go of the first keys, and those that beams have put in another order.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from regard.recording.capture.strands import Grown, Piece, Strand, whole
from regard.recording.recording import Layer, Layers, Run
from regard.rules import Mask
from regard.rules.masks import Spans


def strand_of(live: Layer, kept: Layer) -> Strand:
    """The beginning of a strand, from a layer as it was called and what is kept of it."""
    q = kept.q
    if q is live.q and q.untyped_storage().nbytes() > 1.5 * q.nbytes:
        q = q.clone()  # a slice of what the values stand in too, which need not be kept
    T, S = int(q.shape[-2]), int(kept.k.shape[-2])
    keys = S
    k = kept.k
    if kept.kind != "cross" and T < S and (stop := _stop(kept)) is not None and T <= stop < S:
        keys, k = stop, k[..., :stop, :]  # the rest of a static cache is empty
    if kept.k is live.k:
        k = k.clone()  # a static cache writes the next ones into the same array
    layer = kept if k is kept.k and q is kept.q else replace(kept, q=q, k=k)
    if keys < S:
        layer = replace(layer, mask=_narrowed(kept, keys))
    piece = Piece(replace(layer, q=None, k=None), T, keys, 0)
    return Strand(layer, Grown(q), Grown(k), keys, [piece])


def _stop(layer: Layer, everything: int | None = None) -> int | None:
    """One after the last key that any query sees, where the mask is runs of keys.

    ``everything`` is the answer where there is no mask.
    """
    if layer.mask is None:
        return everything
    if isinstance(layer.mask, Spans):
        return int(layer.mask.stop.max())
    if layer.mask is not None and layer.start is not None:
        ranges = layer.weights._call.ranges
        return None if ranges is None else int(ranges.hull()[1].max())
    return None


def _narrowed(layer: Layer, keys: int) -> Mask | None:
    """The layer's mask, which hides every key from ``keys`` on, for the keys before."""
    if isinstance(layer.mask, Spans):
        every = (layer.mask.start == 0).all() and (layer.mask.stop == keys).all()
        return None if every else layer.mask
    return layer.mask


class Sequence:
    """A run that later calls may continue."""

    def __init__(self, run: Run, layers: list[tuple[Layer, Layer]]) -> None:
        self.run = run
        self.strands: list[Strand] = []
        self.firsts: list[int] = [0] * len(layers)
        """The number in the sequence of the first key of each layer's last call."""
        self.parents: Any = None
        """Which entry each one went on from at the last call; None if its own."""
        self._parts = {name: [ids] for name, ids in run.texts.items()}
        fixed = []
        while layers:
            live, kept = layers.pop(0)  # one after the other, so that each is let go of
            if _in_torch(kept):
                self.strands.append(strand_of(live, kept))
            else:
                fixed.append(kept)
        self._grows = bool(self.strands) and not fixed
        run.layers = Layers([*fixed, *(strand.layer for strand in self.strands)])

    def joined(self, layers: list[tuple[Layer, Layer]], run: Run) -> bool:
        """Whether a call goes on where this sequence stands; then its rows are here now."""
        kept = [one for _, one in layers]
        if not self._grows or not kept or not all(map(_in_torch, kept)):
            return False
        if self.run.calls == 1 and self._leads_to(kept):
            self.strands += [strand_of(*both) for both in layers]
            self.firsts, self.parents = [0] * len(kept), None
            self._also(run)
            return True
        names = [one.name for one in kept]
        strands = self.strands
        if [strand.layer.name for strand in strands] != names:
            strands = [strand for strand in strands if strand.layer.kind != "encoder"]
        if [strand.layer.name for strand in strands] != names or all(s.cross for s in strands):
            return False
        steps = [step_of(strand, one) for strand, one in zip(strands, kept, strict=True)]
        found = [step for step in steps if step is not None]
        if len(found) < len(steps):
            return False
        self.parents = _parents(strands, found)
        self.firsts = [
            _extend(strand, one, step, self.parents)
            for strand, one, step in zip(strands, kept, found, strict=True)
        ]
        self._also(run)
        return True

    def _leads_to(self, kept: list[Layer]) -> bool:
        """Whether this is an encoder's call, and ``kept`` the first of the decoder to it."""
        mine = {strand.layer.name for strand in self.strands}
        long = self.strands[-1].keys
        return (
            all(strand.layer.kind == "encoder" for strand in self.strands)
            and any(one.kind == "cross" for one in kept)
            and not any(one.name in mine for one in kept)
            and all(one.kind != "cross" or int(one.k.shape[-2]) == long for one in kept)
        )

    def _also(self, run: Run) -> None:
        """The call's tokens, and the layers to be put together when somebody looks at them."""
        for name, ids in run.texts.items():
            before = self._parts.setdefault(name, [])
            if self.parents is not None:
                before[:] = [part[self.parents] for part in before]
            before.append(ids)
            if len({len(part) for part in before}) == 1:
                self.run.texts[name] = np.concatenate(before, -1)
        if self.run.ids is not None and run.ids is not None:
            self.run.ids = self.run.texts.get("input_ids", self.run.ids)
        self.run.calls += 1
        rules: dict[Any, Any] = {}
        self.run.layers = Layers([partial(whole, strand, rules) for strand in self.strands])


def _in_torch(layer: Layer) -> bool:
    return hasattr(layer.q, "untyped_storage") and hasattr(layer.k, "untyped_storage")


def step_of(strand: Strand, one: Layer) -> tuple[int, Any] | None:
    """Where the last known key stands in a call's keys, and whose entry each one's is."""
    k, last = one.k, strand.k.rows
    if k.shape[-1] != last.shape[-1] or k.shape[1] != last.shape[1] or k.dtype != last.dtype:
        return None
    if (
        k.shape[0] != last.shape[0]
        or k.device != last.device
        or one.q.dtype != strand.layer.q.dtype
    ):
        return None
    T, S = int(one.q.shape[-2]), int(k.shape[-2])
    if strand.cross:
        same = strand.keys == S and _whose(k[..., 0, :], last[..., 0, :]) is not None
        return (0, None) if same else None
    # A static cache keeps each key at its place; one that slides has the newest at its end.
    for at in dict.fromkeys((strand.keys - 1, S - T - 1)):
        if 0 <= at < S - T and (at == S - T - 1 or _stop(one, S) == at + 1 + T):
            whose = _whose(k[..., at, :], last[..., -1, :])
            if whose is not None:
                return at, whose
    return None


def _whose(now: Any, before: Any) -> Any:
    """For each entry of ``now`` (B, G, D) the one of ``before`` that it equals; None if one's none.

    ``...`` says that each equals its own.
    """
    import torch

    if torch.equal(now, before):
        return ...
    same = (now[:, None] == before[None]).flatten(2).all(-1)
    return same.int().argmax(-1) if bool(same.any(-1).all()) else None


def _parents(strands: list[Strand], steps: list[Any]) -> Any:
    """Whose entry each entry goes on from, by the last layer, whose keys tell all histories apart.

    Of entries that are alike in it each one's own comes first, so that nothing moves for nothing.
    """
    for strand, step in reversed(list(zip(strands, steps, strict=True))):
        if not strand.cross:
            return None if step[1] is ... else np.asarray(step[1].cpu())
    return None


def _extend(strand: Strand, one: Layer, step: tuple[int, Any], parents: Any) -> int:
    """Adds the rows of a call; gives the number of its first key in the sequence."""
    T, S = int(one.q.shape[-2]), int(one.k.shape[-2])
    if parents is not None:
        strand.q.take(parents)
        if not strand.cross:
            strand.k.take(parents)
        for piece in strand.pieces:
            piece.entries = parents if piece.entries is None else piece.entries[parents]
    first = 0
    if not strand.cross:
        at = step[0]
        strand.k.add(one.k.narrow(-2, at + 1, T))
        first = strand.keys - 1 - at
        strand.keys += T
    strand.q.add(one.q)
    strand.pieces.append(Piece(replace(one, q=None, k=None), T, S, first))
    return first
