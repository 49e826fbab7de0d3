"""Rotary encodings as subjects: functions that rotate, and functions that make the angles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from regard.diagnosis.calling import output_of
from regard.diagnosis.encoding import Answer, B, D, H, T, is_whole, subject_of
from regard.diagnosis.reference import Array, rotate
from regard.diagnosis.roles import size_role
from regard.diagnosis.source import Source, stated_layout
from regard.diagnosis.subject import Refused, Sizes, Subject


def rotary(thing: Any, source: Source, said: Mapping[str, Any], answer: Answer) -> None:
    subject = subject_of(thing, source, said.get("init") or {}, Sizes(), width=D, said=said)
    inputs = [
        p
        for p in subject.parameters
        if p.role in ("x", "q", "k", "v", "context", "heads") and p.required
    ]
    inputs = [p for p in inputs if p.role != "heads" or p.name in ("h",)]
    number_only = subject.owner is None and all(
        size_role(p.name) in ("model_dim", "head_dim", "length", "exact_length") or p.role in ("position",)
        for p in subject.parameters if p.required
    )  # fmt: skip
    if number_only or not inputs:
        _tables_of_rotary(subject, source, answer)
        return
    stated = said.get("layout") or stated_layout(source)
    if subject.owner is not None and _gives_tables(subject, [p.name for p in inputs]):
        _tables_of_rotary(subject, source, answer)
        return
    layouts = ["BHTD", "BTHD", "BTD", "TD", "THD", "HTD"]
    if stated in ("BTC", "TBC", "TC"):
        stated = stated.replace("C", "D")
    if stated in layouts:
        layouts = [stated, *[x for x in layouts if x != stated]]
    error: Exception | None = None
    unexplained: tuple[Subject, list[str], str, Mapping[str, Any]] | None = None
    wrong: tuple[tuple[str, ...], str] | None = None
    for layout in layouts:
        for tables in _given_tables(subject, layout):
            try:
                faults = _rotation(subject, [p.name for p in inputs], layout, tables)
            except Exception as raised:  # whatever somebody's code may raise
                error = error or raised
                continue
            if faults is None:
                unexplained = unexplained or (subject, [p.name for p in inputs], layout, tables)
                continue
            if faults and layout != stated and wrong is None:
                wrong = (faults, layout)
                continue
            if faults and tables and wrong is None:
                wrong = (faults, layout)  # other tables may be what it wants
                continue
            answer.how.update(layout=layout)
            for fault in faults:
                answer.add(fault)
            _offset(subject, [p.name for p in inputs], layout, tables, answer)
            return
        if wrong is not None and layout == stated:
            break
    if wrong is not None:
        answer.how.update(layout=wrong[1])
        for fault in wrong[0]:
            answer.add(fault)
        return
    if unexplained is not None:
        names = _by_property(*unexplained)
        if names is None:
            answer.verdict = "unknown"
            answer.undetermined.append(("check.no-hypothesis", {}))
        for fault in names or ():
            answer.add(fault)
        return
    raise error or Refused("check.no-call", names="")


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
    spread = list(
        (
            lambda a: a,
            lambda a: a[None],
            lambda a: a[None, None],
            lambda a: a[None, :, None],
            lambda a: a[:, None],
        )
    )
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

    def rotated(pairing: str, along: int, doubled: bool) -> Array:
        moved = np.moveaxis(x, along, -2)
        base = 10000.0**2 if doubled else 10000.0
        return np.moveaxis(rotate(moved, np.arange(moved.shape[-2]), pairing, base), -2, along)

    for doubled in (False, True):
        more = ("position-exponent-doubled",) if doubled else ()
        for pairing in (
            "halves",
            "pairs",
            "mixed-halves",
            "mixed-pairs",
            "no-sign",
            "halves-back",
            "pairs-back",
        ):
            back = pairing.endswith("-back")
            for along, letter in (
                (axis, "T"),
                *((i, c) for i, c in enumerate(layout[:-1]) if c != "T"),
            ):
                if back:
                    moved = np.moveaxis(x, along, -2)
                    expected = np.moveaxis(
                        rotate(
                            moved,
                            -np.arange(moved.shape[-2]),
                            pairing.removesuffix("-back"),
                            10000.0,
                        ),
                        -2,
                        along,
                    )
                else:
                    expected = rotated(pairing, along, doubled)
                if np.abs(expected - got).max() < tolerance:
                    faults = [] if letter == "T" else ["rotary-axis"]
                    if pairing in ("mixed-halves", "mixed-pairs", "no-sign"):
                        faults.append("rotary-pairing")
                    return (*faults, *more)
    return None


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


def _tables_of_rotary(subject: Subject, source: Source, answer: Answer) -> None:
    """A function of sizes that gives cos and sin, angles or complex numbers."""
    options: list[dict[str, Any]] = []
    arguments: dict[str, Any] = {}
    for p in subject.parameters:
        if not p.required:
            continue
        role = size_role(p.name)
        if p.role in ("x", "q", "k", "v", "context"):
            arguments[p.name] = np.zeros((B, H, T, D))
        elif role in ("model_dim", "head_dim"):
            arguments[p.name] = D
        elif p.role == "position":
            arguments[p.name] = np.arange(T)
        else:
            arguments[p.name] = T
    options = [
        arguments,
        {
            k: (np.zeros((B, T, D)) if isinstance(v, np.ndarray) and v.ndim == 4 else v)
            for k, v in arguments.items()
        },
    ]
    result: Any = None
    error: Exception | None = None
    for option in options:
        try:
            result = subject.run(option)
            break
        except Exception as raised:  # whatever somebody's code may raise
            error = raised
    if result is None:
        raise error or Refused("check.no-call", names="")
    arrays = [
        np.asarray(a)
        for a in (result if isinstance(result, tuple) else (result,))
        if isinstance(a, np.ndarray)
    ]
    if not arrays:
        raise Refused("check.no-call", names="")
    flat = [a.reshape([n for n in a.shape if n != 1]) for a in arrays]
    if len(flat) == 1 and flat[0].ndim == 3:
        flat = (
            [flat[0][0], flat[0][1]]
            if flat[0].shape[0] == 2
            else [flat[0][..., 0], flat[0][..., 1]]
        )
    if np.iscomplexobj(flat[0]):
        flat = [flat[0].real, flat[0].imag]
    cos = flat[0][:T]
    for exponent, faults in ((1.0, ()), (2.0, ("position-exponent-doubled",))):
        angle = _angles(exponent)[: len(cos)]
        forms = [angle, np.concatenate([angle, angle], -1), np.repeat(angle, 2, -1)]
        for a in forms:
            for expected in (np.cos(a), a, np.sin(a)):
                if expected.shape == cos.shape and np.abs(expected - cos).max() < 2e-5:
                    for fault in faults:
                        answer.add(fault)
                    return
    if np.allclose(cos, cos[:1]):
        answer.add("rotary-axis")
        return
    if is_whole(_inverse(cos)):
        answer.add("position-integer")
        return
    answer.verdict = "unknown"
    answer.undetermined.append(("check.no-hypothesis", {}))


def _inverse(cos: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.round(np.nan_to_num(np.arccos(np.clip(cos, -1, 1)))[1:2], 6)
