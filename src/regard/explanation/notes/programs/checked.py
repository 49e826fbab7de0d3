"""Functions of a note that look like attention: ``regard.check`` judges them in a child process."""

from __future__ import annotations

import ast
import re
import tempfile
from pathlib import Path

from regard._words import Language
from regard.explanation.notes.claim import Verdict

ATTENTION = re.compile(r"attention|attn", re.I)
USUAL = {
    "np": "import numpy as np",
    "torch": "import torch",
    "nn": "import torch.nn as nn",
    "F": "import torch.nn.functional as F",
    "math": "import math",
}


_TRIANGLE = re.compile(r"^\s*(\w+)\s*=\s*[^#\n]*\b(tril|triu)\(")
_FILLED = r"masked_fill_?\(\s*(~?)\s*{name}(?:\s*==\s*([01]|True|False)|\.bool\(\)|\.to\(torch\.bool\))?\s*,[^)]*inf"


def check_masks(first: int, code: str) -> list[Verdict]:
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
        if (told := _TRIANGLE.match(line)) and not re.search(r"transpose|\.m?T\b|\.t\(", line):
            triangles[told[1]] = told[2]
    return found


def check_attention(first: int, code: str, prelude: list[str], lang: Language) -> list[Verdict]:
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
