"""What every written face shares: the labels of a table, and which of its rows are shown."""

from __future__ import annotations

from dataclasses import dataclass

from regard._words import Language, say
from regard.explanation.numbers import column, grid, matrices, worked
from regard.explanation.sheet import FIXED, GIVEN, Floats, Table
from regard.explanation.trace import Step, Trace

PLAIN = ("token", "query", "key", "feature", "")
"""What rows and columns are in any trace; other kinds have their names in the catalogue."""
MOST = 12
"""Rows and columns of a matrix that are written out; what is left out is counted."""


@dataclass(frozen=True)
class Drawn:
    """One matrix, ready to be drawn."""

    symbol: str
    rows: list[str]
    columns: list[str]
    cells: list[list[str]]
    left_out: int
    shape: tuple[int, ...]


def drawn(trace: Trace, table: Table, lang: Language) -> list[Drawn]:
    """The matrices of ``table``, one a head."""
    parts = matrices(table.array)
    names = (
        [table.symbol]
        if len(parts) == 1
        else [
            f"{table.symbol} · {say('explain.head', lang, head=head + 1)}"
            for head in range(len(parts))
        ]
    )
    return [_one(trace, table, part, name, lang) for part, name in zip(parts, names, strict=True)]


def _one(trace: Trace, table: Table, part: Floats, name: str, lang: Language) -> Drawn:
    rows, columns = labels(trace, table, part.shape, lang)
    height, width = min(MOST, part.shape[0]), min(MOST, part.shape[1])
    if table.columns not in PLAIN:  # each column has a unit of its own
        by_column = [column(part[:, j]) for j in range(part.shape[1])]
        cells = [[texts[i] for texts in by_column] for i in range(height)]
    else:
        cells = grid(part[:height, :width])
    if width < part.shape[1]:
        cells = [[*row, "…"] for row in cells]
        columns = [*columns[:width], f"…{part.shape[1]}"]
    return Drawn(name, rows[:height], columns, cells, part.shape[0] - height, table.array.shape)


def labels(
    trace: Trace, table: Table, shape: tuple[int, ...], lang: Language
) -> tuple[list[str], list[str]]:
    """What the rows and the columns of a table are called."""
    return _named(trace, table.rows, shape[0], lang), _named(trace, table.columns, shape[1], lang)


def _named(trace: Trace, kind: str, count: int, lang: Language) -> list[str]:
    if kind in ("token", "query", "key"):
        return list(trace.tokens[:count])
    if kind == "feature":
        return [str(number + 1) for number in range(count)]
    named = say(f"columns.{kind}", lang).split("|") if kind not in PLAIN else []
    return named + [""] * (count - len(named))


def examples(trace: Trace, step: Step) -> list[tuple[str, str]]:
    """One number of each computed table of ``step``, worked out: (symbol[1, 1], the sum)."""
    found = []
    for table in step.tables:
        if table.name in step.shown and table.operation not in (GIVEN, FIXED):
            line = worked(trace.sheet, table.name)
            if line:
                found.append((f"{table.symbol}[1, 1]", line))
    return found


def shown_tables(trace: Trace, step: Step) -> list[Table]:
    """The tables that ``step`` draws."""
    return [trace.sheet.tables[name] for name in step.shown]


def size_of(shape: tuple[int, ...]) -> str:
    """A shape as a person writes it: ``3 × 2``."""
    return " × ".join(map(str, shape))
