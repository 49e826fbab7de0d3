"""What a part costs or holds in letters, "8nd²", and in the cells of a table."""

from __future__ import annotations

import re

import numpy as np

from regard.explanation.notes import catalogue
from regard.explanation.notes.algebra import Names
from regard.explanation.notes.amounts import amounts
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.clauses import NOUNS, SEPARATOR, Clause, noun_in, scopes_in, things_in
from regard.explanation.notes.modelled import sizes_of
from regard.explanation.notes.quantities import STRANGE, judge, values

_SYMBOLS = re.compile(
    r"(?<![\w^*/+(])(?:\d+ ?\*? ?)?(?:[ndhLTSNV](?:_model|_k|_ff|_f)?(?:\^\(?\d\)?)? ?\*? ?)+(?![\w(=^]|\s*[-=+*/(^])"
)
"""A product in letters: 8nd^2."""
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
        measure = _symbols_measure(before, text[match.end() : end])
        things = things_in(before)
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
        verdict = _judge_symbols(line, said, match[0].strip(), clause)
        if verdict:
            found.append(verdict)
    return found


def _symbols_measure(before: str, after: str) -> str:
    told = next((name for name, noun in NOUNS.items() if noun.match(after)), "")
    if told:
        return told
    return noun_in(before) or ("work" if re.search(r"\bcosts?\b|计算量", before) else "")


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


def _judge_symbols(line: int, said: str, formula: str, clause: Clause) -> Verdict | None:
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
    by = (1.0, 2.0, 4.0, 1 / 2) if clause.measure in ("work", "bytes") else (1.0,)
    if any(abs(claimed / value - k) < 1e-9 for _, value in readings for k in by):
        return Verdict(line, said, "right", "note.right")
    plain = [pair for pair in readings if "+" not in pair[0]] or readings
    alone = [pair for pair in plain if not set("LBh") & set(pair[0]) - set(written)] or plain
    best = min(alone, key=lambda pair: abs(np.log(pair[1] / claimed)))
    right = catalogue.shown(
        best[0].replace("f", "4d") if best[0].count("f") == 1 and "+" not in best[0] else best[0]
    )
    return Verdict(line, said, "wrong", "note.wrong", {"right": right})


def check_cells(line: int, label: str, title: str, cell: str, names: Names) -> list[Verdict]:
    """A verdict on a table's cell: its row names the object, its column the measure."""
    told = [*amounts(cell)]
    things = things_in(label)
    measure = noun_in(title)
    if len(told) != 1 or told[0].said != cell.strip() or len(things) != 1:
        return []
    sizes, doubtful = sizes_of("", names)
    kind = told[0].kind or measure
    if kind not in (*catalogue.NOUNS, "bytes"):
        return []
    clause = Clause(f"{label} ; {title}", "", kind, things, own=True)
    verdict = judge(line, f"{label}: {cell}", told[0], clause, sizes, doubtful)
    return [verdict] if verdict else []
