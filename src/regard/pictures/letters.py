"""Pictures in letters and shades, for terminals: what the kinds of pictures share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.pictures.axes import Axis, Words
from regard.pictures.canvas import Scale

if TYPE_CHECKING:
    from rich.text import Text

SHADES = " ░▒▓█"
BARS = " ▏▎▍▌▋▊▉█"
STEPS = "▁▂▃▄▅▆▇█"
ROWS = 40
"""The most lines that a matrix takes."""
NAME = 14


def fit(text: str, cells: int) -> str:
    """``text`` cut to ``cells``, an ellipsis where something is left out."""
    from rich.cells import cell_len, set_cell_size

    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


def right(text: str, cells: int) -> str:
    """``text`` at the right of ``cells``."""
    from rich.cells import cell_len

    text = fit(text, cells)
    return " " * (cells - cell_len(text)) + text


def heading(title: str) -> Iterator[Text]:
    """The title, and blank lines around it."""
    from rich.text import Text

    if title:
        yield from (Text(), Text(title, style="bold"), Text())


def note(text: str) -> Text:
    """A line that says what is exact."""
    from rich.text import Text

    return Text(text, style="dim")


def number(weight: float) -> str:
    """A weight in two digits."""
    return f"{weight:.2f}" if abs(weight) >= 0.01 or weight == 0 else f"{weight:.1g}"


def bar(share: float, cells: int) -> str:
    """A bar of 0 … ``cells`` cells."""
    eighths = round(min(1.0, max(0.0, share)) * cells * 8)
    return "█" * (eighths // 8) + BARS[eighths % 8].strip()


def pooled(values: NDArray[np.float64], blocks: tuple[int, int]) -> NDArray[np.float64]:
    """``values`` as means over blocks of that size."""
    for axis, block in enumerate(blocks):
        n = values.shape[axis]
        starts = np.arange(0, n, block)
        shape = (-1, 1) if axis == 0 else (1, -1)
        counts = np.diff([*starts, n]).reshape(shape)
        values = np.add.reduceat(values, starts, axis=axis) / counts
    return values


def shade(scale: Scale, value: float, cells: int = 2) -> Text:
    """One cell of a matrix: darker for more, whether the terminal has colours or not."""
    from rich.text import Text

    strength = abs(value) / scale.most
    strength = strength if scale.signed else strength**0.5
    letter = SHADES[min(4, int(strength * 4.999))]
    sign = "−" if scale.signed and value < 0 and letter != " " else letter
    r, g, b = scale.colours(value).tolist()
    dark = "white" if scale.ink(value) == "white" else "black"
    return Text((letter * (cells - 1)) + sign, style=f"{dark} on rgb({r},{g},{b})")


def _lead(rows: Axis) -> int:
    from rich.cells import cell_len

    return min(NAME, max(cell_len(rows.name(n)) for n in range(len(rows)))) + 2


def blocks_of(values: NDArray[np.float64], sides: tuple[Axis, Axis], width: int) -> tuple[int, int]:
    """How many numbers one cell has to stand for where lines have ``width`` cells."""
    room = max(8, (width - _lead(sides[0])) // 2)
    return -(-values.shape[0] // ROWS), -(-values.shape[1] // room)


def grid_lines(
    values: NDArray[np.float64],
    scale: Scale,
    sides: tuple[Axis, Axis],
    entries: Sequence[int],
    blocks: tuple[int, int],
) -> Iterator[Text]:
    """A matrix: a line a row, two letters a cell, each the mean of a block of numbers."""
    from rich.text import Text

    rows, columns = sides
    lead = _lead(rows)
    small = pooled(values, blocks)
    scale = Scale(float(np.abs(small).max()), scale.signed)
    step, across = (n * block for n, block in zip(entries, blocks, strict=True))
    if across == 1 and isinstance(columns, Words):
        yield from _column_names(columns, lead)
    else:
        yield _column_places(columns, lead, across, small.shape[1])
    for y, row in enumerate(small):
        line = Text(right(rows.name(y * step), lead - 2) + "  ")
        for value in row:
            line.append_text(shade(scale, float(value)))
        yield line


def _column_names(columns: Words, lead: int) -> Iterator[Text]:
    """The first letters of each column's name, one line a letter."""
    from rich.cells import set_cell_size
    from rich.text import Text

    tall = min(6, max(len(columns.name(n)) for n in range(len(columns))))
    for n in range(tall):
        letters = [columns.name(c)[:tall].rjust(tall)[n] for c in range(len(columns))]
        yield Text(" " * lead + "".join(set_cell_size(letter, 2) for letter in letters))


def _column_places(columns: Axis, lead: int, across: int, count: int) -> Text:
    from rich.text import Text

    text = Text(" " * lead)
    for place, name in columns.ticks(max(1, count // 5)):
        gap = lead + 2 * int(place // across) - text.cell_len
        if gap >= 0:
            text.append(" " * gap + name + " ")
    return text
