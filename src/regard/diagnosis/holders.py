"""Parameters that hold several weights by name: a dict of all, or one with a matrix and a bias."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from regard.diagnosis.roles import parameter_role, weight_role
from regard.diagnosis.subject import Parameter, Subject

WEIGHT_ROLES = ("wq", "wk", "wv", "wo", "wqkv", "wkv", "bq", "bk", "bv", "bo", "bqkv")


@dataclass(frozen=True)
class Holder:
    """A parameter and the role of what stands in it under each name."""

    parameter: Parameter
    roles: Mapping[str, str]
    mapping: bool
    """Whether it is a dict; else its names are attributes."""
    listed: bool = False
    """Whether it is a list with one tuple a head."""

    def parameters(self) -> list[Parameter]:
        """What it holds, each as if it were a parameter of its own."""
        return [
            replace(self.parameter, name=self._inner(key), role=role)
            for key, role in self.roles.items()
        ]

    def filled(self, arguments: Mapping[str, Any]) -> Any:
        """The value that the parameter is given, its parts taken from ``arguments``."""
        held = {
            key: arguments[self._inner(key)] for key in self.roles if self._inner(key) in arguments
        }
        if self.listed:
            return list(zip(*held.values(), strict=True))
        return held if self.mapping else types.SimpleNamespace(**held)

    def _inner(self, key: str) -> str:
        return f"{self.parameter.name}.{key}"


def holders_of(subject: Subject) -> list[Holder]:
    """The parameters that hold weights by name; empty where there are none."""
    found = []
    for p in subject.parameters:
        if not p.required or p.role in ("x", "q", "k", "v"):
            continue
        held = _of_each_head(subject, p) or _of_one_projection(subject, p)
        if held is None and p.role in ("other", "context", "head_dim"):
            held = _of_all(subject, p)
        if held is not None:
            found.append(held)
    return found


def _of_each_head(subject: Subject, p: Parameter) -> Holder | None:
    """A parameter that a loop goes through, taking the weights of one head at a time."""
    names = rf"for\s+\(?([\w\s,]+?)\)?\s+in\s+{re.escape(p.name)}\b"
    loop = re.search(names, subject.source.joined)
    parts = [word.strip() for word in loop.group(1).split(",")] if loop else []
    roles = {word: parameter_role(word) for word in parts}
    if len(roles) < 2 or not set(roles.values()) <= set(WEIGHT_ROLES):
        return None
    return Holder(p, roles, False, listed=True)


def _of_all(subject: Subject, p: Parameter) -> Holder | None:
    """A parameter under whose names the projections stand."""
    code, name = subject.source.joined, re.escape(p.name)
    keys = re.findall(rf"\b{name}\[\s*['\"](\w+)['\"]\s*\]", code)
    fields = re.findall(rf"\b{name}\.(\w+)\b(?!\()", code)
    roles = {
        k: r for k in keys or fields if (r := parameter_role(k)) in WEIGHT_ROLES or (r := _bare(k))
    }
    return Holder(p, roles, bool(keys)) if roles else None


def _bare(key: str) -> str:
    role = weight_role(key)
    return f"w{role}" if role else ""


def _of_one_projection(subject: Subject, p: Parameter) -> Holder | None:
    """A parameter that holds the matrix and the bias of one projection."""
    role = weight_role(p.name)
    if role is None:
        return None
    code, name = subject.source.joined, re.escape(p.name)
    keys = re.findall(rf"\b{name}\[\s*['\"](\w+)['\"]\s*\]", code)
    keys += _spread(subject, p.name)
    kinds = {"w": "w", "weight": "w", "kernel": "w", "g": "w", "b": "b", "bias": "b"}
    held = {key: kinds[key.lower()] + role for key in keys if key.lower() in kinds}
    return Holder(p, held, True) if any(r.startswith("w") for r in held.values()) else None


def _spread(subject: Subject, name: str) -> list[str]:
    """The names that ``**name`` fills: in linear(x, **c_attn) what linear takes beside x."""
    tree = subject.source.tree
    taken = {
        node.name: [a.arg for a in node.args.args]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(ast.Name(called), before, keywords) if called in taken:
                for keyword in keywords:
                    if keyword.arg is None and ast.unparse(keyword.value) == name:
                        return taken[called][len(before) :]
    return []
