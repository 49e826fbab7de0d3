"""A round for hidden keys: their numbers are made huge, and what may not see them must not move.

NaN in a hidden value is no such probe: 0 · NaN is NaN in every product of weights and values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from regard.diagnosis.calling import given_back, place
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.masks import MaskAnswer, RuleAnswer, canonical
from regard.diagnosis.reference import Case, compute
from regard.diagnosis.rounds import SCORE, Hit, as_given, hiding, largest_score
from regard.diagnosis.search import distance


def poisoned(
    judge: Judge, base: Base, answer: MaskAnswer | None, rule: RuleAnswer | None
) -> Hit | None:
    """Whether huge numbers of a key, or of all queries, beat the fill of a mask or of a rule."""
    if base.best is None or base.best.steps.get("axis", "keys") != "keys":
        return None
    for case, told, more in _hidden(base, answer, rule):
        for poisoned_case in _poisoned(base, case):
            setup = base.setup
            given = {
                name: place(getattr(poisoned_case, _INPUT.get(role, role)), setup.layout)
                for role, name in setup.names.items()
            }
            called = judge.call(setup, {**base.fixed, **more, **given})
            if called is None or called[0].dtype.itemsize < 8 or not np.isfinite(called[0]).all():
                continue
            expected = given_back(compute(poisoned_case, told), setup.layout, called[0])
            error = distance(expected, called[0])
            if error > 1e-3:
                values = {"score": SCORE}
                return Hit("mask-too-weak", True, "check.evidence-poisoned", values, 0.0, error)
    return None


_INPUT = {"x": "q", "context": "k"}


def _hidden(
    base: Base, answer: MaskAnswer | None, rule: RuleAnswer | None
) -> Iterator[tuple[Case, Mapping[str, Any], Mapping[str, Any]]]:
    """Ways to hide the last key: the case, what the reference is told and what is given."""
    assert base.best is not None
    case, steps = base.setup.case, base.best.steps
    if steps.get("rule") == "causal" and not base.best.faults:
        yield case, steps, {}
    elif rule is not None and rule.explanation is not None and not rule.faults:
        yield case, rule.explanation.steps, rule.given
    allowed = None if answer is None or answer.kind == "additive" else as_given(answer)
    if answer is None or allowed is None or answer.explanation is None or answer.faults:
        return
    ones = canonical(allowed, case.q.shape[-2], case.k.shape[-2], base.setup.batch)
    if ones is not None:
        told = {
            step: value
            for step, value in answer.explanation.steps.items()
            if step not in ("meaning", "turn", "given")
        }
        yield replace(case, allowed=ones), told, {answer.parameter: hiding(answer, allowed)}


def _poisoned(base: Base, case: Case) -> Iterator[Case]:
    """The case with the last key's numbers made huge, and with those of all queries."""
    factor = SCORE / max(largest_score(base), 1e-9)
    if base.setup.form == "latent":
        return
    key = case.k.copy()
    key[..., -1, :] *= factor
    if base.setup.form == "self":
        root = case.q * factor**0.5
        yield replace(case, q=key, k=key, v=key)
        yield replace(case, q=root, k=root, v=root)
        return
    yield replace(case, k=key, v=key if base.setup.form == "cross" else case.v)
    yield replace(case, q=case.q * factor)
    yield replace(case, q=case.q * -factor)  # what was the largest score is now the smallest
