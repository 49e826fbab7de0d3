"""What a reader writes at the command line: vectors, matrices and masks."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable
from functools import reduce
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from regard._errors import RegardError, UserError
from regard.explanation.sheet import Floats
from regard.rules import Mask, causal, documents, keep, lengths, prefix, where, window

FILES = (".npy", ".csv")
MASKS: dict[str, Callable[..., Mask]] = {
    "causal": causal,
    "documents": documents,
    "lengths": lengths,
    "prefix": prefix,
    "window": window,
}
"""The masks that can be said in a line, by the names that they have in Python.

Beside them stand ``keep``, of a matrix or of a file of one, and ``where``, of a comparison of the
positions i of a query and j of a key.
"""
NAMES = (*MASKS, "keep", "where")


def vectors(option: str, given: str) -> Floats | str:
    """Vectors in a line or a file, or the sentence that ``given``, or its .txt file, is."""
    path = Path(given).expanduser()
    if path.suffix.lower() in FILES or _looks_like_numbers(given):
        return matrix(option, given)
    if path.suffix.lower() == ".txt":
        try:
            return path.read_text(encoding="utf-8-sig")
        except FileNotFoundError as error:
            raise UserError("explain.no-file", option=option, path=path) from error
        except (OSError, ValueError) as error:
            raise UserError("explain.no-text", option=option, path=path, why=error) from error
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
    widths = sorted({len(row) for row in rows} - {0})
    if not widths:
        raise UserError("explain.empty", option=option, value=given)
    if len(widths) > 1:
        raise UserError(
            "explain.ragged", option=option, value=given, sizes=", ".join(map(str, widths))
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
    # What is numbers by half was meant as numbers, and is told which of it is none.
    words = re.split(r"[\s,;\[\]]+", given.strip(" ,;[]\n"))
    return 2 * sum(map(_is_number, words)) >= len(words) or not re.search(r"[^\W\d_]", given)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def mask(given: str) -> Mask:
    """A mask by name: ``causal``, ``window(3)``, ``causal & ~prefix(1)``, ``where(i - j < 2)``.

    >>> mask("causal & window(2)")
    causal() & window(2)
    """
    try:
        found = _mask(ast.parse(given.strip(), mode="eval").body)
    except UserError:  # of a file that keep("…") names
        raise
    except (_Foreign, SyntaxError) as error:
        part = str(error) if isinstance(error, _Foreign) else given
        raise UserError("explain.no-mask", value=part, names=", ".join(NAMES)) from error
    except (TypeError, ValueError, RegardError) as error:
        raise UserError("explain.mask-value", value=given) from error
    return found


class _Foreign(Exception):
    """A part that is no mask, as it was written."""


def _mask(node: ast.expr) -> Mask:
    match node:
        case ast.Name(name) if name in MASKS:
            return MASKS[name]()
        case ast.Call(ast.Name(name), args, keywords) if name in MASKS:
            named = {word.arg: ast.literal_eval(word.value) for word in keywords if word.arg}
            return MASKS[name](*map(ast.literal_eval, args), **named)
        case ast.Call(ast.Name("keep"), [ast.Constant(str() as file)]):
            return keep(matrix("--mask", file) != 0)
        case ast.Call(ast.Name("keep"), [rows]):
            return keep(np.array(ast.literal_eval(rows), dtype=np.float64) != 0)
        case ast.Call(ast.Name("where"), [condition]):
            _positions(condition, np.zeros((1, 1), int), np.zeros((1, 1), int))
            return where(lambda i, j: _positions(condition, i, j))
        case ast.BinOp(left, ast.BitAnd(), right):
            return _mask(left) & _mask(right)
        case ast.BinOp(left, ast.BitOr(), right):
            return _mask(left) | _mask(right)
        case ast.UnaryOp(ast.Invert(), inner):
            return ~_mask(inner)
    raise _Foreign(ast.unparse(node))


_SIGNS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.And: operator.and_,
    ast.Or: operator.or_, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def _positions(node: ast.expr, i: Any, j: Any) -> Any:
    """What a comparison of positions says, for every i and j at once; no other code is run."""
    match node:
        case ast.Name("i" | "j" as name):
            return i if name == "i" else j
        case ast.Constant(int() as number):
            return number
        case ast.BinOp(left, sign, right) if type(sign) in _SIGNS:
            return _SIGNS[type(sign)](_positions(left, i, j), _positions(right, i, j))
        case ast.UnaryOp(ast.USub(), inner):
            return -_positions(inner, i, j)
        case ast.UnaryOp(ast.Invert() | ast.Not(), inner):
            return ~_positions(inner, i, j)
        case ast.Call(ast.Name("abs"), [inner]):
            return abs(_positions(inner, i, j))
        case ast.BoolOp(sign, parts):
            return reduce(_SIGNS[type(sign)], [_positions(part, i, j) for part in parts])
        case ast.Compare(left, signs, rights) if all(type(sign) in _SIGNS for sign in signs):
            sides = [_positions(side, i, j) for side in (left, *rights)]
            each = zip(signs, pairwise(sides), strict=True)
            return reduce(operator.and_, [_SIGNS[type(sign)](*pair) for sign, pair in each])
    raise _Foreign(ast.unparse(node))
