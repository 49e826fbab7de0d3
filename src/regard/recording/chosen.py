"""Which tokens of a long text are worth all weights between them, before any weight is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

CHOSEN = 200
"""How many tokens have all their weights among each other kept exactly."""
LAST = 60
"""How many of them are the text's end: from there the model goes on."""


def choose(
    tokens: Sequence[str],
    separators: Collection[int] = (),
    asked: Sequence[int] = (),
    count: int = CHOSEN,
) -> tuple[int, ...]:
    """Up to ``count`` positions of ``tokens``, ascending.

    They are, until there are enough: the tokens asked for, the first one, where sinks lie, the
    last ``LAST``, and every place of the words that come again, the rarest words first: a head
    that follows names or copies links one place of a word to another.

    >>> choose(["Ann", " met", " a", " boy", ".", " a", " boy", " ran"], {4}, count=5)
    (0, 2, 5, 6, 7)
    >>> choose(["one", " two", " three"])
    (0, 1, 2)
    """
    if len(tokens) <= count:
        return tuple(range(len(tokens)))
    last = min(LAST, count // 2)
    found = dict.fromkeys([*asked, 0, *range(len(tokens) - last, len(tokens))])
    places: defaultdict[str, list[int]] = defaultdict(list)
    for at, token in enumerate(tokens):
        if at not in separators and any(letter.isalnum() for letter in token):
            places[token.strip().casefold()].append(at)
    again = sorted((here for here in places.values() if len(here) > 1), key=len)
    alone = (here for here in places.values() if len(here) == 1)
    for here in (*again, *alone):
        if len(found) >= count:
            break
        found.update(dict.fromkeys(here))
    return tuple(sorted(list(found)[:count]))
