"""What all pictures can do: be saved, be shown in a terminal, stand in a notebook.

A picture is a frozen value made of plain arrays.  It is drawn anew for each place: by matplotlib at
the size at which it is printed, so that its letters have the points that they are given, and in
letters and shades for a terminal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from regard._errors import UserError, ValueRangeError
from regard._words import Language, language_of_user
from regard.pictures.atomic import write_whole
from regard.pictures.phrases import Title

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from regard.pictures.canvas import Sheet

COLUMN, PAGE = 3.3, 6.9
"""How wide one column and a whole page of a paper are, in inches."""
TALL = 9.0
"""How high a page is."""
DPI = 300
"""Dots of a PNG an inch."""


class Picture(ABC):
    """A picture of attention, for a terminal, a file or a notebook.

    In a notebook the last line of a cell shows it.  ``dataclasses.replace`` changes a part of it,
    such as its ``title``.
    """

    title: Title

    def save(
        self, path: str | Path, lang: Language | None = None, width: float | None = None
    ) -> None:
        """Write the picture as PNG or SVG, as the suffix says: whole, or not at all.

        Args:
            path: the file; .png has 300 dots an inch, .svg has letters that can be searched, and
                carries the glyphs that it needs.
            lang: ``"en"`` or ``"zh"``; your locale's language unless given.
            width: in inches; a column (3.3) or a page (6.9) of a paper unless given.

        Raises:
            UserError: another suffix; a folder that cannot be written; a letter that no font has.
            ValueRangeError: a width that no letters fit in.
            MissingError: no matplotlib.
        """
        path = Path(path)
        kind = path.suffix.lower().removeprefix(".")
        if kind not in ("png", "svg"):
            raise UserError("picture.unknown-drawing", name=path.name)
        write_whole(path, [self._file(kind, lang, width)])

    def show(self, console: Console | None = None, lang: Language | None = None) -> None:
        """Print the picture to the terminal, or to a console of rich."""
        from rich.console import Console

        console = console or Console()
        for line in self._lines(console.width, lang or language_of_user()):
            line.rstrip()
            console.print(line, no_wrap=True, overflow="ellipsis", highlight=False)

    def _file(self, kind: str, lang: Language | None, width: float | None = None) -> bytes:
        from regard.pictures.canvas import drawn

        wide = self._width if width is None else width
        if not 2 <= wide <= 40:
            raise ValueRangeError(f"width must lie in 2 … 40 inches, but it is {width}")
        return drawn(self, kind, lang or language_of_user(), wide)

    def _repr_svg_(self) -> str:
        return self._file("svg", None).decode()

    def _repr_png_(self) -> bytes:
        return self._file("png", None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.title)!r})"

    @cached_property
    def _width(self) -> float:
        """Inches, unless others are asked for."""
        return COLUMN

    @abstractmethod
    def _words(self, lang: Language) -> list[str]:
        """Whatever is written on the picture and is no number, so that a font can be found."""

    @abstractmethod
    def _draw(self, width: float, lang: Language) -> Sheet:
        """The picture, ``width`` inches wide, in matplotlib's objects."""

    @abstractmethod
    def _lines(self, width: int, lang: Language) -> Iterator[Text]:
        """The picture in lines of at most ``width`` cells."""
