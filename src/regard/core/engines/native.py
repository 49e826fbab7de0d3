"""The engine ``native``: C++ for NumPy arrays and torch tensors on a CPU (the sources: native/).

It takes arrays by address and strides, without a copy as long as the last axis is contiguous.  Key
ranges skip tiles; any other mask is evaluated for some rows at a time.  Nothing that is hidden
reaches an output, whatever stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import prod, sqrt
from typing import Any

import numpy as np

from regard._shapes import Array, count, dtype_name
from regard.core.arrays import accumulator, address, contiguous, empty, empty_like, place, strides
from regard.core.asked import ANSWERED, MOST, Answers
from regard.core.call import Call
from regard.core.learned import Learned, line_of, parts_of, wide
from regard.core.reducers import Carried, Lse, Mixed, Reducer
from regard.rules.masks import Keep
from regard.rules.scores import Dense, Score

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
LARGE = 1 << 22
"""Bytes of memory from which it is asked for in large pages."""
CODES = {"float32": 0, "bfloat16": 1, "float16": 2, "float64": 3}


def refuses(call: Call, want: str) -> str | None:
    """Why it cannot do the call; None if it can."""
    if _native is None:
        return f"it was not built when regard was installed ({_missing})"
    q, v = call.q, call.v
    if not (isinstance(q, np.ndarray) or (call.is_torch and q.device.type == "cpu")):
        return "it takes NumPy arrays and torch tensors on a CPU"
    if q.shape[-1] > WIDEST or (v is not None and v.shape[-1] > WIDEST):
        return f"it takes heads of width {WIDEST} at most"
    if len(call.sizes.lead) > AXES:
        return f"it takes {AXES} leading axes at most"
    if call.bias is not None and len(parts_of(call.bias)) > BIASES:
        return f"it adds {BIASES} scores at most"
    return None


def dislikes(call: Call) -> str | None:
    """Why ``auto`` should rather take another engine, though this one could do the call."""
    if dtype_name(call.q) == "float64" and call.differentiated:
        return "it computes gradients in float64 one row after another"
    return None


def lacks(call: Call, reducers: Sequence[Reducer]) -> str | None:
    """Why it cannot answer some of these questions; None if it can."""
    kinds = {type(reducer) for reducer in reducers}
    if not kinds <= {*ANSWERED, Carried}:
        return "it knows no mass(mask)"
    if Carried not in kinds:
        return None
    if not call.is_torch or dtype_name(call.q) not in ("float32", "float64"):
        return "it knows received(by) of torch tensors in float32 and float64 only"
    return None if call.clean_keys else "it knows received(by) of finite queries and keys only"


def set_threads(n: int | None) -> None:
    """How many threads the engine ``native`` may use; None is as many as torch, its start.

    Where torch is not loaded these are as many as the process has processors.  The number of
    threads changes no bit of a result.

    Raises:
        ValueRangeError: n below 1.
        KindError: an n that is no whole number.

    >>> import regard
    >>> regard.set_threads(2)
    >>> regard.set_threads(None)
    """
    threads = 0 if n is None else count("n", n, at_least=1)
    if _native is not None:
        _native.set_threads(threads)


def compute(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    """Every reducer's arrays; the output, lse or both where there are values."""
    wanted = [type(reducer) for reducer in reducers]
    if wanted != [Mixed] and not {Mixed} <= {*wanted} <= {Mixed, Lse}:
        return _ask(call, reducers)
    output, lse = _answers(call, Mixed in wanted, wide(call) if Lse in wanted else None)
    both = {Mixed: output, Lse: lse}
    return [both[kind] for kind in wanted]


def repeat(call: Call) -> Callable[[Array, Array, Array], Array] | None:
    """What computes the next call like this one, of which q, k and v alone are others."""
    every, v = _Part(call, slice(0, call.sizes.T)), call.v
    if v is None or (call.mask is not None and call.ranges is None) or not every.noted(None):
        return None
    first, last = every.ends(None)
    again = _native.Again((*first, 0, 0, 0, 0, 0, 0, *last), *every.factors())  # no place as yet
    shape, bare = (*call.q.shape[:-1], v.shape[-1]), call.bare
    as_q = v.shape[-1] == call.q.shape[-1]

    def compute(q: Array, k: Array, v: Array) -> Array:
        if bare:
            q, k, v = q[None, ...], k[None, ...], v[None, ...]
        output = empty_like(q) if as_q else empty(q, shape, q.dtype)
        if not (again.attend(q, k, v, output) or again.attend(*map(contiguous, (q, k, v)), output)):
            raise AssertionError("copies are contiguous")
        return output[0] if bare else output

    return compute


def remember(call: Call) -> tuple[Array, Array]:
    """The output, and lse in float64: what ``vjp`` wants to know."""
    return _answers(call, True, call.xp.float64)


def _answers(call: Call, mixed: bool, lse_dtype: Any) -> tuple[Any, Any]:
    q, v = call.q, call.v
    assert v is not None, "only weights come without values"
    output = empty(q, (*q.shape[:-1], v.shape[-1]), q.dtype) if mixed else None
    lse = None if lse_dtype is None else empty(q, (*q.shape[:-1], 1), lse_dtype)
    for part, numbers in _calls(call, output, lse):
        _native.attend(numbers, *part.factors())
    return output, None if lse is None else lse[..., 0]


def vjp(
    call: Call, found: Sequence[Array], along: Sequence[Array], wanted: Sequence[bool]
) -> list[Array] | None:
    """The gradients ``wanted`` of ``call.floats``, of torch tensors.

    ``found`` is what ``remember`` found, ``along`` the cotangents of the output and perhaps of lse.
    None where anything that is read is NaN or infinite: to keep that apart needs more care.
    """
    if 0 in (*call.q.shape, *call.k.shape, found[0].shape[-1]):
        return None
    output, lse = found[0], found[1][..., None]
    upon = (contiguous(along[0]), along[1][..., None] if len(along) > 1 else None)
    learned = Learned(call, wanted[3:], _fresh)
    plain = dtype_name(call.q) == "float64"  # which adds to what is there
    sums: list[Array] = []
    for part, numbers in _calls(call, output, lse):
        begin, whole = part.rows.start, part.rows.stop - part.rows.start == call.sizes.T
        q, k, v = (
            _fresh(a, a.shape, a.dtype if whole else wide(call), plain) if want else None
            for a, want in zip(call.floats, wanted[:3], strict=False)
        )
        dtype = CODES[dtype_name(next((a for a in (q, k, v) if a is not None), call.q))]
        more = (
            *(*place(upon[0], begin), *place(upon[1], begin), dtype, *place(q, begin)),
            *(*place(k), *place(v), *learned.numbers(part)),
        )
        if not _native.gradients((*numbers, *more), *part.factors()):
            return None
        new = [a for a in (q, k, v) if a is not None]
        sums = [a + b for a, b in zip(sums, new, strict=True)] if sums else new
    dtypes = [a.dtype for a, want in zip(call.floats, wanted[:3], strict=False) if want]
    gradients = [a.to(dtype) for a, dtype in zip(sums, dtypes, strict=True)]
    return gradients + learned.results(found, along)


def _calls(
    call: Call, output: Array | None, lse: Array | None
) -> Iterator[tuple[_Part, tuple[int, ...]]]:
    """The call in plain numbers, or where its mask must be evaluated, some rows of it at a time."""
    q, k = contiguous(call.q), contiguous(call.k)
    v = None if call.v is None else contiguous(call.v)
    for rows, seen in _strips(call):
        begin = rows.start
        part = _Part(call, rows)
        first, last = part.ends(seen)
        numbers = (
            *(*first, *place(q, begin), *place(k), *place(v), *place(output, begin)),
            *(0 if lse is None else CODES[dtype_name(lse)], *place(lse, begin), *last),
        )
        yield part, numbers


def _fresh(like: Array, shape: tuple[int, ...], dtype: Any, zeros: bool) -> Array:
    """A tensor, in large pages where it is large."""
    array = like.new_empty(shape, dtype=dtype)
    if array.nbytes > LARGE:
        _native.use_large_pages(array.data_ptr(), array.nbytes)
    return array.zero_() if zeros else array


def _ask(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    """The answers to questions, so many of them in one pass over the weights as go into it."""
    carried = {n: _carried(call, one) for n, one in enumerate(reducers) if isinstance(one, Carried)}
    rest = iter(_asked(call, [one for one in reducers if not isinstance(one, Carried)]))
    return [
        array
        for n, reducer in enumerate(reducers)
        for array in ([carried[n]] if n in carried else [next(rest) for _ in reducer.outputs()])
    ]


def _carried(call: Call, asked: Carried) -> Array:
    """Σ_i by_ni w_ij: the gradient of values v_j, (S, N), where that of the output i is by_ni."""
    k = call.k.repeat_interleave(call.sizes.group, -3)
    by = call.frame.move(np.atleast_2d(asked.by).T).to(k.dtype)  # (T, N)
    sizes = replace(call.sizes, G=call.sizes.H)
    alone = replace(call, k=k, frame=replace(call.frame, sizes=sizes))
    parts = []
    for some in by.split(WIDEST, -1):
        along = some.contiguous().expand(*call.q.shape[:-1], -1)
        part = replace(alone, v=k.new_zeros(*k.shape[:-1], some.shape[-1]))
        wanted = (False, False, True, *[False] * (len(part.floats) - 3))
        found = vjp(part, remember(part), [along], wanted)
        parts += found or [part.v]  # nothing is carried where there is nothing
    whole: Array = call.xp.concat(parts, axis=-1).mT
    return whole if asked.by.ndim == 2 else whole[..., 0, :]


def _asked(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    found: list[Array] = []
    for n in range(0, len(reducers), MOST):
        answers = Answers(call, reducers[n : n + MOST])
        asked = answers.numbers()
        for _, numbers in _calls(call, None, None):
            _native.ask(numbers, asked, call.scale, call.softcap or 0.0)
        found += answers.arrays()
    return found


def newest(
    q: Array, k: Array, n: int, scale: float | None, softcap: float | None, received: Array
) -> tuple[Array, Array] | None:
    """The n strongest keys of each query, weights and numbers (B, H, T, n).

    What each key gets is added to the first S numbers of each row of ``received`` (B, H, …), in
    float64.  That is what a generation asks of each layer at each step, in fewer words than a call
    takes, whose check would cost more time than its arithmetic: q (B, H, T, D) and k (B, G, S, D)
    are tensors of torch out of a model's own call, and every query sees every key.  None where
    this engine does not take them.
    """
    import torch

    (B, H, T, D), (_, G, S, _) = q.shape, k.shape
    dtype = dtype_name(q)
    if _native is None or q.device.type != "cpu" or dtype not in CODES or D > WIDEST:
        return None
    q, k = contiguous(q), contiguous(k)
    wide = torch.float64 if dtype == "float64" else torch.float32
    weights = torch.empty((B, H, T, n), dtype=wide)
    keys = torch.empty((B, H, T, n), dtype=torch.int64)
    numbers = (
        *(CODES[dtype], 1, B, H, G, T, S, D, 0),
        *(*place(q), *place(k), 0, 0, 0, 0),  # neither values nor output nor lse
        *(0, 0, 0, 0, 0, 0, T, 0, B, 0),  # no sink, range, mask, dropout or bias
    )
    to = address(received), received.stride(1)
    asked = (0, 0, *to, 0, 1, n, address(weights), address(keys), 0, 0, 0)
    _native.ask(numbers, asked, 1 / sqrt(D) if scale is None else scale, softcap or 0.0)
    return weights, keys


def _strips(call: Call) -> Iterable[tuple[slice, Array | None]]:
    """All rows at once, or, where a mask is no ranges, some rows and what they may see."""
    every = slice(0, call.sizes.T)
    hides = call.mask is not None and call.ranges is None
    if _picked_lines(call) or (hides and not isinstance(call.mask, Keep)):
        return _evaluated(call, hides)
    return ((every, call.seen(call.frame) if hides else None),)


def _evaluated(call: Call, hides: bool) -> Iterator[tuple[slice, Array | None]]:
    sizes = call.sizes
    height = max(1, MASK // max(1, sizes.rows * sizes.S))
    for top in range(0, max(sizes.T, 1), height):
        rows = slice(top, min(top + height, sizes.T))
        yield rows, call.seen(call.frame.cut(rows, call.frame.keys)) if hides else None


def _picked_lines(call: Call) -> bool:
    """Whether a score of the distance is asked for at queries that are not one after another."""
    return (
        call.frame.order is not None
        and call.bias is not None
        and any(not isinstance(part, Dense) for part in parts_of(call.bias))
    )


class _Part:
    """Some rows of a call in plain numbers; what they point at lives as long as this does."""

    def __init__(self, call: Call, rows: slice) -> None:
        self.call, self.rows = call, rows
        self.alive: list[Any] = []

    def ends(self, seen: Array | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What comes before the arrays' places and after them."""
        if not self.noted(seen):
            return self._ends(seen)
        notes, rows = self.call.notes, (self.rows.start, self.rows.stop)
        if rows not in notes:
            notes[rows] = (self._ends(seen), self.alive)
        ends: tuple[tuple[int, ...], tuple[int, ...]] = notes[rows][0]
        return ends

    def noted(self, seen: Array | None) -> bool:
        """Whether every call of the form has these: no array and no draw is in them."""
        arrays = (seen, self.call.sink, self.call.bias, self.call.frame.order)
        return not self.call.dropout and all(a is None for a in arrays)

    def _ends(self, seen: Array | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
        call, begin, sizes = self.call, self.rows.start, self.call.sizes
        height, width = self.rows.stop - begin, 0 if call.v is None else call.v.shape[-1]
        kind = (CODES[dtype_name(call.q)], len(sizes.lead), *sizes.lead)
        draws = (min(round(call.dropout * 2**32), 2**32 - 1), call.seed, sizes.T)
        return (*kind, sizes.H, sizes.G, height, sizes.S, sizes.D, width), (
            *(*self.sink(wide(call)), *self.ranges(), *self.broadcast(seen), *draws, begin),
            *(prod(call.frame.sizes.lead), *self.biases()),
        )

    def factors(self) -> tuple[float, float, float]:
        """Scale, softcap or 0, and what dropout multiplies the weights by that it keeps."""
        return self.call.scale, self.call.softcap or 0.0, 1 / (1 - self.call.dropout)

    def broadcast(self, array: Array | None, rows: bool = False) -> tuple[int, ...]:
        """Address and steps, 0 along what is broadcast; with ``rows``, from the part's first."""
        if array is None:
            return (0,)
        self.alive.append(array)
        steps = [0 if n == 1 else s for n, s in zip(array.shape, strides(array), strict=True)]
        begin = address(array) + (self.rows.start * steps[-2] * array.itemsize if rows else 0)
        return (begin, *[0] * (len(self.call.sizes.lead) + 3 - len(steps)), *steps)

    def sink(self, wide: Any) -> tuple[int, ...]:
        """One logit a head, (…, H)."""
        if self.call.sink is None:
            return (0,)
        return self.broadcast(self.call.xp.astype(self.call.sink, wide)[..., None, None])

    def ranges(self) -> tuple[int, ...]:
        """The addresses of first and last, how many there are a row, and the leading steps."""
        bounds = self.call.bounds
        if bounds is None:
            return (0, 0)
        if self.call.frame.order is not None:
            bounds = bounds.take(self.call.frame.order[self.rows])
        elif bounds.start.shape[-2] != self.rows.stop - self.rows.start:
            bounds = bounds.take(self.rows)
        both = (np.ascontiguousarray(a)[..., None, :, :] for a in (bounds.start, bounds.stop))
        first, last = map(self.broadcast, both)
        return (first[0], last[0], bounds.start.shape[-1], *first[1:-3])

    def biases(self) -> tuple[int, ...]:
        """How many, then the dtype and array of each."""
        if self.call.bias is None:
            return (0,)
        parts = parts_of(self.call.bias)
        found = [len(parts)]
        for part in parts:
            if isinstance(part, Dense):
                array = part.array
                code = CODES[dtype_name(array)]
                found += [code, *self.broadcast(array, rows=array.shape[-2] > 1)]
            elif self.call.frame.order is not None:
                frame = self.call.frame.cut(self.rows, self.call.frame.keys)
                array = contiguous(part.over(frame, accumulator(frame.xp, self.call.q)))
                found += [CODES[dtype_name(array)], *self.broadcast(array)]
            else:
                found += self._line(part)
        return tuple(found)

    def _line(self, score: Score) -> list[int]:
        """A score of the distance alone: one line of numbers, read one further on for each row."""
        T, S = self.call.sizes.T, self.call.sizes.S
        line = contiguous(line_of(self.call, score))
        address, *steps = self.broadcast(line[..., None, :])
        if T + S > 2:
            steps[-2:] = [-1, 1]
        address += (T - 1 - self.rows.start) * line.itemsize
        return [CODES[dtype_name(line)], address, *steps]
