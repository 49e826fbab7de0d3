"""Laws that the rows of a table follow: totals, parts, softmax of a row's name, a known matrix."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import numpy as np

from regard.core import formula
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.amounts import amounts
from regard.explanation.notes.mathematics.equations import close, shown
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import literal, parsed
from regard.explanation.notes.tables.columns import Number, number_of
from regard.explanation.numbers import written
from regard.explanation.sheet import Floats

_TOTAL = re.compile(
    r"\W*(?:(?:grand |all |in )?total|sum|altogether|合计|总计|总共|共计|总和|总参数)", re.I
)


def totals(rows: list[tuple[int, list[str]]], sure: set[int]) -> list[Verdict]:
    """The total of a column, against the numbers above it; ``sure`` are the lines that are right."""
    found: list[Verdict] = []
    for last, (line, cells) in enumerate(rows):
        if not _TOTAL.match(cells[0]) or last < 2:
            continue
        start = next((i + 1 for i in range(last - 1, -1, -1) if _TOTAL.match(rows[i][1][0])), 0)
        above = [row for row in rows[start:last] if re.search(r"\w", row[1][0])]
        for column in range(1, len(cells)):
            parts = [_result(row[column]) if column < len(row) else None for _, row in above]
            told, known = _result(cells[column]), [part for part in parts if part]
            if told is None or len(known) < 2 or len(known) < len(parts):
                continue
            said = f"{cells[0]}: {cells[column]}"
            values = [float(part[0]) for part in known]
            unit = max(
                float(told[1]), *(float(part[1]) for part in known if part[1] < told[2]), 0.0
            )
            slack = unit * (unit < told[2]) * len(values) + 1e-9
            if abs(sum(values) - float(told[0])) <= slack:
                found.append(Verdict(line, said, "right", "note.right"))
            elif _certain(float(told[0]), values, slack, all(row[0] in sure for row in above)):
                right = sum(values) / told[2]
                shown_right = (
                    f"{right:,.0f}"
                    if unit >= told[2]
                    else shown(np.asarray(right), np.asarray(unit / told[2]))
                )
                found.append(Verdict(line, said, "wrong", "note.wrong", {"right": shown_right}))
    return found


def _result(cell: str) -> Number | None:
    """What a cell comes to: "2 × 3 = 6"."""
    return number_of(re.split(r"=|≈", cell.strip("* "))[-1].strip("$ "))


def _certain(told: float, parts: list[float], slack: float, sure: bool) -> bool:
    """Whether a total is wrong, and no part: it is no sum of some of them, and has a sum's digits."""
    if len(parts) > 12 or any(
        abs(sum(some) - told) <= slack
        for size in range(1, len(parts))
        for some in combinations(parts, size)
    ):
        return False
    digits = f"{sum(parts):.0f}"
    return sure or (len(digits) > 3 and sorted(f"{told:.0f}") == sorted(digits))


def _most(rows: list[tuple[int, str, tuple[Floats, Floats], Floats]]) -> list[Verdict]:
    """Verdicts of claims that follow one law, where most of them do."""
    found = [
        verdict_of(line, said, None if close(claim[0], right, claim[1]) else right, claim)
        for line, said, claim, right in rows
    ]
    agree = sum(verdict.status == "right" for verdict in found)
    return found if agree > 1 and agree >= len(found) - 1 else []


def by_parts(rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """A matrix and its bias, "768 × 3072, 3072", and how many numbers they hold."""
    told = []
    for line, cells in rows:
        for left, right in pairwise(cells):
            sizes = re.fullmatch(
                r"\s*(?P<a>\d+)(?:\s*\*\s*(?P<b>\d+))?\s*,\s*(?P<c>\d+)\s*",
                plain(left.replace("$", "")),
            )
            claim = literal(parsed(plain(right)) or ("name", ""))
            if sizes and claim and claim[0].ndim == 0:
                exact = int(sizes["a"]) * int(sizes["b"] or 1) + int(sizes["c"])
                told.append((line, f"{left}: {right}", claim, np.asarray(float(exact))))
    return _most(told)


def by_label(rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """The softmax of the vector that a row begins with."""
    told = []
    for line, cells in rows:
        scores = literal(parsed(plain(cells[0])) or ("name", ""))
        claim = literal(parsed(plain(_cells(cells, None))) or ("name", ""))
        if scores and claim and scores[0].ndim == 1 and claim[0].shape == scores[0].shape:
            weights = np.asarray(formula.normalise(scores[0][None, :])[0])[0]
            told.append((line, " ".join(cells), (claim[0], np.maximum(claim[1], 0.001)), weights))
    return _most(told)


def by_times(head: list[str], rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """What one token needs, and what so many need: "per token", "2048 tokens"."""
    one = next(
        (
            i
            for i, title in enumerate(head)
            if re.search(r"per token|每个? ?(?:token|词)|one token", title, re.I)
        ),
        0,
    )
    found = []
    for column, title in enumerate(head):
        many = re.search(r"(\d[\d,]*)\s*个? ?(?:tokens?|词)", title)
        if not one or not many:
            continue
        for line, cells in rows:
            base, claim = ([*amounts(cells[i])] if i < len(cells) else [] for i in (one, column))
            if len(base) == len(claim) == 1 and base[0].kind == claim[0].kind == "bytes":
                right = base[0].value * float(many[1].replace(",", ""))
                if abs(claim[0].value - right) <= 0.6 * claim[0].unit + base[0].unit * right / base[
                    0
                ].value * 0.5 * (base[0].unit < base[0].value * 0.1):
                    found.append(Verdict(line, cells[column], "right", "note.right"))
                else:
                    unit = claim[0].said.split()[-1]
                    found.append(
                        Verdict(
                            line,
                            cells[column],
                            "wrong",
                            "note.wrong",
                            {
                                "right": f"{written(right / (claim[0].value / float(claim[0].said.split()[0])), 2)} {unit}"
                            },
                        )
                    )
    return found if sum(verdict.status == "right" for verdict in found) > 0 else []


def _cells(cells: list[str], columns: list[int] | None) -> str:
    """A column's cell, or all but the first as a vector."""
    if columns is None:
        return f"[{', '.join(cells[1:])}]"
    return cells[columns[0]] if columns[0] < len(cells) else ""


def verdict_of(
    line: int, said: str, wrong: Floats | None, target: tuple[Floats, Floats]
) -> Verdict:
    """Right where ``wrong`` is None, else wrong, with the right value."""
    if wrong is None:
        return Verdict(line, said, "right", "note.right")
    return Verdict(line, said, "wrong", "note.wrong", {"right": shown(wrong, target[1])})
