"""What a fact-check says of one claim, and of a whole note."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from regard._words import Language, say

Status = Literal["right", "wrong", "unknown"]
MARKS: dict[Status, str] = {"right": "✓", "wrong": "✗", "unknown": "?"}


@dataclass(frozen=True)
class Verdict:
    """One claim of a note: where it stands, what it says and what is so."""

    line: int
    claim: str
    status: Status
    key: str
    """The catalogue's name of what is said of it."""
    values: dict[str, str] = field(default_factory=dict)
    """Among them ``right``, the right value of a wrong claim."""
    row: int = 0
    """The first row that is wrong, where what is written has several."""

    def say(self, lang: Language) -> str:
        """What is said of the claim."""
        return say(self.key, lang, **self.values)

    def json(self, lang: Language) -> dict[str, Any]:
        """The verdict as plain values."""
        return {
            "line": self.line,
            "claim": self.claim,
            "status": self.status,
            "right": self.values.get("right"),
            "kind": self.key.partition(".")[2],
            "says": self.say(lang),
        }


@dataclass(frozen=True)
class FactCheck:
    """Every claim of a note that was looked at, by line."""

    verdicts: tuple[Verdict, ...]
    note: str = ""
    """What was checked."""

    def line(self, number: int) -> str:
        """A line of the note; the first is 1."""
        return self.note.splitlines()[number - 1]

    def of(self, status: Status) -> list[Verdict]:
        """The claims that are right, wrong or not understood."""
        return [verdict for verdict in self.verdicts if verdict.status == status]

    def json(self, lang: Language = "en") -> dict[str, Any]:
        """The report as plain values."""
        return {
            "right": len(self.of("right")),
            "wrong": len(self.of("wrong")),
            "unknown": len(self.of("unknown")),
            "claims": [verdict.json(lang) for verdict in self.verdicts],
        }

    def summary(self, lang: Language = "en") -> str:
        """How many claims are right, wrong and not understood."""
        return say("note.summary", lang, **{status: len(self.of(status)) for status in MARKS})

    def text(self, lang: Language = "en") -> str:
        """The report in lines, wrong claims with the right value."""
        lines = []
        for verdict in self.verdicts:
            place = say("note.line", lang, line=verdict.line)
            lines.append(f"{MARKS[verdict.status]} {place}  {verdict.claim}")
            if verdict.status != "right":
                lines.append(f"    {verdict.say(lang)}")
        return "\n".join([*lines, "", self.summary(lang)]) + "\n"

    def save(self, path: str | Path, lang: Language = "en") -> None:
        """Writes the report: the marked note (.html), what is wrong (.md), or all of it (.json)."""
        from regard.explanation.faces import marked

        marked.save(self, path, lang)
