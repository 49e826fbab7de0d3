"""Every number of the lessons, computed: the same ones for both languages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.resources import files

import numpy as np

from regard._words import Language
from regard.explanation.door import explain
from regard.explanation.numbers import grid, matrices, worked, written
from regard.explanation.positions import BASE, angles, sinusoids
from regard.explanation.sheet import Floats
from regard.explanation.story import VECTORS, matrices_of, widths
from regard.rules import causal

LESSONS = (1, 2, 3, 4, 5)
TOKEN = np.array([0.2, 0.4, 0.6, 0.7])
PLACE = 3
LENGTH, WIDTH, HEADS, BLOCKS = 8, 64, 4, 2
"""The model of lesson 5; its exercise file has the same, and a test compares them."""


def lesson(number: int, lang: Language) -> str:
    """The text of a lesson with its numbers filled in, as Markdown."""
    text = (files("regard.course") / "lessons" / f"{number}.{lang}.md").read_text("utf-8")
    for name, figure in figures(number).items():
        text = text.replace(f"@{name}@", figure)
    return text


def figures(number: int) -> Mapping[str, str]:
    """The numbers of one lesson by their names."""
    return _FIGURES[number]()


def _block(array: Floats) -> str:
    """A matrix as lines of numbers that stand under each other; heads one under another."""
    blocks = []
    for matrix in matrices(array):
        cells = grid(matrix)
        wide = [max(len(row[j]) for row in cells) for j in range(matrix.shape[1])]
        blocks.append(
            "\n".join("  ".join(c.rjust(w) for c, w in zip(r, wide, strict=True)) for r in cells)
        )
    return "\n\n".join(blocks)


def _one() -> dict[str, str]:
    trace = explain()
    sheet, d = trace.sheet, trace.sheet["D"]
    e = np.exp(d[0])  # as it is written in the lesson, before the maximum is taken off
    return {
        "X": _block(VECTORS),
        "dot_12": worked(sheet, "D", 0, 0, 1),
        "D": _block(d),
        "row_sum": written(float(d[0].sum())),
        "e": written(float(np.e), 3),
        **{f"d1{j + 1}": written(float(d[0, j])) for j in range(3)},
        **{f"e{j + 1}": written(float(e[j])) for j in range(3)},
        "e_sum": written(float(e.sum())),
        "w1": written(float(sheet["A_1"][0, 0])),
        "big": str(int(np.log(np.finfo(np.float64).max)) + 1),
        "A": _block(sheet["A_1"]),
        "o11": worked(sheet, "O_1"),
    }


def _two() -> dict[str, str]:
    sheet = explain().sheet
    wq, wk, wv, _ = matrices_of(2)
    rows = widths()
    lines = [
        f"d = {written(row[0]):>4}   σ = {written(row[1], 2):>6}   √d = {written(row[2]):>3}"
        for row in rows
    ]
    beside = zip(*(_block(each).split("\n") for each in (wq, wk, wv)), strict=True)
    return {
        "spread": "\n".join(lines),
        "d": written(rows[2, 0]),
        "root": written(rows[2, 2]),
        "matrices": "\n".join("".join(part.ljust(16) for part in row).rstrip() for row in beside),
        "S": _block(sheet["S"]),
        "s13": written(float(sheet["S"][0, 2])),
        "s31": written(float(sheet["S"][2, 0])),
        "width": str(wq.shape[1]),
        "O": _block(sheet["O"]),
    }


def _three() -> dict[str, str]:
    wq, wk, wv, _ = matrices_of(2)
    sheet = explain(VECTORS, wq=wq, wk=wk, wv=wv, mask=causal()).sheet
    heads = explain(VECTORS, wq=wq, wk=wk, wv=wv, mask=causal(), heads=2).sheet
    unmasked = explain(VECTORS, wq=wq, wk=wk, wv=wv, temperature=1.0, scale=2**-0.5).sheet
    return {
        "M": _block(sheet["M"]),
        "exp0": written(float(np.exp(0.0))),
        "S_masked": _block(sheet["S_masked"]),
        "A": _block(sheet["A"]),
        "late": written(float(unmasked["A"][0, 0])),
        "width": str(heads["Q_h"].shape[-1]),
        "A_h": _block(heads["A"]),
    }


def _four() -> dict[str, str]:
    sheet = explain().sheet
    p, turned = sinusoids(PLACE + 1, 4)[-1:], angles(PLACE + 1, 4)[-1]
    careless = BASE ** (1 / 4)
    return {
        "last": _block(sheet["O_2"][-1:]),
        "first": _block(sheet["O_o"][:1]),
        "base": str(int(BASE)),
        "angle0": written(float(turned[0])),
        "angle1": written(float(turned[1])),
        "p3": _block(p),
        "divisor": written(BASE ** (2 / 4)),
        "wrong_divisor": written(careless),
        "wrong_angle": written(PLACE / careless),
        "token": ", ".join(written(float(x)) for x in TOKEN),
        "sum": _block(TOKEN[None] + p),
    }


def _five() -> dict[str, str]:
    digits = np.random.default_rng(0).integers(0, 10, LENGTH)
    said = " ".join(map(str, digits))
    linear = WIDTH * 3 * WIDTH + 3 * WIDTH + WIDTH * WIDTH + WIDTH
    mlp = WIDTH * 4 * WIDTH + 4 * WIDTH + 4 * WIDTH * WIDTH + WIDTH
    block = 4 * WIDTH + linear + mlp
    ends = 11 * WIDTH + 2 * LENGTH * WIDTH + 2 * WIDTH + WIDTH * 10 + 10
    return {
        "length": str(LENGTH),
        "example": f"{said} | {' '.join(map(str, digits[::-1]))}",
        "blocks": str(BLOCKS),
        "width": str(WIDTH),
        "heads": str(HEADS),
        "parameters": f"{BLOCKS * block + ends:,}",
    }


_FIGURES: Mapping[int, Callable[[], dict[str, str]]] = {
    1: _one, 2: _two, 3: _three, 4: _four, 5: _five,
}  # fmt: skip
