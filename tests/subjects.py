"""The corpora: attention as people write it, each with the faults that it has.

A corpus is a text file, because its code is not this house's: ``=== name | target | options`` and
then a file's text.  Options are ``faults=a,b``, ``risks=a,b``, ``causal``, ``mask=keep``,
``window=3``, ``layout=BTC`` and ``init={…}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from regard.diagnosis.examine import Outcome, examine
from regard.diagnosis.isolate import run

CORPUS = Path(__file__).parent / "diagnosis" / "corpus"


@dataclass(frozen=True)
class Case:
    """One implementation and what is known of it."""

    name: str
    target: str
    code: str
    faults: frozenset[str] = frozenset()
    risks: frozenset[str] = frozenset()
    said: dict[str, Any] = field(default_factory=dict)


def _case(part: str) -> Case:
    head, _, code = part.partition("\n")
    name, target, *options = (piece.strip() for piece in head.split(" | "))
    given = {key: value for key, _, value in (option.partition("=") for option in options)}
    said: dict[str, Any] = {key: given[key] for key in ("mask", "layout") if key in given}
    if "causal" in given:
        said["causal"] = True
    if "window" in given:
        said["window"] = int(given["window"])
    if "init" in given:
        said["init"] = json.loads(given["init"])
    names = (frozenset(filter(None, given.get(key, "").split(","))) for key in ("faults", "risks"))
    return Case(name, target, code, *names, said)


def corpus(name: str) -> list[Case]:
    """Every case of one corpus: right, faulty or compound."""
    text = (CORPUS / f"{name}.txt").read_text(encoding="utf-8")
    return [_case(part) for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]]


def judged(cases: Sequence[Case], folder: Path, seeds: Sequence[int] = (0,)) -> list[Outcome]:
    """The outcome of each case with each seed, many of them in one child process."""
    files = []
    for n, case in enumerate(cases):
        file = folder / f"subject_{n}.py"
        file.write_text(case.code, encoding="utf-8")
        files.append(file)

    def work() -> list[Outcome]:
        return [
            examine((file, case.target), {**case.said, "seed": seed})
            for file, case in zip(files, cases, strict=True)
            for seed in seeds
        ]

    outcomes: list[Outcome] = run(work, 600)
    return outcomes


def faults(outcome: Outcome) -> set[str]:
    """The names of an outcome's faults."""
    return {found.id for found in outcome.found if not found.risk}


def risks(outcome: Outcome) -> set[str]:
    """The names of an outcome's risks."""
    return {found.id for found in outcome.found if found.risk}


def wrong(case: Case, outcome: Outcome) -> str:
    """What is wrong with an outcome; empty where all is well."""
    verdicts = {"wrong"} if case.faults else {"right", "different"}
    if (
        faults(outcome) == case.faults
        and outcome.verdict in verdicts
        and case.risks <= risks(outcome)
    ):
        return ""
    return f"{case.name}: {outcome.verdict} {sorted(faults(outcome))}, not {sorted(case.faults)}"
