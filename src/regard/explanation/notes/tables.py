"""Tables, and arrays that a note prints without saying what they are.

A row of a table is an equation where its head or its first cell is an expression.  An array without
an expression is compared with what can be computed from the vectors of the note: where most of its
numbers are those of one such matrix, the others are wrong.
"""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from regard.core import formula
from regard.explanation.notes.algebra import Names, value
from regard.explanation.notes.amounts import amounts
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.columns import check_columns
from regard.explanation.notes.cutting import pieces
from regard.explanation.notes.derived import candidates
from regard.explanation.notes.derived import tables as derived
from regard.explanation.notes.equations import close, differs, shown
from regard.explanation.notes.layouts import check_cost_cells, check_shape_cells
from regard.explanation.notes.mathtext import plain
from regard.explanation.notes.parsing import NotUnderstood, Number, literal, names_of, parsed
from regard.explanation.numbers import written
from regard.explanation.sheet import Floats

_NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d*(?![\w.])")
_BY_WIDTH = (
    (re.compile(r"std|deviation|σ|标准差", re.I), "sqrt({d})"),
    (re.compile(r"var|方差", re.I), "{d}"),
    (re.compile(r"^(?:the )?(?:scale|scaling factor|缩放(?:因子|系数)?)$", re.I), "1/sqrt({d})"),
)
"""Columns of a table whose rows are widths."""
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
    for line, text in rows[1:]:
        if re.fullmatch(r"[\s|:\-]+", text):
            continue
        cells = cells_of(text)
        said = _by_head(line, head, cells, names) + _by_heads(line, head, cells)
        said = said or check_cost_cells(line, cells) or check_shape_cells(line, head, cells, names) or _by_cells(line, head, cells, names)
        found += said
        if not said:
            bare.append((line, text))
    body = [(line, cells_of(text)) for line, text in bare]
    laws = _by_parts(body) + _by_label(body) + _by_times(head, body)
    found += laws
    bare = [(line, text) for line, text in bare if not any(v.line == line for v in laws)]
    known = _by_matrix([(line, cells_of(text)) for line, text in bare], names)
    found += known
    bare = [(line, text) for line, text in bare if not any(v.line == line for v in known)]
    found += _by_first(head, bare, names) or check_block(bare, names)
    sure = {verdict.line for verdict in found if verdict.status == "right"}
    found += _totals([(line, cells_of(text)) for line, text in rows[1:]], sure)
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


_TOTAL = re.compile(r"\W*(?:(?:grand |all |in )?total|sum|altogether|合计|总计|总共|共计|总和|总参数)", re.I)


def _totals(rows: list[tuple[int, list[str]]], sure: set[int]) -> list[Verdict]:
    """The total of a column, against the numbers above it; ``sure`` are the lines that are right."""
    found: list[Verdict] = []
    for last, (line, cells) in enumerate(rows):
        if not _TOTAL.match(cells[0]) or last < 2:
            continue
        start = next((i + 1 for i in range(last - 1, -1, -1) if _TOTAL.match(rows[i][1][0])), 0)
        for column in range(1, len(cells)):
            above = [literal(parsed(plain(row[column].strip("* "))) or ("name", "")) if column < len(row) else None for _, row in rows[start:last] if re.search(r"\w", row[0])]
            told = literal(parsed(plain(cells[column].strip("* "))) or ("name", ""))
            if told is None or told[0].ndim or len(above) < 2 or any(each is None or each[0].ndim for each in above):
                continue
            right = sum(float(each[0]) for each in above if each)
            unit = np.asarray(max([float(told[1]), *(float(each[1]) * (each[1] < 1) for each in above if each)]))
            said = f"{cells[0]}: {cells[column]}"
            if abs(right - float(told[0])) <= unit * (unit < 1) * len(above) + 1e-9:
                found.append(Verdict(line, said, "right", "note.right"))
            elif all(each is not None and line_ in sure for each, (line_, _) in zip(above, rows[start:last], strict=False)):
                found.append(Verdict(line, said, "wrong", "note.wrong", {"right": f"{right:,.0f}" if unit >= 1 else shown(np.asarray(right), unit)}))
    return found


def _most(rows: list[tuple[int, str, tuple[Floats, Floats], Floats]]) -> list[Verdict]:
    """Verdicts of claims that follow one law, where most of them do."""
    found = [_verdict(line, said, None if close(claim[0], right, claim[1]) else right, claim) for line, said, claim, right in rows]
    agree = sum(verdict.status == "right" for verdict in found)
    return found if agree > 1 and agree >= len(found) - 1 else []


def _by_parts(rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """A matrix and its bias, "768 × 3072, 3072", and how many numbers they hold."""
    told = []
    for line, cells in rows:
        for left, right in pairwise(cells):
            sizes = re.fullmatch(r"\s*(?P<a>\d+)(?:\s*\*\s*(?P<b>\d+))?\s*,\s*(?P<c>\d+)\s*", plain(left.replace("$", "")))
            claim = literal(parsed(plain(right)) or ("name", ""))
            if sizes and claim and claim[0].ndim == 0:
                exact = int(sizes["a"]) * int(sizes["b"] or 1) + int(sizes["c"])
                told.append((line, f"{left}: {right}", claim, np.asarray(float(exact))))
    return _most(told)


def _by_label(rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """The softmax of the vector that a row begins with."""
    told = []
    for line, cells in rows:
        scores = literal(parsed(plain(cells[0])) or ("name", ""))
        claim = literal(parsed(plain(_cells(cells, None))) or ("name", ""))
        if scores and claim and scores[0].ndim == 1 and claim[0].shape == scores[0].shape:
            weights = np.asarray(formula.normalise(scores[0][None, :])[0])[0]
            told.append((line, " ".join(cells), (claim[0], np.maximum(claim[1], 0.001)), weights))
    return _most(told)


def _by_times(head: list[str], rows: list[tuple[int, list[str]]]) -> list[Verdict]:
    """What one token needs, and what so many need: "per token", "2048 tokens"."""
    one = next((i for i, title in enumerate(head) if re.search(r"per token|每个? ?(?:token|词)|one token", title, re.I)), 0)
    found = []
    for column, title in enumerate(head):
        many = re.search(r"(\d[\d,]*)\s*个? ?(?:tokens?|词)", title)
        if not one or not many:
            continue
        for line, cells in rows:
            base, claim = ([*amounts(cells[i])] if i < len(cells) else [] for i in (one, column))
            if len(base) == len(claim) == 1 and base[0].kind == claim[0].kind == "bytes":
                right = base[0].value * float(many[1].replace(",", ""))
                if abs(claim[0].value - right) <= 0.6 * claim[0].unit + base[0].unit * right / base[0].value * 0.5 * (base[0].unit < base[0].value * 0.1):
                    found.append(Verdict(line, cells[column], "right", "note.right"))
                else:
                    unit = claim[0].said.split()[-1]
                    found.append(Verdict(line, cells[column], "wrong", "note.wrong", {"right": f"{written(right / (claim[0].value / float(claim[0].said.split()[0])), 2)} {unit}"}))
    return found if sum(verdict.status == "right" for verdict in found) > 0 else []


def _by_matrix(rows: list[tuple[int, list[str]]], names: Names) -> list[Verdict]:
    """Rows of vectors, or of numbers, that are those of a matrix which the note's arrays make."""
    found: list[Verdict] = []
    for columns in [*([i] for i in range(1, len(rows[0][1]) if rows else 0)), None]:
        told = [literal(parsed(plain(_cells(cells, columns))) or ("name", "")) for _, cells in rows]
        if len(told) < 2 or any(each is None or each[0].ndim != 1 for each in told):
            continue
        if len({each[0].shape for each in told if each}) != 1:
            continue
        claimed, units = (np.stack([each[i] for each in told if each]) for i in (0, 1))
        units = np.minimum(units, units.min() if (units < 1).any() else 1.0)
        best, row_of = 0, None
        for table in derived(names):
            if table.shape == claimed.shape:
                same = np.abs(table - claimed) <= 2.0 * units * (units < 1) + 1e-9
                if same.sum() > best:
                    best, row_of, agree = int(same.sum()), table, same
        if row_of is None or 3 * best < 2 * claimed.size or len(rows) - agree.all(1).sum() > 1:
            continue
        for (line, cells), right, same, unit in zip(rows, row_of, agree, units, strict=True):
            said = _cells(cells, columns)
            if same.all():
                found.append(Verdict(line, said, "right", "note.right"))
            else:
                found.append(Verdict(line, said, "wrong", "note.wrong", {"right": shown(right, unit)}))
    return found


def _cells(cells: list[str], columns: list[int] | None) -> str:
    """A column's cell, or all but the first as a vector."""
    if columns is None:
        return f"[{', '.join(cells[1:])}]"
    return cells[columns[0]] if columns[0] < len(cells) else ""


_PARTS = {"q": r"^q\b|quer|查询", "k": r"^k\b|key|键", "v": r"^v\b|value|值", "x": r"^x\b|embed|vector|input|嵌入|向量|输入"}
"""What a column of vectors is, by its head."""


def _remember(head: list[str], rows: list[list[str]], names: Names) -> None:
    """From here on the vectors of a table are known by their rows: "cat", q1, k2."""
    for column, title in enumerate(head[1:], 1):
        numbers = [literal(parsed(plain(cells[column])) or ("name", "")) for cells in rows if column < len(cells)]
        if len(numbers) > 1 and re.search(_PARTS["v"], plain(title), re.I) and all(each is not None and not each[0].ndim for each in numbers):
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
            names.tell(label, np.array([float(number[0]) for number in numbers if number]))
        elif len(vectors) == 1:
            names.words.add(label)
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
    width = next((name for name in told if re.fullmatch(r"d(?:_?k|_?head)?", name)), "")
    for name, cell in zip(head, cells, strict=False):
        if plain(name).strip() in told:
            continue
        of_width = next((text for pattern, text in _BY_WIDTH if width and pattern.search(name)), "")
        expression = parsed(of_width.format(d=width) or plain(name)) or parsed(_formula(name))
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
        verdicts.append(_verdict(line, said, wrong, target))
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
    return [_verdict(line, f"{said} = {each[0]:g}", None if right == each[0] else right, each)]


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
            column_said.append(_verdict(line, f"{name} = {row[column]}  ({row[0]})", wrong, target))
        right = [verdict for verdict in column_said if verdict.status == "right"]
        if len(right) > 1 and 2 * len(right) >= len(column_said):
            found += column_said
    return found


_BY_UNIT = {"K": (1e3, 1024.0), "M": (1e6, 1024.0**2), "G": (1e9, 1024.0**3), "百万": (1e6,), "万": (1e4,), "亿": (1e8,), "million": (1e6,), "billion": (1e9,)}


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
                scaled = [differs(expression, (target[0] * by, target[1] * by), names) for by in scales]
                wrong = None if None in scaled else wrong / scales[0]
        except NotUnderstood:
            continue
        return [_verdict(line, f"{left} = {right}", wrong, target)]
    return []


def _verdict(line: int, said: str, wrong: Floats | None, target: tuple[Floats, Floats]) -> Verdict:
    if wrong is None:
        return Verdict(line, said, "right", "note.right")
    return Verdict(line, said, "wrong", "note.wrong", {"right": shown(wrong, target[1])})
