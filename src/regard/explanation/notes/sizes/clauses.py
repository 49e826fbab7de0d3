"""Clauses that tell how much of something there is: the measure, the object, how many are meant."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.amounts import Amount, amounts
from regard.explanation.notes.sizes import catalogue
from regard.explanation.notes.sizes.modelled import LETTERS, sizes_in
from regard.explanation.notes.sizes.references import WIDTHS
from regard.explanation.notes.sizes.roles import role

_N = r"(?:\d[\d,]*|two|three|four|six|eight|twelve|sixteen|twenty-four|thirty-two|all|all the|all of the|[两三四六八十]+)"
_ONE = r"(?:per|each|every|one|a|a single|single|this|one such)"
SCOPES = {
    "heads": (
        rf"{_ONE} (?:attention |query )?head\b|head's|每一?个?头|一个头|单个?头",
        rf"{_N}(?: of the)? (?:\w+ )?heads\b|(?:over|across) the heads|\d+ 个?头|所有的?头",
    ),
    "layers": (
        rf"{_ONE} (?:\w+ )?(?:layer|block)\b|\band layer\b|layer's|每一?层|一层|单层|每个块",
        rf"{_N}(?: of the)? (?:\w+ )?(?:layers|blocks)\b|(?:over|across) the layers|\d+ ?个?(?:\w{{2,4}})?[层块]|所有的?层|[两三四六八十]+[二四六]?层|whole (?:model|stack|network)|整个模型",
    ),
    "tokens": (
        rf"{_ONE} (?:new )?token\b|每一?个? ?(?:token|词元|词)|一个 ?(?:token|词元|词)",
        rf"{_N} (?:\w+ )?tokens\b|context of|sequence of|\d+ ?个? ?(?:token|词元|词)|长度",
    ),
    "batch": (
        rf"{_ONE} (?:\w+ )?sequence\b|每个?(?:序列|句子|样本)|单个序列",
        rf"\bbatch\b|{_N} (?:such )?sequences|批",
    ),
    "operations": (r"multipl\w+|MACs?\b|乘法|乘加", r"FLOPs?\b|浮点运算"),
}
"""What says that one is meant, and what that all are."""
SEPARATOR = re.compile(r"[,;()。—|](?!\d)|\bwhile\b|\bwhereas\b")
_BYTES_EACH = re.compile(
    r"\b(?:at|with|using) (\d+) bytes?\b|(\d+) bytes? (?:each|(?:per|an?|for each|for every) (?:number|value|score|entry|parameter|weight|element))"
    r"|(\d+)\s*个?字节(?:存)?(?:一个|每个)|每个?(?:数|元素|分数|参数)(?:占|用|是|为|需)?\s*(\d+)\s*个?字节",
    re.I,
)
"""How many bytes one number takes."""


def _words(patterns: Mapping[str, str], *, case: bool = True) -> dict[str, re.Pattern[str]]:
    return {
        name: re.compile(rf"(?<![A-Za-z0-9_])(?:{words})(?![A-Za-z0-9_])", 0 if case else re.I)
        for name, words in patterns.items()
    }


_THINGS = _words(catalogue.OBJECTS, case=False)
_NOT_OF_IT = r"(?:the|a|an|tokens|words|heads|layers|per|of|in|and|with|for|to|by) "
"""What ends what a number is of: "1024 tokens the scores"."""
NOUNS = {
    name: re.compile(rf"\s*(?:(?!{_NOT_OF_IT})[a-z-]+ ){{0,2}}?(?:{words})(?![A-Za-z_])", re.I)
    for name, words in catalogue.NOUNS.items()
}
ANYWHERE = {
    name: re.compile(rf"(?<![A-Za-z_])(?:{words})(?![A-Za-z_])", re.I)
    for name, words in catalogue.NOUNS.items()
}
TOTAL = re.compile(
    r"\b(?:together|total|in all|sum|gives|makes|altogether)\b|合计|共|总计|得", re.I
)
"""What says that a number is a sum."""
_PRONOUN = re.compile(r"\b(?:it|this|that|they|these|that's) \b|它们?|两者|这", re.I)
_WIDER = ("four", "layer", "model", "attention", "ffn", "input", "three", "decoder")
"""What another name beside it is a part of."""


@dataclass(frozen=True)
class Clause:
    """The part of a sentence that a claimed number stands in."""

    text: str
    before: str
    measure: str
    things: tuple[str, ...]
    """The objects that it names, or else those that were spoken of before it."""
    own: bool
    """Whether it names them itself."""
    spoken: tuple[str, ...] = ()
    """All that was spoken of before."""
    sizes: frozenset[str] = frozenset()
    """The sizes that the sentence tells, by their letters."""
    worked_out: bool = False
    """Whether an equation says how the number comes about."""
    matrix: tuple[float, ...] = ()
    """The shape of a matrix, where the sentence tells one."""


def things_in(text: str) -> tuple[str, ...]:
    """The objects that ``text`` names, in their order, without those that others are parts of."""
    spans = sorted(
        (match.start(), -match.end(), name)
        for name, pattern in _THINGS.items()
        for match in pattern.finditer(text)
    )
    kept: list[str] = []
    reach = -1
    for start, end, name in spans:
        if -end > reach and start >= reach:
            kept.append(name)
            reach = -end
    order = [name for name in dict.fromkeys(kept) if name != "layer"] or [*dict.fromkeys(kept)]
    narrow = [name for name in order if name not in _WIDER]
    return tuple(narrow or [name for name in order if name not in ("model", "layer")] or order)


def claims(text: str, names: Names) -> Iterator[tuple[Amount, Clause]]:
    """Every amount that tells a measure, with the clause that it stands in."""
    told = [each for each in amounts(text) if each.value >= 4 and (each.kind or not each.value % 1)]
    previous = 0
    for place, amount in enumerate(told):
        after = text[amount.end :]
        start = max([previous, *(m.end() for m in SEPARATOR.finditer(text[: amount.start]))])
        stop = SEPARATOR.search(after)
        following = told[place + 1].start if place + 1 < len(told) else len(text)
        end = min(amount.end + stop.start() if stop else len(text), following)
        measure = _measure(text, amount, start, names)
        operator = re.match(r"\s*(?:[*/^=]|[+-]\s*[\d(])", after)
        if measure and not operator and not re.search(r"[*/^]\s*$", text[: amount.start]):
            yield amount, _clause(text, amount, start, end, measure, names)
            previous = amount.end


def _clause(text: str, amount: Amount, start: int, end: int, measure: str, names: Names) -> Clause:
    before, after = text[start : amount.start], text[amount.end : end]
    behind = re.match(r"\D{0,24}\b(?:of|in|for|from)\b|的", after)
    noun = NOUNS["entries"].match(after)
    named = things_in(before) or things_in(after if behind else noun[0] if noun else "")
    here = things_in(text[:start])
    if measure in ("entries", "bytes"):  # a layer has none of its own
        named, here = (tuple(each for each in told if each != "layer") for told in (named, here))
    spoken = (*here, *names.things, *things_in(names.heading))
    own, things = True, named
    if not named and len(here) == 1 and not TOTAL.search(before):
        things = here
    elif not named and len(names.things) == 1 and _PRONOUN.search(before):
        own, things = False, names.things
    elif not named:
        own = False
        things = (*dict.fromkeys(spoken), *(("layer",) * ("layers" in scopes_in(before + after))))
    worked_out = re.search(r"[*/^+] ?[\d(][^;,]*= ?$", text[: amount.start]) is not None
    told = frozenset(letter for letter, _ in sizes_in(text))
    return Clause(
        text[start:end], text[:start], measure, things, own, spoken, told, worked_out,
        _matrix(text[: amount.start]),
    )  # fmt: skip


def _matrix(text: str) -> tuple[float, ...]:
    """The last shape of a matrix in ``text``: "each is 768 * 64"."""
    shapes = re.findall(
        r"(?<![\d*^/] )(?<![\d*^/(.])(\d[\d,]*) \* (\d[\d,]*)(?![\d,.]* ?[*^/+=(]|[\d.])", text
    )
    return tuple(float(each.replace(",", "")) for each in shapes[-1]) if shapes else ()


_BIASES_OR_NOT = re.compile(
    r"(?:with|without|no|including|ignoring) (?:the )?bias\w*|(?:[带含加]|忽略)上?\s*偏置", re.I
)


def _measure(text: str, amount: Amount, start: int, names: Names) -> str:
    """What a number counts, by its nouns; what was counted before where it goes on from it."""
    before, after = (
        _BIASES_OR_NOT.sub("", part) for part in (text[start : amount.start], text[amount.end :])
    )
    if amount.kind:
        return amount.kind if amount.kind == "bytes" else ""
    if role_of := next((name for name, noun in NOUNS.items() if noun.match(after)), ""):
        return role_of
    if role(amount, text) in LETTERS:
        return ""
    if re.match(r"\s*[A-Za-z%]", after) or re.match(r"\s*个?[层头倍维词步]", after):
        return ""
    told = noun_in(before)
    last = names.claimed[0] if names.claimed else None
    if told or last is None or names.turn > last.turn + 1 or last.measure == "bytes":
        return told
    follows = _PRONOUN.search(before) or TOTAL.search(before) or True in scopes_in(before).values()
    return last.measure if follows and amount.value > 1000 else ""


def noun_in(text: str) -> str:
    """The measure whose noun stands in ``text``."""
    return next((name for name, noun in ANYWHERE.items() if noun.search(text)), "")


def scopes_in(text: str) -> dict[str, bool]:
    """Of heads, layers, tokens and batch: True where all are meant, False where one is."""
    found = {}
    for axis, (one, every) in SCOPES.items():
        of_one, of_all = (re.search(pattern, text, re.I) for pattern in (one, every))
        if bool(of_one) != bool(of_all):
            found[axis] = bool(of_all)
    return found


def number_widths(text: str) -> list[float]:
    """The bytes of the kinds of number that ``text`` names."""
    found = [
        size
        for size, words in WIDTHS.items()
        if re.search(rf"(?<!\w)(?:{words})(?!\w)", text, re.I)
    ]
    told = _BYTES_EACH.search(text)
    of_weights = told and re.search(r"param|weight|参数", told[0], re.I)
    return (
        [float(next(filter(None, told.groups())))] if told and (of_weights or not found) else found
    )
