"""Documents packed into one sequence: each query sees the keys of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard._shapes import times
from regard.rules.frame import Frame
from regard.rules.masks import Mask
from regard.rules.ranges import Ranges


class Apart(Mask, ABC):
    """What the two ways of giving documents share."""

    @property
    @abstractmethod
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The first key, and the one after the last, of each key's own document: (…, S) each."""

    def ranges(self, frame: Frame) -> Ranges:
        S = frame.sizes.S
        firsts, ends = self.spans
        shape = firsts.shape
        if shape[-1] != S or (len(shape) > 1 and shape[:-1] != frame.sizes.lead):
            raise ShapeError(
                f"documents(...) must cover the S = {S} keys of the call, once or once per batch "
                f"entry {(*frame.sizes.lead, S)}, but it covers {shape}"
            )
        at = frame.query_positions()
        if S == 0:
            return Ranges.of(np.zeros_like(at), np.zeros_like(at), S)
        inside = (at >= 0) & (at < S)
        at = np.where(inside, at, 0)
        if len(shape) == 1:
            first, end = firsts[at], ends[at]
        else:
            at = np.broadcast_to(at, (*shape[:-1], at.shape[-1]))
            first, end = (np.take_along_axis(a, at, -1) for a in (firsts, ends))
        return Ranges.of(np.where(inside, first, S), end, S)


@dataclass(frozen=True, eq=False, repr=False)
class Documents(Apart):
    """See :func:`documents`; the number of each key's document, (…, S)."""

    ids: NDArray[np.int64]
    positions = ("ids",)

    @cached_property
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        ids, S = self.ids, self.ids.shape[-1]
        at, edge = np.arange(S), ids[..., 1:] != ids[..., :-1]
        first = np.zeros(ids.shape, np.int64)
        first[..., 1:] = np.where(edge, at[1:], 0)
        end = np.full(ids.shape, S)
        end[..., :-1] = np.where(edge, at[1:], S)
        return (
            np.maximum.accumulate(first, axis=-1),
            np.minimum.accumulate(end[..., ::-1], axis=-1)[..., ::-1],
        )

    def __repr__(self) -> str:
        if self.ids.ndim > 1:
            return f"documents(<{times(self.ids.shape)} ids>)"
        first = np.unique(self.spans[0])
        return _documents(np.diff(np.append(first, self.ids.shape[-1])))


@dataclass(frozen=True, eq=False, repr=False)
class Packed(Apart):
    """See :func:`documents`; where each begins, then S."""

    cumulative: NDArray[np.int64]
    positions = ("cumulative",)

    @cached_property
    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        edges = self.cumulative
        sizes = np.diff(edges)
        return np.repeat(edges[:-1], sizes), np.repeat(edges[1:], sizes)

    def __repr__(self) -> str:
        return _documents(np.diff(self.cumulative))


def _documents(sizes: NDArray[np.int64]) -> str:
    return f"documents(lengths={np.array2string(sizes, separator=', ', threshold=8)})"
