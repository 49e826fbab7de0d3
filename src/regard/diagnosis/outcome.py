"""What an examination came to, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from regard.diagnosis.lines import line_of, mend_of
from regard.diagnosis.rounds import Hit
from regard.diagnosis.source import Source


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


def add(
    outcome: Outcome, source: Source, fault: str, risk: bool, key: str, values: Mapping[str, Any],
    error_with: float, error_of_right: float,
) -> None:  # fmt: skip
    """Takes a fault or risk in, once, with its line and mend."""
    if any(f.id == fault for f in outcome.found):
        return
    line = line_of(source, fault)
    outcome.found.append(
        Found(fault, risk, key, dict(values), float(error_with), float(error_of_right), line,
              source.at(line), mend_of(source, fault, line))
    )  # fmt: skip


def add_hit(outcome: Outcome, source: Source, hit: Hit) -> None:
    """Takes in what a round has found."""
    add(
        outcome,
        source,
        hit.fault,
        hit.risk,
        hit.key,
        hit.values,
        hit.error_with,
        hit.error_of_right,
    )


def add_hits(outcome: Outcome, source: Source, hits: Sequence[Hit | None]) -> None:
    """Takes in what rounds have found."""
    for hit in hits:
        if hit is not None:
            add_hit(outcome, source, hit)
