"""What a mask fills with, where the numbers alone do not tell: what is written decides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.diagnosis.hypotheses import Deviation, mask_deviations
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.reference import Case, compute
from regard.diagnosis.search import Explanation
from regard.diagnosis.source import Source
from regard.diagnosis.steps import Array

PRODUCT_WITH_INFINITY = (
    r"\*\s*-?\s*\(?\s*-?\s*(?:float\(\s*['\"]-?\s*inf(?:inity)?['\"]\s*\)|np\.inf|math\.inf|"
    r"torch\.inf|numpy\.inf|"
    r"np\.(?:Inf|PINF|NINF)|-?inf\b|NEG_INF|neg_inf|MINUS_INF|INF\b)"
    r"|(?:float\(\s*['\"]-?inf(?:inity)?['\"]\s*\)|(?:np|math|torch)\.inf|NEG_INF|neg_inf)\s*\)"
    r"?\s*\*(?!\*)"
)


def filled_after_softmax(judge: Judge) -> bool:
    """Whether the source fills with −∞ below the line of its softmax, and not above it."""
    source = judge.subject.source
    soft = source.line(r"softmax\s*\(|np\.exp|torch\.exp|\.exp\(\)")
    fills = [n for n, text in source.code if re.search(r"masked_fill|where\(|inf", text)]
    return soft is not None and bool(fills) and min(fills) >= soft


def likeliest(fits: list[Explanation], source: Source) -> Explanation:
    """The cheapest; where a fill of 0 and a weak one fit alike, the one that is written."""
    best = fits[0]
    if best.steps.get("given") == "zero":
        for other in fits[1:]:
            place = other.steps.get("given")
            alike = other.cost <= best.cost + 0.05 and isinstance(place, tuple)
            if alike and place and source.line(rf"(?:fill|where).*-\s*{abs(place[1]):g}\b"):
                return other
    return best


def written(
    best: Explanation, judge: Judge, base: Base, masked: Case, output: Array
) -> Explanation:
    """The explanation with the fill that is written, where the softmax tells none from another.

    A softmax over the heads makes 1/H of whatever stands in all of them alike.
    """
    assert base.best is not None
    steps = best.steps
    if steps.get("axis", "keys") == "keys" or steps.get("given") != "fill":
        return best
    source, far = judge.subject.source, judge.far(base.setup, output)
    for d in mask_deviations(source.joined):
        told = dict(d.changes)
        alike = all(told.get(step) == steps.get(step) for step in ("meaning", "turn"))
        if alike and _is_written(d, source) and far(compute(masked, {**steps, **told})) < 1e-9:
            return Explanation((*base.best.deviations, d), best.error)
    return best


def _is_written(d: Deviation, source: Source) -> bool:
    """Whether the source multiplies by a mask, or fills with 0 or another number too large."""
    match dict(d.changes)["given"] if d.faults in _FILLS else None:
        case "zero":
            product = r"(?<!\*)\*=?\s*\(?\w*mask\w*(?:\[[^\]]*\])?\)?\s*$"
            return (
                source.line(product, r"(?:fill|where)\w*\(.*(?<![\w.])0(?:\.0*)?\s*\)") is not None
            )
        case ("weak", value):
            return source.line(rf"(?:fill|where).*-\s*{abs(value):g}\b") is not None
    return False


_FILLS = (("mask-multiplied",), ("mask-too-weak",))


def meaning_by_rows(judge: Judge, base: Base, given: Mapping[str, Any]) -> str | None:
    """Whether it keeps or drops, by which rows are finite where every other one is marked whole."""
    ((name, mask),) = given.items()
    layout, width = base.setup.layout, base.setup.case.q.shape[-2]
    if mask.ndim < 2 or mask.shape[-2] != width or "T" not in layout:
        return None
    marked = np.zeros_like(mask)
    marked[..., ::2, :] = 1
    called = judge.call(base.setup, {**base.fixed, name: marked})
    if called is None or called[0].ndim != len(layout):
        return None
    rows = np.moveaxis(np.isfinite(called[0]), layout.index("T"), 0).reshape(width, -1).all(1)
    if rows.all() or not rows.any():
        return None
    return {(True, False): "keep", (False, True): "drop"}.get((rows[::2].all(), rows[1::2].all()))
