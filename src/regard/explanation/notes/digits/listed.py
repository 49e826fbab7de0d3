"""Lists of numbers that a note puts one after another: scores, and then their weights.

"Scores 2, 0 and −1 … so the weights come out as 0.844, 0.114 and 0.042": nobody writes an equals
sign between them.  A list that is nearly one that the lists before it lead to is wrong; weights that
do not sum to 1 are wrong whatever they come from.
"""

from __future__ import annotations

import re

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.digits.figures import check_figures
from regard.explanation.notes.digits.sums import lists_in, remember
from regard.explanation.notes.digits.worked import (
    Claim,
    check_claims,
    kinds_of,
    meet,
    position_of,
    row_of,
)
from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.cutting import pieces
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import (
    NotUnderstood,
    Number,
    literal,
    names_of,
    parsed,
)
from regard.explanation.notes.words.facts import DENIED, NOT
from regard.explanation.sheet import Floats

_TEMPERATURE = re.compile(
    r"(?:\bT|\btau|temperature|温度)\s*(?:=|of|is|为|是|取|:)?\s*(\d+(?:\.\d+)?)", re.I
)
_WEIGHTS = re.compile(r"weights?\b|softmax|probabilit|distribution|权重|概率|分布", re.I)
_OTHER = re.compile(
    r"shape|size|index|indices|position|\brows? \d|token|heads?\b|layers|vectors?\b(?! of weights)|形状|位置|维|第\s*\d|词元"
    r"|unnormali[sz]ed|not (?:yet )?normali[sz]ed|before normali[sz]|do(?:es)? not sum|加权和|weighted sum|values? (?:is|are)",
    re.I,
)
_IS_INPUT = re.compile(
    r"(?:\(|softmax(?: to| of| over| on)?)\s*#|#\s*(?:的|做|取|求|进行|应用)*\s*softmax", re.I
)
"""What a softmax is taken of, at #."""
_BESIDE = re.compile(
    r"\b(?:instead of|without|rather than|not only)\b|没有|不缩放|不除以|不加掩码|如果不\w{1,4}",
    re.I,
)
"""What denies another thing than the numbers."""
_MOST = 120


def check_lists(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict for each list in ``sentence`` that follows from the lists before it."""
    meet(sentence, names)
    text = plain(re.sub(r"[`$]", "", sentence)).replace("\\", " ")
    silent = DENIED.search(text) or NOT.search(_BESIDE.sub("", text))
    found: list[Verdict] = []
    if kinds_of(text) and not any(True for _ in lists_in(text)):
        names.speaking = text[-90:]
    names.divisors = _divisors(text)
    names.angles = [*_angles(text, names), *names.angles][:6]
    rows: list[Claim] = []
    for start, claimed, units, said in lists_in(text):
        if _MATRIX_ROW.search(text[:start]) and claimed.size > 1:
            rows = [] if text[:start].endswith("[") else rows
            words = text[: text.rfind("[[", 0, start + 1)][-60:]
            if _EXPRESSION.search(words):
                continue
            words = words if kinds_of(words) else f"{names.speaking} {words}"
            name = _NAMED.search(text[: text.rfind("[[", 0, start + 1)])
            matrix = name[1] if name else ""
            rows.append(Claim(line, said, claimed, units, words, len(rows), name=matrix))
            continue
        denied = silent or NOT.search(_BESIDE.sub("", text[max(0, start - 40) : start]))
        if not denied and not _IS_INPUT.search(f"{text[:start]}#{text[start + len(said) :][:12]}"):
            claim = _claim(line, said, claimed, units, text, start, names)
            verdicts = [] if _EXPRESSION.search(text[:start]) else check_claims([claim], names)
            verdicts = verdicts or _shares(claim, text, start)
            found += verdicts
            if any(verdict.status == "wrong" for verdict in verdicts):
                continue  # nobody goes on from it
        names.lists = [claimed, *names.lists][:8]
    if not silent:
        found += check_claims(rows, names)
        found += check_figures(line, text, names)
    remember(text, names)
    for node in (parsed(piece) for piece in pieces(text)):
        if node is None or isinstance(node, Number) or literal(node) is not None:
            continue
        try:  # "softmax([1, 3])", which the answer will give
            vector = value(node, names)
        except NotUnderstood:
            continue
        if vector.ndim == 2 or (vector.ndim == 1 and vector.size <= 12 and not names_of(node)):
            names.awaited = [vector, *names.awaited][:4]
    return found


_MATRIX_ROW = re.compile(r"\[(?:\[[^\[\]]*\],? ?)*$")
"""What stands before a row of a matrix."""
_EXPRESSION = re.compile(r"(?:(?<![\w.])[\d.]+|[)\]*/+]|\^\w+|\w \+ \w+)\s*=\s*[\[(]*$")
"""What is worked out as an equation."""


def _claim(
    line: int, said: str, claimed: Floats, units: Floats, text: str, start: int, names: Names
) -> Claim:
    """A list with the words around it, those of the sentence before it where it has none."""
    before = re.split(r"[\])]", text[:start].rstrip("[( "))[-1][-90:]
    after = re.split(r"[\d\[(.,，;。；]|\band\b", text[start + len(said) :])[0][:24]
    words = f"{before} {after}"
    if own := kinds_of(words):
        names.speaking = words
    else:
        words = f"{names.speaking} {words}"
    last = [*lists_in(text[:start])][-1:]
    near = last and last[0][1].shape == claimed.shape
    between = text[last[0][0] + len(last[0][3]) : start] if near else ""
    source = last[0][1] if near and not re.search(r"\d", between) and len(between) < 40 else None
    name = _NAMED.search(text[:start])
    return Claim(
        line, said, claimed, units, words, row_of(before, names), position_of(words),
        before=source, since=last[0][1] if own and len([*lists_in(text[:start])]) == 1 else None,
        name=name[1] if name else "",
    )  # fmt: skip


_NAMED = re.compile(r"([A-Za-z]\w*)\s*=\s*[\[(]?$")


def _shares(claim: Claim, text: str, start: int) -> list[Verdict]:
    """Weights that do not sum to 1, whatever they come from."""
    numbers, units = claim.numbers, claim.units
    around = text[:start] + text[start + len(claim.said) :][:24]
    if not _WEIGHTS.search(around) or _OTHER.search(text) or numbers.size < 2:
        return []
    off = abs(float(numbers.sum()) - 1)
    if float(units.max()) > 0.01 or (numbers < 0).any() or (numbers > 1).any():
        return []
    if not 0.75 * units.sum() + 1e-9 < off < 0.35:
        return []
    right = {"right": f"Σ = 1 ≠ {numbers.sum():.4g}"}
    return [Verdict(claim.line, claim.said, "wrong", "note.wrong", right)]


_ANGLE = re.compile(
    r"(?:\bby|\bangles?|rotat\w+|旋转|角度?)\D{0,12}?(-?\d+(?:\.\d+)?)(\*pi/180)?(?![\d.]*\s*[,*])"
)


def _angles(text: str, names: Names) -> list[float]:
    """What a sentence turns vectors by: an angle, or that of a position."""
    if not re.search(r"rotat|RoPE|旋转", text + names.heading, re.I):
        return []
    theta = next(
        (
            float(names.values[t])
            for t in ("theta",)
            if t in names.values and not names.values[t].ndim
        ),
        1.0,
    )
    told = [float(one) * (np.pi / 180 if other else 1.0) for one, other in _ANGLE.findall(text)]
    places = re.findall(r"(?:position|\bm\s*=|\bn\s*=|位置)\s*(\d{1,2})(?!\d)", text)
    return [*told, *(float(place) * theta for place in places)]


def _divisors(text: str) -> list[float]:
    """What a sentence divides by, a temperature among it."""
    found = re.findall(
        r"(?:divid\w+|scal\w+)[^.,;]{0,20} by (sqrt\(\d+\)|\d+(?:\.\d+)?)|除以\s*(sqrt\(\d+\)|\d+(?:\.\d+)?)",
        text,
    )
    nodes = [parsed(one or other) for one, other in found]
    by = [float(value(node, Names())) for node in nodes if node is not None]
    return [each for each in [*by, *map(float, _TEMPERATURE.findall(text))] if each > 0]
