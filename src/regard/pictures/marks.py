"""The marks that every picture shares: how a token, a role and a weight look.

One place, so that a role has the same letter and colour in the terminal, the PNG and the page.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from regard._words import Language, say


@dataclass(frozen=True)
class Mark:
    """How one role looks, and the catalogue keys of its words."""

    colour: str
    """Of Paul Tol's schemes "bright", "vibrant" and "muted", which colour-blind readers can tell
    apart."""
    letter: str
    name: str
    about: str


MARKS: dict[str, Mark] = {
    "previous": Mark("#4477AA", "role.previous-letter", "role.previous", "role.previous-about"),
    "next": Mark("#66CCEE", "role.next-letter", "role.next", "role.next-about"),
    "first": Mark("#CCBB44", "role.first-letter", "role.first", "role.first-about"),
    "same": Mark("#AA3377", "role.same-letter", "role.same", "role.same-about"),
    "separator": Mark("#228833", "role.separator-letter", "role.separator", "role.separator-about"),
    "duplicate": Mark("#EE7733", "role.duplicate-letter", "role.duplicate", "role.duplicate-about"),
    "induction": Mark("#332288", "role.induction-letter", "role.induction", "role.induction-about"),
    "positional": Mark(
        "#44AA99", "role.positional-letter", "role.positional", "role.positional-about"
    ),
    "dead": Mark("#555555", "role.dead-letter", "role.dead", "role.dead-about"),
    "broad": Mark("#EE6677", "role.broad-letter", "role.broad", "role.broad-about"),
    "none": Mark("#999999", "role.none-letter", "role.none", "role.none-about"),
}
"""One entry a role, in the order of ``overview.ROLES``."""

# Few fonts hold the pictures of controls at U+2400; these arrows, nearly all do.
_ARROWS = {0x09: "⇥", 0x0A: "↵", 0x2028: "↵", 0x2029: "↵"}
# Joiners and variation selectors build emoji and Persian words; alone they are invisible.
_JOINERS = {0x200C, 0x200D, 0xFE0E, 0xFE0F}


def shown(token: str) -> str:
    r"""``token`` as a reader can see it: no control acts, nothing is invisible.

    >>> shown("\n"), shown(" it"), shown("  "), shown("")
    ('↵', 'it', '␣␣', '∅')
    """
    if not token:
        return "∅"
    token = "".join(" " if unicodedata.category(letter) == "Zs" else letter for letter in token)
    if not token.strip(" "):
        return "␣" * len(token) if len(token) <= 4 else f"␣×{len(token)}"
    token = token.strip(" ")
    if unicodedata.category(token[0]).startswith("M"):
        token = "◌" + token  # an accent needs something to stand on
    return "".join(_seen(letter, len(token) == 1) for letter in token)


def _seen(letter: str, alone: bool) -> str:
    code = ord(letter)
    if code in _ARROWS:
        return _ARROWS[code]
    if code < 0x20 or code == 0x7F:
        return "^" + chr(code ^ 0x40)  # as terminals have always told them: ^[ is escape
    if code in _JOINERS and not alone:
        return letter
    kind = unicodedata.category(letter)
    if kind == "Cs":
        return "\N{REPLACEMENT CHARACTER}"  # half of a pair: no encoding can print it
    # C1 controls steer terminals and bidi marks turn a line around, so both are spelt out.
    return f"⟨{code:04X}⟩" if kind in ("Cc", "Cf") else letter


def role_name(role: str, lang: Language) -> str:
    """The role's name in ``lang``."""
    return say(MARKS[role].name, lang)


def clipped(text: str, cells: int) -> str:
    """At most ``cells`` characters of ``text``, with an ellipsis where some are left out."""
    return text if len(text) <= cells else text[: cells - 1] + "…"
