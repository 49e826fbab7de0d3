"""Rounds for what plain numbers hide: chance, half precision, empty rows, huge scores, caches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.diagnosis.calling import ONE, given_back, output_of
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.masks import MaskAnswer
from regard.diagnosis.reference import compute
from regard.diagnosis.source import casts_to_half
from regard.diagnosis.steps import Array


@dataclass(frozen=True)
class Hit:
    """What a round found: the fault, whether it is a mere risk, and the numbers that show it."""

    fault: str
    risk: bool
    key: str
    """The words of its evidence in the catalogue."""
    values: Mapping[str, Any]
    error_with: float = 0.0
    error_of_right: float = 0.0


def reference(base: Base, **changes: Any) -> Array:
    """What the explanation gives for the base's case with ``changes`` made to it."""
    assert base.best is not None
    return compute(replace(base.setup.case, **changes), base.best.steps)


def grows_with_scores(judge: Judge, base: Base) -> Hit | None:
    """Whether scores of some thousands give something that is not finite."""
    if base.best is None or base.best.steps.get("axis", "keys") not in ("keys", "queries", "heads"):
        return None
    factor = 3e3 / max(largest_score(base), 1e-9)
    big = _scaled(judge, base, factor)
    if big is None:
        return None
    output, expected = big
    if np.isfinite(output).all() or not np.isfinite(expected).all():
        return None
    risk = not judge.subject.source.says(_LARGE_SCORES)
    return Hit("softmax-overflow", risk, "check.evidence-overflow", {"score": 3000}, 0.0, np.inf)


SCORE = 100_000
"""A score that a fill in place of minus infinity should not lose against."""
_LARGE_SCORES = (
    r"(?:scores?|logits?|activations?|dot products|products|energ(?:y|ies)|inputs|values?)\b[^.\n]*"
    r"\b(?:hundreds?|thousands?|(?:very |arbitrarily |quite )?large|huge|unbounded)\b|"
    r"\b(?:large|huge|unnormali[sz]ed|unbounded) (?:scores|logits|activations|inputs|values)|"
    r"(?:分数|得分|打分|输入|数值)[^。\n]*(?:几百|数百|上百|成百|几千|数千|上千|几万|上万|很大|较大|非常大|巨大)"
)
"""Prose that speaks of scores at which exp overflows."""


def largest_score(base: Base) -> float:
    """The largest score without a mask, by its size."""
    from regard.diagnosis.reference import RIGHT, pieces

    assert base.best is not None
    with np.errstate(all="ignore"):
        s = pieces(base.setup.case, {**RIGHT, **base.best.steps})[3]
    return float(np.abs(s).max())


def _scaled(judge: Judge, base: Base, factor: float) -> tuple[Array, Array] | None:
    """The outputs of subject and reference where the query input is ``factor`` times as large."""
    setup = base.setup
    name = setup.names.get("q") or setup.names.get("x")
    if name is None:
        return None
    if setup.form == "self":
        factor = factor**0.5
    arguments = {name: setup.arguments[name] * factor}
    called = judge.call(setup, {**base.fixed, **arguments})
    if called is None:
        return None
    changes = {"q": setup.case.q * factor}
    if setup.form == "self":
        changes = {x: getattr(setup.case, x) * factor for x in "qkv"}
    expected = given_back(reference(base, **changes), setup.layout, called[0].astype(float))
    return called[0], expected


def hiding(answer: MaskAnswer, allowed: Array) -> Any:
    """The subject's mask that hides where ``allowed`` is False, as its parameter wants it."""
    shown = ~allowed if answer.meaning == "drop" else allowed
    if answer.kind == "additive":
        return np.where(allowed, 0.0, -1e9)
    if answer.kind == "number":
        return shown.astype(np.float64)
    return shown.astype(np.int64) if answer.kind == "integer" else shown


def as_given(answer: MaskAnswer) -> Array | None:
    """A plain mask of the answer's shape: all are allowed but the last key."""
    if answer.kind == "lengths":
        return None
    allowed = np.ones(answer.shape, bool)
    allowed[..., -1] = False
    return allowed


def empty_row(judge: Judge, base: Base, answer: MaskAnswer) -> Hit | None:
    """What a query that may attend to nothing gets; nothing is found where it gets 0."""
    allowed = np.ones(answer.shape, bool) if answer.kind != "lengths" else None
    if allowed is None or answer.meaning is None:
        return None
    if answer.shape[-1] != base.setup.case.k.shape[-2]:
        return None
    allowed[..., -1] = False
    if allowed.ndim == 1:
        allowed[:] = False
    elif allowed.ndim == 2:
        allowed[0] = False
    else:
        allowed[..., 0, :] = False
    called = judge.call(base.setup, {**base.fixed, answer.parameter: hiding(answer, allowed)})
    if called is None:
        return None
    output = called[0]
    row = _first_row(base, output)
    if row is None:
        return None
    stated = stated_empty_rows(judge)
    if np.isnan(row).any():
        return Hit("masked-row", not stated, "check.evidence-empty-nan", {}, np.inf, np.inf)
    if answer.explanation is not None and answer.explanation.steps.get("given") == "after":
        return None
    zero = _empty_output(base)
    if zero is None or row.shape != zero.shape:
        return None
    if np.abs(row - zero).max() <= 1e-6 * max(np.abs(row).max(), 1e-6):
        return None
    return Hit(
        "masked-row",
        not stated,
        "check.evidence-empty-mean",
        {},
        0.0,
        float(np.abs(row - zero).max()),
    )


def stated_empty_rows(judge: Judge) -> bool:
    """Whether the stated use meets rows that may attend to nothing."""
    return judge.subject.source.says(
        r"(?:fully|completely|entirely|wholly|all)[- ](?:masked|padded|padding|hidden)|whole "
        r"(?:rows?|sequences?|samples?|sentences?)"
        r"|entire (?:rows?|sequences?|samples?|sentences?)|empty (?:rows?|sequences?|samples?|"
        r"sentences?)|nothing (?:to attend|visible)|"
        r"(?:no|without any) (?:valid|visible|real) (?:keys?|tokens?|words?)|"
        r"rows? (?:of|with) (?:only|all|nothing but) (?:padding|masked)|整行|全部(?:被)?(?:填充|"
        r"遮|屏蔽)|空行|(?:全为|全是|都是|全部是)填充|整[句条]|整个(?:样本|序列)"
    ) and not judge.subject.source.says(
        r"(?:never|no|without|must not|not be) (?:\w+ ){0,3}(?:fully|completely|empty|entirely)|"
        r"至少"
    )


def _first_row(base: Base, output: Array) -> Array | None:
    """The output of the first query of the first sample and head."""
    layout = base.setup.layout
    index: dict[str, Any] = {
        "TD": (0,), "TC": (0,), "BTD": (0, 0), "BTC": (0, 0), "TBC": (0, 0), "TBD": (0, 0),
        "BHTD": (0, 0, 0), "BTHD": (0, 0, 0), "HTD": (0, 0), "BCT": (0, slice(None), 0),
        "CT": (slice(None), 0), "DT": (slice(None), 0),
    }  # fmt: skip
    at = index[layout]
    if base.setup.variant.endswith(ONE):
        at = at[:-1]
    elif output.ndim == 3 and layout in ("BHTD", "BTHD"):
        at = (0, 0)
    if output.ndim == 2 and layout == "HTD":
        at = (0,)
    try:
        return np.asarray(output[at], float)
    except IndexError:
        return None


def _empty_output(base: Base) -> Array | None:
    """The row that weights of zero give: the output projection's bias, and what is added around."""
    assert base.best is not None
    steps = base.best.steps
    if steps.get("around", "none") != "none":
        return None
    weights = base.setup.case.weights[steps.get("weights", 0)]
    row = _first_row(base, base.observed)
    if row is None:
        return None
    zero = np.zeros_like(row)
    if weights.o is not None and weights.o.b is not None and steps.get("out", "right") == "right":
        zero = zero + weights.o.b
    return zero


def half(
    judge: Judge, base: Base, answer: MaskAnswer | None, rule: Mapping[str, Any] | None
) -> list[Hit]:
    """What the subject does in float16: an error or NaN that float64 does not have."""
    subject = judge.subject
    hits: list[Hit] = []
    more: dict[str, Any] = {**base.fixed, **(rule or {})}
    if answer is not None and answer.kind not in ("lengths", "additive"):
        allowed = as_given(answer)
        if allowed is not None:
            more[answer.parameter] = hiding(answer, allowed)
    masked = (
        answer is not None
        or rule is not None
        or (base.best is not None and "rule" in base.best.steps)
    )
    if not masked:
        return hits
    before = subject.dtype
    stated = _casts_to_half(judge)
    try:
        subject.to("float16")
        plain = _try(judge, base, base.fixed)
        own = base.best is not None and "rule" in base.best.steps
        if isinstance(plain, Exception) and not own:
            return hits  # half precision is out of its reach for another reason
        if not isinstance(plain, Exception) and not np.isfinite(plain).all() and not own:
            return hits
        hidden = _try(judge, base, more)
    finally:
        subject.to(before)
    if isinstance(hidden, Exception):
        if re.search(r"overflow|cannot be converted|out of range", str(hidden)):
            hits.append(
                Hit(
                    "mask-half-overflow",
                    not stated,
                    "check.evidence-half-error",
                    {"error": str(hidden).split("\n")[0][:160]},
                    np.inf,
                    np.inf,
                )
            )
    elif np.isnan(hidden).any():
        hits.append(
            Hit("mask-half-overflow", not stated, "check.evidence-half-nan", {}, np.inf, np.inf)
        )
    return hits


def _casts_to_half(judge: Judge) -> bool:
    source = judge.subject.source
    return casts_to_half(source) or source.says(
        r"half precision|float16|fp16|半精度|mixed precision|混合精度"
    )


def _try(judge: Judge, base: Base, more: Mapping[str, Any]) -> Any:
    try:
        result = judge.subject.run({**base.setup.arguments, **more})
    except Exception as error:  # whatever somebody's code may raise
        return error
    output = output_of(result)
    return np.asarray(output, float) if output is not None else ValueError("no output")


PREFIX, REST = 4, 2
"""How many tokens the cache is filled with, and how many are read after them."""


def half_refused(judge: Judge) -> Hit | None:
    """A mask that raised for its fill is too large for the half precision the subject casts to."""
    for failure in judge.failures:
        if re.search(r"without overflow|c10::Half|at::Half", failure.text):
            stated = _casts_to_half(judge)
            return Hit(
                "mask-half-overflow",
                not stated,
                "check.evidence-half-error",
                {"error": failure.text},
                np.inf,
                np.inf,
            )
    return None
