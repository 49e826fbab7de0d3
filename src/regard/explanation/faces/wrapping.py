"""Where lines of prose break: between words, and between any two Chinese characters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, Paragraph

_UNIT = re.compile(r"\s+|[\u2e80-\u9fff\uff00-\uffef“”…—]|[^\s\u2e80-\u9fff\uff00-\uffef“”…—]+")
_CLOSING = "，。、；：？！）”…"
"""What may not begin a line."""


def breaks(text: str, width: int) -> list[int]:
    """Where the second and every further line of ``text`` begins: ``width`` cells hold each."""
    found: list[int] = []
    start = used = 0
    for unit in _UNIT.finditer(text):
        size = cell_len(unit[0])
        if used + size > width and unit[0] not in _CLOSING and text[start : unit.start()].strip():
            start, used = (unit.end() if unit[0].isspace() else unit.start()), 0
            found.append(start)
        used += size * (unit.end() > start)
    return found


def wrapped(text: str, width: int) -> Iterator[str]:
    """The lines of ``text``, without the spaces around them."""
    ends = [*breaks(text, width), len(text)]
    for start, end in zip([0, *ends], ends, strict=False):
        if line := text[start:end].strip():
            yield line


class _Paragraph(Paragraph):
    """A paragraph of Markdown whose Chinese does not wait for a space to break."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.divide(breaks(self.text.plain, options.max_width)):
            line.rstrip()
            yield line


class Prose(Markdown):
    """Markdown in a terminal, in English or Chinese."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "paragraph_open": _Paragraph,
    }
