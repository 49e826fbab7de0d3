"""A subject's own weights, read from its modules, attributes or arguments into canonical form.

What can be read in several ways (a square matrix, a fused one) gives several readings; the engine
keeps the one that reproduces the output.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.diagnosis.reference import Array, Linear, Norm, Weights
from regard.diagnosis.roles import weight_role

READINGS = 24
"""No more readings than this are tried."""


@dataclass(frozen=True)
class Entry:
    """One matrix or bias of the subject: its path, what it projects, and how it is stored."""

    path: str
    role: str | None
    w: Array
    b: Array = None
    exact: bool = False
    """Whether ``w`` is (in, out) for certain."""

    @property
    def index(self) -> tuple[int, ...]:
        """The numbers in the path, which order the heads."""
        return tuple(int(n) for n in re.findall(r"(?<=\.)\d+(?=\.|$)", self.path))


@dataclass(frozen=True)
class Found:
    """All that was read: the readings, and what they tell of the subject's build."""

    readings: tuple[Weights, ...] = (Weights(),)
    heads: int = 1
    groups: int = 1
    width_in: int | None = None
    context_in: int | None = None
    shared: bool = False
    """One small projection serves every head."""
    output_named: str | None = None
    """The path of the output projection, if there is one."""
    norms: tuple[Norm, ...] = ()
    entries: tuple[Entry, ...] = ()


_NOT_ATTENTION = re.compile(
    r"(?:^|\.)(?:mlp|ffn?|feed_?forward|lm_head|embed\w*|wte|wpe|head_out)(?:\.|$)"
)


def entries_of(owner: Any) -> tuple[list[Entry], list[Norm]]:
    """Every matrix that the owner holds, and its layer norms, in the order of definition."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(owner, torch.nn.Module):
        return _of_module(owner)
    found: list[Entry] = []
    _of_object(owner, "", found, 0)
    return found, []


def _of_module(owner: Any) -> tuple[list[Entry], list[Norm]]:
    torch = sys.modules["torch"]
    entries, norms, taken = [], [], set()
    for path, module in owner.named_modules():
        own = dict(module.named_parameters(recurse=False))
        weight = own.get("weight")
        if _NOT_ATTENTION.search(path):
            taken.update(id(p) for p in own.values())
            continue
        kind = type(module).__name__
        if isinstance(module, torch.nn.LayerNorm) or "Norm" in kind:
            taken.update(id(p) for p in own.values())
            if weight is not None:
                norms.append(_norm(module, own, rms="rms" in kind.lower()))
            continue
        if weight is None or isinstance(module, torch.nn.Embedding):
            if weight is not None:
                taken.add(id(weight))
            continue
        w = weight.detach().cpu().numpy()
        if kind == "Conv1D" and w.ndim == 2:
            pass
        elif isinstance(module, torch.nn.Linear) or hasattr(module, "in_features"):
            w = w.T
        elif isinstance(module, torch.nn.Conv1d | torch.nn.Conv2d) and w[0, 0].size == 1:
            w = w.reshape(w.shape[:2]).T
        else:
            continue
        bias = own.get("bias")
        entries.append(
            Entry(path, _role(path), w, None if bias is None else bias.detach().numpy(), exact=True)
        )
        taken.update(id(p) for p in own.values())
    for path, p in owner.named_parameters():
        if id(p) not in taken and p.is_floating_point():
            entries.append(_raw(path, p.detach().cpu().numpy()))
    return entries, norms


def _norm(module: Any, own: Mapping[str, Any], *, rms: bool) -> Norm:
    eps = getattr(module, "eps", None) or getattr(module, "variance_epsilon", None) or 1e-6
    bias = own.get("bias")
    return Norm(
        own["weight"].detach().numpy(), None if bias is None else bias.detach().numpy(), eps, rms
    )


def _raw(path: str, array: Array) -> Entry:
    if re.search(r"in_proj_(?:weight|bias)$", path):
        if array.ndim == 2:
            return Entry(path, "qkv", array.T, exact=True)
        return Entry(path, "qkv", array)
    return Entry(path, _role(path), array)


def _role(path: str) -> str | None:
    for part in reversed(path.split(".")):
        if part.isdigit() or part in ("weight", "bias", "linear"):
            if part == "linear" and "." not in path:
                return "o"
            continue
        return weight_role(part)
    return None


def _of_object(value: Any, path: str, found: list[Entry], depth: int) -> None:
    if isinstance(value, np.ndarray):
        if np.issubdtype(value.dtype, np.floating) and value.ndim >= 1:
            found.append(Entry(path, _role(path), value))
        return
    if depth > 4:
        return
    if isinstance(value, Mapping):
        items = [(str(k), v) for k, v in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(i), v) for i, v in enumerate(value)]
    elif hasattr(value, "__dict__") and not callable(getattr(value, "__globals__", None)):
        items = list(vars(value).items())
    else:
        return
    for name, item in items:
        _of_object(item, f"{path}.{name}" if path else name, found, depth + 1)


# From entries to readings


def _alternatives(entry: Entry, role: str, heads: int) -> list[Array]:
    w = entry.w
    if w.ndim == 2:
        if entry.exact:
            return [w]
        return [w, w.T] if w.shape[0] == w.shape[1] or role == "o" else [w, w.T]
    if w.ndim == 3:
        a, b, c = w.shape
        if role == "o":
            found = []
            if a == heads:
                found += [w.reshape(a * b, c), w.transpose(0, 2, 1).reshape(a * c, b)]
            if b == heads:
                found.append(w.reshape(a * b, c))
            if c == heads:
                found.append(w.transpose(2, 1, 0).reshape(c * b, a))
            return found
        found = []
        if a == heads or (heads not in (b, c)):
            found += [
                w.transpose(1, 0, 2).reshape(b, a * c),
                w.transpose(2, 0, 1).reshape(c, a * b),
            ]
        if b == heads:
            found.append(w.reshape(a, b * c))
        return found
    return []


def _grouped(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    by_role: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        if entry.role is not None and entry.w.ndim >= 2:
            by_role[entry.role].append(entry)
    return by_role


def _stacked(entries: list[Entry], role: str, heads: int) -> list[Entry]:
    """Per-head matrices side by side, as one."""
    if len(entries) == 1:
        return entries
    shapes = {e.w.shape for e in entries}
    several = [e for e in entries if e.index]
    if len(shapes) == 1 and len(several) == len(entries) and role in ("q", "k", "v"):
        ordered = sorted(entries, key=lambda e: e.index)
        bias = None
        if all(e.b is not None for e in ordered):
            bias = np.concatenate([e.b for e in ordered])
        if ordered[0].exact:
            w = np.concatenate([e.w for e in ordered], 1)
            return [Entry(ordered[0].path, role, w, bias, exact=True)]
        return [Entry(ordered[0].path, role, np.stack([e.w for e in ordered]), bias)]
    return entries


def _biases(entries: Sequence[Entry]) -> dict[str, Array]:
    return {e.role: e.w for e in entries if e.role is not None and e.w.ndim == 1}


def _split_fused(
    w: Array, b: Array, parts: int, heads: int, groups: int, names: str
) -> Iterator[dict[str, Linear]]:
    """The readings of a fused matrix (C, parts·H·D)."""
    total = w.shape[1]
    if groups != heads and parts == 3:
        d = total // (heads + 2 * groups)
        cuts = np.cumsum([heads * d, groups * d])
        yield _named(names, np.split(w, cuts, 1), None if b is None else np.split(b, cuts))
        return
    d = total // (parts * heads)
    columns = np.arange(total)
    layouts = [
        columns.reshape(parts, heads * d),
        columns.reshape(heads, parts, d).transpose(1, 0, 2).reshape(parts, -1),
        columns.reshape(heads, d, parts).transpose(2, 0, 1).reshape(parts, -1),
        columns.reshape(d, heads, parts).transpose(2, 1, 0).reshape(parts, -1),
        columns.reshape(d, parts, heads).transpose(1, 2, 0).reshape(parts, -1),
        columns.reshape(heads * d, parts).T,
    ]
    for picks in layouts[: 6 if heads > 1 else 1]:
        yield _named(names, [w[:, p] for p in picks], None if b is None else [b[p] for p in picks])


def _named(names: str, ws: Sequence[Array], bs: Sequence[Array] | None) -> dict[str, Linear]:
    return {
        n: Linear(w, None if bs is None else bs[i])
        for i, (n, w) in enumerate(zip(names, ws, strict=True))
    }


def read(
    entries: Sequence[Entry],
    norms: Sequence[Norm],
    heads: int,
    groups: int,
    model: int | None,
    source: str = "",
) -> Found:
    """Readings of the entries for ``heads`` heads over ``groups`` key heads, C = ``model``."""
    by_role = _grouped(entries)
    entries = _named_by_order(entries, by_role)
    by_role = _grouped(entries)
    biases = _biases(entries)
    readings: list[dict[str, Linear]] = []
    o_entries = by_role.get("o", [])[-1:]
    shared = False

    def linear(w: Array, entry: Entry, role: str) -> Linear:
        bias = entry.b if entry.b is not None else biases.get(role)
        if bias is not None:
            bias = np.asarray(bias).reshape(-1)
            if bias.size != w.shape[1]:
                bias = None
        return Linear(w, bias)

    if "qkv" in by_role and not {"q", "k", "v"} <= set(by_role):
        entry = by_role["qkv"][0]
        b = entry.b if entry.b is not None else biases.get("qkv")
        matrices = (
            [entry.w]
            if entry.exact
            else [m for m in (entry.w, entry.w.T) if m.shape[1] > m.shape[0]]
        )
        orders = ["qkv"]
        if re.search(r"\bk\s*,\s*q\s*,\s*v\b|\bkey\s*,\s*query\s*,\s*value|kqv", source):
            orders = ["kqv"]
        elif re.search(
            r"\bv\s*,\s*k\s*,\s*q\b\s*=|\bvalues?\s*,\s*keys?\s*,\s*quer\w+\s*=", source
        ):
            orders = ["vkq"]
        elif re.search(r"\bq\s*,\s*v\s*,\s*k\b\s*=", source):
            orders = ["qvk"]
        for m in matrices:
            for order in orders:
                readings += _split_fused(m, b, 3, heads, groups, order)
    elif "kv" in by_role and "q" in by_role:
        entry, query = by_role["kv"][0], by_role["q"][0]
        b = entry.b if entry.b is not None else biases.get("kv")
        width = _alternatives(query, "q", heads)[0].shape[1] // heads
        inner = max(entry.w.shape[1] // (2 * width), 1)
        groups = inner if heads % inner == 0 else groups
        for w in _alternatives(query, "q", heads):
            for m in [entry.w] if entry.exact else [entry.w, entry.w.T]:
                for parts in _split_fused(m, b, 2, groups, groups, "kv"):
                    readings.append({"q": linear(w, query, "q"), **parts})
    elif by_role.keys() & {"q", "k", "v"}:
        roles = [r for r in ("q", "k", "v") if r in by_role]
        columns = []
        for role in roles:
            entry = _stacked(by_role[role], role, heads)[0]
            columns.append([(entry, w) for w in _alternatives(entry, role, heads)])
        same = all(len({w.shape for _, w in c}) <= 1 and len(c) == 2 for c in columns)
        combos: Any = zip(*columns, strict=True) if same else itertools.product(*columns)
        for combo in itertools.islice(combos, READINGS):
            readings.append({r: linear(w, e, r) for r, (e, w) in zip(roles, combo, strict=True)})
        readings = [r for r in readings if len({x.w.shape[0] for x in r.values()}) == 1] or readings
    if not readings:
        return Found(heads=heads, groups=groups, norms=tuple(norms), entries=tuple(entries))
    if heads > 1 and model is not None and "q" in readings[0]:
        first = readings[0]["q"].w
        if first.shape[0] * heads == model and first.shape[1] * heads == model:
            shared = True
            readings = [{r: _block_diagonal(x, heads) for r, x in one.items()} for one in readings]
    finished: list[Weights] = []
    for one in readings:
        if not o_entries:
            finished.append(Weights(**one))
            continue
        inner = one["v"].w.shape[1] if "v" in one else None
        if groups != heads and inner is not None and "q" in one:
            inner = one["q"].w.shape[1]
        options = _alternatives(o_entries[0], "o", heads)
        fitting = [w for w in options if inner is None or w.shape[0] == inner]
        for w in fitting or options[:1]:
            finished.append(Weights(**one, o=linear(w, o_entries[0], "o")))
    first_reading = finished[0]
    some = first_reading.q or first_reading.v or first_reading.k
    assert some is not None
    if first_reading.q is not None and first_reading.k is not None:
        d = first_reading.q.w.shape[1] // heads
        if (
            d
            and first_reading.k.w.shape[1] % d == 0
            and heads % max(first_reading.k.w.shape[1] // d, 1) == 0
        ):
            groups = max(first_reading.k.w.shape[1] // d, 1)
    key_side = first_reading.k or first_reading.v or some
    return Found(
        tuple(finished[:READINGS]),
        heads,
        groups,
        some.w.shape[0],
        key_side.w.shape[0],
        shared,
        o_entries[0].path if o_entries else None,
        tuple(norms),
        tuple(entries),
    )


def _named_by_order(entries: Sequence[Entry], by_role: Mapping[str, Any]) -> list[Entry]:
    """Matrices of no telling name take the roles that are left, in the order of definition."""
    if by_role.keys() & {"q", "k", "v", "qkv"}:
        return list(entries)
    fused = [e for e in entries if e.exact and e.w.ndim == 2 and e.w.shape[1] == 3 * e.w.shape[0]]
    if len(fused) == 1:
        others = [e for e in entries if e.exact and e is not fused[0]]
        names = {fused[0].path: "qkv"} | ({others[0].path: "o"} if len(others) == 1 else {})
        return [Entry(e.path, names.get(e.path, e.role), e.w, e.b, e.exact) for e in entries]
    nameless = [e for e in entries if e.w.ndim >= 2 and e.role in (None, "o")]
    if len(nameless) not in (3, 4):
        return list(entries)
    names = dict(zip((e.path for e in nameless), "qkvo", strict=False))
    return [Entry(e.path, names.get(e.path, e.role), e.w, e.b, e.exact) for e in entries]


def _block_diagonal(x: Linear, heads: int) -> Linear:
    return Linear(np.kron(np.eye(heads), x.w), None if x.b is None else np.tile(x.b, heads))
