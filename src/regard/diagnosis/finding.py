"""The search for how a subject is called, and what explains its output without a mask."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from regard.diagnosis.calling import HEADED, Setup, layouts_of
from regard.diagnosis.hypotheses import structure_deviations
from regard.diagnosis.judge import HALF, SINGLE, Base, Judge
from regard.diagnosis.pattern import by_lost_rows, by_pattern
from regard.diagnosis.reference import compute
from regard.diagnosis.search import ROUNDING, Explanation, Observation, explain
from regard.diagnosis.source import casts_to_half, stated_layout
from regard.diagnosis.steps import Array

TRIES = 8
"""No more calls than this are explained in the search for how a subject is called."""
OF_LAYOUT = {
    "batch-as-sequence",
    "merge-no-transpose",
    "query-key-swapped",
    "rotary-axis",
    "scale-inverted",
    "scale-wrong-size",
    "softmax-axis",
    "softmax-heads",
    "softmax-missing",
    "softmax-single",
    "split-no-transpose",
}
"""Faults that another layout would explain away."""


def find_base(judge: Judge, *, seed: int, queries: int = 5, keys: int = 5) -> Base | None:
    """The first setup that runs and is explained, or the first that runs."""
    found: list[Base] = []
    explained_in: set[str] = set()
    for setup in judge.prepared(seed, queries, keys):
        late = found and time.thread_time() > judge.deadline
        if late or len(found) >= TRIES or _is_settled(judge, setup, found):
            break
        if setup.layout in explained_in:
            continue
        for fixed in judge.neutral(setup):
            base = _tried(judge, setup, fixed)
            if base is None:
                continue
            if base == "again":
                return find_base(judge, seed=seed, queries=queries, keys=keys)
            found.append(base)
            if base.best is None and time.thread_time() < judge.deadline:
                continue
            if base.best is not None:
                if not set(base.best.faults) & OF_LAYOUT:
                    return base
                explained_in.add(setup.layout)
            break
    return _cheapest(found)


def _is_settled(judge: Judge, setup: Setup, found: list[Base]) -> bool:
    """Whether the subject ran in the layout that it states, so that no other is to be tried."""
    ran = {base.setup.layout for base in found}
    return setup.layout not in ran and any(_stated(judge, layout) for layout in ran)


def _tried(judge: Judge, setup: Setup, fixed: Mapping[str, Any]) -> Base | Literal["again"] | None:
    """What one call explains; None where it does not run, "again" where it found weights."""
    answer = judge.call(setup, fixed)
    if answer is None or not plausible(setup, answer[0]):
        return None
    if judge.settle(setup, fixed):
        return "again"
    if judge.random:
        answer = judge.call(setup, fixed) or answer
    return _explained(judge, setup, *answer, fixed)


def _stated(judge: Judge, layout: str) -> bool:
    """Whether a layout is the one that the user or the source names."""
    said = judge.said.get("layout")
    if not (said or stated_layout(judge.subject.source)):
        return False
    return layouts_of(judge.subject, weighted=layout not in HEADED, said=said)[0] == layout


def _readable(judge: Judge, setup: Setup, fixed: Mapping[str, Any]) -> Setup:
    """The setup with those readings of its weights that explain one token alone.

    With one key its weight is 1, whatever the scale, the mask or the axis of the softmax: only
    values and output projection are left.
    """
    if len(setup.case.weights) < 2:
        return setup
    ways = (setup.layout, setup.variant)
    seen = (s for s in judge.prepared(setup.rng, 1, 1) if (s.layout, s.variant) == ways)
    one = next((s for s in seen if len(s.case.weights) == len(setup.case.weights)), None)
    called = None if one is None else judge.call(one, fixed)
    if one is None or called is None:
        return setup
    far = judge.far(one, called[0])
    choices = [
        d for d in structure_deviations(one.case, one.form, judge.hints)
        if d.steps & {"value", "activation", "out", "around"}
    ]  # fmt: skip
    kept = []
    for reading in range(len(setup.case.weights)):
        for changes in ((), *(d.changes for d in choices)):
            told = {**dict(changes), "weights": reading}
            try:
                error = far(compute(one.case, told))
            except ValueError:
                continue
            if error < SINGLE:
                kept.append(reading)
                break
    if not kept:
        return setup
    weights = tuple(setup.case.weights[n] for n in kept)
    return replace(setup, case=replace(setup.case, weights=weights))


def _explained(
    judge: Judge, setup: Setup, output: Array, result: Any, fixed: Mapping[str, Any]
) -> Base:
    """What explains the output, to rounding in float64 or else in float32."""
    setup = _readable(judge, setup, fixed)
    tolerance = ROUNDING if output.dtype == np.float64 else SINGLE
    observation: Observation = (setup.case, judge.far(setup, output))
    search = partial(
        explain, [observation], judge.deviations(setup), readings=len(setup.case.weights)
    )
    half = judge.seconds(1 / 2)
    fits = (
        by_lost_rows(judge, setup, output, tolerance=tolerance, seconds=half)
        or search(tolerance=tolerance, most=2, seconds=half)
        or by_pattern(
            judge, setup, fixed, output, tolerance=tolerance, seconds=judge.seconds(3 / 8)
        )
        or search(tolerance=tolerance, least=3, seconds=half)
    )
    if not fits and tolerance == ROUNDING:
        fits = search(tolerance=SINGLE, most=1, seconds=judge.seconds(1 / 4))
        tolerance = SINGLE if fits else tolerance
    if not fits and (output.dtype == np.float16 or casts_to_half(judge.subject.source)):
        tolerance = HALF
        fits = search(tolerance=HALF, most=1, seconds=judge.seconds(1 / 4))
        fits = [e for e in fits if e.error <= 2 * min(f.error for f in fits)]
    return Base(
        setup, _confirmed(judge, setup, fits, fixed, tolerance), output, result, tolerance, fixed
    )


def _confirmed(
    judge: Judge, setup: Setup, fits: list[Explanation], fixed: Mapping[str, Any], tolerance: float
) -> list[Explanation]:
    """Explanations that hold for other, smaller numbers too: a saturated softmax hides much."""
    sizes = setup.case.q.shape[-2], setup.case.k.shape[-2]
    other = judge.again(setup, setup.rng + 17, *sizes) if fits else None
    if other is None:
        return fits
    smaller = {n: other.arguments[n] * 0.25 for n in other.names.values()}
    inputs = "kv" if setup.form == "latent" else "qkv"
    case = replace(other.case, **{x: getattr(other.case, x) * 0.25 for x in inputs})
    called = judge.call(other, {**fixed, **smaller})
    if called is None:
        return fits
    far = judge.far(other, called[0])
    return [e for e in fits if far(compute(case, e.steps)) <= max(tolerance * 10, ROUNDING * 10)]


def _cheapest(found: list[Base]) -> Base | None:
    """The base whose explanation costs least by a margin, else the first explained or the first."""
    best: Base | None = None
    cost = np.inf
    for base in found:
        if base.best is not None and base.best.cost < cost - 0.3:
            best, cost = base, base.best.cost
    return best or (found[0] if found else None)


def plausible(setup: Setup, output: Array) -> bool:
    """Whether an output has a row for each query."""
    return setup.case.q.shape[-2] in output.shape or output.size == setup.case.q.size
