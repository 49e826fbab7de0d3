"""Lines that say the same of different numbers are the rows of a table, wherever they stand.

"n = 512: 0.5 MiB" and "n = 1024: 2 MiB" below it differ in their numbers alone; so do the two parts
of "d = 64: variance 64; d = 256: variance 256".  What stands before a number is its column's head.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from regard.explanation.notes.mathematics.amounts import Amount, amounts
from regard.explanation.notes.mathematics.mathtext import plain

_MARK = re.compile(r"^\s*(?:[-*+>]|\d+[.)、]|\(\w\))\s+")
_PARTS = re.compile(r"[;；。]\s*|(?<=[^\d\s])\.\s+")
_ABOUT = re.compile(
    r"(?:约为?|大约|about|roughly|approximately|nearly|≈|=|：|:|only|就?是|为|的时候|时)\s*"
)
_FENCED = re.compile(r"^\s*(?:```|~~~)")
_FORMULA = re.compile(r"[*/^+]|(?<=\d)\s*-\s*(?=\d)|sqrt|exp\(|softmax")
FEWEST = 3
"""Lines that make a table."""


@dataclass(frozen=True)
class Row:
    """One line of a table that is written as sentences."""

    line: int
    skeleton: str
    """The text without its numbers."""
    heads: tuple[str, ...]
    cells: tuple[Amount, ...]


def written_tables(lines: Sequence[str]) -> Iterator[list[Row]]:
    """The tables that a note writes as lists or sentences."""
    rows = [*_rows(lines)]
    for _, alike in groupby(rows, key=lambda row: row.skeleton):
        table = [*alike]
        if len(table) >= FEWEST and len(table[0].cells) > 1:
            yield table


def _rows(lines: Sequence[str]) -> Iterator[Row]:
    fenced = False
    for number, line in enumerate(lines, 1):
        if _FENCED.match(line):
            fenced = not fenced
        if fenced or line.lstrip().startswith(("|", "#")):
            continue
        for part in _PARTS.split(_MARK.sub("", line)):
            if row := _row(number, part):
                yield row


def _row(number: int, part: str) -> Row | None:
    text = with_units(re.sub(r"[$`*]", "", part))
    cells = [*amounts(text)]
    if not cells:
        return None
    words: list[str] = []
    end = 0
    for cell in cells:
        words.append(text[end : cell.start])
        end = cell.end
    rest = text[end:]
    if any(_FORMULA.search(each) for each in (*words, rest)):
        return None  # an equation is judged where it stands
    skeleton = "#".join([*words, rest])
    skeleton = re.sub(r"[\s,，。.;；、]+", " ", _ABOUT.sub(" ", skeleton)).strip()
    if not re.search(r"[^\W\d_]", skeleton):
        return None
    return Row(number, skeleton, tuple(words), tuple(cells))


def with_units(text: str) -> str:
    """``text`` in the plain spelling, its MiB left as they are."""
    return plain(re.sub(r"(\d)\s*([KMGT]i?B|bytes?|字节)(?![A-Za-z])", r"\1 _\2", text)).replace(
        " _", " "
    )
