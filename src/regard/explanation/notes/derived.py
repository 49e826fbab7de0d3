"""What attention makes of a note's own arrays: scores, weights, outputs, row by row.

The note's vectors take their part by their letters: queries, keys and values where it has them, its
input in their place where it has not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from regard.core import formula
from regard.explanation.notes.algebra import Names
from regard.explanation.positions import sinusoids
from regard.explanation.sheet import Floats

MOST = 400
"""Numbers of a matrix that a reader follows."""


def matrices(names: Names) -> dict[str, Floats]:
    """The note's matrices by name; vectors of one letter, and those of words, are the rows of one."""
    found = {
        name: array for name, array in names.values.items()
        if array.ndim == 2 and array.size <= MOST and np.isfinite(array).all()
    }  # fmt: skip
    rows: dict[str, dict[str, Floats]] = {}
    for name, array in names.values.items():
        if array.ndim == 1 and (match := re.fullmatch(r"([a-zA-Z])_?(\d)", name)):
            rows.setdefault(match[1], {})[match[2]] = array
    for letter, group in rows.items():
        vectors = [group[index] for index in sorted(group)]
        if len(vectors) > 1 and len({len(vector) for vector in vectors}) == 1:
            found.setdefault(letter.upper(), np.stack(vectors))
    for letter in "qkv":
        vector = names.values.get(letter)
        if vector is not None and vector.ndim == 1:
            found.setdefault(letter.upper(), vector[None, :])
    return found


def triples(names: Names) -> Iterator[tuple[Floats, Floats, Floats | None]]:
    """Queries, keys and values that the note may mean, the likeliest first."""
    known = matrices(names)
    x = known.get("X")
    for letter in "QKV":
        weight = known.get(f"W{letter.lower()}")
        if letter in known:
            continue
        if (implied := names.find(letter)) is not None and implied.ndim == 2:
            known[letter] = implied
        elif x is not None and weight is not None and x.shape[1] == len(weight):
            known[letter] = x @ weight
    q, k, v = (known.get(letter) for letter in "QKV")
    if q is not None and k is not None and q.shape[1] == k.shape[1]:
        yield q, k, v if v is not None and len(v) == len(k) else None
    for name, matrix in known.items():
        if name not in ("Q", "K", "V") and not name.startswith("W"):
            yield matrix, matrix, matrix


def candidates(names: Names) -> Iterator[Floats]:
    """The rows that attention over the note's vectors may show."""
    for table in tables(names):
        yield from table
    for matrix in matrices(names).values():
        yield from matrix
        yield from np.asarray(formula.normalise(matrix)[0])
    if "positions" in names.said:
        for width in (2, 4, 6, 8, 16):
            yield from sinusoids(64, width)


def tables(names: Names) -> Iterator[Floats]:
    """The matrices that attention over the note's arrays makes, and some columns of sums."""
    known = matrices(names)
    for q, k, v in triples(names):
        if q is not k:
            yield from (q, k, *([] if v is None else [v]))
        if max(*q.shape, *k.shape) <= 64 and len(k) <= 12:
            dots = q @ k.T
            yield from (dots, dots.sum(1)[None, :], *([] if v is None else [dots @ v]))
            for scores in (dots, dots / q.shape[1] ** 0.5):
                yield from _mixed(scores, v)
    values = known.get("V")
    for name, matrix in known.items():
        if name in _SCORES and len(matrix) <= 12:
            yield from _mixed(
                matrix, values if values is not None and len(values) == matrix.shape[1] else None
            )
        elif (
            values is not None
            and len(values) == matrix.shape[1]
            and np.allclose(matrix.sum(1), 1, atol=0.02)
        ):
            yield matrix @ values


_SCORES = ("S", "scores", "E", "logits")


def _mixed(scores: Floats, v: Floats | None) -> Iterator[Floats]:
    later = np.triu(np.ones(scores.shape), k=1 + scores.shape[1] - scores.shape[0]) > 0
    yield from (scores, np.exp(scores), np.exp(scores - scores.max(1, keepdims=True)))
    for seen in (scores, np.where(later, -np.inf, scores)):
        with np.errstate(all="ignore"):
            weights = np.asarray(formula.normalise(seen)[0])
        yield weights
        if v is not None:
            yield weights @ v
