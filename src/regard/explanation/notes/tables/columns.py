"""Columns of a table that depend on each other, found in the numbers themselves.

Where all rows but one agree that a column is a power of another, or a product of two, the odd one
out is wrong, if it is nearly right: digits in another order, or a slip of a few percent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations, permutations

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.amounts import amounts
from regard.explanation.notes.mathematics.equations import close, shown
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import literal, parsed
from regard.explanation.notes.tables.siblings import with_units, written_tables
from regard.explanation.numbers import written
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
_TOTAL = re.compile(r"\btotal\b|\bsum\b|together|合计|总计|一共|之和", re.I)
_TRIANGLE = re.compile(
    r"kept|visible|allow|pairs|hidden|mask|block|ones|zeros|causal|forbid|可见|保留|允许|遮|屏蔽|禁止|因果",
    re.I,
)
_DISTANCE = re.compile(r"distance|距离|i ?- ?j", re.I)
_LEAST = 3
"""Rows that must agree before a table has a law."""


def check_items(lines: list[str]) -> Iterator[Verdict]:
    """A verdict for each table that is written as a list: "n = 512: 0.5 MiB"."""
    for table in written_tables(lines):
        heads = [
            head + " MiB" * (cell.kind == "bytes")
            for head, cell in zip(table[0].heads, table[0].cells, strict=True)
        ]
        yield from check_columns(heads, [(row.line, [c.said for c in row.cells]) for row in table])


def check_columns(head: list[str], rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """A verdict for each number that breaks the law of its column."""
    width = len(head)
    rows = [(line, cells) for line, cells in rows if len(cells) >= width]
    if len(rows) < _LEAST:
        return []
    columns = {column: told for column in range(width) if (told := _column(rows, column))}
    numbers = {column: (values, units) for column, (values, units, _) in columns.items()}
    found: list[Verdict] = []
    for target, (claimed, units, scales) in columns.items():
        if _CHOSEN.fullmatch(head[target].strip(" $`")):
            continue
        best: tuple[int, Floats, int] | None = None
        for right, sure in _laws(head, numbers, target):
            same = np.array([close(c, r, u) for c, r, u in zip(claimed, right, units, strict=True)])
            count = int(same.sum())
            least = 2 if sure else _LEAST
            if count >= max(least, len(rows) - 1) and (best is None or count > best[0]):
                best = (count, right, sure)
        if best is None or best[0] == len(rows):
            continue
        _, right, sure = best
        for (line, cells), c, r, u, by in zip(rows, claimed, right, units, scales, strict=True):
            said = f"{head[target].strip(' ,，:：')}: {cells[target]}"
            if close(c, r, u):
                found.append(Verdict(line, said, "right", "note.right"))
            elif _slip(cells[target], float(c / by), float(r / by), sure, best[0]):
                value = _told(float(r), by, float(u), cells[target])
                found.append(Verdict(line, said, "wrong", "note.wrong", {"right": value}))
    wrong = [verdict for verdict in found if verdict.status == "wrong"]
    if not wrong or len({verdict.line for verdict in wrong}) > 1:
        return wrong[:1]
    return [v for v in found if v.status == "right" and v.line != wrong[-1].line] + wrong[-1:]


_CHOSEN = re.compile(r"batch(?: size)?|B|批(?:次|量)?(?:大小)?", re.I)
"""What a table supposes, and no other column tells."""
_BYTES = {"TiB": 1024.0**4, "GiB": 1024.0**3, "MiB": 1024.0**2, "KiB": 1024.0}


def _told(right: float, by: float, unit: float, cell: str) -> str:
    """The right value as people write it: in the unit of the cell, bytes in the one that fits."""
    name = re.search(r"[KMGT]i?B$|%$", cell.strip())
    if name and name[0] in _BYTES:
        name_, by = next(((n, u) for n, u in _BYTES.items() if right >= u), ("KiB", 1024.0))
        return f"{written(right / by)} {name_}"
    return shown(np.asarray(right / by), np.asarray(unit / by)) + (f" {name[0]}" if name else "")


Number = tuple[Floats, Floats, float]
"""A value, one in its last digit, and what its unit makes of 1."""


def number_of(cell: str) -> Number | None:
    """The number that a cell holds, and nothing else."""
    text = with_units(re.sub(r"[`$]|^\s*[≈~约]\s*", "", cell))
    found = literal(parsed(text) or ("name", ""))
    if found is not None:
        return None if found[0].ndim else (*found, 1.0)
    amount = next(amounts(text), None)
    if amount is None or amount.said != text.strip():
        return None
    by = 1.024 if text.strip()[-1:] in "kK" else 1.0
    digits = float(re.sub(r"[^\d.]", "", amount.said) or 0)
    scale = amount.value / digits if digits and amount.kind else 1.0
    return np.asarray(amount.value * by), np.asarray(amount.unit), scale


def _column(
    rows: list[tuple[int, list[str]]], column: int
) -> tuple[Floats, Floats, list[float]] | None:
    told = [number_of(cells[column]) for _, cells in rows]
    if any(each is None for each in told):
        return None
    values, units, scales = ([float(each[place]) for each in told if each] for place in range(3))
    return np.array(values), np.array(units), scales


_BY_NAME = {
    r"exp|e\^x|e\^s|exponential|指数": np.exp, r"ln|log": np.log, r"sqrt|square root|平方根": np.sqrt,
    r"sin": np.sin, r"cos": np.cos, r"square[sd]?|平方": np.square,
}  # fmt: skip


Numbers = dict[int, tuple[Floats, Floats]]
"""The columns of numbers, and one in the last digit of each."""
Laws = Iterator[tuple[Floats, int]]
"""What a column may be, and whether its head or its digits leave no doubt."""


def _laws(head: list[str], numbers: Numbers, target: int) -> Laws:
    first = min(numbers)
    with np.errstate(all="ignore"):
        if target != first:
            yield from _of_first(plain(head[target]).strip(), numbers[first][0])
        for column in numbers:
            if column != target:
                yield from _of_one(head, numbers, column, target)
        yield from _of_several(head, numbers, target)


def _of_first(name: str, n: Floats) -> Laws:
    """What a head says of the first column: its exponential, its softmax, a triangle's halves."""
    for names, function in _BY_NAME.items():
        if re.fullmatch(rf"(?:the )?(?:{names})(?:\(\w+\))?", name, re.I):
            yield function(n), _BY_HEAD
    if (n == np.round(n)).all() and _TRIANGLE.search(name):
        yield n * (n + 1) / 2, _BY_HEAD
        yield n * (n - 1) / 2, _BY_HEAD
    if re.search(r"weight|softmax|权重|概率", name, re.I):
        scores = np.exp(n - n.max())
        yield scores / scores.sum(), _BY_HEAD


def _of_one(head: list[str], numbers: Numbers, column: int, target: int) -> Laws:
    """The shares of another column, or so many times one of its powers."""
    x, claimed = numbers[column][0], numbers[target][0]
    if (x > 0).all():
        yield x / x.sum(), _BY_DIGITS * _long(claimed)
    from_zero = x[0] == 0 and claimed[0] == 0 and (x[1:] > 0).all() and len(x) > _LEAST
    if from_zero and _DISTANCE.search(head[column]):
        yield float(np.median(claimed[1:] / x[1:])) * x, _BY_HEAD
    if len({*x.tolist()}) < len(x) or (x <= 0).any():
        return
    of_size = _SIZE.search(head[target]) and _DRIVER.search(plain(head[column]).strip())
    for power in _POWERS:
        if factor := _factor(claimed / x**power, bool(of_size)):
            plainly = power in (1.0, 2.0)
            sure = of_size and plainly and (len(x) > _LEAST or "iB" in head[target])
            yield factor * x**power, _BY_HEAD if sure else _BY_DIGITS * (plainly and _long(claimed))


def _of_several(head: list[str], numbers: Numbers, target: int) -> Laws:
    """Sums, products and quotients of other columns."""
    claimed = numbers[target][0]
    others = [numbers[column][0] for column in numbers if column != target]
    if len(others) > 1 and _TOTAL.search(head[target]):
        yield np.sum(others, axis=0), _BY_HEAD
    made = [np.prod(three, axis=0) for three in combinations(others, 3)]
    for x, y in permutations(others, 2):
        made += [x * y, x / y]
    for right in made:
        factor = _nice(float(np.median(claimed / right)))
        if factor and np.isfinite(right).all():
            yield factor * right, _BY_DIGITS * (factor == 1 and _long(claimed))


def _long(numbers: Floats) -> bool:
    """Whether the numbers have digits enough not to agree by chance."""
    return all(len(f"{number:.6g}".replace(".", "").strip("0")) >= 3 for number in numbers.tolist())


def _factor(ratios: Floats, of_size: bool) -> float:
    """What most rows multiply with: a number that people write, or of sizes in many rows any."""
    median = float(np.median(ratios))
    many = of_size and len(ratios) > _LEAST + 1 and np.isfinite(median)
    return _nice(median) or (median if many else 0.0)


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
    return sorted(re.sub(r"\D", "", number).lstrip("0")) == sorted(
        re.sub(r"\D", "", f"{right:.{length}f}").lstrip("0")
    )


_FACTORS = (2.0, 4.0, 8.0, 10.0, 3.0)
"""What a slip makes too much or too little."""


def _slip(said: str, claimed: float, right: float, sure: int, agree: int) -> bool:
    """Whether ``claimed`` is what a slip makes of ``right``: digits in another order, or one more."""
    if sure == _BY_HEAD or _digits(said, claimed, right):
        return sure == _BY_HEAD or bool(sure) or len(re.sub(r"\D", "", said).strip("0")) > 2
    ratio = claimed / (right or np.inf)
    if agree > _LEAST and any(
        abs(ratio / by - 1) < 0.02 or abs(ratio * by - 1) < 0.02 for by in _FACTORS
    ):
        return True
    return len(re.sub(r"\D", "", said).strip("0")) > 2 and 0.9 < ratio < 1.1
