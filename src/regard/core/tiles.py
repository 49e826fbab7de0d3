"""The same answer as the formula, a strip of rows at a time: linear memory at any length.

A strip is some queries by all the keys that they may attend to.  It holds whole rows, so each
row's normaliser is exact at once, no row is ever rescaled, and output and questions need one
product of queries and keys.  The strip's height follows from the shapes, so that it stays about
the size of a processor's cache; what the mask hides on either side is never computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from regard._shapes import Array, array_namespace
from regard.core import formula, passes
from regard.core.arrays import accumulator
from regard.core.call import Call
from regard.core.reducers import Reducer
from regard.rules.frame import Frame

BUDGET = 1 << 19
"""Weights a strip may hold, over all batch entries and heads (2 MiB of float32)."""
TALLEST = 128
"""Rows a strip may have: more would compute more of what a causal mask hides."""


def pass_of(call: Call, reducers: Sequence[Reducer]) -> passes.Pass:
    """The pass over strips that answers ``reducers``."""
    dtype = accumulator(call.xp, call.q)
    return passes.of(call, reducers, list(strips(call)), dtype, _products, _mix)


def _products(call: Call, q: Array, k: Array, seen: Array | None) -> Array:
    q = q * call.scale
    if call.clean_keys:
        return by_group(q, call.xp.matrix_transpose(k))
    return formula.products(q, k, seen, call.careful)


def _mix(call: Call, w: Array, v: Array, seen: Array | None) -> Array:
    return by_group(w, v) if call.clean_values else formula.mix(w, v, seen, call.careful)


def strips(call: Call) -> Iterator[Frame]:
    """The frames that cover the rows, each over the keys that any of its rows may see."""
    first, last = call.hull
    height = strip_height(call, int(np.max(last - first, initial=1)))
    for top in range(0, max(len(first), 1), height):
        rows = slice(top, min(top + height, len(first)))
        start = int(first[rows].min(initial=call.sizes.S))
        stop = max(start, int(last[rows].max(initial=0)))
        yield call.frame.cut(rows, slice(start, stop))


def strip_height(call: Call, width: int) -> int:
    """How many rows fit the budget, where a row may be ``width`` keys wide."""
    width = max(width, 1) * max(call.sizes.rows, 1)
    if not (call.clean_keys and call.clean_values):
        width *= call.sizes.D  # the careful products hold each pair of vectors apart
    return max(1, min(TALLEST, BUDGET // width))


def by_group(a: Array, b: Array) -> Array:
    """(…, H, t, m) @ (…, G, m, n): heads that share a key head are stacked, not keys repeated."""
    *lead, H, t, m = a.shape
    G, n = b.shape[-3], b.shape[-1]
    if H == G:
        return a @ b
    xp = array_namespace(a, b)
    stacked = xp.reshape(a, (*lead, G, H // G * t, m)) @ b
    return xp.reshape(stacked, (*lead, H, t, n))
