"""Lists of numbers that a note puts one after another: scores, and then their weights.

"Scores 2, 0 and −1 … so the weights come out as 0.844, 0.114 and 0.042": nobody writes an equals
sign between them.  A list that is nearly one that the lists before it lead to is wrong; weights that
do not sum to 1 are wrong whatever they come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

import numpy as np

from regard.core import formula
from regard.explanation.notes.algebra import Names, value
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.cutting import pieces
from regard.explanation.notes.derived import matrices
from regard.explanation.notes.equations import close, shown
from regard.explanation.notes.facts import DENIED, NOT
from regard.explanation.notes.mathtext import plain
from regard.explanation.notes.parsing import NotUnderstood, Number, literal, names_of, parsed
from regard.explanation.notes.sums import check_sums, check_weighted, lists_in, remember
from regard.explanation.notes.worked import Claim, check_claims, kinds_of, meet, row_of
from regard.explanation.positions import sinusoids
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
    r"(?:[=(]|softmax(?: to| of| over| on)?)\s*#|#\s*(?:的|做|取|求|进行|应用)*\s*softmax", re.I
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
    found = [] if silent else check_sums(line, text, names) + _places(line, text, names)
    rows: list[Claim] = []
    for start, claimed, units, said in lists_in(text):
        if _MATRIX_ROW.search(text[:start]) and claimed.size > 1:
            rows = [] if text[:start].endswith("[") else rows
            words = text[: text.rfind("[[", 0, start + 1)][-60:]
            if _EXPRESSION.search(words):
                continue
            words = words if kinds_of(words) else f"{names.speaking} {words}"
            rows.append(Claim(line, said, claimed, units, words, len(rows)))
            continue
        denied = silent or NOT.search(_BESIDE.sub("", text[max(0, start - 40) : start]))
        if not denied and not _IS_INPUT.search(f"{text[:start]}#{text[start + len(said) :][:12]}"):
            verdict = (
                _follows(line, said, claimed, units, text[:start], names)
                or _rectified(line, said, claimed, text[:start], names)
                or _judge(line, said, claimed, units, text, start, names)
                or _columns(line, said, claimed, units, text[:start], names)
            )
            if verdict:
                found.append(verdict)
            elif not _EXPRESSION.search(text[:start]):
                claim = _claim(line, said, claimed, units, text, start, names)
                found += check_claims([claim], names)
        names.lists = [claimed, *names.lists][:8]
    if not silent:
        found += check_claims(rows, names)
        found += check_weighted(line, text, names)
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
_EXPRESSION = re.compile(r"(?:(?<![\w.])[\d.]+|[)\]*/+]|\^\w+)\s*=\s*[\[(]*$")
"""What is worked out as an equation."""
_SCORED = re.compile(r"scores?|logits|分数|得分", re.I)
_OTHERWISE = re.compile(
    r"divid|scal|temper|\bmask|causal|output|除以|缩放|温度|掩|因果|输出|exp|sqrt", re.I
)


_MASKED = re.compile(r"\bmask|causal|掩码|因果|遮", re.I)


def _follows(
    line: int, said: str, claimed: Floats, units: Floats, before: str, names: Names
) -> Verdict | None:
    """Weights that one sentence tells right after their scores: "2 and 1, so the weights are …"."""
    scores = names.lists[0] if names.lists else None
    told = list(lists_in(before))[-1:]
    if (
        not told
        or scores is None
        or scores.shape != claimed.shape
        or told[0][1].shape != scores.shape
    ):
        return None
    between = before[told[0][0] + len(told[0][3]) :]
    if not _WEIGHTS.search(between) or not _SCORED.search(before[: told[0][0]]):
        return None
    if (
        _OTHERWISE.search(between)
        or _MASKED.search(before)
        or (claimed == 0).any()
        or float(units.max()) > 0.01
        or abs(claimed.sum() - 1) > 0.03
    ):
        return None
    right = np.asarray(formula.normalise(scores[None, :])[0])[0]
    slack = 0.5 * units + 0.5 * float(told[0][2].max()) * (told[0][2].max() < 1) * right
    if bool((np.abs(claimed - right) <= slack + 1e-9).all()):
        return Verdict(line, said, "right", "note.right")
    for width in (names.values.get(name) for name in ("d_k", "dk", "d", "tau", "T")):
        if width is not None and width.ndim == 0 and width > 0:
            for by in (float(width), float(width) ** 0.5):
                other = np.asarray(formula.normalise(scores[None, :] / by)[0])[0]
                if bool((np.abs(claimed - other) < 0.02).all()):
                    return None  # divided before, without a word of it
    return Verdict(line, said, "wrong", "note.wrong", {"right": shown(right, units)})


def _rectified(line: int, said: str, claimed: Floats, before: str, names: Names) -> Verdict | None:
    """ReLU of the vector before it."""
    last = names.lists[0] if names.lists else None
    if last is None or last.shape != claimed.shape or not re.search(r"ReLU[^.。]{0,12}$", before):
        return None
    right = np.maximum(last, 0)
    if np.allclose(claimed, right):
        return Verdict(line, said, "right", "note.right")
    return Verdict(line, said, "wrong", "note.wrong", {"right": shown(right, np.ones(right.shape))})


def _columns(
    line: int, said: str, claimed: Floats, units: Floats, before: str, names: Names
) -> Verdict | None:
    """The sums of a matrix's columns."""
    if not _COLUMNS.search(before[-30:]):
        return None
    for matrix in matrices(names).values():
        if matrix.shape[1:] != claimed.shape:
            continue
        same = np.abs(matrix.sum(0) - claimed) <= 0.6 * units
        if same.all():
            return Verdict(line, said, "right", "note.right")
        if same.sum() == claimed.size - 1 > 1:
            right = {"right": shown(matrix.sum(0), units)}
            return Verdict(line, said, "wrong", "note.wrong", right)
    return None


def _claim(
    line: int, said: str, claimed: Floats, units: Floats, text: str, start: int, names: Names
) -> Claim:
    """A list with the words around it, those of the sentence before it where it has none."""
    before = re.split(r"[\])]", text[:start].rstrip("[( "))[-1][-90:]
    after = re.split(r"[\d\[(.,，;。；]|\band\b", text[start + len(said) :])[0][:24]
    words = f"{before} {after}"
    if kinds_of(words):
        names.speaking = words
    else:
        words = f"{names.speaking} {words}"
    return Claim(line, said, claimed, units, words, row_of(before, names))


_COLUMNS = re.compile(r"columns?\b[^.]{0,12} (?:sum|add)|列[^。，,]{0,6}和", re.I)
_ORDINALS = ("first", "second", "third", "fourth", "fifth"), ("一", "二", "三", "四", "五")
_NTH = re.compile(
    r"(?:(?:the )?(?P<e>first|second|third|fourth|fifth) (?:token|word|key|position|one|value)|(?:token|word|key|position|词|位置)\s*(?P<n>[1-5])|第\s*(?P<z>[一二三四五1-5])\s*个?(?:词元?|键|位置|token|单词))"
    r"(?P<how>[^\d.。;；,，]{0,24}?(?:gets?|receives?|takes?|has|weight|权重|分走了?|占了?|得到?|拿到?)[^\d.。;；,，]{0,16}?)(?P<said>\d+(?:\.\d+)?)(?P<percent>\s*\\?%)?",
    re.I,
)


def _places(line: int, text: str, names: Names) -> list[Verdict]:
    """One weight of the list before it, by its place: "the third word gets 4.2 %"."""
    found = []
    weights = next((each for each in names.lists if abs(each.sum() - 1) < 0.02), None)
    for told in _NTH.finditer(text) if weights is not None else ():
        assert weights is not None
        word = told["e"] or told["z"] or told["n"]
        index = next(
            (i for names_ in _ORDINALS for i, each in enumerate(names_) if each == word.lower()),
            None,
        )
        index = int(word) - 1 if index is None else index
        by = 0.01 if told["percent"] else 1.0
        claimed = float(told["said"]) * by
        unit = 10.0 ** -len(told["said"].partition(".")[2]) * by
        near = [
            i for i, weight in enumerate(weights) if abs(weight - claimed) <= 0.6 * max(unit, 0.001)
        ]
        if index >= len(weights) or not near or unit > 0.01:
            continue
        if index in near:
            found.append(Verdict(line, told[0], "right", "note.right"))
        else:
            right = shown(np.asarray(weights[index] / by), np.asarray(unit / by))
            found.append(
                Verdict(
                    line,
                    told[0],
                    "wrong",
                    "note.wrong",
                    {"right": right + "%" * bool(told["percent"])},
                )
            )
    return found


def _judge(
    line: int, said: str, claimed: Floats, units: Floats, text: str, start: int, names: Names
) -> Verdict | None:
    before = text[:start]
    of_weights = _WEIGHTS.search(text) is not None and not _OTHER.search(text)
    if float(units.max()) >= 0.5 or (claimed < 0).any():
        of_weights = False
    best: tuple[int, Floats] | None = None
    by = _divisor(text)
    divided = [row / by for row in names.lists if by and row.size == claimed.size]
    cold = _TEMPERATURE.search(text)
    tau = float(cold[1]) if cold else 0.0
    divided += [
        np.asarray(formula.normalise(row[None, :] / tau)[0])[0]
        for row in names.lists if tau and row.size == claimed.size
    ]  # fmt: skip
    if by and by != int(by) and (whole := np.round(claimed * by)).any():
        divided.append(whole / by)  # scores of whole numbers, whatever they were
    for row in [*divided, *islice(_candidates(names, claimed.size), _MOST)]:
        same = sum(map(close, claimed, row, units))
        if best is None or same > best[0]:
            best = (same, row)
    plenty = float(units.max()) <= 0.01
    if cold and best and plenty and best[0] == claimed.size - 1 and abs(claimed.sum() - 1) > 0.02:
        return Verdict(line, said, "wrong", "note.wrong", {"right": shown(best[1], units)})
    if best and best[0] == claimed.size and plenty:
        return Verdict(line, said, "right", "note.right")
    loose = bool(np.abs(claimed.sum() - 1) > 0.75 * units.sum() + 1e-9)
    shares = (
        of_weights
        and plenty
        and bool((claimed <= 1).all())
        and re.search(_WEIGHTS, before + text[start + len(said) :][:24])
    )
    if best and plenty and _nearly(claimed, best[1], best[0]) and (loose or best[0] > 1):
        if bool((np.abs(claimed - best[1]) <= 1.01 * units).all()):
            return Verdict(line, said, "right", "note.right")
        if not loose and not of_weights and 3 * best[0] < 2 * claimed.size:
            return None
        return Verdict(line, said, "wrong", "note.wrong", {"right": shown(best[1], units)})
    if shares and loose and abs(float(claimed.sum()) - 1) < 0.35 and claimed.size > 1:
        return Verdict(line, said, "wrong", "note.wrong", {"right": f"Σ = 1 ≠ {claimed.sum():.4g}"})
    return None


def _divisor(text: str) -> float:
    """What a sentence divides by, where it says it once."""
    found = re.findall(
        r"(?:divid\w+|scal\w+)[^.,;]{0,20} by (sqrt\(\d+\)|\d+(?:\.\d+)?)|除以\s*(sqrt\(\d+\)|\d+(?:\.\d+)?)",
        text,
    )
    node = parsed(found[0][0] or found[0][1]) if len(found) == 1 else None
    return float(value(node, Names())) if node is not None else 0.0


def _nearly(claimed: Floats, row: Floats, same: int) -> bool:
    """Whether one number of a list is another's, the rest the same."""
    return same >= max(1, claimed.size - 1) and bool((np.abs(claimed - row) < 0.35).all())


def _candidates(names: Names, size: int) -> Iterator[Floats]:
    yield from (vector for vector in names.awaited if vector.shape == (size,))
    scores = [*names.lists, *(v for v in list(names.values.values())[-8:] if v.ndim == 1)]
    for row in scores:
        for part in (row, row[:size]):
            visible = part[np.isfinite(part)]
            if 1 <= visible.size <= size:
                for scale in (1.0, size**-0.5, 2**-0.5, 0.5):
                    soft = np.asarray(formula.normalise(visible[None, :] * scale)[0])[0]
                    yield np.concatenate([soft, np.zeros(size - visible.size)])
        if row.size == size:
            yield np.exp(row)
            if "positions" in names.said and size % 2 == 0:
                yield from row + sinusoids(9, size)
            if abs(float(row.sum())) > 1e-9:
                yield row / row.sum()
