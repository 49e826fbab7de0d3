"""How much a part of a Transformer holds or costs, as a clause says it, against the catalogue.

A number's nouns tell its measure, the names beside it the object, and the rest of the clause whether
one head, layer, token or sequence is meant, or all.  What fits a reading of the object is right.
What fits none is wrong where the clause itself binds the object, or where the number is a reading
but for a slip of its digits; in doubt nothing is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.amounts import Amount, agrees, amounts, in_its_words
from regard.explanation.notes.sizes import catalogue
from regard.explanation.notes.sizes.catalogue import times
from regard.explanation.notes.sizes.clauses import (
    ANYWHERE,
    TOTAL,
    Clause,
    claims,
    number_widths,
    scopes_in,
    things_in,
)
from regard.explanation.notes.sizes.growth import TIMES, factor_of
from regard.explanation.notes.sizes.modelled import remember, sizes_in, sizes_of

STRANGE = re.compile(
    r"low-?rank|LoRA|\bw\b|in place of|allow|visible|\bkept\b|\bhides?\b|hidden (?:entries|pairs|scores)|remain|可见|允许|保留|\bdense\b|\bsource\b|\btarget\b|\bshare|\btied|\btying|sparse|window|\blocal|flash|expert|MoE|adapter|conv|kernel|RNN|LSTM|\bextra\b|\bmore\b|fewer|\bless\b|\bthan\b"
    r"|\bsav|differ|\bif\b|\bwould\b|bottleneck|\btrain|causal|mask|triang|compress|latent|quantiz|prun|distill|GPU|ALBERT|Adam|optimi|gradient|moment|\bevery \d|batch norm"
    r"|低秩|共享|稀疏|窗口|专家|适配|卷积|多出|额外|相比|节省|省|如果|若|训练|因果|掩码|三角|压缩|量化|剪枝|蒸馏|优化器|梯度|动量|少|分摊",
    re.I,
)
"""What may make it a quantity that the catalogue does not know."""
_ADDED = re.compile(
    r"\b(?:with (?:the|an?|its)|plus|add\w*|includ\w*|another)\b|加上?|再|连同|包括", re.I
)
"""What adds an object to those before it."""
_ABOUT = re.compile(
    r"(?:≈|=|about|roughly|around|nearly|almost|over|some|约|近|超过|大约)\s*$", re.I
)
_WITH_BIAS = re.compile(
    r"with (?:the )?bias|bias(?:es)? included|including bias|带偏置|加上?偏置|含偏置|连同偏置", re.I
)
_NO_BIAS = re.compile(
    r"without (?:\w+ )?bias|no bias|bias(?:es)? (?:ignored|aside)|ignor\w+ (?:the )?bias|不[带含计算]*偏置|无偏置|忽略偏置",
    re.I,
)


@dataclass(frozen=True)
class Told:
    """A quantity that the note has told: what is so, where it was wrong."""

    measure: str
    value: float
    scopes: Mapping[str, bool]
    turn: int
    """In which sentence."""
    sizes: Mapping[str, float]
    """What that sentence told of sizes."""


def check_quantities(line: int, said: str, text: str, names: Names) -> list[Verdict]:
    """A verdict for each number of ``text`` that tells how much of an object there is."""
    found: list[Verdict] = []
    text = re.sub(r"[\d.]+ ?(?:亿|万|[mb]illion|[MB])? ?\(([\d,]+)\)", r"\1 ", text)
    text = re.sub(r"\([^()\d]*\)", "", re.sub(r"\(([^()=]*=[^()]*)\)", r" \1 ", text))
    names.turn += 1
    names.settled = set()
    again = set()
    for one, other in pairwise(amounts(text)):
        if verdicts := _restated(line, said, one, other, text):
            found += verdicts
            again.add(other.start)
    here = {letter: amount.value for letter, amount in sizes_in(text)}
    for amount, clause in claims(text, names):
        if amount.start in again:
            continue
        sizes, doubtful = sizes_of(text, names, amount.start)
        verdict = (
            _chained(line, said, amount, clause, sizes, names)
            or judge(line, said, amount, clause, (sizes, doubtful), names)
            or _summed(line, said, amount, clause, names)
        )
        value = amount.value
        if verdict:
            found.append(verdict)
            told = next(amounts(verdict.values.get("right", "")), None)
            value = told.value if told else value
            names.settled |= {amount.said} if verdict.status == "right" else set()
        names.claimed = [
            Told(clause.measure, value, scopes_in(clause.text), names.turn, here),
            *names.claimed,
        ][:12]
        if clause.own:
            names.things = clause.things
    if mentioned := things_in(text):
        names.things = mentioned
    names.widths = number_widths(text) or names.widths
    remember(((letter, amount.value) for letter, amount in sizes_in(text)), names)
    return found


def values(thing: str, clause: Clause, sizes: Mapping[str, float]) -> Iterator[tuple[str, float]]:
    """The readings of an object, and what each comes to."""
    fixed = scopes_in(clause.text)
    if clause.matrix and thing in catalogue.OF_A_MATRIX:
        p, q = clause.matrix
        sizes = {**sizes, "p": p * q, "q": q}
    if clause.matrix and thing == "scores" and len({*clause.matrix}) == 1:
        sizes = {**sizes, "n": clause.matrix[0]}
    measures = {"bytes": ("entries",), "entries": ("entries", "params")}
    if ANYWHERE["params"].search(clause.before + clause.text):
        measures["bytes"] = ("entries", "params")
    if thing in ("three", "keys", "four", "attention") and re.search(
        r"\beach\b|各|每个", clause.text
    ):
        yield from values("each", clause, sizes)
    widths = [1.0]
    if clause.measure == "bytes":
        widths = number_widths(clause.text) or number_widths(clause.before) or [1.0, 2.0, 4.0]
    for measure in measures.get(clause.measure, (clause.measure,)):
        of_matrix = (
            catalogue.OF_A_MATRIX.get(thing, ()) if measure == "params" and "p" in sizes else ()
        )
        for formula in of_matrix or catalogue.readings(measure, thing, fixed):
            value = catalogue.total(formula, sizes)
            for width in widths if value else ():
                yield formula, value * width


def _chained(
    line: int, said: str, amount: Amount, clause: Clause, sizes: Mapping[str, float], names: Names
) -> Verdict | None:
    """What was told of one layer, token or sequence, for so many; what was counted, in bytes."""
    if not names.claimed:
        return None
    scopes = scopes_in(clause.text)
    widths = number_widths(clause.text) or number_widths(clause.before) or names.widths
    before = (clause.before + clause.text[: clause.text.rfind(amount.said)])[-60:]
    said_times = [
        each for each in TIMES.finditer(before) if _AS_MUCH.fullmatch(before[each.end() :])
    ]
    recent = [told for told in names.claimed if told.turn >= names.turn - 2]
    here = {letter: told.value for letter, told in sizes_in(clause.before + clause.text)}
    for last in recent[:3]:
        if any(last.sizes.get(letter, size) != size for letter, size in here.items()):
            continue  # of another example
        by = 1.0
        for axis, letter in (("layers", "L"), ("heads", "h"), ("tokens", "n"), ("batch", "B")):
            if scopes.get(axis) and not last.scopes.get(axis):
                by *= sizes.get(letter, 0.0)
        if counted := last.measure != clause.measure:
            if (
                clause.measure != "bytes"
                or len(widths) != 1
                or last.measure not in ("entries", "params")
            ):
                continue
            by *= widths[0]
        if said_times and last is recent[0] and by == 1.0:
            by = factor_of(said_times[-1])
        if by in (0.0, 1.0):
            continue
        right = last.value * by
        if agrees(amount, right, False):
            return _right(line, said)
        if (
            last is recent[0]
            and (not clause.own or clause.measure == "bytes")
            and (
                said_times
                or _slipped(amount, right)
                or (counted and last.turn == names.turn and last.value > 1000)
            )
            and not STRANGE.search(clause.before + clause.text)
            and not clause.worked_out
        ):
            return _wrong(line, said, amount, right)
        return None
    return None


_AS_MUCH = re.compile(
    r"(?: as (?:much|many|large|big)| of (?:that|it))?[^\w]*(?:or|so|about|that is|i\.e\.|即|约|是|为|也就是)?\s*",
    re.I,
)


def _slipped(amount: Amount, right: float) -> bool:
    """Whether an amount is what a slip makes of ``right``: of its digits, or by a small factor."""
    ratio = amount.value / right
    return 0.45 < ratio < 2.2 or _slip(amount, right)


_OR = re.compile(
    r"(?:[^\d;。；]{0,40}?\W)?(?:or|so|i\.e\.|that is|that's|about|roughly|approximately|nearly|=|约|约合|即|也就是|就是|合|大约|将近|≈|是)\W*(?:about|约|大约|roughly|=)?\W*",
    re.I,
)
"""What stands between an amount and the same in other words."""


def _restated(line: int, said: str, one: Amount, other: Amount, text: str) -> list[Verdict]:
    """An amount told again in another unit: "4,831,838,208, or 4.83 billion"."""
    between = text[one.end : other.start]
    digits, again = (len(re.sub(r"\D", "", each.said)) for each in (one, other))
    if (
        one.kind != other.kind
        or digits < max(4, again)
        or not re.search(r"[A-Za-z亿万]$", other.said)
    ):
        return []
    if not _OR.fullmatch(between) or TOTAL.search(between) or re.search(r"[;。]", between):
        return []
    twice = (0.5, 1.0, 2.0) if re.search(r"FLOP|operations|运算", text) else (1.0,)
    if any(
        agrees(other, one.value * k, False) or abs(other.value / one.value / k - 1) < 0.002
        for k in twice
    ):
        return [_right(line, said)]
    near = 0.3 < other.value / one.value < 3 or _slip(other, one.value)
    return [_wrong(line, said, other, one.value)] if near else []


def _right(line: int, said: str) -> Verdict:
    return Verdict(line, said, "right", "note.right")


def _wrong(line: int, said: str, amount: Amount, right: float) -> Verdict:
    return Verdict(line, said, "wrong", "note.wrong", {"right": in_its_words(right, amount)})


def _summed(line: int, said: str, amount: Amount, clause: Clause, names: Names) -> Verdict | None:
    """A total of the quantities told before it."""
    if not (_ADDED.search(clause.text) or TOTAL.search(clause.text)):
        return None
    values = [told.value for told in names.claimed if told.measure == clause.measure]
    sums = [
        2 * values[0] if values else 0.0,
        *(sum(values[:count]) for count in range(2, len(values) + 1)),
    ]
    if any(amount.agrees(each) for each in sums):
        return _right(line, said)
    near = next((each for each in sums if _slip(amount, each)), 0.0)
    if not near:
        return None
    return _wrong(line, said, amount, near)


def judge(
    line: int,
    said: str,
    amount: Amount,
    clause: Clause,
    known: tuple[Mapping[str, float], set[str]],
    names: Names,
) -> Verdict | None:
    """What is said of a number that tells how much there is of an object."""
    sizes, doubtful = known
    readings = [pair for thing in clause.things for pair in values(thing, clause, sizes)]
    readings = [*dict.fromkeys(readings)]
    if _NO_BIAS.search(clause.text):
        readings = [each for each in readings if not _biased(each[0])] or readings
    elif _WITH_BIAS.search(clause.text):
        readings = [each for each in readings if _biased(each[0])] or readings
    if not readings:
        return None
    about = _ABOUT.search(clause.text[: clause.text.rfind(amount.said)]) is not None
    if fits := [pair for pair in readings if agrees(amount, pair[1], about)]:
        other = other_convention(fits, names) if clause.measure == "work" else ""
        if other and (value := catalogue.total(other, sizes)):
            return _wrong(line, said, amount, value)
        return _right(line, said)
    anyhow = replace(clause, matrix=())
    spoken = {
        pair for thing in (*clause.things, *clause.spoken) for pair in values(thing, anyhow, sizes)
    }
    near = [value for _, value in (*readings, *spoken) if _slip(amount, value)]
    formula, nearest = _nearest(amount, readings)
    letters = {letter for letter in formula if letter.isalpha()}
    plain = letters <= clause.sizes or (amount.value >= 16 and 0.2 < amount.value / nearest < 5)
    sure = (
        clause.own
        and plain
        and not clause.worked_out
        and len(clause.things) == 1
        and clause.things[0] != "model"
        and (clause.things[0] != "layer" or clause.measure == "params")
        and (not clause.matrix or clause.things[0] in catalogue.OF_A_MATRIX)
        and not letters & doubtful
        and not STRANGE.search(clause.before + clause.text)
        and not _ADDED.search(clause.text)
    )
    right = near or [nearest]
    if (not near and not sure) or _restates(amount, clause):
        return None
    if near and not sure and _explained(amount, sizes, clause):
        return None
    return Verdict(line, said, "wrong", "note.wrong", {"right": in_its_words(right[0], amount)})


def other_convention(fits: Sequence[tuple[str, float]], names: Names) -> str:
    """What a cost is as the note has counted so far, with additions or without; "" where it is."""
    doubled = {formula.startswith("2·") for formula, _ in fits}
    if len(doubled) > 1:
        return ""
    (this,) = doubled
    before = names.doubled
    names.doubled = [*before, this]
    if len(before) < 2 or this in before:
        return ""
    return fits[0][0].removeprefix("2·") if this else times(fits[0][0], "2")


def _nearest(amount: Amount, readings: Sequence[tuple[str, float]]) -> tuple[str, float]:
    """The reading that a clause asks for: the nearest, but without biases where it may be."""
    best = min(readings, key=lambda pair: abs(np.log(pair[1] / amount.value)))
    return next(pair for pair in readings if best[0].startswith(pair[0]))


def _biased(formula: str) -> bool:
    return any(len(re.sub(r"\d", "", term)) == 1 for term in formula.split("+"))


def _slip(amount: Amount, right: float) -> bool:
    """Whether a number of many digits is ``right`` but for one of them, or their order."""
    told = re.match(r"[\d,.]+", amount.said)
    if not told or not amount.value:
        return False
    digits = told[0].rstrip(".,").replace(",", "")
    places = len(digits.partition(".")[2])
    by = amount.value / float(digits)
    other = f"{right / by:.{places}f}"
    if len(digits) != len(other) or len(digits.replace(".", "")) < 4 or digits == other:
        return False
    differ = sum(a != b for a, b in zip(digits, other, strict=True))
    return differ <= 1 + (len(digits) > 6) or sorted(digits) == sorted(other)


def _restates(amount: Amount, clause: Clause) -> bool:
    """Whether it is a size that the sentence has told: "for n = 1000 that is 1000 products"."""
    told = sizes_in(clause.before + clause.text)
    return any(each.value == amount.value for _, each in told)


def _explained(amount: Amount, sizes: Mapping[str, float], clause: Clause) -> bool:
    """Whether another object has just so many."""
    everything = product(("params", "biases", "work", "entries"), catalogue.OBJECTS)
    return any(
        amount.agrees(value * width)
        for measure, thing in everything
        for formula in catalogue.readings(measure, thing, {})
        if (value := catalogue.total(formula, sizes))
        for width in ((1.0, 2.0, 4.0) if clause.measure == "bytes" else (1.0,))
    )
