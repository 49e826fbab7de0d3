"""The same answer as the formula, a strip of rows at a time: linear memory at any length.

A strip is some queries by all the keys that they may attend to.  It holds whole rows, so each
row's normaliser is exact at once, no row is ever rescaled, and output and questions need one
product of queries and keys.  The strip's height follows from the shapes, so that it stays about
the size of a processor's cache; what the mask hides on either side is never computed.

When a derivative is wanted, torch recomputes each strip in the backward pass (its
``checkpoint``), so training takes linear memory too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array
from regard.core import dropout, formula
from regard.core.arrays import accumulator, sink_weight
from regard.core.call import Call
from regard.core.reducers import PerQuery, Reducer, Strip
from regard.rules.frame import Frame, Index

BUDGET = 1 << 19
"""Weights a strip may hold, over all batch entries and heads (2 MiB of float32)."""
TALLEST = 128
"""Rows a strip may have: more would compute more of what a causal mask hides."""


class Mixed(PerQuery):
    """(…, H, T, E) the output: Σ_j w_ij v_j, with the dropout of the call."""

    axis = -2

    def __init__(self, call: Call) -> None:
        super().__init__(call.frame)
        self.call = call
        self.v = call.xp.astype(call.v, accumulator(call.xp, call.v))

    def part(self, strip: Strip) -> tuple[Array, ...]:
        call, w, v = self.call, strip.weights, self.v[..., strip.frame.keys, :]
        if call.dropout:
            w = w * dropout.kept(strip.frame, call.dropout, call.seed, w.dtype)
        if call.clean_values:
            return (_by_group(call, w, v),)
        seen = call.seen(strip.frame)
        return (formula.mix(w, formula.repeat_heads(v, call.sizes.H), seen),)

    def answer(self, *columns: Array) -> Array:
        assert self.call.v is not None
        return self.call.xp.astype(columns[0], self.call.v.dtype)


def answer(
    call: Call, reducers: Sequence[Reducer], rows: NDArray[np.int64] | None = None
) -> list[Any]:
    """Every reducer's answer, in one pass over the strips; ``rows`` narrows the queries."""
    xp = call.xp
    dtype = accumulator(xp, call.q)
    k = xp.astype(call.k, dtype)

    def parts(frame: Frame) -> tuple[Array, ...]:
        strip = weigh(call, frame, k, dtype)
        return tuple(p for r in reducers for p in r.part(strip))

    needs_grad = call.needs_grad
    for frame in strips(call, rows):
        if needs_grad:
            from torch.utils.checkpoint import checkpoint

            found = checkpoint(parts, frame, use_reentrant=False, preserve_rng_state=False)
        else:
            found = parts(frame)
        _share(reducers, frame, found)
    return [r.result() for r in reducers]


def weigh(call: Call, frame: Frame, k: Array, dtype: Any) -> Strip:
    """The weights of one strip, in ``dtype``; ``k`` is all keys in that dtype already."""
    xp = call.xp
    q, k = xp.astype(_rows(call, frame), dtype) * call.scale, k[..., frame.keys, :]
    seen = call.seen(frame)
    if call.clean_keys:
        products = _by_group(call, q, xp.matrix_transpose(k))
    else:
        products = formula.products(q, formula.repeat_heads(k, call.sizes.H), seen)
    bias = None if call.bias is None else xp.astype(frame.slice_dense(call.bias), dtype)
    sink = None if call.sink is None else xp.astype(call.sink, dtype)
    s = formula.scores(products, seen, scale=1.0, softcap=call.softcap, bias=bias)
    w, lse = formula.normalise(s, sink)
    return Strip(w, lse, sink_weight(sink, lse), frame)


def strips(call: Call, rows: NDArray[np.int64] | None = None) -> Iterator[Frame]:
    """The frames that cover the rows, each over the keys that any of its rows may see."""
    first, last = call.hull
    order: Index = slice(0, call.sizes.T) if rows is None else rows
    first, last = first[order], last[order]
    height = strip_height(call, int(np.max(last - first, initial=1)))
    for top in range(0, max(len(first), 1), height):
        part = slice(top, min(top + height, len(first)))
        start = int(first[part].min(initial=call.sizes.S))
        stop = max(start, int(last[part].max(initial=0)))
        yield call.frame.cut(part if rows is None else rows[part], slice(start, stop))


def strip_height(call: Call, width: int) -> int:
    """How many rows fit the budget, where a row may be ``width`` keys wide."""
    width = max(width, 1) * max(call.sizes.rows, 1)
    if not (call.clean_keys and call.clean_values):
        width *= call.sizes.D  # the careful products hold each pair of vectors apart
    return max(1, min(TALLEST, BUDGET // width))


def _rows(call: Call, frame: Frame) -> Array:
    if isinstance(frame.rows, slice):
        return call.q[..., frame.rows, :]
    return call.xp.take(call.q, frame.move(frame.rows), axis=-2)


def _by_group(call: Call, a: Array, b: Array) -> Array:
    """(…, H, t, m) @ (…, G, m, n): heads that share a key head are stacked, not keys repeated."""
    xp, sizes = call.xp, call.sizes
    if sizes.group == 1:
        return a @ b
    t, m = a.shape[-2:]
    stacked = xp.reshape(a, (*sizes.lead, sizes.G, sizes.group * t, m)) @ b
    return xp.reshape(stacked, (*sizes.lead, sizes.H, t, b.shape[-1]))


def _share(reducers: Sequence[Reducer], frame: Frame, parts: Sequence[Array]) -> None:
    """Give each reducer its own parts: as many as it made."""
    rest = list(parts)
    for reducer in reducers:
        reducer.add(frame, tuple(rest.pop(0) for _ in range(reducer.width)))
