"""A table's rows of numbers, columns of vectors and columns of numbers, as what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.digits.worked import (
    Claim,
    check_claims,
    holds,
    kinds_of,
    position_of,
    row_of,
)
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import literal, parsed
from regard.explanation.sheet import Floats

_TEMPERATURE = "t tau temperature 温度"


@dataclass(frozen=True)
class Row:
    """A row of a table: its cells, and the word or the position that it is of."""

    line: int
    cells: list[str]
    told: list[tuple[Floats, Floats] | None]
    place: int
    position: int | None

    def claim(self, first: int, words: str) -> Claim | None:
        """Its numbers as a list."""
        cells = [(self.line, each) for each in self.told[first:]]
        place = self.place if first else None
        if not first and len(cells) < 3:
            return None
        return _listed(cells, words, place, self.position)

    def vector(self, column: int, words: str) -> Claim | None:
        """The vector in one of its cells."""
        told = self.told[column] if column < len(self.told) else None
        if told is None or told[0].ndim != 1 or told[0].size < 2:
            return None
        first = self.told[0]
        before = first[0] if first is not None and first[0].shape == told[0].shape else None
        return Claim(
            self.line, self.cells[column], *told, words, self.place, self.position, before=before
        )


def check_worked(head: list[str], rows: list[tuple[int, list[str]]], names: Names) -> list[Verdict]:
    """A verdict for each list of a table that is what comes next, or nearly is."""
    read = [_read(place, line, cells, names) for place, (line, cells) in enumerate(rows)]
    labelled = any(not row.told or row.told[0] is None or row.told[0][1].max() >= 1 for row in read)
    found: list[Verdict] = []
    if holds(_TEMPERATURE, head[0]):
        found = [v for row in read for v in _warmed(row, names)]
    else:
        found = check_claims([*_some(row.claim(labelled, names.speaking) for row in read)], names)
    for column, title in enumerate(head[1:], 1):
        found += check_claims([*_some(row.vector(column, f"{title} =") for row in read)], names)
    for column, title in enumerate(head) if not found else ():
        cells = [(row.line, row.told[column]) for row in read if column < len(row.told)]
        claim = _listed(cells, title)
        if claim is not None:
            found += check_claims([claim], names) if column and kinds_of(title) else []
            names.lists = [claim.numbers, *names.lists][:8]
    whole = [each.numbers for each in _some(row.claim(1, "") for row in read)]
    if len(whole) == len(read) > 1 and len({each.size for each in whole}) == 1:
        names.values["_table"] = np.stack(whole)
    return found


def _read(place: int, line: int, cells: list[str], names: Names) -> Row:
    told = [literal(parsed(plain(cell)) or ("name", "")) for cell in cells]
    row = row_of(cells[0], names)
    return Row(line, cells, told, place if row is None else row, position_of(cells[0]))


def _warmed(row: Row, names: Names) -> list[Verdict]:
    """The verdicts of a row of weights at the temperature that it begins with."""
    before = names.values.get("T")
    if row.told[0] is not None:
        names.values["T"] = row.told[0][0]
    found = check_claims([*_some([row.claim(1, names.speaking)])], names)
    if before is None:
        names.values.pop("T", None)
    else:
        names.values["T"] = before
    return found


def _some(claims: Iterator[Claim | None] | list[Claim | None]) -> Iterator[Claim]:
    return (claim for claim in claims if claim is not None)


def _listed(
    cells: list[tuple[int, tuple[Floats, Floats] | None]],
    words: str,
    place: int | None = None,
    position: int | None = None,
) -> Claim | None:
    """Cells that hold one number each, as a list."""
    told = [each for _, each in cells if each is not None and not each[0].ndim]
    if len(cells) < 2 or len(told) < len(cells):
        return None
    numbers, units = (np.array([float(each[i]) for each in told]) for i in (0, 1))
    units[units >= 1] = units.min()
    lines = tuple(line for line, _ in cells)
    said = ", ".join(f"{number:g}" for number in numbers)
    return Claim(lines[0], said, numbers, units, words, place, position, lines=lines)
