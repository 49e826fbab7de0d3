"""The subject: somebody's function, class or module, loaded, built and ready to be called.

What it takes and gives is NumPy here, whatever library it is written for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import inspect
import random
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.diagnosis.chance import keeping
from regard.diagnosis.roles import parameter_role, size_role
from regard.diagnosis.source import Source, read, source_of

Array = Any


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
                with keeping(self.keep):
                    return to_numpy(self.call(*positional, **keyword))
            return to_numpy(self.call(*positional, **keyword))

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
            if isinstance(self.owner, torch.nn.Module):
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


def load_file(path: Path, name: str) -> tuple[Any, Source]:
    """``NAME`` of a Python file, and its source.  Raises what the file raises."""
    text = path.read_text(encoding="utf-8")
    if re.search(
        r"^\s*(?:import|from)\s+(?:torch|transformers|x_transformers)\b", text, re.MULTILINE
    ):
        with contextlib.suppress(ImportError):
            quiet_torch()
    sys.path.insert(0, str(path.parent))
    key = "_regard_subject_" + re.sub(r"\W", "_", path.stem)
    spec = importlib.util.spec_from_file_location(key, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[key] = module
    seed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    thing: Any = module
    for part in name.split("."):
        if not hasattr(thing, part):
            raise Refused("check.no-name", name=name, file=path.name, names=_names(module))
        thing = getattr(thing, part)
    return thing, read(text, name)


def _names(module: types.ModuleType) -> str:
    own = [
        n
        for n, v in vars(module).items()
        if getattr(v, "__module__", None) == module.__name__ and not n.startswith("_")
    ]
    return ", ".join(own)


def quiet_torch() -> Any:
    """Torch on one thread, making float64 by itself."""
    import torch

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    return torch


def library_of(thing: Any, source: Source) -> str:
    """``torch`` or ``numpy``, by what it is and by what its code names."""
    torch = sys.modules.get("torch")
    if torch is not None:
        kinds = thing.__mro__ if inspect.isclass(thing) else type(thing).__mro__
        if torch.nn.Module in kinds:
            return "torch"
        if re.search(r"\btorch\b|\bF\.|\bnn\.|\bTensor\b", source.joined):
            return "torch"
        module = getattr(thing, "__module__", "") or ""
        if module.startswith("torch") or isinstance(thing, types.BuiltinFunctionType):
            return "torch"
        if re.search(
            r"\.(?:softmax|masked_fill|transpose\(-?\d, ?-?\d\)|permute|view|unsqueeze)\(",
            source.joined,
        ) and not re.search(r"\bnp\.|\bnumpy\b", source.joined):
            return "torch"
    return "numpy"


# Building


def build(thing: Any, source: Source, init: Mapping[str, Any] | None, sizes: Sizes) -> Subject:
    """A subject of a function, a class (built with guessed sizes) or an instance."""
    library = library_of(thing, source)
    if library == "torch":
        quiet_torch()
    given: dict[str, Any] = {}
    owner = None
    rebuild = None
    name = getattr(thing, "__name__", type(thing).__name__)
    call: Callable[..., Any]
    if inspect.isclass(thing):

        def rebuild(**changes: Any) -> Any:
            seed()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return thing(**{**given, **changes})

        if _is_grouped(thing, source):
            sizes = replace(sizes, heads=6, groups=3)
        given = constructor_arguments(thing, source, init or {}, sizes)
        owner = rebuild()
        sizes = _built_sizes(given, owner, sizes)
    elif not inspect.isroutine(thing):
        owner = thing
        sizes = _built_sizes({}, owner, sizes, fallback=False)
    if owner is not None:
        call, shape = _method(owner)
    else:
        call = shape = thing
    subject = Subject(
        call, owner, name, library, source, parameters_of(shape), sizes, given, rebuild=rebuild
    )
    subject.train(False)
    if library == "torch":
        subject.to("float64")
    return subject


def _is_grouped(cls: type, source: Source) -> bool:
    """Whether a constructor takes a number of key heads."""
    try:
        names = list(inspect.signature(cls).parameters)
    except (TypeError, ValueError):
        return False
    if any(size_role(n) == "groups" for n in names):
        return True
    return (
        re.search(r"n_kv_heads?\b|num_kv_heads|num_key_value_heads|kv_heads", source.joined)
        is not None
    )


def _method(owner: Any) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """How an object is called, and the method whose signature tells with what."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.nn.Module):
        return owner, owner.forward
    for name in (
        "forward",
        "__call__",
        "call",
        "attend",
        "compute",
        "apply",
        "run",
        "attention",
        "encode",
    ):
        method = getattr(owner, name, None)
        if callable(method) and (name != "__call__" or "__call__" in vars(type(owner))):
            return method, method
    raise Refused("check.not-callable", name=type(owner).__name__)


def parameters_of(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """The parameters of a call with their roles."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
        return tuple(
            Parameter(n, parameter_role(n), i < 3, None if i < 4 else 0, i < 3)
            for i, n in enumerate(names)
        )
    found = []
    for p in signature.parameters.values():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        required = p.default is p.empty
        role = parameter_role(p.name)
        number = isinstance(p.default, int | float) and not isinstance(p.default, bool)
        if role in ("x", "k", "q", "v") and (number or _is_number(p.annotation)):
            role = "heads" if p.name == "h" else "head_dim"
        if role == "causal" and not required and not isinstance(p.default, bool):
            role = "other"
        positional = p.kind is p.POSITIONAL_ONLY or (required and p.kind is not p.KEYWORD_ONLY)
        found.append(Parameter(p.name, role, required, None if required else p.default, positional))
    return tuple(_by_company(found))


def _is_number(annotation: Any) -> bool:
    return annotation in (int, float) or annotation in ("int", "float")


def _by_company(found: list[Parameter]) -> list[Parameter]:
    """Roles that depend on the other parameters: h beside n, k alone, three names of no meaning."""
    roles = {p.role for p in found}
    if {"q", "k", "v"} <= roles:
        return [replace(p, role="heads") if p.name == "h" else p for p in found]
    if not roles & {"x", "q"}:
        unknown = [p for p in found if p.required and p.role in ("other", "k", "v", "context")]
        if len(unknown) == 1:
            return [replace(p, role="x") if p is unknown[0] else p for p in found]
        if len(unknown) >= 3:
            names = dict(zip((p.name for p in unknown), ("q", "k", "v", "mask"), strict=False))
            return [replace(p, role=names.get(p.name, p.role)) for p in found]
    heads = [p for p in found if p.name == "h" and p.required]
    if heads and len([p for p in found if p.role == "x"]) > 1 or (heads and "q" in roles):
        return [replace(p, role="heads") if p.name == "h" else p for p in found]
    if "x" not in roles and roles & {"q"} and not roles & {"k", "v", "context"}:
        return [replace(p, role="x") if p.role == "q" else p for p in found]
    inputs = [p for p in found if p.role == "x" and p.required]
    if len(inputs) == 2:  # a target and a source
        second = inputs[1]
        return [replace(p, role="context") if p is second else p for p in found]
    return found


def constructor_arguments(
    cls: type, source: Source, init: Mapping[str, Any], sizes: Sizes
) -> dict[str, Any]:
    """What the constructor is given: what the user said, and a guess by name for the rest."""
    arguments: dict[str, Any] = {}
    try:
        parameters = list(inspect.signature(cls).parameters.values())
    except (TypeError, ValueError):
        return dict(init)
    roles = [size_role(p.name) for p in parameters]
    for p, role in zip(parameters, roles, strict=True):
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            continue
        if p.name in init:
            arguments[p.name] = init[p.name]
            if isinstance(init[p.name], Mapping):
                arguments[p.name] = _config(p, cls, source, init[p.name], sizes)
            continue
        word = p.name.lower()
        if word in (
            "config",
            "cfg",
            "args",
            "params",
            "hparams",
            "hp",
            "conf",
            "options",
            "model_args",
            "opt",
        ):
            arguments[p.name] = _config(p, cls, source, {}, sizes)
            continue
        guess = _size(role, p.name, sizes, roles, p.default)
        if guess is not None:
            if p.default is p.empty or role in _OVERRIDDEN:
                arguments[p.name] = guess
        elif p.default is p.empty:
            if p.annotation in (bool, "bool"):
                arguments[p.name] = False
            elif p.annotation in (int, "int"):
                arguments[p.name] = sizes.model
            else:
                raise Refused("check.cannot-build", name=cls.__name__, parameter=p.name)
    arguments.update({k: v for k, v in init.items() if k not in arguments})
    return arguments


_OVERRIDDEN = {"heads", "groups", "head_dim", "model_dim", "exact_length", "length", "window"}


def _size(role: str, name: str, sizes: Sizes, roles: list[str], default: Any) -> Any:
    many = "heads" in roles or "groups" in roles
    if default is None and role in ("window", "groups", "head_dim") and name not in ("d_k", "d_v"):
        return None  # an option that is off
    values = {
        "heads": sizes.heads,
        "groups": sizes.groups,
        "head_dim": sizes.width,
        "model_dim": sizes.model if many or "head_dim" in roles else sizes.width,
        "length": 16,
        "exact_length": sizes.queries,
        "dropout": 0.1,
        "bias": False,
        "layers": 1,
        "hidden": 32,
        "vocab": 11,
        "window": 3,
        "causal": True,
        "training": False,
        "scale": None,
    }
    if default is None and role in ("model_dim", "exact_length", "length"):
        return None
    return values.get(role)


def _config(
    p: inspect.Parameter, cls: type, source: Source, said: Mapping[str, Any], sizes: Sizes
) -> Any:
    """The file's own config class filled with sizes, else a plain namespace of what is read."""
    space = vars(sys.modules[cls.__module__])
    kind = p.annotation if inspect.isclass(p.annotation) else space.get(str(p.annotation))
    if kind is p.empty:
        kind = None
    if not inspect.isclass(kind) or kind in (dict, types.SimpleNamespace):
        named = [
            v
            for n, v in space.items()
            if inspect.isclass(v)
            and v.__module__ == cls.__module__
            and re.search(r"config|args|params|cfg", n, re.IGNORECASE)
        ]
        kind = named[0] if named else None
    wanted = re.findall(
        rf"\b{p.name}\s*(?:\.\s*(\w+)|\[\s*['\"](\w+)['\"]\s*\]|\.get\(\s*['\"](\w+)['\"])",
        source.joined,
    )
    as_dict = any(b or c for _, b, c in wanted)
    names = list(dict.fromkeys(a or b or c for a, b, c in wanted))
    if kind is not None and dataclasses.is_dataclass(kind):
        fields = [f.name for f in dataclasses.fields(kind)]
        roles = [size_role(n) for n in fields]
        values = {
            n: guess
            for n, role in zip(fields, roles, strict=True)
            if role in _OVERRIDDEN and (guess := _size(role, n, sizes, roles, "")) is not None
        }
        return kind(**{**values, **said})
    if kind is not None and not dataclasses.is_dataclass(kind):
        with contextlib.suppress(TypeError):
            made = kind()
            roles = [size_role(n) for n in names]
            for n, role in zip(names, roles, strict=True):
                if role in _OVERRIDDEN and isinstance(getattr(made, n, None), int):
                    setattr(made, n, _size(role, n, sizes, roles, ""))
            for n, v in said.items():
                setattr(made, n, v)
            return made
    roles = [size_role(n) for n in names]
    made_up = {n: _size(r, n, sizes, roles, "") for n, r in zip(names, roles, strict=True)}
    made_up = {n: v for n, v in made_up.items() if v is not None} | dict(said)
    return made_up if as_dict or kind is dict else types.SimpleNamespace(**made_up)


_HEADS = ("num_heads", "n_heads", "n_head", "heads", "h", "nhead", "num_attention_heads", "nh",
          "head", "H", "n_local_heads", "num_head", "nheads", "_num_heads", "n_h", "num_q_heads",
          "n_q_heads", "q_heads")  # fmt: skip
_GROUPS = ("num_kv_heads", "n_kv_heads", "num_key_value_heads", "kv_heads", "n_kv_head", "G",
           "num_groups", "n_groups", "groups", "n_kv")  # fmt: skip


def _numbers(owner: Any) -> Mapping[str, Any]:
    found = dict(vars(owner))
    config = found.get("config") or found.get("cfg") or found.get("args")
    if config is not None and not isinstance(config, Mapping):
        found = {**getattr(config, "__dict__", {}), **found}
    return found


def _built_sizes(
    given: Mapping[str, Any], owner: Any, sizes: Sizes, *, fallback: bool = True
) -> Sizes:
    """The sizes that the built object has, read from its attributes."""
    numbers = _numbers(owner)
    inner = [_numbers(m) for m in owner.modules()] if hasattr(owner, "modules") else []
    heads = _whole(numbers, _HEADS) or _from_given(given, "heads")
    groups = _whole(numbers, _GROUPS) or _from_given(given, "groups")
    heads = heads or next((n for found in inner if (n := _whole(found, _HEADS))), None)
    groups = groups or next((n for found in inner if (n := _whole(found, _GROUPS[:-3]))), None)
    if heads is None:
        heads = next((len(v) for v in _lists(owner) if len(v) > 1), 1)
    if groups is None or heads % groups:
        groups = heads
    return replace(sizes, heads=heads, groups=groups)


def _from_given(given: Mapping[str, Any], role: str) -> int | None:
    return next((v for k, v in given.items() if size_role(k) == role and isinstance(v, int)), None)


def _whole(numbers: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    for name in names:
        value = numbers.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _lists(owner: Any) -> Iterator[Any]:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.nn.Module):
        for name, child in owner.named_children():
            if isinstance(child, torch.nn.ModuleList) and "head" in name.lower():
                yield child
        for _, child in owner.named_children():
            if isinstance(child, torch.nn.ModuleList):
                yield child
    else:
        for name, value in vars(owner).items():
            if isinstance(value, list) and ("head" in name.lower() or len(value) > 1):
                yield value
