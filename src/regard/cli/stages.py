"""What is being done, for whoever waits: a line on standard error while that is a terminal."""

from __future__ import annotations

import sys
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from regard._words import Language, say


class Stages:
    """One line that says what is being done, and how far it is where that can be told."""

    def __init__(self, lang: Language, **values: object) -> None:
        """``values`` fill the ``{names}`` of every stage's words."""
        self._lang, self._values = lang, values
        # The stream itself: what foreign code prints is redirected away, and this must not be.
        console = Console(file=sys.stderr)
        # Nobody waits where it is closed; and the console itself may be told to colour a pipe.
        waits = sys.stderr is not None and sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not waits,
        )
        self._task = self._progress.add_task("", total=None, count="", visible=False)

    def __enter__(self) -> Stages:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def begin(self, key: str, **values: object) -> None:
        """From now on the line says ``key``."""
        words = say(key, self._lang, **self._values, **values)
        self._progress.reset(self._task, description=words, total=None, count="", visible=True)

    def step(self, done: int, total: int) -> None:
        """``done`` of ``total`` parts of this stage are done."""
        self._progress.update(self._task, completed=done, total=total, count=f"{done}/{total}")
