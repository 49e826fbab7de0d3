"""What reducers ask of the weights, in the plain numbers that a compiled engine takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array
from regard.core.arrays import accumulator, address
from regard.core.call import Call
from regard.core.pixels import Pixels
from regard.core.reducers import (
    Diagonals,
    Entries,
    Entropy,
    Lse,
    Mass,
    Mixed,
    Received,
    Reducer,
    Strongest,
)

ANSWERED = (Diagonals, Entries, Entropy, Lse, Mass, Mixed, Pixels, Received, Strongest)
"""What such an engine answers."""
MOST = 16
"""Questions that one pass takes (native/ask.h)."""


class Answers:
    """Arrays for the answers of a call, which an engine fills, and where they lie, as numbers.

    What has a row for each query is in float32 at least.  Totals over queries are in float64 while
    they are added up, and begin with 0.
    """

    def __init__(self, call: Call, reducers: Sequence[Reducer]) -> None:
        assert len(reducers) <= MOST
        self.call = call
        self.wide = accumulator(call.xp, call.q)
        self.found = [(reducer, self._empty(reducer)) for reducer in reducers]
        self.alive: list[NDArray[Any]] = []

    def numbers(self) -> tuple[int, ...]:
        """The questions in the order of ``ask`` in native/bindings.cpp."""
        once = (self._of(kind) for kind in (Lse, Entropy, Received, Diagonals))
        lse, entropy, received, distance = (address(f[0][1][0]) if f else 0 for f in once)
        return (
            *(lse, entropy, received, self.call.sizes.S, distance),
            *self._each(Strongest, lambda asked: (asked.k,)),
            *self._each(Mass, self._marks),
            *self._each(Entries, self._keys),
            *self._each(Pixels, _picture),
        )

    def arrays(self) -> list[Array]:
        """Every reducer's arrays in turn."""
        xp = self.call.xp
        for kind in (Lse, Entropy, Received, Diagonals):  # asked twice, they are found once
            for _, arrays in (same := self._of(kind))[1:]:
                arrays[:] = same[0][1]
        found = [array for _, arrays in self.found for array in arrays]
        whole = (self.wide, xp.int64)
        return [a if a.dtype in whole else xp.astype(a, self.wide) for a in found]

    def _empty(self, reducer: Reducer) -> list[Array]:
        sizes, xp, wide = self.call.sizes, self.call.xp, self.wide
        device = self.call.frame.device
        first = (*sizes.lead, sizes.H)
        if isinstance(reducer, Received | Diagonals | Pixels):
            return [xp.zeros((*first, *reducer.shape()), dtype=xp.float64, device=device)]
        rows: tuple[int, ...] = (*first, sizes.T)
        dtypes = [wide]
        if isinstance(reducer, Strongest):
            rows, dtypes = (*rows, reducer.k), [wide, xp.int64]
        elif isinstance(reducer, Entries):
            rows = (*rows, len(reducer.keys))
        return [xp.empty(rows, dtype=dtype, device=device) for dtype in dtypes]

    def _of(self, kind: type[Reducer]) -> list[tuple[Any, list[Array]]]:
        return [pair for pair in self.found if type(pair[0]) is kind]

    def _each(self, kind: type[Reducer], words: Callable[[Any], Sequence[int]]) -> list[int]:
        """How many of a kind there are, then of each its own words and where its arrays lie."""
        pairs = self._of(kind)
        numbers = [len(pairs)]
        for asked, arrays in pairs:
            numbers += [*words(asked), *map(address, arrays)]
        return numbers

    def _marks(self, asked: Mass) -> tuple[int, int, int]:
        """A mark for each key, whether it is in the set, and the keys that hold the set."""
        marks = np.zeros(self.call.sizes.S, np.uint32)
        marks[asked.keys] = 1
        first, last = (asked.keys[0], asked.keys[-1] + 1) if asked.keys.size else (0, 0)
        return self._kept(marks), int(first), int(last)

    def _keys(self, asked: Entries) -> tuple[int, int]:
        return self._kept(np.ascontiguousarray(asked.keys, np.int64)), len(asked.keys)

    def _kept(self, array: NDArray[Any]) -> int:
        """The address of an array that lives as long as this does."""
        self.alive.append(array)
        return address(array)


def _picture(asked: Pixels) -> tuple[int, ...]:
    rows, keys = asked.rows, asked.keys
    return (
        asked.how == "max",
        *(rows.start, rows.stop, asked.block[0]),
        *(keys.start, keys.stop, asked.block[1]),
    )
