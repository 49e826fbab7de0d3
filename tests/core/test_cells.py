"""Every cell of the contract agrees with the formula, or is refused by name.

A few of them, in which each pair of values is met, in every run; all of them in the campaign,
whose answers are the table of the documentation (``scripts/cells.py`` writes it).
"""

from __future__ import annotations

from itertools import combinations

import pytest

pytest.importorskip("torch")

import cells
import table
from cells import ASKED, DTYPES, ENGINES, MASKS, SCORES, Cell, outcome
from pages import ROOT

PAGE = ROOT / "docs" / "cells.md"
QUICK = ("formula", "tiles", "native", "sdpa")
"""flex compiles for seconds a cell: it has its own tests, and its cells are the campaign's."""
SOME = cells.pairwise(QUICK)


def test_the_few_meet_every_pair() -> None:
    axes = (tuple(MASKS), SCORES, DTYPES, QUICK, ASKED)
    rows = [(c.mask, c.score, c.dtype, c.engine, c.asked) for c in SOME]
    for (a, one), (b, other) in combinations(enumerate(axes), 2):
        assert len({(row[a], row[b]) for row in rows}) == len(one) * len(other)
    assert len(rows) < 150


@pytest.mark.parametrize("cell", SOME, ids=str)
def test_some_cells(cell: Cell) -> None:
    assert table.told(PAGE, cell) == table.short(outcome(cell))


@pytest.mark.campaign
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("asked", ASKED)
def test_all_cells(engine: str, asked: str) -> None:
    wrong = []
    for cell in cells.every():
        if (cell.engine, cell.asked) == (engine, asked):
            found = table.short(outcome(cell))
            if found != table.told(PAGE, cell):
                wrong.append((str(cell), found))
    assert not wrong


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = Cell("causal", "plain", "float64", "tiles", "gradient")
    assert outcome(cell) == "agrees"
    right = cells.ours(cell)
    monkeypatch.setattr(cells, "ours", lambda cell: lambda **x: right(**x) * (1 + 1e-11))
    with pytest.raises(AssertionError, match="is off by"):
        outcome(cell)
