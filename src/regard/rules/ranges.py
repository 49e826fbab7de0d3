"""Key ranges: which keys a query may attend to, as a few [start, stop) pairs a query.

A mask that compiles to ranges costs O(T) numbers, never T × S, and an engine reads from them
which keys it need not touch.  How many ranges a query has (r) follows from the mask's expression
alone, so shapes do not depend on data.  The algebra is that of sets of integers below S.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Ranges:
    """For each query at most r ranges [start, stop) of keys: sorted, apart, the empty ones last.

    ``start`` and ``stop`` have shape (T, r), or (…, T, r) where batch entries differ.  An empty
    range is [S, S).
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    S: int

    @classmethod
    def of(cls, start: NDArray[np.int64], stop: NDArray[np.int64], S: int) -> Ranges:
        """One range a query, from bounds of shape (T,) or (…, T), clipped to 0 … S."""
        start, stop = np.broadcast_arrays(np.clip(start, 0, S), np.clip(stop, 0, S))
        empty = start >= stop
        return cls(np.where(empty, S, start)[..., None], np.where(empty, S, stop)[..., None], S)

    def __and__(self, other: Ranges) -> Ranges:
        """What both hold: r + r' − 1 ranges suffice, since both lists are sorted and apart."""
        start = np.maximum(self.start[..., :, None], other.start[..., None, :])
        stop = np.minimum(self.stop[..., :, None], other.stop[..., None, :])
        flat = (*start.shape[:-2], start.shape[-2] * start.shape[-1])
        r = start.shape[-2] + start.shape[-1] - 1
        return _sorted(start.reshape(flat), stop.reshape(flat), self.S, r)

    def __or__(self, other: Ranges) -> Ranges:
        """What either holds: the complement of what neither does, at most r + r' ranges."""
        union = ~(~self & ~other)
        r = self.start.shape[-1] + other.start.shape[-1]
        return Ranges(union.start[..., :r], union.stop[..., :r], self.S)

    def __invert__(self) -> Ranges:
        """What is left of 0 … S: the gaps before, between and after, r + 1 of them."""
        lead = self.start.shape[:-1]
        start = np.concatenate([np.zeros((*lead, 1), np.int64), self.stop], axis=-1)
        stop = np.concatenate([self.start, np.full((*lead, 1), self.S, np.int64)], axis=-1)
        return _sorted(start, stop, self.S, start.shape[-1])

    def take(self, rows: slice | NDArray[np.int64]) -> Ranges:
        """The ranges of some of the queries."""
        return Ranges(self.start[..., rows, :], self.stop[..., rows, :], self.S)

    def cover(self, keys: slice) -> bool:
        """Whether every query may see all of ``keys``, in one range."""
        return bool(np.all(np.any((self.start <= keys.start) & (self.stop >= keys.stop), axis=-1)))

    def hull(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first key and the one after the last that each query may see; (S, 0) if none."""
        first = self.start.min(axis=-1)
        last = np.where(self.start < self.stop, self.stop, 0).max(axis=-1)
        return first, last


def _sorted(start: NDArray[np.int64], stop: NDArray[np.int64], S: int, r: int) -> Ranges:
    """The first ``r`` ranges by start, the empty ones moved to the end as [S, S)."""
    empty = start >= stop
    start, stop = np.where(empty, S, start), np.where(empty, S, stop)
    order = np.argsort(start, axis=-1, kind="stable")[..., :r]
    return Ranges(np.take_along_axis(start, order, -1), np.take_along_axis(stop, order, -1), S)
