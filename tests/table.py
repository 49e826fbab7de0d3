"""The page of the documentation that says what every cell of the contract does."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from cells import ASKED, DTYPES, ENGINES, SCORES, Cell

AGREES = "✓"
HEAD = """\
# What each engine can do

Every cell of this page is a test: for each mask, each score, each dtype and each thing that torch
may ask, the engine's answer agrees with the formula in float64, within the bound of the contract
(✓), or the engine refuses by name, in the words of the letter. `engine="auto"` takes an engine that
can, so it refuses nothing. The masks are: none, causal, window, prefix, lengths with an empty row,
documents, keep, where, and joins by `&`, `|` and `~`. A sign holds for all of them and for float16,
bfloat16, float32 and float64, but where a dtype stands beneath a table. (flex compiles for
seconds a cell: of its outputs in float32 every mask meets every score; of the rest every mask, and
every score with causal.) The cells were computed on a CPU.

| word | what is asked |
|---|---|
| output | the result |
| gradient | of everything that is a float: q, k, v, biases, slopes, tables, sink |
| second | the gradient of a gradient |
| forward | forward mode: a tangent |
| vmap | a mapped axis |
| compile | output and gradient inside `torch.compile(fullgraph=True)` |

A compiled graph has no forward mode and no second derivative; both are refused by name, whatever
the engine.
`make campaign` computes all cells, and `python scripts/cells.py` writes this page from them.
"""


def short(outcome: str) -> str:
    """The reason alone, of an engine's refusal."""
    found = re.fullmatch(r"engine='\w+' cannot do this call: (.*); engine='auto' .*", outcome)
    return found[1] if found else outcome


def render(results: dict[Cell, str]) -> str:
    """The page, from the outcome of every cell in short words."""
    page = [HEAD]
    for engine in ENGINES:
        never = _never(results, engine)
        letters: dict[str, str] = {}
        rows = [
            [score, *(_sign(results, never, letters, engine, a, score) for a in ASKED)]
            for score in SCORES
        ]
        page += [f"## {engine}\n", f"| score | {' | '.join(ASKED)} |"]
        page += ["|---" * (len(ASKED) + 1) + "|", *(f"| {' | '.join(row)} |" for row in rows)]
        reasons = {letter: reason for reason, letter in letters.items()} | never
        page += ["", *(f"- {sign}: {reason}" for sign, reason in reasons.items())]
        page += [""] if reasons else []
    return "\n".join(page).rstrip() + "\n"


def _never(results: dict[Cell, str], engine: str) -> dict[str, str]:
    """The dtypes that the engine refuses in every cell, and the reason."""
    found: dict[str, str] = {}
    for dtype in DTYPES:
        told = {t for c, t in results.items() if (c.engine, c.dtype) == (engine, dtype)}
        if len(told) == 1 and told != {"agrees"}:
            found[dtype] = told.pop()
    return found


def _sign(
    results: dict[Cell, str],
    never: dict[str, str],
    letters: dict[str, str],
    engine: str,
    asked: str,
    score: str,
) -> str:
    """One sign for all masks and dtypes but those that the engine never takes."""
    told: dict[str, str] = {}
    for cell, answer in results.items():
        here = (cell.engine, cell.asked, cell.score) == (engine, asked, score)
        if here and cell.dtype not in never:
            assert told.setdefault(cell.dtype, answer) == answer, "masks differ in one cell"
    refused = {dtype: answer for dtype, answer in told.items() if answer != "agrees"}
    if not refused:
        return AGREES
    (reason,) = set(refused.values())
    if len(refused) < len(told):
        reason = f"{reason} ({', '.join(d for d in DTYPES if d in refused)}; {AGREES} elsewhere)"
    return letters.setdefault(reason, ascii_lowercase[len(letters)])


@cache
def _read(page: Path) -> dict[tuple[str, str, str, str], str]:
    told: dict[tuple[str, str, str, str], str] = {}
    for section in page.read_text(encoding="utf-8").split("\n## ")[1:]:
        engine = section.split("\n", 1)[0]
        reasons = dict(re.findall(r"^- (\w+): (.*)$", section, re.MULTILINE))
        for row in re.findall(r"^\| (.*) \|$", section, re.MULTILINE)[1:]:
            score, *signs = row.split(" | ")
            for (asked, sign), dtype in product(zip(ASKED, signs, strict=True), DTYPES):
                answer = "agrees" if sign == AGREES else reasons[sign]
                if some := re.fullmatch(rf"(.*) \((.*); {AGREES} elsewhere\)", answer):
                    answer = some[1] if dtype in some[2].split(", ") else "agrees"
                told[engine, asked, score, dtype] = reasons.get(dtype, answer)
    return told


def told(page: Path, cell: Cell) -> str:
    """What the page says of ``cell``."""
    return _read(page)[cell.engine, cell.asked, cell.score, cell.dtype]
