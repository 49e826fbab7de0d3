"""A rule as one plain sentence, in English and Chinese."""

from __future__ import annotations

from regard._words import Language, say
from regard.rules.apart import Apart
from regard.rules.masks import (
    And,
    Causal,
    Lengths,
    Mask,
    Not,
    Or,
    Prefix,
    Where,
    Window,
)


def sentence(rule: Mask, lang: Language = "en") -> str:
    """What ``rule`` lets a query attend to.

    >>> from regard.rules.make import causal, window
    >>> sentence(causal() & window(3))
    'A query may attend to a key that is not after it, and is among the last 3 up to it.'
    """
    return say("rule.sentence", lang, clause=_clause(rule, lang))


def _clause(rule: Mask, lang: Language) -> str:
    match rule:
        case Causal():
            return say("rule.causal", lang)
        case Window(before, 0):
            return say("rule.window-back", lang, n=before + 1)
        case Window(before, after):
            return say("rule.window", lang, before=before, after=after)
        case Prefix(n):
            return say("rule.prefix", lang, n=n)
        case Lengths():
            return say("rule.lengths", lang)
        case Apart():
            return say("rule.documents", lang)
        case Where():
            return say("rule.where", lang, name=getattr(rule.fn, "__name__", "fn"))
        case And(left, right):
            return say("rule.and", lang, a=_part(left, lang), b=_part(right, lang))
        case Or(left, right):
            return say("rule.or", lang, a=_part(left, lang), b=_part(right, lang))
        case Not(inner):
            return say("rule.not", lang, a=_clause(inner, lang))
        case _:
            return say("rule.array", lang)


def _part(rule: Mask, lang: Language) -> str:
    """A joined rule within a joined rule stands in brackets, so that the sentence is not open."""
    clause = _clause(rule, lang)
    return say("rule.brackets", lang, a=clause) if isinstance(rule, And | Or) else clause
