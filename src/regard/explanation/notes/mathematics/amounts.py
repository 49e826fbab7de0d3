"""Amounts as people say them: 1.05 million, 104 万, seven, 一百二十八, 64 MiB, a half, √64."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import NotUnderstood, literal, parsed

_ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_ENGLISH = {word: float(i) for i, word in enumerate(_ONES)} | {
    word: 10.0 * i for i, word in enumerate(_TENS, 2)
}
_BIG = {"hundred": 1e2, "thousand": 1e3, "million": 1e6, "billion": 1e9}
_CHINESE = {digit: float(i) for i, digit in enumerate("零一二三四五六七八九")} | {"两": 2.0}
_PLACES = {"十": 10.0, "百": 100.0, "千": 1000.0}
_TIMES = {
    "千": 1e3, "万": 1e4, "百万": 1e6, "千万": 1e7, "亿": 1e8, "thousand": 1e3, "million": 1e6, "billion": 1e9,
    "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9,
}  # fmt: skip
_UNITS = {"": 1.0} | {
    f"{letter}{kind}B": base ** (i + 1)
    for i, letter in enumerate("KMGT")
    for kind, base in (("", 1000.0), ("i", 1024.0))
}
_WORD = rf"(?:{'|'.join((*_TENS, *_ONES[2:]))})"
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+(?:\.\d+)?)"
_PLAIN = rf"(?:\d+/sqrt\({_DIGITS}\)|sqrt\({_DIGITS}\)|{_DIGITS}(?:\s*\^\s*\d+|/{_DIGITS})?)"
AMOUNT = re.compile(
    rf"(?<![A-Za-z0-9_.^/*(√第图表式章节页-])(?<![*/^+] )(?<!\d,)(?:(?P<plain>-?{_PLAIN})(?![\w^*/(]*[*/^]\s*[\w(]|\.\d)"
    r"\s*(?P<times>\*\s*10\s*\^\s*\(?\d+\)?|百万|千万|[千万亿]|thousand\b|million\b|billion\b|[kKMB](?![\w]))?"
    rf"|\b(?P<english>(?:an? (?=hundred|thousand|million)|{_WORD}(?:[- ]{_WORD})?)(?:[- ]?(?:hundred|thousand|million|billion))?)\b"
    r"|(?P<chinese>(?<![第同统唯之一])(?:[二两三四五六七八九十][零一二三四五六七八九十百千]*|一[十百千][零一二三四五六七八九十百千]*)(?P<zh>[万亿])?(?=\s*[个层头维倍位项行列种字词次张]))"
    r"|(?P<part>\ba half\b|\bone half\b|\ba quarter\b|\bone quarter\b|\ba third\b|一半|四分之一|三分之一|八分之一))"
    r"(?:\s*(?P<unit>[KMGT]i?B\b|bytes?\b|字节|%))?",
)
_PARTS = {
    "half": 1 / 2,
    "一半": 1 / 2,
    "quarter": 1 / 4,
    "四分": 1 / 4,
    "third": 1 / 3,
    "三分": 1 / 3,
    "八分": 1 / 8,
}


@dataclass(frozen=True)
class Amount:
    """A number in a text, and how exactly it was said."""

    start: int
    end: int
    value: float
    unit: float
    """One in its last digit, 0 where it was said exactly."""
    kind: str
    """``bytes``, ``%``, or nothing."""
    said: str

    def agrees(self, right: float, about: bool = False) -> bool:
        """Whether it is ``right``, as far as its digits go."""
        if self.unit >= 1 and not about and abs(self.value) < 1e6 and self.kind == "":
            return abs(self.value - right) <= max(
                1e-9 * abs(right), 0.5 * (self.unit > 1) * self.unit
            )
        digits = re.sub(r"\D|0+$", "", re.sub(r"(?<=[\d.])[^\d.,].*", "", self.said))
        loose = (0.06 if len(digits) <= 2 else 0.006) * abs(right) if about else 0.0
        return abs(self.value - right) <= max(loose, self.unit * 1.001, 1e-9 * abs(right))


def with_units(text: str) -> str:
    """``text`` in the plain spelling, its bytes and MiB left as they are for ``amounts``."""
    marked = re.sub(r"(\d)\s*([KMGT]i?B\b|bytes?\b|字节)", r"\1 _\2", text)
    return plain(marked).replace(" _", " ")


def amounts(text: str) -> Iterator[Amount]:
    """Every amount in ``text``, which is in the plain spelling.

    >>> [found.value for found in amounts("twelve heads, 1.5 million weights, sqrt(64), 2 KiB")]
    [12.0, 1500000.0, 8.0, 2048.0]
    >>> [found.value for found in amounts("十二个头，3 万个词")]
    [12.0, 30000.0]
    """
    for match in AMOUNT.finditer(text):
        found = _read(match)
        if found is not None:
            number, unit = found
            name = match["unit"] or ""
            scale = _UNITS.get(name, 1.0) * (0.01 if name == "%" else 1.0)
            kind = "%" if name == "%" else "bytes" if name else ""
            said = match[0].strip()
            yield Amount(match.start(), match.end(), number * scale, unit * scale, kind, said)


def _read(match: re.Match[str]) -> tuple[float, float] | None:
    if match["part"]:
        return next(v for word, v in _PARTS.items() if word in match["part"]), 0.0
    if match["english"]:
        return _english(match["english"]), 0.0
    if match["chinese"]:
        return _chinese(match["chinese"]), 0.0
    node = parsed(match["plain"])
    if node is None:
        return None
    power = re.fullmatch(r"\*\s*10\s*\^\s*\(?(\d+)\)?", match["times"] or "")
    times = 10.0 ** int(power[1]) if power else _TIMES.get(match["times"] or "", 1.0)
    told = literal(node)
    try:
        number = float(value(node, Names()))
    except NotUnderstood:
        return None
    return number * times, (float(told[1]) if told else 0.0) * times


def _english(text: str) -> float:
    total = 0.0
    for word in re.split(r"[- ]", text.lower()):
        if word in _BIG:
            total = (total or 1.0) * _BIG[word]
        else:
            total += _ENGLISH.get(word, 0.0)
    return total


def _chinese(text: str) -> float:
    total = digit = 0.0
    for letter in text:
        if letter in _PLACES:
            total += (digit or 1.0) * _PLACES[letter]
            digit = 0.0
        elif letter in "万亿":
            return (total + digit) * _TIMES[letter]
        else:
            digit = _CHINESE[letter]
    return total + digit


def _whole(right: float, claim: Amount) -> bool:
    """Whether bytes are a whole number in the unit of the claim, which then must be that."""
    name = re.search(r"[KMGT]iB$", claim.said)
    return name is not None and "." not in claim.said and (right / _UNITS[name[0]]).is_integer()


def agrees(claim: Amount, right: float, about: bool) -> bool:
    """Whether an amount is ``right``; many write MB where 1024² bytes are meant."""
    if claim.agrees(right, about):
        return claim.kind != "bytes" or about or not _whole(right, claim) or claim.value == right
    unit = re.search(r"([KMGT])B$", claim.said)
    return unit is not None and claim.agrees(
        right * (1000 / 1024) ** ("KMGT".index(unit[1]) + 1), about
    )


def in_its_words(right: float, claim: Amount) -> str:
    """The right value in the unit of the claim."""
    unit = re.search(r"[KMGT]i?B$|bytes?$|字节$", claim.said)
    word = re.search(r"百万|千万|万|亿|million|billion|thousand|[kKMB]$", claim.said)
    by = _UNITS.get(unit[0], 1.0) if unit else _TIMES[word[0]] if word else 1.0
    number = right / by
    places = len(re.sub(r"[^\d.]", "", claim.said).partition(".")[2])
    while places < 4 and abs(round(number, places) - number) > 0.01 * abs(number):
        places += 1
    return f"{number:{'' if unit else ','}.{places}f}" + (
        f" {unit[0]}" if unit else f" {word[0]}" if word else ""
    )
