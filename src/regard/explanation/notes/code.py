"""Code blocks: their arithmetic is worked out by reading it, and attention is left to the checker.

Nothing of a note is run here.  A function that looks like attention goes to ``regard.check``, which
judges it in a child process.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard._words import Language
from regard.explanation.notes.algebra import Names, value
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.cutting import plain_code
from regard.explanation.notes.equations import check_line
from regard.explanation.notes.grids import Grid, grids, remember
from regard.explanation.notes.listed import check_lists
from regard.explanation.notes.parsing import NotUnderstood, parsed
from regard.explanation.notes.tables import check_block
from regard.explanation.sheet import Floats

ATTENTION = re.compile(r"attention|attn", re.I)
USUAL = {
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "math": "import math",
}


@dataclass(frozen=True)
class Printed:
    """What a program prints, where no comment says it: an expression, and what it is by then."""

    text: str
    value: Floats
    shown: bool = False
    """Whether it is only shown by a notebook, as a cell's last expression is."""


@dataclass(frozen=True)
class Statement:
    """One statement of a block, with the lines that its output's rows stand in."""

    line: int
    text: str
    rows: tuple[int, ...] = ()


def check_code(
    first: int, code: str, names: Names, prelude: list[str], lang: Language
) -> tuple[list[Verdict], list[Printed]]:
    """The verdicts of a block of Python whose first line is line ``first``; what it prints.

    ``prelude`` holds the imports and functions of the blocks before it, and gets this one's.
    """
    found: list[Verdict] = []
    printed: list[Printed] = []
    inside = False  # what a function does with its arguments says nothing of the note's names
    for statement in _joined(_with_output(first, code)):
        if not statement.text.startswith((" ", "\t")):
            inside = re.match(
                r"(?:async\s+)?(?:def|class|for|while|if|with|else|elif)\b", statement.text
            ) is not None  # fmt: skip
        if inside:
            continue
        for part in _single(statement):
            found += _placed(_statement(part, names), part)
            printed += _printed(part.text, names)
    if not inside and (last := _joined(_with_output(first, code))[-1:]):
        printed += _shown(last[0].text, names)
    return found + _masks(first, code) + _attention(first, code, prelude, lang), printed


_TRIANGLE = re.compile(r"^\s*(\w+)\s*=\s*[^#\n]*\b(tril|triu)\(")
_FILLED = r"masked_fill_?\(\s*(~?)\s*{name}(?:\s*==\s*([01]|True|False)|\.bool\(\)|\.to\(torch\.bool\))?\s*,[^)]*inf"


def _masks(first: int, code: str) -> list[Verdict]:
    """A triangle that is filled on the wrong side: what ``tril`` keeps must not become −∞."""
    triangles: dict[str, str] = {}
    found = []
    for offset, line in enumerate(code.split("\n")):
        for name, kind in triangles.items():
            if filled := re.search(_FILLED.format(name=re.escape(name)), line):
                ones = (filled[2] in (None, "1", "True")) != bool(filled[1])
                if ones == (kind == "tril"):
                    right = f"{name} == {int(kind == 'triu')}"
                    found.append(
                        Verdict(
                            first + offset, line.strip(), "wrong", "note.wrong", {"right": right}
                        )
                    )
        if told := _TRIANGLE.match(line):
            triangles[told[1]] = told[2]
    return found


def check_output(
    first: int, text: str, names: Names, printed: Sequence[Printed] = ()
) -> list[Verdict]:
    """The verdicts of a block that is no Python: what a program printed, or plain formulas.

    ``printed`` is what the program before it prints.
    """
    lines = text.split("\n")
    if drawn := grids(first, text):
        return _drawn(drawn, names)
    chunks = _joined([Statement(first + i, line) for i, line in enumerate(lines) if line.strip()])
    arrays = [_array(chunk.text) for chunk in chunks]
    if len(chunks) < len(printed):  # a script shows only what it prints
        printed = [one for one in printed if not one.shown]
    if len(chunks) == len(printed) and all(array is not None for array in arrays):
        return [
            verdict
            for chunk, one in zip(chunks, printed, strict=True)
            for verdict in _placed(
                check_line(
                    chunk.line, f"(printed_) = {_array(chunk.text)}",
                    names.copy(printed_=one.value), prose=False,
                ),
                chunk, one.text,
            )
        ]  # fmt: skip
    found: list[Verdict] = []
    bare: list[tuple[int, str]] = []
    for chunk in chunks:
        said = _placed(check_line(chunk.line, chunk.text, names), chunk)
        places = chunk.rows or (chunk.line,)
        if not said:
            said = [v for place in places for v in check_lists(place, lines[place - first], names)]
        found += said
        if not said:
            # Only the rows of an array that is printed whole are told by what they are.
            places = chunk.rows or (chunk.line,)
            bare += [(place, lines[place - first]) for place in places]
    return sorted(found + check_block(bare, names), key=lambda verdict: verdict.line)


def _drawn(drawn: list[Grid], names: Names) -> list[Verdict]:
    """The verdicts of matrices that are drawn with bars."""
    remember(drawn, names)
    found: list[Verdict] = []
    for grid in drawn:
        if grid.name:
            continue
        said = "[" + ", ".join(f"[{', '.join(row)}]" for row in grid.rows) + "]"
        shape = (len(grid.rows), len(grid.rows[0]))
        awaited = next((each for each in names.awaited if each.shape == shape), None)
        if awaited is None:
            found += check_block(
                [(line, " ".join(row)) for line, row in zip(grid.lines, grid.rows, strict=True)],
                names,
            )
            continue
        verdicts = check_line(
            grid.lines[0], f"(drawn_) = {said}", names.copy(drawn_=awaited), prose=False
        )
        found += _placed(verdicts, Statement(grid.lines[0], said, tuple(grid.lines)), said)
    return found


def _placed(verdicts: list[Verdict], statement: Statement, said: str = "") -> list[Verdict]:
    """Each verdict at the line of the row that it is about."""
    rows = statement.rows
    return [
        replace(
            verdict,
            line=rows[verdict.row] if verdict.status == "wrong" and verdict.row < len(rows)
            else verdict.line,
            claim=verdict.claim.replace("(printed_)", said) if said else verdict.claim,
        )
        for verdict in verdicts
    ]  # fmt: skip


def _array(text: str) -> str | None:
    """The array or number that a line prints, without the words of its library; else None."""
    found = re.fullmatch(
        r"\s*(?:tensor|array)\((.*?)(?:,\s*(?:dtype|device|grad_fn)=.*)?\)\s*", text
    )
    bare = found[1] if found else text.strip()
    return bare if re.fullmatch(r"\[[-\d.,\se+\[\]inf]*\]|-?\d[\d.,e+-]*", bare) else None


def _with_output(first: int, code: str) -> list[Statement]:
    """The statements, with what they printed where that stands in comment lines below them."""
    found: list[Statement] = []
    takes = False  # whether a comment may be the output of the last statement
    depth = 0
    prompted = code.lstrip().startswith(">>>")
    for offset, written in enumerate(code.split("\n")):
        line = written
        if prompted:  # what has no prompt was printed
            line = re.sub(r"^\s*(?:>>>|\.\.\.) ?", "", written)
            line = f"# {line}" if line == written and line.strip() else line
        comment = re.match(r"#\s*(?:=>|->|→|Output:|输出[:：]|>>>)?\s*(.*)", line)
        if comment is None:
            if line.strip():
                found.append(Statement(first + offset, line))
            takes, depth = bool(line.strip()) and "#" not in line, 0
            continue
        text = comment[1]
        if takes and (depth > 0 or re.match(r"(?:tensor|array)\(|\[|-?\d", text)):
            last = found[-1]
            joined = last.text + ("" if depth else "  # ") + " " * bool(depth) + text
            found[-1] = replace(last, text=joined, rows=(*last.rows, first + offset))
            depth += text.count("[") - text.count("]")
            takes = depth > 0
    return found


def _joined(statements: list[Statement]) -> list[Statement]:
    """The statements, those of an open bracket put together."""
    found: list[Statement] = []
    depth = 0
    for statement in statements:
        bare = re.sub(r"#.*", "", statement.text)
        if depth > 0:
            last = found[-1]
            text = re.sub(r"\s*#.*", "", last.text) + " " + statement.text.strip()
            rows = (*(last.rows or (last.line,)), *(statement.rows or (statement.line,)))
            found[-1] = Statement(last.line, text, statement.rows or rows)
        else:
            found.append(statement)
        depth += sum(letter in "([" for letter in bare) - sum(letter in ")]" for letter in bare)
    return found


def _single(statement: Statement) -> list[Statement]:
    """``a, b = 1, 2`` as ``a = 1`` and ``b = 2``."""
    several = re.fullmatch(r"((?:\w+\s*,\s*)+\w+)\s*=\s*([-\w., ]+?)\s*(?:#.*)?", statement.text)
    if several:
        names, values = (side.split(",") for side in several.groups())
        if len(names) == len(values):
            return [
                replace(statement, text=f"{name.strip()} = {number.strip()}")
                for name, number in zip(names, values, strict=True)
            ]
    return [statement]


def _print(bare: str) -> str:
    """The one thing that a line prints; "" where it prints none, or more."""
    printed = re.fullmatch(r"print\((.*)\)", bare)
    return re.sub(r",\s*(?:end|sep)=.*", "", printed[1]) if printed else ""


def _printed(text: str, names: Names) -> list[Printed]:
    bare, _, comment = text.partition("#")
    said = _print(bare.strip().rstrip(";"))
    if not said or comment.strip():
        return []
    node = parsed(plain_code(said))
    try:
        return [Printed(said, value(node, names))] if node is not None else []
    except NotUnderstood:
        return []


def _shown(text: str, names: Names) -> list[Printed]:
    """The value of a line that is an expression and nothing else."""
    node = parsed(plain_code(text)) if not re.search(r"#|;\s*$|print\(", text) else None
    try:
        return [Printed(text.strip(), value(node, names), shown=True)] if node else []
    except NotUnderstood:
        return []


def _statement(statement: Statement, names: Names) -> list[Verdict]:
    """``name = …  # value`` and ``print(…)  # value``, as equations."""
    bare, _, comment = statement.text.partition("#")
    bare = bare.strip().rstrip(";")
    printed = _print(bare)
    bare = re.sub(r"^([A-Za-z_]\w*)\s*([-+*/])=\s*(.+)$", r"\1 = \1 \2 (\3)", bare)
    if printed:  # in brackets, for a name that is printed is not being defined
        bare = f"({printed})"
    comment = _array(re.sub(r"^\s*(?:->|=>|=|→)\s*", "", comment)) or comment
    result = re.match(r"\s*(\[.*|-?\d[\d.,e+-]*)\s*$", comment)
    if result and bare:
        if not printed and not re.match(
            r"\w+\s*=(?!=)", bare
        ):  # a value that is shown is not being defined
            bare = f"({bare})"
        bare = f"{bare} = {result[1]}"
    elif printed:
        return []
    target = re.match(r"([A-Za-z_]\w*)\s*=(?!=)", bare)
    before = names.values.get(target[1]) if target else None
    verdicts = check_line(statement.line, bare, names, prose=False)
    if not result and re.search(r"\d[\d\s.,]*[*/+^×-].*=\s*-?\d", comment):
        verdicts = verdicts or check_line(statement.line, comment, names.copy())
    if target and names.values.get(target[1]) is before and before is not None and not verdicts:
        del names.values[target[1]]  # it has become something that was not understood
    return [verdict for verdict in verdicts if verdict.status != "unknown" or result]


def _attention(first: int, code: str, prelude: list[str], lang: Language) -> list[Verdict]:
    """What the checker says of each function or class that looks like attention."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    before = _imports(code) + prelude
    before = [line for part in before for line in part.splitlines()]
    whole = "\n".join([*before, code])
    found = [
        verdict
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and _looks_like_attention(node)
        for verdict in _checked(first - len(before), whole, node, first + node.lineno - 1, lang)
    ]
    kept = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    prelude += [ast.unparse(node) for node in tree.body if isinstance(node, kept)]
    return found


def _imports(code: str) -> list[str]:
    """The imports that a snippet takes for granted."""
    return [line for name, line in USUAL.items() if re.search(rf"\b{name}\.", code)]


def _looks_like_attention(node: ast.FunctionDef | ast.ClassDef) -> bool:
    if ATTENTION.search(node.name):
        return True
    if isinstance(node, ast.ClassDef):
        return False
    return [arg.arg[:1].lower() for arg in node.args.args[:3]] == ["q", "k", "v"]


def _checked(
    first: int, code: str, node: ast.FunctionDef | ast.ClassDef, line: int, lang: Language
) -> list[Verdict]:
    from regard.diagnosis.check import check

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "block.py"
        file.write_text(code, encoding="utf-8")
        report = check(f"{file}:{node.name}", lang=lang)
    if report.verdict in ("right", "different"):
        return [Verdict(line, node.name, "right", "note.right")]
    if not report.faults:
        return [Verdict(line, node.name, "unknown", "note.unknown")]
    return [
        Verdict(
            first + fault.line - 1 if fault.line else line, f"{node.name}: {fault.id}", "wrong",
            "note.code", {"says": str(fault.says), "right": str(fault.mend)},
        )
        for fault in report.faults
    ]  # fmt: skip
