"""What a reader writes at the command line: vectors, matrices and masks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from regard._errors import RegardError, UserError
from regard.explanation.sheet import Floats
from regard.rules import Mask, causal, documents, lengths, prefix, window

FILES = (".npy", ".csv")
MASKS: dict[str, Callable[..., Mask]] = {
    "causal": causal,
    "documents": documents,
    "lengths": lengths,
    "prefix": prefix,
    "window": window,
}
"""The masks that can be said in a line, by the names that they have in Python."""


def vectors(option: str, given: str) -> Floats | str:
    """Vectors in a line or a file, or the sentence that ``given`` is."""
    if Path(given).suffix.lower() in FILES or _looks_like_numbers(given):
        return matrix(option, given)
    return given


def matrix(option: str, given: str) -> Floats:
    """``"0.1 0.5; 0.3 0.4"``, a row between semicolons, or a .npy or .csv file."""
    suffix = Path(given).suffix.lower()
    if suffix in FILES:
        return _from_file(option, Path(given).expanduser(), suffix)
    rows = [_row(option, row, given) for row in re.split(r"[;\n]", given) if row.strip(" ,\t[]")]
    return _checked(option, rows, given)


def _row(option: str, row: str, given: str) -> list[float]:
    try:
        return [float(number) for number in row.replace(",", " ").strip(" []\t").split()]
    except ValueError as error:
        raise UserError("explain.not-numbers", option=option, value=given) from error


def _checked(option: str, rows: list[list[float]], given: str) -> Floats:
    widths = sorted({len(row) for row in rows})
    if len(widths) != 1:
        raise UserError(
            "explain.ragged", option=option, value=given, sizes=", ".join(map(str, widths)) or "0"
        )
    return np.array(rows, dtype=np.float64)


def _from_file(option: str, path: Path, suffix: str) -> Floats:
    try:
        if suffix == ".npy":
            array: Any = np.load(path, allow_pickle=False)
        else:
            text = path.read_text(encoding="utf-8-sig")
            rows = [_row(option, line.replace(";", ","), str(path)) for line in text.splitlines()]
            array = _checked(option, [row for row in rows if row], str(path))
        return np.asarray(array, dtype=np.float64)
    except FileNotFoundError as error:
        raise UserError("explain.no-file", option=option, path=path) from error
    except (OSError, ValueError, TypeError, EOFError) as error:
        raise UserError("explain.unreadable", option=option, path=path, why=error) from error


def _looks_like_numbers(given: str) -> bool:
    # A sentence holds a letter; what holds none was meant as numbers, and is told what is wrong.
    return re.search(r"[^\W\d_]", re.sub(r"(?<=\d)e(?=[-+]?\d)", "", given)) is None


def mask(given: str) -> Mask:
    """A mask by name: ``causal``, ``window(3)``, ``causal & ~prefix(1)``.

    >>> mask("causal & window(2)")
    causal() & window(2)
    """
    try:
        found = _mask(ast.parse(given.strip(), mode="eval").body)
    except (SyntaxError, TypeError, ValueError, RegardError) as error:
        raise UserError(
            "explain.no-mask", value=given, names=", ".join(MASKS), why=error
        ) from error
    return found


def _mask(node: ast.expr) -> Mask:
    match node:
        case ast.Name(name) if name in MASKS:
            return MASKS[name]()
        case ast.Call(ast.Name(name), args, keywords) if name in MASKS:
            named = {word.arg: ast.literal_eval(word.value) for word in keywords if word.arg}
            return MASKS[name](*map(ast.literal_eval, args), **named)
        case ast.BinOp(left, ast.BitAnd(), right):
            return _mask(left) & _mask(right)
        case ast.BinOp(left, ast.BitOr(), right):
            return _mask(left) | _mask(right)
        case ast.UnaryOp(ast.Invert(), inner):
            return ~_mask(inner)
    raise ValueError(ast.unparse(node))
