"""The whole examination of one subject: called, explained, masked, and taken through the rounds.

``examine`` runs in the child process and returns plain data; nobody's words are in it yet.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from regard.diagnosis import chances, encodings
from regard.diagnosis import subject as subjects
from regard.diagnosis.against import SAME, compared
from regard.diagnosis.building import build, load_file
from regard.diagnosis.departure import first_departure
from regard.diagnosis.failure import Failure
from regard.diagnosis.finding import find_base
from regard.diagnosis.findings import name_base, name_masks
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.outcome import Outcome, add, add_hit
from regard.diagnosis.roles import size_role
from regard.diagnosis.source import read, source_of
from regard.diagnosis.subject import Refused, Sizes, Subject

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
            add(outcome, source, fault, risk, key, values, with_, right)
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


def _attention(subject: Subject, said: Mapping[str, Any]) -> Outcome:
    judge = Judge(subject, said)
    outcome = Outcome("right", subject.name)
    length = _length(judge)
    base = find_base(judge, seed=said.get("seed", 0), queries=length, keys=length)
    if base is None:
        return _uncalled(judge, outcome)
    outcome.how = _how(judge, base)
    if base.best is None:
        outcome = _unexplained(judge, base, outcome)
    else:
        name_base(judge, base, outcome)
        name_masks(judge, base, outcome)
        _verdict(outcome)
    if said.get("against") is not None:
        _against(judge, base, outcome, said["against"])
    return outcome


def _length(judge: Judge) -> int:
    """The number of tokens of the first probe: longer than a window, and like no other size."""
    fixed = _fixed_length(judge.subject.owner)
    if fixed is not None:
        return fixed
    length = min(max(5, (judge.window() or 0) + 2), LONGEST)
    if any(size_role(name) == "exact_length" for name in judge.subject.given):
        return length
    found = judge.found
    first = found.readings[0]
    widths = {w.w.shape[1] // found.heads for w in (first.q, first.v) if w is not None}
    taken = {found.heads, found.groups, found.width_in, *widths}
    return next(n for n in range(length, length + len(taken) + 1) if n not in taken)


def _fixed_length(owner: Any) -> int | None:
    """The number of tokens that a table of pairs of positions (T, T) asks for."""
    for name, buffer in owner.named_buffers() if hasattr(owner, "named_buffers") else ():
        square = buffer.ndim == 2 and buffer.shape[0] == buffer.shape[1]
        if square and re.search(r"index|idx", name) and not buffer.is_floating_point():
            return min(int(buffer.shape[0]), LONGEST)
    return None


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
        "layout": base.setup.layout, "form": base.setup.form, "init": given,
        "call": ", ".join(call),
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
    r"shape|size|dimension|broadcast|mat1|mat2|matmul|einsum|operand|align|multiply|"
    r"inhomogeneous|unpack",
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
    from regard.diagnosis.fills import PRODUCT_WITH_INFINITY

    outcome.verdict = "unknown"
    if np.isnan(base.observed).mean() > 0.5 and source.line(PRODUCT_WITH_INFINITY):
        add(outcome, source, "mask-nan", False, "check.evidence-nan", {}, 0.0, np.inf)
    for hit in chances.drops(judge, base):
        add_hit(outcome, source, hit)
    if any(not f.risk for f in outcome.found):
        outcome.verdict = "wrong"
    outcome.undetermined.append(("check.no-hypothesis", {}))
    step = first_departure(judge, base)
    if step is not None:
        outcome.undetermined.append((f"check.departs-at-{step}", {}))
    return outcome
