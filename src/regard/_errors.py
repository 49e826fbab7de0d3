"""Every error that regard raises on purpose, as a tree.

::

    RegardError
    ├── ShapeError        (ValueError)  sizes that do not fit together
    ├── ValueRangeError   (ValueError)  a value outside what it may be
    ├── KindError         (TypeError)   the wrong kind of thing: a dtype, a raw bool array
    ├── EngineError       (ValueError)  an engine asked for by name that cannot do this call
    ├── MissingError      (ImportError) an extra that is not installed, with the install line
    └── UserError                       what the command line says in the user's language, exit 2

Each message names the argument, what was expected, what came, and the remedy.
"""

from __future__ import annotations

from regard._words import Language, say


class RegardError(Exception):
    """The root of the tree: ``except regard.RegardError`` catches every one of them."""


class ShapeError(RegardError, ValueError):
    """Sizes that do not fit together."""


class ValueRangeError(RegardError, ValueError):
    """A value outside what it may be."""


class KindError(RegardError, TypeError):
    """The wrong kind of thing: a dtype that cannot attend, a raw bool array for a mask."""


class EngineError(RegardError, ValueError):
    """An engine asked for by name that cannot do this call; it never falls back."""


class MissingError(RegardError, ImportError):
    """Something that is not installed; the message holds the line that installs it."""


class UserError(RegardError):
    """One clear sentence from the catalogue, in whichever language the user reads.

    ``str(error)`` is the English one; the command line prints ``error.say(lang)``.
    """

    def __init__(self, key: str, /, **values: object) -> None:
        self.key = key
        self.values = values
        super().__init__(say(key, "en", **values))

    def say(self, lang: Language) -> str:
        """The sentence in ``lang``."""
        return say(self.key, lang, **self.values)
