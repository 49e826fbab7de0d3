"""The grid of heads: one row a layer, one small picture a head."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ValueRangeError
from regard._words import Language, say
from regard.pictures.canvas import EDGE, SMALL, SOFT, TEXT, TITLE, Scale, Sheet, measure, wrapped
from regard.pictures.colours import shrink
from regard.pictures.letters import STEPS, heading, note
from regard.pictures.marks import MARKS, role_name
from regard.pictures.overview import Overview
from regard.pictures.phrases import Phrase, Title, told
from regard.pictures.picture import COLUMN, DPI, PAGE, TALL, Picture

if TYPE_CHECKING:
    from rich.text import Text

THUMB = 0.62
"""Inches of a head's picture that are enough: where a column has them, it is no page."""
SIDE = 0.32


@dataclass(frozen=True, eq=False)
class Head:
    """One head of the grid."""

    layer: int
    head: int
    image: NDArray[Any]
    """(h, w) means over blocks of its weights; rows are queries."""
    role: str = "none"
    """What it does, an id of ``pictures.ROLES``."""


@dataclass(frozen=True, eq=False, repr=False)
class Heads(Picture):
    """All heads at once: each one's matrix made small, framed in the colour of its role.

    Each head has its own scale, which goes by the square root; the pictures are means over blocks
    and never exact.

    Args:
        heads: :class:`Head` each, in any order.
        title: what stands above.

    Raises:
        ValueRangeError: no head.

    >>> Heads([Head(0, 0, np.eye(4))], "Mine")
    Heads('Mine')
    """

    heads: Sequence[Head]
    title: Title = ""

    def __post_init__(self) -> None:
        if not self.heads:
            raise ValueRangeError("heads must hold a Head, but there is none")

    @classmethod
    def of(cls, overview: Overview) -> Heads:
        """The grid of an overview's heads."""
        heads = [Head(v.layer, v.head, v.image, v.role) for v in overview.heads()]
        title = Phrase("picture.size-heads", model=overview.model, tokens=len(overview.tokens),
                       layers=len(overview.layers), heads=len(heads))  # fmt: skip
        return cls(heads, title)

    @cached_property
    def _rows(self) -> list[int]:
        return sorted({head.layer for head in self.heads})

    @cached_property
    def _columns(self) -> list[int]:
        return sorted({head.head for head in self.heads})

    @cached_property
    def _roles(self) -> list[str]:
        """The roles that are told apart; none where no head has one."""
        found = [role for role in MARKS if any(head.role == role for head in self.heads)]
        return [] if found == ["none"] else found

    @cached_property
    def _width(self) -> float:
        rows = (TALL - 1.2) / len(self._rows)
        return COLUMN if min(THUMB, rows) * len(self._columns) <= COLUMN - SIDE - 0.2 else PAGE

    def _words(self, lang: Language) -> list[str]:
        names = [role_name(role, lang) for role in self._roles]
        titles = [say(f"picture.{name}", lang) for name in ("layer", "heads")]
        return [told(self.title, lang), say("picture.how-to-read", lang), *names, *titles]

    def _draw(self, width: float, lang: Language) -> Sheet:
        from matplotlib.patches import Rectangle

        wide, title, inner = measure(), told(self.title, lang), width - 2 * EDGE
        titles = wrapped(title, inner, TITLE) if title else []
        notes = wrapped(say("picture.how-to-read", lang), inner, SMALL)
        legend = self._legend(inner, wide, lang)
        lines = 1 + max((line for _, line, _ in legend), default=-1)
        top = EDGE + 0.17 * len(titles) + 0.32
        below = EDGE + 0.08 + 0.16 * lines + 0.115 * len(notes) + 0.02
        rows, columns = len(self._rows), len(self._columns)
        room = (inner - SIDE) / columns, (TALL - top - below) / rows
        size = max(0.04, min(1.2, *room))
        sheet = Sheet(width, top + size * rows + below)
        sheet.title(titles)
        left = EDGE + SIDE
        sheet.write(EDGE, top - 0.09, say("picture.layer", lang), SMALL, color=SOFT)
        sheet.write(left + 0.02, top - 0.22, say("picture.heads", lang), SMALL, color=SOFT)
        for column, number in enumerate(self._columns):
            if column % max(1, round(0.16 / size + 0.49)) == 0:
                sheet.write(
                    left + (column + 0.5) * size, top - 0.09, str(number), SMALL, ha="center"
                )
        for row, number in enumerate(self._rows):
            if row % max(1, round(0.1 / size + 0.49)) == 0:
                sheet.write(left - 0.05, top + (row + 0.5) * size, str(number), SMALL, ha="right")
        plane = sheet.plane()
        plane.imshow(self._mosaic(round(size * DPI)), aspect="auto", interpolation="nearest",
                     extent=(left, left + size * columns, top + size * rows, top))  # fmt: skip
        for head in self.heads:
            pad, side = size * 0.05, size * 0.9
            x = left + self._columns.index(head.head) * size
            y = top + self._rows.index(head.layer) * size
            plane.add_patch(
                Rectangle((x + pad, y + pad), side, side, fill=False, zorder=2, gid=
                          f"head-{head.layer}-{head.head}", edgecolor=MARKS[head.role].colour,
                          linewidth=min(1.4, 0.5 + 1.6 * size))
            )  # fmt: skip
        down = top + size * rows + 0.13
        for (x, entry, name), role in zip(legend, self._roles, strict=True):
            y = down + 0.16 * entry
            plane.add_patch(
                Rectangle((EDGE + x, y - 0.045), 0.09, 0.09, fill=False, linewidth=1.3,
                          edgecolor=MARKS[role].colour)
            )  # fmt: skip
            sheet.write(EDGE + x + 0.14, y, name, TEXT)
        plane.set(xlim=(0, sheet.width), ylim=(sheet.height, 0))
        sheet.notes(notes)
        return sheet

    def _mosaic(self, dots: int) -> NDArray[np.uint8]:
        """All heads in one image, ``dots`` of it on the side of each, for that is drawn at once."""
        paper = np.full((dots * len(self._rows), dots * len(self._columns), 3), 255, np.uint8)
        pad = round(dots * 0.05)
        side = max(1, dots - 2 * pad)
        for head in self.heads:
            small = small_of(head.image, side)
            h, w = small.shape
            at = np.arange(side)
            colours = Scale(float(small.max(initial=0.0)), False).colours(small)
            y = self._rows.index(head.layer) * dots + pad
            x = self._columns.index(head.head) * dots + pad
            paper[y : y + side, x : x + side] = colours[at * h // side][:, at * w // side]
        return paper

    def _legend(self, inner: float, wide: Any, lang: Language) -> list[tuple[float, int, str]]:
        """Where each role's entry begins, in which line, and its name."""
        found, x, line = [], 0.0, 0
        for role in self._roles:
            name = role_name(role, lang)
            size = 0.14 + wide(name, TEXT) + 0.16
            if x and x + size > inner:
                x, line = 0.0, line + 1
            found.append((x, line, name))
            x += size
        return found

    def _lines(self, width: int, lang: Language) -> Iterator[Text]:
        from rich.cells import cell_len, set_cell_size
        from rich.text import Text

        yield from heading(told(self.title, lang))
        letters = {role: say(mark.letter, lang) for role, mark in MARKS.items()}
        wide = 2 + max(cell_len(letter) for letter in letters.values())
        fits = self._columns[: max(1, (width - 6) // wide)]
        yield Text(" " * 6 + "".join(str(number).ljust(wide) for number in fits), style="dim")
        by_place = {(head.layer, head.head): head for head in self.heads}
        for layer in self._rows:
            line = Text(f"{layer:>4}  ")
            for number in fits:
                cell, colour = "", ""
                if head := by_place.get((layer, number)):
                    cell, colour = letters[head.role] + _peak(head.image), MARKS[head.role].colour
                line.append(set_cell_size(cell, wide), colour)
            yield line
        if len(fits) < len(self._columns):
            yield note(say("terminal.cut", lang, count=len(self._columns) - len(fits)))
        yield note("  ".join(f"{letters[role]} {role_name(role, lang)}" for role in self._roles))
        yield note(say("picture.heads-peak", lang, steps="▁▄█"))


def _peak(image: NDArray[Any]) -> str:
    """A step for how much of a query's weight lies on its strongest block, on the whole."""
    rows = np.nan_to_num(np.asarray(image, np.float64))
    sums = rows.sum(axis=1)
    share = float((rows.max(axis=1) / np.where(sums > 0, sums, 1)).mean())
    return STEPS[min(7, int(share * 7.999))]


def small_of(image: NDArray[Any], most: int) -> NDArray[np.float32]:
    """``image`` with at most ``most`` pixels a side."""
    return shrink(np.asarray(image), -(-max(image.shape) // most))
