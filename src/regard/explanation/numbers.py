"""How numbers are written, the same in every face; ``numbers.js`` writes them so in the page."""

from __future__ import annotations

import math

import numpy as np

from regard.explanation.sheet import Floats, Sheet

DIGITS = 4
"""Decimals: enough to follow by hand, few enough to read."""


def written(value: float, digits: int = DIGITS) -> str:
    """``value`` with at most ``digits`` decimals and no zeros that say nothing.

    >>> written(0.26), written(1 / 3), written(-2.0), written(float("-inf")), written(1e-7)
    ('0.26', '0.3333', '−2', '−∞', '1e-7')
    """
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞" if value < 0 else "NaN"
    if value and abs(value) < 0.5 * 10**-digits:
        mantissa, _, power = f"{value:.0e}".partition("e")
        return f"{mantissa.replace('-', '−')}e{int(power)}"
    text = f"{value:.{digits}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return ("0" if text in ("-0", "") else text).replace("-", "−")


def column(values: Floats) -> list[str]:
    """Numbers that stand under each other: all with the decimals that the longest needs.

    >>> column(np.array([0.5, 0.25, 1048576.0]))
    ['0.50', '0.25', '1,048,576.00']
    """
    texts = [written(float(value)) for value in values]
    decimals = max((len(t.partition(".")[2]) for t in texts if "e" not in t), default=0)
    return [
        text if "∞" in text or "N" in text or "e" in text
        else f"{float(value):,.{decimals}f}".replace("-", "−")
        for text, value in zip(texts, values, strict=True)
    ]  # fmt: skip


def grid(matrix: Floats) -> list[list[str]]:
    """Every number of a matrix, all of them with the same decimals."""
    flat = column(matrix.reshape(-1))
    return [flat[i : i + matrix.shape[1]] for i in range(0, len(flat), matrix.shape[1])]


def matrices(array: Floats) -> list[Floats]:
    """(…, n, m) as the list of its matrices; one for a plain (n, m)."""
    return list(array.reshape((-1, *array.shape[-2:])))


def worked(sheet: Sheet, name: str, head: int = 0, row: int = 0, col: int = 0) -> str:
    """One number of a table, worked out with the numbers that it comes from; "" if it is given.

    >>> sheet = Sheet()
    >>> _ = sheet.given("X", [[0.1, 0.5], [0.3, 0.4]])
    >>> worked(sheet, sheet.add("D", "dots", "X", "X"), 0, 0, 1)
    '0.1 · 0.3 + 0.5 · 0.4 = 0.23'
    """
    table = sheet.tables[name]
    parts = [matrices(sheet[each]) for each in table.inputs]
    source = [part[head % len(part)] for part in parts]
    result = written(float(matrices(table.array)[head][row, col]))
    match table.operation:
        case "dots":
            left = _dot(source[0][row], source[1][col])
        case "product" | "mix":
            left = _dot(source[0][row], source[1][:, col])
        case "scale":
            left = f"{_n(source[0][row, col])} · {_n(source[1][0, 0])}"
            if source[2][0, 0] != 1:
                left += f" ÷ {_n(source[2][0, 0])}"
        case "times" | "over" | "power" | "plus" as name:
            sign = {"times": "·", "over": "÷", "power": "^", "plus": "+"}[name]
            left = f"{_n(_at(source[0], row, col))} {sign} {_n(_at(source[1], row, col))}"
        case "largest":
            left = f"max({', '.join(map(_n, source[0][row]))})"
        case "powers":
            largest = source[1][row, 0]  # of a row that may attend to nothing nothing is taken off
            largest = largest if math.isfinite(largest) else 0.0
            left = f"exp({_n(source[0][row, col])} − {_n(largest)})"
        case "sum":
            left = " + ".join(map(_n, source[0][row]))
        case "softmax":
            left = f"{_n(source[1][row, col])} ÷ {_n(source[2][row, 0])}"
        case "rotate":
            even, odd = source[0][row, col - col % 2], source[0][row, col - col % 2 + 1]
            angle = _n(source[1][row, col // 2])
            one, two = ("cos", "sin") if col % 2 == 0 else ("sin", "cos")
            sign = "−" if col % 2 == 0 else "+"
            left = f"{_n(even)} · {one}({angle}) {sign} {_n(odd)} · {two}({angle})"
        case _:
            return ""
    return f"{left} = {result}"


def _at(source: Floats, row: int, col: int) -> float:
    """A number of what is broadcast: a single row, column or number stands for all."""
    return float(source[row % source.shape[0], col % source.shape[1]])


def _n(value: float | np.float64) -> str:
    text = written(float(value))
    return f"({text})" if text.startswith("−") and text != "−∞" else text


def _dot(a: Floats, b: Floats) -> str:
    """The first and the last products of a long sum; all of a short one."""
    terms = [f"{_n(x)} · {_n(y)}" for x, y in zip(a, b, strict=True)]
    if len(terms) > 6:
        terms = [*terms[:3], "…", terms[-1]]
    return " + ".join(terms)
