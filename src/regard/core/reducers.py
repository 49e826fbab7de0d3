"""How each question is answered strip by strip, in memory that grows with T and S, not T × S."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array
from regard.core.arrays import scalar
from regard.rules.frame import Frame


@dataclass(frozen=True)
class Strip:
    """The weights of some queries over a run of keys; the keys left out have weight 0."""

    weights: Array
    """(…, H, t, w)"""
    lse: Array
    """(…, H, t)"""
    sink: Array | None
    """(…, H, t) the sink's own weight."""
    frame: Frame


class Reducer(ABC):
    """Takes strips in the order of their rows and gives one answer."""

    width = 1
    """How many arrays a part holds."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @abstractmethod
    def part(self, strip: Strip) -> tuple[Array, ...]:
        """What is kept of a strip: a pure function, so that autograd may compute it again."""

    @abstractmethod
    def add(self, frame: Frame, part: tuple[Array, ...]) -> None:
        """Take in the part of the strip over ``frame``."""

    @abstractmethod
    def result(self) -> Any:
        """The answer, once every strip has been added."""


class PerQuery(Reducer):
    """An answer with a row for each query: the parts lie one after another."""

    axis = -1
    """Where the queries are, counted from the end."""

    def __init__(self, frame: Frame, rows: int | None = None) -> None:
        super().__init__(frame)
        self.rows = frame.sizes.T if rows is None else rows
        self.columns: list[Array] = []
        self.filled = 0

    def add(self, frame: Frame, part: tuple[Array, ...]) -> None:
        # The columns are made whole at once.  Small parts kept from every strip would each pin
        # a piece of the heap that the large strips come and go in, and it would grow with T × S.
        if not self.columns:
            self.columns = [self._column(p) for p in part]
        t = part[0].shape[self.axis]
        place = (..., slice(self.filled, self.filled + t), *[slice(None)] * (-1 - self.axis))
        for column, p in zip(self.columns, part, strict=True):
            column[place] = p
        self.filled += t

    def _column(self, part: Array) -> Array:
        shape = list(part.shape)
        shape[self.axis] = self.rows
        return self.frame.xp.empty(tuple(shape), dtype=part.dtype, device=self.frame.device)

    def result(self) -> Any:
        return self.answer(*self.columns)

    def answer(self, *columns: Array) -> Any:
        """The answer from the whole columns; one array unless said otherwise."""
        (only,) = columns
        return only


class Lse(PerQuery):
    """(…, H, T) the logarithm of each row's normaliser."""

    def part(self, strip: Strip) -> tuple[Array, ...]:
        return (strip.lse,)


class Entries(PerQuery):
    """(…, H, t, n) the weights on ``keys`` themselves."""

    axis = -2

    def __init__(self, frame: Frame, keys: NDArray[np.int64], rows: int) -> None:
        super().__init__(frame, rows)
        self.keys = keys

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp, at = self.frame.xp, strip.frame.keys
        inside = (self.keys >= at.start) & (self.keys < at.stop)
        if not inside.any():
            shape = (*strip.weights.shape[:-1], len(self.keys))
            return (xp.zeros(shape, dtype=strip.weights.dtype, device=self.frame.device),)
        index = self.frame.move(np.where(inside, self.keys - at.start, 0))
        picked = xp.take(strip.weights, index, axis=-1)
        return (xp.where(self.frame.move(inside), picked, scalar(picked, 0.0)),)


class Strongest(PerQuery):
    """The k largest weights of each query, and their keys."""

    width = 2
    axis = -2

    def __init__(self, frame: Frame, k: int, answer: Callable[[Array, Array], Any]) -> None:
        super().__init__(frame)
        self.k = k
        self.answer = answer  # type: ignore[method-assign]

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp, w = self.frame.xp, strip.weights
        values, index = largest(xp, w, min(self.k, w.shape[-1]))
        none = xp.full((), -1, dtype=index.dtype, device=self.frame.device)
        index = xp.where(values > 0, index + strip.frame.keys.start, none)
        if missing := self.k - values.shape[-1]:
            shape = (*values.shape[:-1], missing)
            more = {"device": self.frame.device}
            values = xp.concat([values, xp.zeros(shape, dtype=values.dtype, **more)], axis=-1)
            index = xp.concat([index, xp.full(shape, -1, dtype=index.dtype, **more)], axis=-1)
        return values, index


class Entropy(PerQuery):
    """−Σ w ln w over keys and sink."""

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp = self.frame.xp
        total = xp.sum(_surprise(xp, strip.weights), axis=-1)
        if strip.sink is not None:
            total = total + _surprise(xp, strip.sink)
        return (-total,)


def _surprise(xp: Any, w: Array) -> Array:
    """The terms w ln w, 0 at 0: there the logarithm of the smallest number stands in."""
    tiny = scalar(w, xp.finfo(w.dtype).smallest_normal)
    return w * xp.log(xp.maximum(w, tiny))


class Mass(PerQuery):
    """The weight on a set of keys."""

    def __init__(self, frame: Frame, keys: NDArray[np.int64]) -> None:
        super().__init__(frame)
        self.keys = keys

    def part(self, strip: Strip) -> tuple[Array, ...]:
        at = strip.frame.keys
        inside = self.keys[(self.keys >= at.start) & (self.keys < at.stop)] - at.start
        picked = self.frame.xp.take(strip.weights, self.frame.move(inside), axis=-1)
        return (self.frame.xp.sum(picked, axis=-1),)


class Sum(Reducer):
    """An answer that all strips add to; summed in float64, since many rows may add up."""

    total: Array | None = None

    def like(self, part: Array, *axes: int) -> Array:
        """The running total, made on the first part: zeros of the part's lead and ``axes``."""
        if self.total is None:
            xp, lead = self.frame.xp, part.shape[: part.ndim - len(axes)]
            self.total = xp.zeros((*lead, *axes), dtype=xp.float64, device=self.frame.device)
            self.dtype = part.dtype
        return self.total

    def result(self) -> Any:
        assert self.total is not None, "a pass has at least one strip"
        return self.frame.xp.astype(self.total, self.dtype)


class Received(Sum):
    """Σ over the queries of each key's weights."""

    def part(self, strip: Strip) -> tuple[Array, ...]:
        return (self.frame.xp.sum(strip.weights, axis=-2),)

    def add(self, frame: Frame, part: tuple[Array, ...]) -> None:
        self.like(part[0], self.frame.sizes.S)[..., frame.keys] += part[0]


class Diagonals(Sum):
    """Σ along each diagonal of the matrix."""

    def __init__(self, frame: Frame, answer: Callable[[Array, Array], Any]) -> None:
        super().__init__(frame)
        self.answer = answer

    def part(self, strip: Strip) -> tuple[Array, ...]:
        # With the keys reversed, a diagonal runs down to the left.  Rows that are t zeros longer,
        # read again as rows that are one shorter than that, move one step right each: then the
        # diagonals stand upright, and the sum over the rows is the sum along each.
        xp, w = self.frame.xp, self.frame.xp.flip(strip.weights, axis=-1)
        t, width = w.shape[-2:]
        if t == 0 or width == 0:
            return (xp.sum(w, axis=-2),)
        pad = xp.zeros((*w.shape[:-1], t), dtype=w.dtype, device=self.frame.device)
        flat = xp.reshape(xp.concat([w, pad], axis=-1), (*w.shape[:-2], t * (width + t)))
        upright = xp.reshape(flat[..., : t * (width + t - 1)], (*w.shape[:-1], width + t - 1))
        return (xp.sum(upright, axis=-2),)

    def add(self, frame: Frame, part: tuple[Array, ...]) -> None:
        T, S = self.frame.sizes.T, self.frame.sizes.S
        assert isinstance(frame.rows, slice), "diagonals need rows that follow one another"
        total = self.like(part[0], max(T + S - 1, 0))
        first = frame.rows.start - frame.keys.stop + S  # of i − j, counted from −(S − 1)
        total[..., first : first + part[0].shape[-1]] += part[0]

    def result(self) -> Any:
        T, S = self.frame.sizes.T, self.frame.sizes.S
        distance = np.asarray(self.frame.start)[..., None] + np.arange(1 - S, max(T, 1 - S))
        return self.answer(self.frame.move(distance), super().result())


class Pixels(Sum):
    """The mean, largest or sum of the weights in each block."""

    def __init__(
        self, frame: Frame, shape: tuple[int, int], rows: slice, keys: slice, how: str
    ) -> None:
        super().__init__(frame)
        self.rows, self.keys, self.how = rows, keys, how
        self.block = (
            -(-(rows.stop - rows.start) // shape[0]),
            -(-(keys.stop - keys.start) // shape[1]),
        )

    def part(self, strip: Strip) -> tuple[Array, ...]:
        rows, keys = self._overlap(strip.frame)
        at = strip.frame
        assert isinstance(at.rows, slice), "pixels need rows that follow one another"
        row_cut = _within(rows, at.rows.start)
        key_cut = _within(keys, at.keys.start)
        w = strip.weights[..., row_cut, key_cut]
        w = self._pool_rows(w, rows.start - self.rows.start)  # first, since it leaves little
        return (self._pool_keys(w, keys.start - self.keys.start),)

    def _overlap(self, frame: Frame) -> tuple[slice, slice]:
        """The strip's rows and keys that lie in the picture; empty slices if there are none."""
        rows, keys = frame.rows, frame.keys
        assert isinstance(rows, slice), "pixels need rows that follow one another"
        return tuple(  # type: ignore[return-value]
            slice(max(a.start, b.start), max(a.start, b.start, min(a.stop, b.stop)))
            for a, b in ((self.rows, rows), (self.keys, keys))
        )

    def _pool_rows(self, w: Array, offset: int) -> Array:
        """(…, t, n) → (…, blocks, n), the first block of rows begun ``offset`` rows ago."""
        block, t = self.block[0], w.shape[-2]
        if block == 1 or t == 0:
            return w
        edges = [*range(-(offset % block), t, block), t]
        parts = [w[..., max(a, 0) : b, :] for a, b in pairwise(edges)]
        return self.frame.xp.stack([self._reduce(p, -2) for p in parts], axis=-2)

    def _pool_keys(self, w: Array, offset: int) -> Array:
        """(…, h, n) → (…, h, blocks), the first block of keys begun ``offset`` keys ago."""
        block, n = self.block[1], w.shape[-1]
        if block == 1 or n == 0:
            return w
        xp, before = self.frame.xp, offset % block
        after = -(before + n) % block
        lead, zeros = w.shape[:-1], {"dtype": w.dtype, "device": self.frame.device}
        ends = [xp.zeros((*lead, m), **zeros) for m in (before, after)]
        w = xp.concat([ends[0], w, ends[1]], axis=-1)
        return self._reduce(xp.reshape(w, (*lead, w.shape[-1] // block, block)), -1)

    def _reduce(self, w: Array, axis: int) -> Array:
        xp = self.frame.xp
        return xp.max(w, axis=axis) if self.how == "max" else xp.sum(w, axis=axis)

    def add(self, frame: Frame, part: tuple[Array, ...]) -> None:
        rows, keys = self._overlap(frame)
        size = [
            -(-(whole.stop - whole.start) // block)
            for whole, block in zip((self.rows, self.keys), self.block, strict=True)
        ]
        total = self.like(part[0], *size)
        row = (rows.start - self.rows.start) // self.block[0]
        key = (keys.start - self.keys.start) // self.block[1]
        h, w = part[0].shape[-2:]
        if h == 0 or w == 0:
            return
        place = (..., slice(row, row + h), slice(key, key + w))
        xp = self.frame.xp
        new = xp.astype(part[0], total.dtype)
        total[place] = xp.maximum(total[place], new) if self.how == "max" else total[place] + new

    def result(self) -> Any:
        if self.how == "mean":
            assert self.total is not None, "a pass has at least one strip"
            counts = [
                np.minimum(block, n - block * np.arange(-(-n // block)))
                for n, block in (
                    (self.rows.stop - self.rows.start, self.block[0]),
                    (self.keys.stop - self.keys.start, self.block[1]),
                )
            ]
            area = counts[0][:, None] * counts[1]
            self.total = self.total / self.frame.move(area.astype(np.float64))
        return super().result()


def _within(part: slice, start: int) -> slice:
    """``part`` counted from ``start``; an empty one lies nowhere, so it is put at 0."""
    if part.start == part.stop:
        return slice(0, 0)
    return slice(part.start - start, part.stop - start)


def largest(xp: Any, w: Array, k: int) -> tuple[Array, Array]:
    """The k largest of the last axis, largest first, and where they are."""
    if array_api_compat.is_torch_array(w):
        return tuple(w.topk(k, dim=-1))  # type: ignore[return-value]
    if array_api_compat.is_numpy_array(w) and k < w.shape[-1]:
        index = np.argpartition(w, -k, axis=-1)[..., w.shape[-1] - k :]
        order = np.argsort(-np.take_along_axis(w, index, -1), axis=-1, kind="stable")
        index = np.take_along_axis(index, order, -1)
    else:
        index = xp.argsort(w, axis=-1, descending=True)[..., :k]
    return xp.take_along_axis(w, index, axis=-1), index
