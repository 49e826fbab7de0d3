"""The search: every combination of deviations of the lowest cost that reproduces the subject."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.diagnosis.hypotheses import Deviation
from regard.diagnosis.reference import Case, compute
from regard.diagnosis.steps import Array

ROUNDING = 1e-9
"""How far two float64 computations of one formula may part, relative to the largest number."""


@dataclass(frozen=True)
class Explanation:
    """A combination of deviations that reproduces the subject."""

    deviations: tuple[Deviation, ...]
    error: float

    @property
    def steps(self) -> dict[str, Any]:
        """What the reference must be told."""
        return {step: value for d in self.deviations for step, value in d.changes}

    @property
    def faults(self) -> tuple[str, ...]:
        """The names of its faults, each once."""
        return tuple(dict.fromkeys(f for d in self.deviations for f in d.faults))

    @property
    def notes(self) -> tuple[str, ...]:
        """The choices that are no faults."""
        return tuple(d.note for d in self.deviations if d.note)

    @property
    def cost(self) -> float:
        """What it costs to believe."""
        return sum(d.cost for d in self.deviations)


def distance(reference: Array, observed: Array) -> float:
    """The largest difference relative to the largest number.

    A row that may attend to nothing is NaN in the reference: what the subject makes of it is judged
    by a round of its own, so such rows are not counted unless they are many.
    """
    if reference.shape != observed.shape:
        return math.inf
    counted = ~np.isnan(reference)
    forgiven = ~counted & np.isfinite(observed)
    if not counted.any() or forgiven.mean() > 0.6:
        return math.inf
    a, b = reference[counted], observed[counted]
    if not np.isfinite(b).all():
        return math.inf
    return float(np.abs(a - b).max() / (np.abs(a).max() + 1e-300))


Observation = tuple[Case, Any]
"""A case, and a function from a reference output to its distance from the subject's."""


def explain(
    observations: Sequence[Observation],
    deviations: Sequence[Deviation],
    *,
    base: Sequence[Deviation] = (),
    readings: int = 1,
    most: int = 3,
    least: int = 0,
    tolerance: float = ROUNDING,
    seconds: float = 3.0,
) -> list[Explanation]:
    """The explanations of lowest cost, all of them, best first; empty where none fits.

    They have ``least`` to ``most`` faults.

    The first observation sifts, the others confirm.
    """
    (case, far), *others = observations
    end = time.thread_time() + seconds
    fits: list[Explanation] = []
    limit = math.inf
    taken = {s for d in base for s in d.steps}
    free = [d for d in deviations if not d.steps & taken]
    memo: dict[Any, Any] = {}
    free_choices = [d for d in free if not d.faults]
    faulty = [d for d in free if d.faults]
    for combo in ordered(faulty, free_choices, most, least):
        cost = sum(d.cost for d in combo)
        if cost > limit + 0.35:
            if math.floor(cost) > math.floor(limit + 0.35):
                break
            continue
        for reading in range(readings):
            told = {s: v for d in (*base, *combo) for s, v in d.changes}
            told.setdefault("weights", reading)
            error = _error(case, told, far, memo)
            if error > tolerance:
                continue
            if any(_error(c, told, f) > tolerance for c, f in others):
                continue
            first = () if "weights" in taken else (Deviation((("weights", reading),), (), 0.0),)
            if _superfluous(case, told, combo, far, tolerance):
                break
            fits.append(Explanation((*first, *base, *combo), error))
            limit = min(limit, cost)
            break
        if time.thread_time() > end:
            break
    fits = [e for e in fits if e.cost <= limit + sum(d.cost for d in base) + 0.35]
    return sorted(fits, key=lambda e: (e.cost, e.error))


def _superfluous(
    case: Case, told: dict[str, Any], combo: Sequence[Deviation], far: Any, tolerance: float
) -> bool:
    """Whether one of several faults may go and the rest still explain all."""
    faulty = [d for d in combo if d.faults]
    rests = [{s: v for s, v in told.items() if s not in d.steps} for d in faulty]
    return len(faulty) > 1 and any(_error(case, rest, far) <= tolerance for rest in rests)


def ordered(
    faulty: Sequence[Deviation], free: Sequence[Deviation], most: int, least: int = 0
) -> Iterator[tuple[Deviation, ...]]:
    """Combinations of faults by their number, each with none, one and two of the free choices."""
    for level in range(least, most + 1):
        pool = [d for d in faulty if d.tier >= level]
        for faults in itertools.combinations(pool, level):
            used = [s for d in faults for s in d.steps]
            if len(used) != len(set(used)):
                continue
            yield faults
        choices = [c for c in _free_sets(free) if c]
        if level > 1:
            choices = [c for c in choices if all(d.tier >= level for d in c)]
        for chosen in choices:
            taken = {s for d in chosen for s in d.steps}
            for faults in itertools.combinations([d for d in pool if not d.steps & taken], level):
                used = [s for d in faults for s in d.steps]
                if len(used) == len(set(used)):
                    yield (*chosen, *faults)


def _free_sets(free: Sequence[Deviation]) -> Iterator[tuple[Deviation, ...]]:
    for size in (1, 2, 3):
        for combo in itertools.combinations(free, size):
            used = [s for d in combo for s in d.steps]
            if len(used) == len(set(used)):
                yield combo


def _error(case: Case, told: dict[str, Any], far: Any, memo: dict[Any, Any] | None = None) -> float:
    try:
        return float(far(compute(case, told, memo)))
    except (ValueError, KeyError, IndexError, TypeError, FloatingPointError):
        return math.inf
