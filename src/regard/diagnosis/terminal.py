"""A report at the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from regard._words import say
from regard.diagnosis.report import Finding, Report

_COLOURS = {
    "right": "green",
    "different": "green",
    "wrong": "red",
    "unknown": "yellow",
    "error": "yellow",
}


def render(report: Report, console: Console) -> None:
    """Prints the report: the verdict, how it was called, and each finding with its mend."""
    lang = report.lang
    console.print(Text(report.title, style=f"bold {_COLOURS[report.verdict]}"))
    if report.how_called:
        console.print(Text(report.how_called, style="dim"))
    if report.verdict == "right" and not report.choices:
        console.print(say("check.nothing-found", lang))
    for kind, colour, findings in (
        ("check.fault", "red", report.faults),
        ("check.risk", "yellow", report.risks),
    ):
        for finding in findings:
            console.print()
            console.print(_finding(report, finding, kind, colour))
    also = say("check.also", lang) if report.faults or report.risks else ""
    for text in (*report.choices, *report.undetermined):
        console.print(Text(also + text))


def _finding(report: Report, f: Finding, kind: str, colour: str) -> Group:
    lang = report.lang
    head = Text.assemble(
        (f"{say(kind, lang)} ", colour), (f.id, f"bold {colour}"), (report.place(f), "dim")
    )
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(say("check.came", lang), Text(f.says))
    grid.add_row(say("check.expected", lang), Text(f.expected))
    grid.add_row(say("check.why", lang), Text(f.why))
    grid.add_row(say("check.evidence", lang), Text(f.evidence))
    if f.code:
        grid.add_row("", Text(f"- {f.code}", style="red"))
    if f.mended:
        grid.add_row(say("check.mend", lang), Text(f"+ {f.mend}", style="green"))
    else:
        grid.add_row(say("check.mend", lang), Text(f.mend))
    pictures = Table.grid(padding=(0, 3))
    pictures.add_row(
        Text(say("check.expected", lang), style="dim"), Text(say("check.came", lang), style="dim")
    )
    pictures.add_row(matrix(f.example.right), matrix(f.example.came))
    grid.add_row(say("check.smallest", lang), pictures)
    return Group(head, Padding(grid, (0, 0, 0, 2)))


def matrix(numbers: Any) -> Text:
    """A matrix of at most 3 × 3 in two decimals."""
    return Text("\n".join("  ".join(f"{x:5.2f}" for x in row) for row in numbers))
