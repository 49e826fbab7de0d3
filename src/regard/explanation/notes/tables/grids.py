"""Matrices that a note draws with bars: ``Q = | 1 0 |``, row below row, perhaps two side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from regard.explanation.notes.mathematics.algebra import Names

_ROW = re.compile(
    r"(?P<name>[A-Za-z]\w*(?:\^?T|ᵀ)?)?\s*(?:=\s*)?[|\[⎡⎢⎣(]\s*(?P<row>-?[\d.]+(?:[ ,]+-?[\d.]+)*)\s*[|\]⎤⎥⎦)]"
)
_LINE = re.compile(rf"\s*(?:{_ROW.pattern.replace('?P<name>', '').replace('?P<row>', '')}\s*)+")


@dataclass
class Grid:
    """One matrix, where its rows stand, and what it is called."""

    name: str
    start: int
    lines: list[int] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)


def grids(first: int, text: str) -> list[Grid]:
    """The matrices of a block whose first line is line ``first``; none where it holds other lines."""
    if len(re.findall(r"=\s*\[\[", text.strip().split("\n")[0])) > 1:  # side by side
        text = text.replace("[[", " [").replace("]]", "] ").replace("],", "] ")
    done: list[Grid] = []
    open_: list[Grid] = []
    for offset, line in enumerate(text.split("\n")):
        if not line.strip():
            open_ = []
            continue
        if not _LINE.fullmatch(line):
            return []
        for match in _ROW.finditer(line):
            row = re.split(r"[ ,]+", match["row"].strip())
            start = match.start("row")
            grid = next(
                (
                    each
                    for each in open_
                    if abs(each.start - start) <= 3
                    and len(each.rows[0]) == len(row)
                    and not match["name"]
                ),
                None,
            )
            if grid is None:
                grid = Grid(match["name"] or "", start)
                done.append(grid)
                open_ = [each for each in open_ if abs(each.start - start) > 3] + [grid]
            grid.rows.append(row)
            grid.lines.append(first + offset)
    return done


def remember(found: list[Grid], names: Names) -> None:
    """From here on, each name is its matrix."""
    for grid in found:
        if grid.name and len({len(row) for row in grid.rows}) == 1:
            names.tell(
                grid.name, np.array([[float(number) for number in row] for row in grid.rows])
            )
