"""Attention as one function of torch: its derivatives of any order, in any mode, and ``vmap``.

Every engine sees plain tensors only.  What torch asks of a result is answered here: a gradient by
the pass ``vjp`` of the pass that was computed, a tangent by ``jvp``, gradients of these by their
passes in turn, and ``vmap`` by one more leading axis.  The first gradient is asked of an engine
that has a ``vjp`` of its own, or of torch where that can differentiate an engine
(``differentiable``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import torch

from regard._errors import KindError
from regard.core import passes, tiles
from regard.core.arrays import accumulator, all_finite
from regard.core.call import Call
from regard.core.modes import exactly, has_tangent, refuse_old_vmap
from regard.core.reducers import Lse, Mixed, Reducer
from regard.rules.rule import flatten


@dataclass(frozen=True)
class Step:
    """What to compute of a call's arrays: its answer, or a derivative of that."""

    hollow: Call
    """The call, of whose arrays only the places count."""
    masks: int
    """How many of the arrays are the mask's."""
    floats: int
    """How many of them are ``Call.floats``; then come the derivatives' own."""
    engine: ModuleType
    reducers: Sequence[Reducer]
    path: tuple[tuple[str, tuple[bool, ...]], ...] = ()
    """The derivatives taken, first to last: ("vjp", which gradients are wanted) or ("jvp", ())."""
    kept: list[Any] = field(default_factory=list)
    """For a gradient: torch's own graph of an engine's answer, or the output and lse found."""
    dual: bool = False
    """Whether an array carries a tangent."""

    def then(self, kind: str, wanted: Sequence[bool] = ()) -> Step:
        """The step that takes one more derivative of this one."""
        return replace(self, path=(*self.path, (kind, tuple(wanted))))

    def result(self, arrays: Sequence[Any]) -> list[Any]:
        """Its value: ``arrays`` are the call's, then one set for each derivative."""
        with exactly(arrays[-1]), _recording():
            return self._result([a.clone() if a.is_inference() else a for a in arrays])

    def _result(self, arrays: Sequence[Any]) -> list[Any]:
        masks, rest = list(arrays[: self.masks]), list(arrays[self.masks :])
        n = self.floats
        call = self.hollow.with_arrays([*masks, *rest[:n]])
        if not self.path:
            flags = [a.requires_grad for a in call.floats]
            trained = any(flags) and not self.dual
            if trained and self._torch_can:
                self.kept[:] = [self._graph(call, flags)]
                return [output.detach() for output in self.kept[0][1]]
            return self._remembered(call) if trained and self._engine_can else self._value(call)
        first = len(self.path) == 1 and self.path[0][0] == "vjp"
        if first and self._engine_can:
            found = self._engine_gradients(call, self.path[0][1], rest[n:])
            if found is not None:
                return found
        careful = not all_finite(*rest[n:])
        if first and self._torch_can and not careful:
            return self._torch_gradients(call, self.path[0][1], rest[n:])
        call = replace(call, careful=careful)
        module: Any = self.engine if hasattr(self.engine, "pass_of") else tiles
        function: passes.Pass = module.pass_of(call, self.reducers)
        inputs, taken = rest[:n], n
        for kind, wanted in self.path:
            if kind == "vjp":
                taken += sum(output.smooth for output in function.outputs)
                function = passes.vjp(function, inputs, wanted)
            else:
                taken += len(inputs)
                function = passes.jvp(function, inputs)
            inputs = rest[:taken]
        return function.run(inputs)

    @property
    def _torch_can(self) -> bool:
        """Whether torch itself can give the engine's first gradient: of an output without lse."""
        return getattr(self.engine, "differentiable", False) and len(self.reducers) == 1

    @property
    def _engine_can(self) -> bool:
        """Whether the engine itself can give the first gradient: of the output and perhaps lse."""
        kinds = [type(reducer) for reducer in self.reducers]
        return hasattr(self.engine, "vjp") and kinds in ([Mixed], [Mixed, Lse])

    def _remembered(self, call: Call) -> list[Any]:
        """The value; output and lse are kept for the gradient."""
        output, lse = self.engine.remember(call)
        self.kept[:] = [(output.detach(), lse, output._version)]
        return [output, lse.to(accumulator(torch, call.q), copy=True)][: len(self.reducers)]

    def _engine_gradients(
        self, call: Call, wanted: Sequence[bool], along: list[Any]
    ) -> list[Any] | None:
        found = self.kept[0] if self.kept else None
        # An output that somebody has written into since is no longer what the engine found.
        if found is None or found[0]._version != found[2]:
            found = self.engine.remember(call)
        gradients: list[Any] | None = self.engine.vjp(call, found[:2], along, wanted)
        return gradients

    def _value(self, call: Call) -> list[Any]:
        return list(self.engine.compute(call, self.reducers))

    def _graph(self, call: Call, flags: Sequence[bool]) -> tuple[list[Any], list[Any]]:
        """Leaves of their own for the call's arrays, and what the engine makes of them."""
        leaves = [
            a.detach().requires_grad_(flag) for a, flag in zip(call.floats, flags, strict=True)
        ]
        with torch.enable_grad():
            return leaves, self._value(call.with_floats(leaves))

    def _torch_gradients(self, call: Call, wanted: Sequence[bool], along: list[Any]) -> list[Any]:
        leaves, outputs = self.kept.pop() if self.kept else self._graph(call, wanted)
        to = [leaf for leaf, want in zip(leaves, wanted, strict=True) if want]
        return list(
            torch.autograd.grad(outputs, to, along, allow_unused=True, materialize_grads=True)
        )


@contextmanager
def _recording() -> Iterator[None]:
    """Inside, autograd can record: it is off within an operator, and in inference mode."""
    keys, exclude = torch._C.DispatchKey, torch._C._SetExcludeDispatchKeyGuard
    inference = torch.is_inference_mode_enabled()
    with (
        torch.inference_mode(False) if inference else nullcontext(),
        exclude(keys.AutogradFunctionality, False),
        exclude(keys.ADInplaceOrView, False),
    ):
        yield


def _refuse_mapped_functions(call: Call) -> None:
    """What ``where(fn)`` returns for one pair tells whether ``fn`` holds a mapped tensor."""
    functorch: Any = torch._C._functorch
    sizes, mapping = call.sizes, torch._C._are_functorch_transforms_active()
    if call.mask is None or not mapping or 0 in (sizes.T, sizes.S):
        return
    first = call.frame.move(call.frame.query_positions()[..., :1, None])
    for fn in flatten(call.mask).functions:
        allowed = fn(first[..., None, :, :] if first.ndim > 2 else first, first.new_zeros(1))
        while isinstance(allowed, torch.Tensor) and functorch.is_functorch_wrapped_tensor(allowed):
            if functorch.is_batchedtensor(allowed):
                raise KindError(
                    "vmap cannot map a tensor that the function of where(fn) holds; make the "
                    "boolean array of it that keep(array) takes"
                )
            allowed = functorch.get_unwrapped(allowed)


class Attention(torch.autograd.Function):
    """The value of a step, with its derivatives."""

    @staticmethod
    def forward(step: Step, *arrays: Any) -> tuple[Any, ...]:
        """The value, of plain tensors."""
        found = step.result(arrays)
        if step.dual:  # torch wants the tangent, which is contiguous, to be laid out alike
            found = [o.clone(memory_format=torch.contiguous_format) for o in found]
        return tuple(found)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        """Keep what the derivatives need: the inputs."""
        ctx.step = inputs[0]
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])
        ctx.smooth = [o.is_floating_point() for o in output]
        ctx.mark_non_differentiable(*(o for o in output if not o.is_floating_point()))

    @staticmethod
    def backward(ctx: Any, *along: Any) -> tuple[Any, ...]:
        """The gradients of the arrays that want one."""
        refuse_old_vmap(along)
        arrays, masks = ctx.saved_tensors, ctx.step.masks
        wanted = ctx.needs_input_grad[1 + masks :]
        cotangents = [g for g, smooth in zip(along, ctx.smooth, strict=True) if smooth]
        found = iter(_apply(ctx.step.then("vjp", wanted), *arrays, *cotangents))
        return (*[None] * (1 + masks), *(next(found) if want else None for want in wanted))

    @staticmethod
    def jvp(ctx: Any, *along: Any) -> tuple[Any, ...]:
        """The tangents of the outputs."""
        arrays, masks = ctx.saved_tensors, ctx.step.masks
        tangents = [
            torch.zeros_like(a) if t is None else t
            for a, t in zip(arrays[masks:], along[1 + masks :], strict=True)
        ]
        found = iter(_apply(ctx.step.then("jvp"), *arrays, *tangents))
        return tuple(next(found) if smooth else None for smooth in ctx.smooth)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], step: Step, *arrays: Any) -> tuple[Any, Any]:
        """One more leading axis."""
        moved = [
            a.expand(info.batch_size, *a.shape) if dim is None else a.movedim(dim, 0)
            for a, dim in zip(arrays, in_dims[1:], strict=True)
        ]
        outputs = _apply(replace(step, kept=[]), *moved)
        return outputs, (0,) * len(outputs)


def _apply(step: Step, *arrays: Any) -> tuple[Any, ...]:
    apply: Any = Attention.apply
    found: tuple[Any, ...] = apply(replace(step, dual=any(has_tangent(a) for a in arrays)), *arrays)
    return found


def compute(call: Call, engine: ModuleType, reducers: Sequence[Reducer]) -> list[Any]:
    """What ``engine`` answers, as a function that torch can differentiate and map."""
    _refuse_mapped_functions(call)
    arrays, step = _step(call, engine, reducers)
    return list(_apply(step, *arrays))


def gradients(
    call: Call,
    engine: ModuleType,
    reducers: Sequence[Reducer],
    along: Sequence[Any],
    wanted: Sequence[bool],
) -> list[Any]:
    """Of plain tensors: the gradients ``wanted`` of ``Call.floats``, for these cotangents."""
    arrays, step = _step(call, engine, reducers)
    return step.then("vjp", wanted).result([*arrays, *along])


def _step(call: Call, engine: ModuleType, reducers: Sequence[Reducer]) -> tuple[list[Any], Step]:
    arrays, floats = call.arrays, len(call.floats)
    return arrays, Step(call.hollow(), len(arrays) - floats, floats, engine, reducers)
