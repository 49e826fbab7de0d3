"""The trace in a terminal: words, numbers and code, one step after another."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich import box
from rich.cells import cell_len
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from regard._words import Language, say
from regard.explanation.faces.layout import Drawn, drawn, examples, labels, shown_tables, size_of
from regard.explanation.numbers import written
from regard.explanation.trace import Chart, Step, Trace

_BAR, _EIGHTHS = 32, " ▏▎▍▌▋▊▉"
_LINE = 88
"""Cells of a line of prose: longer ones are hard to read."""


def render(trace: Trace, console: Console, lang: Language) -> None:
    """Prints every step of ``trace``."""
    console.print()
    console.print(Text(say(trace.title, lang), style="bold underline"))
    if trace.note:
        console.print(_prose(say(trace.note, lang), console, "dim"))
    for number, step in enumerate(trace.steps, 1):
        console.print()
        console.print(_step(trace, step, number, console, lang))
    console.print()
    console.print(
        Text(
            say(
                "explain.total", lang,
                multiplications=f"{trace.multiplications:,}", steps=len(trace.steps),
            ),
            style="dim",
        )
    )  # fmt: skip


def plain(trace: Trace, lang: Language, width: int) -> str:
    """What ``render`` prints, as text without colours."""
    file = io.StringIO()
    console = Console(file=file, width=width, color_system=None, highlight=False)
    render(trace, console, lang)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _step(
    trace: Trace, step: Step, number: int, console: Console, lang: Language
) -> RenderableType:
    title, text = trace.words(step, lang)
    parts: list[RenderableType] = [
        Text.assemble((f"{number}. ", "bold"), (title, "bold"), (f"   {step.name}", "dim")),
        _prose(text, console),
        Text(f"  {step.formula}", style="yellow"),
    ]
    grids = [_grid(one) for table in shown_tables(trace, step) for one in drawn(trace, table, lang)]
    parts.append(Padding(Columns(grids, padding=(0, 3)), (0, 0, 0, 2)))
    parts += [Text(f"  {name} = {line}", style="green") for name, line in examples(trace, step)]
    if step.chart:
        parts.append(Padding(_chart(trace, step.chart, lang), (1, 0, 1, 2)))
    parts += list(_code(step))
    if step.multiplications:
        cost = say(
            "explain.cost", lang,
            multiplications=f"{step.multiplications:,}", bytes=f"{step.memory:,}",
        )  # fmt: skip
        parts.append(Text(f"  {cost}", style="dim"))
    return Group(*parts)


def _prose(text: str, console: Console, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, max(0, console.width - _LINE), 0, 2))


def _grid(one: Drawn) -> Grid:
    title = Text(f"{one.symbol}  {size_of(one.shape)}")
    grid = Grid(
        title=title,
        min_width=cell_len(title.plain),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        header_style="dim",
    )
    named = any(one.rows)
    if named:
        grid.add_column("", style="dim", no_wrap=True)
    for name in one.columns:
        grid.add_column(Text(name), justify="right", no_wrap=True)
    for row, cells in zip(one.rows, one.cells, strict=True):
        grid.add_row(*([Text(row)] if named else []), *cells)
    if one.left_out:
        grid.add_row(*([Text(f"… +{one.left_out}")] if named else [f"… +{one.left_out}"]))
    return grid


def _chart(trace: Trace, chart: Chart, lang: Language) -> Grid:
    """A bar for each number of the columns ``ys``, as long as the number is large."""
    table = trace.sheet.tables[chart.table]
    matrix = table.array.reshape(-1, table.array.shape[-1])
    rows, columns = labels(trace, table, matrix.shape, lang)
    most = max(float(abs(matrix[:, list(chart.ys)]).max()), 1e-12)
    grid = Grid.grid(padding=(0, 2))
    for i, numbers in enumerate(matrix):
        for k, y in enumerate(chart.ys):
            label = written(float(numbers[chart.x])) if chart.x >= 0 else rows[i]
            style = ("cyan", "magenta")[k % 2]
            size = abs(float(numbers[y])) / most * _BAR
            bar = "█" * int(size) + _EIGHTHS[int(size % 1 * 8)].strip()
            grid.add_row(
                Text("" if k else label, justify="right"),
                Text(columns[y], style=style),
                Text(bar, style=style),
                Text(written(float(numbers[y]))),
            )
    return grid


def _code(step: Step) -> Iterator[Text]:
    """The lines of what is drawn; once where both libraries say it alike."""
    for table in step.tables:
        lines = [table.code(library) for library in ("numpy", "torch")]
        if table.name not in step.shown or not lines[0]:
            continue
        prompts = ("np, torch",) if lines[0] == lines[1] else ("np", "torch")
        for prompt, line in zip(prompts, lines, strict=False):
            yield Text(f"  {prompt} ❯ {line}", style="blue")
