"""Which lessons are done: one small file in the user's state folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

from regard.pictures.atomic import write_whole


def file() -> Path:
    """Where it is kept: $XDG_STATE_HOME/regard/learn.json, ~/.local/state unless set."""
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "regard" / "learn.json"


def done() -> set[int]:
    """The lessons whose exercise has been judged right; none where the file cannot be read."""
    try:
        return {int(number) for number in json.loads(file().read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError):
        return set()


def remember(number: int) -> None:
    """Adds one lesson."""
    path = file()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, [json.dumps(sorted({*done(), number})).encode()])
