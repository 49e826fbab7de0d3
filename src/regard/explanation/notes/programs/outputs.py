"""Blocks that are no program: what one printed, plain formulas, or matrices drawn with bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.digits.listed import check_lists
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.equations import check_line
from regard.explanation.notes.programs.blocks import check_printed
from regard.explanation.notes.programs.evaluating import Made
from regard.explanation.notes.tables.grids import Grid, grids, remember
from regard.explanation.notes.tables.rows import check_block
from regard.explanation.notes.tensors.shapes import check_shapes


@dataclass(frozen=True)
class Chunk:
    """What a block says in one line, or in the lines of one bracket."""

    line: int
    text: str
    rows: tuple[int, ...] = ()


def check_output(
    first: int, text: str, names: Names, printed: Sequence[Made] = ()
) -> list[Verdict]:
    """The verdicts of a block that is no Python; ``printed`` is what the program before it prints."""
    verdicts = check_printed(first, text, printed) if printed else None
    if verdicts is not None:
        return verdicts
    lines = text.split("\n")
    if drawn := grids(first, text):
        return _drawn(drawn, names)
    found: list[Verdict] = []
    bare: list[tuple[int, str]] = []
    for chunk in _joined([Chunk(first + i, line) for i, line in enumerate(lines) if line.strip()]):
        shapes, rest = check_shapes(chunk.line, chunk.text)
        said = shapes + _placed(check_line(chunk.line, rest, names), chunk)
        places = chunk.rows or (chunk.line,)
        if not said:
            said = [v for place in places for v in check_lists(place, lines[place - first], names)]
        found += said
        if not said:
            # Only the rows of an array that is printed whole are told by what they are.
            bare += [(place, lines[place - first]) for place in places]
    found += check_block(bare, names)
    if printed:  # what that program made is not known, so nothing told elsewhere binds it
        found = [verdict for verdict in found if verdict.status != "wrong"]
    return sorted(found, key=lambda verdict: verdict.line)


def _drawn(drawn: list[Grid], names: Names) -> list[Verdict]:
    """The verdicts of matrices that are drawn with bars."""
    remember(drawn, names)
    found: list[Verdict] = []
    for grid in drawn:
        if grid.name:
            continue
        said = "[" + ", ".join(f"[{', '.join(row)}]" for row in grid.rows) + "]"
        shape = (len(grid.rows), len(grid.rows[0]))
        awaited = next((each for each in names.awaited if each.shape == shape), None)
        if awaited is None:
            found += check_block(
                [(line, " ".join(row)) for line, row in zip(grid.lines, grid.rows, strict=True)],
                names,
            )
            continue
        verdicts = check_line(
            grid.lines[0], f"(drawn_) = {said}", names.copy(drawn_=awaited), prose=False
        )
        found += _placed(verdicts, Chunk(grid.lines[0], said, tuple(grid.lines)))
    return found


def _placed(verdicts: list[Verdict], chunk: Chunk) -> list[Verdict]:
    """Each verdict at the line of the row that it is about."""
    rows = chunk.rows
    return [
        replace(verdict, line=rows[verdict.row])
        if verdict.status == "wrong" and verdict.row < len(rows)
        else verdict
        for verdict in verdicts
    ]


def _joined(chunks: list[Chunk]) -> list[Chunk]:
    """The lines of an open bracket put together."""
    found: list[Chunk] = []
    depth = 0
    for chunk in chunks:
        if depth > 0:
            last = found[-1]
            rows = (*(last.rows or (last.line,)), chunk.line)
            found[-1] = Chunk(last.line, f"{last.text} {chunk.text.strip()}", rows)
        else:
            found.append(chunk)
        depth += sum(letter in "([" for letter in chunk.text)
        depth -= sum(letter in ")]" for letter in chunk.text)
    return found
