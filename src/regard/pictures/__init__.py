"""Pictures of attention: arrays to terminal, PNG, SVG, HTML and JSON.

Each writer takes an ``Overview`` and a language, and knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from regard._errors import UserError
from regard._words import Language
from regard.pictures.document import json_bytes, json_document
from regard.pictures.overview import ROLES, HeadView, Overview

if TYPE_CHECKING:
    from rich.console import Console

PAGES = (".html", ".htm")
DRAWN = (".png", ".svg")
"""What matplotlib draws."""
SUFFIXES = (*PAGES, *DRAWN, ".json")
"""Every suffix that ``save`` takes."""

__all__ = ["DRAWN", "ROLES", "SUFFIXES", "HeadView", "Overview", "json_document", "render", "save"]


def render(overview: Overview, console: Console, lang: Language) -> None:
    """Prints the overview to a rich console: the grid of heads, and what looks at what."""
    # Here and not above: rich loads only where something is printed.
    from regard.pictures import terminal

    terminal.render(overview, console, lang)


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
        from regard.pictures.figure import save_picture

        save_picture(overview, path, lang)
    elif suffix == ".json":
        from regard.pictures.atomic import write_whole

        write_whole(path, [json_bytes(overview)])
    else:
        raise UserError("picture.unknown-format", name=path.name)
