"""Single numbers that words bind: the sum of a list, a word's weight for another, a loss and its perplexity."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.digits.derived import steps
from regard.explanation.notes.digits.followed import totals
from regard.explanation.notes.digits.sums import lists_in, results
from regard.explanation.notes.digits.worked import holds, row_of, slip
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.equations import shown
from regard.explanation.sheet import Floats

SURE = 3.5
"""Decimal digits of evidence that make a number wrong."""
_NUMBER = re.compile(
    r"(?<![\w.\[(,^/*])-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?![\w.]*\d|\s*[*/^+=(\[])\s*%?"
)


def _bits(row: Floats) -> float:
    share = row[row > 0] / row.sum()
    return float(-(share * np.log2(share)).sum())


FIGURES: Mapping[str, tuple[str, Callable[[Floats], tuple[float, ...]]]] = {
    "mean": ("mean average 均值 平均值 平均数", lambda row: (row.mean(), (row**2).mean())),
    "variance": ("variance 方差", lambda row: (row.var(), row.var(ddof=1))),
    "deviation": ("deviation std 标准差", lambda row: (row.std(), row.std(ddof=1))),
    "root": ("root rms", lambda row: (np.sqrt((row**2).mean()), np.sqrt(row.sum()))),
    "norm": ("norm length magnitude 模长 范数", lambda row: (np.sqrt((row**2).sum()), (row**2).sum())),
    "entropy": ("entropy 熵", lambda row: (_bits(row) * np.log(2), _bits(row))),
    "gradient": ("gradient derivative 梯度 导数", lambda row: tuple(row[:2] * (1 - row[:2]))),
    "sum": ("sum total add adds adding denominator normaliser normalizer 总和 之和 求和 合计 加起来 相加 分母 和是 和为 和约", lambda row: (row.sum(),)),
    "largest": ("largest maximum biggest highest 最大", lambda row: (row.max(),)),
}  # fmt: skip
"""What words ask of a list."""
PAIRS: Mapping[str, tuple[str, Callable[[Floats, Floats], float]]] = {
    "cosine": ("cosine cos 余弦", lambda a, b: float(a @ b / np.sqrt((a @ a) * (b @ b)))),
    "distance": ("distance 距离", lambda a, b: float(np.sqrt(((a - b) ** 2).sum()))),
    "dot": ("dot inner 点积 内积", lambda a, b: float(a @ b)),
}
"""What words ask of two."""
_UNITS = re.compile(r"\s*(?:(bits?|比特)|nats?|奈特)")
_TOTAL = "output answer lookup prediction estimate result 答案 预测 输出 结果 加权和"
"""What a weighted sum is called."""
_AGAIN = "twice times 两次 两个 三个 各"
"""What is added more than once."""
ROLES: Mapping[str, str] = {
    "probability": "probability prob p 概率",
    "loss": "loss entropy 损失 交叉熵",
    "perplexity": "perplexity ppl 困惑度",
    "vocabulary": "vocabulary vocab 词表 词汇表",
    "gradient": "gradient derivative 梯度 导数 p(1-p)",
}
"""What a number may be, by the words before it."""
RELATIONS: Mapping[tuple[str, str], Callable[[float], tuple[float, ...]]] = {
    ("probability", "loss"): lambda p: (-np.log(p), -np.log2(p)),
    ("loss", "perplexity"): lambda loss: (np.exp(loss), 2**loss),
    ("perplexity", "loss"): lambda many: (np.log(many), np.log2(many)),
    ("vocabulary", "loss"): lambda many: (np.log(many), np.log2(many)),
    ("probability", "gradient"): lambda p: (p * (1 - p),),
}


@dataclass(frozen=True)
class Figure:
    """A number, and the words between it and the number before it."""

    start: int
    said: str
    value: float
    unit: float
    words: str


def figures(text: str) -> list[Figure]:
    """The numbers of ``text`` that stand alone."""
    found = []
    for match in _NUMBER.finditer(text):
        digits = match[0].rstrip("% ").replace(",", "")
        by = 0.01 if match[0].endswith("%") else 1.0
        unit = by * 10.0 ** -len(digits.partition(".")[2])
        words = re.split(r"\d", text[: match.start()])[-1]
        found.append(Figure(match.start(), match[0].strip(), float(digits) * by, unit, words))
    return found


def check_figures(line: int, text: str, names: Names) -> list[Verdict]:
    """A verdict for each number that the words of ``text`` bind."""
    told = figures(text)
    found = [
        *_of_lists(line, text, told, names),
        *_related(line, told),
        *_of_words(line, text, told, names),
    ]
    return [verdict for verdict in found if verdict is not None]


def distinct(verdicts: list[Verdict]) -> list[Verdict]:
    """``verdicts`` without the numbers that another of them has called wrong in its sentence."""
    wrong = [verdict for verdict in verdicts if verdict.status == "wrong"]
    return [
        verdict
        for verdict in verdicts
        if verdict.status != "wrong"
        or not _NUMBER.fullmatch(verdict.claim)
        or not any(
            verdict is not other and other.line == verdict.line and verdict.claim in other.claim
            for other in wrong
        )
    ]


def _judge(
    line: int,
    figure: Figure,
    right: list[float],
    evidence: float,
    least: float = -1.5,
    also: Sequence[float] = (),
) -> Verdict | None:
    """Right where it is one of ``right``; wrong where it is so near the first that it is a slip."""
    known = [each for each in right if np.isfinite(each)]
    if not known:
        return None
    rough = figure.unit < 1 or figure.value > 10
    slack = (0.6 if figure.unit > 0.005 else 1.6) * figure.unit * rough + 1e-9
    if any(abs(figure.value - each) <= slack for each in [*known, *also]):
        return Verdict(line, figure.said, "right", "note.right")
    doubt = float(np.log10(len({round(each, 6) for each in known})))
    best = max(known, key=lambda each: slip(figure.value, each, figure.unit))
    explained = max(slip(figure.value, best, figure.unit), least)
    if evidence + explained - doubt < SURE or abs(figure.value - best) < 3 * slack:
        return None
    by = 0.01 if figure.said.endswith("%") else 1.0
    value = shown(np.asarray(best / by), np.asarray(figure.unit / by)) + "%" * (by < 1)
    return Verdict(line, figure.said, "wrong", "note.wrong", {"right": value})


def _of_lists(line: int, text: str, told: list[Figure], names: Names) -> Iterator[Verdict | None]:
    """The sum, the mean, the cosine … of what stands before it."""
    for figure in told:
        cue = figure.words[-30:]
        asked = next((each for each in FIGURES if holds(FIGURES[each][0], cue)), "")
        if not asked and holds(_TOTAL, cue) and (right := totals(names)):
            both = len([*lists_in(text[: figure.start])]) > 1
            yield _judge(line, figure, right, 3.1 if both else 2.6, 0.5)
            continue
        pair = next((each for each in PAIRS if holds(PAIRS[each][0], cue)), "")
        if not (asked or pair) or (asked == "sum" and holds(_AGAIN, text)):
            continue
        if asked in ("sum", "largest") and figure.unit >= 1:
            continue  # what is counted
        here = _meant(text[: figure.start], figure, names)
        if asked == "sum" and not here and len(names.run) > 1:
            here = [np.array(names.run)]
        evidence = 3.1 if here else 1.6 + 0.5 * (figure is told[0])
        if pair:
            rows = here if len(here) > 1 else names.lists[:3]
            function = PAIRS[pair][1]
            right = [function(a, b) for a, b in combinations(rows, 2) if a.size == b.size]
            yield _judge(line, figure, right, 3.1 if len(rows) == 2 else 2.1)
            continue
        right, also = (
            [float(each) for row in rows if row.size > 1 for each in FIGURES[asked][1](row)]
            for rows in (here or names.lists[:2], names.lists)
        )
        if asked == "entropy" and (unit := _UNITS.match(text[figure.start + len(figure.said) :])):
            right = right[1::2] if unit[1] else right[::2]
        if asked == "sum":
            sums = [float(number) for _, number in results(text[: figure.start])] or names.mended
            also += [*_tails(text[: figure.start]), sum(names.mended)]
            also += [sum(sums) + again for again in sums]  # two scores are alike
        if asked == "largest":
            weights = (step.table for step in steps(names) if step.kind == "weight")
            also += [float(each) for table in weights for each in table.max(1)]
        yield _judge(line, figure, right, evidence, also=also)


def _tails(before: str) -> list[float]:
    """The sums of the last numbers of ``before``, as many as one likes."""
    told = re.findall(r"(?<![\w.^(\[])-?\d+(?:\.\d+)?(?![\w.]*\d|\s*[*/^(\[])", before)
    return [float(each) for each in np.cumsum([float(each) for each in told[::-1]])[1:]]


def _meant(before: str, figure: Figure, names: Names) -> list[Floats]:
    """The lists that a number may be of: in its sentence, named there, or what "it" is."""
    words = figure.words
    named = [
        row
        for name, row in names.values.items()
        if row.ndim == 1 and re.search(rf"(?<![A-Za-z]){re.escape(name)}(?![A-Za-z\d])", words)
    ]
    if named:
        return named
    here = [row for _, row, _, _ in lists_in(before)][-1:]
    equal = np.array([float(number) for _, number in results(before)])
    here += [equal] if equal.size > 1 else []
    return here or (names.lists[:1] if holds("it its 其 它", words) else [])


def _related(line: int, told: list[Figure]) -> Iterator[Verdict | None]:
    """A number that follows from the one beside it: a probability and its loss."""
    roles = [
        [role for role, words in ROLES.items() if holds(words, each.words[-24:])] for each in told
    ]
    topic = [role for role, words in ROLES.items() if told and holds(words, told[0].words)]
    agreed = 0
    for (one, mine), (other, its) in zip(
        zip(told, roles, strict=True), zip(told[1:], roles[1:], strict=True), strict=False
    ):
        asked = next(
            ((a, b, one, other) for a in mine for b in its or topic if (a, b) in RELATIONS), None
        )
        asked = asked or next(
            ((a, b, other, one) for a in its for b in mine if (a, b) in RELATIONS), None
        )
        if asked is None:
            continue
        a, b, given, claimed = asked
        right = [float(each) for each in RELATIONS[a, b](given.value)] if given.value > 0 else []
        sure = 3.0 if its else 2.0
        verdict = _judge(
            line, claimed, right, sure + min(agreed, 1), -0.5 if b == "gradient" else -1.5
        )
        agreed += verdict is not None and verdict.status == "right"
        yield verdict


def _of_words(line: int, text: str, told: list[Figure], names: Names) -> Iterator[Verdict | None]:
    """The weight that one of the note's words has for another: "*cat* gives 40 % to *sat*"."""
    yield from _of_places(line, told, names)
    tokens = "|".join(re.escape(token) for token in names.tokens)
    if not tokens or not holds("attention weight softmax 注意力 权重", text):
        return
    weights = [
        step.table
        for step in steps(names)
        if step.kind == "weight" and names.agreed.get(step.source, 0) > 1
    ]
    itself = re.compile(rf"itself|自己|自身|(?<![A-Za-z])(?:{tokens})(?![A-Za-z])")
    subject: int | None = None
    for figure in told:
        after = text[figure.start + len(figure.said) :][:32]
        given = re.match(
            rf"\W*(?:的注意力)?(?:放在了?|给了?|of \w+ attention (?:to|on)|to|on)\W*({itself.pattern})",
            after,
        )
        named = [match[0] for match in itself.finditer(figure.words)]
        named = [*named[: subject is None], given[1]] if given else named
        places = [names.tokens.index(word) if word in names.tokens else None for word in named]
        if subject is None and places:
            subject = places.pop(0)
        if subject is None or not places or figure.unit > 0.011 or not 0 <= figure.value <= 1:
            continue
        column = subject if places[-1] is None else places[-1]
        right = [
            float(table[subject, column]) for table in weights if max(subject, column) < len(table)
        ]
        yield _judge(line, figure, right, 4.0)


def _of_places(line: int, told: list[Figure], names: Names) -> Iterator[Verdict | None]:
    """One weight of the list before it, by its place: "the third word gets 4.2 %"."""
    weights = next((row for row in names.lists if abs(row.sum() - 1) < 0.02), None)
    for figure in told if weights is not None else ():
        place = row_of(figure.words, names)
        of_share = holds(
            "get receive take has weight attention share 得 占 分走 权重 注意力", figure.words
        )
        if weights is None or place is None or place >= weights.size or not of_share:
            continue
        if figure.unit <= 0.011:
            other = bool((np.abs(weights - figure.value) < 0.6 * figure.unit).any())
            yield _judge(line, figure, [float(weights[place])], 3.0, 0.6 if other else -1.5)
