"""From a file, a class or an object to a subject: loaded, built with guessed sizes, and read."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import re
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.diagnosis.configs import constructor_arguments
from regard.diagnosis.entries import is_keras
from regard.diagnosis.parameters import parameters_of
from regard.diagnosis.roles import size_role
from regard.diagnosis.source import Source, read
from regard.diagnosis.subject import Refused, Sizes, Subject, quiet_torch, seed


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
            r"\.(?:softmax|masked_fill|permute|view|unsqueeze|size)\(|\.transpose\(-?\d, ?-?\d\)",
            source.joined,
        ) and not re.search(r"\bnp\.|\bnumpy\b", source.joined):
            return "torch"
    return "numpy"


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
        _give_weights(owner, sizes)
        sizes = _built_sizes({}, owner, sizes, fallback=False)
    if owner is not None:
        call, shape = _method(owner)
    else:
        call = shape = thing
    subject = Subject(
        call,
        owner,
        name,
        library,
        source,
        parameters_of(shape, source),
        sizes,
        given,
        rebuild=rebuild,
    )
    subject.train(False)
    if library == "torch":
        subject.to("float64")
    return subject


def _give_weights(owner: Any, sizes: Sizes) -> None:
    """Builds a Keras layer, which has no weights until it is told the shapes of its inputs."""
    if getattr(owner, "built", True) is False and hasattr(owner, "build"):
        with contextlib.suppress(Exception):  # other layers want other shapes
            owner.build(
                (sizes.batch, sizes.queries, sizes.model), (sizes.batch, sizes.keys, sizes.model)
            )


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
        # The forward of a Keras layer takes whatever its call does.
        return owner, owner.call if is_keras(owner) else owner.forward
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
    heads = _whole(numbers, _HEADS) or _from_given(given, "heads") or _from_given(numbers, "heads")
    groups = _whole(numbers, _GROUPS) or _from_given(given, "groups")
    groups = groups or _from_given(numbers, "groups")
    heads = heads or next((n for found in inner if (n := _whole(found, _HEADS))), None)
    groups = groups or next((n for found in inner if (n := _whole(found, _GROUPS[:-3]))), None)
    if heads is None:
        heads = next((len(v) for v in _lists(owner) if len(v) > 1), 1)
    if groups is None or heads % groups:
        groups = heads
    return replace(sizes, heads=heads, groups=groups)


def _from_given(given: Mapping[str, Any], role: str) -> int | None:
    told = (v for k, v in given.items() if size_role(k) == role and type(v) is int and v > 0)
    return next(told, None)


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
