"""The first step at which a subject departs from the definition, seen in the arrays that it holds.

Layouts are the subject's own, so two arrays are the same step where they hold the same numbers,
in whatever order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.reference import RIGHT, Case, compute, pieces
from regard.diagnosis.steps import Array
from regard.diagnosis.watching import held_while

NEAR = 1e-6
"""Two arrays that part by no more, relative to the largest number, hold the same numbers."""


def first_departure(judge: Judge, base: Base) -> str | None:
    """The step behind the last that agrees; None where none is seen to agree, or all are."""
    try:
        held = held_while(judge.subject, {**base.setup.arguments, **base.fixed})
        return _departed(base, held)
    # Whatever somebody's code may raise, or weights read in shapes that do not fit.
    except Exception:
        return None


def _departed(base: Base, held: Sequence[tuple[str, Array]]) -> str | None:
    best: tuple[int, list[str]] = (-1, [])
    case = base.setup.case
    for reading in range(len(case.weights)):
        for rule in ("none", "causal"):
            told = {"weights": reading, "rule": rule}
            steps = list(_steps(case, told))
            agrees = [n for n, (_, forms) in enumerate(steps) if _is_held(forms, held)]
            reached = max(agrees, default=-1)
            if reached > best[0]:
                best = reached, [name for name, _ in steps]
    reached, names = best
    if reached < 0 or reached + 1 >= len(names):
        return None
    return names[reached + 1]


def _steps(case: Case, told: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[Array, ...]]]]:
    """The steps of the definition by name, each with the forms that its numbers may have."""
    steps = {**RIGHT, **told}
    weights = case.weights[steps["weights"]]
    with np.errstate(all="ignore"):
        q, k, v, s, w = pieces(case, steps)
        if weights.q is not None:
            yield "projections", [(q, k, v), (q * case.scales[steps["scale"]], k, v)]
        yield "scores", [(s,), (s / case.scales[steps["scale"]],)]
        yield "weights", [(w,)]
        yield "values", [(w @ v,)]
        if weights.o is not None:
            yield "output", [(compute(case, told),)]


def _is_held(forms: Sequence[tuple[Array, ...]], held: Sequence[tuple[str, Array]]) -> bool:
    return any(
        all(any(_alike(value, array) for _, array in held) for value in form) for form in forms
    )


def _alike(value: Array, array: Array) -> bool:
    """Whether two arrays hold the same numbers in any order."""
    if value.size != array.size or array.dtype.kind != "f":
        return False
    a, b = np.sort(value, axis=None), np.sort(array, axis=None)
    if not np.isfinite(b).all():
        return False
    return bool(np.abs(a - b).max() <= NEAR * (np.abs(a).max() + 1e-300))
