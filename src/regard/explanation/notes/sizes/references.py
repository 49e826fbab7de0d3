"""Claims whose other half stands in an earlier sentence: "for 2048 it is twice as much"."""

from __future__ import annotations

import re

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.words.facts import NOT
from regard.explanation.notes.words.judges import FACTOR, LENGTH, factor
from regard.explanation.numbers import written

_COUNT = r"(\d{1,3}(?:,\d{3})+|\d+)"
_LENGTHS = re.compile(
    rf"\bn\s*=\s*{_COUNT}(?!\s*d)|{_COUNT}[- ]*(?:tokens?|words|positions)\b"
    rf"|(?:context|length|sequence|window)s?(?: length)?(?: of| is|:)?\s*{_COUNT}\b"
    rf"|{_COUNT}\s*(?:个?\s*(?:token|词元|词|位置)|时的)|(?:长度|上下文|窗口)(?:长度)?(?:为|是|到)?\s*{_COUNT}",
    re.I,
)
_SQUARE = re.compile(
    r"score|attention (?:weights?|matri)|(?:score|weight|attention)s? (?:matrix|map)|\bmatrix\b|\bn\^2|pairs"
    r"|(?<![.\d])\d+\^2|(\d+) \* \1\b|分数|权重矩阵|注意力矩阵|注意力的|平方",
    re.I,
)
_LINEAR = re.compile(
    r"KV|cache|per token|project|feed-?forward|FFN|flash|window|linear|embedding|缓存|每个词元|投影|前馈|线性|窗口|嵌入",
    re.I,
)
WIDTHS = {
    8: r"float64|fp64|double",
    4: r"float32|fp32|32[- ]bit|single precision|单精度|32 ?位",
    2: r"16[- ]bit|b?float16|b?fp16|bf16|half precision|半精度|16 ?位",
    1: r"int8|fp8|8[- ]bit|8 ?位",
    0.5: r"int4|fp4|4[- ]bit|4 ?位",
}
"""The bytes of a number, by the names of its kind."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMG]i?B)\b")
_PARTS = {"quarter": 0.25, "a third": 1 / 3, "四分之一": 0.25, "三分之一": 1 / 3, "一半": 0.5}


def check_reference(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict on how many times as much something is, or how much it is in other bytes."""
    said = re.sub(r"[`$]", "", sentence).strip()
    text = with_sizes(said)
    found = (
        _times(line, said, text, names)
        or _grown(line, said, text, names)
        or _bytes(line, said, text, names)
    )
    return [found] if found else []


def with_sizes(text: str) -> str:
    """``text`` in the plain spelling, its MiB left as they are."""
    return plain(re.sub(r"(\d)\s*([KMG]i?B)\b", r"\1 _\2", text)).replace(" _", " ")


def lengths_of(text: str) -> list[float]:
    """The lengths that ``text`` speaks of."""
    return [
        float(next(filter(None, match.groups())).replace(",", ""))
        for match in _LENGTHS.finditer(text)
    ]


def _times(line: int, said: str, text: str, names: Names) -> Verdict | None:
    """Of k times the length that was spoken of: k² times the scores, k times the cache."""
    now = lengths_of(text)
    before = [each for earlier in names.recent for each in lengths_of(earlier) if each not in now]
    before = before or [each for each in names.lengths if each not in now]
    if len(now) == 2 and re.search(rf"{now[1]:.0f}\s*时的", text):
        now, before = now[:1], now[1:]
    claims = _factors(text)
    if (
        len(now) != 1
        or len(claims) != 1
        or not before
        or not re.search(f"{LENGTH}|token", text, re.I)
    ):
        return None
    if NOT.search(text) or re.search(
        r"\bthan\b(?! (?:before|that))|fewer|in place of|RNN|循环|heads? per", text
    ):
        return None
    power = _power(text, names)
    if not power:
        return None
    for each in filter(None, before):
        ratio = now[0] / each
        if abs(claims[0] - ratio**power) <= 0.01 * ratio**power:
            names.base = each
            return Verdict(line, said, "right", "note.right")
    for each in filter(None, [names.base, *before]):
        ratio = now[0] / each
        usual = abs(claims[0] - ratio ** (3 - power)) < 1e-9  # what people say instead
        if usual or each == names.base:
            right = {"right": written(ratio**power)}
            return Verdict(line, said, "wrong", "note.growth", right)
    return None


def _grown(line: int, said: str, text: str, names: Names) -> Verdict | None:
    """The memory of the scores at another length than that of which it was told."""
    now, sizes, base = lengths_of(text), _SIZE.findall(text), names.measured
    grown = re.search(
        r"(?:扩|增加?|加|变|翻)\s*到\s*(\d+)|(?:grow|extend|increas|go|rais)\w* (?:\w+ ){0,3}to (\d[\d,]*)",
        text,
    )
    if grown and not now:
        now = [float((grown[1] or grown[2]).replace(",", ""))]
    before = [each for each in names.lengths if each not in now]
    if len(now) != 1 or len(sizes) != 1 or not before or base is None or "*" in text:
        return None
    power = _power(text, names)
    claim, ratio = _amount(*sizes[0]), now[0] / (before[0] or 1)
    right = base.value * ratio**power
    if not power or ratio in (0, 1) or NOT.search(text):
        return None
    if abs(claim / right - 1) < 0.01:
        return Verdict(line, said, "right", "note.right")
    if abs(claim / (base.value * ratio ** (3 - power)) - 1) > 0.01:
        return None
    unit = 1024.0 if "i" in sizes[0][1] else 1000.0
    in_unit = right / unit ** ("KMG".index(sizes[0][1][0]) + 1)
    return Verdict(
        line, said, "wrong", "note.wrong", {"right": f"{written(in_unit)} {sizes[0][1]}"}
    )


def _factors(text: str) -> list[float]:
    parts = [value for word, value in _PARTS.items() if word in text]
    return parts or [factor(match[0]) for match in FACTOR.finditer(text)]


def _power(text: str, names: Names) -> int:
    """How what is spoken of grows with the length: 2, 1, or 0 where that cannot be told."""
    for each in (text, *reversed(names.recent)):
        square, line = _SQUARE.search(each) is not None, _LINEAR.search(each) is not None
        if square != line:
            return 2 if square else 1
        if square:
            return 0
    return 0


def _kind(text: str) -> float:
    """The bytes of the one kind of number that ``text`` names; 0 where there is none, or more."""
    found = [
        size for size, names in WIDTHS.items() if re.search(rf"(?<!\w)(?:{names})", text, re.I)
    ]
    return found[0] if len(found) == 1 else 0


def _bytes(line: int, said: str, text: str, names: Names) -> Verdict | None:
    """The same numbers in another kind of number take more or less memory."""
    now, sizes = _kind(text), _SIZE.findall(text)
    if not now or len(sizes) != 1 or not names.recent:
        return None
    if re.search(r"=|\d\s*[*×]|tokens|layers|heads|词元|层|头", text) or NOT.search(text):
        return None  # it is about something else, or says itself how it comes about
    before = names.recent[-1]
    kind, known = _kind(before), _SIZE.findall(before)
    if not kind or kind == now or not known:
        return None
    amounts = [_amount(*size) * now / kind for size in known]
    claim = _amount(*sizes[0])
    if any(abs(claim - amount) <= 0.01 * amount for amount in amounts):
        return Verdict(line, said, "right", "note.right")
    if sizes[0][1] != known[0][1]:
        return None
    right = f"{written(float(known[0][0]) * now / kind)} {known[0][1]}"
    return Verdict(line, said, "wrong", "note.wrong", {"right": right})


def _amount(number: str, unit: str) -> float:
    base = 1024.0 if "i" in unit else 1000.0
    return float(number) * base ** ("KMG".index(unit[0]) + 1)
