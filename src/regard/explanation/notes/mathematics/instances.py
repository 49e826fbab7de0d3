"""A formula, and then its values: "n(n+1)/2; n = 20: 210, n = 40: 820".

The formula stands in the sentence or shortly before it, and nobody repeats it.  A value is wrong
where the formula is certain: another value of the list is the formula's, or the wrong one is near.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.cutting import pieces
from regard.explanation.notes.mathematics.equations import differs, mistake
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import (
    Node,
    NotUnderstood,
    Number,
    literal,
    names_of,
    parsed,
)
from regard.explanation.sheet import Floats

MOST = 6
"""Formulas that a reader still has in mind."""
_NUMBER = r"(?>\d{1,3}(?:,\d{3})+(?!\d|\.\d)|\d+(?:\.\d+)?)"
_NAME = r"(?<![\w=])[A-Za-z](?:_?\w{1,5})?"
_SET = rf"{_NAME}\s*=\s*{_NUMBER}(?!\s*[*/^+])"
_LONG = rf"(?:长度?为?|length|序列长)\s*(?P<n3>{_NUMBER})"
_AND = r"\s*(?:,\s*(?:and )?|and|、|且|和|与)\s*"
_LINK = (
    r"\s*(?:,|tokens|个?词元?)?\s*(?:的?时候?,?|的话,?|for|we (?:get|have)|you get|it (?:is|would be|becomes|gives)"
    r"|th(?:is|at|ese|ose) (?:is|are|gives|makes|means)|there are|gives|is|yields|就?(?:共|总共)?(?:有|为|是|得到?|等于)|则为|结果[为是]|[:：=]|->|→)+"
    r"\s*(?:about |约)?(?:[A-Za-z|][\w|^]{0,6}\s*=\s*)?"
)
_END = r"(?=\s*(?:$|[.,;。；、)!]|and\b|which\b|numbers|entries|pairs|products|multiplications|[次个对](?!\s*(?:头|层|词|序列|样本|token))))"
_ITEM = re.compile(rf"(?P<set>{_SET}(?:{_AND}{_SET})*){_LINK}(?P<value>-?{_NUMBER}){_END}")
_TOKENS = re.compile(
    rf"(?:(?P<n>{_NUMBER}) (?:tokens|words|positions)|(?P<n2>{_NUMBER})\s*个(?:词元|词|位置)|{_LONG}){_LINK}(?P<value>{_NUMBER}){_END}"
)
_BEHIND = re.compile(
    rf"(?<![\w.,=*/^+-])(?<![=*/^+-] )(?P<value>{_NUMBER})(?: \w+)?\s*(?:(?:for|at|when|if)\s|\()\s*(?P<set>{_SET}(?:{_AND}{_SET})*)"
)
_LIST = re.compile(
    rf"(?P<name>{_NAME})\s*=\s*(?P<sets>{_NUMBER}(?:{_AND}{_NUMBER})+){_LINK}(?P<values>{_NUMBER}(?:{_AND}{_NUMBER})+)"
)
_KNOWN = [
    (words, node)
    for words, text in (
        (r"causal|\btril\b|lower[- ]triang|因果|下三角", "n(n+1)/2"),
        (r"\btriu\b|upper[- ]triang|hidden pairs|上三角", "n(n-1)/2"),
    )
    if (node := parsed(text)) is not None
]
"""What goes without saying."""


@dataclass(frozen=True)
class Item:
    """A value, and what the names of its formula are."""

    said: str
    names: dict[str, float]
    value: str


def formulas_of(text: str) -> list[Node]:
    """The expressions in ``text`` that hold names, and no number to compare them with."""
    found: list[Node] = []
    for piece in pieces(plain(re.sub(r"[`$*]{2,}|[`$]", "", text))):
        node = parsed(piece)
        if node is None or isinstance(node, Number) or node[0] in ("name", "list", "neg"):
            continue
        if names_of(node) and len(piece) < 60:
            found.append(node)
    return found


def known(text: str) -> list[Node]:
    """The formulas that go without saying where ``text`` speaks of a triangle."""
    return [node for words, node in _KNOWN if re.search(words, text, re.I)]


def check_instances(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict for each value of a formula that was said before it."""
    new = formulas_of(sentence)
    new += known(sentence)
    names.formulas = [*new, *(node for node in names.formulas if node not in new)][:MOST]
    text = plain(re.sub(r"[`$]|\*\*", "", sentence))
    items = list(_items(text))
    if not items or not names.formulas:
        return []
    agreed = [node for node in names.formulas if any(_agrees(node, item, names) for item in items)]
    names.trusted = [*agreed, *names.trusted][:MOST]
    found = []
    for item in items:
        verdict = _judge(line, item, names)
        if verdict:
            found.append(verdict)
    return found


def _items(text: str) -> Iterator[Item]:
    for match in _LIST.finditer(text):
        sets, values = (re.findall(_NUMBER, match[part]) for part in ("sets", "values"))
        if len(sets) == len(values):
            for one, other in zip(sets, values, strict=True):
                said = f"{match['name']} = {one}: {other}"
                yield Item(said, {match["name"]: _float(one)}, other)
            return
    for match in (*_ITEM.finditer(text), *_BEHIND.finditer(text)):
        told = {
            each.partition("=")[0].strip(): _float(each.partition("=")[2])
            for each in re.findall(_SET, match["set"])
        }
        yield Item(match[0].strip(" ,("), told, match["value"])
    for match in _TOKENS.finditer(text):
        yield Item(
            match[0], {"n": _float(match["n"] or match["n2"] or match["n3"])}, match["value"]
        )


def _float(text: str) -> float:
    return float(text.replace(",", ""))


def _right(node: Node, item: Item, names: Names) -> tuple[Floats | None, tuple[Floats, Floats]]:
    """The right value of ``item``, None where it is right, and what was claimed."""
    local = names.copy(**{name: np.array(value) for name, value in item.names.items()})
    used = {part for name in names_of(node) for part in local.split(name)}
    target = literal(parsed(item.value) or Number("0"))
    if not used >= item.names.keys() or target is None:
        raise NotUnderstood(item.said)
    right = differs(node, target, local)
    if right is not None and right.ndim:
        raise NotUnderstood(item.said)
    return right, target


def _agrees(node: Node, item: Item, names: Names) -> bool:
    try:
        return _right(node, item, names)[0] is None
    except NotUnderstood:
        return False


def _judge(line: int, item: Item, names: Names) -> Verdict | None:
    """Right by any formula; wrong by the one that the list is about."""
    wrong: list[tuple[Node, Floats, tuple[Floats, Floats]]] = []
    for node in names.formulas:
        try:
            right, target = _right(node, item, names)
        except NotUnderstood:
            continue
        if right is None:
            return Verdict(line, item.said, "right", "note.right")
        wrong.append((node, right, target))
    near = [each for each in wrong if _near(item.value, float(each[1]))]
    sure = [each for each in near or wrong if each[0] in names.trusted]
    told = sure or near
    values = {round(float(each[1]), 6) for each in told}
    return mistake(line, item.said, told[0][1], told[0][2]) if len(values) == 1 else None


def _near(said: str, right: float) -> bool:
    """Whether who wrote ``said`` meant ``right``: it is within a quarter, or of the same digits."""
    digits = re.sub(r"\D", "", said)
    same = sorted(digits) == sorted(f"{right:.{len(said.partition('.')[2])}f}".replace(".", ""))
    return same or 0.75 <= _float(said) / (right or np.inf) <= 1.25
