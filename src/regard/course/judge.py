"""Judges a reader's exercise: right, or which mistake, or the first number that departs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from regard._errors import UserError
from regard._words import Language, say
from regard.course.exercise import EXERCISES, Exercise
from regard.explanation.numbers import written
from regard.explanation.sheet import Floats

SECONDS = 60.0


@dataclass(frozen=True)
class Judgement:
    """What is said of an exercise; ``mistake`` is its id, "" where it is right or unknown."""

    right: bool
    key: str
    mistake: str = ""
    values: dict[str, str] = field(default_factory=dict)

    def say(self, lang: Language) -> str:
        """The judgement in words."""
        return say(self.key, lang, **self.values)


def judge(number: int, file: Path) -> Judgement:
    """Runs the function of ``file`` and compares what it returns with the definition."""
    exercise = EXERCISES[number]
    if not file.is_file():
        raise UserError("learn.no-file", path=file, number=number)
    results, said = _run(exercise, file)
    for problem in ("missing", "empty", "error", "slow"):
        if problem in said:
            return Judgement(
                False, f"learn.{problem}", problem,
                {"name": exercise.function, "what": said[problem], "line": said.get("line", "?")},
            )  # fmt: skip
    with np.errstate(all="ignore"):
        wanted = [exercise.right(*args) for args in exercise.rounds]
        if _same(results, wanted):
            return Judgement(True, "learn.right")
        for name, mistake in exercise.mistakes.items():
            if _same(results, [mistake(*args) for args in exercise.rounds]):
                return Judgement(False, f"learn.{name}", name)
    return _checked(exercise, file) or _first(results, wanted)


def _checked(exercise: Exercise, file: Path) -> Judgement | None:
    """What ``regard check`` says of a mistake that is none of the lesson's own, where it is."""
    if exercise.options is None:
        return None
    from regard.diagnosis.check import check

    report = check(f"{file}:{exercise.function}", **exercise.options)
    for fault in report.faults:
        values = {"id": str(fault.id), "says": str(fault.says), "mend": str(fault.mend)}
        return Judgement(False, "learn.checked", str(fault.id), values)
    return None


def _run(exercise: Exercise, file: Path) -> tuple[list[Floats], dict[str, str]]:
    with tempfile.TemporaryDirectory() as folder:
        given, taken = Path(folder) / "given.npz", Path(folder) / "taken.npz"
        arrays: dict[str, Any] = {
            f"{i}_{j}": np.asarray(value)
            for i, args in enumerate(exercise.rounds)
            for j, value in enumerate(args)
        }
        np.savez(given, **arrays)
        # By its path, and -P: nothing beside it is in the way of what the reader imports.
        runner = str(Path(__file__).with_name("runner.py"))
        command = [sys.executable, "-P", runner, str(file.resolve())]
        command += [exercise.function, exercise.library, str(given), str(taken)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False,
                cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return [], {"slow": f"{SECONDS:.0f}"}
        if not taken.exists():
            return [], {"error": (done.stderr.strip().splitlines() or ["?"])[-1]}
        with np.load(taken) as found:
            results = [found[name] for name in sorted(found.files, key=int)]
        return results, json.loads(taken.with_suffix(".json").read_text(encoding="utf-8"))


def _same(results: list[Floats], wanted: list[Floats]) -> bool:
    return len(results) == len(wanted) and all(
        a.shape == b.shape and np.allclose(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)
        for a, b in zip(results, wanted, strict=True)
    )


def _first(results: list[Floats], wanted: list[Floats]) -> Judgement:
    """The shape, or the first number, that departs."""
    for found, right in zip(results, wanted, strict=True):
        if found.shape != right.shape:
            values = {"found": str(found.shape), "right": str(right.shape)}
            return Judgement(False, "learn.shape", "shape", values)
        apart = np.argwhere(~np.isclose(found, right, rtol=1e-4, atol=1e-5))
        if len(apart):
            place = tuple(apart[0].tolist())
            values = {
                "place": ", ".join(map(str, place)),
                "found": written(float(found[place])),
                "right": written(float(right[place])),
            }
            return Judgement(False, "learn.departs", "", values)
    return Judgement(False, "learn.departs", "", {"place": "?", "found": "?", "right": "?"})
