"""Series that everyone knows: the frequencies of positions, the slopes of ALiBi, a triangle's rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.equations import close, shown
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import NotUnderstood, parsed
from regard.explanation.notes.words.facts import DENIED
from regard.explanation.sheet import Floats

_ONE = r"(?:2\s*\^\s*\(?-?\d+(?:\.\d+)?\)?|\d+/\d+|\d*\.?\d+)"
_LIST = re.compile(
    rf"(?<![\w.])({_ONE}(?:\s*[,、]\s*(?:and )?{_ONE})*(?:\s*(?:,? and|和|与)\s*{_ONE})?)(?:\s*(?:,\s*)?(\.\.\.|…))?"
)
_ITEMS = re.compile(_ONE)


def _frequencies(width: int) -> Floats:
    return np.asarray(10000.0 ** (-2 * np.arange(width // 2) / width))


def _slopes(heads: int) -> Floats:
    return np.asarray(2.0 ** (-8 * np.arange(1, heads + 1) / heads))


_SERIES: Sequence[tuple[str, str, Callable[[int], Floats]]] = (
    (
        r"frequenc\w*|\bomega|角?频率",
        r"\bd(?:_?model|_?k)?\s*=\s*(\d+)|(\d+)[- ]*(?:dimension\w*|dim\b|wide|维)|width (?:of )?(\d+)|宽度?\s*(\d+)",
        _frequencies,
    ),
    (r"slopes?|斜率", r"(\d+)\s*heads|\bH\s*=\s*(\d+)|\bh\s*=\s*(\d+)|(\d+)\s*个?头", _slopes),
)


def check_series(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict on the members of a series that a sentence lists."""
    said = re.sub(r"[`$]", "", sentence).strip()
    text = plain(said).replace("\\ldots", "...").replace("\\dots", "...")
    if DENIED.search(text):
        return []
    for name, size, series in _SERIES:
        about, told = re.search(name, text, re.I), re.search(size, text, re.I)
        if not about or not told:
            continue
        right = series(int(next(filter(None, told.groups()))))
        for match in _LIST.finditer(text, about.end()):
            if told.start() <= match.start() < told.end():
                continue
            if re.match(r"\s*[\^*/]", text[match.end() :]):
                continue  # the last of them is a formula
            claimed, units = _numbers(match[1])
            if len(claimed) < 2 or not (
                len(claimed) == len(right) or (match[2] and len(claimed) < len(right))
            ):
                continue
            row = right[: len(claimed)]
            if all(map(close, claimed, row, units)):
                return [Verdict(line, said, "right", "note.right")]
            if not close(claimed[0], row[0], units[0]) and not close(
                claimed[0], right[0] / 2, units[0]
            ):
                return []
            smallest = np.minimum(units, 10.0 ** np.floor(np.log10(row)))
            return [Verdict(line, said, "wrong", "note.wrong", {"right": shown(row, smallest)})]
    return []


def _numbers(text: str) -> tuple[list[Floats], list[Floats]]:
    claimed, units = [], []
    for each in _ITEMS.findall(text):
        node = parsed(each)
        try:
            claimed.append(value(node, Names()) if node is not None else np.array(np.nan))
        except NotUnderstood:
            claimed.append(np.array(np.nan))
        digits = each.partition(".")[2] if re.fullmatch(r"[\d.]+", each) else "0" * 9
        units.append(np.array(10.0 ** -len(digits)))
    return claimed, units
