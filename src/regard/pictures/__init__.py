"""Pictures of attention: arrays to terminal, PNG, SVG, HTML and JSON.

A ``Picture`` is made of plain arrays: ``Matrix`` and ``Change``, ``Links``, ``Strip``, ``Patches``,
``Distances``, ``Heads``.  An ``Overview`` holds all heads of a model over one text, for the
terminal, the page and JSON.  Nothing here knows of models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from regard._errors import UserError
from regard._words import Language
from regard.pictures.axes import Numbers, Seconds, Words
from regard.pictures.distances import Distances
from regard.pictures.document import json_bytes, json_document
from regard.pictures.heads import Head, Heads
from regard.pictures.links import Links
from regard.pictures.matrix import Change, Matrix
from regard.pictures.overview import ROLES, HeadView, Overview
from regard.pictures.patches import Patches
from regard.pictures.picture import Picture
from regard.pictures.strip import Strip

if TYPE_CHECKING:
    from rich.console import Console

PAGES = (".html", ".htm")
DRAWN = (".png", ".svg")
"""What matplotlib draws."""
SUFFIXES = (*PAGES, *DRAWN, ".json")
"""Every suffix that ``save`` takes."""

__all__ = [
    "DRAWN",
    "ROLES",
    "SUFFIXES",
    "Change",
    "Distances",
    "Head",
    "HeadView",
    "Heads",
    "Links",
    "Matrix",
    "Numbers",
    "Overview",
    "Patches",
    "Picture",
    "Seconds",
    "Strip",
    "Words",
    "json_document",
    "picture_of",
    "render",
    "save",
]


def render(overview: Overview, console: Console, lang: Language) -> None:
    """Prints the overview to a rich console: the grid of heads, and what looks at what."""
    # Here and not above: rich loads only where something is printed.
    from regard.pictures import terminal

    terminal.render(overview, console, lang)


def picture_of(overview: Overview) -> Picture:
    """The overview drawn: the matrix of its head where it has only one, else the grid of heads."""
    return Matrix.of(overview) if len(list(overview.heads())) == 1 else Heads.of(overview)


def save(
    overview: Overview,
    path: str | Path,
    lang: Language = "en",
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Saves the overview in the format that the suffix names: .html, .png, .svg or .json.

    The file is written whole or not at all.  ``progress`` is called with (layers written, layers
    in all) while a page grows.  Raises ``UserError`` for another suffix, a folder that cannot be
    written or a letter that no font has, and ``MissingError`` without matplotlib.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix in PAGES:
        from regard.pictures.page import save_page

        save_page(overview, path, lang, progress)
    elif suffix in DRAWN:
        picture_of(overview).save(path, lang)
    elif suffix == ".json":
        from regard.pictures.atomic import write_whole

        write_whole(path, [json_bytes(overview)])
    else:
        raise UserError("picture.unknown-format", name=path.name)
