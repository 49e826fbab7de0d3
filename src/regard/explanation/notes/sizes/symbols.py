"""What a part costs or holds in letters, "8nd²", and in the cells of a table."""

from __future__ import annotations

import re

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.amounts import amounts
from regard.explanation.notes.sizes import catalogue
from regard.explanation.notes.sizes.clauses import (
    NOUNS,
    SEPARATOR,
    Clause,
    noun_in,
    scopes_in,
    things_in,
)
from regard.explanation.notes.sizes.growth import TIMES, factor_of
from regard.explanation.notes.sizes.modelled import sizes_of
from regard.explanation.notes.sizes.quantities import STRANGE, judge, other_convention, values
from regard.explanation.numbers import written

_SYMBOLS = re.compile(
    r"(?<![\w^*/+(])(?:\d+ ?\*? ?)?(?:[ndhLTSNV](?:_model|_k|_ff|_f)?(?:\^\(?\d\)?)? ?\*? ?)+(?![\w(=^]|\s*[-=+*/(^]|\s*(?:[ndhLTSNV](?:_\w+)?)+(?![A-Za-z])|\s*的?(?:terms?\b|parts?\b|products?\b|项|部分))"
)
"""A product in letters: 8nd^2."""
_COST = re.compile(r"\bcosts?\b|计算量", re.I)
_AS_LETTERS = {"d_model": "d", "d_k": "k", "d_ff": "f", "T": "n", "S": "n", "N": "n"}


def check_symbols(line: int, said: str, text: str, names: Names) -> list[Verdict]:
    """A verdict for each formula of ``text`` that tells a measure of an object in letters."""
    found = []
    previous = 0
    for match in (each for each in _SYMBOLS.finditer(text) if "^" in each[0]):
        start = max([previous, *(m.end() for m in SEPARATOR.finditer(text[: match.start()]))])
        stop = SEPARATOR.search(text[match.end() :])
        end = match.end() + stop.start() if stop else len(text)
        before, previous = text[start : match.start()], match.end()
        measure = _symbols_measure(before, text[match.end() : end]) or noun_in(names.heading)
        things = things_in(before) or things_in(text[: match.start()])
        if things == ("layer",) and not scopes_in(before):
            continue
        if (
            not measure
            or len(things) != 1
            or things[0] == "model"
            or STRANGE.search(text[start:end])
            or "=" in before
        ):
            continue
        clause = Clause(text[start:end], text[:start], measure, things, own=True)
        verdict = _judge_symbols(line, said, match[0].strip(), clause, names)
        if verdict:
            found.append(verdict)
    return found


def _symbols_measure(before: str, after: str) -> str:
    told = next((name for name, noun in NOUNS.items() if noun.match(after)), "")
    if told:
        return told
    return noun_in(before) or ("work" if _COST.search(before) else "")


_TRIAL = {
    "n": 3.0,
    "d": 7.0 * 5,
    "h": 5.0,
    "k": 7.0,
    "L": 11.0,
    "f": 4 * 35.0,
    "g": 5.0,
    "V": 13.0,
    "B": 17.0,
    "P": 3.0,
}
"""Sizes at which no two formulas agree by chance."""


def _judge_symbols(
    line: int, said: str, formula: str, clause: Clause, names: Names
) -> Verdict | None:
    """A formula in letters against the readings of its object."""
    written = formula
    for name, letter in _AS_LETTERS.items():
        written = written.replace(name, letter)
    written = re.sub(
        r"([A-Za-z])\^\(?(\d)\)?", lambda m: m[1] * int(m[2]), re.sub(r"[ *]", "", written)
    )
    claimed = catalogue.total(written, _TRIAL)
    readings = [pair for thing in clause.things for pair in values(thing, clause, _TRIAL)]
    if not readings or not claimed:
        return None
    if fits := [pair for pair in readings if abs(claimed / pair[1] - 1) < 1e-9]:
        other = other_convention(fits, names) if clause.measure == "work" else ""
        if not other:
            return Verdict(line, said, "right", "note.right")
        return Verdict(line, said, "wrong", "note.wrong", {"right": _written(other)})
    plain = [pair for pair in readings if "+" not in pair[0]] or readings
    alone = [pair for pair in plain if not set("LBh") & set(pair[0]) - set(written)] or plain
    best = min(alone, key=lambda pair: abs(np.log(pair[1] / claimed)))
    return Verdict(line, said, "wrong", "note.wrong", {"right": _written(best[0])})


def _written(formula: str) -> str:
    """A formula with the width of the feed-forward as it mostly is."""
    alone = formula.count("f") == 1 and "+" not in formula
    return catalogue.shown(formula.replace("f", "4d") if alone else formula)


def check_cells(line: int, label: str, title: str, cell: str, names: Names) -> list[Verdict]:
    """A verdict on a table's cell: its row names the object, its column the measure."""
    told = [*amounts(cell)]
    things = things_in(label)
    measure = noun_in(title) or ("work" if _COST.search(title) else "")
    if len(things) == 1 and measure and _SYMBOLS.fullmatch(cell.strip("$ ")) and "^" in cell:
        clause = Clause(label, "", measure, things, own=True)
        symbols = _judge_symbols(line, f"{label}: {cell}", cell.strip("$ "), clause, names)
        return [symbols] if symbols else []
    if len(told) != 1 or told[0].said != cell.strip() or len(things) != 1:
        return []
    kind = told[0].kind or measure
    if kind not in (*catalogue.NOUNS, "bytes"):
        return []
    clause = Clause(f"{label} ; {title}", "", kind, things, own=True)
    verdict = judge(line, f"{label}: {cell}", told[0], clause, sizes_of("", names), names)
    return [verdict] if verdict else []


_SHARES = {
    "two[- ]thirds|三分之二": 2 / 3, "(?:one|a)[- ]third|三分之一": 1 / 3, "half|一半": 1 / 2,
    "(?:one|a)[- ]quarter|四分之一": 1 / 4, "three[- ]quarters|四分之三": 3 / 4,
}  # fmt: skip
_OF_A_LAYER = re.compile(r"layer|block|层|块", re.I)
_ELSEWHERE = re.compile(r"model|total|embed|overall|whole|整个|全部|总|嵌入", re.I)


def check_ratios(line: int, said: str, text: str, names: Names) -> list[Verdict]:
    """A verdict on how the weights of one part compare with those of another, or of the layer."""
    sizes = {**_TRIAL, **{k: v for k, v in sizes_of(text, names)[0].items() if k in "df" and v}}
    for clause in SEPARATOR.split(text):
        things = things_in(clause)
        if noun_in(clause) != "params" or STRANGE.search(clause) or _ELSEWHERE.search(clause):
            continue
        if len(things) == 2 and len(times := [*TIMES.finditer(clause)]) == 1:
            claimed = factor_of(times[0])
            right = _least(things[0], sizes) / (_least(things[1], sizes) or np.inf)
            form = written(right)
        elif len(things) == 1 and things[0] in ("attention", "ffn") and _OF_A_LAYER.search(clause):
            claimed = next(
                (
                    v
                    for k, v in _SHARES.items()
                    if re.search(rf"\b(?:{k})\b|{k.split('|')[-1]}", clause, re.I)
                ),
                0.0,
            )
            right, ffn = (
                _least(part, sizes) / _least("layer", sizes) for part in (things[0], "ffn")
            )
            form = f"{right:.0%} (FFN: {ffn:.0%})"
        else:
            continue
        if claimed and right:
            if abs(claimed / right - 1) < 0.06:
                return [Verdict(line, said, "right", "note.right")]
            return [Verdict(line, said, "wrong", "note.wrong", {"right": form})]
    return []


def _least(thing: str, sizes: dict[str, float]) -> float:
    """The plainest reading of the weights of a part."""
    reading = next(iter(catalogue.readings("params", thing, {"layers": False})), "")
    return catalogue.total(reading, sizes) if reading else 0.0
