"""A sheet of named tables, each computed from those above it by one operation of the definition.

The sheet is what every face of an explanation reads: the terminal and the page print its tables,
the page computes them again when a number is moved, and each table knows the line of NumPy and of
PyTorch that gives it and how many multiplications that costs.  The arithmetic of attention is
``core/formula.py``'s, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from regard.core import formula
from regard.explanation.experiments import EXPERIMENTS

Floats = NDArray[np.float64]
GIVEN = "given"
"""The operation of what the reader gives, and may move in the page."""
FIXED = "fixed"
"""The operation of what stands as it is: a mask, an experiment's result."""


@dataclass(frozen=True)
class Operation:
    """How a table comes from others; ``{0}``, ``{1}`` in the code are their names."""

    compute: Callable[..., Floats]
    numpy: str
    torch: str
    multiplications: Callable[..., int] = lambda *shapes: 0
    """From the shapes of the inputs; a division counts as a multiplication, an exp as none."""


@dataclass(frozen=True)
class Table:
    """One array with its name, where it comes from and what its rows and columns are."""

    name: str
    symbol: str
    array: Floats
    operation: str
    inputs: tuple[str, ...] = ()
    rows: str = "token"
    columns: str = "feature"
    multiplications: int = 0

    def code(self, library: str) -> str:
        """The line of ``library`` ("numpy" or "torch") that computes it; "" where there is none."""
        if self.operation not in OPERATIONS:
            return ""
        template: str = getattr(OPERATIONS[self.operation], library)
        return f"{self.name} = {template.format(*self.inputs)}" if template else ""


@dataclass
class Sheet:
    """Tables in the order in which they are computed."""

    tables: dict[str, Table] = field(default_factory=dict)

    def given(
        self,
        name: str,
        array: ArrayLike,
        symbol: str = "",
        *,
        rows: str = "token",
        columns: str = "feature",
        operation: str = GIVEN,
    ) -> str:
        """Adds what is not computed, as the table ``name``."""
        values = np.asarray(array, dtype=np.float64)
        self.tables[name] = Table(name, symbol or name, values, operation, (), rows, columns)
        return name

    def add(
        self,
        name: str,
        operation: str,
        *inputs: str,
        symbol: str = "",
        rows: str = "token",
        columns: str = "feature",
    ) -> str:
        """Computes the table ``name`` from ``inputs`` and returns its name."""
        rule = OPERATIONS[operation]
        arrays = [self.tables[each].array for each in inputs]
        with np.errstate(invalid="ignore", over="ignore"):
            result = rule.compute(*arrays)
        count = rule.multiplications(*(array.shape for array in arrays))
        self.tables[name] = Table(
            name, symbol or name, result, operation, inputs, rows, columns, count
        )
        return name

    def __getitem__(self, name: str) -> Floats:
        return self.tables[name].array

    def __iter__(self) -> Iterator[str]:
        return iter(self.tables)


def of_product(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """The multiplications of a (…, n, d) by a (…, d, m)."""
    return prod(a) * b[-1]


def _keys_product(q: tuple[int, ...], k: tuple[int, ...]) -> int:
    return prod(q) * k[-2]


def _elements(a: tuple[int, ...], *_: tuple[int, ...]) -> int:
    return prod(a)


def _with_heads(of_heads: Callable[[Floats, Floats], Any]) -> Callable[[Floats, Floats], Floats]:
    """A function of the definition, which asks for an axis of heads, for what has none too."""

    def compute(a: Floats, b: Floats) -> Floats:
        if a.ndim > 2:
            return np.asarray(of_heads(a, b))
        return np.asarray(of_heads(a[None], b[None])[0])

    return compute


def _hide(scores: Floats, seen: Floats) -> Floats:
    return np.asarray(formula.scores(scores, seen != 0, scale=1.0))


def _scale(products: Floats, scale: Floats, temperature: Floats) -> Floats:
    return np.asarray(formula.scores(products, None, scale=float(scale[0, 0] / temperature[0, 0])))


def _largest(scores: Floats) -> Floats:
    return np.asarray(scores.max(axis=-1, keepdims=True))


def _powers(scores: Floats, largest: Floats) -> Floats:
    # A row that may attend to nothing has the maximum −∞, and −∞ − −∞ is no number.
    return np.asarray(np.exp(scores - np.where(np.isfinite(largest), largest, 0.0)))


def _softmax(scores: Floats, powers: Floats, total: Floats) -> Floats:
    return np.asarray(formula.normalise(scores)[0])


def _split(x: Floats, heads: Floats) -> Floats:
    return x.reshape(len(x), int(heads[0, 0]), -1).swapaxes(0, 1)


def _concat(heads: Floats) -> Floats:
    return heads.swapaxes(0, 1).reshape(heads.shape[1], -1)


def _rotate(x: Floats, angles: Floats) -> Floats:
    even, odd, cos, sin = x[..., 0::2], x[..., 1::2], np.cos(angles), np.sin(angles)
    turned = np.stack([even * cos - odd * sin, even * sin + odd * cos], axis=-1)
    return turned.reshape(x.shape)


def _take(x: Floats, order: Floats) -> Floats:
    return np.asarray(x[order[:, 0].astype(int) - 1])


_T = "{0} @ {1}.swapaxes(-1, -2)"
_TURNED = (
    "{lib}.stack([{{0}}[..., 0::2] * {lib}.cos({{1}}) - {{0}}[..., 1::2] * {lib}.sin({{1}}), "
    "{{0}}[..., 0::2] * {lib}.sin({{1}}) + {{0}}[..., 1::2] * {lib}.cos({{1}})], {axis}=-1)"
    ".reshape({{0}}.shape)"
)

OPERATIONS: Mapping[str, Operation] = {
    "same": Operation(lambda a: a, "{0}", "{0}"),
    "product": Operation(lambda a, b: a @ b, "{0} @ {1}", "{0} @ {1}", of_product),
    "dots": Operation(
        _with_heads(formula.products), _T, _T, _keys_product
    ),
    "mix": Operation(
        _with_heads(formula.mix), "{0} @ {1}", "{0} @ {1}", of_product
    ),
    "scale": Operation(
        _scale, "{0} * {1} / {2}", "{0} * {1} / {2}", _elements
    ),
    "times": Operation(lambda a, b: a * b, "{0} * {1}", "{0} * {1}", _elements),
    "over": Operation(lambda a, b: a / b, "{0} / {1}", "{0} / {1}", _elements),
    "power": Operation(lambda a, b: np.asarray(a**b), "{0} ** {1}", "{0} ** {1}"),
    "turn": Operation(
        lambda a: a.swapaxes(-1, -2), "{0}.swapaxes(-1, -2)", "{0}.swapaxes(-1, -2)"
    ),
    "plus": Operation(lambda a, b: a + b, "{0} + {1}", "{0} + {1}"),
    "hide": Operation(
        _hide, "np.where({1} > 0, {0}, -np.inf)", "{0}.masked_fill({1} == 0, -torch.inf)"
    ),
    "largest": Operation(
        _largest, "{0}.max(axis=-1, keepdims=True)", "{0}.amax(dim=-1, keepdim=True)"
    ),
    "powers": Operation(
        _powers,
        "np.exp({0} - np.where(np.isfinite({1}), {1}, 0.0))",
        "torch.exp({0} - torch.where(torch.isfinite({1}), {1}, 0.0))",
    ),
    "sum": Operation(
        lambda a: np.asarray(a.sum(axis=-1, keepdims=True)),
        "{0}.sum(axis=-1, keepdims=True)",
        "{0}.sum(dim=-1, keepdim=True)",
    ),
    "softmax": Operation(
        _softmax,
        "{1} / np.where({2} == 0, 1.0, {2})",
        "{1} / torch.where({2} == 0, 1.0, {2})",
        _elements,
    ),
    "split": Operation(
        _split,
        "{0}.reshape(len({0}), int({1}[0, 0]), -1).swapaxes(0, 1)",
        "{0}.reshape(len({0}), int({1}[0, 0]), -1).swapaxes(0, 1)",
    ),
    "concat": Operation(
        _concat,
        "{0}.swapaxes(0, 1).reshape({0}.shape[1], -1)",
        "{0}.swapaxes(0, 1).reshape({0}.shape[1], -1)",
    ),
    "rotate": Operation(
        _rotate,
        _TURNED.format(lib="np", axis="axis"),
        _TURNED.format(lib="torch", axis="dim"),
        lambda x, angles: 2 * prod(x),
    ),
    "take": Operation(
        _take, "{0}[{1}[:, 0].astype(int) - 1]", "{0}[{1}[:, 0].long() - 1]"
    ),
    **{name: Operation(compute, "", "") for name, compute in EXPERIMENTS.items()},
}  # fmt: skip
"""Every operation; the page's ``sheet.js`` knows the same ones by the same names."""


def as_json(table: Table) -> dict[str, Any]:
    """The table as plain values; what is not finite is told as a string."""
    flat = [x if np.isfinite(x) else str(x) for x in table.array.reshape(-1).tolist()]
    return {
        "name": table.name,
        "symbol": table.symbol,
        "operation": table.operation,
        "inputs": list(table.inputs),
        "rows": table.rows,
        "columns": table.columns,
        "shape": list(table.array.shape),
        "values": flat,
        "multiplications": table.multiplications,
    }
