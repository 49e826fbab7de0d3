"""The parameters of a call with their roles, by their names, their company and what uses them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard.diagnosis.roles import parameter_role, plain
from regard.diagnosis.source import Source
from regard.diagnosis.subject import Parameter
from regard.diagnosis.use import projected_by, roles_by_use


def parameters_of(function: Callable[..., Any], source: Source) -> tuple[Parameter, ...]:
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
        if role in ("x", "k", "other") and _counts(p.name, source):
            role = "heads"
        if role == "heads" and _is_gone_through(p.name, source):
            role = "other"  # the heads themselves, and not their number
        if role == "mask" and _is_projected(p.name, source):
            role = "context"
        elif role == "other" and p.default is None and _masks(p.name, source):
            role = "mask"
        if role == "causal" and not required and not isinstance(p.default, bool):
            role = "other"
        positional = p.kind is p.POSITIONAL_ONLY or (required and p.kind is not p.KEYWORD_ONLY)
        found.append(Parameter(p.name, role, required, None if required else p.default, positional))
    return tuple(_by_company(_by_use(found, source)))


def _by_use(found: list[Parameter], source: Source) -> list[Parameter]:
    """The same, names that tell nothing as weights or inputs by what the code does with them."""
    if any(p.role in ("x", "q") for p in found):
        unknown = {p.name for p in found if p.required and p.role == "other"}
        bare = {n for n in unknown if not _holds_several(n, source)}
        roles = roles_by_use(source, bare) if len(bare) > 2 else {}
        found = [replace(p, role=f"w{roles[p.name]}") if p.name in roles else p for p in found]
    asked = [p for p in found if p.required and p.role in ("q", "k", "v", "x", "context", "other")]
    told = {p.role for p in asked}
    if len(asked) < 2 or told <= {"x", "q", "context"} or {"q", "k", "v"} <= told:
        return found
    inputs = projected_by(source, {p.name for p in asked})
    roles = {p.name: p.role if p.role in "qkv" else inputs.get(p.name, "") for p in asked}
    if "" in roles.values() or len(set(roles.values())) < len(asked):
        return found
    return [replace(p, role=roles.get(p.name, p.role)) for p in found]


def _holds_several(name: str, source: Source) -> bool:
    """Whether a parameter is unpacked as a mapping, or read by keys or attributes."""
    use = rf"\*\*{name}\b|\b{name}\[['\"]|\b{name}\.\w+\b(?!\()"
    return re.search(use, source.joined) is not None


def _is_number(annotation: Any) -> bool:
    return annotation in (int, float) or annotation in ("int", "float")


def _by_company(found: list[Parameter]) -> list[Parameter]:
    """Roles that depend on the other parameters: h beside n, k alone, three names of no meaning."""
    roles = {p.role for p in found}
    caches = [p for p in found if p.role == "cache"]
    kept = {c: p for p in caches for c in "kv" if c in (plain(p.name)[0], plain(p.name)[-1])}
    if (
        "q" in roles
        and not roles & {"k", "v"}
        and len(kept) == 2
        and all(p.required for p in kept.values())
    ):  # a step of decoding: what is kept are the keys and the values
        names = {p.name: c for c, p in kept.items()}
        return [replace(p, role=names.get(p.name, p.role)) for p in found]
    if {"q", "k", "v"} <= roles:
        more = {"x": "pad", "context": "pad"}  # all inputs are there: which of them are real
        return [
            replace(p, role="heads" if p.name == "h" else more.get(p.role, p.role)) for p in found
        ]
    asked = [p for p in found if p.required and p.role in ("q", "k", "v", "x", "context", "other")]
    if len(asked) == 3 and asked[2].role == "v" and asked[1].role != "q":
        names = dict(zip((p.name for p in asked), "qkv", strict=True))
        return [replace(p, role=names.get(p.name, p.role)) for p in found]
    if not roles & {"x", "q"}:
        unknown = [p for p in found if p.required and p.role in ("other", "k", "v", "context")]
        if len(unknown) == 2:  # what attends, and what is attended to
            names = dict(zip((p.name for p in unknown), ("q", "context"), strict=True))
            if unknown[0].role == "context" and unknown[1].role == "other":
                names = {p.name: r for p, r in zip(unknown, ("context", "q"), strict=True)}
            return [replace(p, role=names.get(p.name, p.role)) for p in found]
        lone = [p for p in found if p.required]
        if not unknown and len(lone) == 1 and lone[0].name == "h":  # hidden states
            return [replace(p, role="x") if p is lone[0] else p for p in found]
        if len(unknown) == 1:
            return [replace(p, role="x") if p is unknown[0] else p for p in found]
        if len(unknown) >= 3:
            names = dict(zip((p.name for p in unknown), ("q", "k", "v", "mask"), strict=False))
            return [replace(p, role=names.get(p.name, p.role)) for p in found]
    heads = [p for p in found if p.name == "h" and p.required]
    if (heads and len([p for p in found if p.role == "x"]) > 1) or (heads and "q" in roles):
        return [replace(p, role="heads") if p.name == "h" else p for p in found]
    if "x" not in roles and roles & {"q"} and not roles & {"k", "v", "context"}:
        return [replace(p, role="x") if p.role == "q" else p for p in found]
    inputs = [p for p in found if p.role == "x" and p.required]
    if len(inputs) == 2:  # a target and a source
        second = inputs[1]
        return [replace(p, role="context") if p is second else p for p in found]
    return found


def _counts(name: str, source: Source) -> bool:
    """Whether the code counts up to a parameter and divides a width by it."""
    word = rf"(?<![\w.]){re.escape(name)}\b"
    return (
        re.search(rf"//\s*{word}(?![.\[])|%\s*{word}\s*==\s*0|range\(\s*{word}\s*\)", source.joined)
        is not None
    )


def _is_gone_through(name: str, source: Source) -> bool:
    """Whether a loop goes through what a parameter holds."""
    loop = rf"\bin\s+(?:enumerate\(\s*)?{re.escape(name)}\b(?!\s*[.(])"
    return re.search(loop, source.joined) is not None


def _is_projected(name: str, source: Source) -> bool:
    """Whether the code gives a parameter to a projection, so that it is an input."""
    word = re.escape(name)
    return (
        re.search(
            rf"self\.\w+\(\s*{word}\s*\)|(?<![\w.]){word}\s*@|einsum\([^()]*,\s*{word}\s*,",
            source.joined,
        )
        is not None
    )


def _masks(name: str, source: Source) -> bool:
    """Whether the code hides scores by a parameter."""
    word = rf"(?<![\w.]){re.escape(name)}\b"
    return (
        re.search(
            rf"(?:masked_fill_?|where)\([^\n]*{word}|~\s*{word}|logical_not\(\s*{word}|"
            rf"{word}(?:\[[^\]]*\])?\s*==\s*(?:0|1|True|False)|1(?:\.0?)?\s*-\s*{word}",
            source.joined,
        )
        is not None
    )
