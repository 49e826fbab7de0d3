"""Amounts that are said to be so many times an amount before them: "half as much, 32 MiB"."""

from __future__ import annotations

import re

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.amounts import Amount, amounts, in_its_words, with_units
from regard.explanation.notes.sizes.growth import TIMES, factor_of
from regard.explanation.notes.sizes.references import WIDTHS
from regard.explanation.notes.sizes.roles import role
from regard.explanation.notes.words.facts import DENIED, NOT
from regard.explanation.numbers import written

_AS_MUCH = re.compile(
    r"\s*(?:as (?:much|many|large|big|long)(?: again)?|that(?: much| amount)?|of (?:that|it|this)|the (?:size|memory|amount)|more memory)?"
    r"\s*(?:[,，:：(（—-]|\bi\.e\.|\bor\b|\bso\b|\bnamely\b|\bthat is\b|\bwhich is\b|\bis\b|\bto\b|也?就?是|即|为|约|\babout\b|=|\s)*$",
    re.I,
)
_OF_ALL = re.compile(
    r"(?:\ball|\bthe|\bfor|\bover|\bwith|\bby)?\s*(?:(?P<k>\d[\d,]*)\s*个?\s*(?P<what>layers?|heads?|blocks|层|头|sequences|句|tokens?|词元?)|(?P<word>\b(?:two|three|four|both)\b|[两三四六八])\s*个?(?:\s*(?:of (?:them|these)|separate|such|per \w+|layers?|matrices|tables|copies|矩阵|projections|层)){0,3})\s*(?:[,，:：]|\b(?:together|in all|in total|need|so|they|would|take|make|give|have|it is|that is|that makes|we get|gives|the total is|this becomes|is|are)\b|合计|一共|总共|共|总计|就是|则?[是为要]|需要?|\s)*(?:about |约)?\s*$",
    re.I,
)
_ONE = {
    "layer": r"(?:per|each|one|every|a|single) (?:\w+ )?(?:layer|block)|一层|每层|单层",
    "head": r"(?:per|each|one|every|a|single) (?:\w+ )?head|每个?头|一个头|单头",
    "token": r"(?:per|each|one|every|a|single|new) (?:\w+ )?token|每个? ?(?:词元?|token)|一个(?:词元?|token)",
    "sequence": r"(?:per|each|one|every|a|single) sequence|一句|每句",
}


def check_proportions(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict for each amount that is told by the amount before it."""
    said = re.sub(r"[`$]", "", sentence).strip()
    text = with_units(said)
    found: list[Verdict] = []
    if not (DENIED.search(text) or NOT.search(text)):
        for amount in amounts(text):
            if amount.kind != "bytes":
                found += _of_counts(line, said, amount, text, names)
    names.measured = next(
        (a for a in reversed([*amounts(text)]) if a.kind == "bytes"), names.measured
    )
    if DENIED.search(text) or NOT.search(re.sub(r"instead of", "", text)):
        return found
    return (
        found
        + _units(line, said, text)
        + (_pairs(line, said, text, names) or _kinds(line, said, text))
    )


def _of_counts(line: int, said: str, amount: Amount, text: str, names: Names) -> list[Verdict]:
    """An amount that is k times one before it, or that of k layers: whichever it may be of."""
    if role(amount, text) in ("width", "tokens", "heads", "each", "layers", "inner", "vocabulary"):
        return []
    if amount.said in names.settled:
        return []
    if amount.value < 100 or amount.kind or re.match(r"\s*[*/+^=]", text[amount.end :]):
        return []
    bases = list(names.counts)
    names.counts = [amount, *bases][:10]
    before = text[max(0, amount.start - 40) : amount.start]
    times = [
        m
        for m in TIMES.finditer(before)
        if _AS_MUCH.fullmatch(re.sub(r"\bto\b|[一总]共有?", "", before[m.end() :]))
        and "from" not in m[0]
    ]
    of_all = _OF_ALL.search(re.sub(r"(?:编码|解码)器|encoder |decoder ", "", before))
    if (
        of_all
        and (kind := _kind(of_all)) not in ("", "layer")
        and not re.search(_ONE[kind], " ".join([*names.recent[-2:], text]), re.I)
    ):
        of_all = None
    k = factor_of(times[-1]) if times else _count(of_all) if of_all else 0.0
    if k in (0.0, 1.0) or re.search(r"[=*]\s*$", before):
        return []
    if any(amount.agrees(k * base.value) for base in bases):
        return [Verdict(line, said, "right", "note.right")]
    bases = [base for base in bases if base.value not in (k, amount.value)]
    near = {k * base.value for base in bases if 0.4 < amount.value / (k * base.value) < 2.6}
    if times:
        near = {right for right in near if _nice(amount.value / (right / k))}
    else:
        near = {right for right in near if bases and right == k * bases[0].value}
    if len({round(right, -int(np.log10(right)) + 2) for right in near}) != 1:
        return []
    return [Verdict(line, said, "wrong", "note.wrong", {"right": in_its_words(near.pop(), amount)})]


def _nice(ratio: float) -> bool:
    """Whether it is what a slip makes: twice as much, the square instead of the double."""
    return any(
        abs(ratio / nice - 1) < 0.01 for nice in (0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 9.0, 16.0)
    )


def _pairs(line: int, said: str, text: str, names: Names) -> list[Verdict]:
    """The same numbers in several kinds of number: "fp16 needs 350 GB, fp32 700 GB"."""
    kinds = sorted(
        (match.start(), size) for size, words in WIDTHS.items()
        for match in re.finditer(rf"(?<!\w)(?:{words})(?!\w)", text, re.I)
    )  # fmt: skip
    sizes = [amount for amount in amounts(text) if amount.kind == "bytes"]
    ends = [place for place, _ in kinds[1:]] + [len(text)]
    told = [
        (size, here[0])
        for (place, size), end in zip(kinds, ends, strict=False)
        if len(here := [each for each in sizes if place < each.start < end]) == 1
    ]
    if len(told) != len(kinds) or len(told) < 2 or len(sizes) != len(told) or "*" in text:
        return []
    (first, base), rest = told[0], told[1:]
    for size, amount in rest:
        right = base.value / first * size
        if abs(amount.value - right) > amount.unit + base.unit * size / first:
            return [
                Verdict(line, said, "wrong", "note.wrong", {"right": in_its_words(right, amount)})
            ]
    return [Verdict(line, said, "right", "note.right")]


_SAME = re.compile(
    r"(?<![\w.*/^])(?<![*/^+] )(?P<a>\d[\d,.]*)\s*(?P<u>[KMGT]i?B)\s*(?:is|are|=|equals?|means|是|等于|为|即|有)\s*(?P<b>\d[\d,.]*)\s*(?P<v>[KMGT]i?B|bytes?|字节)"
)


def _units(line: int, said: str, text: str) -> list[Verdict]:
    """Units as they are told: 1 KiB is 1024 bytes."""
    found = []
    for match in _SAME.finditer(text):
        one, other = (
            next(amounts(f"{match['a']} {match['u']}"), None),
            next(amounts(f"{match['b']} {match['v']}"), None),
        )
        if one is None or other is None:
            continue
        meant = (
            [one.value, one.value * 1.024 ** ("KMGT".index(match["u"][0]) + 1)]
            if "i" not in match["u"]
            else [one.value]
        )
        meant += (
            [right * (1000 / 1024) ** ("KMGT".index(match["v"][0]) + 1) for right in meant]
            if match["v"][0] in "KMGT" and "i" not in match["v"]
            else []
        )
        if any(
            abs(other.value - right)
            <= max(0.5 * other.unit, 1e-9 * right) * (other.unit < other.value or 1e-9)
            for right in meant
        ):
            found.append(Verdict(line, said, "right", "note.right"))
        else:
            found.append(
                Verdict(
                    line, said, "wrong", "note.wrong", {"right": in_its_words(one.value, other)}
                )
            )
    return found


def _kinds(line: int, said: str, text: str) -> list[Verdict]:
    """Two kinds of number, and how many times the memory one takes of the other."""
    kinds = sorted(
        (match.start(), size) for size, words in WIDTHS.items()
        for match in re.finditer(rf"(?<![\w])(?:{words})(?!\w)", text, re.I)
    )  # fmt: skip
    times = [*TIMES.finditer(text)]
    if (
        len(kinds) != 2
        or len(times) != 1
        or times[0]["one"]
        or not re.search(
            r"memory|bytes|space|storage|size|room|large|big|显存|内存|空间|字节|大小|存储",
            text,
            re.I,
        )
    ):
        return []
    (_, first), (_, second) = kinds
    changed = re.search(
        r"\bfrom\b|\bgoing\b|\bswitching\b|从|换成|改成|改为|转为", text
    ) and not re.search(r"instead of|rather than", text)
    right = second / first if changed else first / second
    said_times = factor_of(times[0])
    if re.search(r"less|smaller|fewer|saves|小|省|少", text) and said_times > 1:
        said_times = 1 / said_times
    if kinds[1][0] < times[0].start() and re.search(r"[,，;；]", text[kinds[0][0] : kinds[1][0]]):
        right = second / first  # "fp32 takes 9 MiB, fp16 half of it"
    if first == second or not said_times or abs(said_times - right) < 1e-9:
        return [Verdict(line, said, "right", "note.right")]
    return [Verdict(line, said, "wrong", "note.wrong", {"right": written(right)})]


def _kind(of_all: re.Match[str]) -> str:
    """What is counted, by the name of one of them; "" where it is not told."""
    what = of_all["what"] or ""
    chinese = {"层": "layer", "头": "head", "句": "sequence", "词": "token", "词元": "token"}
    return chinese.get(what) or next((name for name in _ONE if name in what), "")


def _count(of_all: re.Match[str]) -> float:
    """A number of things, in digits or in words."""
    words = {
        "both": 2.0,
        "two": 2.0,
        "两": 2.0,
        "three": 3.0,
        "三": 3.0,
        "four": 4.0,
        "四": 4.0,
        "六": 6.0,
        "八": 8.0,
    }
    return float(of_all["k"].replace(",", "")) if of_all["k"] else words[of_all["word"].lower()]
