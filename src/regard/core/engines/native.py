"""The engine ``native``: C++ for NumPy arrays and torch tensors on a CPU (the sources: native/).

It takes arrays by address and strides, without a copy as long as the last axis is contiguous.  Key
ranges skip tiles; any other mask is evaluated for some rows at a time.  Nothing that is hidden
reaches an output, whatever stands there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array, dtype_name
from regard.core.call import Call
from regard.core.modes import is_torch
from regard.core.reducers import Lse, Mixed, Reducer
from regard.rules.masks import Keep
from regard.rules.scores import Dense, Score, Sum

_native: Any = None
_missing = ""
try:
    from regard.core.engines import _native as _found

    _native = _found
except ImportError as error:
    _missing = str(error)

name = "native"
why = "the C++ engine, which keeps the contract whatever stands in hidden places"

WIDEST = 256
"""Of D and E."""
BIASES = 4
"""Arrays that may be added to the scores."""
AXES = 8
"""Leading ones."""
MASK = 1 << 24
"""Bytes that a mask which is no key ranges may take at a time."""
CODES = {"float32": 0, "bfloat16": 1, "float16": 2, "float64": 3}


def refuses(call: Call, want: str) -> str | None:
    """Why it cannot do the call; None if it can."""
    if _native is None:
        return f"it was not built when regard was installed ({_missing})"
    if not isinstance(call.q, np.ndarray) and not (call.is_torch and call.q.device.type == "cpu"):
        return "it takes NumPy arrays and torch tensors on a CPU"
    if want == "weights":
        return "it answers no questions about weights"
    assert call.v is not None, "only weights come without values"
    if max(call.q.shape[-1], call.v.shape[-1]) > WIDEST:
        return f"it takes heads of width {WIDEST} at most"
    if len(call.sizes.lead) > AXES:
        return f"it takes {AXES} leading axes at most"
    if call.bias is not None and len(_parts(call.bias)) > BIASES:
        return f"it adds {BIASES} scores at most"
    return None


def dislikes(call: Call) -> str | None:
    """Why ``auto`` should rather take another engine, though this one could do the call."""
    if call.differentiated:
        return "its derivatives come from tiles"
    return None


def compute(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    """The output, lse, or both."""
    wanted = {type(reducer) for reducer in reducers}
    assert wanted <= {Mixed, Lse}, "it answers no questions"
    assert call.v is not None, "only weights come without values"
    T, shape = call.sizes.T, call.q.shape[:-1]
    output = _empty(call, (*shape, call.v.shape[-1]), call.v.dtype) if Mixed in wanted else None
    wide = call.xp.float64 if dtype_name(call.q) == "float64" else call.xp.float32
    lse = _empty(call, shape, wide) if Lse in wanted else None
    threshold = round(call.dropout * 2**32)
    for rows, seen in _strips(call):
        part = _Part(call, rows)
        found = [
            CODES[dtype_name(call.q)], len(call.sizes.lead), *call.sizes.lead,
            call.sizes.H, call.sizes.G, rows.stop - rows.start, call.sizes.S, call.sizes.D,
            call.v.shape[-1],
        ]  # fmt: skip
        found += part.array(_contiguous(call.q), rows) + part.array(_contiguous(call.k))
        found += part.array(_contiguous(call.v)) + part.array(output, rows)
        found += part.array(None if lse is None else lse[..., None], rows)
        found += part.sink(wide) + part.ranges() + part.array(seen)
        found += [min(threshold, 2**32 - 1), call.seed, T, rows.start, prod(call.frame.sizes.lead)]
        found += part.biases()
        _native.attend(tuple(found), call.scale, call.softcap or 0.0, 1 / (1 - call.dropout))
    both = {Mixed: output, Lse: lse}
    return [both[type(reducer)] for reducer in reducers]


def _empty(call: Call, shape: tuple[int, ...], dtype: Any) -> Array:
    return call.xp.empty(shape, dtype=dtype, device=call.frame.device)


def _contiguous(array: Array) -> Array:
    """``array``, or a copy if its last axis is not contiguous."""
    if array.shape[-1] < 2 or _steps(array)[-1] == 1:
        return array
    return array.contiguous() if is_torch(array) else np.ascontiguousarray(array)


def _steps(array: Array) -> tuple[int, ...]:
    """The strides in items."""
    if is_torch(array):
        return tuple(array.stride())
    return tuple(n // array.itemsize for n in array.strides)


def _strips(call: Call) -> Iterator[tuple[slice, Array | None]]:
    """All rows at once, or, where a mask is no ranges, some rows and what they may see."""
    sizes = call.sizes
    every = slice(0, sizes.T)
    if call.mask is None or call.ranges is not None:
        yield every, None
        return
    if isinstance(call.mask, Keep):
        yield every, call.seen(call.frame)
        return
    height = max(1, MASK // max(1, sizes.rows * sizes.S))
    for top in range(0, max(sizes.T, 1), height):
        rows = slice(top, min(top + height, sizes.T))
        yield rows, call.seen(call.frame.cut(rows, call.frame.keys))


def _parts(score: Score) -> list[Score]:
    """The scores that a sum adds up."""
    return _parts(score.left) + _parts(score.right) if isinstance(score, Sum) else [score]


@dataclass
class _Part:
    """Some rows of a call in plain numbers; what they point at lives as long as this does."""

    call: Call
    rows: slice

    def __post_init__(self) -> None:
        self.alive: list[Any] = []

    def array(self, array: Array | None, rows: slice | None = None) -> list[int]:
        """Address and steps, 0 along what is broadcast; with ``rows``, these of its rows."""
        if array is None:
            return [0]
        self.alive.append(array)
        shape, steps = array.shape, list(_steps(array))
        steps = [0 if n == 1 else step for n, step in zip(shape, steps, strict=True)]
        if is_torch(array):
            address, size = array.data_ptr(), array.element_size()
        else:
            address, size = array.__array_interface__["data"][0], array.itemsize
        if rows is not None:
            address += rows.start * steps[-2] * size
        # An address of 0 would mean that there is no such array.
        return [address or 64, *[0] * (len(self.call.sizes.lead) + 3 - len(steps)), *steps]

    def sink(self, wide: Any) -> list[int]:
        """The address of one logit a head."""
        sink = self.call.sink
        if sink is None:
            return [0]
        sink = self.call.xp.astype(sink, wide) + self.call.xp.zeros((), dtype=wide)
        return self.array(sink.contiguous() if is_torch(sink) else sink)[:1]

    def ranges(self) -> list[int]:
        """The addresses of first and last, how many there are a row, and the leading steps."""
        bounds = self.call.bounds
        if bounds is None:
            return [0, 0]
        first, last = (
            np.ascontiguousarray(a[..., self.rows, :]) for a in (bounds.start, bounds.stop)
        )
        lead = len(self.call.sizes.lead)
        steps = [0 if n == 1 else s // 8 for n, s in zip(first.shape, first.strides, strict=True)]
        addresses = [self.array(a)[0] for a in (first, last)]
        return [*addresses, first.shape[-1], *[0] * (lead + 2 - first.ndim), *steps[:-2]]

    def biases(self) -> list[int]:
        """How many, then the dtype and array of each."""
        if self.call.bias is None:
            return [0]
        parts = _parts(self.call.bias)
        found = [len(parts)]
        for part in parts:
            if isinstance(part, Dense):
                found += [
                    CODES[dtype_name(part.array)],
                    *self.array(part.array, self._of(part.array)),
                ]
            else:
                found += self._line(part)
        return found

    def _of(self, array: Array) -> slice | None:
        return None if array.shape[-2] == 1 else self.rows

    def _line(self, score: Score) -> list[int]:
        """A score of the distance alone: one line of numbers, read one further on for each row."""
        frame, T, S = self.call.frame, self.call.sizes.T, self.call.sizes.S
        start = np.asarray(frame.start, dtype=np.int64)[..., None]
        far: NDArray[np.int64] = np.arange(1 - T, max(S, 1 - T)) - start
        line = _contiguous(score.line(frame, far))
        address, *steps = self.array(line[..., None, :])
        if T + S > 2:
            steps[-2:] = [-1, 1]
        size = line.element_size() if is_torch(line) else line.itemsize
        return [CODES[dtype_name(line)], address + (T - 1 - self.rows.start) * size, *steps]
