"""Attention inside a compiled or exported graph, and of tensors without data: one opaque operator.

A graph cannot hold a mask value, key ranges or a choice of engine.  So the call goes into it whole,
in its parts: tensors, whole numbers and a text.  When the graph runs, the operator puts the call
together again, checks it and computes it as outside of a graph; lengths and everything that a mask
says of positions may differ each time without a new compilation.

Forward mode cannot pass through such an operator (torch would take its tangent for zero), so it is
refused here by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard._errors import EngineError, KindError, ShapeError
from regard._shapes import in_graph, sizes_of
from regard.core import derivatives
from regard.core.arrays import accumulator
from regard.core.call import Call, check, check_number
from regard.core.plan import ENGINES, check_engine, choose, run
from regard.core.reducers import Lse, Mixed, Reducer
from regard.rules.make import as_tensor, documents, keep, lengths, prefix, window
from regard.rules.masks import Keep, Mask, Not, Pair, Where, check_booleans, check_mask
from regard.rules.rule import Flat, flatten, rebuild
from regard.rules.scores import as_score


def _window(before: int, after: int) -> Mask:
    return window(before + 1) if after == 0 else window(before=before, after=after)


MAKERS: Mapping[str, Callable[..., Any]] = {
    "Window": _window,
    "Prefix": prefix,
    "Lengths": lengths,
    "Documents": documents,
    "Packed": documents,
    "Keep": keep,
}
"""These check numbers and arrays when the graph runs: before, they are not known."""

PARTS = (
    "Tensor q, Tensor k, Tensor v, Tensor[] scores, Tensor? sink, Tensor[] masks, "
    "Tensor[] positions, Tensor? start, Tensor? seed, SymInt[] numbers, SymInt[] score_numbers, "
    "str text, str score_text, float? scale, float? softcap, float dropout, str engine, bool lse, "
    "int outer"
)
"""A call in its parts, as ``Parts`` names them."""


class Parts(NamedTuple):
    """A call in its parts, as the operator takes them."""

    q: Tensor
    k: Tensor
    v: Tensor
    scores: list[Tensor]
    sink: Tensor | None
    masks: list[Tensor]
    positions: list[Tensor]
    start: Tensor | None
    seed: Tensor | None
    numbers: list[int]
    score_numbers: list[int]
    text: str
    score_text: str
    scale: float | None
    softcap: float | None
    dropout: float
    engine: str
    lse: bool
    outer: int
    """How many leading axes vmap has added."""

    @property
    def floats(self) -> list[Tensor]:
        """What has a derivative."""
        return [a for a in (self.q, self.k, self.v, *self.scores, self.sink) if a is not None]

    def call(self) -> Call:
        """The call, put together and checked."""
        first = (0,) * self.outer
        rule = Flat(self.text, self.numbers, self.positions, [m[first] for m in self.masks])
        score = Flat(self.score_text, self.score_numbers, arrays=[s[first] for s in self.scores])
        call = check(
            self.q[first],
            self.k[first],
            self.v[first],
            rebuild(rule, MAKERS) if self.text else None,
            bias=rebuild(score) if self.score_text else None,
            scale=self.scale,
            softcap=self.softcap,
            sink=None if self.sink is None else self.sink[first],
            start=self.start,
            dropout=self.dropout,
        )
        call = call if self.seed is None else replace(call, seed=int(self.seed))
        if not self.outer:
            return call
        given = zip([*self.masks, *self.floats], call.arrays, strict=True)
        return call.with_arrays([g.reshape(*g.shape[: self.outer], *a.shape) for g, a in given])

    def chosen(self, call: Call) -> str:
        """The engine that ``call`` gets."""
        return choose(call, self.engine, "lse" if self.lse else "output").engine

    def reducers(self, call: Call) -> list[Reducer]:
        """What is asked of the call."""
        return [Mixed(call), Lse(call.frame)] if self.lse else [Mixed(call)]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | None,
    *,
    bias: Any = None,
    scale: float | None,
    softcap: float | None,
    sink: Any = None,
    start: Any,
    dropout: float = 0.0,
    generator: Any = None,
    engine: str,
    lse: bool = False,
) -> list[Tensor]:
    """The output (and lse) of a call, as a node of the graph that is being made."""
    check_mask(mask)
    if not in_graph():  # tensors without data: all but their numbers can be checked now
        known = {"bias": bias, "scale": scale, "softcap": softcap, "sink": sink, "start": start}
        call = check(q, k, v, mask, **known, dropout=dropout)
        choose(call, engine, "lse" if lse else "output")
    begins = None if start is None else as_tensor(start)
    rule = None if mask is None else flatten(_without_functions(mask, q, k, begins))
    score = None if bias is None else flatten(as_score(bias))
    wide = accumulator(torch, q)
    _refuse_numpy(bias=bias, sink=sink)
    if sink is not None and not isinstance(sink, Tensor):
        sink = torch.full((), _known("sink", sink), dtype=wide, device=q.device)
    if sink is not None and sink.ndim == 0:
        sink = sink.expand(q.shape[-3] if q.ndim > 2 else 1)
    parts = Parts(
        q,
        k,
        v,
        scores=[] if score is None else [_apart(a, q, wide) for a in score.arrays],
        sink=sink,
        masks=[] if rule is None else [_apart(a, q) for a in rule.arrays],
        positions=[] if rule is None else [as_tensor(a) for a in rule.positions],
        start=begins,
        seed=_seed(dropout, generator),
        numbers=[] if rule is None else rule.numbers,
        score_numbers=[] if score is None else score.numbers,
        text="" if rule is None else rule.text,
        score_text="" if score is None else score.text,
        scale=None if scale is None else _known("scale", scale),
        softcap=None if softcap is None else _known("softcap", softcap),
        dropout=_known("dropout", dropout),
        engine=check_engine(engine),
        lse=lse,
        outer=0,
    )
    found: list[Tensor] = _attend(*parts)
    return found


def _apart(array: Any, like: Tensor, dtype: Any = None) -> Tensor:
    """NumPy's arrays are constants of the graph, and the user may change his own."""
    if isinstance(array, Tensor):
        return array
    return torch.as_tensor(array, dtype=dtype, device=like.device).clone()


def _refuse_numpy(**arrays: Any) -> None:
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            raise KindError(
                f"q and {name} must come from one array library, but {name} is of NumPy; convert "
                f"it: torch.as_tensor({name})"
            )


def _known(name: str, value: Any) -> Any:
    """A number of Python, checked; one that torch keeps open, such as a length, is left so."""
    return value if isinstance(value, torch.SymInt | torch.SymFloat) else check_number(name, value)


def _seed(dropout: float, generator: Any) -> Tensor | None:
    if not dropout:
        return None
    if generator is None:
        return torch.randint(2**31, ())
    if isinstance(generator, int | torch.SymInt) and not isinstance(generator, bool):
        number: Any = generator % 2**31
        return torch.full((), number, dtype=torch.int64)
    raise KindError(
        "generator must be a whole number or None inside a compiled graph, which cannot hold a "
        f"{type(generator).__name__}"
    )


def _without_functions(mask: Mask, q: Tensor, k: Tensor, start: Tensor | None) -> Mask:
    """The mask with each ``where(fn)`` as what it says of every pair: a graph holds no function."""
    if isinstance(mask, Pair):
        left, right = (_without_functions(m, q, k, start) for m in (mask.left, mask.right))
        return type(mask)(left, right)
    if isinstance(mask, Not):
        return Not(_without_functions(mask.rule, q, k, start))
    if not isinstance(mask, Where):
        return mask
    T, S = q.shape[-2], k.shape[-2]
    first = torch.full((), S - T, device=q.device) if start is None else start.to(q.device)
    rows = first[..., None, None] + torch.arange(T, device=q.device)[:, None]
    rows = rows[..., None, :, :] if first.ndim else rows
    keys = torch.arange(S, device=q.device)
    allowed = torch.as_tensor(mask.fn(rows, keys), device=q.device)
    check_booleans(allowed)
    full = (*rows.shape[:-1], S)
    pairs = zip(reversed(allowed.shape), reversed(full), strict=False)
    if allowed.ndim > len(full) or any(n not in (1, m) for n, m in pairs):
        raise ShapeError(
            "the function of where(fn) must return the shape that its arguments broadcast to, "
            f"{full}, but it returned {tuple(allowed.shape)}"
        )
    return Keep(allowed.broadcast_to(full))


def _refuse_forward_mode() -> None:
    if torch.autograd.forward_ad._current_level >= 0:
        raise EngineError(
            "regard has no forward mode inside a compiled graph, where torch would take the "
            "tangent for zero; call the function without torch.compile, or use reverse mode "
            "(torch.func.vjp, backward)"
        )


@torch.library.custom_op("regard::attend", mutates_args=(), schema=f"({PARTS}) -> Tensor[]")
def _attend(*args: Any) -> list[Tensor]:
    _refuse_forward_mode()
    parts = Parts(*args)
    call = parts.call()
    output, *lse = run(call, parts.chosen(call), parts.reducers(call))
    return [call.finish(output, 3).contiguous(), *(call.finish(x, 2).contiguous() for x in lse)]


@_attend.register_fake
def _attend_fake(*args: Any) -> list[Tensor]:
    _refuse_forward_mode()
    parts = Parts(*args)
    q, k, v = parts.q, parts.k, parts.v
    if q.ndim > 2:
        sizes_of(q, k, v)
    output = q.new_empty((*q.shape[:-1], v.shape[-1]), dtype=v.dtype)
    lse = q.new_empty(q.shape[:-1], dtype=accumulator(torch, q))
    return [output, lse] if parts.lse else [output]


@torch.library.custom_op(
    "regard::attend_backward",
    mutates_args=(),
    schema=f"(Tensor[] along, bool[] wanted, {PARTS}) -> Tensor[]",
)
def _attend_backward(along: list[Tensor], wanted: list[bool], *args: Any) -> list[Tensor]:
    parts = Parts(*args)
    call = parts.call()
    with torch.enable_grad():  # an engine may refuse, or dislike, a call that wants a gradient
        training = call.with_floats([a.detach().requires_grad_() for a in call.floats])
        engine = ENGINES[parts.chosen(training)]
    rows = call.q.shape[:-1]
    shapes = [(*rows, parts.v.shape[-1]), rows]
    grads = [g.reshape(shape) for g, shape in zip(along, shapes, strict=False)]
    found = derivatives.gradients(call, engine, parts.reducers(call), grads, wanted)
    asked = [a for a, want in zip(parts.floats, wanted, strict=True) if want]
    return [g.reshape(a.shape).contiguous() for g, a in zip(found, asked, strict=True)]


@_attend_backward.register_fake
def _attend_backward_fake(along: list[Tensor], wanted: list[bool], *args: Any) -> list[Tensor]:
    floats = Parts(*args).floats
    return [a.new_empty(a.shape) for a, want in zip(floats, wanted, strict=True) if want]


def _no_second(ctx: Any, *along: Any) -> Any:
    raise EngineError(
        "regard has no second derivative inside a compiled or exported graph; call the function "
        "itself, without torch.compile or torch.export"
    )


_attend_backward.register_autograd(_no_second)


def _keep_for_backward(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    tensors: list[Tensor] = []
    ctx.places = [_put_away(x, tensors) for x in inputs]
    ctx.save_for_backward(*tensors)


def _put_away(x: Any, tensors: list[Tensor]) -> Any:
    """``x`` with its tensors moved to ``tensors``: what gives it back from them."""
    if isinstance(x, Tensor):
        tensors.append(x)
        at = len(tensors) - 1
        return lambda saved: saved[at]
    if isinstance(x, list):
        parts = [_put_away(part, tensors) for part in x]
        return lambda saved: [part(saved) for part in parts]
    return lambda saved: x


def _backward(ctx: Any, along: list[Tensor]) -> tuple[Any, ...]:
    inputs = [place(ctx.saved_tensors) for place in ctx.places]
    needs = ctx.needs_input_grad
    wanted = [*needs[:3], *needs[3], *([] if inputs[4] is None else [needs[4]])]
    found = iter(_attend_backward(list(along), wanted, *inputs))

    def gradient(need: Any) -> Any:
        if isinstance(need, list | tuple):
            return [gradient(one) for one in need]
        return next(found) if need else None

    # Beyond the fifth nothing has a derivative, but a list of tensors wants one of its length.
    rest = [
        [None] * len(x)
        if isinstance(x, list) and all(isinstance(one, Tensor) for one in x)
        else None
        for x in inputs[5:]
    ]
    return (*(gradient(need) for need in needs[:5]), *rest)


_attend.register_autograd(_backward, setup_context=_keep_for_backward)


@_attend.register_vmap
def _attend_vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
    mapped = _one_more_axis(info, in_dims, inputs, range(6))
    found = _attend(*mapped, *inputs[6:-1], inputs[-1] + 1)
    return found, [0] * len(found)


@_attend_backward.register_vmap
def _attend_backward_vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, Any]:
    mapped = _one_more_axis(info, in_dims, inputs, (0, 2, 3, 4, 5, 6, 7))
    mapped.insert(1, inputs[1])
    found = _attend_backward(*mapped, *inputs[8:-1], inputs[-1] + 1)
    return found, [0] * len(found)


def _one_more_axis(info: Any, in_dims: Any, inputs: Any, which: Sequence[int]) -> list[Any]:
    """The inputs ``which`` with the mapped axis in front; the rest may not be mapped."""

    def front(x: Any, dim: Any) -> Any:
        if isinstance(x, list):
            return [front(*pair) for pair in zip(x, dim, strict=True)]
        if x is None:
            return None
        return x.expand(info.batch_size, *x.shape) if dim is None else x.movedim(dim, 0)

    for i, dim in enumerate(in_dims):
        held = dim if isinstance(dim, list | tuple) else [dim]
        if i not in which and any(d is not None for d in held):
            raise KindError(
                "vmap cannot map what a mask says of positions (lengths, documents, start); put "
                "the mapped axis among the leading ones instead"
            )
    return [front(inputs[i], in_dims[i]) for i in which]
