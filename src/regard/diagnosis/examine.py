"""The whole examination of one subject: called, explained, masked, and taken through the rounds.

``examine`` runs in the child process and returns plain data; nobody's words are in it yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard.diagnosis import caching, chances, encodings, rounds
from regard.diagnosis import subject as subjects
from regard.diagnosis.against import SAME, compared
from regard.diagnosis.building import build, load_file
from regard.diagnosis.failure import Failure
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.lines import line_of, mend_of
from regard.diagnosis.masks import MaskAnswer, RuleAnswer, answer, rule_answer, window_faults
from regard.diagnosis.naming import elsewhere, named, rotates
from regard.diagnosis.reference import compute
from regard.diagnosis.roles import known_parameter
from regard.diagnosis.source import Source, read, source_of
from regard.diagnosis.subject import Refused, Sizes, Subject


@dataclass
class Found:
    """One fault or risk as plain data."""

    id: str
    risk: bool
    key: str
    values: dict[str, Any]
    error_with_fault: float
    error_of_right: float
    line: int | None = None
    code: str = ""
    mend: str | None = None


@dataclass
class Outcome:
    """What an examination came to, as plain data."""

    verdict: str
    name: str
    found: list[Found] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    undetermined: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    how: dict[str, Any] = field(default_factory=dict)
    file: str = ""


LONGEST = 64
"""No probe is longer, however wide a window is."""


def examine(thing: Any, said: Mapping[str, Any]) -> Outcome:
    """Examines a callable, class or instance; or ``(path, name)`` of one in a file."""
    file = ""
    subjects.START = said.get("seed", 0)
    if isinstance(thing, tuple):
        path, name = Path(thing[0]), thing[1]
        file = str(path)
        try:
            thing, source = load_file(path, name)
        except Refused as refused:
            return Outcome(
                "unknown", name, undetermined=[(refused.key, dict(refused.values))], file=file
            )
        except Exception as error:  # whatever somebody's file may raise
            return Outcome(
                "error",
                name,
                undetermined=[("check.file-raises", {"error": _short(error)})],
                file=file,
            )
    else:
        source = source_of(thing)
        name = getattr(thing, "__name__", type(thing).__name__)
    encoding = encodings.examine(thing, source, said, name)
    if encoding is not None:
        outcome = Outcome(
            encoding.verdict, name, choices=encoding.choices, undetermined=encoding.undetermined,
            how=encoding.how, file=file,
        )  # fmt: skip
        for fault, risk, key, values, with_, right in encoding.faults:
            _add(outcome, source, fault, risk, key, values, with_, right)
        return outcome
    try:
        subject = build(thing, source, said.get("init"), Sizes())
    except Refused as refused:
        return Outcome(
            "unknown", name, undetermined=[(refused.key, dict(refused.values))], file=file
        )
    except Exception as error:  # whatever somebody's constructor may raise
        return Outcome(
            "unknown",
            name,
            undetermined=[("check.init-raises", {"name": name, "error": _short(error)})],
            file=file,
        )
    outcome = _attention(subject, said)
    outcome.file = file
    return outcome


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".split("\n")[0][:300]


def _add(
    outcome: Outcome, source: Source, fault: str, risk: bool, key: str, values: Mapping[str, Any],
    error_with: float, error_of_right: float,
) -> None:  # fmt: skip
    if any(f.id == fault for f in outcome.found):
        return
    line = line_of(source, fault)
    outcome.found.append(
        Found(fault, risk, key, dict(values), float(error_with), float(error_of_right), line,
              source.at(line), mend_of(source, fault, line))
    )  # fmt: skip


def _hit(outcome: Outcome, source: Source, hit: rounds.Hit) -> None:
    _add(
        outcome,
        source,
        hit.fault,
        hit.risk,
        hit.key,
        hit.values,
        hit.error_with,
        hit.error_of_right,
    )


def _attention(subject: Subject, said: Mapping[str, Any]) -> Outcome:
    judge = Judge(subject, said)
    outcome = Outcome("right", subject.name)
    length = min(max(5, (judge.window() or 0) + 2), LONGEST)
    base = judge.base(seed=said.get("seed", 0), queries=length, keys=length)
    if base is None:
        return _uncalled(judge, outcome)
    outcome.how = _how(judge, base)
    if base.best is None:
        outcome = _unexplained(judge, base, outcome)
    else:
        _name_base(judge, base, outcome)
        _name_masks(judge, base, outcome)
        _verdict(outcome)
    if said.get("against") is not None:
        _against(judge, base, outcome, said["against"])
    return outcome


def _against(judge: Judge, base: Base, outcome: Outcome, other: Any) -> None:
    """What a comparison with another implementation changes: it is the law."""
    name, error = compared(judge, base, other)
    if isinstance(error, str):
        outcome.undetermined.append(("check.against-fails", {"name": name, "error": error}))
        outcome.verdict = "unknown" if outcome.verdict != "wrong" else "wrong"
    elif error > SAME:
        values = {"name": name, "error": f"{error:.2g}"}
        outcome.undetermined.append(("check.against-differs", values))
        outcome.verdict = "wrong"
    else:
        outcome.found = [f for f in outcome.found if f.risk]
        outcome.undetermined = []
        outcome.verdict = "right"


def _verdict(outcome: Outcome) -> None:
    if any(not f.risk for f in outcome.found):
        outcome.verdict = "wrong"
    elif outcome.choices:
        outcome.verdict = "different"


def _how(judge: Judge, base: Base) -> dict[str, Any]:
    subject = judge.subject
    case = base.setup.case
    given = {k: v for k, v in subject.given.items() if isinstance(v, int | float | str | bool)}
    call = []
    for p in subject.parameters:
        if p.name in base.setup.names.values():
            shape = base.setup.arguments[p.name].shape
            call.append(f"{p.name}: {'×'.join(map(str, shape))}")
        elif p.name in base.setup.arguments or p.name in base.fixed:
            value = {**base.setup.arguments, **base.fixed}[p.name]
            call.append(
                f"{p.name}: {_shape_of(value)}" if _shape_of(value) else f"{p.name}={value}"
            )
    return {
        "layout": base.setup.layout, "form": base.setup.form, "init": given, "call": ", ".join(call),
        "heads": case.heads, "library": subject.library, "dtype": subject.dtype,
    }  # fmt: skip


def _shape_of(value: Any) -> str:
    """The shape of an array, or of each of several; empty for a plain value."""
    if hasattr(value, "shape"):
        return "×".join(map(str, value.shape)) or "1"
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        shapes = [_shape_of(v) for v in value]
        return ", ".join(dict.fromkeys(shapes)) if all(shapes) else ""
    return ""


_SHAPES = re.compile(
    r"shape|size|dimension|broadcast|mat1|mat2|matmul|einsum|operand|align|multiply|inhomogeneous|unpack",
    re.IGNORECASE,
)


def _uncalled(judge: Judge, outcome: Outcome) -> Outcome:
    failures = judge.failures
    if not failures:
        outcome.verdict = "unknown"
        names = ", ".join(p.name for p in judge.subject.parameters)
        outcome.undetermined.append(("check.no-call", {"names": names}))
        return outcome
    first: Failure = failures[0]
    outcome.verdict = "error" if _SHAPES.search(first.text) else "unknown"
    key = "check.shapes" if outcome.verdict == "error" else "check.call-raises"
    line = first.line or 0
    outcome.undetermined.append(
        (
            key,
            {
                "line": line,
                "code": judge.subject.source.at(first.line),
                "shapes": first.shapes or "–",
                "error": first.text,
            },
        )
    )
    flat = re.findall(r"(\w[\w.]*) \((\d+),\)", first.shapes)
    for name, size in flat:
        root = round(int(size) ** 0.5)
        if root * root == int(size) and root > 1:
            outcome.undetermined.append(
                ("check.flat-weights", {"name": name, "size": size, "n": root})
            )
    if first.setup is not None:
        outcome.how = {
            "layout": first.setup.layout,
            "form": first.setup.form,
            "call": "",
            "init": {},
        }
    return outcome


def _inner(judge: Judge, said: Mapping[str, Any]) -> Outcome | None:
    """The outcome of the attention inside a block, where that is faulty."""
    owner = judge.subject.owner
    if not hasattr(owner, "named_children"):
        return None
    for name, child in owner.named_children():
        kind = type(child)
        if not re.search(r"attention|attn|mha|head", f"{name} {kind.__name__}", re.IGNORECASE):
            continue
        if kind.__module__.startswith("torch.") or not hasattr(child, "forward"):
            continue
        source = read(judge.subject.source.text, kind.__name__)
        try:
            subject = build(child, source if source.spans else source_of(kind), None, Sizes())
        except Exception:  # whatever somebody's code may raise
            continue
        inner = _attention(subject, {**said, "init": None})
        if inner.verdict == "wrong":
            inner.name = f"{judge.subject.name}.{name}"
            return inner
    return None


def _unexplained(judge: Judge, base: Base, outcome: Outcome) -> Outcome:
    source = judge.subject.source
    inner = _inner(judge, judge.said)
    if inner is not None:
        return inner
    from regard.diagnosis.masks import PRODUCT_WITH_INFINITY

    outcome.verdict = "unknown"
    if np.isnan(base.observed).mean() > 0.5 and source.line(PRODUCT_WITH_INFINITY):
        _add(outcome, source, "mask-nan", False, "check.evidence-nan", {}, 0.0, np.inf)
    for hit in chances.drops(judge, base):
        _hit(outcome, source, hit)
    if any(not f.risk for f in outcome.found):
        outcome.verdict = "wrong"
    outcome.undetermined.append(("check.no-hypothesis", {}))
    return outcome


def _name_base(judge: Judge, base: Base, outcome: Outcome) -> None:
    source, best = judge.subject.source, base.best
    assert best is not None
    far = judge.far(base.setup, base.observed)
    chosen = {s: v for d in best.deviations if not d.faults for s, v in d.changes}
    right = far(compute(base.setup.case, chosen))
    faults = window_faults(judge, best, named(judge, base))
    for fault in faults:
        _add(outcome, source, fault, False, "check.evidence-reproduced", {}, best.error, right)
    found = judge.found
    case = base.setup.case
    weighted = any(w.q is not None for w in case.weights)
    if (
        weighted
        and case.heads > 1
        and all(w.o is None for w in case.weights)
        and not elsewhere(judge)
    ):
        _add(
            outcome,
            source,
            "output-projection-missing",
            False,
            "check.evidence-no-output",
            {"heads": case.heads},
            best.error,
            1.0,
        )
    if found.shared:
        _add(
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
        _add(
            outcome, source, "rotary-axis", False, "check.evidence-no-rotation", {}, best.error, 1.0
        )
    hit = chances.no_gradient(judge, base)
    if hit is not None:
        _hit(outcome, source, hit)
    outcome.choices += [
        n for n in best.notes if n in _CHOICES and not (n == "rescaled" and judge.random)
    ]
    outcome.how["rule"] = best.steps.get("rule", "none")


_CHOICES = {"pre", "pre-residual", "post", "residual", "heads-last", "unscaled", "rescaled"}


def _name_masks(judge: Judge, base: Base, outcome: Outcome) -> None:
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
            _hits(judge, outcome, [rounds.half_refused(judge)])
            continue
        if found.faults == ("mask-ignored",) and not known_parameter(p.name):
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
        hits += [rounds.empty_row(judge, base, usable), rounds.weak_fill(judge, base, usable)]
    if usable is not None or masked is None:
        hits += rounds.half(judge, base, usable, given)
    _hits(judge, outcome, hits)


def _hits(judge: Judge, outcome: Outcome, hits: Sequence[rounds.Hit | None]) -> None:
    for hit in hits:
        if hit is not None:
            _hit(outcome, judge.subject.source, hit)


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
        _add(outcome, judge.subject.source, fault, False, key, {}, error, rule.error_of_right)
    if rule.explanation is None and not rule.faults:
        outcome.undetermined.append(("check.rule-unexplained", {"parameter": rule.parameter}))


def _name_mask(judge: Judge, found: MaskAnswer, outcome: Outcome) -> None:
    error = found.explanation.error if found.explanation is not None else np.inf
    values = {"meaning": found.meaning or "", "stated": found.stated or ""}
    for fault in found.faults:
        key = _EVIDENCE.get(fault, "check.evidence-reproduced")
        told = values if fault == "mask-inverted" else {}
        _add(outcome, judge.subject.source, fault, False, key, told, error, found.error_of_right)
    if found.explanation is None and not found.faults:
        outcome.undetermined.append(("check.mask-unexplained", {"parameter": found.parameter}))


def _missing_causality(judge: Judge, base: Base, outcome: Outcome, rule: RuleAnswer | None) -> None:
    best = base.best
    assert best is not None
    if not judge.causal or rule is not None or base.setup.form == "cross":
        return
    if best.steps.get("rule", "none") != "none":
        return
    if judge.subject.role("mask", "pad") is not None and not judge.said.get("causal"):
        return
    far = judge.far(base.setup, base.observed)
    right = far(compute(base.setup.case, {**best.steps, "rule": "causal"}))
    _add(
        outcome,
        judge.subject.source,
        "causal-missing",
        False,
        "check.evidence-causal-missing",
        {},
        best.error,
        right,
    )
