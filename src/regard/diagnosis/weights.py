"""A subject's own weights, read from its modules, attributes or arguments into canonical form.

What can be read in several ways (a square matrix, a fused one) gives several readings; the engine
keeps the one that reproduces the output.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.diagnosis.entries import Entry
from regard.diagnosis.reference import Linear, Norm, Weights
from regard.diagnosis.steps import Array

READINGS = 24
"""No more readings than this are tried."""


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
    latents: Array = None
    """Learned queries (T, C) that stand in for the queries' input, if there are any."""


# From entries to readings


def _alternatives(entry: Entry, role: str, heads: int) -> list[Array]:
    w = entry.w
    if w.ndim == 2:
        if entry.exact:
            return [w]
        return [w, w.T]
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
    latents, entries = _without_latents(entries)
    entries = _named_by_order(entries, _grouped(entries))
    shelf = _Shelf(entries, heads, groups)
    readings = shelf.readings(source)
    if not readings:
        return Found(heads=heads, groups=groups, norms=tuple(norms), entries=tuple(entries))
    shared = _is_shared(readings[0], heads, model)
    if shared:
        readings = [{r: _block_diagonal(x, heads) for r, x in one.items()} for one in readings]
    finished = [w for one in readings for w in shelf.with_output(one)]
    first = finished[0]
    some = first.q or first.v or first.k
    assert some is not None
    key_side = first.k or first.v or some
    output = shelf.output
    return Found(
        tuple(finished[:READINGS]),
        heads,
        _key_heads(first, heads, shelf.groups),
        some.w.shape[0],
        key_side.w.shape[0],
        shared,
        output.path if output is not None else None,
        tuple(norms),
        tuple(entries),
        latents if latents is not None and latents.shape[-1] == some.w.shape[0] else None,
    )


_LATENT = re.compile(r"latent|quer|probe|seed|induc|slots|inducing|token", re.IGNORECASE)


def _without_latents(entries: Sequence[Entry]) -> tuple[Array, list[Entry]]:
    """Learned queries (T, C) beside a projection of queries, and all the other entries."""
    projects = any(e.exact and e.role in ("q", "qkv") for e in entries)
    for e in entries if projects else ():
        rows = e.w.reshape([n for n in e.w.shape if n != 1] or [1])
        if not e.exact and e.w.ndim >= 2 and rows.ndim == 2 and _LATENT.search(e.path):
            return rows, [other for other in entries if other is not e]
    return None, list(entries)


def _is_shared(one: Mapping[str, Linear], heads: int, model: int | None) -> bool:
    """Whether the projections are of one head's width, in and out, for a model of more heads."""
    return (
        heads > 1
        and model is not None
        and "q" in one
        and all(n * heads == model for n in one["q"].w.shape)
    )


def _key_heads(first: Weights, heads: int, groups: int) -> int:
    """The number of key heads that the widths of queries and keys tell."""
    if first.q is None or first.k is None:
        return groups
    width = first.q.w.shape[1] // heads
    told, rest = divmod(first.k.w.shape[1], width) if width else (0, 1)
    return told if told and not rest and heads % told == 0 else groups


class _Shelf:
    """Entries by role, and what can be read from them."""

    def __init__(self, entries: Sequence[Entry], heads: int, groups: int) -> None:
        self._roles = _grouped(entries)
        self._biases = _biases(entries)
        self._heads = heads
        self.groups = groups

    @property
    def output(self) -> Entry | None:
        """The output projection's entry: the last of that role."""
        return self._roles["o"][-1] if self._roles.get("o") else None

    def readings(self, source: str) -> list[dict[str, Linear]]:
        """Every reading of queries, keys and values."""
        if "qkv" in self._roles and not {"q", "k", "v"} <= set(self._roles):
            return self._fused(source)
        if "kv" in self._roles and "q" in self._roles:
            return self._half_fused()
        return self._separate() if self._roles.keys() & {"q", "k", "v"} else []

    def _linear(self, w: Array, entry: Entry, role: str) -> Linear:
        bias = entry.b if entry.b is not None else self._biases.get(role)
        if bias is None or np.size(bias) != w.shape[1]:
            return Linear(w)
        return Linear(w, np.asarray(bias).reshape(-1))

    def _fused(self, source: str) -> list[dict[str, Linear]]:
        entry = self._roles["qkv"][0]
        bias = entry.b if entry.b is not None else self._biases.get("qkv")
        both = [entry.w] if entry.exact else [entry.w, entry.w.T]
        wide = [m for m in both if entry.exact or m.shape[1] > m.shape[0]]
        order = next((o for o, pattern in _ORDERS.items() if re.search(pattern, source)), "qkv")
        return [
            parts
            for m in wide
            for parts in _split_fused(m, bias, 3, self._heads, self.groups, order)
        ]

    def _half_fused(self) -> list[dict[str, Linear]]:
        entry, query = self._roles["kv"][0], self._roles["q"][0]
        bias = entry.b if entry.b is not None else self._biases.get("kv")
        queries = _alternatives(query, "q", self._heads)
        inner = max(entry.w.shape[1] // (2 * queries[0].shape[1] // self._heads), 1)
        if self._heads % inner == 0:
            self.groups = inner
        return [
            {"q": self._linear(w, query, "q"), **parts}
            for w in queries
            for m in ([entry.w] if entry.exact else [entry.w, entry.w.T])
            for parts in _split_fused(m, bias, 2, self.groups, self.groups, "kv")
        ]

    def _separate(self) -> list[dict[str, Linear]]:
        roles: list[str] = [r for r in ("q", "k", "v") if r in self._roles]
        columns = []
        for role in roles:
            entry = _stacked(self._roles[role], role, self._heads)[0]
            columns.append([(entry, w) for w in _alternatives(entry, role, self._heads)])
        alike = all(len({w.shape for _, w in c}) <= 1 and len(c) == 2 for c in columns)
        combos: Any = zip(*columns, strict=True) if alike else itertools.product(*columns)
        found: list[dict[str, Linear]] = [
            {r: self._linear(w, e, r) for r, (e, w) in zip(roles, combo, strict=True)}
            for combo in itertools.islice(combos, READINGS)
        ]
        return [r for r in found if len({x.w.shape[0] for x in r.values()}) == 1] or found

    def with_output(self, one: dict[str, Linear]) -> list[Weights]:
        """The reading with each reading of the output projection."""
        entry = self.output
        if entry is None:
            return [Weights(**one)]
        groups = _key_heads(Weights(**one), self._heads, self.groups)
        value = one.get("v")
        rows = None if value is None else self._heads * (value.w.shape[1] // groups)
        options = _alternatives(entry, "o", self._heads)
        fitting = [w for w in options if rows is None or w.shape[0] == rows]
        return [Weights(**one, o=self._linear(w, entry, "o")) for w in fitting or options[:1]]


_ORDERS = {
    "kqv": r"\bk\s*,\s*q\s*,\s*v\b|\bkey\s*,\s*query\s*,\s*value|kqv",
    "vkq": r"\bv\s*,\s*k\s*,\s*q\b\s*=|\bvalues?\s*,\s*keys?\s*,\s*quer\w+\s*=",
    "qvk": r"\bq\s*,\s*v\s*,\s*k\b\s*=",
}
"""The orders of a fused projection other than q, k, v, by what the source unpacks."""


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
