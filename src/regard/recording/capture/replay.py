"""A recorded forward pass once more, with a visitor at each attention that may change its output.

The same functions are tapped as while a model is watched.  What a visitor sees is what the kernel
was given and what it gave, head by head: values and outputs, which a recording does not keep, and
the linear map that the model sends the heads' outputs through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard._errors import KindError
from regard.core.attention import attend
from regard.recording.capture import calls
from regard.recording.capture.calls import Found, Masks, Unreadable
from regard.recording.capture.tables import read_by_name, tap_tables
from regard.recording.capture.taps import HERE, TAPS, tap
from regard.recording.capture.writer import Writer
from regard.recording.keeping import QueriesAndKeys
from regard.recording.recording import Layer, Recording, Run

if TYPE_CHECKING:
    from torch import Tensor

CACHES = ("past_key_values", "cache", "cache_params")
"""Arguments that a forward pass changes."""


@dataclass
class Called:
    """One attention of the pass."""

    number: int
    """Which layer of the recorded run it is."""
    layer: Layer
    v: Tensor
    """(B, G, S, E)"""
    o: Tensor
    """(B, H, T, E) what the kernel gave."""
    projection: Tensor | None = None
    """(H, E, d) what the heads' outputs are multiplied by, where that is seen."""


class Visitor:
    """Is shown each attention of the pass."""

    def output(self, called: Called) -> Tensor | None:
        """What the model shall go on with in place of ``called.o``; None for that itself."""
        return None

    def done(self, called: Called) -> None:
        """Its projection has been met by now, if it has one that can be seen."""


def replay(run: Run, visitor: Visitor, *, gradients: bool = False) -> Any:
    """The model's output, from the inputs of ``run``, with ``visitor`` at each attention.

    Raises:
        KindError: a run that cannot be had again; a model in training mode.
    """
    import torch

    model, module = _model_of(run)
    assert run.again is not None
    writer = Replayer(model, run, visitor)
    fast = torch.backends.mha.get_fastpath_enabled()
    hooks = [part.register_forward_pre_hook(writer.projects) for part in model.modules()]
    trained = [one for one in model.parameters() if gradients and one.requires_grad]
    HERE.replaying = True
    try:
        torch.backends.mha.set_fastpath_enabled(False)  # it computes whole layers in one piece
        for parameter in trained:
            parameter.requires_grad_(False)  # no graph is held for what nobody asks
        TAPS.open(writer, writer.names, {attend: tap(attend, _attended)})
        tap_tables(TAPS)
        with torch.inference_mode(False), torch.set_grad_enabled(gradients):
            output = module(*run.again.args, **run.again.kwargs)
        writer.settle()
        return output
    finally:
        HERE.replaying = False
        TAPS.close(writer)
        torch.backends.mha.set_fastpath_enabled(fast)
        for parameter in trained:
            parameter.requires_grad_(True)
        for hook in hooks:
            hook.remove()


def _model_of(run: Run) -> tuple[Any, Any]:
    """The model of a run and what was called of it."""
    again = run.again
    model = None if again is None else again.model()
    why = None
    if again is None:
        why = "it was opened from a file, or a part of the model was called that has no inputs"
    elif run.calls > 1:
        why = f"it is {run.calls} passes joined, as of a generation"
    elif any(again.kwargs.get(name) is not None for name in CACHES):
        why = "its model was given a cache, which the pass has changed"
    elif model is None or again.module() is None:
        why = "its model is gone"
    elif training := [name for name, part in model.named_modules() if part.training]:
        # Dropout would draw anew, and what a layer counts of its inputs would count these too.
        raise KindError(
            f"the model must be in evaluation mode to run again, but {training[0] or 'it'} is "
            "training; call model.eval()"
        )
    if why is not None:
        raise KindError(
            f"this run cannot be had again, for {why}; call the model on the whole text inside "
            "'with regard.watch(model) as seen:', and keep the model"
        )
    assert again is not None
    return model, again.module()


class Replayer(Writer):
    """Shows a visitor each attention of a model that belongs to a recorded run."""

    def __init__(self, model: Any, run: Run, visitor: Visitor) -> None:
        super().__init__(model, Recording(), QueriesAndKeys())
        self.visitor = visitor
        self._masks = Masks()
        self._layers = list(run.layers)
        self._numbers = _occurrences([layer.name for layer in self._layers])
        self._met: dict[str, int] = {}
        self._pending: Called | None = None

    def around(self, module: Any, read: Any, function: Any) -> Any:
        if read is calls.multi_head:
            return _by_parts(function)

        def shown(*args: Any, **kwargs: Any) -> Any:
            given = function(*args, **kwargs)
            name = self.names[module]
            nth = self._met[name] = self._met.get(name, -1) + 1
            number = self._numbers.get((name, nth))
            try:
                found = None if number is None else read(self._masks, module, *args, **kwargs)
            except Unreadable:
                found = None
            if number is None or found is None or given is None:
                return given
            value = args[2] if len(args) > 2 else kwargs.get("value", kwargs.get("v"))
            return self._shown(number, module, found, value, given, _turns(read))

        return shown

    def _shown(
        self, number: int, module: Any, found: Found, value: Any, given: Any, turned: bool
    ) -> Any:
        self.settle()
        out = given[0] if isinstance(given, tuple) else given
        (B, H, T, _), (G, S) = found.q.shape, found.k.shape[1:3]
        o = out.transpose(1, 2) if turned else out.reshape(B, H, T, out.shape[-1])
        v = value.reshape(-1, G, S, value.shape[-1]).expand(B, -1, -1, -1)
        known = self._layers[number]
        layer = replace(
            known, q=found.q, k=found.k, mask=found.mask, start=found.start, options=found.options
        )
        called = Called(number, layer, v.detach(), o, _inner_projection(module, H))
        new = self.visitor.output(called)
        called.o = (o if new is None else new).detach()
        self._pending = called
        if new is None:
            return given
        new = new.transpose(1, 2).contiguous() if turned else new.reshape(out.shape)
        return (new, *given[1:]) if isinstance(given, tuple) else new

    def projects(self, part: Any, args: Any) -> None:
        """``part`` is about to run: it may be what the heads' outputs go through."""
        called = self._pending
        weight = getattr(part, "weight", None)
        if called is None or called.projection is not None or weight is None or not args:
            return
        x: Any = args[0]
        _, H, _, E = called.o.shape
        if (
            weight.ndim != 2
            or not hasattr(x, "detach")
            or x.shape[-1] != H * E
            or x.numel() != called.o.numel()
        ):
            return
        given = x.detach()
        orders = called.o.transpose(1, 2), called.o.permute(2, 0, 1, 3)  # batch or time first
        if not any((given.reshape(o.shape) == o).all() for o in orders):
            return
        into = weight.detach()
        if type(part).__name__ != "Conv1D":  # whose weight lies the other way round
            into = into.T
        if into.shape[0] == H * E:
            called.projection = into.reshape(H, E, -1)

    def settle(self) -> None:
        """What the last attention goes through has been met, or will not be."""
        if self._pending is not None:
            called, self._pending = self._pending, None
            self.visitor.done(called)


def _attended(
    masks: Masks, module: Any, q: Any, k: Any, v: Any, mask: Any = None, **given: Any
) -> Found:
    """``regard.attend``, tapped as a function."""
    options = dict.fromkeys(("bias", "scale", "softcap", "sink", "start"))
    return calls.ours(masks, module, q, k, mask, **{**options, **given})


def _by_parts(function: Any) -> Callable[..., Any]:
    """``F.multi_head_attention_forward`` by the kernel that it calls, which is then told of."""

    def called(*args: Any, **kwargs: Any) -> Any:
        given = calls.by_name(args, kwargs)
        weights = function(**given)[1] if given["need_weights"] else None
        HERE.busy = False
        try:
            return function(**{**given, "need_weights": False})[0], weights
        finally:
            HERE.busy = True

    return called


def _occurrences(names: list[str]) -> dict[tuple[str, int], int]:
    """The number of each layer by its name and how many of that name came before."""
    met: dict[str, int] = {}
    found = {}
    for number, name in enumerate(names):
        found[name, met.get(name, 0)] = number
        met[name] = met.get(name, 0) + 1
    return found


def _turns(read: Any) -> bool:
    """Whether the output comes as (B, T, H, E), as transformers' functions give it."""
    return getattr(read, "func", None) is read_by_name


def _inner_projection(module: Any, H: int) -> Tensor | None:
    """That of ``nn.MultiheadAttention``, which calls no module for it."""
    import torch

    if not isinstance(module, torch.nn.MultiheadAttention):
        return None
    return module.out_proj.weight.detach().T.reshape(H, module.head_dim, -1)
