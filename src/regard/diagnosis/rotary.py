"""Rotary encodings as subjects: functions that rotate, and functions that make the angles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from regard.diagnosis.calling import output_of
from regard.diagnosis.encoding import Answer, B, D, H, T, inputs_of, is_whole, subject_of
from regard.diagnosis.roles import parameter_role, size_role
from regard.diagnosis.source import Source, stated_layout
from regard.diagnosis.steps import Array, rotate
from regard.diagnosis.subject import Refused, Subject

_LAYOUTS = ["BHTD", "BTHD", "BTD", "TD", "THD", "HTD", "TBHD"]
_NUMBERS = ("model_dim", "head_dim", "length", "exact_length")


def rotary(thing: Any, source: Source, said: Mapping[str, Any], answer: Answer) -> None:
    """Examines a rotary encoding: one that rotates, or one that makes the tables for it."""
    subject = subject_of(thing, source, said.get("init") or {}, width=D)
    required = [p for p in subject.parameters if p.required]
    arrays = inputs_of(subject)
    inputs = [p.name for p in required if p in arrays or p.name == "h"]
    numbers = subject.owner is None and all(
        p not in arrays and (size_role(p.name) in _NUMBERS or p.role == "position")
        for p in required
    )
    if numbers or not inputs or (subject.owner is not None and _gives_tables(subject, inputs)):
        _tables_of_rotary(subject, answer)
        return
    stated = said.get("layout") or stated_layout(source)
    stated = stated.replace("C", "D") if stated in ("BTC", "TBC", "TC") else stated
    first = [stated] if stated in _LAYOUTS else []
    ways = _Ways(subject, inputs, stated)
    for layout in dict.fromkeys([*first, *_LAYOUTS]):
        if ways.explain(layout, answer):
            return
        if ways.wrong is not None and layout == stated:
            break
    ways.settle(answer)


class _Ways:
    """The ways of calling a rotation, and the best that was found so far."""

    def __init__(self, subject: Subject, inputs: list[str], stated: str | None) -> None:
        self._subject, self._inputs, self._stated = subject, inputs, stated
        self._error: Exception | None = None
        self._open: tuple[str, Mapping[str, Any]] | None = None
        self.wrong: tuple[tuple[str, ...], str] | None = None

    def explain(self, layout: str, answer: Answer) -> bool:
        """Whether some tables in this layout settle the matter."""
        for tables in _given_tables(self._subject, layout):
            try:
                faults = _rotation(self._subject, self._inputs, layout, tables)
            except Exception as raised:  # whatever somebody's code may raise
                self._error = self._error or raised
                continue
            if faults is None:
                self._open = self._open or (layout, tables)
            elif faults and self.wrong is None and (layout != self._stated or tables):
                self.wrong = (faults, layout)  # another layout or other tables may be what it wants
            elif not faults or self.wrong is None:
                answer.how.update(layout=layout)
                for fault in faults:
                    answer.add(fault)
                _offset(self._subject, self._inputs, layout, tables, answer)
                return True
        return False

    def settle(self, answer: Answer) -> None:
        """What is left when no way was right."""
        if self.wrong is not None:
            answer.how.update(layout=self.wrong[1])
            names: tuple[str, ...] | None = self.wrong[0]
        elif self._open is not None:
            names = _by_property(self._subject, self._inputs, *self._open)
        else:
            raise self._error or Refused("check.no-call", names="")
        if names is None:
            answer.unexplained()
        for fault in names or ():
            answer.add(fault)


def _input(layout: str, rng: np.random.Generator) -> Array:
    size = {"B": B, "T": T, "H": H, "D": D}
    return rng.standard_normal([size[c] for c in layout])


def _angles(exponent: float = 1.0) -> Array:
    return np.arange(16)[:, None] * 10000.0 ** (-exponent * np.arange(0, D, 2) / D)


def _given_tables(subject: Subject, layout: str) -> Iterator[dict[str, Any]]:
    """Cos and sin, or complex numbers, in the shapes that functions ask for."""
    wanted = [p for p in subject.parameters if p.role == "freqs" and p.required]
    length = [
        p
        for p in subject.parameters
        if p.required and size_role(p.name) in ("length", "exact_length")
    ]
    places = [p for p in subject.parameters if p.required and p.role == "position"]
    base: dict[str, Any] = {p.name: T for p in length}
    base.update(
        {
            p.name: np.arange(T)
            if "pos" in p.name and "start" not in p.name and "off" not in p.name
            else 0
            for p in places
        }
    )
    base.update({
        p.name: D for p in subject.parameters
        if p.required and p.role in ("model_dim", "head_dim") and p.name not in base
    })  # fmt: skip
    if not wanted:
        yield base
        return
    angle = _angles()[:T]
    shapes = [np.concatenate([angle, angle], -1), np.repeat(angle, 2, -1), angle]
    spread: list[Callable[[Array], Array]] = [
        lambda a: a,
        lambda a: a[None],
        lambda a: a[None, None],
        lambda a: a[None, :, None],
        lambda a: a[:, None],
    ]
    if len(wanted) >= 2:
        for a in shapes:
            for f in spread:
                yield {**base, wanted[0].name: f(np.cos(a)), wanted[1].name: f(np.sin(a))}
        return
    word = wanted[0].name.lower()
    if "cis" in word or "complex" in word or subject.source.line(r"view_as_complex|complex|1j"):
        for f in spread:
            yield {**base, wanted[0].name: f(np.exp(1j * angle))}
    for a in shapes:
        for f in spread:
            yield {**base, wanted[0].name: f(a)}


def _rotation(
    subject: Subject, names: list[str], layout: str, tables: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """The faults of one way of calling it; None where no rotation explains the output."""
    rng = np.random.default_rng(5)
    inputs = {n: _input(layout, rng) for n in names}
    out = output_of(subject.run({**inputs, **tables}))
    if out is None:
        raise ValueError("no output")
    x = inputs[names[0]]
    got = np.asarray(out, float)
    if got.shape != x.shape:
        raise ValueError("shape")
    axis = layout.index("T")
    tolerance = 2e-5

    axes = [axis, *(i for i, c in enumerate(layout[:-1]) if c != "T")]
    widths = [n for n in range(D, 1, -2) if n == D or np.array_equal(got[..., n:], x[..., n:])]
    for width, base, sign, pairing, along in itertools.product(
        widths, (1e4, 1e8), (1, -1), _PAIRINGS, axes
    ):
        moved = np.moveaxis(x[..., :width], along, -2)
        places = sign * np.arange(moved.shape[-2])
        expected = np.moveaxis(rotate(moved, places, pairing, base), -2, along)
        if np.abs(expected - got[..., :width]).max() < tolerance:
            found = {
                "rotary-axis": along != axis,
                "rotary-pairing": pairing not in ("halves", "pairs"),
                "position-exponent-doubled": base > 1e4,
            }
            return tuple(fault for fault, holds in found.items() if holds)
    return None


_PAIRINGS = ("halves", "pairs", "mixed-halves", "mixed-pairs", "no-sign")


def _by_property(
    subject: Subject, names: list[str], layout: str, tables: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """What the laws of rotation say: a vector keeps its norm, and q·k depends on the distance."""
    rng = np.random.default_rng(6)
    axis = layout.index("T")

    def run(vector: Array) -> Array:
        x = np.broadcast_to(vector, _input(layout, rng).shape).copy()
        out = output_of(subject.run({**dict.fromkeys(names, x), **tables}))
        rows = np.moveaxis(np.asarray(out, float), axis, 0)
        return rows.reshape(len(rows), -1, D)[:, 0]

    q, k = run(rng.standard_normal(D)), run(rng.standard_normal(D))
    norms = np.linalg.norm(q, axis=-1)
    if np.allclose(q, q[:1]):
        return ("rotary-axis",)
    products = q @ k.T
    level = all(
        np.allclose(np.diag(products, n), np.diag(products, n)[0]) for n in range(-T + 2, T - 1)
    )
    if not np.allclose(norms, norms[0]) or not level:
        return ("rotary-pairing",)
    return None


def _offset(
    subject: Subject, names: list[str], layout: str, tables: Mapping[str, Any], answer: Answer
) -> None:
    """Whether a position that is passed moves the rotation."""
    place = next((p for p in subject.parameters if p.role in ("position", "cache")), None)
    if place is None or (isinstance(tables.get(place.name), np.ndarray)):
        return
    rng = np.random.default_rng(5)
    inputs = {n: _input(layout, rng) for n in names}
    axis = layout.index("T")
    try:
        at_zero = output_of(subject.run({**inputs, **tables, place.name: 0}))
        at_three = output_of(subject.run({**inputs, **tables, place.name: 3}))
    except Exception:
        return
    if at_zero is None or at_three is None:
        return
    x = inputs[names[0]]
    got = np.asarray(at_three, float)
    moved = np.moveaxis(x, axis, -2)
    for pairing in ("halves", "pairs"):
        expected = np.moveaxis(rotate(moved, np.arange(T) + 3, pairing), -2, axis)
        if np.abs(expected - got).max() < 2e-5:
            return
    if np.allclose(at_zero, got):
        answer.add("rotary-offset", "check.evidence-offset", offset=3)


def _gives_tables(subject: Subject, inputs: list[str]) -> bool:
    try:
        if len(inputs) > 1:
            return False
        x = np.zeros((B, H, T, D))
        name = inputs[0]
        more = {p.name: T for p in subject.parameters if p.required and p.name != name}
        result = subject.run({name: x, **more})
    except Exception:
        return True
    first = output_of(result)
    return first is None or first.shape != x.shape or bool(first.any())


def _table_arguments(subject: Subject, x: Array) -> dict[str, Any]:
    """Arguments for what makes tables: sizes, positions, an input that is only measured."""
    found: dict[str, Any] = {}
    for p in subject.parameters:
        if not p.required:
            continue
        if parameter_role(p.name) in ("x", "q", "k", "v", "context"):
            found[p.name] = x
        elif size_role(p.name) in ("model_dim", "head_dim"):
            found[p.name] = D
        else:
            found[p.name] = np.arange(T) if p.role == "position" else T
    return found


def _tables_of_rotary(subject: Subject, answer: Answer) -> None:
    """A function of sizes that gives cos and sin, angles or complex numbers."""
    result: Any = None
    error: Exception | None = None
    for x in (np.zeros((B, H, T, D)), np.zeros((B, T, D))):
        try:
            result = subject.run(_table_arguments(subject, x))
            break
        except Exception as raised:  # whatever somebody's code may raise
            error = raised
    parts = result if isinstance(result, tuple) else (result,)
    arrays = [np.asarray(a) for a in parts if isinstance(a, np.ndarray)]
    if not arrays:
        raise error or Refused("check.no-call", names="")
    cos = _first_table(arrays)
    for exponent in (1.0, 2.0):
        angle = _angles(exponent)[: len(cos)]
        for a in (angle, np.concatenate([angle, angle], -1), np.repeat(angle, 2, -1)):
            if any(
                expected.shape == cos.shape and np.abs(expected - cos).max() < 2e-5
                for expected in (np.cos(a), a, np.sin(a))
            ):
                if exponent == 2.0:
                    answer.add("position-exponent-doubled")
                return
    if np.allclose(cos, cos[:1]):
        answer.add("rotary-axis")
    elif is_whole(_inverse(cos)):
        answer.add("position-integer")
    else:
        answer.unexplained()


def _first_table(arrays: list[Array]) -> Array:
    """The first of two tables (T, D), however they are packed."""
    first = arrays[0].reshape([n for n in arrays[0].shape if n != 1])
    if len(arrays) == 1 and first.ndim == 3:
        first = first[0] if first.shape[0] == 2 else first[..., 0]
    return np.real(first)[:T]


def _inverse(cos: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.round(np.nan_to_num(np.arccos(np.clip(cos, -1, 1)))[1:2], 6)
