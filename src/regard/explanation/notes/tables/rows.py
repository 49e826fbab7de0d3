"""Tables, and arrays that a note prints without saying what they are.

A row of a table is an equation where its head or its first cell is an expression.  An array without
an expression is compared with what can be computed from the vectors of the note: where most of its
numbers are those of one such matrix, the others are wrong.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.digits.derived import candidates
from regard.explanation.notes.digits.worked import name_token
from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.cutting import pieces
from regard.explanation.notes.mathematics.equations import differs, shown
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import (
    NotUnderstood,
    Number,
    literal,
    names_of,
    parsed,
)
from regard.explanation.notes.sizes.modelled import remember_columns
from regard.explanation.notes.sizes.references import with_sizes
from regard.explanation.notes.sizes.symbols import check_cells
from regard.explanation.notes.tables.columns import check_columns
from regard.explanation.notes.tables.laws import (
    by_label,
    by_parts,
    by_times,
    totals,
    verdict_of,
)
from regard.explanation.notes.tables.tabled import check_worked
from regard.explanation.notes.tensors.layouts import check_cost_cells
from regard.explanation.notes.words.costs import check_cost_rows
from regard.explanation.notes.words.moments import check_spreads
from regard.explanation.numbers import written
from regard.explanation.sheet import Floats

_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d*(?![\w.])")
_COLUMNS = (
    (
        "each",
        r"head (?:width|dim|size)|width of (?:a|each) head|per head|d_?(?:k|head)|每个?头|单头|头(?:宽|维)",
    ),
    ("heads", r"^(?:n_)?(?:attention )?heads?$|^h$|头数|注意力头"),
    ("width", r"^d(?:_?model)?$|^(?:hidden |model )?(?:width|dim\w*|size)$|宽度|隐藏|维度"),
)
"""Columns of a table whose rows are models."""


def check_block(rows: list[tuple[int, str]], names: Names) -> list[Verdict]:
    """Rows that stand together: where one is a known row, another that nearly is one is wrong."""
    known = any(v.status == "right" for line, text in rows for v in check_rows(line, text, names))
    return [v for line, text in rows for v in check_rows(line, text, names, known=known)]


def check_rows(line: int, text: str, names: Names, *, known: bool = False) -> list[Verdict]:
    """Numbers in a row, compared with what they may be; ``known``: others beside it are so.

    Two numbers of two decimals may agree by chance, and then say nothing.
    """
    found = list(_NUMBER.finditer(plain(text)))
    numbers = np.array([float(match[0]) for match in found])
    units = np.array([10.0 ** -len(match[0].partition(".")[2]) for match in found])
    if not 2 <= len(numbers) <= 12:
        return []
    said = text.strip(" |")
    best: tuple[int, Floats] | None = None
    for row in candidates(names):
        if row.shape != numbers.shape:
            continue
        same = int((np.abs(numbers - row) <= 1.01 * units + 1e-9).sum())
        if best is None or same > best[0]:
            best = (same, row)
    if best is None:
        return []
    same, row = best
    if same == len(numbers):
        return [Verdict(line, said, "right", "note.right")]
    spelled = plain(text)
    if any(
        re.search(r"和只有|和[为是]|之和|\bsum\b|\btotal\b", spelled[one.end() : other.start()])
        for one, other in pairwise(found)
    ):
        return []  # one of them is the sum of the others
    digits = float(-np.log10(units).mean())
    if same >= 2 and 3 * same >= 2 * len(numbers) and (known or same * digits >= 6):
        return [Verdict(line, said, "wrong", "note.wrong", {"right": shown(row, units)})]
    return []


def cells_of(text: str) -> list[str]:
    """The cells of a table's row."""
    return [cell.strip().strip("`$") for cell in text.strip().strip("|").split("|")]


def check_table(rows: list[tuple[int, str]], names: Names) -> list[Verdict]:
    """Every row of one table, its head first."""
    if len(rows) < 2:
        return []
    head = cells_of(rows[0][1])
    found: list[Verdict] = []
    bare: list[tuple[int, str]] = []
    remember_columns(head, [cells_of(text) for _, text in rows[1:]], names)
    for line, text in rows[1:]:
        if re.fullmatch(r"[\s|:\-]+", text):
            continue
        cells = cells_of(text)
        said = check_cost_rows(line, head, cells) + check_spreads(line, head, cells)
        said += _by_head(line, head, cells, names)
        said += _by_heads(line, head, cells)
        said = (
            said
            or check_cost_cells(line, cells)
            or _by_cells(line, head, cells, names)
            or [
                verdict
                for title, cell in zip(head[1:], cells[1:], strict=False)
                for verdict in check_cells(
                    line, plain(cells[0]), plain(title), with_sizes(cell), names
                )
            ]
        )
        found += said
        if not said:
            bare.append((line, text))
    body = [(line, cells_of(text)) for line, text in bare]
    laws = by_parts(body) + by_label(body) + by_times(head, body)
    found += laws
    bare = [(line, text) for line, text in bare if not any(v.line == line for v in laws)]
    by_first = _by_first(head, bare, names)
    found += by_first
    if not by_first:
        worked = check_worked(head, [(line, cells_of(text)) for line, text in bare], names)
        found += worked
        lines = {verdict.line for verdict in worked}
        found += [verdict for verdict in check_block(bare, names) if verdict.line not in lines]
    sure = {verdict.line for verdict in found if verdict.status == "right"}
    found += totals([(line, cells_of(text)) for line, text in rows[1:]], sure)
    for _, text in rows:
        cells = cells_of(text)
        total = re.search(r"\btotal\b|\bsum\b|合计|总计|总共|共计", cells[0], re.I)
        if total and re.search(r"param|参数|weights", " ".join(head), re.I):
            number = literal(parsed(plain(cells[-1])) or ("name", ""))
            if number and number[0].ndim == 0:
                names.sizes["params"] = float(number[0])
    if not any(verdict.status == "wrong" for verdict in found):
        _remember(head, [cells_of(text) for _, text in bare], names)
    if all(verdict.status != "wrong" for verdict in found):
        body = [(i, cells_of(text)) for i, text in rows[1:] if re.search(r"[^\s|:\-]", text)]
        found += check_columns(head, body)
    return sorted(found, key=lambda verdict: verdict.line)


_PARTS = {
    "q": r"^q\b|quer|查询",
    "k": r"^k\b|key|键",
    "v": r"^v\b|value|值",
    "x": r"^x\b|embed|vector|input|嵌入|向量|输入",
}
"""What a column of vectors is, by its head."""


def _remember(head: list[str], rows: list[list[str]], names: Names) -> None:
    """From here on the vectors of a table are known by their rows: "cat", q1, k2."""
    for column, title in enumerate(head[1:], 1):
        numbers = [
            literal(parsed(plain(cells[column])) or ("name", ""))
            for cells in rows
            if column < len(cells)
        ]
        if (
            len(numbers) > 1
            and re.search(_PARTS["v"], plain(title), re.I)
            and all(each is not None and not each[0].ndim for each in numbers)
        ):
            names.columns = [np.array([float(each[0]) for each in numbers if each]), *names.columns]
    for index, cells in enumerate(rows, 1):
        vectors = {
            column: found
            for column, cell in enumerate(cells)
            if (found := literal(parsed(plain(cell)) or ("name", ""))) and found[0].ndim == 1
        }
        label = re.sub(r"\W*\(.*\)|[\W]", "", plain(cells[0]).strip())
        for column, (vector, units) in vectors.items():
            title = head[column] if column < len(head) else ""
            for letter, words in _PARTS.items():
                if re.search(words, plain(title), re.I):
                    names.tell(f"{letter}{index}", vector, units)
                    names.tell(f"{letter}_{label}", vector, units)
        numbers = [literal(parsed(plain(cell)) or ("name", "")) for cell in cells[1:]]
        whole = all(number is not None and number[0].ndim == 0 for number in numbers)
        if not re.fullmatch(r"[A-Za-z]\w*", label):
            continue
        if not vectors and whole and len(numbers) > 1:
            names.words.add(label)
            name_token(label, names)
            names.tell(label, np.array([float(number[0]) for number in numbers if number]))
        elif len(vectors) == 1:
            names.words.add(label)
            name_token(label, names)
            names.tell(label, *next(iter(vectors.values())))


def _by_head(line: int, head: list[str], cells: list[str], names: Names) -> list[Verdict]:
    """Columns whose head is an expression in the names of other columns."""
    local = names.copy()
    told: dict[str, Floats] = {}
    for name, cell in zip(head, cells, strict=False):
        node = parsed(plain(cell))
        found = node is not None and literal(node)
        if found and found[0].ndim == 0 and re.fullmatch(r"[A-Za-z]\w*", plain(name).strip()):
            told[plain(name).strip()] = found[0]
    local.values |= told
    verdicts = []
    for name, cell in zip(head, cells, strict=False):
        if plain(name).strip() in told:
            continue
        expression = parsed(plain(name)) or parsed(_formula(name))
        node = parsed(plain(cell))
        if expression is None or isinstance(expression, Number) or node is None:
            continue
        target = literal(node)
        if target is None:
            continue
        try:
            wrong = differs(expression, target, local, "≈" in name)
        except NotUnderstood:
            continue
        said = f"{name} = {cell}  ({', '.join(f'{n} = {float(v):g}' for n, v in told.items())})"
        verdicts.append(verdict_of(line, said, wrong, target))
    return verdicts


def _formula(name: str) -> str:
    """The formula that a column's name ends with: "hidden n(n−1)/2"."""
    last = ([*pieces(plain(name))] or [""])[-1]
    return "" if re.fullmatch(r"[A-Za-z_]+", last) else last


def _by_heads(line: int, head: list[str], cells: list[str]) -> list[Verdict]:
    """A row of a table of models: the width of one head is the whole width over their number."""
    found: dict[str, Floats] = {}
    for name, cell in zip(head, cells, strict=False):
        kind = next((kind for kind, pattern in _COLUMNS if re.search(pattern, name, re.I)), "")
        number = literal(parsed(plain(cell)) or ("name", ""))
        if kind in found or (kind and (number is None or number[0].ndim)):
            return []  # it has other columns than those
        if kind and number:
            found[kind] = number[0]
    if len(found) < 3 or not found["heads"]:
        return []
    right = np.asarray(found["width"] / found["heads"])
    said = f"{written(float(found['width']))} / {written(float(found['heads']))}"
    each = (found["each"], np.asarray(1.0))
    return [verdict_of(line, f"{said} = {each[0]:g}", None if right == each[0] else right, each)]


def _by_first(head: list[str], rows: list[tuple[int, str]], names: Names) -> list[Verdict]:
    """Columns of one unknown, "sin(p)", whose values stand in the first column in other words.

    Where most rows of a column agree, the others are wrong.
    """
    cells = [(line, cells_of(text)) for line, text in rows]
    found: list[Verdict] = []
    for column, name in enumerate(head[1:], 1):
        expression = parsed(_formula(name))
        if expression is None or isinstance(expression, Number) or expression[0] == "name":
            continue
        unknown = set(names_of(expression)) - {"pi", "e"}
        if len(unknown) != 1:
            continue
        column_said = []
        for line, row in cells:
            at = literal(parsed(plain(row[0])) or ("name", ""))
            target = literal(parsed(plain("".join(row[column : column + 1]))) or ("name", ""))
            if at is None or target is None:
                continue
            try:
                wrong = differs(expression, target, names.copy(**dict.fromkeys(unknown, at[0])))
            except NotUnderstood:
                continue
            column_said.append(
                verdict_of(line, f"{name} = {row[column]}  ({row[0]})", wrong, target)
            )
        right = [verdict for verdict in column_said if verdict.status == "right"]
        if len(right) > 1 and 2 * len(right) >= len(column_said):
            found += column_said
    return found


_BY_UNIT = {
    "K": (1e3, 1024.0),
    "M": (1e6, 1024.0**2),
    "G": (1e9, 1024.0**3),
    "百万": (1e6,),
    "万": (1e4,),
    "亿": (1e8,),
    "million": (1e6,),
    "billion": (1e9,),
}


def _scales(title: str) -> tuple[float, ...]:
    """What the numbers of a column are multiplied with, by its title: GFLOPs, MB, million."""
    unit = re.search(r"\b([KMG])(?=FLOP|MAC|i?B\b|次)|million|billion|百万|万|亿", title)
    return _BY_UNIT[unit[1] or unit[0]] if unit else ()


def _by_cells(line: int, head: list[str], cells: list[str], names: Names) -> list[Verdict]:
    """A cell with an expression, and the number in the next."""
    for column, (left, right) in enumerate(pairwise(cells), 1):
        expression, node = parsed(plain(left)), parsed(plain(right))
        if expression is None or node is None or literal(expression) is not None:
            continue
        if re.fullmatch(r"\w+", plain(left).strip()):  # a row's name
            continue
        target = literal(node)
        if target is None:
            continue
        try:
            value(expression, names)
            wrong = differs(expression, target, names, "≈" in right)
            scales = _scales(head[column]) if column < len(head) else ()
            if wrong is not None and wrong.ndim == 0 and scales:
                scaled = [
                    differs(expression, (target[0] * by, target[1] * by), names) for by in scales
                ]
                wrong = None if None in scaled else wrong / scales[0]
        except NotUnderstood:
            continue
        if wrong is not None and wrong.shape != target[0].shape:
            continue  # the column tells something else of it
        return [verdict_of(line, f"{left} = {right}", wrong, target)]
    return []
