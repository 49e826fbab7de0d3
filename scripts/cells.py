"""Computes every cell of the contract and writes docs/cells.md from the answers.

    PYTHONPATH=tests .venv/bin/python scripts/cells.py

It takes about half an hour on two cores, most of it compilations.
"""

import sys
from pathlib import Path

from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import cells  # noqa: E402
import table  # noqa: E402


def main() -> None:
    every = list(cells.every())
    results = {}
    with Progress(
        *Progress.get_default_columns(), MofNCompleteColumn(), TimeRemainingColumn()
    ) as bar:
        for cell in bar.track(every):
            results[cell] = table.short(cells.outcome(cell))
    (ROOT / "docs" / "cells.md").write_text(table.render(results), encoding="utf-8")


if __name__ == "__main__":
    main()
