"""Who depends on whom: a search in two stages for several faults at once.

Which rows of the output move where a token is changed depends on few of the steps: masks, the views
into heads, the axis of the softmax, the axis taken for the sequence.  They are found by that
pattern alone, and the other steps then by the numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.diagnosis.calling import Setup, given_back, place
from regard.diagnosis.hypotheses import Deviation, rule_deviations
from regard.diagnosis.judge import Judge
from regard.diagnosis.reference import Case, compute
from regard.diagnosis.search import Explanation, distance, explain, ordered
from regard.diagnosis.steps import Array

WHERE = {"rule", "place", "split", "merge", "sequence", "axis"}
"""The steps that the pattern tells."""
MOST = 12
"""So many sets of such steps are tried with the numbers."""


def by_pattern(
    judge: Judge, setup: Setup, fixed: Mapping[str, Any], output: Array, *,
    tolerance: float, seconds: float,
) -> list[Explanation]:  # fmt: skip
    """Explanations of three deviations or more, the pattern's steps being settled first."""
    end = time.thread_time() + seconds
    seen = _moved_in(judge, setup, fixed, output)
    if seen is None or all(rows.sum() * setup.batch >= rows.size for rows in seen):
        return []  # every token moves every row: nothing is told
    if not any(rows.any() for rows in seen):
        return []  # no token moves any: it attends to nothing
    deviations = judge.deviations(setup)
    where = [d for d in deviations if d.steps <= WHERE]
    what = [d for d in deviations if not d.steps & WHERE]
    observation = [(setup.case, judge.far(setup, output))]
    for settled in _consistent(setup, where, output, seen, end):
        faults = sum(bool(d.faults) for d in settled)
        fits = explain(
            observation, what, base=settled, readings=len(setup.case.weights),
            most=3 - faults + (faults == 2), tolerance=tolerance,
            seconds=max(0.1, end - time.thread_time()),
        )  # fmt: skip
        if fits or time.thread_time() > end:
            return fits
    return []


def by_lost_rows(
    judge: Judge, setup: Setup, output: Array, *, tolerance: float, seconds: float
) -> list[Explanation]:
    """Explanations by which rows are NaN: −∞ in every head leaves a softmax over them nothing."""
    wide = output.astype(float)
    lost = np.isnan(wide)
    if not lost.any() or lost.all():
        return []

    def far(y: Array) -> float:
        placed = given_back(y, setup.layout, wide)
        alike = placed.shape == wide.shape and np.array_equal(np.isnan(placed), lost)
        return distance(placed, wide) if alike else math.inf

    rules = [
        replace(d, changes=(*d.changes, ("place", "lost")))
        for d in rule_deviations(setup.case, window=setup.case.window is not None)
        if d.steps == {"rule"}
    ]
    return explain(
        [(setup.case, far)], [*judge.deviations(setup, rules=False), *rules],
        readings=len(setup.case.weights), most=3, tolerance=tolerance, seconds=seconds,
    )  # fmt: skip


def _changed(setup: Setup) -> Iterator[tuple[Case, dict[str, Array]]]:
    """The case with one key's token of the first sample changed, and the arguments so changed."""
    rng = np.random.default_rng(3)
    case = setup.case
    for j in range(case.k.shape[-2]):
        inputs: dict[str, Any] = {}
        for name in "kv" if setup.form != "self" else "qkv":
            x = np.array(getattr(case, name))
            x[0, ..., j, :] = rng.standard_normal(x[0, ..., j, :].shape)
            inputs[name] = x
        if setup.form == "self":
            inputs = dict.fromkeys("qkv", inputs["q"])
        elif setup.form in ("cross", "latent"):
            inputs["v"] = inputs["k"]
        given = {**inputs, "x": inputs["k"], "context": inputs["k"]}
        roles = {r: n for r, n in setup.names.items() if r in given}
        yield (
            replace(case, **inputs),
            {n: place(given[r], setup.layout) for r, n in roles.items()},
        )


def _rows(a: Array, b: Array, setup: Setup) -> Array:
    """Which rows of two outputs differ, the features put together."""
    features = -2 if setup.layout in ("BCT", "CT", "DT") else -1
    moved = np.abs(a - b) > 1e-11 * np.abs(b).max()
    return moved.any(features)


def _moved_in(
    judge: Judge, setup: Setup, fixed: Mapping[str, Any], output: Array
) -> list[Array] | None:
    """By key, the rows of the subject's output that a change of its token moves."""
    found = []
    for _, arguments in _changed(setup):
        called = judge.call(setup, {**fixed, **arguments})
        if called is None or called[0].shape != output.shape:
            return None
        found.append(_rows(called[0].astype(float), output.astype(float), setup))
    return found


def _consistent(
    setup: Setup, where: Sequence[Deviation], output: Array, seen: Sequence[Array], end: float
) -> Iterator[tuple[Deviation, ...]]:
    """Sets of the pattern's steps that move the same rows, the cheapest first."""
    wide = output.astype(float)
    cases = [case for case, _ in _changed(setup)]
    memos: list[dict[Any, Any]] = [{} for _ in range(len(cases) + 1)]

    def given(case: Case, told: Mapping[str, Any], memo: dict[Any, Any]) -> Array:
        return given_back(compute(case, told, memo), setup.layout, wide)

    tried: dict[Any, tuple[Deviation, ...]] = {}
    for combo in ordered([d for d in where if d.faults], [d for d in where if not d.faults], 2):
        if time.thread_time() > end:
            break
        told = {s: v for d in combo for s, v in d.changes}
        try:
            plain = given(setup.case, told, memos[-1])
            if plain.shape != wide.shape:
                continue
            same = all(
                np.array_equal(_rows(given(case, told, memo), plain, setup), rows)
                for case, memo, rows in zip(cases, memos[:-1], seen, strict=True)
            )
        except (ValueError, KeyError, IndexError, TypeError):
            continue
        if same:
            tried[tuple(sorted(told.items(), key=str))] = combo
    cheapest = sorted(tried.values(), key=lambda c: (sum(d.cost for d in c), len(c)))
    yield from cheapest[:MOST]
