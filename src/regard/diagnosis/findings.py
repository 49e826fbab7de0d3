"""From explanations to the names of faults and risks."""

from __future__ import annotations

import re

import numpy as np

from regard.diagnosis import caching, chances, rounds
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.masks import MaskAnswer, RuleAnswer, answer, rule_answer, window_faults
from regard.diagnosis.naming import elsewhere, named, rotates
from regard.diagnosis.outcome import Outcome, add, add_hit, add_hits
from regard.diagnosis.poison import poisoned
from regard.diagnosis.reference import compute
from regard.diagnosis.roles import known_parameter


def name_base(judge: Judge, base: Base, outcome: Outcome) -> None:
    """Names what the output without a mask shows."""
    source, best = judge.subject.source, base.best
    assert best is not None
    far = judge.far(base.setup, base.observed)
    chosen = {s: v for d in best.deviations if not d.faults for s, v in d.changes}
    right = far(compute(base.setup.case, chosen))
    faults = window_faults(judge, best, named(judge, base))
    for fault in faults:
        add(outcome, source, fault, False, "check.evidence-reproduced", {}, best.error, right)
    found = judge.found
    case = base.setup.case
    weighted = any(w.q is not None for w in case.weights)
    if (
        weighted
        and case.heads > 1
        and all(w.o is None for w in case.weights)
        and not elsewhere(judge)
    ):
        add(
            outcome,
            source,
            "output-projection-missing",
            False,
            "check.evidence-no-output",
            {"heads": case.heads},
            best.error,
            1.0,
        )
    if found.shared or base.setup.variant == "shared":
        add(
            outcome,
            source,
            "projection-shared",
            False,
            "check.evidence-shared",
            {"heads": case.heads, "width": case.q.shape[-1] // case.heads},
            best.error,
            1.0,
        )
    if "rotary" in judge.hints and best.steps.get("rotary") is None and rotates(judge):
        add(
            outcome, source, "rotary-axis", False, "check.evidence-no-rotation", {}, best.error, 1.0
        )
    hit = chances.no_gradient(judge, base)
    if hit is not None:
        add_hit(outcome, source, hit)
    outcome.choices += [
        n for n in best.notes if n in _CHOICES and not (n == "rescaled" and judge.random)
    ]
    outcome.how["rule"] = best.steps.get("rule", "none")


_CHOICES = {"pre", "pre-residual", "post", "residual", "heads-last", "unscaled", "rescaled", "own"}


def name_masks(judge: Judge, base: Base, outcome: Outcome) -> None:
    """Names what masks, rules and the special rounds find."""
    rule = rule_answer(judge, base)
    if rule is not None:
        _name_rule(judge, rule, outcome)
    _missing_causality(judge, base, outcome, rule)
    masked: MaskAnswer | None = None
    meanings = {}
    for p in judge.subject.parameters:
        if p.role not in ("mask", "pad", "lengths"):
            continue
        if base.setup.form == "self" and re.match(r"encoder|mem|context|cross|prev", p.name):
            continue  # a mask for another input, which is not given
        found = answer(judge, base, p)
        if found is None:
            add_hits(outcome, judge.subject.source, [rounds.half_refused(judge)])
            continue
        told = known_parameter(p.name, p.role) or judge.subject.source.says(
            rf"\b{re.escape(p.name)}\b[^\n]*\b(?:true|bool\w*|1)\b"
        )
        if found.faults == ("mask-ignored",) and not told:
            continue  # its name leaves open what it masks
        _name_mask(judge, found, outcome)
        if found.meaning not in (None, "ignored"):
            meanings[p.name] = found.meaning
            masked = masked or found
    if meanings:
        outcome.how["mask"] = meanings
    given = None if rule is None else rule.given
    usable = masked if masked is not None and not masked.faults else None
    hits = [rounds.grows_with_scores(judge, base), *chances.drops(judge, base)]
    hits += [caching.fewer_queries(judge, base, given), *caching.cached(judge, base)]
    if usable is not None:
        hits.append(rounds.empty_row(judge, base, usable))
    hits.append(poisoned(judge, base, usable, rule))
    if usable is not None or masked is None:
        hits += rounds.half(judge, base, usable, given)
    add_hits(outcome, judge.subject.source, hits)


_EVIDENCE = {
    "mask-ignored": "check.evidence-ignored",
    "mask-inverted": "check.evidence-inverted",
    "mask-nan": "check.evidence-nan",
    "causal-missing": "check.evidence-causal-missing",
}


def _name_rule(judge: Judge, rule: RuleAnswer, outcome: Outcome) -> None:
    for fault in rule.faults:
        key = _EVIDENCE.get(fault, "check.evidence-reproduced")
        error = rule.explanation.error if rule.explanation is not None else np.inf
        add(outcome, judge.subject.source, fault, False, key, {}, error, rule.error_of_right)
    if rule.explanation is None and not rule.faults:
        outcome.undetermined.append(("check.rule-unexplained", {"parameter": rule.parameter}))


def _name_mask(judge: Judge, found: MaskAnswer, outcome: Outcome) -> None:
    error = found.explanation.error if found.explanation is not None else np.inf
    values = {"meaning": found.meaning or "", "stated": found.stated or ""}
    for fault in found.faults:
        key = _EVIDENCE.get(fault, "check.evidence-reproduced")
        told = values if fault == "mask-inverted" else {}
        add(outcome, judge.subject.source, fault, False, key, told, error, found.error_of_right)
    if found.explanation is None and found.meaning is None and not found.faults:
        outcome.undetermined.append(("check.mask-unexplained", {"parameter": found.parameter}))


def _missing_causality(judge: Judge, base: Base, outcome: Outcome, rule: RuleAnswer | None) -> None:
    best = base.best
    assert best is not None
    if not judge.causal or rule is not None or base.setup.form in ("cross", "latent"):
        return
    if best.steps.get("rule", "none") != "none":
        return
    if judge.subject.role("mask", "pad") is not None and not judge.said.get("causal"):
        return
    far = judge.far(base.setup, base.observed)
    right = far(compute(base.setup.case, {**best.steps, "rule": "causal"}))
    add(
        outcome,
        judge.subject.source,
        "causal-missing",
        False,
        "check.evidence-causal-missing",
        {},
        best.error,
        right,
    )
