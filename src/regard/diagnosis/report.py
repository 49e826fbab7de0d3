"""What a check found, as values: to read, to print, to send as JSON, to show in a notebook."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from typing import Any, Literal

from regard._words import Language, say
from regard.diagnosis.examples import Example, example
from regard.diagnosis.outcome import Found, Outcome

Verdict = Literal["right", "different", "wrong", "unknown", "error"]


@dataclass(frozen=True)
class Finding:
    """One fault or risk of a subject, told in one language."""

    id: str
    says: str
    expected: str
    why: str
    evidence: str
    error_with_fault: float
    error_of_right: float
    line: int | None
    code: str
    mend: str
    """The changed line where a change of a few letters mends it, else what to do."""
    mended: bool
    """Whether ``mend`` is a line of code."""
    example: Example

    def json(self) -> dict[str, Any]:
        """The finding as JSON has it."""
        return {
            "id": self.id,
            "says": self.says,
            "evidence": self.evidence,
            "error_with_fault": _number(self.error_with_fault),
            "error_of_right": _number(self.error_of_right),
            "line": self.line,
            "mend": self.mend,
            "example": {
                "shows": self.example.shown,
                "right": _numbers(self.example.right),
                "came": _numbers(self.example.came),
            },
        }


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _numbers(array: Any) -> list[list[float | None]]:
    return [[_number(round(float(x), 4)) for x in row] for row in array]


@dataclass(frozen=True)
class Report:
    """The outcome of ``regard.check``.

    ``verdict`` is right, different (right, with choices of its own), wrong, unknown or error;
    ``bool(report)`` is True for the first two.
    """

    name: str
    verdict: Verdict
    faults: tuple[Finding, ...]
    risks: tuple[Finding, ...]
    choices: tuple[str, ...]
    undetermined: tuple[str, ...]
    how_called: str
    file: str
    lang: Language

    def __bool__(self) -> bool:
        return self.verdict in ("right", "different")

    def json(self) -> dict[str, Any]:
        """The report as plain values, ready for ``json.dumps``."""
        return {
            "verdict": self.verdict,
            "faults": [f.json() for f in self.faults],
            "risks": [f.json() for f in self.risks],
            "undetermined": list(self.undetermined),
            "choices": list(self.choices),
            "how_called": self.how_called,
        }

    @property
    def title(self) -> str:
        """The name and the verdict."""
        verdict = say(f"check.verdict-{self.verdict}", self.lang)
        return say("check.title", self.lang, name=self.name, verdict=verdict)

    def __str__(self) -> str:
        lines = [self.title, self.how_called]
        for kind, findings in (("check.fault", self.faults), ("check.risk", self.risks)):
            for f in findings:
                lines.append(f"{say(kind, self.lang)} {f.id}{self.place(f)}: {f.says}")
                lines.append(f"  {say('check.mend', self.lang)}: {f.mend}")
        lines += [f"  {text}" for text in (*self.choices, *self.undetermined)]
        return "\n".join(line for line in lines if line)

    def place(self, finding: Finding) -> str:
        """Where a finding stands, with a space before it; empty where nobody knows."""
        if finding.line is None:
            return ""
        return " (" + say("check.line", self.lang, line=finding.line) + ")"

    def _repr_html_(self) -> str:
        """The report in a notebook."""
        parts = [f"<h3>{html.escape(self.title)}</h3>", f"<p>{html.escape(self.how_called)}</p>"]
        for kind, findings in (("check.fault", self.faults), ("check.risk", self.risks)):
            for f in findings:
                parts.append(self._finding_html(kind, f))
        notes = [*self.choices, *self.undetermined]
        if notes:
            parts.append("<ul>" + "".join(f"<li>{html.escape(n)}</li>" for n in notes) + "</ul>")
        return '<div class="regard-check">' + "".join(parts) + "</div>"

    def _finding_html(self, kind: str, f: Finding) -> str:
        rows = [
            ("check.came", html.escape(f.says)),
            ("check.expected", html.escape(f.expected)),
            ("check.why", html.escape(f.why)),
            ("check.evidence", html.escape(f.evidence)),
        ]
        if f.code:
            rows.append(("check.line", f"<code>{html.escape(f.code)}</code>"))
        mend = f"<code>{html.escape(f.mend)}</code>" if f.mended else html.escape(f.mend)
        rows.append(("check.mend", mend))
        table = "".join(
            f"<tr><th style='text-align:left'>{html.escape(say(key, self.lang, line=f.line))}</th>"
            f"<td style='text-align:left'>{text}</td></tr>"
            for key, text in rows
        )
        head = f"{say(kind, self.lang)}: {f.id}{self.place(f)}"
        matrices = "".join(
            f"<td>{html.escape(say(key, self.lang))}{_matrix_html(m)}</td>"
            for key, m in (("check.expected", f.example.right), ("check.came", f.example.came))
        )
        return (
            f"<h4>{html.escape(head)}</h4><table>{table}</table>"
            f"<p>{html.escape(say('check.picture', self.lang))}</p>"
            f"<table><tr>{matrices}</tr></table>"
        )


def _matrix_html(matrix: Any) -> str:
    rows = "".join("<tr>" + "".join(f"<td>{x:.2f}</td>" for x in row) + "</tr>" for row in matrix)
    return f"<table>{rows}</table>"


def report_of(outcome: Outcome, lang: Language) -> Report:
    """An outcome told in ``lang``."""
    findings = [(f.risk, _finding(f, lang)) for f in outcome.found]
    choices = [say(f"check.choice-{c}", lang) for c in outcome.choices]
    undetermined = [say(key, lang, **values) for key, values in outcome.undetermined]
    return Report(
        outcome.name,
        outcome.verdict,  # type: ignore[arg-type]
        tuple(f for risk, f in findings if not risk),
        tuple(f for risk, f in findings if risk),
        tuple(choices),
        tuple(undetermined),
        _how(outcome.how, lang),
        outcome.file,
        lang,
    )


def _finding(f: Found, lang: Language) -> Finding:
    values = dict(f.values)
    for name in ("meaning", "stated"):
        if values.get(name) in ("keep", "drop", "additive"):
            values[name] = say(f"check.meaning-{values[name]}", lang)
    values.update(
        error=values.get("error", f"{f.error_with_fault:.1g}"), right=f"{f.error_of_right:.2g}"
    )
    return Finding(
        f.id,
        say(f"fault.{f.id}-says", lang),
        say(f"fault.{f.id}-right", lang),
        say(f"fault.{f.id}-why", lang),
        say(f.key, lang, **values).rstrip(),
        f.error_with_fault,
        f.error_of_right,
        f.line,
        f.code,
        f.mend or say(f"fault.{f.id}-mend", lang),
        f.mend is not None,
        example(f.id),
    )


def _how(how: dict[str, Any], lang: Language) -> str:
    if not how:
        return ""
    parts = []
    if how.get("init"):
        init = ", ".join(f"{k}={v!r}" for k, v in how["init"].items())
        parts.append(say("check.how-built", lang, init=init))
    if how.get("call"):
        parts.append(say("check.how", lang, call=how["call"]))
    if how.get("layout", "").isupper() or how.get("layout", "").startswith("..."):
        parts.append(say("check.how-layout", lang, layout=how["layout"]))
    for parameter, meaning in how.get("mask", {}).items():
        told = say(f"check.meaning-{meaning}", lang)
        parts.append(say("check.how-mask", lang, parameter=parameter, meaning=told))
    if how.get("rule") == "causal":
        parts.append(say("check.how-causal", lang))
    return ("；" if lang == "zh" else "; ").join(parts)
