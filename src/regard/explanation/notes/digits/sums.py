"""Lists of numbers in a sentence, what equations come to, and the sums of both."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.parsing import NotUnderstood, Number, literal, parsed
from regard.explanation.sheet import Floats

_NUMBER = r"-?(?:\d+\.\d+|\d+)%?"


_BARE = re.compile(
    rf"(?<![\w.,(\[*/^+=-])(?<![*/^+=] )({_NUMBER}(?:\s*[,、]\s*(?:and )?{_NUMBER})*\s*(?:,? and|和|与|、|及|以及)\s*{_NUMBER})(?![\w.]*\d|\s*[*/^+=])"
)


_BRACKETS = re.compile(rf"(?<![\w)\]])[(\[]\s*({_NUMBER}(?:\s*,\s*{_NUMBER})+)\s*[)\]]")


_COMMAS = re.compile(
    r"(?<![\w.,(\[*/^+=-])(?<![*/^+=\[(] )(-?\d+\.\d+(?:, -?\d+\.\d+){2,})(?![\w.]*\d|\s*[*/^+=\])]|, \d)"
)
_SLASHES = re.compile(r"(?<![\w/.])(0?\.\d+(?:\s/\s0?\.\d+)+)(?![\w/])")


_RESULT = re.compile(
    r"=\s*(-?\d+(?:,\d{3})*(?:\.\d+)?)(?![\d.]*\s*(?:[*/+^=]|-\s*[\w(]))(?![\w.]*\d)"
)


def results(text: str) -> list[tuple[int, str]]:
    """The numbers that equations in ``text`` end with, and where they stand."""
    return [
        (match.start(1), match[1].replace(",", ""))
        for match in _RESULT.finditer(text)
        if not _SET.search(text[: match.start()])
    ]


_SET = re.compile(r"(?:^|[\s,，、(])(?:[ndhTLBHm]|d_\w+|batch\w*|seq\w*)\s*$")
"""What only says how long or wide something is."""


def remember(text: str, names: Names) -> None:
    """What several equations come to, in one sentence or one in each, is a list as well."""
    told = [float(number) for _, number in results(text)]
    mended = [_worked_out(text, start, float(number)) for start, number in results(text)]
    names.mended = [*names.mended, *mended] if len(told) == 1 else mended
    names.run = [*names.run, *told] if len(told) == 1 else told
    if len(names.run) > 1:
        names.lists = [np.array(names.run), *names.lists][:8]


def _worked_out(text: str, start: int, told: float) -> float:
    """What the equation whose result stands at ``start`` should have come to."""
    left = re.search(r"(?:^|[,，;；:：、]|and)\s*([^,，;；:：、=]+)=\s*$", text[:start])
    node = parsed(left[1].strip()) if left else None
    try:
        exact = value(node, Names()) if node is not None else np.array(told)
    except NotUnderstood:
        return told
    return float(exact) if exact.ndim == 0 else told


def lists_in(text: str) -> Iterator[tuple[int, Floats, Floats, str]]:
    """The lists in ``text``: where each stands, its numbers, their last digits, as written."""
    spans = sorted(
        (match.start(), match[1], match[0])
        for pattern in (_BARE, _BRACKETS, _SLASHES, _COMMAS)
        for match in pattern.finditer(text)
    )
    for start, inner, said in spans:
        numbers = re.findall(_NUMBER, inner)
        nodes = [literal(parsed(number) or Number("0")) for number in numbers]
        if 2 <= len(nodes) <= 12 and all(nodes):
            units = np.array([float(node[1]) for node in nodes if node])
            units[units >= 1] = units.min()  # the 0 of (0.2, 0.8, 0) is as exact as the rest
            yield start, np.array([float(node[0]) for node in nodes if node]), units, said
