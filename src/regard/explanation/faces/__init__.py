"""The faces of a trace: terminal, Markdown, JSON, notebook and the page."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from regard._errors import UserError
from regard._words import Language
from regard.explanation.trace import Trace
from regard.pictures.atomic import write_whole

SUFFIXES = (".html", ".htm", ".md", ".json")
"""Every suffix that ``save`` takes."""


def save(trace: Trace, path: str | Path, lang: Language) -> None:
    """Writes ``trace`` into ``path``, whole or not at all, in the format of its suffix."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError("explain.unknown-format", name=path.name)
    write_whole(path, [_writer(path.suffix.lower())(trace, lang).encode()])


def _writer(suffix: str) -> Callable[[Trace, Language], str]:
    """Loaded only where it is asked for."""
    if suffix == ".md":
        from regard.explanation.faces.markdown import markdown

        return markdown
    if suffix == ".json":
        from regard.explanation.faces.document import dumped

        return dumped
    from regard.explanation.faces.page import page

    return page
