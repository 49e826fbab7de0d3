"""The trace in a terminal: words, numbers and code, one step after another.

The tables are laid out here and not by rich's: a story has a hundred of them, and they must stand
there at once.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import zip_longest

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from regard._words import Language, say
from regard.explanation.faces.layout import (
    Drawn,
    drawn,
    examples,
    labels,
    shown_tables,
    size_of,
)
from regard.explanation.faces.wrapping import wrapped
from regard.explanation.numbers import column, written
from regard.explanation.trace import Chart, Step, Trace

_BAR, _EIGHTHS = 32, " ▏▎▍▌▋▊▉"
_LINE = 88
"""Cells of a line of prose: longer ones are hard to read."""
_GAP = 4


def render(trace: Trace, console: Console, lang: Language) -> None:
    """Prints every step of ``trace``."""
    # One text: each print has a cost, and a story has a thousand lines.
    text = Text("\n").join([*_lines(trace, console, lang), Text()])
    console.print(text, soft_wrap=True, end="")


def plain(trace: Trace, lang: Language, width: int) -> str:
    """What ``render`` prints, as text without colours."""
    file = io.StringIO()
    render(trace, Console(file=file, width=width, color_system=None, highlight=False), lang)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _lines(trace: Trace, console: Console, lang: Language) -> Iterator[Text]:
    yield Text()
    yield Text(say(trace.title, lang), style="bold underline")
    if trace.note:
        yield from _prose(say(trace.note, lang), console, "dim")
    for number, step in enumerate(trace.steps, 1):
        yield Text()
        yield from _step(trace, step, number, console, lang)
    total = say(
        "explain.total", lang,
        multiplications=f"{trace.multiplications:,}", steps=len(trace.steps),
    )  # fmt: skip
    yield from (Text(), Text(total, style="dim"))


def _step(
    trace: Trace, step: Step, number: int, console: Console, lang: Language
) -> Iterator[Text]:
    title, text = trace.words(step, lang)
    yield Text.assemble((f"{number}. {title}", "bold"), (f"   {step.name}", "dim"))
    yield from _prose(text, console)
    yield Text(f"  {step.formula}", style="yellow")
    grids = [_grid(one) for table in shown_tables(trace, step) for one in drawn(trace, table, lang)]
    yield from _side_by_side(grids, console.width)
    for name, line in examples(trace, step):
        yield Text(f"  {name} = {line}", style="green")
    if step.chart:
        yield from (Text(), *_chart(trace, step.chart, lang), Text())
    yield from _code(step)
    if step.multiplications:
        cost = say(
            "explain.cost", lang,
            multiplications=f"{step.multiplications:,}", bytes=f"{step.memory:,}",
        )  # fmt: skip
        yield Text(f"  {cost}", style="dim")


def _prose(text: str, console: Console, style: str = "") -> Iterator[Text]:
    for line in wrapped(text, min(_LINE, console.width) - 2):
        yield Text(f"  {line}", style=style)


def _right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text


def _grid(one: Drawn) -> list[Text]:
    """A table as lines of one width: its name, the columns' names, and its rows."""
    rows = [*one.cells, *([["…"] * len(one.columns)] if one.left_out else [])]
    names = [*one.rows, *([f"+{one.left_out}"] if one.left_out else [])]
    left = max((cell_len(name) for name in names), default=0)
    wide = [
        max(map(cell_len, (name, *(row[j] for row in rows)))) for j, name in enumerate(one.columns)
    ]
    head = "  ".join(_right(name, w) for name, w in zip(one.columns, wide, strict=True))
    margin = left + 2 if left else 0
    lines = [Text(f"{one.symbol}  {size_of(one.shape)}", style="bold")]
    if head.strip():
        lines.append(Text(" " * margin + head, style="dim"))
    for name, row in zip(names, rows, strict=True):
        numbers = "  ".join(_right(cell, w) for cell, w in zip(row, wide, strict=True))
        start = name + " " * (margin - cell_len(name))
        lines.append(Text.assemble((start, "dim"), numbers))
    width = max(line.cell_len for line in lines)
    for line in lines:
        line.append(" " * (width - line.cell_len))
    return lines


def _side_by_side(grids: list[list[Text]], width: int) -> Iterator[Text]:
    """As many tables in a row as fit."""
    row: list[list[Text]] = []
    used = 2
    for grid in grids:
        size = grid[0].cell_len + _GAP
        if row and used + size - _GAP > width:
            yield from _beside(row)
            row, used = [], 2
        row.append(grid)
        used += size
    if row:
        yield from _beside(row)


def _beside(grids: list[list[Text]]) -> Iterator[Text]:
    yield Text()
    blanks = [Text(" " * grid[0].cell_len) for grid in grids]
    for parts in zip_longest(*grids):
        line = Text("  ")
        for part, blank in zip(parts, blanks, strict=True):
            line.append_text(part or blank).append(" " * _GAP)
        line.rstrip()
        yield line
    yield Text()


def _chart(trace: Trace, chart: Chart, lang: Language) -> Iterator[Text]:
    """A bar for each number of the columns ``ys``, as long as the number is large."""
    table = trace.sheet.tables[chart.table]
    matrix = table.array.reshape(-1, table.array.shape[-1])
    rows, columns = labels(trace, table, matrix.shape, lang)
    most = max(float(abs(matrix[:, list(chart.ys)]).max()), 1e-12)
    starts = [
        written(float(r[chart.x])) if chart.x >= 0 else n for r, n in zip(matrix, rows, strict=True)
    ]
    left = max(map(cell_len, starts))
    wide = max(cell_len(columns[y]) for y in chart.ys)
    for start, numbers in zip(starts, matrix, strict=True):
        for k, y in enumerate(chart.ys):
            style = ("cyan", "magenta", "green")[k % 3]
            size = abs(float(numbers[y])) / most * _BAR
            bar = "█" * int(size) + _EIGHTHS[int(size % 1 * 8)].strip()
            name = columns[y] + " " * (wide - cell_len(columns[y]))
            line = Text("  " + _right("" if k else start, left) + "  ")
            line.append(f"{name}  {bar.ljust(_BAR)}", style=style)
            yield line.append(f"  {column(numbers[y : y + 1])[0]}")


def _code(step: Step) -> Iterator[Text]:
    """The lines of what is drawn; once where both libraries say it alike."""
    for table in step.tables:
        lines = [table.code(library) for library in ("numpy", "torch")]
        if table.name not in step.shown or not lines[0]:
            continue
        prompts = ("np, torch",) if lines[0] == lines[1] else ("np", "torch")
        for prompt, line in zip(prompts, lines, strict=False):
            yield Text(f"  {prompt} ❯ {line}", style="blue")
