"""Words on a picture that are chosen when its language is known."""

from __future__ import annotations

from typing import Any

from regard._words import Language, say


class Phrase:
    """An entry of the catalogue and its values, to be said in either language."""

    def __init__(self, key: str, /, **values: Any) -> None:
        self.key, self.values = key, values

    def say(self, lang: Language) -> str:
        """The words in ``lang``; a value that is a phrase is said in it too."""
        return say(self.key, lang, **{name: told(of, lang) for name, of in self.values.items()})

    def __repr__(self) -> str:
        return self.say("en")


Title = str | Phrase
"""What is written on a picture: your own words, or words of the catalogue."""


def told(what: Any, lang: Language) -> Any:
    """``what`` in ``lang`` where it is a phrase, else as it is."""
    return what.say(lang) if isinstance(what, Phrase) else what


WEIGHT, CHANGE = Phrase("picture.weight"), Phrase("picture.change")
QUERY, KEY, SECONDS = Phrase("picture.query"), Phrase("picture.key"), Phrase("picture.seconds")
