"""One layer of a generation: rows that become more, and one layer made of all of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.core.call import check
from regard.recording.recording import Layer
from regard.rules import Mask, causal, dense, keep, relative
from regard.rules.masks import Spans
from regard.rules.scores import Relative


class Grown:
    """Rows of a tensor (…, n, D) that become more, in a place that has room for them."""

    def __init__(self, array: Any) -> None:
        self._place = array
        self.n = int(array.shape[-2])

    @property
    def rows(self) -> Any:
        """All rows so far."""
        return self._place[..., : self.n, :]

    def add(self, rows: Any) -> None:
        """The next rows."""
        import torch

        begin, self.n = self.n, self.n + int(rows.shape[-2])
        hardened = self._place.is_inference() and not torch.is_inference_mode_enabled()
        if self.n > self._place.shape[-2] or hardened:
            shape = (*self._place.shape[:-2], max(2 * begin, self.n), self._place.shape[-1])
            wider = self._place.new_empty(shape)
            wider[..., :begin, :] = self._place[..., :begin, :]
            self._place = wider
        self._place.narrow(-2, begin, self.n - begin).copy_(rows)

    def take(self, entries: Any) -> None:
        """Other batch entries' rows in the place of each one's."""
        self._place = self.rows[entries]


@dataclass
class Piece:
    """Who the rows of one call may attend to."""

    layer: Layer
    """As it was called, its queries and keys left out."""
    T: int
    S: int
    first: int
    """The number in the sequence of the call's first key."""
    entries: NDArray[np.int64] | None = None
    """The batch entry that each one's row comes from; None if its own."""


@dataclass
class Strand:
    """One layer of a sequence."""

    layer: Layer
    """As it was called first, with arrays of its own."""
    q: Grown
    k: Grown
    keys: int
    """How many keys the sequence has so far, those before the first call included."""
    pieces: list[Piece] = field(default_factory=list)

    @property
    def cross(self) -> bool:
        """Whether the keys stay the same."""
        return self.layer.kind == "cross"


def whole(strand: Strand, rules: dict[Any, Any]) -> Layer:
    """The strand as one layer; strands with the same masks share theirs."""
    if len(strand.pieces) == 1:
        return strand.layer
    keys = strand.keys
    q, k = strand.q.rows, strand.k.rows
    known = tuple(
        (id(p.layer.mask), p.layer.start, p.T, p.S, p.first, id(p.entries)) for p in strand.pieces
    )
    if (known, keys) not in rules:
        rules[known, keys] = _mask(strand.pieces, keys, strand.cross, len(q))
    options = dict(strand.layer.options)
    bias = _bias(strand, keys)
    options.pop("bias", None)
    if bias is not None:
        options["bias"] = bias
    return replace(strand.layer, q=q, k=k, mask=rules[known, keys], start=None, options=options)


def _mask(pieces: list[Piece], keys: int, cross: bool, batch: int) -> Mask | None:
    """Who all rows may attend to, among all keys of the sequence."""
    starts, stops = [], []
    for piece in pieces:
        found = _ranges(piece, batch)
        if found is None:
            return keep(_dense_mask(pieces, keys, batch))
        starts.append(found[0] + piece.first)
        stops.append(np.minimum(found[1] + piece.first, keys))
    start, stop = np.concatenate(starts, -1), np.concatenate(stops, -1)
    T = start.shape[-1]
    if (start == 0).all() and (stop == np.arange(keys - T, keys) + 1).all():
        return causal()
    if (start == 0).all() and (stop == keys).all():
        return None
    if (start == start[:1]).all() and (stop == stop[:1]).all():
        return Spans(start[0], stop[0])
    return Spans(start, stop)


def _ranges(piece: Piece, batch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """(B, T) each row's run of keys, those of the call; None where it is not one run."""
    mask, T, S = piece.layer.mask, piece.T, piece.S
    if mask is None:
        start, stop = np.zeros(T, np.int64), np.full(T, S, np.int64)
    else:
        ranges = _call(piece, batch).ranges
        if ranges is None or ranges.start.shape[-1] > 1:
            return None
        start, stop = ranges.start[..., 0], ranges.stop[..., 0]
        some = start < stop
        start, stop = np.where(some, start, 0), np.where(some, stop, 0)
    start, stop = (np.broadcast_to(a, (batch, T)) for a in (start, stop))
    if piece.entries is not None:
        start, stop = start[piece.entries], stop[piece.entries]
    return start, stop


def _call(piece: Piece, batch: int) -> Any:
    """The call's mask as the core reads it, over queries and keys of width 1."""
    import torch

    q = torch.empty(batch, 1, 1, 1).expand(batch, 1, piece.T, 1)
    k = torch.empty(batch, 1, 1, 1).expand(batch, 1, piece.S, 1)
    return check(q, k, None, piece.layer.mask, start=piece.layer.start)


def _dense_mask(pieces: list[Piece], keys: int, batch: int) -> Any:
    """(B, H or 1, T, S) where a call's mask has no other form."""
    import torch

    strips = []
    for piece in pieces:
        call = _call(piece, batch)
        seen = call.seen(call.frame)
        seen = torch.ones(1, dtype=torch.bool) if seen is None else torch.as_tensor(seen)
        seen = (
            seen.expand(batch, *(1,) * (3 - max(seen.ndim, 2)), piece.T, piece.S)
            if (seen.ndim <= 2)
            else seen.expand(batch, seen.shape[-3], piece.T, piece.S)
        )
        if seen.ndim == 3:
            seen = seen[:, None]
        if piece.entries is not None:
            seen = seen[piece.entries]
        room = torch.nn.functional.pad(seen, (piece.first, max(0, keys - piece.first - piece.S)))
        strips.append(room[..., :keys])
    heads = max(strip.shape[1] for strip in strips)
    return torch.cat([strip.expand(-1, heads, -1, -1) for strip in strips], -2)


def _bias(strand: Strand, keys: int) -> Any:
    """What is added to all rows: the widest table of distances, or the calls' rows put together."""
    import torch

    given = [piece.layer.options.get("bias") for piece in strand.pieces]
    if all(bias is None for bias in given):
        return None
    tables = [bias.table for bias in given if isinstance(bias, Relative)]
    if len(tables) == len(given):
        return relative(max(tables, key=lambda table: int(table.shape[-1])))
    rows = []
    q, k = strand.q.rows, strand.k.rows
    B, H = q.shape[:2]
    for piece, bias in zip(strand.pieces, given, strict=True):
        if bias is None:
            rows.append(q.new_zeros(B, H, piece.T, keys))
            continue
        call = check(
            q[..., : piece.T, :], k[..., :1, :].expand(*k.shape[:2], piece.S, k.shape[-1]), None,
            bias=bias, start=piece.layer.start,
        )  # fmt: skip
        assert call.bias is not None
        strip = call.bias.over(call.frame, q.dtype).expand(B, H, piece.T, piece.S)
        if piece.entries is not None:
            strip = strip[piece.entries]
        room = (piece.first, max(0, keys - piece.first - piece.S))
        rows.append(torch.nn.functional.pad(strip, room)[..., :keys])
    return dense(torch.cat(rows, -2))
