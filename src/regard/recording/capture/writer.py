"""Writes each attention call of one model into its recording, and lists what it did not see."""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import ref

from regard.recording.capture.calls import Found, Masks, Unreadable
from regard.recording.capture.places import ATTENTION, Inputs, kind_of, numbers
from regard.recording.capture.sequences import Sequence
from regard.recording.capture.taps import HERE
from regard.recording.expected import causal_of, expected_of
from regard.recording.keeping import Keep
from regard.recording.places import places_of
from regard.recording.recording import Again, Layer, Missed, Recording, Run


@dataclass
class Call:
    """One forward pass that is under way in one thread."""

    inputs: Inputs
    given: dict[str, Any]
    run: Run
    masks: Masks = field(default_factory=Masks)
    inside: list[Any] = field(default_factory=list)
    """The modules that the pass has entered, of those that begin or end one."""
    layers: list[tuple[Layer, Layer]] = field(default_factory=list)
    """Each as it was called, and what is kept of it."""
    called: int = 0
    """How many layers were called so far."""
    noted: set[str] = field(default_factory=set)
    """Modules of which something was seen, or said to be missed."""
    ran: dict[str, str] = field(default_factory=dict)
    """Modules that ran and look like attention, and why one would think so."""


class _Thread(threading.local):
    """What one thread is doing with the model."""

    call: Call | None = None
    sequence: Sequence | None = None
    owners: tuple[tuple[Any, dict[str, Any]], ...] = ()
    """The modules that are running for which a point answers, and what their parts gave."""


class Writer:
    """The one watch of one model."""

    def __init__(self, model: Any, seen: Recording, keep: Keep) -> None:
        self.names = {module: name for name, module in model.named_modules()}
        self.model = model
        self.seen = seen
        self.keep = keep
        self._causal = causal_of(model)
        self.here = _Thread()
        self._inputs: dict[Any, Inputs] = {}
        self._kinds: dict[Any, str] = {}
        self._lock = threading.Lock()

    def begin(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A forward of the model, or of a part that is called by itself, begins."""
        if HERE.replaying:
            return
        call = self.here.call
        if call is None or module in call.inside:  # the latter: an interrupt let the last one hang
            call = self.here.call = self._begun(module, args, kwargs)
        call.inside.append(module)

    def _begun(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        if module not in self._inputs:
            self._inputs[module] = Inputs(module)
        inputs = self._inputs[module]
        given = inputs.bound(args, kwargs)
        texts = numbers(given)
        run = Run(
            ids=texts.get("input_ids"),
            texts=texts,
            places=places_of(module, given),
            expected=expected_of(self.model, given, self._causal),
            again=_again(self.model, module, args, kwargs) if args or kwargs else None,
        )
        with self._lock:
            self.seen.runs.append(run)
        return Call(inputs, given, run)

    def end(self, module: Any, _args: Any, output: Any) -> None:
        """It has ended, or raised."""
        call = self.here.call
        if HERE.replaying or call is None or not call.inside or call.inside[-1] is not module:
            return
        call.inside.pop()
        if not call.inside:
            self.here.call = None
            self._ended(call, raised=output is None and sys.exc_info()[0] is not None)

    def _ended(self, call: Call, raised: bool) -> None:
        before, run = self.here.sequence, call.run
        if not raised:
            self._judge(call)
        live = [layer for layer, _ in call.layers] if self.seen.followers else []
        if before is not None and not raised and before.joined(call.layers, run):
            with self._lock:
                self.seen.runs[:] = [other for other in self.seen.runs if other is not run]
        else:
            before = self.here.sequence = Sequence(run, call.layers)
        for follower in self.seen.followers:
            follower.after(before, live)

    def _judge(self, call: Call) -> None:
        """Lists what ran and was not seen."""
        for name, why in call.ran.items():
            if not any(_same_place(name, seen) for seen in call.noted):
                self.miss(name, why)

    def ran(self, module: Any, why: str) -> None:
        """A module ran that looks like attention, for the reason ``why``."""
        if self.here.call is not None and not HERE.replaying:
            self.here.call.ran[self.names[module]] = why

    def around(self, module: Any, read: Any, function: Any) -> Any:
        """``function`` as it is called by ``module``, which is noted."""

        def noted(*args: Any, **kwargs: Any) -> Any:
            self.note(module, read, args, kwargs)
            return function(*args, **kwargs)

        return noted

    def note(self, module: Any, read: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record one call of the model's."""
        if HERE.replaying or self.here.owners:
            return  # the latter: a point answers for all that its module calls
        call = self.here.call
        alone = call is None
        if call is None:
            call = self._begun(module, (), {})
        name = self.names[module]
        if type(module).__name__ == "TransformerEncoderLayer":
            name = f"{name}.self_attn".lstrip(".")
        call.noted.add(name)
        try:
            found = read(call.masks, module, *args, **kwargs)
            _check_data(found)
        except Unreadable as reason:
            self.miss(name, str(reason))
            return
        layer = self._layer(name, module, found, call)
        number, call.called = call.called, call.called + 1
        kept = self.keep.of(layer, number, call.run)
        if kept is not None:
            call.layers.append((layer, kept))
        if alone:
            self._ended(call, raised=False)

    def _layer(self, name: str, module: Any, found: Found, call: Call) -> Layer:
        at = (module, found.cross)
        if at not in self._kinds:
            self._kinds[at] = kind_of(name, module, found.cross)
        kind = self._kinds[at]
        queries, keys = call.inputs.about(name, kind, call.given)
        return Layer(
            name, found.q, found.k, found.mask, found.start, found.options, kind, queries, keys
        )

    def miss(self, name: str, why: str) -> None:
        """Lists a module as not recorded, once for each reason."""
        missed = Missed(name, why)
        if missed not in self.seen.missed:
            self.seen.missed.append(missed)


def _check_data(found: Found) -> None:
    import torch

    for array in (found.q, found.k):
        if array.is_meta:
            raise Unreadable("it runs on 'meta', where tensors have no numbers; load its weights")
        if torch._C._functorch.is_functorch_wrapped_tensor(array):
            raise Unreadable("it runs inside a transform of torch.func, whose numbers are not out")
        if type(array) not in (torch.Tensor, torch.nn.Parameter):
            raise Unreadable(f"its queries and keys are of the kind {type(array).__name__}")


def _again(model: Any, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Again:
    kept = {name: _kept(value) for name, value in kwargs.items()}
    return Again(ref(model), ref(module), tuple(map(_kept, args)), kept)


def _kept(value: Any) -> Any:
    """A copy of token numbers and what lies beside them, whose array the next text may fill."""
    import torch

    if type(value) is not torch.Tensor or value.is_floating_point() or value.ndim > 2:
        return value
    with torch.inference_mode(False):
        return value.clone()


def _same_place(one: str, other: str) -> bool:
    """Whether one of two modules is the other, or a part of it."""
    short, long = sorted((one, other), key=len)
    return short == long or not short or long.startswith(f"{short}.")


def hooks_of(writer: Writer) -> list[Any]:
    """Hooks where a forward pass begins and ends, and on what looks like attention.

    A pass may begin at the model or at a part that is called by itself, as generation calls an
    encoder: any that holds a list of blocks.  None is put into a ``TransformerEncoderLayer``, which
    would then not take torch's fast path.
    """
    from torch.nn import TransformerEncoderLayer

    fast = {
        part
        for module in writer.names
        if isinstance(module, TransformerEncoderLayer)
        for part in module.modules()
    }
    hooks = []
    for module in _beginnings(writer.model):
        if module not in fast:
            hooks.append(module.register_forward_pre_hook(writer.begin, with_kwargs=True))
            hooks.append(module.register_forward_hook(writer.end, always_call=True))
    for module in writer.names:
        if module not in fast and _looks_like_attention(module):
            hooks.append(module.register_forward_pre_hook(partial(_ran, writer)))
    return hooks


def _beginnings(model: Any) -> list[Any]:
    """The model, and its parts above any list of blocks that hold one."""
    from torch.nn import ModuleDict, ModuleList, Sequential

    lists = (ModuleDict, ModuleList, Sequential)
    found, todo = [model], list(model.children())
    while todo:
        module = todo.pop()
        if isinstance(module, lists):
            continue
        if any(isinstance(part, lists) for part in module.modules()):
            found.append(module)
            todo += module.children()
    return found


def _looks_like_attention(module: Any) -> bool:
    """Whether a module's class says that it is attention, and none of its parts' does."""
    from torch.nn import MultiheadAttention

    return (
        bool(ATTENTION.search(type(module).__name__))
        and not isinstance(module, MultiheadAttention)  # all the ways that it takes are tapped
        and not any(
            ATTENTION.search(type(part).__name__) for part in module.modules() if part is not module
        )
    )


def _ran(writer: Writer, module: Any, _args: Any) -> None:
    writer.ran(
        module,
        f"{type(module).__name__} is attention by its name, and called no function that is known "
        "here: it computes by hand, by a compiled kernel, or by another library's; say with "
        "watch(model, points={…}) how its queries and keys are got",
    )
