"""What a reader works out next from a list of numbers: its weights, its mean, what a layer makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import numpy as np

from regard.core import formula
from regard.explanation.notes.digits.derived import MOST, Step
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.positions import sinusoids
from regard.explanation.sheet import Floats

RECENT = 5
"""Lists that a reader still has in mind."""


def _softmax(row: Floats) -> Floats:
    return np.asarray(np.asarray(formula.normalise(row[None, :])[0])[0])


_MAPS: Mapping[str, Callable[[Floats], Floats]] = {
    "exp": np.exp,
    "shifted": lambda row: row - row.max(),
    "exp of shifted": lambda row: np.exp(row - row.max()),
    "weight": lambda row: row / row.sum() if (row % 1).any() else row * np.nan,
    "centred": lambda row: row - row.mean(),
    "squared": np.square,
    "squared centred": lambda row: (row - row.mean()) ** 2,
    "normalised": lambda row: (row - row.mean()) / row.std(),
    "normalised of a sample": lambda row: (row - row.mean()) / row.std(ddof=1),
    "normalised by rms": lambda row: row / np.sqrt(np.square(row).mean()),
    "unit": lambda row: row / np.sqrt(np.square(row).sum()),
    "relu": lambda row: np.maximum(row, 0),
    "negative log": lambda row: -np.log(row),
    "gradient": lambda row: row * (1 - row),
}
"""What becomes of one list."""
_PAIRS: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "added": lambda a, b: a + b,
    "subtracted": lambda a, b: a - b,
    "multiplied": lambda a, b: a * b,
}


def scales(names: Names) -> tuple[float, ...]:
    """What this note's scores may be divided by: the root of a width, a temperature."""
    told = [
        float(value)
        for name in ("d_k", "dk", "d", "tau", "T")
        if (value := names.values.get(name)) is not None and value.ndim == 0 and 0 < value < 1e4
    ]
    widths = {array.shape[-1] for array in names.values.values() if array.ndim in (1, 2)}
    roots = [width**0.5 for width in (*told, *(sorted(widths)[:6] if widths else (2, 3, 4, 8)))]
    return tuple(dict.fromkeys([1.0, *names.divisors, *told, *roots]))


def weighted(scores: Floats, names: Names) -> list[Step]:
    """The weights of scores that stand right before them."""
    return [
        Step("weight", _softmax(scores / by)[None, :], f"before / {by:.4g}", rows=False)
        for by in scales(names)
    ]


def followed(names: Names, size: int) -> Iterator[Step]:
    """The lists of ``size`` numbers that come of the lists that were read last."""
    recent = [row for row in names.lists[:RECENT] if np.isfinite(row).all()]
    with np.errstate(all="ignore"):
        for place, row in enumerate(recent):
            yield from _of_one(row, f"list {place}", size, names)
        for vector in names.awaited:
            if vector.shape == (size,):
                yield Step("awaited", vector[None, :], "awaited", rows=False)
        for name, matrix in names.values.items():
            if matrix.ndim == 2 and matrix.shape[1] == size and matrix.size <= MOST:
                yield Step("columns", matrix.sum(0)[None, :], f"columns {name}", rows=False)
        if "positions" in names.said:
            yield from _positions(names, size, recent)
        if size == 2:
            yield from _turned(recent, names.angles)
        for (i, one), (j, other) in combinations(enumerate(recent), 2):
            if one.size == other.size == size:
                for kind, function in _PAIRS.items():
                    yield Step(kind, function(other, one)[None, :], f"lists {i} {j}", rows=False)


def totals(names: Names) -> list[float]:
    """The weighted sums of single values: of two lists, or of the column that a table tells."""
    rows = [*names.lists[:RECENT], *names.columns[:2]]
    return [
        float(weights @ values)
        for weights in rows
        if abs(weights.sum() - 1) < 0.02
        for values in rows
        if values is not weights and values.size == weights.size
    ]


def _positions(names: Names, size: int, recent: list[Floats]) -> Iterator[Step]:
    """The first numbers of positions' encodings, and what they are added to."""
    told = [int(value) for name in ("d", "d_model") for value in names.told.get(name, ())]
    for width in dict.fromkeys([size, *(each for each in told if size < each <= 64)]):
        if width % 2 == 0:
            table = sinusoids(64, width)[:, :size]
            yield Step("position", table, f"PE {width}")
            for place, row in enumerate(row for row in recent if row.size == size):
                yield Step("added", row + table, f"list {place} PE {width}")


def _turned(recent: list[Floats], angles: list[float]) -> Iterator[Step]:
    """Pairs of numbers turned by the angles that were told."""
    for place, (x, y) in ((place, row) for place, row in enumerate(recent) if row.size == 2):
        for angle in angles:
            c, s = np.cos(angle), np.sin(angle)
            turned = np.array([[c * x - s * y, s * x + c * y]])
            yield Step("turned", turned, f"turned {place}", rows=False)


def _of_one(row: Floats, source: str, size: int, names: Names) -> Iterator[Step]:
    def step(kind: str, made: Floats, where: str = source) -> Step:
        return Step(kind, made[None, :], where, rows=False)

    if row.size == size:
        for kind, function in _MAPS.items():
            yield step(kind.split(" ")[0], function(row))
        for by in scales(names):
            if by != 1:
                yield step("scaled", row / by, f"{source} / {by:.4g}")
            yield step("exp", np.exp(row / by), f"{source} / {by:.4g}")
            yield step("weight", _softmax(row / by), f"{source} / {by:.4g}")
            for kept in range(1, size):  # those behind it are hidden
                seen = [*_softmax(row[:kept] / by), *[0.0] * (size - kept)]
                yield Step("weight", np.array([seen]), f"{source} / {by:.4g}", True, False)
    elif row.size > size > 1:  # those behind it are hidden
        for by in scales(names):
            yield step("weight", _softmax(row[:size] / by), f"{source} / {by:.4g}")
    for name, matrix in names.values.items():
        if matrix.ndim == 2 and matrix.shape == (row.size, size) and matrix.size <= MOST:
            yield step("output", row @ matrix, f"{source} {name}")
            if abs(row.sum() - 1) > 0.02:
                for by in scales(names):
                    yield step("output", _softmax(row / by) @ matrix, f"{source} {name} {by:.4g}")
