"""What attention makes of a note's own arrays: scores, weights, outputs, row by row.

The note's vectors take their part by their letters: queries, keys and values where it has them, its
input in their place where it has not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.core import formula
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.positions import sinusoids
from regard.explanation.sheet import Floats

MOST = 400
"""Numbers of a matrix that a reader follows."""


@dataclass(frozen=True)
class Step:
    """A matrix that comes of the note's numbers, and what it is."""

    kind: str
    """"query", "key", "value", "score", "scaled", "exp", "shifted", "weight", "output" …"""
    table: Floats
    source: str = ""
    """What it is made from."""
    masked: bool = False
    rows: bool = True
    """Whether its rows are those of the note's words."""


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
    spoken = [names.values[word] for word in names.tokens if word in names.values]
    if len(spoken) > 1 and all(a.ndim == 1 and a.shape == spoken[0].shape for a in spoken):
        found.setdefault("X", np.stack(spoken))
    return found


def triples(names: Names) -> Iterator[tuple[str, Floats, Floats, Floats | None]]:
    """Queries, keys and values that the note may mean, the likeliest first, and their source."""
    known = matrices(names)
    x = known.get("X")
    for letter in "QKV":
        if letter in known:
            continue
        spelled = (f"W_{letter}", f"W{letter}", f"W_{letter.lower()}", f"W{letter.lower()}")
        weight = next((known[name] for name in spelled if name in known), None)
        if (implied := names.find(letter)) is not None and implied.ndim == 2:
            known[letter] = implied
        elif x is not None and weight is not None and x.shape[1] == len(weight):
            known[letter] = x @ weight
    q, k, v = (known.get(letter) for letter in "QKV")
    if x is not None and v is not None and q is None and len(x) == len(v):
        yield "XV", x, x, v
    for head in dict.fromkeys(name[1:] for name in known if name[0] == "Q"):
        q, k, v = (known.get(letter + head) for letter in "QKV")
        if q is not None and k is not None and q.shape[1] == k.shape[1]:
            yield f"QK{head}", q, k, v if v is not None and len(v) == len(k) else None
    for name, matrix in known.items():
        if name[0] not in "QKVW_":
            yield name, matrix, matrix, matrix
            if name == "X" and matrix.shape[1] in (4, 6, 8):
                for half, part in enumerate(np.split(matrix, 2, axis=1)):
                    yield f"X head {half}", part, part, part


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
    return (step.table for step in steps(names))


def steps(names: Names) -> Iterator[Step]:
    """What attention over the note's arrays makes, step by step."""
    known = matrices(names)
    for source, q, k, v in triples(names):
        if q is not k:
            yield Step("query", q, source)
            yield Step("key", k, source)
            if v is not None:
                yield Step("value", v, source)
        if max(*q.shape, *k.shape) <= 64 and len(k) <= 12:
            dots = q @ k.T
            yield Step("score", dots, source)
            yield Step("sum", dots.sum(1)[None, :], source, rows=False)
            if v is not None:
                yield Step("output", dots @ v, f"{source} raw")
            for scores in (dots, dots / q.shape[1] ** 0.5):
                yield from mixed(scores, v, source if scores is not dots else f"{source} plain")
    values = known.get("V")
    for name, matrix in known.items():
        if name in _SCORES and len(matrix) <= 12:
            fits = values is not None and len(values) == matrix.shape[1]
            yield from mixed(matrix, values if fits else None, name)
        elif (
            values is not None
            and len(values) == matrix.shape[1]
            and np.allclose(matrix.sum(1), 1, atol=0.02)
        ):
            yield Step("output", matrix @ values, name)


_SCORES = ("S", "scores", "E", "logits")


def mixed(scores: Floats, v: Floats | None, source: str, *, rows: bool = True) -> Iterator[Step]:
    """What comes of scores: their exponentials, weights and weighted sums, masked or not."""
    later = np.triu(np.ones(scores.shape), k=1 + scores.shape[1] - scores.shape[0]) > 0
    yield Step("scaled", scores, source, rows=rows)
    yield Step("exp", np.exp(scores), source, rows=rows)
    shifted = scores - scores.max(1, keepdims=True)
    yield Step("shifted", shifted, source, rows=rows)
    yield Step("exp", np.exp(shifted), source, rows=rows)
    for masked in (False, True):
        with np.errstate(all="ignore"):
            weights = np.asarray(
                formula.normalise(np.where(later, -np.inf, scores) if masked else scores)[0]
            )
        yield Step("weight", weights, source, masked, rows)
        yield Step("columns", weights.sum(0)[None, :], source, masked, rows=False)
        if v is not None:
            yield Step("output", weights @ v, source, masked, rows)
