"""The subject: somebody's function, class or module, loaded, built and ready to be called.

What it takes and gives is NumPy here, whatever library it is written for.
"""

from __future__ import annotations

import contextlib
import random
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.diagnosis.chance import keeping
from regard.diagnosis.entries import is_keras
from regard.diagnosis.source import Source


@dataclass(frozen=True)
class Sizes:
    """The sizes of a probe; coprime where the subject lets us choose."""

    batch: int = 2
    queries: int = 5
    keys: int = 7
    heads: int = 3
    groups: int = 3
    width: int = 8
    """D, of one head."""

    @property
    def model(self) -> int:
        """C, of all heads."""
        return self.heads * self.width


@dataclass(frozen=True)
class Parameter:
    """One parameter of the call."""

    name: str
    role: str
    required: bool
    default: Any = None
    positional: bool = False


class Refused(Exception):
    """What the subject lacks to be called; the line to add stands in ``remedy``."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key, self.values = key, values


@dataclass
class Subject:
    """A callable with what is known of it."""

    call: Callable[..., Any]
    owner: Any
    """The module or object that holds its weights, or None for a function."""
    name: str
    library: str
    source: Source
    parameters: tuple[Parameter, ...]
    sizes: Sizes
    given: Mapping[str, Any] = field(default_factory=dict)
    """What the constructor was given."""
    dtype: str = "float64"
    rebuild: Callable[..., Any] | None = None
    keep: float | None = None
    """What every uniform draw is made to be, so that dropout keeps everything; None for chance."""

    def role(self, *roles: str) -> Parameter | None:
        """The first parameter of one of these roles."""
        return next((p for p in self.parameters if p.role in roles), None)

    def run(self, arguments: Mapping[str, Any], number: int = 0) -> Any:
        """Calls the subject with NumPy arrays and returns what it gives, as NumPy."""
        seed(number)
        positional = []
        keyword = {}
        for p in self.parameters:
            if p.name in arguments:
                value = self.to_library(arguments[p.name])
                if p.positional:
                    positional.append(value)
                else:
                    keyword[p.name] = value
        with warnings.catch_warnings(), np.errstate(all="ignore"), self._no_grad():
            warnings.simplefilter("ignore")
            if self.keep is not None:
                with keeping(self.keep, *self.spaces()):
                    return to_numpy(self.call(*positional, **keyword))
            return to_numpy(self.call(*positional, **keyword))

    def spaces(self) -> list[dict[str, Any]]:
        """Where the subject may keep a generator of its own: its file's names, and its own."""
        function = getattr(self.call, "__func__", self.call)
        own = vars(self.owner) if hasattr(self.owner, "__dict__") else {}
        return [getattr(function, "__globals__", {}), own]

    def to_library(self, value: Any) -> Any:
        """Arrays in the subject's own library and dtype; all else as it is."""
        if isinstance(value, list | tuple):
            return type(value)(self.to_library(v) for v in value)
        if isinstance(value, dict) and value:
            return {k: self.to_library(v) for k, v in value.items()}
        if isinstance(value, types.SimpleNamespace):
            return types.SimpleNamespace(**{k: self.to_library(v) for k, v in vars(value).items()})
        if not isinstance(value, np.ndarray):
            return value
        if np.issubdtype(value.dtype, np.floating):
            value = value.astype(self.dtype)
        if self.library == "torch":
            import torch

            return torch.from_numpy(np.ascontiguousarray(value))
        return value.copy()

    @contextlib.contextmanager
    def _no_grad(self) -> Iterator[None]:
        if self.library != "torch":
            yield
            return
        import torch

        with torch.no_grad():
            yield

    def train(self, mode: bool) -> None:
        """Switches a module between training and evaluation."""
        if hasattr(self.owner, "train") and callable(self.owner.train):
            self.owner.train(mode)
        elif isinstance(getattr(self.owner, "training", None), bool):
            self.owner.training = mode

    def to(self, dtype: str) -> None:
        """Makes the subject's weights and inputs ``float64``, ``float32`` or ``float16``."""
        self.dtype = dtype
        if self.library == "torch":
            import torch

            torch.set_default_dtype(getattr(torch, dtype if dtype != "float16" else "float32"))
            # A layer of Keras casts its inputs by itself.
            if isinstance(self.owner, torch.nn.Module) and not is_keras(self.owner):
                self.owner.to(getattr(torch, dtype))


START = 0
"""What the generators start from where a subject is loaded and built."""


def seed(number: int | None = None) -> None:
    """Every generator that a subject may draw from starts anew."""
    number = START if number is None else number
    random.seed(number)
    np.random.seed(number)  # noqa: NPY002 - the subject may draw from the global generator
    if torch := sys.modules.get("torch"):
        torch.default_generator.manual_seed(number)


def to_numpy(value: Any) -> Any:
    """Arrays of any library as NumPy, containers kept."""
    if (
        isinstance(value, np.ndarray)
        or value is None
        or isinstance(value, bool | int | float | str)
    ):
        return value
    if isinstance(value, Mapping):
        return {k: to_numpy(v) for k, v in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], list):
        with contextlib.suppress(ValueError, TypeError):  # numbers in lists of lists
            return np.asarray(value, float)
    if isinstance(value, list | tuple):
        return tuple(to_numpy(v) for v in value)
    if hasattr(value, "detach"):
        value = value.detach()
        if value.dtype == sys.modules["torch"].bfloat16:
            value = value.float()
        return value.cpu().numpy()
    if isinstance(value, np.generic):
        return np.asarray(value)
    if hasattr(value, "__array__"):
        return np.asarray(value)
    return value


# Loading


def quiet_torch() -> Any:
    """Torch on one thread, making float64 by itself."""
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    return torch


# Building
