"""Code blocks: their arithmetic is worked out by reading it, and attention is left to the checker.

Nothing of a note is run here.  A function that looks like attention goes to ``regard.check``, which
judges it in a child process, where that is there; where it is not, the report says so.
"""

from __future__ import annotations

import ast
import importlib
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard._words import Language
from regard.explanation.notes.algebra import Names
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.equations import check_line
from regard.explanation.notes.tables import check_block

ATTENTION = re.compile(r"attention|attn", re.I)


def check_code(first: int, code: str, names: Names, lang: Language) -> list[Verdict]:
    """The verdicts of a block of Python whose first line is line ``first`` of the note."""
    found: list[Verdict] = []
    inside = False  # what a function does with its arguments says nothing of the note's names
    for offset, text in enumerate(_joined(_with_output(code))):
        if text.strip() and not text.startswith((" ", "\t")):
            inside = bool(
                re.match(r"(?:async\s+)?(?:def|class|for|while|if|with|else|elif)\b", text)
            )
        if text.strip() and not inside:
            found += _statement(first + offset, text, names)
    return found + _attention(first, code, lang)


def check_output(first: int, text: str, names: Names) -> list[Verdict]:
    """The verdicts of a block that is no Python: what a program printed, or plain formulas."""
    found: list[Verdict] = []
    bare: list[tuple[int, str]] = []
    for offset, line in enumerate(_joined(text)):
        said = check_line(first + offset, line, names) if line.strip() else []
        found += said
        if not said:
            bare.append((first + offset, line))
    return sorted(found + check_block(bare, names), key=lambda verdict: verdict.line)


def _with_output(code: str) -> str:
    """The code with what it printed, where that stands in comment lines below a statement."""
    lines = code.split("\n")
    last: int | None = None
    open_ = 0
    for i, line in enumerate(lines):
        comment = re.match(r"#\s*(?:=>|->|Output:|>>>)?\s*(.*)", line)
        if comment is None:
            last, open_ = (i if line.strip() and "#" not in line else None), 0
        elif last is not None and (
            open_ > 0 or re.match(r"(?:tensor|array)\(|\[|-?\d", comment[1])
        ):
            lines[last] += ("" if open_ else "  # ") + " " * bool(open_) + comment[1]
            lines[i] = ""
            open_ += comment[1].count("[") - comment[1].count("]")
            if open_ <= 0:
                last = None
    return "\n".join(lines)


def _joined(code: str) -> list[str]:
    """The lines, those of an open bracket put together on the first; the others left empty."""
    lines: list[str] = []
    depth = 0
    start = 0
    for line in code.split("\n"):
        bare = re.sub(r"#.*", "", line)
        if depth > 0:
            lines[start] = re.sub(r"\s*#.*", "", lines[start]) + " " + line.strip()
            lines.append("")
        else:
            start = len(lines)
            lines.append(line)
        depth += sum(letter in "([" for letter in bare) - sum(letter in ")]" for letter in bare)
    return lines


def _statement(line: int, text: str, names: Names) -> list[Verdict]:
    """``name = …  # value`` and ``print(…)  # value``, as equations."""
    bare, _, comment = text.partition("#")
    bare = bare.strip().rstrip(";")
    printed = re.fullmatch(r"print\((.*)\)", bare)
    if printed:  # in brackets, for a name that is printed is not being defined
        bare = "(" + re.sub(r",\s*(?:end|sep)=.*", "", printed[1]) + ")"
    comment = re.sub(
        r"^\s*(?:tensor|array)\((.*?)(?:,\s*(?:dtype|device|grad_fn)=.*)?\)\s*$", r"\1", comment
    )
    result = re.match(r"\s*(?:->|=>|=|→)?\s*(\[.*|-?\d[\d.,e+-]*)\s*$", comment)
    if result and bare:
        bare = f"{bare} = {result[1]}"
    elif printed:
        return []
    target = re.match(r"([A-Za-z_]\w*)\s*=(?!=)", bare)
    before = names.values.get(target[1]) if target else None
    verdicts = check_line(line, bare, names, prose=False)
    if target and names.values.get(target[1]) is before and before is not None and not verdicts:
        del names.values[target[1]]  # it has become something that was not understood
    return [verdict for verdict in verdicts if verdict.status != "unknown" or result]


def checker() -> Callable[..., Any] | None:
    """``regard.check``, where this build has it."""
    try:
        return getattr(importlib.import_module("regard.diagnosis.check"), "check", None)
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("regard.diagnosis"):
            return None
        raise


def _attention(first: int, code: str, lang: Language) -> list[Verdict]:
    """What the checker says of each function or class that is called attention."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    kinds = (ast.FunctionDef, ast.ClassDef)
    subjects = [n for n in tree.body if isinstance(n, kinds) and ATTENTION.search(n.name)]
    check = checker()
    found: list[Verdict] = []
    for subject in subjects:
        line = first + subject.lineno - 1
        if check is None:
            found.append(Verdict(line, subject.name, "unknown", "note.unchecked"))
            continue
        found += _checked(check, first, code, subject.name, line, lang)
    return found


def _checked(
    check: Callable[..., Any], first: int, code: str, name: str, line: int, lang: Language
) -> list[Verdict]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "block.py"
        file.write_text(code, encoding="utf-8")
        report = check(f"{file}:{name}", lang=lang)
    if report.verdict in ("right", "different"):
        return [Verdict(line, name, "right", "note.right")]
    if not report.faults:
        return [Verdict(line, name, "unknown", "note.unknown")]
    return [
        Verdict(
            first + fault.line - 1 if fault.line else line, f"{name}: {fault.id}", "wrong",
            "note.code", {"says": str(fault.says), "right": str(fault.mend)},
        )
        for fault in report.faults
    ]  # fmt: skip
