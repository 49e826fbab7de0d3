"""A matrix as a picture: the mean, largest or sum of the weights in each block."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from regard._shapes import Array
from regard.core.reducers import Output, Strip, Total
from regard.rules.frame import Frame
from regard.rules.scores import Place


class Pixels(Total):
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
        row_cut = _within(rows, at.rows.start)
        key_cut = _within(keys, at.keys.start)
        w = strip.weights[..., row_cut, key_cut]
        w = self._pool_rows(w, rows.start - self.rows.start)  # first, since it leaves little
        return (self._pool_keys(w, keys.start - self.keys.start),)

    def _overlap(self, frame: Frame) -> tuple[slice, slice]:
        """The strip's rows and keys that lie in the picture; empty slices if there are none."""
        rows, keys = frame.rows, frame.keys
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

    def outputs(self) -> list[Output]:
        mode: Literal["max", "add"] = "max" if self.how == "max" else "add"
        return [Output(self._whole, mode, sums=self.frame.xp.float64)]

    def shape(self) -> tuple[int, ...]:
        return tuple(
            -(-(whole.stop - whole.start) // block)
            for whole, block in zip((self.rows, self.keys), self.block, strict=True)
        )

    def at(self, frame: Frame) -> Place:
        places: list[Any] = [...]
        for whole, part, block in zip(
            (self.rows, self.keys), self._overlap(frame), self.block, strict=True
        ):
            first = (part.start - whole.start) // block
            last = -(-(part.stop - whole.start) // block)
            places.append(slice(first, last) if part.stop > part.start else slice(0, 0))
        return tuple(places)

    def result(self, *wholes: Array) -> Any:
        if self.how != "mean":
            return wholes[0]
        counts = [
            np.minimum(block, n - block * np.arange(-(-n // block)))
            for n, block in (
                (self.rows.stop - self.rows.start, self.block[0]),
                (self.keys.stop - self.keys.start, self.block[1]),
            )
        ]
        area = self.frame.move((counts[0][:, None] * counts[1]).astype(np.float64))
        return wholes[0] / self.frame.xp.astype(area, wholes[0].dtype)


def _within(part: slice, start: int) -> slice:
    """``part`` counted from ``start``; an empty one lies nowhere, so it is put at 0."""
    if part.start == part.stop:
        return slice(0, 0)
    return slice(part.start - start, part.stop - start)
