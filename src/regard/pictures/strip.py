"""Weights over a running text: every token on the colour of its weight."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard._words import Language, say
from regard.pictures.axes import Numbers
from regard.pictures.canvas import EDGE, INK, SMALL, TEXT, TITLE, Scale, Sheet, measure, wrapped
from regard.pictures.letters import STEPS, heading, note
from regard.pictures.marks import shown
from regard.pictures.phrases import WEIGHT, Title, told
from regard.pictures.picture import COLUMN, PAGE, Picture

if TYPE_CHECKING:
    from rich.text import Text

LINE = 0.2
"""Inches from one line of text to the next."""
WRITTEN = 900
"""The most tokens that are written out; more are drawn as bars of colour."""
SCALE_BAR = 0.3


class Piece(NamedTuple):
    """A token as it stands in the running text."""

    at: int
    text: str
    space: bool
    """Whether a space stands before it."""
    ends: bool
    """Whether a line ends after it."""


@dataclass(frozen=True, eq=False, repr=False)
class Strip(Picture):
    """A text on the colours of its tokens' weights, which go by the square root.

    Tokens flow as they are read: with the spaces of the text, a line end where it has one, words
    unbroken, Chinese without gaps.  A text of more than 900 tokens is drawn as bars, whose places
    are numbered.

    Args:
        tokens: the text, token by token.
        weights: (T,), a number each.
        title: what stands above.
        measure: what the numbers are.
        marked: the places of tokens that are framed, such as the query.

    Raises:
        ShapeError: as many numbers as there are no tokens, or none.

    >>> Strip([" the", " cat"], [0.2, 0.8], "Mine")
    Strip('Mine')
    """

    tokens: Sequence[str]
    weights: NDArray[Any] | Sequence[float]
    title: Title = ""
    measure: Title = WEIGHT
    marked: Sequence[int] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", np.asarray(self.weights, np.float64))
        if np.shape(self.weights) != (len(self.tokens),) or not len(self.tokens):
            raise ShapeError(
                f"weights must be ({len(self.tokens)},), one for each token, and hold something, "
                f"but their shape is {np.shape(self.weights)}"
            )

    @property
    def _values(self) -> NDArray[np.float64]:
        return np.asarray(self.weights, np.float64)

    @property
    def _written(self) -> bool:
        return len(self.tokens) <= WRITTEN

    @cached_property
    def _pieces(self) -> list[Piece]:
        return pieces(self.tokens)

    @cached_property
    def _width(self) -> float:
        return COLUMN if self._written and len(self.tokens) <= 40 else PAGE

    def _words(self, lang: Language) -> list[str]:
        texts = [piece.text for piece in self._pieces] if self._written else []
        return [told(self.title, lang), told(self.measure, lang), *self._notes(lang), *texts]

    def _notes(self, lang: Language) -> list[str]:
        if self._written:
            return []
        return [say("picture.strip-long", lang, count=len(self.tokens))]

    def _draw(self, width: float, lang: Language) -> Sheet:
        wide, scale, title = measure(), Scale.of(self._values), told(self.title, lang)
        inner = width - 2 * EDGE
        titles = wrapped(title, inner, TITLE) if title else []
        notes = [line for text in self._notes(lang) for line in wrapped(text, inner, SMALL)]
        words = told(self.measure, lang)
        top = EDGE + 0.17 * len(titles) + 0.06
        boxes = self._boxes(inner, wide) if self._written else []
        lines = 1 + max((line for _, line, _, _ in boxes), default=0)
        body = lines * LINE if self._written else self._bars(inner)[0] * 0.32
        below = SCALE_BAR + EDGE + 0.115 * len(notes)
        sheet = Sheet(width, top + body + below)
        sheet.title(titles)
        if self._written:
            self._text(sheet, boxes, top, scale)
        else:
            self._rows(sheet, top, inner, scale)
        bar = min(1.4, inner - wide(words, SMALL) - 0.2)
        sheet.bar((EDGE + 0.04, top + body + 0.09, bar, 0.08), scale, words)
        sheet.notes(notes)
        return sheet

    def _boxes(self, inner: float, wide: Any) -> list[tuple[Piece, int, float, float]]:
        """Each piece with its line, where it begins and how wide it is."""
        found: list[tuple[Piece, int, float, float]] = []
        line, x, gap = 0, 0.0, wide("n", TEXT) * 0.55
        for group in _groups(self._pieces):
            sizes = [wide(piece.text, TEXT) + 0.025 + gap * piece.space for piece in group]
            if x and x + sum(sizes) > inner:
                line, x = line + 1, 0.0
            for piece, size in zip(group, sizes, strict=True):
                if x and x + size > inner:  # a word that is wider than the paper
                    line, x = line + 1, 0.0
                found.append((piece, line, x, size))
                x += size
                if piece.ends:
                    line, x = line + 1, 0.0
        return found

    def _text(self, sheet: Sheet, boxes: Any, top: float, scale: Scale) -> None:
        from matplotlib.patches import Rectangle

        plane = sheet.plane()
        plane.set_zorder(-1)
        colours = scale.hexes(self._values)
        for piece, line, x, size in boxes:
            y = top + line * LINE
            plane.add_patch(
                Rectangle((EDGE + x, y), size, LINE - 0.025, facecolor=colours[piece.at],
                          edgecolor="white", linewidth=0.4, gid=f"token-{piece.at}")
            )  # fmt: skip
            if piece.at in self.marked:
                plane.add_patch(
                    Rectangle((EDGE + x, y), size, LINE - 0.025, fill=False, edgecolor=INK,
                              linewidth=1.0, zorder=3)
                )  # fmt: skip
            sheet.write(EDGE + x + size - 0.0125, y + LINE / 2 - 0.005, piece.text, TEXT,
                        ha="right", color=scale.ink(self._values[piece.at]))  # fmt: skip

    def _bars(self, inner: float) -> tuple[int, int]:
        """How many bars a long text takes, and how many tokens stand in each."""
        rows = min(12, -(-len(self.tokens) // int(inner * 150)))
        return rows, -(-len(self.tokens) // rows)

    def _rows(self, sheet: Sheet, top: float, inner: float, scale: Scale) -> None:
        rows, each = self._bars(inner)
        for row in range(rows):
            values = self._values[row * each : (row + 1) * each]
            axes = sheet.axes(EDGE, top + row * 0.32, inner * len(values) / each, 0.16)
            axes.imshow(scale.colours(values)[None], aspect="auto", interpolation="antialiased",
                        extent=(0, len(values), 1, 0), gid=f"bar-{row}")  # fmt: skip
            first = row * each
            ticks = [at for at, _ in Numbers(len(self.tokens)).ticks(8 * rows)]
            inside = [at - first for at in ticks if first <= at < first + len(values)]
            axes.set(yticks=[], xticks=inside, xticklabels=[f"{at + first:g}" for at in inside])

    def _lines(self, width: int, lang: Language) -> Iterator[Text]:
        from rich.text import Text

        yield from heading(told(self.title, lang))
        scale, line, count = Scale.of(self._values), Text(), 0
        for group in _groups(self._pieces):
            texts = [self._cell(piece, scale) for piece in group]
            if line and line.cell_len + sum(text.cell_len for text in texts) > width:
                yield line
                line, count = Text(), count + 1
            if count == 40:
                left = len(self.tokens) - group[0].at
                yield note(say("picture.tokens-left", lang, count=left))
                break
            for text in texts:
                line.append_text(text)
            if group[-1].ends:
                yield line
                line, count = Text(), count + 1
        if line:
            yield line
        yield note(say("picture.strip-terminal", lang, measure=told(self.measure, lang),
                       most=f"{scale.most:.2g}"))  # fmt: skip

    def _cell(self, piece: Piece, scale: Scale) -> Text:
        """A token, and behind it a step as high as its weight, for terminals without colour."""
        from rich.text import Text

        value = self._values[piece.at]
        r, g, b = scale.colours(value).tolist()
        strength = abs(value) / scale.most
        step = STEPS[min(7, int((strength if scale.signed else strength**0.5) * 7.999))]
        ink = "white" if scale.ink(value) == "white" else "black"
        under = " underline" if piece.at in self.marked else ""
        return Text.assemble(
            " " if piece.space else "", (piece.text + step, f"{ink}{under} on rgb({r},{g},{b})")
        )


def pieces(tokens: Sequence[str]) -> list[Piece]:
    """The tokens as they stand in a running text.

    Where no token brings its space along (WordPiece, plain numbers), a space stands before each one
    that does not go on from the last by "##", is no punctuation, and is not Chinese after Chinese.

    >>> [(p.text, p.space) for p in pieces(["un", "##til", "now", "."])]
    [('un', False), ('til', False), ('now', True), ('.', False)]
    """
    spaced = any(token[:1].isspace() and token.strip() for token in tokens)
    found: list[Piece] = []
    last = ""
    for at, token in enumerate(tokens):
        text = shown(token)
        if spaced:
            space = token[:1] in (" ", "\u00a0") and bool(token.strip())
        else:
            goes_on = text.startswith("##") and len(text) > 2
            text = text[2:] if goes_on else text
            tight = _dense(last[-1:]) or _dense(text[0])
            space = not (goes_on or _closes(text) or tight)
        space = space and bool(last)
        found.append(Piece(at, text, space, "\n" in token))
        last = text
    return found


def _dense(letter: str) -> bool:
    """Whether ``letter`` is of a script that is written without spaces."""
    return bool(letter) and unicodedata.east_asian_width(letter) in "WF"


def _closes(text: str) -> bool:
    return len(text) == 1 and unicodedata.category(text) in ("Po", "Pe", "Pf")


def _groups(found: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Pieces that stay on one line: the parts of a word, and the punctuation behind it."""
    group: list[Piece] = []
    for piece in found:
        apart = piece.space or (_dense(piece.text[0]) and not _closes(piece.text))
        apart = apart or (bool(group) and (group[-1].ends or _dense(group[-1].text[-1])))
        if group and apart and not (_closes(piece.text) and not group[-1].ends):
            yield group
            group = []
        group.append(piece)
    if group:
        yield group
