"""What a question is: a name, numbers that may be set, and an experiment that answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

from regard.explanation.sheet import Sheet
from regard.explanation.trace import Steps, Trace

Numbers = Mapping[str, float]


class Experiment(Steps):
    """Steps over a sheet of its own, with the numbers that were set."""

    def __init__(self, name: str, numbers: Numbers) -> None:
        super().__init__(Sheet())
        self.name = name
        self.numbers = numbers

    def whole(self, name: str) -> int:
        """A number that counts something."""
        return int(self.numbers[name])

    def setting(self, name: str, kind: str, symbol: str = "") -> str:
        """A number that was set, as a table that the page can move; its name."""
        return self.sheet.given(name, [[self.numbers[name]]], symbol or name, rows="", columns=kind)

    def softmax(self, scores: str, tail: str = "", symbol: str = "A") -> str:
        """The weights of ``scores``, with what they are computed from; their name."""
        sheet, how = self.sheet, {"rows": sheet_rows(self.sheet, scores), "columns": "key"}
        sheet.add(f"largest{tail}", "largest", scores, symbol="max", rows=how["rows"], columns="")
        sheet.add(f"e{tail}", "powers", scores, f"largest{tail}", symbol="e", **how)
        sheet.add(f"total{tail}", "sum", f"e{tail}", symbol="Σ", rows=how["rows"], columns="")
        return sheet.add(
            f"A{tail}", "softmax", scores, f"e{tail}", f"total{tail}", symbol=symbol, **how
        )

    def trace(self, result: str, tokens: tuple[str, ...]) -> Trace:
        """What the experiment has found."""
        return Trace(
            self.sheet,
            tuple(self.made),
            result,
            tokens,
            title=f"ask.{self.name}",
            note=f"ask.{self.name}-answer",
        )


def sheet_rows(sheet: Sheet, name: str) -> str:
    """What the rows of a table are."""
    return sheet.tables[name].rows


@dataclass(frozen=True)
class Question:
    """A question that an experiment answers."""

    name: str
    run: Callable[[Experiment], Trace]
    numbers: Numbers
    """What may be set, with what it is unless set."""
    least: Numbers
    """The smallest that each may be."""
    most: Numbers
    """The largest, so that an experiment ends."""


def best_time(work: Callable[[], object]) -> float:
    """Seconds of the fastest of ten runs: what else the machine does only makes one slower."""
    times = []
    for _ in range(10):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return max(min(times), 1e-9)
