"""One matrix of weights, or of differences: rows are queries, columns are keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard._words import Language, say
from regard.pictures.axes import Axis, Words
from regard.pictures.canvas import (
    EDGE,
    INK,
    SMALL,
    SOFT,
    TEXT,
    TITLE,
    Scale,
    Sheet,
    measure,
    wrapped,
)
from regard.pictures.letters import blocks_of, grid_lines, heading, note
from regard.pictures.marks import MARKS
from regard.pictures.notable import narrowed, score
from regard.pictures.overview import Overview
from regard.pictures.phrases import CHANGE, KEY, QUERY, WEIGHT, Phrase, Title, told
from regard.pictures.picture import COLUMN, PAGE, TALL, Picture

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.text import Text

PITCH = 0.115
"""Inches from one name to the next along an axis, at least."""
CELLS = 64
"""The longest side of which every cell is a shape of its own, and no pixel."""
BAR = 0.8
"""Inches that the scale of colours takes."""


@dataclass(frozen=True, eq=False, repr=False)
class Matrix(Picture):
    """A matrix of weights: each query's row, over the keys.

    Tokens are named along the sides where there is room for all of them, else places are numbered;
    few cells have their numbers too.  Colours go by the square root, so that weak weights are
    seen.

    Args:
        weights: (h, w), one number an entry, or a block's mean where ``entries`` says so.
        rows, columns: what the queries and the keys are: :class:`Words`, :class:`Seconds` or
            :class:`Numbers`, or a list of tokens.
        title: what stands above.
        entries: how many queries by how many keys one number is the mean of.
        measure: what the numbers are.

    Raises:
        ShapeError: numbers that do not fit the sides.

    >>> Matrix(np.eye(2), ["a", "b"], ["c", "d"], "Mine")
    Matrix('Mine')
    """

    weights: NDArray[Any]
    rows: Axis | Sequence[str]
    columns: Axis | Sequence[str]
    title: Title = ""
    entries: tuple[int, int] = (1, 1)
    measure: Title = WEIGHT

    def __post_init__(self) -> None:
        for name, title in (("rows", QUERY), ("columns", KEY)):
            side = getattr(self, name)
            if not isinstance(side, Axis):
                object.__setattr__(self, name, Words(side, title))
        fits = tuple(-(-len(side) // n) for side, n in zip(self._sides, self.entries, strict=True))
        if np.shape(self.weights) != fits or 0 in fits:
            raise ShapeError(
                f"weights must be {fits[0]} × {fits[1]}, for {len(self._sides[0])} rows and "
                f"{len(self._sides[1])} columns, and hold something, but they are "
                f"{' × '.join(map(str, np.shape(self.weights)))}"
            )

    @classmethod
    def of(cls, overview: Overview) -> Matrix:
        """The matrix of an overview's only head, over the queries that were asked for."""
        (view,) = overview.heads()
        picture, rows = view.image, overview.tokens
        if overview.block == 1 and narrowed(overview):
            asked = list(overview.queries)
            picture, rows = picture[asked], tuple(rows[n] for n in asked)
        sides = (
            Words(rows, QUERY),
            Words(overview.tokens, KEY),
        )
        title = Phrase("picture.head-none" if view.role == "none" else "picture.head",
                       layer=view.layer, head=view.head, score=f"{score(view):.2f}",
                       role=Phrase(MARKS[view.role].name))  # fmt: skip
        return cls(picture, *sides, title, (overview.block, overview.block))

    @property
    def _sides(self) -> tuple[Axis, Axis]:
        return self.rows, self.columns  # type: ignore[return-value]

    @cached_property
    def _scale(self) -> Scale:
        return Scale.of(self.weights)

    @property
    def exact(self) -> bool:
        """Whether each number is one entry of the matrix."""
        return self.entries == (1, 1)

    def _note(self, lang: Language, entries: tuple[int, int] | None = None) -> str:
        rows, columns = entries or self.entries
        key = "picture.exact" if rows == columns == 1 else "picture.pooled"
        if self._scale.signed:
            key = "picture.exact-signed" if rows == columns == 1 else "picture.pooled-signed"
        return say(key, lang, rows=rows, columns=columns)

    @cached_property
    def _width(self) -> float:
        by_name = self._nameable()
        few = max(np.shape(self.weights)) <= 16 or not any(by_name)
        return COLUMN if few else PAGE

    def _nameable(self) -> list[bool]:
        """Of rows and columns, whether each place may have its name, if there is room."""
        room = (TALL - 2) / PITCH, (PAGE - 1.6) / PITCH
        return [
            entries == 1 and isinstance(side, Words) and len(side) <= most
            for side, most, entries in zip(self._sides, room, self.entries, strict=True)
        ]

    def _words(self, lang: Language) -> list[str]:
        names = [
            side.name(n)
            for side, named in zip(self._sides, self._nameable(), strict=True) if named
            for n in range(len(side))
        ]  # fmt: skip
        words = [told(self.title, lang), told(self.measure, lang), self._note(lang)]
        return [*words, *(told(side.title, lang) for side in self._sides), *names, "−"]

    def _draw(self, width: float, lang: Language) -> Sheet:
        rows, columns = self._sides
        h, w = np.shape(self.weights)
        wide, title, scale = measure(), told(self.title, lang), self._scale
        by_name = self._nameable()
        left = EDGE + 0.2 + (_widest(rows, wide) if by_name[0] else 0.24)
        across = width - left - BAR - EDGE
        by_name[1] = by_name[1] and across / w >= PITCH * 0.98
        turned = by_name[1] and _widest(columns, wide) > across / w - 0.03
        tall = _widest(columns, wide) if turned else 0.1
        lines = wrapped(title, width - 2 * EDGE, TITLE) if title else []
        notes = wrapped(self._note(lang), width - 2 * EDGE, SMALL)
        top = EDGE + 0.17 * len(lines) + (0.22 + tall if by_name[1] else 0.08)
        below = EDGE + (0.06 if by_name[1] else 0.34) + 0.115 * len(notes) + 0.04
        high = self._height(across, by_name[0], TALL - top - below)
        across = min(across, high * w / h) if by_name == [True, True] else across
        top = max(top, EDGE + 0.17 * len(lines) + 0.16)
        sheet = Sheet(width, top + high + below)
        sheet.title(lines)
        axes = sheet.axes(left, top, across, high)
        self._cells(axes, scale, (across / w, high / h))
        self._name(axes, by_name, turned)
        sheet.write(EDGE + 0.05, top + high / 2, told(rows.title, lang), color=SOFT, rotation=90,
                    ha="center")  # fmt: skip
        at = top - tall - 0.15 if by_name[1] else top + high + 0.27
        sheet.write(left + across / 2, at, told(columns.title, lang), color=SOFT, ha="center")
        words, tall_bar = told(self.measure, lang), min(max(high, 0.5), 1.6)
        sheet.bar((left + across + 0.1, top, 0.08, tall_bar), scale, "")
        beside = left + across + 0.1 + self._ticks(wide)
        sheet.write(beside, top + tall_bar / 2, words, SMALL, color=SOFT, rotation=270,
                    ha="center")  # fmt: skip
        sheet.notes(notes)
        return sheet

    def _ticks(self, wide: Callable[[str, float], float]) -> float:
        """From the left of the scale of colours to what its numbers are."""
        return float(0.25 + max(wide(text, SMALL) for _, text in self._scale.ticks()))

    def _height(self, across: float, named: bool, room: float) -> float:
        rows, columns = np.shape(self.weights)
        square = across * rows / columns
        if named:
            square = min(max(square, rows * PITCH), rows * 0.45)
        elif not np.shares_memory(rows, columns) and rows != columns:
            square = min(max(square, 0.6), across)
        return float(min(max(square, 0.2), room))

    def _cells(self, axes: Axes, scale: Scale, size: tuple[float, float]) -> None:
        h, w = np.shape(self.weights)
        axes.set(xlim=(0, w), ylim=(h, 0))
        if max(h, w) > CELLS:
            axes.imshow(scale.colours(self.weights), extent=(0, w, h, 0), aspect="auto",
                        interpolation="antialiased", gid="weights")  # fmt: skip
            return
        from matplotlib.collections import PolyCollection

        corners = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
        places = np.argwhere(np.ones((h, w)))[:, ::-1]
        seam = min(size) >= 0.07  # paper between the cells, where they are large enough
        colours = scale.hexes(np.asarray(self.weights).ravel())
        axes.add_collection(
            PolyCollection(
                places[:, None] + corners, facecolors=colours, gid="weights",
                edgecolors="white" if seam else "face", linewidths=0.5 if seam else 0.2,
            )
        )  # fmt: skip
        if self.exact and size[0] >= 0.25 and size[1] >= 0.13:
            self._numbers(axes, scale, lambda value: f"{value:.2f}".replace("-", "−"))
        elif scale.signed and min(size) >= 0.09:  # a sign that grey print keeps
            self._numbers(axes, scale, lambda value: "−" if value < -0.1 * scale.most else "")

    def _numbers(self, axes: Axes, scale: Scale, text: Any) -> None:
        for (y, x), value in np.ndenumerate(np.asarray(self.weights)):
            if abs(value) >= 0.005 and text(value):
                axes.text(x + 0.5, y + 0.53, text(value), ha="center", va="center", fontsize=SMALL,
                          color=scale.ink(value))  # fmt: skip

    def _name(self, axes: Axes, by_name: list[bool], turned: bool) -> None:
        for side, axis, named, per in zip(
            self._sides, (axes.yaxis, axes.xaxis), by_name, self.entries, strict=True
        ):
            if named:
                places = [n + 0.5 for n in range(len(side))]
                axis.set_ticks(places, [side.name(n) for n in range(len(side))])
                axis.set_tick_params(length=0, labelsize=TEXT, labelcolor=INK)
            else:
                ticks = side.ticks()
                half = 0.5 if self.exact and len(side) <= CELLS else 0.0
                axis.set_ticks([at / per + half for at, _ in ticks], [name for _, name in ticks])
        if by_name[1]:
            axes.xaxis.tick_top()
            axes.tick_params(axis="x", length=0, labelrotation=90 if turned else 0)
            axes.spines[:].set_visible(False)

    def _lines(self, width: int, lang: Language) -> Iterator[Text]:
        yield from heading(told(self.title, lang))
        values = np.asarray(self.weights, np.float64)
        blocks = blocks_of(values, self._sides, width)
        yield from grid_lines(values, self._scale, self._sides, self.entries, blocks)
        down, across = (n * k for n, k in zip(self.entries, blocks, strict=True))
        yield note(f"{told(self.measure, lang)} · {self._note(lang, (down, across))}")


@dataclass(frozen=True, eq=False, repr=False)
class Change(Matrix):
    """A matrix of differences: blue is less, white is none, orange is more.

    As a :class:`Matrix`, but colours go evenly, and a − marks what is less where a cell has no
    number, so that grey print keeps the sign.

    >>> Change(np.eye(2) - 0.5, ["a", "b"], ["a", "b"], "Mine")
    Change('Mine')
    """

    measure: Title = CHANGE

    @cached_property
    def _scale(self) -> Scale:
        return Scale(float(np.nanmax(np.abs(self.weights), initial=0.0)), signed=True)


def _widest(side: Axis, wide: Any) -> float:
    return float(max(wide(side.name(n), TEXT) for n in range(len(side))))
