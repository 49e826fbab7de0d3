"""The engine ``formula``: the definition itself, in float64, with all T × S weights at once."""

from __future__ import annotations

from collections.abc import Sequence

from regard._shapes import Array
from regard.core import dropout, formula, passes
from regard.core.arrays import accumulator
from regard.core.call import Call
from regard.core.reducers import Lse, Mixed, Reducer

name = "formula"
why = "the definition in float64; it holds every weight at once"


def refuses(call: Call, want: str) -> str | None:
    """It can do every call."""
    return None


def compute(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    """Every reducer's arrays; output and lse by ``formula.attend`` itself."""
    if call.v is None or any(type(reducer) not in (Mixed, Lse) for reducer in reducers):
        return pass_of(call, reducers).run(call.floats)
    xp, frame = call.xp, call.frame
    bias = None if call.bias is None else call.bias.over(frame, xp.float64)
    sink = call.sink
    output, lse = formula.attend(
        xp.astype(call.q, xp.float64),
        xp.astype(call.k, xp.float64),
        xp.astype(call.v, xp.float64),
        call.seen(frame),
        scale=call.scale,
        softcap=call.softcap,
        bias=bias,
        sink=None if sink is None else xp.astype(sink, xp.float64),
        kept=dropout.kept(frame, call.dropout, call.seed, xp.float64) if call.dropout else None,
    )
    found = {
        Mixed: xp.astype(output, call.v.dtype),
        Lse: xp.astype(lse, accumulator(xp, call.q)),
    }
    return [found[type(reducer)] for reducer in reducers]


def pass_of(call: Call, reducers: Sequence[Reducer]) -> passes.Pass:
    """The pass that answers ``reducers``, over one strip that is the whole matrix."""
    frame = call.frame.cut(slice(0, call.sizes.T), call.frame.keys)
    return passes.of(call, reducers, [frame], call.xp.float64, _products, _mix)


def _products(call: Call, q: Array, k: Array, seen: Array | None) -> Array:
    return formula.products(q, k, seen, call.careful) * call.scale


def _mix(call: Call, w: Array, v: Array, seen: Array | None) -> Array:
    return formula.mix(w, v, seen, call.careful)
