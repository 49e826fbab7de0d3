"""The engine ``formula``: the definition itself, in float64, with all T × S weights at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array
from regard.core import dropout, formula
from regard.core.arrays import sink_weight
from regard.core.call import Call
from regard.core.reducers import Reducer, Strip

name = "formula"
why = "the definition in float64; it holds every weight at once"


def refuses(call: Call, want: str) -> str | None:
    """It can do every call."""
    return None


def attend(call: Call) -> Array:
    """The output in the dtype of v."""
    return partial(call)[0]


def partial(call: Call) -> tuple[Array, Array]:
    """The output and lse."""
    assert call.v is not None
    xp = call.xp
    drop = dropout.kept(call.frame, call.dropout, call.seed, xp.float64) if call.dropout else None
    q, k, v = (xp.astype(a, xp.float64) for a in (call.q, call.k, call.v))
    output, lse = formula.attend(q, k, v, call.seen(call.frame), **_options(call), kept=drop)
    return xp.astype(output, call.v.dtype), lse


def ask(
    call: Call, reducers: Sequence[Reducer], rows: NDArray[np.int64] | None = None
) -> list[Any]:
    """Every reducer's answer, from one strip that is the whole matrix (or its ``rows``)."""
    xp = call.xp
    frame = call.frame if rows is None else call.frame.cut(rows, call.frame.keys)
    q = call.q if rows is None else xp.take(call.q, frame.move(rows), axis=-2)
    options, seen = _options(call), call.seen(frame)
    sink, bias = options.pop("sink"), options.pop("bias")
    k = formula.repeat_heads(xp.astype(call.k, xp.float64), call.sizes.H)
    products = formula.products(xp.astype(q, xp.float64), k, seen)
    bias = None if bias is None else frame.slice_dense(bias)
    w, lse = formula.normalise(formula.scores(products, seen, bias=bias, **options), sink)
    strip = Strip(w, lse, sink_weight(sink, lse), frame)
    for reducer in reducers:
        reducer.add(frame, reducer.part(strip))
    return [reducer.result() for reducer in reducers]


def _options(call: Call) -> dict[str, Any]:
    xp = call.xp
    arrays = {"bias": call.bias, "sink": call.sink}
    doubled = {n: None if a is None else xp.astype(a, xp.float64) for n, a in arrays.items()}
    return {"scale": call.scale, "softcap": call.softcap, **doubled}
