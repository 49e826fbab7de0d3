"""Rounds for caches: reading in two steps against one, and fewer queries than keys."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from regard.diagnosis.calling import Setup, given_back, output_of
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.reference import compute
from regard.diagnosis.rounds import PREFIX, REST, Hit
from regard.diagnosis.search import distance
from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Parameter


def cached(judge: Judge, base: Base) -> list[Hit]:
    """Whether reading in two steps with a cache gives what reading at once gives."""
    subject, setup = judge.subject, base.setup
    parameter = subject.role("cache", "position")
    if parameter is None or base.best is None or setup.form != "self" or not subject.source.text:
        return []
    name = setup.names["x"]
    axis = setup.layout.index("T")
    whole = judge.again(setup, 0, PREFIX + REST, PREFIX + REST)
    if whole is None:
        return []
    x = whole.arguments[name]
    first, last = np.split(x, [PREFIX], axis)
    more = {**whole.arguments, **base.fixed}
    flag = subject.role("returns")
    if flag is not None:
        more[flag.name] = True
    try:
        steps = _in_steps(judge, {**more}, name, first, last, parameter)
        full = _whole(judge, {**more}, name, x, parameter)
    except Exception:  # whatever somebody's code may raise
        return []
    if steps is None or full is None:
        return []
    expected = np.split(full, [PREFIX], axis)[1]
    if expected.shape != steps.shape:
        return []
    error = float(np.abs(expected - steps).max() / (np.abs(expected).max() + 1e-300))
    if error < 1e-6:
        return []
    return _why_cached(judge, base, whole, steps, error)


def _whole(judge: Judge, more: dict[str, Any], name: str, x: Array, p: Parameter) -> Array | None:
    if p.role == "position":
        more[p.name] = 0
    return output_of(judge.subject.run({**more, name: x}))


def _in_steps(
    judge: Judge, more: dict[str, Any], name: str, first: Array, last: Array, p: Parameter
) -> Array | None:
    """The output for ``last`` after ``first``, whichever way the subject keeps its cache."""
    run = judge.subject.run
    if p.role == "position":
        if judge.subject.owner is None:
            return None
        run({**more, name: first, p.name: 0})
        return output_of(run({**more, name: last, p.name: PREFIX}))
    result = run({**more, name: first})
    if isinstance(result, tuple):
        for kept in result[1:]:
            if isinstance(kept, tuple | dict) or (isinstance(kept, np.ndarray) and kept.ndim >= 4):
                return output_of(run({**more, name: last, p.name: kept}))
    store: dict[str, Any] = {}
    run({**more, name: first, p.name: store})
    if not store:
        return None
    return output_of(run({**more, name: last, p.name: store}))


def _why_cached(judge: Judge, base: Base, whole: Setup, steps: Array, error: float) -> list[Hit]:
    """The names of what differs: the corner of the causal rule, or the positions of rotary."""
    assert base.best is not None
    case = whole.case
    axis = 1 if case.q.ndim == 3 else 2
    rest = np.split(case.q, [PREFIX], axis)[1]
    late = replace(case, q=rest)
    told = base.best.steps
    start_over = (np.arange(REST), np.concatenate([np.arange(PREFIX), np.arange(REST)]))
    only_query = (np.arange(REST), np.arange(PREFIX + REST))
    options: list[tuple[tuple[str, ...], Any, dict[str, Any]]] = [
        (("causal-misaligned",), late, {**told, "rule": "top-left"}),
        (("causal-missing",), late, {**told, "rule": "none"}),
    ]
    if told.get("rotary") is not None:
        for places in (start_over, only_query):
            moved = replace(late, places=places)
            options += [
                (("rotary-offset",), moved, dict(told)),
                (("rotary-offset", "causal-misaligned"), moved, {**told, "rule": "top-left"}),
                (("rotary-offset", "causal-missing"), moved, {**told, "rule": "none"}),
            ]
    wide = steps.astype(float)
    for faults, one, how in options:
        if distance(given_back(compute(one, how), whole.layout, wide), wide) < 1e-8:
            return [
                Hit(f, False, "check.evidence-cached", {"prefix": PREFIX, "rest": REST}, 0.0, error)
                for f in faults
            ]
    return []


def fewer_queries(judge: Judge, base: Base, rule: Mapping[str, Any] | None) -> Hit | None:
    """Which corner the causal rule starts from where there are fewer queries than keys."""
    subject = judge.subject
    if base.setup.form in ("self", "latent") or base.best is None:
        return None
    causal = base.best.steps.get("rule") == "causal" or rule is not None
    if not causal or not subject.source.text:
        return None
    steps = {**base.best.steps}
    setup = judge.again(base.setup, 0, 3, 7)
    if setup is None:
        return None
    called = judge.call(setup, {**base.fixed, **(rule or {})})
    if called is None:
        return None
    far = judge.far(setup, called[0].astype(float))
    right = far(compute(setup.case, {**steps, "rule": "causal"}))
    wrong = far(compute(setup.case, {**steps, "rule": "top-left"}))
    if right <= 1e-6 or wrong >= 1e-8 or subject.source.says(r"top-?left|square|左上"):
        return None
    code, cached = subject.source.joined, subject.source.says(r"cache|decod|past|缓存|增量")
    if re.search(r"is_causal\s*=", code) and not cached:
        return None  # torch's own rule, which is the top left by its word
    if (
        not re.search(r"\b(?:k\w*|memory|past\w*)\.(?:shape|size)|\blen\(k|[,(]\s*S\b", code)
        and not cached
    ):
        return None  # one length alone is read: fewer queries than keys are not its use
    values = {"queries": 3, "keys": 7}
    return Hit("causal-misaligned", False, "check.evidence-misaligned", values, wrong, right)
