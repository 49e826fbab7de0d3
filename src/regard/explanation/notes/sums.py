"""Lists of numbers in a sentence, what equations come to, and the sums of both."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from regard.explanation.notes.algebra import Names
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.equations import close, shown
from regard.explanation.notes.parsing import Number, literal, parsed
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


_SUM = re.compile(
    r"(?:output|answer|lookup|prediction|estimate|weighted (?:sum|average|mean)|result|答案|预测|输出|加权(?:和|平均)|结果)\s*(?:is|=|comes to|becomes|gives|of|would be|为|是|变成|变为|等于|得到?|就是|:|：)*\s*(?:about |约)?(-?\d+(?:\.\d+)?)(?![\d.]*\s*[*/+^])",
    re.I,
)


def check_weighted(line: int, text: str, names: Names) -> list[Verdict]:
    """A weighted sum in words: the weights, as many values, and what comes of them."""
    lists = [each for each in lists_in(text) if each[1].size > 1]
    told = _SUM.search(text)
    if (
        told
        and (
            weights := next((each for each in names.lists[:1] if abs(each.sum() - 1) < 0.02), None)
        )
        is not None
    ):
        for column in names.columns:
            number = literal(parsed(told[1]) or Number("0"))
            if column.shape != weights.shape or number is None or len(lists) > 1:
                continue
            right, slack = (
                float(weights @ column),
                0.0006 * float(np.abs(column).sum()) + float(number[1]),
            )
            if abs(right - float(number[0])) <= slack:
                return [Verdict(line, told[0], "right", "note.right")]
            if 0.3 < abs(float(number[0]) / (right or np.inf)) < 3:
                return [
                    Verdict(
                        line,
                        told[0],
                        "wrong",
                        "note.wrong",
                        {"right": shown(np.asarray(right), number[1])},
                    )
                ]
    if (
        not told
        or len(lists) != 2
        or lists[0][1].size != lists[1][1].size
        or told.start() < lists[1][0]
    ):
        return []
    one, other = lists[0][1], lists[1][1]
    if abs(one.sum() - 1) > 0.02 and abs(other.sum() - 1) > 0.02:
        return []
    claimed = literal(parsed(told[1]) or Number("0"))
    exact = np.asarray(one @ other)
    if claimed is None:
        return []
    slack = 0.5 * float(
        np.abs(other) @ lists[0][2] + np.abs(one) @ lists[1][2] if lists[0][2].max() < 0.1 else 0
    )
    if close(claimed[0], exact, claimed[1]) or abs(float(claimed[0] - exact)) <= slack:
        return [Verdict(line, text.strip(), "right", "note.right")]
    return [Verdict(line, text.strip(), "wrong", "note.wrong", {"right": shown(exact, claimed[1])})]


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
    names.run = [*names.run, *told] if len(told) == 1 else told
    if len(names.run) > 1:
        names.lists = [np.array(names.run), *names.lists][:8]


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
