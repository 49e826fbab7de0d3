"""What a given mask does: its meaning, its place, its axis; and what a rule asked for does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.diagnosis.fills import (
    PRODUCT_WITH_INFINITY,
    filled_after_softmax,
    likeliest,
    meaning_by_rows,
    written,
)
from regard.diagnosis.hypotheses import Deviation, mask_deviations, rule_deviations
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.prose import about_masks, mask_meaning, stated_window
from regard.diagnosis.reference import Case
from regard.diagnosis.search import ROUNDING, Explanation, explain
from regard.diagnosis.source import shapes_in
from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Parameter


@dataclass(frozen=True)
class MaskAnswer:
    """What one mask parameter was found to do."""

    parameter: str
    meaning: str | None
    """keep, drop or additive; None where nothing explains it."""
    stated: str | None
    explanation: Explanation | None
    faults: tuple[str, ...]
    shape: tuple[int, ...] = ()
    kind: str = "bool"
    allowed: Array = None
    given: Mapping[str, Any] | None = None
    error_of_right: float = 0.0
    note: str = ""


def pattern(rng: np.random.Generator, shape: Sequence[int]) -> Array:
    """Random booleans with a True and a False in each row, and not all rows alike.

    So have the columns of many rows: a softmax over the queries loses none of them.
    """
    axes = (-1, -2) if len(shape) > 1 and shape[-2] > 3 else (-1,)
    while True:
        a = rng.random(shape) < 0.6
        if all(a.any(axis).all() and (~a).any(axis).all() for axis in axes):
            flat = a.reshape(-1, a.shape[-1])
            if len(flat) < 2 or len({tuple(r) for r in flat}) > 1:
                return a


def _shapes(judge: Judge, base: Base, p: Parameter) -> Iterator[tuple[int, ...]]:
    """Canonical shapes (B, 1, T, S) paired with what the subject is given, the likeliest first."""
    t, s, b, h = (
        base.setup.case.q.shape[-2],
        base.setup.case.k.shape[-2],
        base.setup.batch,
        base.setup.case.heads,
    )
    letters = {"B": b, "T": t, "S": s, "H": h, "1": 1}
    prose = about_masks(judge.subject.source, p.name)
    for word in re.findall(r"[\(\[]\s*([\w\s,]+?)\s*,?\s*[\)\]]", prose):
        parts = [w.strip() for w in word.split(",")]
        if not 2 <= len(parts) <= 4:
            continue
        named = _mask_letters(parts)
        if named is not None:
            yield tuple(letters[n] for n in named)
    if p.role == "pad":
        yield from ((b, s), (b, 1, 1, s), (b, 1, s), (s,), (b, t, s), (b, 1, t, s), (t, s))
    elif base.setup.layout in ("TD", "TC"):
        yield from ((t, s), (s,), (1, t, s), (1, s), (1, 1, t, s))
    else:
        yield from ((b, t, s), (b, 1, t, s), (t, s), (b, 1, 1, s), (b, s), (1, t, s), (1, 1, t, s),
                    (b, h, t, s), (b, 1, s), (b * h, t, s), (s,))  # fmt: skip


def _mask_letters(parts: list[str]) -> str | None:
    found = ""
    seen_time = False
    for part in parts:
        if part == "1":
            found += "1"
            continue
        shape = shapes_in(f"({part}, d_model)")
        letter = shape[0][0] if shape else None
        if letter == "T":
            found += "S" if seen_time else "T"
            seen_time = True
        elif letter in ("B", "H"):
            found += letter
        else:
            return None
    if found.count("T") == 1 and "S" not in found:
        found = found.replace("T", "S")
    if not seen_time or found in ("S",):
        return None
    return found


def canonical(given: Array, t: int, s: int, batch: int) -> Array | None:
    """A given mask as (B or 1, H or 1, T or 1, S); None for a shape that is none of the usual."""
    n = given.ndim
    if n == 1:
        return given[None, None, None]
    if n == 2:
        return (
            given[None, None]
            if given.shape[0] == t and given.shape[0] != batch
            else given[:, None, None]
        )
    if n == 3:
        return given[:, None] if given.shape[0] in (1, batch) else None
    return given


def answer(judge: Judge, base: Base, p: Parameter) -> MaskAnswer | None:
    """What parameter ``p`` does; None where no mask could be given at all."""
    stated = judge.said.get("mask") or _stated(judge, p)
    rng = np.random.default_rng(7)
    unexplained: MaskAnswer | None = None
    ignored: MaskAnswer | None = None
    seen: set[tuple[int, ...]] = set()
    count = 0
    for shape in _candidate_shapes(judge, base, p):
        if shape in seen or count >= 6 or (shape[-1] < 2 and p.role != "lengths"):
            continue
        seen.add(shape)
        for kind in _kinds(judge, p, stated):
            tried = _one(judge, base, p, shape, kind, rng, stated)
            if tried is None:
                continue
            count += 1
            if tried.explanation is None:
                unexplained = unexplained or tried
                if tried.note:
                    return tried
                continue
            if tried.explanation.steps.get("meaning") == "ignored":
                ignored = ignored or tried
                break
            return tried
    return ignored or unexplained


def _candidate_shapes(judge: Judge, base: Base, p: Parameter) -> Iterator[tuple[int, ...]]:
    if p.role == "lengths":
        yield (base.setup.batch,)
        return
    yield from _shapes(judge, base, p)


def _stated(judge: Judge, p: Parameter) -> str | None:
    if p.role == "lengths":
        return "keep"
    prose = about_masks(judge.subject.source, p.name)
    found = mask_meaning(prose)
    if found is not None:
        return found
    if re.search(r"keep|valid|allow|visible", p.name, re.IGNORECASE):
        return "keep"
    return None


def _kinds(judge: Judge, p: Parameter, stated: str | None) -> tuple[str, ...]:
    if p.role == "lengths":
        return ("lengths",)
    if stated == "additive":
        return ("additive", "bool", "number")
    if re.search(rf"1(?:\.0?)?\s*-\s*{re.escape(p.name)}\b", judge.subject.source.joined):
        return ("number", "bool", "additive")
    return ("bool", "number", "integer", "additive")


def _given(
    base: Base, shape: tuple[int, ...], kind: str, rng: np.random.Generator
) -> tuple[Any, Array] | None:
    """A mask of this shape and kind, and what it marks as (B or 1, H or 1, T or 1, S)."""
    case = base.setup.case
    t, s, b = case.q.shape[-2], case.k.shape[-2], base.setup.batch
    if kind == "lengths":
        stops = np.array([s - 3, s - 1][:b])
        return stops, (np.arange(s) < stops[:, None])[:, None, None]
    given = pattern(rng, shape)
    marked = canonical(given, t, s, b)
    if marked is None:
        if len(shape) != 3:
            return None
        given = np.repeat(pattern(rng, (b, *shape[1:])), case.heads, 0)
        marked = given[:: case.heads][:, None]
    if kind == "additive":
        return np.where(given, 0.0, -1e9), marked
    kinds: dict[str, Any] = {"number": np.float64, "integer": np.int64}
    return given.astype(kinds.get(kind, np.bool_)), marked


def _one(
    judge: Judge,
    base: Base,
    p: Parameter,
    shape: tuple[int, ...],
    kind: str,
    rng: np.random.Generator,
    stated: str | None,
) -> MaskAnswer | None:
    """The answer for a mask of one shape and kind; None where the subject does not take it."""
    made = _given(base, shape, kind, rng)
    if made is None or base.best is None:
        return None
    given, marked = made
    called = judge.call(base.setup, {**base.fixed, p.name: given})
    if called is None or called[0].shape != base.observed.shape:
        return None
    output = called[0]
    silent = MaskAnswer(p.name, None, stated, None, (), shape, kind, marked, {p.name: given})
    if np.array_equal(output, base.observed):
        nothing = Deviation((("meaning", "ignored"),), ("mask-ignored",))
        told = Explanation((*base.best.deviations, nothing), base.best.error)
        return replace(
            silent, meaning="ignored", explanation=told, faults=nothing.faults, error_of_right=1.0
        )
    if np.isnan(output).mean() > 0.5:
        return _not_finite(judge, base, output, silent)
    masked = replace(base.setup.case, allowed=marked)
    fits = _fits(judge, base, masked, output)
    if not fits:
        return silent if np.isfinite(output).all() else _not_finite(judge, base, output, silent)
    best = written(likeliest(fits, judge.subject.source), judge, base, masked, output)
    meaning = "additive" if kind == "additive" else best.steps["meaning"]
    known = base.best.deviations
    faults = tuple(f for d in best.deviations if d not in known for f in d.faults)
    torn = stated in ("keep", "drop") and meaning in ("keep", "drop") and meaning != stated
    if torn and "mask-added" not in faults:
        faults = ("mask-inverted", *faults)
    if "mask-added" in faults and stated is None and not _says_boolean(judge, p):
        as_bias = _one(judge, base, p, shape, "additive", rng, "additive")
        if as_bias is not None and as_bias.explanation is not None and not as_bias.faults:
            return replace(as_bias, meaning="additive", stated=None)
    right = judge.far(base.setup, output)(_right(masked, best, stated))
    return replace(silent, meaning=meaning, explanation=best, faults=faults, error_of_right=right)


def _fits(judge: Judge, base: Base, masked: Case, output: Array) -> list[Explanation]:
    """What explains a masked output, the explanation without a mask being settled."""
    assert base.best is not None
    fixed = base.best.deviations
    b, t = base.setup.batch, masked.q.shape[-2]
    pad = masked.allowed.shape[-2] == 1 and t > 1
    deviations = [
        d
        for d in mask_deviations(judge.subject.source.joined)
        if _makes_sense(d, pad, masked.heads, b)
    ]
    rules = {step for d in fixed for step in d.steps}
    tries: list[tuple[Sequence[Deviation], Sequence[Deviation]]] = [(deviations, fixed)]
    if "rule" in rules:  # or the mask takes the place of the subject's own rule
        alone = [d for d in fixed if "rule" not in d.steps]
        tries.append(([d for d in deviations if not d.faults], alone))
    for options, settled in tries:
        fits = explain(
            [(masked, judge.far(base.setup, output))],
            options,
            base=settled,
            tolerance=max(base.tolerance, ROUNDING),
            most=1,
        )
        if fits := [f for f in fits if f.steps.get("meaning") is not None]:
            return fits
    return []


def _says_boolean(judge: Judge, p: Parameter) -> bool:
    """Whether the prose calls the mask a matter of yes and no."""
    prose = about_masks(judge.subject.source, p.name)
    return re.search(r"bool|binary|\bTrue\b|0/1|0 or 1|布尔|二值", prose, re.IGNORECASE) is not None


def _right(masked: Any, best: Explanation, stated: str | None) -> Array:
    from regard.diagnosis.reference import compute

    steps = {k: v for k, v in best.steps.items() if k not in ("given", "turn", "meaning")}
    return compute(masked, {**steps, "meaning": "drop" if stated == "drop" else "keep"})


def _makes_sense(d: Deviation, pad: bool, heads: int, batch: int) -> bool:
    turn = dict(d.changes).get("turn")
    if turn == "queries":
        return pad
    if turn in ("heads", "heads-first"):
        return heads > 1 and batch > 1
    return True


def _not_finite(judge: Judge, base: Base, output: Array, silent: MaskAnswer) -> MaskAnswer:
    """The answer for a mask that gives NaN or infinity though it leaves every row some keys."""
    faults: tuple[str, ...] = ()
    meaning = None
    if np.isnan(output).mean() > 0.5 and judge.subject.source.line(PRODUCT_WITH_INFINITY):
        faults = ("mask-nan",)
    elif filled_after_softmax(judge):
        faults = ("mask-after-softmax",)
    elif base.best is not None and base.best.steps.get("axis", "keys") != "keys":
        meaning = None if silent.given is None else meaning_by_rows(judge, base, silent.given)
        if meaning is not None and silent.stated in ("keep", "drop") and meaning != silent.stated:
            faults = ("mask-inverted",)
    return replace(silent, meaning=meaning, faults=faults, error_of_right=np.inf, note="not-finite")


@dataclass(frozen=True)
class RuleAnswer:
    """What asking for causality, or for a window, did."""

    parameter: str
    explanation: Explanation | None
    faults: tuple[str, ...]
    error_of_right: float
    given: Mapping[str, Any]


def rule_answer(judge: Judge, base: Base) -> RuleAnswer | None:
    """What the parameters ``causal`` and ``window`` do when they are given."""
    causal, window = judge.subject.role("causal"), judge.subject.role("window")
    if causal is None and window is None:
        return None
    given: dict[str, Any] = {}
    if causal is not None:
        given[causal.name] = True
    if window is not None:
        given[window.name] = judge.window()
    called = judge.call(base.setup, {**base.fixed, **given})
    if called is None or base.best is None:
        return None
    output, _ = called
    if output.shape != base.observed.shape:
        return None
    fixed = tuple(d for d in base.best.deviations if "rule" not in d.steps)
    case = base.setup.case
    if np.isfinite(output).mean() < 0.5:
        faults: tuple[str, ...] = ()
        if judge.subject.source.line(PRODUCT_WITH_INFINITY) and np.isnan(output).mean() > 0.5:
            faults = ("mask-nan",)
        elif filled_after_softmax(judge):
            faults = ("mask-after-softmax",)
        return RuleAnswer("causal", None, faults, np.inf, given)
    fits = explain(
        [(case, judge.far(base.setup, output))],
        rule_deviations(case, window=window is not None, code=judge.subject.source.joined),
        base=fixed, tolerance=base.tolerance, most=1,
    )  # fmt: skip
    if not fits:
        return RuleAnswer("causal", None, (), np.inf, given)
    best = fits[0]
    faults = tuple(f for d in best.deviations if d not in fixed for f in d.faults)
    if best.steps.get("rule", "none") == "none":
        faults = ("causal-missing",) if causal is not None else ()
    faults = window_faults(judge, best, faults)
    return RuleAnswer("causal" if causal is not None else "window", best, faults, 1.0, given)


def window_faults(judge: Judge, best: Explanation, faults: tuple[str, ...]) -> tuple[str, ...]:
    """The same faults, where the prose may count the window without the query's own key."""
    rule = best.steps.get("rule")
    if rule in ("window", "window-one-more") and stated_window(judge.subject.source) == "before":
        rest = tuple(f for f in faults if f != "window-off-by-one")
        return rest if rule == "window-one-more" else (*rest, "window-off-by-one")
    return faults
