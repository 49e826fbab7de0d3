"""What a fact-check says of one claim, and of a whole note."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from regard._words import Language, say

Status = Literal["right", "wrong", "unknown"]


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

    def text(self, lang: Language = "en") -> str:
        """The report in lines, wrong claims with the right value."""
        marks = {"right": "✓", "wrong": "✗", "unknown": "?"}
        lines = []
        for verdict in self.verdicts:
            place = say("note.line", lang, line=verdict.line)
            lines.append(f"{marks[verdict.status]} {place}  {verdict.claim}")
            if verdict.status != "right":
                lines.append(f"    {verdict.say(lang)}")
        counts = {status: len(self.of(status)) for status in ("right", "wrong", "unknown")}
        lines += ["", say("note.summary", lang, **counts)]
        return "\n".join(lines) + "\n"
