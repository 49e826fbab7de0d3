"""Functions that tell the watches of their calls, while a watch lasts.

A function is tapped by putting another in its place, under every name that a loaded module or a
part of the model knows it by; the other one tells the watches and then calls the first with what it
was given.  A ``TorchFunctionMode`` would see calls under any name, but it costs every operation of
the model a detour through Python, and torch takes its fast paths for encoders only where none is
active, so the model would run other kernels than it does unwatched.

The replacement holds for the whole process, as any does in Python; who is told is decided at each
call: only a watch whose model has the module that called.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, MappingProxyType
from typing import TYPE_CHECKING, Any

from regard.core import attention as core

if TYPE_CHECKING:
    from regard.recording.capture.writer import Writer

Read = Callable[..., Any]
"""``read(masks, module, *args, **kwargs)`` → what the call says, as ``writer.Found``."""
EMPTY: Mapping[Any, Any] = MappingProxyType({})


class _Here(threading.local):
    """What is so in this thread."""

    busy = False
    """A call has been told of, and what it calls in turn is not told again."""
    replaying = False
    """A recorded pass runs again, which no watch of its model writes down."""


HERE = _Here()


class Taps:
    """The functions that are tapped now, and who is told."""

    def __init__(self) -> None:
        self.writers: list[Writer] = []
        self._changed: list[tuple[Any, str, Any, Any]] = []
        self._lock = threading.RLock()

    def open(self, writer: Writer, places: Iterable[Any], more: Mapping[Any, Any] = EMPTY) -> None:
        """Tell ``writer`` too; ``places`` may hold tapped functions under names of their own.

        ``more`` are functions that are tapped besides, and what stands in their places.
        """
        import torch

        known = {id(function): other for function, other in (tapped() | dict(more)).items()}
        with self._lock:
            self.writers = [*self.writers, writer]
            if not self._changed:
                self.change(torch.Tensor, "softmax", softened(torch.Tensor.softmax))
            for place in [*sys.modules.values(), *places]:
                names = getattr(place, "__dict__", None)
                if not isinstance(names, dict):
                    continue
                for name, value in list(names.items()):
                    found = known.get(id(value))
                    if found is not None and value is not found:
                        self.change(place, name, found)
            core.HEARD[:] = [heard]

    def change(self, place: Any, name: str, other: Any) -> None:
        """Puts ``other`` under ``name``, until the last watch closes."""
        before = vars(place).get(name, MISSING)
        setattr(place, name, other)
        self._changed.append((place, name, before, vars(place).get(name)))

    def close(self, writer: Writer) -> None:
        """Tell ``writer`` no more; with the last one all is as it was."""
        with self._lock:
            self.writers = [other for other in self.writers if other is not writer]
            if self.writers:
                return
            core.HEARD.clear()
            while self._changed:
                place, name, before, ours = self._changed.pop()
                if vars(place).get(name) is not ours:
                    continue  # someone else's stands there now
                if before is MISSING:
                    delattr(place, name)
                else:
                    setattr(place, name, before)

    def told(
        self, function: Any, read: Read, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """``function(*args, **kwargs)``, told to the watches whose model called it."""
        heard = self._heard(module)
        if not heard:
            return function(*args, **kwargs)
        HERE.busy = True
        try:
            for writer, caller in heard:
                function = writer.around(caller, read, function)
            return function(*args, **kwargs)
        finally:
            HERE.busy = False

    def _heard(self, module: Any) -> list[tuple[Writer, Any]]:
        import torch

        # Under checkpointing a forward runs again in the backward pass: it was told of once.
        if torch._C._current_graph_task_id() != -1:
            return []
        if module is not None:
            return [(w, module) for w in self.writers if module in w.names]
        return [(w, found) for w in self.writers if (found := calling(w.names)) is not None]


MISSING = object()
TAPS = Taps()


def calling(names: dict[Any, str]) -> Any:
    """The innermost of the modules in ``names`` whose method is running in this thread."""
    from torch.nn import Module

    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_argcount:
            first = frame.f_locals.get(code.co_varnames[0])
            if isinstance(first, Module) and first in names:
                return first
        frame = frame.f_back
    return None


def softened(function: Any) -> Any:
    """A softmax as it is; that it ran tells of attention that is computed by hand."""
    import torch

    @functools.wraps(function)
    def tapped(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        given: Any = args[0] if args else kwargs.get("input")
        if not HERE.busy and getattr(given, "ndim", 0) > 2:
            for writer in TAPS.writers:
                if writer.here.call is not None and not writer.here.owners:
                    module = calling(writer.names)
                    if module is not None:
                        shape = " × ".join(map(str, given.shape))
                        writer.ran(
                            module,
                            f"{type(module).__name__} takes a softmax over {shape} by hand; say "
                            "with watch(model, points={…}) how its queries and keys are got",
                        )
        return function(*args, **kwargs)

    return tapped


@functools.cache
def tapped() -> dict[Any, Any]:
    """All functions that are tapped, and what stands in their places while a watch lasts."""
    import torch
    import torch.nn.attention.flex_attention as flexible
    from torch.nn import functional

    from regard.recording.capture import calls

    read = {
        functional.scaled_dot_product_attention: calls.sdpa,
        functional.multi_head_attention_forward: calls.multi_head,
        torch._native_multi_head_attention: calls.native,
        torch._transformer_encoder_layer_fwd: calls.encoder_layer,
        flexible.flex_attention: calls.flex,
    }
    found = {function: tap(function, reads) for function, reads in read.items()}
    softmaxes = (functional.softmax, torch.softmax)
    return found | {function: softened(function) for function in softmaxes}


def tap(function: Any, read: Read) -> Any:
    """``function`` as it is, told to the watches."""
    import torch

    @functools.wraps(function)
    def tapped(*args: Any, **kwargs: Any) -> Any:
        # Asked first, so that a graph which is traced here holds nothing of ours.
        if torch.compiler.is_compiling() or HERE.busy or _is_ours(sys._getframe(1)):
            return function(*args, **kwargs)
        return TAPS.told(function, read, None, args, kwargs)

    return tapped


def _is_ours(frame: Any) -> bool:
    """Whether an engine of ``attend`` calls, which has been told of."""
    return str(frame.f_globals.get("__name__", "")).startswith("regard.core.")


def heard(q: Any, k: Any, mask: Any, options: dict[str, Any]) -> None:
    """Told by ``regard.attend`` of each call with data."""
    from regard.recording.capture.calls import ours

    if not HERE.busy and hasattr(q, "untyped_storage"):
        TAPS.told(lambda *_, **__: None, ours, None, (q, k, mask), options)
