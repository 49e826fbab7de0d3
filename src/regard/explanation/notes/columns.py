"""Columns of a table that depend on each other, found in the numbers themselves.

Where all rows but one agree that a column is a power of another, or a product of two, the odd one
out is wrong, if it is nearly right: digits in another order, or a slip of a few percent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np

from regard.explanation.notes.amounts import amounts
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.equations import close, shown
from regard.explanation.notes.mathtext import plain
from regard.explanation.notes.parsing import literal, parsed
from regard.explanation.notes.references import with_sizes
from regard.explanation.sheet import Floats

_POWERS = (1.0, 2.0, 0.5, -1.0, -0.5, 3.0)
_BY_DIGITS, _BY_HEAD = 1, 2
"""Why there is no doubt of a law."""
_SIZE = re.compile(
    r"memory|size|weights|entries|fp16|fp32|bf16|float\d|int8|scores|pairs|bytes|[KMG]i?B|cache|FLOP|multipl|param|显存|内存|大小|权重|元素|分数|个数|缓存|参数|计算量|乘法",
    re.I,
)
_DRIVER = re.compile(
    r"^(?:n|d|h|T|L|N)$|length|token|\bseq|context|heads?\b|layers|d_?(?:model|k)|width|序列|长度|词|头|层|维",
    re.I,
)
_DISTANCE = re.compile(r"distance|距离|i ?- ?j", re.I)
_LEAST = 3
"""Rows that must agree before a table has a law."""


_ITEM = re.compile(
    r"\s*(?:[-*+]|\d+[.)])\s+\$?(?P<name>[A-Za-z]\w*)\s*=\s*(?P<number>[\d,]+)\$?\s*(?:[:：,，→]|的?时|gives|tokens)\s*(?P<rest>.+)"
)


def check_items(lines: list[str]) -> Iterator[Verdict]:
    """A verdict for each list whose items are the rows of a table: "n = 512: 0.5 MiB"."""
    rows: list[tuple[int, list[str]]] = []
    heads: list[str] = []
    for line, text in [*enumerate(lines, 1), (0, "")]:
        match = _ITEM.match(text)
        parts = re.split(r"[,，;；](?!\d)", match["rest"]) if match else []
        told = [[*amounts(with_sizes(part).replace("\\", " "))][-1:] for part in parts]
        cells = [each.said for last in told for each in last]
        if match and cells and (not rows or len(cells) + 1 == len(heads)):
            if not rows:
                units = [" MiB" * (each.kind == "bytes") for last in told for each in last]
                words = [re.split(r"\d", part)[0] for part in parts]
                heads = [match["name"], *(w + u for w, u in zip(words, units, strict=False))]
            rows.append((line, [match["number"], *cells]))
            continue
        yield from check_columns(heads, rows)
        rows = []


def check_columns(head: list[str], rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """A verdict for each number that breaks the law of its column."""
    width = len(head)
    rows = [(line, cells) for line, cells in rows if len(cells) >= width]
    if len(rows) < _LEAST:
        return []
    numbers = {column: told for column in range(width) if (told := _column(rows, column))}
    found: list[Verdict] = []
    for target, (claimed, units) in numbers.items():
        best: tuple[int, Floats, int] | None = None
        for right, sure in _laws(head, numbers, target):
            same = np.array([close(c, r, u) for c, r, u in zip(claimed, right, units, strict=True)])
            count = int(same.sum())
            least = 2 if sure else _LEAST
            if count >= max(least, len(rows) - 1) and (best is None or count > best[0]):
                best = (count, right, sure)
        if best is None or best[0] == len(rows):
            continue
        for (line, cells), c, r, u in zip(rows, claimed, best[1], units, strict=True):
            certain = best[2] == _BY_HEAD or (
                best[2] and _digits(cells[target], float(c), float(r))
            )
            if not close(c, r, u) and (certain or _slip(cells[target], float(c), float(r))):
                said = f"{head[target]}: {cells[target]}"
                unit = cells[target].strip()[-3:]
                by = _UNIT.get(unit, 1.0)
                right_value = shown(np.asarray(r / by), np.asarray(u / by)) + (
                    f" {unit}" if by > 1 else ""
                )
                found.append(Verdict(line, said, "wrong", "note.wrong", {"right": right_value}))
    return found[:1] if len({verdict.line for verdict in found}) > 1 else found[-1:]


def _number(cell: str) -> tuple[Floats, Floats] | None:
    found = literal(parsed(plain(cell)) or ("name", ""))
    if found is None and (amount := next(amounts(cell), None)) and amount.said == cell.strip():
        by = 1.024 if cell.strip()[-1:] in "kK" else 1.0
        return np.asarray(amount.value * by), np.asarray(amount.unit)
    return found


def _column(rows: list[tuple[int, list[str]]], column: int) -> tuple[Floats, Floats] | None:
    told = [_number(cells[column]) for _, cells in rows]
    if any(each is None or each[0].ndim for each in told):
        return None
    numbers = np.array([float(each[0]) for each in told if each])
    return numbers, np.array([float(each[1]) for each in told if each])


_BY_NAME = {
    r"exp|e\^x|e\^s|exponential|指数": np.exp, r"ln|log": np.log, r"sqrt|square root|平方根": np.sqrt,
    r"sin": np.sin, r"cos": np.cos, r"square[sd]?|平方": np.square,
}  # fmt: skip


def _laws(  # noqa: PLR0912
    head: list[str], numbers: dict[int, tuple[Floats, Floats]], target: int
) -> Iterator[tuple[Floats, int]]:
    """What a column may be, and whether its head or its digits leave no doubt."""
    claimed = numbers[target][0]
    first = min(numbers)
    for name, function in _BY_NAME.items():
        if target != first and re.fullmatch(
            rf"(?:the )?(?:{name})(?:\(\w+\))?", plain(head[target]).strip(), re.I
        ):
            with np.errstate(all="ignore"):
                yield function(numbers[first][0]), _BY_HEAD
    n = numbers[first][0]
    if (
        target != first
        and (n == np.round(n)).all()
        and re.search(
            r"kept|visible|allow|pairs|hidden|mask|block|ones|zeros|causal|可见|保留|允许|遮|屏蔽|因果",
            head[target],
            re.I,
        )
    ):
        yield n * (n + 1) / 2, _BY_HEAD
        yield n * (n - 1) / 2, _BY_HEAD
    if target != first and re.search(r"weight|softmax|权重|概率", head[target], re.I):
        scores = np.exp(numbers[first][0] - numbers[first][0].max())
        yield scores / scores.sum(), _BY_HEAD
    others = [column for column in numbers if column != target]
    with np.errstate(all="ignore"):
        for column in others:
            x = numbers[column][0]
            if (x[0] == 0 and (x[1:] > 0).all() and claimed[0] == 0) and len(x) > _LEAST:
                factor = float(np.median(claimed[1:] / x[1:]))
                yield factor * x, _BY_HEAD if _DISTANCE.search(head[column]) else 0
            if len({*x.tolist()}) < len(x) or (x <= 0).any():
                continue
            for power in _POWERS:
                factor = _nice(float(np.median(claimed / x**power)))
                if factor:
                    of_size = _SIZE.search(head[target]) and _DRIVER.search(
                        plain(head[column]).strip()
                    )
                    sure = power in (1.0, 2.0) and (len(x) > _LEAST or "iB" in head[target])
                    long = _BY_DIGITS * (power in (1.0, 2.0) and _long(claimed))
                    yield factor * x**power, _BY_HEAD if sure and of_size else long
        for three in combinations(others, 3):
            right = np.prod([numbers[column][0] for column in three], axis=0)
            factor = _nice(float(np.median(claimed / right)))
            if factor and np.isfinite(right).all():
                yield factor * right, _BY_DIGITS * _long(claimed)
        for a, b in combinations(others, 2):
            for first, second in permutations((a, b)):
                x, y = numbers[first][0], numbers[second][0]
                for right in (x * y, x / y):
                    factor = _nice(float(np.median(claimed / right)))
                    if factor and np.isfinite(right).all():
                        yield factor * right, _BY_DIGITS * (factor == 1 and _long(claimed))


def _long(numbers: Floats) -> bool:
    """Whether the numbers have digits enough not to agree by chance."""
    return all(len(f"{number:.6g}".replace(".", "").strip("0")) >= 3 for number in numbers.tolist())


def _nice(factor: float) -> float:
    """A factor that people write: 4, 12, 1/2."""
    for by in (1.0, 2.0, 4.0, 8.0, 3.0):
        if (
            np.isfinite(factor)
            and 0 < factor < 1e9
            and abs(factor * by - round(factor * by)) < 0.004 * max(factor * by, 0.1)
        ):
            return round(factor * by) / by
    return 0.0


def _digits(said: str, claimed: float, right: float) -> bool:
    """The right digits in another order."""
    number = re.sub(r"[^\d.]", "", said)
    length = len(number.partition(".")[2])
    by = _UNIT.get(said.strip()[-3:], 1.0)
    return sorted(re.sub(r"\D", "", number).lstrip("0")) == sorted(
        re.sub(r"\D", "", f"{right / by:.{length}f}").lstrip("0")
    )


_UNIT = {"KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3}


def _slip(said: str, claimed: float, right: float) -> bool:
    if len(re.sub(r"\D", "", said).strip("0")) < 3:
        return False
    return _digits(said, claimed, right) or 0.9 < claimed / (right or np.inf) < 1.1
