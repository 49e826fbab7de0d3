"""What a name is by its use: ``q = self.a(x)`` makes a projection of queries of ``a``.

Names of no telling meaning get their roles here; a name that tells its own keeps it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from regard.diagnosis.entries import Entry
from regard.diagnosis.roles import parameter_role, weight_role
from regard.diagnosis.source import Source

_PROJECTIONS = ("q", "k", "v", "qkv", "kv")


def named_by_use(entries: Sequence[Entry], source: Source) -> list[Entry]:
    """Entries of no telling name with the roles that the code gives them."""
    known = {e.role for e in entries}
    open_ = {_last(e) for e in entries if e.role is None and e.w.ndim >= 2}
    if not open_:
        return list(entries)
    count = Counter(_last(e) for e in entries if e.w.ndim >= 2)
    roles = {
        name: role
        for name, role in roles_by_use(source, open_).items()
        if role not in known and (count[name] == 1 or role in ("q", "k", "v"))
    }
    return [
        replace(e, role=roles[name]) if e.role is None and (name := _last(e)) in roles else e
        for e in entries
    ]


def _last(entry: Entry) -> str:
    """The name under which the code has an entry: the last of its path that is no number."""
    return next((p for p in reversed(entry.path.split(".")) if not p.isdigit()), "")


def roles_by_use(source: Source, names: set[str]) -> dict[str, str]:
    """The roles of those of ``names`` that the code projects with; the last one left is the output.

    A name is an attribute of ``self`` or a variable.
    """
    found: dict[str, str] = {}
    for targets, value in _assigned(source):
        roles = [_role(target) for target in targets]
        if len(targets) == 1 and roles[0] in _PROJECTIONS:
            found |= dict.fromkeys(_only(_used(value, names)), roles[0])
        elif all(role in ("q", "k", "v") for role in roles):
            listed = _listed(value, names, len(roles))
            if listed:
                found |= dict(zip(listed, roles, strict=True))
            elif len(roles) > 1:
                fused = "".join(role for role in "qkv" if role in roles)
                found |= dict.fromkeys(_only(_used(value, names)), fused)
    last = [n for n in _used_in_returns(source, names) if n not in found]
    if len(last) == 1:
        found[last[0]] = "o"
    return found


def projected_by(source: Source, names: set[str]) -> dict[str, str]:
    """Which of ``names`` are projected as queries, keys or values alone; context for both last."""
    seen: dict[str, set[str]] = {}
    for targets, value in _assigned(source):
        role = _role(targets[0]) if len(targets) == 1 else ""
        for name in _only(_used(value, names)) if role in ("q", "k", "v") else ():
            seen.setdefault(name, set()).add(role)
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(ast.Attribute(ast.Name("self"), made), [ast.Name(name), *_]):
                pass
            case ast.BinOp(ast.Name(name), ast.MatMult(), ast.Name(made)):
                pass
            case ast.BinOp(ast.Name(name), ast.MatMult(), ast.Attribute(ast.Name("self"), made)):
                pass
            case _:
                continue
        role = _role(made)
        if name in names and role:
            seen.setdefault(name, set()).update(role if role != "o" else "")
    roles = {"q": "q", "k": "k", "v": "v", "kv": "context"}
    found = {name: roles.get("".join(sorted(r, key="qkv".index))) for name, r in seen.items()}
    return {name: role for name, role in found.items() if role}


def _role(variable: str) -> str:
    """q, k, v or several together by a variable's name; empty for another."""
    told = re.fullmatch(
        r"(?:x|mixed_|new_|cur_)?(q|k|v)(?:h|s|_?heads?|_?mat|_?layer)?", variable.lower()
    )
    if told:
        return told[1]
    role = weight_role(variable) or parameter_role(variable)
    return role if role in (*_PROJECTIONS, "o") else ""


def _assigned(source: Source) -> Iterator[tuple[list[str], ast.expr]]:
    """Every assignment to plain names in the reachable code, tuples of values taken apart."""
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        if not any(a <= node.lineno <= b for a, b in source.spans):
            continue
        match node.targets[0], node.value:
            case ast.Name(name), value:
                yield [name], value
            case ast.Tuple(parts), ast.Tuple(values) if len(parts) == len(values):
                for part, value in zip(parts, values, strict=True):
                    if isinstance(part, ast.Name):
                        yield [part.id], value
            case ast.Tuple(parts), value if all(isinstance(p, ast.Name) for p in parts):
                yield [p.id for p in parts if isinstance(p, ast.Name)], value


def _used(value: ast.AST, names: set[str]) -> list[str]:
    found = []
    for node in ast.walk(value):
        match node:
            case ast.Attribute(ast.Name("self"), name) if name in names:
                found.append(name)
            case ast.Name(name) if name in names:
                found.append(name)
    return list(dict.fromkeys(found))


def _only(names: Sequence[str]) -> Sequence[str]:
    return names if len(names) == 1 else []


def _listed(value: ast.AST, names: set[str], count: int) -> list[str]:
    """The names of a list or tuple of so many, one in each of its parts."""
    for node in ast.walk(value):
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) == count:
            used = [_used(part, names) for part in node.elts]
            if all(len(u) == 1 for u in used):
                return [u[0] for u in used]
    return []


def _used_in_returns(source: Source, names: set[str]) -> list[str]:
    """The names in what is returned, and in what makes the variables that are returned."""
    returned: list[ast.AST] = [
        node.value
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Return)
        and node.value is not None
        and any(a <= node.lineno <= b for a, b in source.spans)
    ]
    variables = {n.id for value in returned for n in ast.walk(value) if isinstance(n, ast.Name)}
    makers = [value for targets, value in _assigned(source) if set(targets) & variables]
    return list(dict.fromkeys(n for value in (*returned, *makers) for n in _used(value, names)))
