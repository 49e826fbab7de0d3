"""The catalogue of both languages: whatever a learner or user reads comes from here.

The entries live in ``words/*.toml``, one file a room, one table a key::

    [look.summary]
    en = "{layers} layers of {heads} heads"
    zh = "{layers} 层，每层 {heads} 个头"

``say("look.summary", "zh", layers=30, heads=9)`` fills the Chinese one.
"""

from __future__ import annotations

import locale
import os
import tomllib
from functools import cache
from importlib.resources import files
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


@cache
def catalogue() -> dict[str, dict[str, str]]:
    """Every entry as ``{key: {language: text}}``, keys dotted as ``room.name``."""
    entries: dict[str, dict[str, str]] = {}
    for file in sorted(files("regard.words").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            for room, table in tomllib.loads(file.read_text(encoding="utf-8")).items():
                for name, texts in table.items():
                    entries[f"{room}.{name}"] = texts
    return entries


def say(key: str, lang: Language = "en", /, **values: object) -> str:
    """The text of ``key`` in ``lang``, its ``{names}`` filled from ``values``."""
    return catalogue()[key][lang].format(**values)


def language_of_user() -> Language:
    """``"zh"`` where the locale is Chinese (LC_ALL, LC_MESSAGES, LANG), else ``"en"``."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := os.environ.get(name):
            return "zh" if value.lower().startswith("zh") else "en"
    return "zh" if (locale.getlocale()[0] or "").lower().startswith(("zh", "chinese")) else "en"
