"""How scores are shaped by position, as values: ``alibi(8) + relative(table) + array``.

A score holds no n × n array (but a dense one that it was given) and no alignment of its own: it
is asked for one strip of the matrix at a time, and reads the positions from the call's frame.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError
from regard._shapes import Array, check_fits, times
from regard.rules.frame import Frame
from regard.rules.rule import Rule, flatten

Place: TypeAlias = tuple[Any, ...]
"""An index into an array: the part of it that a strip reads."""
WHOLE: Place = (...,)


class Score(Rule, ABC):
    """Something added to the scores; ``a + b`` adds both."""

    @abstractmethod
    def check(self, frame: Frame) -> None:
        """Raise an error that says so if the score does not fit the call."""

    @abstractmethod
    def strip(self, frame: Frame, pieces: list[Array]) -> Array:
        """What is added over ``frame``, (…, H, t, w) or less, from the arrays' pieces at ``at``."""

    def line(self, frame: Frame, far: NDArray[np.int64]) -> Array:
        """The score at the distances j − i = ``far``, where it is one of these alone.

        ``far`` is (n,), or (…, n) by batch entry; the line (…, H or 1, n).
        """
        raise NotImplementedError(type(self).__name__)

    def at(self, frame: Frame) -> list[Place]:
        """The part of each array that the strip over ``frame`` reads."""
        return [WHOLE for _ in flatten(self).arrays]

    def rows(self, frame: Frame, order: NDArray[np.int64]) -> Score:
        """The score of some of the queries only."""
        return self

    def over(self, frame: Frame, dtype: Any) -> Array:
        """The strip over ``frame``, from the whole arrays, computed in ``dtype``."""
        arrays = [frame.xp.astype(a, dtype, copy=False) for a in flatten(self).arrays]
        return self.strip(frame, [a[i] for a, i in zip(arrays, self.at(frame), strict=True)])

    def __add__(self, other: Any) -> Score:
        return Sum(self, as_score(other))

    def __radd__(self, other: Any) -> Score:
        return Sum(as_score(other), self)

    __array_ufunc__ = None
    """NumPy leaves ``array + score`` to us."""


def _ends(at: NDArray[np.int64]) -> tuple[int, ...]:
    """The least and the largest of some positions, if there are any."""
    return (int(at.min()), int(at.max())) if at.size else ()


def as_score(bias: Any) -> Score:
    """``bias`` as a value: an array becomes ``Dense``."""
    if isinstance(bias, Score):
        return bias
    if not hasattr(bias, "shape") or not hasattr(bias, "dtype"):
        raise KindError(
            "bias must be an array that broadcasts to (…, H, T, S), or a value such as alibi(8) or "
            f"relative(table), or a sum of them, but it is a {type(bias).__name__}"
        )
    return Dense(bias)


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Score):
    """An array that broadcasts to (…, H, T, S)."""

    array: Array
    arrays: ClassVar[dict[str, int]] = {"array": 3}

    def check(self, frame: Frame) -> None:
        check_fits("bias", self.array, frame.sizes)

    def at(self, frame: Frame) -> list[Place]:
        return [frame.place(self.array)]

    def rows(self, frame: Frame, order: NDArray[np.int64]) -> Score:
        if self.array.shape[-2] == 1:
            return self
        return Dense(frame.xp.take(self.array, frame.move(order), axis=-2))

    def strip(self, frame: Frame, pieces: list[Array]) -> Array:
        return pieces[0]

    def __repr__(self) -> str:
        return f"<{times(self.array.shape)} bias>"


@dataclass(frozen=True, eq=False, repr=False)
class Alibi(Score):
    """See :func:`alibi`; ``slopes`` (…, H)."""

    slopes: Array
    arrays: ClassVar[dict[str, int]] = {"slopes": 1}

    def check(self, frame: Frame) -> None:
        lead = tuple(self.slopes.shape[:-1])
        if lead not in ((), frame.sizes.lead) or self.slopes.shape[-1] != frame.sizes.H:
            raise ShapeError(
                f"alibi(slopes) must have one slope a query head, shape ({frame.sizes.H},), or "
                f"that for each batch entry, but its shape is {tuple(self.slopes.shape)}"
            )

    def strip(self, frame: Frame, pieces: list[Array]) -> Array:
        (slopes,) = pieces
        far = np.abs(frame.query_positions()[..., None] - frame.key_positions())
        far_HTS = frame.move(far) if far.ndim == 2 else frame.move(far)[..., None, :, :]
        return -slopes[..., None, None] * frame.xp.astype(far_HTS, slopes.dtype)

    def line(self, frame: Frame, far: NDArray[np.int64]) -> Array:
        slopes = frame.xp.astype(self.slopes, frame.xp.float64)
        steps = frame.move(np.abs(far) if far.ndim == 1 else np.abs(far)[..., None, :])
        line = -slopes[..., None] * frame.xp.astype(steps, slopes.dtype)
        wide = frame.xp.float64 if self.slopes.dtype == frame.xp.float64 else frame.xp.float32
        return frame.xp.astype(line, wide)

    def __repr__(self) -> str:
        return f"alibi(<{self.slopes.shape[-1]} slopes>)"


@dataclass(frozen=True, eq=False, repr=False)
class Relative(Score):
    """See :func:`relative`; ``table`` (…, H or 1, N)."""

    table: Array
    arrays: ClassVar[dict[str, int]] = {"table": 2}

    def check(self, frame: Frame) -> None:
        if self.table.shape[-2] not in (1, frame.sizes.H):
            raise ShapeError(
                f"relative(table) must have one row a query head, H = {frame.sizes.H}, or one for "
                f"all, but its table is {tuple(self.table.shape)}"
            )

    def strip(self, frame: Frame, pieces: list[Array]) -> Array:
        (table,) = pieces
        xp, rows = frame.xp, len(frame.query_index())
        i, j = frame.query_positions(), frame.key_positions()
        if frame.order is not None or rows == 0 or len(j) == 0:
            far = j - i[..., None]
            line = far.reshape(*far.shape[:-2], far.shape[-2] * far.shape[-1])
            looked_up = self._look_up(frame, table, line)
            return xp.reshape(looked_up, (*looked_up.shape[:-1], *far.shape[-2:]))
        # The queries follow one another, so the strip has only t + w − 1 distances.  Each row is
        # the one above it moved a step: the distances written again and again without a gap, and
        # read in rows that are one shorter, are that.
        length = rows + len(j)
        at = np.arange(length)
        at = np.where(at < len(j), at, at - length) + (j[0] - i[..., :1])
        line = self._look_up(frame, table, at)[..., None, :]
        again = xp.broadcast_to(line, (*line.shape[:-2], rows, length))
        flat = xp.reshape(again, (*line.shape[:-2], rows * length))[..., : rows * (length - 1)]
        return xp.reshape(flat, (*line.shape[:-2], rows, length - 1))[..., : len(j)]

    def line(self, frame: Frame, far: NDArray[np.int64]) -> Array:
        return self._look_up(frame, self.table, far)

    def _look_up(self, frame: Frame, table: Array, far: NDArray[np.int64]) -> Array:
        """The bias at the distances ``far``, (n,) or (…, n) by batch entry: (…, H, n)."""
        n, xp = table.shape[-1], frame.xp
        index = frame.move(np.clip(far + n // 2, 0, n - 1))
        if far.ndim == 1:
            return xp.take(table, index, axis=-1)
        lead = np.broadcast_shapes(table.shape[:-2], far.shape[:-1])
        full = (*lead, table.shape[-2])
        index = xp.broadcast_to(index[..., None, :], (*full, far.shape[-1]))
        return xp.take_along_axis(xp.broadcast_to(table, (*full, n)), index, axis=-1)

    def __repr__(self) -> str:
        return f"relative(<{times(self.table.shape)}>)"


@dataclass(frozen=True, eq=False, repr=False)
class T5(Score):
    """See :func:`t5_relative`; ``weight`` (…, buckets, H)."""

    weight: Array
    both_ways: int
    farthest: int
    arrays: ClassVar[dict[str, int]] = {"weight": 2}
    numbers = ("both_ways", "farthest")

    def check(self, frame: Frame) -> None:
        if self.weight.shape[-1] != frame.sizes.H:
            raise ShapeError(
                f"t5_relative(weight) must have one column a query head, H = {frame.sizes.H}, but "
                f"its weight is {tuple(self.weight.shape)}"
            )

    def strip(self, frame: Frame, pieces: list[Array]) -> Array:
        (weight,) = pieces
        table = self.table(frame, weight)
        return Relative(table).strip(frame, [table])

    def line(self, frame: Frame, far: NDArray[np.int64]) -> Array:
        return Relative(self.table(frame, self.weight)).line(frame, far)

    def table(self, frame: Frame, weight: Array) -> Array:
        """(…, H, N) the bias of each distance that occurs in ``frame``, as ``Relative`` has it."""
        i, j = frame.query_positions(), frame.key_positions()
        reach = max((int(abs(a - b)) for a in _ends(i) for b in _ends(j)), default=0)
        reach = min(self.farthest, reach)
        buckets = frame.move(self.buckets(np.arange(-reach, reach + 1)))
        return frame.xp.matrix_transpose(frame.xp.take(weight, buckets, axis=-2))

    def buckets(self, distance: NDArray[np.int64]) -> NDArray[np.int64]:
        """The bucket of each distance j − i: exact while near, then logarithmic."""
        n = self.weight.shape[-2]
        half = n // 2 if self.both_ways else n
        after = np.where(distance > 0, half, 0) if self.both_ways else 0
        near = np.abs(distance) if self.both_ways else np.maximum(-distance, 0)
        exact = half // 2
        # In float32, where T5 computed it: a bucket's edge must fall on the same side.
        share = np.log(np.maximum(near, 1).astype(np.float32) / exact) / np.float32(
            math.log(self.farthest / exact)
        )
        logarithmic = np.minimum(exact + (share * (half - exact)).astype(np.int64), half - 1)
        return np.asarray(after + np.where(near < exact, near, logarithmic))

    def __repr__(self) -> str:
        return f"t5_relative(<{times(self.weight.shape)}>)"


@dataclass(frozen=True)
class Sum(Score):
    """Two scores, both added."""

    left: Score
    right: Score
    rules = ("left", "right")

    def check(self, frame: Frame) -> None:
        self.left.check(frame)
        self.right.check(frame)

    def at(self, frame: Frame) -> list[Place]:
        return self.left.at(frame) + self.right.at(frame)

    def rows(self, frame: Frame, order: NDArray[np.int64]) -> Score:
        return Sum(self.left.rows(frame, order), self.right.rows(frame, order))

    def strip(self, frame: Frame, pieces: list[Array]) -> Array:
        n = len(flatten(self.left).arrays)
        return self.left.strip(frame, pieces[:n]) + self.right.strip(frame, pieces[n:])

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"
