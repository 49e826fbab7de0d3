"""The overview as a PNG or SVG picture, drawn with matplotlib's objects and no global state."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import MissingError
from regard._words import Language, say
from regard.pictures.atomic import write_whole
from regard.pictures.colours import ramp
from regard.pictures.fonts import families
from regard.pictures.marks import MARKS, clipped, role_name, shown
from regard.pictures.notable import columns, narrowed, score
from regard.pictures.overview import HeadView, Overview

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = 60
"""The most tokens that are all named along an axis."""
NUMBERS = 12
"""The most tokens whose weights are written into the cells."""
DPI = 160
_INK, _SOFT = "#1f2933", "#66717d"


def save_picture(overview: Overview, path: Path, lang: Language) -> None:
    """Draws ``overview`` into ``path``, as PNG or SVG by its suffix.

    Several heads make a grid of thumbnails, one row a layer; one head makes its matrix with the
    tokens along both sides.  Letters in an SVG are outlines, so no reader needs the fonts.
    Raises ``MissingError`` without matplotlib, ``UserError`` where no font has a letter.
    """
    try:
        import matplotlib
    except ImportError as error:
        raise MissingError('PNG and SVG need matplotlib: pip install "regard[look]"') from error
    kind = path.suffix.lower().removeprefix(".")
    with matplotlib.rc_context():
        # The same picture on every machine, whatever its matplotlibrc says.
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "regard"})
        heads = list(overview.heads())
        figure = _matrix(overview, heads[0], lang) if len(heads) == 1 else _grid(overview, lang)
        file = io.BytesIO()
        date: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        figure.savefig(file, format=kind, dpi=DPI, metadata=date, facecolor="white")
    write_whole(path, [file.getvalue()])


def label(token: str, cells: int = 16) -> str:
    """``token`` as an axis names it."""
    return clipped(shown(token), cells)


def _colours() -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap(ramp() / 255.0)


def _write(axes: Axes, x: float, y: float, text: str, fonts: list[str], **how: Any) -> None:
    # Dollar signs in a token are dollars, not mathematics.
    axes.text(x, y, text, family=fonts, parse_math=False, **{"color": _INK, **how})


def _grid(overview: Overview, lang: Language) -> Figure:
    """Thumbnails of all heads, framed in the colours of their roles."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    heads, numbers = list(overview.heads()), columns(overview)
    rows, cols = len(overview.layers), len(numbers)
    roles = [role for role in MARKS if any(view.role == role for view in heads)]
    size = say("picture.size-heads", lang, model=overview.model, tokens=len(overview.tokens),
               layers=rows, heads=len(heads))  # fmt: skip
    caption = say("picture.how-to-read", lang)
    names = [role_name(role, lang) for role in roles]
    words = [say("picture.layer", lang), say("picture.heads", lang)]
    fonts = families([size, caption, *names, *words])

    # One unit is one thumbnail; it shrinks where there are many, so that no side passes 26 inch.
    inch = min(1.0, 24 / max(rows, cols))
    margin = 0.62 / inch
    lines = _wrapped(caption, max(cols * inch + 0.4, 4.2))
    legend_rows = -(-len(roles) // max(1, int((max(cols * inch, 4.2)) // 1.45)))
    above = 0.95 / inch
    below = (0.35 + 0.26 * legend_rows + 0.2 * len(lines)) / inch
    width = max(cols, 4.2 / inch) + margin + 0.2 / inch
    height = rows + above + below
    figure = Figure(figsize=(width * inch, height * inch))
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
    axes.set(xlim=(-margin, width - margin), ylim=(rows + below, -above), xticks=[], yticks=[])

    _write(axes, 0.04, -0.72 / inch, size, fonts, fontsize=12, va="center")
    tall = min(9.0, 30 * inch)
    _write(axes, -margin + 0.12 / inch, -0.16 / inch, words[0], fonts, fontsize=8, color=_SOFT)
    _write(axes, 0.04, -0.40 / inch, words[1], fonts, fontsize=8, color=_SOFT, va="center")
    for column, number in enumerate(numbers):
        _write(axes, column + 0.5, -0.16 / inch, str(number), fonts, fontsize=tall, ha="center")
    colours = _colours()
    for y, layer in enumerate(overview.layers):
        _write(axes, -0.12 / inch, y + 0.5, str(layer[0].layer), fonts, fontsize=tall, ha="right",
               va="center")  # fmt: skip
        for view in layer:
            x = numbers.index(view.head)
            box = (x + 0.06, x + 0.94, y + 0.94, y + 0.06)
            axes.imshow(_strength(view.image), cmap=colours, vmin=0, vmax=1, extent=box,
                        aspect="auto", interpolation="antialiased", zorder=1)  # fmt: skip
            axes.add_patch(
                Rectangle((x + 0.06, y + 0.06), 0.88, 0.88, fill=False, zorder=2,
                          edgecolor=MARKS[view.role].colour, linewidth=2.2 * inch + 0.3)
            )  # fmt: skip
    axes.set(xlim=(-margin, width - margin), ylim=(rows + below, -above))

    per_row = -(-len(roles) // legend_rows)
    for n, (role, name) in enumerate(zip(roles, names, strict=True)):
        left = (n % per_row) * 1.45 / inch + 0.06
        down = rows + (0.28 + 0.26 * (n // per_row)) / inch
        axes.add_patch(
            Rectangle((left, down - 0.06 / inch), 0.12 / inch, 0.12 / inch, fill=False,
                      linewidth=2, edgecolor=MARKS[role].colour)
        )  # fmt: skip
        _write(axes, left + 0.2 / inch, down, name, fonts, fontsize=8.5, va="center")
    for n, line in enumerate(lines):
        down = rows + (0.36 + 0.26 * legend_rows + 0.19 * n) / inch
        _write(axes, 0.06, down, line, fonts, fontsize=8, color=_SOFT, va="center")
    return figure


def _strength(image: NDArray[np.float32]) -> NDArray[np.float32]:
    """0..1 on the image's own scale; the root lets the weak weights be seen beside the strong."""
    most = float(np.nanmax(image, initial=0.0))
    return np.asarray(np.sqrt(np.clip(np.nan_to_num(image) / (most or 1.0), 0, 1)), np.float32)


def _wrapped(text: str, inches: float) -> list[str]:
    """``text`` in lines of about ``inches`` at 8 points, where a Chinese letter counts two."""
    room, lines, line, used = int(inches / 0.062), [], "", 0
    words = text.split(" ") if text.isascii() else list(text)
    for word in words:
        cells = sum(2 if ord(letter) > 0x2E80 else 1 for letter in word)
        glue = " " if text.isascii() and line else ""
        if line and used + cells + len(glue) > room:
            lines.append(line)
            line, used, glue = "", 0, ""
        line += glue + word
        used += cells + len(glue)
    return [*lines, line]


def _matrix(overview: Overview, view: HeadView, lang: Language) -> Figure:
    """One head: its matrix, with the tokens along both sides."""
    from matplotlib.figure import Figure

    image, block, total = view.image, overview.block, len(overview.tokens)
    asked = list(range(image.shape[0]))
    if block == 1 and narrowed(overview):
        asked = list(overview.queries)
        image = image[asked]
    rows, cols = image.shape
    key = "picture.head-none" if view.role == "none" else "picture.head"
    title = say(key, lang, layer=view.layer, head=view.head, role=role_name(view.role, lang),
                score=f"{score(view):.2f}")  # fmt: skip
    size = say("picture.size", lang, model=overview.model, tokens=total)
    scale = (
        say("picture.weight", lang) if block == 1 else say("picture.block-mean", lang, block=block)
    )
    sides = say("picture.rows-and-columns", lang)
    x_at = _named(list(range(cols)))
    y_at = _named(asked)
    x_names = [label(overview.tokens[min(n * block, total - 1)]) for n in x_at]
    y_names = [label(overview.tokens[min(asked[n] * block, total - 1)]) for n in y_at]
    fonts = families([title, size, scale, sides, *x_names, *y_names])

    # Thumb-wide cells for a sentence, hair-thin ones for a page; never past 11 inch.
    cell = min(0.46, 8.0 / max(rows, cols))
    wide, high = max(cols * cell, 2.4), max(rows * cell, 0.6)
    widest = max(_cells(name) for name in [*y_names, *x_names])
    left, top = 0.25 + 0.085 * widest, 1.0 + 0.085 * widest
    # The title lines need their width too, however narrow the matrix is.
    room = max(_cells(title) * 0.095, _cells(sides) * 0.068) + 0.3
    figure = Figure(figsize=(max(left + wide + 1.25, room), top + high + 0.25))
    w, h = figure.get_size_inches()
    axes = figure.add_axes((left / w, 0.25 / h, wide / w, high / h))
    most = float(np.nanmax(image, initial=0.0)) or 1.0
    smooth = "nearest" if max(rows, cols) <= 400 else "antialiased"
    drawn = axes.imshow(
        image, cmap=_colours(), norm=_root(most), aspect="auto", interpolation=smooth
    )
    axes.tick_params(length=2, pad=2, colors=_SOFT, top=True, labeltop=True, bottom=False,
                     labelbottom=False)  # fmt: skip
    small = 8.0 if max(len(x_at), len(y_at)) <= 40 else 6.0
    turned = 90 if max(map(_cells, x_names)) * 0.085 > cell * (cols / len(x_at)) else 0
    for axis, places, names in ((axes.xaxis, x_at, x_names), (axes.yaxis, y_at, y_names)):
        axis.set_ticks(places, names, family=fonts, fontsize=small, color=_INK)
        for text in axis.get_ticklabels():
            text.set_parse_math(False)
    for text in axes.get_xticklabels():
        text.set(rotation=turned, ha="center")
    for spine in axes.spines.values():
        spine.set(color=MARKS[view.role].colour, linewidth=1.4)
    if block == 1 and max(rows, cols) <= NUMBERS:
        _numbers(axes, image, most)
    for down, line, points, weight, colour in (
        (0.24, title, 11, "bold", _INK),
        (0.48, size, 8.5, "normal", _SOFT),
        (0.67, sides, 8.5, "normal", _SOFT),
    ):
        figure.text(0.12 / w, 1 - down / h, line, family=fonts, fontsize=points, weight=weight,
                    color=colour, va="center", parse_math=False)  # fmt: skip
    tall = min(high, 2.6)
    bar = figure.add_axes(((left + wide + 0.18) / w, (0.25 + high - tall) / h, 0.13 / w, tall / h))
    ticks = [0, most / 4, most] if tall < 1.2 else [0, most / 16, most / 4, most]
    figure.colorbar(drawn, cax=bar, ticks=ticks, format="%.2g")
    bar.tick_params(length=2, labelsize=7, colors=_SOFT)
    bar.set_title(scale, family=fonts, fontsize=7, color=_SOFT, loc="left", pad=8)
    bar.spines[:].set_visible(False)
    return figure


def _root(most: float) -> Any:
    from matplotlib.colors import PowerNorm

    return PowerNorm(0.5, vmin=0.0, vmax=most, clip=True)


def _named(places: list[int]) -> list[int]:
    """The indices of the places that get a name: all, or at most ``LABELS`` at even steps."""
    return list(range(0, len(places), max(1, -(-len(places) // LABELS))))


def _cells(text: str) -> int:
    return sum(2 if ord(letter) > 0x2E80 else 1 for letter in text)


def _numbers(axes: Axes, image: NDArray[np.float32], most: float) -> None:
    for (y, x), weight in np.ndenumerate(image):
        if weight > 0:
            dark = (weight / most) ** 0.5 > 0.45
            axes.text(x, y, f"{weight:.2f}", ha="center", va="center", fontsize=6.5,
                      color="white" if dark else _INK)  # fmt: skip
