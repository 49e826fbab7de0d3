"""Numbers, vectors and matrices worked out from expressions; nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np

from regard.core import formula
from regard.explanation.notes.mathematics.parsing import Node, NotUnderstood, Number
from regard.explanation.notes.programs.statements import Program
from regard.explanation.positions import sinusoids
from regard.explanation.sheet import Floats

CONSTANTS = {"e": np.e, "pi": np.pi, "inf": np.inf}
MATRICES = ("X", "Q", "K", "V")
"""What a note may leave to be put together from its rows."""
MOST = 10_000
"""Numbers of a result that is still worth checking."""


@dataclass
class Names:
    """What a note has said its names are, with how exact the numbers were written."""

    values: dict[str, Floats] = field(default_factory=dict)
    units: dict[str, Floats] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    """What else a claim may rely on: "zero mean"."""
    before: str = ""
    """The sentence that was read last."""
    last: Floats | None = None
    """What was last worked out, or written."""
    told: dict[str, list[Floats]] = field(default_factory=dict)
    """Every value that a number's name has had: a note speaks of one model after another."""

    recent: list[str] = field(default_factory=list)
    """The sentences before this one, the last one last."""
    headings: list[str] = field(default_factory=list)
    """Every heading so far."""
    heading: str = ""
    """The heading over what is read."""
    waiting: str = ""
    """The line that ended with that question."""
    asked: str = ""
    """The question that waits for its answer."""
    whole: re.Match[str] | None = None
    """Where the width of all heads was said last."""
    lengths: list[float] = field(default_factory=list)
    """Every length that was told, the last one first."""
    base: float = 0.0
    """The length that others are compared with."""
    sizes: dict[str, float] = field(default_factory=dict)
    """What was said last of tokens, heads, widths …, by role."""
    fresh: dict[str, float] = field(default_factory=dict)
    """Those of the sentence before."""
    past: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    """Every value that was said of a size, by its letter, and in which section."""
    claimed: list[Any] = field(default_factory=list)
    """The quantities that were told, the last one first."""
    turn: int = 0
    """How many sentences were read."""
    doubled: list[bool] = field(default_factory=list)
    """Whether each cost that was told counts additions too."""
    widths: list[float] = field(default_factory=list)
    """The bytes of the kinds of number that were spoken of last."""
    settled: set[str] = field(default_factory=set)
    """The amounts of this sentence that the catalogue knows to be right."""
    things: tuple[str, ...] = ()
    """The parts of a Transformer that were spoken of last."""
    lists: list[Floats] = field(default_factory=list)
    """The lists of numbers that were read, the last one first."""
    words: set[str] = field(default_factory=set)
    """Words that are the names of vectors here."""
    tokens: list[str] = field(default_factory=list)
    """The words of the sentence that the note works with, in their order."""
    speaking: str = ""
    """The words that last said which step of the calculation is told."""
    angles: list[float] = field(default_factory=list)
    """What vectors are turned by, the last one first."""
    divisors: list[float] = field(default_factory=list)
    """What the sentence that is read divides by."""
    doubts: list[Any] = field(default_factory=list)
    """The lists that nearly are what comes next."""
    agreed: dict[str, int] = field(default_factory=dict)
    """What the lists that were right have come from, and how many did."""
    driven: tuple[Any, ...] = ()
    """What is supposed to be changed, by which factor, and for how many sentences."""
    counts: list[Any] = field(default_factory=list)
    """The larger amounts that were told, the last one first."""
    columns: list[Floats] = field(default_factory=list)
    """The numbers of the values that a table gives to its keys, the last one first."""
    seen: set[bytes] = field(default_factory=set)
    """The matrices of which the note has shown a row."""
    scales: tuple[float, ...] = ()
    """What the unit behind the numbers of this line may stand for."""
    run: list[float] = field(default_factory=list)
    """What the equations just read came to."""
    mended: list[float] = field(default_factory=list)
    """What those equations should have come to."""
    awaited: list[Floats] = field(default_factory=list)
    """Vectors that were asked for, and not yet given."""
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The shapes of arrays, by name."""
    program: Program = field(default_factory=Program)
    """The note's programs."""
    measured: Any = None
    """The amount of memory that was told last."""
    moments: dict[str, float] = field(default_factory=dict)
    """The means and variances of X and Y: "EX", "DY"."""
    spread: Any = None
    """The random numbers that are spoken of."""
    formulas: list[Node] = field(default_factory=list)
    """What was said without a value, the latest first."""
    trusted: list[Node] = field(default_factory=list)
    """The formulas among them that a value has agreed with."""

    def tell(self, name: str, value: Floats, units: Floats | None = None) -> None:
        """From here on ``name`` is ``value``, written with its last digits worth ``units``."""
        self.values[name] = value
        self.units.pop(name, None)
        if units is not None:
            self.units[name] = units
        if value.ndim == 0:
            self.told.setdefault(name, []).append(value)

    def call(self, sentence: str) -> None:
        """Takes note of "call this Q": it is what was last worked out."""
        found = re.search(
            r"(?:call|name|denote) (?:this|it|the result)(?: matrix| vector)? (?:by |as )?"
            r"\W{0,3}([A-Za-z]\w?)\b"
            r"|记(?:其|它|之)?(?:为|作)\s*\W{0,3}([A-Za-z]\w?)\b",
            sentence, re.I,
        )  # fmt: skip
        if found and self.last is not None:
            self.tell(found[1] or found[2], self.last)

    def copy(self, **values: Floats) -> Names:
        """The same names, with others that hold for one claim alone."""
        return Names({**self.values, **values}, dict(self.units), self.said)

    def meanings(self, names: list[str]) -> Iterator[Names]:
        """These names with every other value that they have had."""
        several = [name for name in dict.fromkeys(names) if len(self.told.get(name, ())) > 1]
        for values in islice(product(*(self.told[name] for name in several)), 32):
            yield self.copy(**dict(zip(several, values, strict=True)))

    def find(self, name: str) -> Floats | None:
        """What ``name`` is: told itself, or a row or a number of a matrix that was told."""
        if name in self.values:
            return self.values[name]
        if name in MATRICES:
            return self._made_of(name)
        place = re.fullmatch(r"(?:p|PE|pe)_?(\d{1,3})", name)
        if place and "positions" in self.said:
            return self.encoding(int(place[1]))
        part = re.fullmatch(r"([xqkvzosaXQKVZOSAP]|alpha)_?(\d)(?:,?(\d))?", name)
        if not part:
            return None
        first = 0 if f"{part[1]}0" in self.values else 1
        for letter in (part[1], part[1].upper(), {"alpha": "A", "a": "A"}.get(part[1], "")):
            matrix = self.values.get(letter)
            if matrix is None or matrix.ndim != 2:
                continue
            indices = [int(index) - first for index in part.groups()[1:] if index]
            if all(0 <= i < size for i, size in zip(indices, matrix.shape, strict=False)):
                return np.asarray(matrix[tuple(indices)])
        return None

    def encoding(self, place: int) -> Floats | None:
        """The sinusoids of a position, where the width has been told."""
        width = next((self.values[name] for name in ("d", "d_model") if name in self.values), None)
        several = {float(told) for name in ("d", "d_model") for told in self.told.get(name, ())}
        if (
            width is None
            or width.ndim
            or not 2 <= width <= 1024
            or place > 4096
            or len(several) > 1
        ):
            return None  # of several widths it cannot be told which is meant
        return np.asarray(sinusoids(place + 1, int(width))[-1])

    def _made_of(self, name: str) -> Floats | None:
        """A matrix that the note has told by its rows, or by what it comes from."""
        rows = [
            next((self.values[key] for key in (f"{name.lower()}{i}", f"{name.lower()}_{i}") if key in self.values), None)
            for i in range(10)
        ]  # fmt: skip
        told = [row for row in rows if row is not None and row.ndim == 1]
        if len(told) > 1 and len({len(row) for row in told}) == 1:
            return np.stack(told)
        weight, x = (self.find(each) if each != name else None for each in (f"W_{name}", "X"))
        if (
            x is None
            or weight is None
            or x.ndim != 2
            or weight.ndim != 2
            or x.shape[1] != len(weight)
        ):
            return None
        return np.asarray(x @ weight)

    def split(self, name: str) -> list[str]:
        """``nd`` as n and d, where these are known and ``nd`` is not."""
        if self.find(name) is not None or name in CONSTANTS:
            return [name]
        pieces, rest = [], name
        implied = [
            each for each in MATRICES if each not in self.values and self.find(each) is not None
        ]
        known = sorted((*self.values, *implied, "e"), key=len, reverse=True)
        while rest:
            first = next((each for each in known if rest.startswith(each)), None)
            if first is None:
                raise NotUnderstood(name)
            pieces.append(first)
            rest = rest[len(first) :]
        return pieces


def value(
    node: Node, names: Names, shake: Callable[[Floats, Floats], Floats] | None = None
) -> Floats:
    """What ``node`` is; ``shake`` moves written numbers within their last digit."""
    try:
        result = np.asarray(_value(node, names, shake), dtype=np.float64)
    except (ValueError, TypeError, IndexError, ArithmeticError) as error:  # sizes that do not fit
        raise NotUnderstood(str(error)) from error
    if result.size > MOST:
        raise NotUnderstood("it is too large")
    return result


def _value(node: Node, names: Names, shake: Any) -> Any:
    if isinstance(node, Number):
        number, unit = np.array(node.value), np.array(node.unit)
        return shake(number, unit) if shake else number
    kind, *rest = node
    if kind in ("^", "turn") and not isinstance(rest[0], Number) and rest[0][0] == "name":
        pieces = names.split(rest[0][1])
        if len(pieces) > 1:  # n d² and X Xᵀ: what is behind belongs to the last name
            before: Node = ("name", "".join(pieces[:-1]))
            return _value(("beside", before, (kind, ("name", pieces[-1]), *rest[1:])), names, shake)
    if kind == "name":
        return _named(rest[0], names, shake)
    if kind == "call":
        return _call(rest[0], rest[1], rest[2], names, shake)
    parts = [_value(each, names, shake) for each in (rest[0] if kind == "list" else rest)]
    return _OPERATORS[kind](*parts) if kind != "list" else np.array(parts, dtype=np.float64)


def _named(name: str, names: Names, shake: Any) -> Any:
    result: Any = None
    for piece in names.split(name):
        found: Any = names.find(piece)
        if found is not None:
            if shake and piece in names.units:
                found = shake(found, names.units[piece])
        else:
            found = np.array(CONSTANTS[piece])
        result = found if result is None else _beside(result, found)
    return result


def _beside(a: Any, b: Any) -> Any:
    """A product of what stands side by side: of matrices where both are some."""
    a, b = np.asarray(a), np.asarray(b)
    return a * b if a.ndim == 0 or b.ndim == 0 else a @ b


def _power(a: Any, b: Any) -> Any:
    if np.ndim(b) or abs(float(b)) > 300:
        raise NotUnderstood("power")
    with np.errstate(all="ignore"):
        return np.asarray(a, dtype=np.float64) ** b


def _over(a: Any, b: Any) -> Any:
    if not np.all(b):
        raise NotUnderstood("division by 0")
    return np.asarray(a) / np.asarray(b)


_OPERATORS: Mapping[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": _beside,
    "@": _beside,
    "beside": _beside,
    "/": _over,
    "//": lambda a, b: np.floor(_over(a, b)),
    "^": _power,
    "^^": lambda a, b: np.linalg.matrix_power(a, int(b)) if np.ndim(a) == 2 else _power(a, b),
    "neg": lambda a: -a,
    "turn": lambda a: np.asarray(a).T,
}


def _call(name: str, nodes: list[Node], words: dict[str, Node], names: Names, shake: Any) -> Any:
    parts = [np.asarray(_value(each, names, shake), dtype=np.float64) for each in nodes]
    if not parts:
        raise NotUnderstood(name)
    axis: int | None = None
    for word in ("axis", "dim"):
        if word in words:
            axis = int(_value(words[word], names, None))
    first = parts[0]
    with np.errstate(all="ignore"):
        if name in ("array", "tensor", "round"):
            return first
        if name == "softmax":
            if len(parts) == 2 and first.ndim and not parts[1].ndim:  # softmax(x, dim)
                axis = int(parts[1])
            elif len(parts) > 1:  # softmax(1, 2, 3)
                first = np.array(parts)
            turned = np.moveaxis(first, -1 if axis is None else axis, -1)
            weights = np.asarray(formula.normalise(turned)[0]) if turned.ndim else turned
            return np.moveaxis(weights, -1, -1 if axis is None else axis)
        if name in _NEW:
            return _NEW[name](_sizes(parts))
        if name == "PE" or (name in ("dot", "cos") and len(parts) == 2):
            return _of_two(name, parts, names)
        if name in _REDUCTIONS:
            if len(parts) > 1 and axis is None:
                first = np.array(parts)
            reduced = _REDUCTIONS[name](first, axis)
            kept = axis is not None and {"keepdims", "keepdim"} & words.keys()
            return np.expand_dims(reduced, axis) if kept and axis is not None else reduced
        if name in _MAPS and len(parts) == 1:
            return _MAPS[name](first)
    raise NotUnderstood(name)


def _sizes(parts: list[Floats]) -> list[int]:
    """The sizes of a new array, as it was asked for, of no more numbers than are worth checking."""
    sizes = [int(size) for part in parts for size in np.atleast_1d(part)]
    if not sizes or min(sizes) < 0 or np.prod([float(size) for size in sizes]) ** 2 > MOST**2:
        raise NotUnderstood("array")
    return sizes


_NEW: Mapping[str, Callable[[list[int]], Any]] = {
    "ones": np.ones,
    "zeros": np.zeros,
    "eye": lambda sizes: np.eye(min(sizes[0], 100)),
    "arange": lambda sizes: np.arange(*sizes[:3]),
}


def _of_two(name: str, parts: list[Floats], names: Names) -> Any:
    """A dot product, the cosine of the angle between two vectors, or a position's encoding."""
    if name == "PE":
        return _position(parts, names)
    dots = _beside(*parts)
    return dots if name == "dot" else _over(dots, np.prod([np.sqrt(p @ p) for p in parts]))


def _position(parts: list[Floats], names: Names) -> Any:
    """PE(position, d), or PE(position) where the width is known: the whole vector."""
    alone = names.encoding(int(parts[0])) if len(parts) == 1 and parts[0] >= 0 else None
    if alone is not None:
        return alone
    if len(parts) != 2 or parts[1] < 2:
        raise NotUnderstood("PE")
    return sinusoids(int(parts[0]) + 1, int(parts[1]))[-1]


_MAPS: Mapping[str, Callable[[Any], Any]] = {
    "exp": np.exp, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "log": np.log,
    "sigmoid": lambda a: 1 / (1 + np.exp(-a)), "relu": lambda a: np.maximum(a, 0), "tril": np.tril, "triu": np.triu,
    "layernorm": lambda a: (a - a.mean(-1, keepdims=True)) / a.std(-1, keepdims=True),
    "ln": np.log, "log2": np.log2, "log10": np.log10, "abs": np.abs,
}  # fmt: skip
_REDUCTIONS: Mapping[str, Callable[[Any, int | None], Any]] = {
    "sum": lambda a, axis: a.sum(axis),
    "mean": lambda a, axis: a.mean(axis),
    "max": lambda a, axis: a.max(axis),
    "min": lambda a, axis: a.min(axis),
    "var": lambda a, axis: a.var(axis),
    "std": lambda a, axis: a.std(axis),
    "sample_var": lambda a, axis: a.var(axis, ddof=1),
    "sample_std": lambda a, axis: a.std(axis, ddof=1),
    "norm": lambda a, axis: np.sqrt((a * a).sum(axis)),
}
