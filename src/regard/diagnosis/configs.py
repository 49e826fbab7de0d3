"""Constructor arguments by their names: sizes, and the file's own config class."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import re
import sys
import types
from collections.abc import Mapping
from typing import Any

from regard.diagnosis.roles import size_role
from regard.diagnosis.source import Source
from regard.diagnosis.subject import Refused, Sizes


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
