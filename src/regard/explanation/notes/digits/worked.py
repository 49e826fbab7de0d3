"""Lists that a note tells, as the next step of what it told before.

Every list is compared with all that a reader would work out at this place (``derived``: from the
note's matrices, row by row; ``followed``: from the lists before it).  A list that is one of these is
right.  One that nearly is one is wrong, where chance is excluded: its digits that agree, the slip
that would explain the others, and the words around it ("the weights of *cat*") are added up as
evidence in decimal digits.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.digits.derived import Step, steps
from regard.explanation.notes.digits.followed import followed, weighted
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.equations import shown
from regard.explanation.sheet import Floats

SURE = 4.0
"""Decimal digits of evidence that make a claim wrong."""
KINDS: Mapping[str, str] = {
    "query": "query queries 查询",
    "key": "key 键",
    "value": "value 值向量",
    "score": "score logit dot product 分数 得分 点积 内积",
    "scaled": "scaled scaling scale divide divided dividing division halved 缩放 除以",
    "exp": "exponential exp 指数",
    "shifted": "subtract subtracting shifted subtracted 减去",
    "weight": "weight softmax probability probabilities distribution attention normalised normalized 权重 概率 分布 注意力",
    "output": "output result new context mix mixed weighted representation 输出 新向量 新表示 加权和 结果",
    "centred": "deviation centred centered 减去均值 中心化",
    "squared": "square squared 平方",
    "normalised": "norm layernorm normalised normalized 归一化 标准化",
    "relu": "relu rectified",
    "unit": "unit clipped clip 单位 裁剪",
    "columns": "column 列",
    "turned": "rotate rotated rotating rotation rope 旋转",
    "added": "add added adding residual plus sum 残差 相加 加上",
    "gradient": "gradient derivative 梯度 导数",
}
"""The words of each step."""
_SYMBOL = re.compile(r"\b([qkvsazo])_?\{?\w{0,3}\}?'?\s*=\s*$", re.I)
_SYMBOLS = {
    "q": "query",
    "k": "key",
    "v": "value",
    "s": "score",
    "a": "weight",
    "z": "output",
    "o": "output",
}
"""The steps that people give these letters."""
_DIRECT = ("relu", "centred", "squared", "columns")
"""Steps that a single word tells."""
_AFFINE = "gamma beta leaky slope eps epsilon rms rmsnorm weight"
MASKED = "mask masked causal future hidden hide 掩码 因果 遮 未来 看不到"
HYPOTHETICAL = "if suppose without would instead unlike 如果 假如 若 假设 要是 没有 不"
_ORDINALS = {
    word: place
    for words in ("first second third fourth fifth sixth", "一 二 三 四 五 六", "1 2 3 4 5 6")
    for place, word in enumerate(words.split())
}
_NTH = re.compile(
    r"\b(first|second|third|fourth|fifth|sixth) (?:row|token|word|position|query|output|one|is|gives)\b"
    r"|第\s*([一二三四五六1-6])\s*(?:行|个)|(?:\b(?:row|token|word|position)s? |词\s*)([1-6])(?!\d)|\b[xqkvzosa]_?\{?([1-6])\}?(?![\d.])"
)


@dataclass(frozen=True, eq=False)
class Claim:
    """A list as it is written, and the words that say what it is."""

    line: int
    said: str
    numbers: Floats
    units: Floats
    words: str
    row: int | None = None
    """The note's word that it belongs to."""
    position: int | None = None
    """Its position, counted from 0."""
    before: Floats | None = None
    """The list that it is said to come of."""
    since: Floats | None = None
    """The only list before it in its sentence."""
    name: str = ""
    """What it is called."""
    lines: tuple[int, ...] = ()
    """Where each number stands, if not in one line."""


@dataclass(frozen=True, eq=False)
class Doubt:
    """A claim that is nearly ``right``, but for the number at ``spot``."""

    claim: Claim
    right: Floats
    spot: int
    source: str
    bound: bool
    """Whether the words tell the step and the row."""
    evidence: float

    def weight(self, agreed: Mapping[str, int]) -> float:
        """The evidence, with that of what else came from the same numbers."""
        others = min(agreed.get(self.source, 0), 2)
        told = self.source.startswith(("QK", "X", "list 0", "columns _"))
        if self.claim.units.min() >= 1 and not (self.bound and told):
            return 0.0  # few whole numbers are like others by chance
        return self.evidence + 0.75 * others + 1.5 * (self.bound and others > 1)


def holds(words: str, text: str) -> bool:
    """Whether ``text`` has one of ``words``, in the singular or the plural."""
    lowered = text.lower()
    english = {*re.findall(r"[a-z]+", lowered)}
    english |= {word.removesuffix("s") for word in english}
    return any(word in (english if word.isascii() else lowered) for word in words.split())


def kinds_of(text: str) -> set[str]:
    """The steps that ``text`` speaks of."""
    symbol = _SYMBOL.search(text)
    of_symbol = {_SYMBOLS[symbol[1].lower()]} if symbol else set()
    return of_symbol | {kind for kind, words in KINDS.items() if holds(words, text)}


def row_of(text: str, names: Names) -> int | None:
    """The row that ``text`` names last: by its word, or by its place."""
    found = [
        (match.start(), _ORDINALS[next(filter(None, match.groups()))])
        for match in _NTH.finditer(text.lower())
    ]
    for place, token in enumerate(names.tokens):
        edge = r"\b" if token.isascii() else ""
        found += [
            (match.start(), place) for match in re.finditer(f"{edge}{re.escape(token)}{edge}", text)
        ]
    return max(found)[1] if found else None


def position_of(text: str) -> int | None:
    """The position that ``text`` names last, or is."""
    found = re.findall(r"(?:\bpos(?:ition)?|位置)\s*=?\s*(\d{1,2})(?!\d)|^\W*(\d{1,2})\W*$", text)
    return int("".join(found[-1])) if found else None


def check_claims(claims: Sequence[Claim], names: Names) -> list[Verdict]:
    """A verdict for each of the lists that is one of what comes next, or nearly is one.

    What is told together is judged together: a table whose other rows agree binds the last one.
    """
    found: list[Verdict] = []
    left: list[Doubt] = []
    known = [*steps(names)]
    for claim in claims:
        if claim.name[:1].lower() in tuple("xweb"):
            continue  # what a note starts from
        size = claim.numbers.size
        near = [*(s for s in known if s.table.shape[1] == size), *followed(names, size)]
        near += [
            Step("scaled", np.round(claim.numbers[None, :] * by) / by, "whole", rows=False)
            for by in names.divisors
            if by % 1 and (np.abs(claim.numbers) * by > 0.7).any()
        ]
        if claim.before is not None:
            near += weighted(claim.before, names)
        plenty, kinds = _digits(claim).sum() > 2, kinds_of(claim.words)
        right = {
            step.source: step
            for step in near
            if (plenty or not kinds or step.kind in kinds) and _agreeing(claim, step)
        }
        for source in right:
            worth = plenty or claim.row is not None
            names.agreed[source] = names.agreed.get(source, 0) + worth
        if right or _told(claim, names) or any(_blotted(claim, step) for step in near):
            found.append(Verdict(claim.line, claim.said, "right", "note.right"))
        else:
            left += _doubts(claim, near) + _after_scores(claim, near) + _named(claim, near)
    names.doubts += left
    return found + settled(names, {doubt.claim for doubt in left})


def settled(names: Names, claims: Collection[Claim] = ()) -> list[Verdict]:
    """The claims that are wrong by what has agreed until now, of ``claims`` or of all so far."""
    best: dict[Claim, tuple[float, Doubt]] = {}
    for doubt in names.doubts:
        if not claims or doubt.claim in claims:
            weight = doubt.weight(names.agreed)
            if weight >= SURE and weight > best.get(doubt.claim, (0.0, doubt))[0]:
                best[doubt.claim] = weight, doubt
    names.doubts = [doubt for doubt in names.doubts if doubt.claim not in best]
    return [
        Verdict(
            (claim.lines or (claim.line,) * claim.numbers.size)[doubt.spot],
            claim.said, "wrong", "note.wrong", {"right": shown(doubt.right, claim.units)},
        )
        for claim, (_, doubt) in best.items()
    ]  # fmt: skip


def _slack(units: Floats) -> Floats:
    """How far rounded numbers may be from what exact ones come to."""
    return np.where(units < 0.05, 2.01, 0.6) * units * (units < 1) + 1e-9


def _agreeing(claim: Claim, step: Step) -> bool:
    return bool((np.abs(step.table - claim.numbers) <= _slack(claim.units)).all(1).any())


def _blotted(claim: Claim, step: Step) -> bool:
    """Whether some of its weights were set to 0 after the softmax, and the others are left."""
    kept = claim.numbers != 0
    if step.kind != "weight" or kept.all() or kept.sum() < 2:
        return False
    rows = step.table[:, kept]
    return bool((np.abs(rows - claim.numbers[kept]) <= _slack(claim.units[kept])).all(1).any())


def _told(claim: Claim, names: Names) -> bool:
    """Whether a claim says again what is known, or a part of it."""
    size = claim.numbers.size
    told = [array for name, array in names.values.items() if name != claim.name]
    rows = [row for array in told if 1 <= array.ndim <= 2 for row in np.atleast_2d(array)]
    parts = [row[i : i + size] for row in rows[-60:] for i in range(row.size - size + 1)]
    return any(bool((np.abs(part - claim.numbers) <= _slack(claim.units)).all()) for part in parts)


def _digits(claim: Claim) -> Floats:
    """What the agreement of each number is worth, in decimal digits."""
    worth = []
    for number, unit in zip(claim.numbers.tolist(), claim.units.tolist(), strict=True):
        said = f"{number:.{max(0, round(-np.log10(unit)))}f}".lstrip("-0.").rstrip("0")
        few = 0.2 + 0.2 * bool(number) + 0.4 * (abs(number) >= 10)
        root = min(abs(number * by - round(number * by)) for by in (2**0.5, 3**0.5)) < 2 * unit
        few += 0.3 * root
        worth.append(
            few if unit >= 1 or root else max(len(said.replace(".", "").strip("0")) - 0.3, few)
        )
    return np.array(worth)


def slip(said: float, right: float, unit: float) -> float:
    """How much it explains that ``said`` is a slip for ``right``, in decimal digits."""
    places = max(0, round(-np.log10(unit)))
    one, other = f"{abs(said):.{places}f}", f"{abs(right):.{places}f}"
    length = len(one.replace(".", "").lstrip("0")) or 1
    if one == other:  # the sign alone
        return length - 0.3
    if one.strip("0.").replace(".", "") == other.strip("0.").replace(".", "") != "":
        return length - 0.7  # a point that has moved
    if len(one) == len(other):
        changed = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
        if len(changed) == 1:
            return length - float(np.log10(9.0 * length))
        if len(changed) == 2 and [one[i] for i in changed] == [other[i] for i in reversed(changed)]:
            return length - 0.3
    return 0.5 if abs(said - right) < 0.35 * max(abs(right), 0.5) else -1.5


def _after_scores(claim: Claim, near: Iterable[Step]) -> list[Doubt]:
    """Weights that are told right after their scores, and are none of them."""
    numbers, kinds = claim.numbers, kinds_of(claim.words)
    if claim.before is None or "weight" not in kinds or kinds & {"output", "exp", "relu"}:
        return []
    if holds(f"{MASKED} {HYPOTHETICAL}", claim.words) or claim.units.max() > 0.01:
        return []
    if abs(numbers.sum() - 1) > 0.03 or (numbers <= 0).any():
        return []
    return [
        Doubt(claim, step.table[0], int(np.abs(step.table[0] - numbers).argmax()), step.source, True,
              SURE if "score" in kinds and step.source == "before / 1" else SURE - 0.7)
        for step in near
        if step.source.startswith("before") and (np.abs(step.table[0] - numbers) > 0.02).any()
    ]  # fmt: skip


def _named(claim: Claim, near: Iterable[Step]) -> list[Doubt]:
    """What a single word tells of the only list before it, "normalised", and is not so."""
    kinds = kinds_of(claim.words)
    asked = kinds & {"relu", "centred", "squared", "normalised"}
    if claim.since is None or len(asked) != 1 or kinds & {"output", "added", "score"}:
        return []
    if holds(f"{HYPOTHETICAL} {_AFFINE}", claim.words) or claim.since.shape != claim.numbers.shape:
        return []
    rows = [s.table[0] for s in near if s.kind in asked and s.source == "list 0"]
    return [
        Doubt(claim, row, int(np.abs(row - claim.numbers).argmax()), "list 0", True, SURE)
        for row in rows[:1]
    ]


def _doubts(claim: Claim, near: Iterable[Step]) -> list[Doubt]:
    """The rows that ``claim`` nearly is, and the evidence that it is a slip for each."""
    digits, slack = _digits(claim), _slack(claim.units)
    kinds = kinds_of(claim.words)
    masked, supposed = holds(MASKED, claim.words), holds(HYPOTHETICAL, claim.words)
    found = []
    for step in near:
        for place, row in enumerate(step.table):
            off = np.abs(row - claim.numbers)
            bad = off > slack
            spot = int(bad.argmax())
            unit = claim.units[spot]
            if (
                bad.sum() != 1
                or not np.isfinite(row).all()
                or off[spot] < (0.9 if unit > 0.05 else 3 if unit > 0.005 else 5) * unit
            ):
                continue
            if masked and not claim.numbers[spot]:
                continue
            evidence = float(digits[~bad].sum()) + slip(claim.numbers[spot], row[spot], unit)
            of_kind = step.kind in kinds
            told = claim.position if "PE" in step.source else claim.row
            of_row = step.rows and told == place
            evidence += 1.0 * of_kind - 1.0 * bool(kinds and not of_kind)
            evidence -= 0.5 * (masked != step.masked) + 1.5 * supposed
            if step.rows and told is not None:
                evidence += 1.0 if of_row else -1.0
            of_list = step.kind in _DIRECT and step.source in ("list 0", "columns _table")
            evidence += 1.5 * (of_list and of_kind)
            evidence -= 1.5 * (bool(claim.lines) and not step.rows and not of_kind)
            evidence += step.kind == "weight" and abs(claim.numbers.sum() - 1) > 0.02
            found.append(
                Doubt(claim, row, spot, step.source, of_kind and (of_row or of_list), evidence)
            )
    doubt = float(np.log10(max(len({each.right.tobytes() for each in found}), 1)))
    return [replace(each, evidence=each.evidence - doubt) for each in found]


_ITEM = re.compile(
    r"\W*([A-Za-z]{2,12}|[一-鿿]{1,4})\W{0,4}?\s*[:：=]\s*\$?[\[(]\s*(-?[\d.]+(?:\s*,\s*-?[\d.]+)+)\s*[\])]\W*"
)
_QUOTED = re.compile(r"[\"“「'‘](\w{1,12})[\"”」'’]")
_PHRASE = re.compile(
    r"[\"“「*]([A-Za-z]+(?: [A-Za-z]+){1,4})[\"”」*]|[“\"「]([一-鿿](?: [一-鿿]{1,3}){1,4})[”\"」]"
)


def meet(sentence: str, names: Names) -> None:
    """Takes note of the words that a note works with: "cat sat mat", “我”“爱”, "cat: [1, 0]"."""
    item = _ITEM.fullmatch(sentence)
    if item and item[1] not in names.values and not kinds_of(item[1]):
        names.tell(item[1], np.array([float(each) for each in item[2].split(",")]))
        names.words.add(item[1])
        name_token(item[1], names)
    if names.tokens:
        return
    quoted = [*dict.fromkeys(_QUOTED.findall(sentence))]
    phrase = _PHRASE.search(sentence)
    if len(quoted) > 1:
        names.tokens = quoted
    elif phrase:
        names.tokens = (phrase[1] or phrase[2]).split()


def name_token(word: str, names: Names) -> None:
    """``word`` is one of the note's, in the order in which their vectors are told."""
    if not any(token in names.values for token in names.tokens if token != word):
        names.tokens = [] if word not in names.tokens else names.tokens
    if word not in names.tokens:
        names.tokens.append(word)
