"""One pass over the strips of a matrix, as a function of arrays; its derivatives are such too.

A pass reads, for each strip, a piece of each input; its function makes of them small parts; each
part has its place in an output.  The product with the transposed Jacobian (``vjp``) reads the
pieces and the outputs' cotangents, and adds to what the inputs' gradients hold at the same
places.  So it is a pass again, and so is the product with the Jacobian (``jvp``): derivatives of
any order take memory that grows with T + S, not T × S, because each strip is computed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard._errors import EngineError
from regard._shapes import Array
from regard.core import formula
from regard.core.arrays import accumulator, sink_weight
from regard.core.call import Call
from regard.core.reducers import Output, Reducer, Strip
from regard.rules.frame import Frame
from regard.rules.scores import WHOLE, Place


@dataclass(frozen=True)
class Pass:
    """A function of arrays that goes over strips."""

    xp: Any
    device: Any
    dtype: Any
    """What the inputs are computed in."""
    frames: Sequence[Frame]
    reads: Callable[[Frame], list[Place]]
    """The piece of each input."""
    fn: Callable[[Frame, list[Array]], list[Array]]
    """The parts, from the pieces."""
    writes: Callable[[Frame], list[Place]]
    """Where each part lies."""
    outputs: list[Output]

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs; the inputs may be of any floating-point dtype."""
        xp = self.xp
        wide = [xp.astype(x, self.dtype, copy=False) for x in inputs]
        wholes: list[Array] = []
        found: list[Any] = []
        for frame in self.frames:
            pieces = [x[i] for x, i in zip(wide, self.reads(frame), strict=True)]
            parts = self.fn(frame, pieces)
            if not wholes:
                # Made whole at once.  Small parts kept from every strip would each pin a piece
                # of the heap that large strips come and go in, and it would grow with T × S.
                found = [part.dtype for part in parts]
                wholes = [
                    xp.zeros(o.shape(part), dtype=o.sums or part.dtype, device=self.device)
                    for o, part in zip(self.outputs, parts, strict=True)
                ]
            for o, whole, i, part in zip(
                self.outputs, wholes, self.writes(frame), parts, strict=True
            ):
                if o.mode == "put":
                    whole[i] = part
                elif o.mode == "add":
                    whole[i] += part
                else:
                    whole[i] = xp.maximum(whole[i], xp.astype(part, whole.dtype))
        return [
            xp.astype(whole, o.dtype or dtype, copy=False)
            for o, whole, dtype in zip(self.outputs, wholes, found, strict=True)
        ]


def of(
    call: Call,
    reducers: Sequence[Reducer],
    frames: Sequence[Frame],
    dtype: Any,
    products: Callable[[Call, Array, Array, Array | None], Array],
    mix: Callable[[Call, Array, Array, Array | None], Array],
) -> Pass:
    """The pass that answers ``reducers``; its inputs are ``call.floats``.

    ``products(call, q, k, seen)`` are scale · q_i · k_j of one frame, (…, H, t, w), and
    ``mix(call, w, v, seen)`` are Σ_j w_ij v_j, (…, H, t, E): what engines do in their own ways.
    """

    def reads(frame: Frame) -> list[Place]:
        rows, keys = (..., frame.rows, slice(None)), (..., frame.keys, slice(None))
        found = [rows, keys] if call.v is None else [rows, keys, keys]
        found += [] if call.bias is None else call.bias.at(frame)
        return found if call.sink is None else [*found, WHOLE]

    def fn(frame: Frame, pieces: list[Array]) -> list[Array]:
        rest = list(pieces)
        q, k = rest.pop(0), rest.pop(0)
        v = None if call.v is None else rest.pop(0)
        sink = None if call.sink is None else rest.pop()
        bias = None if call.bias is None else call.bias.strip(frame, rest)
        seen = call.seen(frame)
        s = formula.scores(
            products(call, q, k, seen), seen, scale=1.0, softcap=call.softcap, bias=bias
        )
        w, lse = formula.normalise(s, sink)
        strip = Strip(call, frame, w, lse, sink_weight(sink, lse), lambda w: mix(call, w, v, seen))
        return [part for reducer in reducers for part in reducer.part(strip)]

    def writes(frame: Frame) -> list[Place]:
        return [reducer.at(frame) for reducer in reducers for _ in reducer.outputs()]

    returned = accumulator(call.xp, call.q)
    outputs = [
        replace(output, dtype=output.dtype or returned) if output.smooth else output
        for reducer in reducers
        for output in reducer.outputs()
    ]
    return Pass(call.xp, call.frame.device, dtype, frames, reads, fn, writes, outputs)


def vjp(base: Pass, inputs: Sequence[Array], wanted: Sequence[bool]) -> Pass:
    """From ``inputs`` and the cotangents of the smooth outputs to the gradients ``wanted``."""
    import torch

    _check_recording()
    base = _linear(base, inputs)
    live = [i for i, output in enumerate(base.outputs) if output.smooth]

    def reads(frame: Frame) -> list[Place]:
        places = base.writes(frame)
        return [*base.reads(frame), *(places[i] for i in live)]

    def fn(frame: Frame, pieces: list[Array]) -> list[Array]:
        deeper = any(piece.requires_grad for piece in pieces)
        with torch.enable_grad():
            leaves = [_leaf(piece) for piece in pieces[: len(inputs)]]
            parts = base.fn(frame, leaves)
        return _gradients(
            [parts[i] for i in live],
            [leaf for leaf, want in zip(leaves, wanted, strict=True) if want],
            pieces[len(inputs) :],
            deeper,
        )

    def writes(frame: Frame) -> list[Place]:
        return [i for i, want in zip(base.reads(frame), wanted, strict=True) if want]

    outputs = [
        Output(lambda _, shape=x.shape: tuple(shape), "add", dtype=x.dtype)  # type: ignore[misc]
        for x, want in zip(inputs, wanted, strict=True)
        if want
    ]
    return replace(base, reads=reads, fn=fn, writes=writes, outputs=outputs)


def jvp(base: Pass, inputs: Sequence[Array]) -> Pass:
    """From ``inputs`` and their tangents to the tangents of the smooth outputs."""
    import torch

    _check_recording()
    base = _linear(base, inputs)
    live = [i for i, output in enumerate(base.outputs) if output.smooth]

    def fn(frame: Frame, pieces: list[Array]) -> list[Array]:
        # Jᵀu is linear in u, so its own gradient along the tangents is J times them: two
        # reverse passes make the forward one, and whatever torch can differentiate will do.
        deeper = any(piece.requires_grad for piece in pieces)
        with torch.enable_grad():
            leaves = [_leaf(piece) for piece in pieces[: len(inputs)]]
            parts = [base.fn(frame, leaves)[i] for i in live]
            u = [torch.zeros_like(part).requires_grad_() for part in parts]
            back = _gradients(parts, leaves, u, True)
        return _gradients(back, u, pieces[len(inputs) :], deeper)

    def reads(frame: Frame) -> list[Place]:
        return base.reads(frame) * 2

    def writes(frame: Frame) -> list[Place]:
        places = base.writes(frame)
        return [places[i] for i in live]

    outputs = [base.outputs[i] for i in live]
    return replace(base, reads=reads, fn=fn, writes=writes, outputs=outputs)


def _check_recording() -> None:
    """Where autograd does not record, every derivative would be a silent zero."""
    import torch

    with torch.enable_grad():
        if not torch.zeros((), requires_grad=True).exp().requires_grad:
            raise EngineError(
                "torch's autograd records nothing here, so a derivative of regard's would be zero; "
                "leave the torch mode that turns it off (such as torch.inference_mode)"
            )


def _leaf(piece: Array) -> Array:
    return piece.view_as(piece) if piece.requires_grad else piece.detach().requires_grad_()


def _gradients(
    ys: Sequence[Array], xs: Sequence[Array], along: Sequence[Array], deeper: bool
) -> list[Array]:
    """Σ along · ∂ys / ∂xs, zeros where nothing depends on anything."""
    import torch

    pairs = [(y, g.to(y.dtype)) for y, g in zip(ys, along, strict=True) if y.requires_grad]
    if not pairs or not xs:
        return [torch.zeros_like(x) for x in xs]
    return list(
        torch.autograd.grad(
            [y for y, _ in pairs],
            list(xs),
            grad_outputs=[g for _, g in pairs],
            create_graph=deeper,
            allow_unused=True,
            materialize_grads=True,
        )
    )


def _linear(base: Pass, inputs: Sequence[Array]) -> Pass:
    """``base`` with every largest entry as a sum: of the parts that are it, ties shared evenly.

    Which parts these are is found in two passes; it does not change where there is a derivative.
    """
    if all(output.mode != "max" for output in base.outputs):
        return base
    import torch

    top = [i for i, output in enumerate(base.outputs) if output.mode == "max"]
    outputs = [replace(o, mode="add") if o.mode == "max" else o for o in base.outputs]
    with torch.no_grad():
        largest = replace(base, outputs=[replace(o, dtype=o.sums) for o in base.outputs])
        highest = largest.run(inputs)

        def is_highest(frame: Frame, pieces: list[Array]) -> list[Array]:
            parts, places = base.fn(frame, pieces), base.writes(frame)
            return [
                (part == highest[i][places[i]]).to(part.dtype) if i in top else part
                for i, part in enumerate(parts)
            ]

        ties = replace(base, fn=is_highest, outputs=outputs).run(inputs)

    def fn(frame: Frame, pieces: list[Array]) -> list[Array]:
        parts, places = list(base.fn(frame, pieces)), base.writes(frame)
        for i in top:
            at, part = places[i], parts[i]
            parts[i] = torch.where(part == highest[i][at], part / ties[i][at], 0.0)
        return parts

    return replace(base, fn=fn, outputs=outputs)
