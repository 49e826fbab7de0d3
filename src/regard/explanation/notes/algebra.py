"""Numbers, vectors and matrices worked out from plain mathematical text; nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.core import formula
from regard.explanation.attention import sinusoids
from regard.explanation.notes.mathtext import FUNCTIONS
from regard.explanation.sheet import Floats

TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?![\d.])|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?%?)"
    r"|(?P<name>[A-Za-z_][\w]*'?)|(?P<op>\^T\b|\.T\b|[-+*/@^()\[\],=|]))"
)
CONSTANTS = {"e": np.e, "pi": np.pi}
MOST = 10_000
"""Numbers of a result that is still worth checking."""


class NotUnderstood(Exception):
    """A text that is no expression, or holds a name that nobody has told of."""


@dataclass(frozen=True)
class Number:
    """A number as it was written."""

    text: str

    @property
    def value(self) -> float:
        """What it is."""
        text = self.text.replace(",", "")
        return float(text[:-1]) / 100 if text.endswith("%") else float(text)

    @property
    def unit(self) -> float:
        """One in its last digit."""
        text = self.text.replace(",", "").rstrip("%")
        mantissa, _, power = text.partition("e")
        digits = len(mantissa.partition(".")[2])
        return float(10.0 ** (int(power or 0) - digits - (2 if "%" in self.text else 0)))


Node = Number | tuple[Any, ...]
"""A number, ("name", text), ("list", nodes), ("call", name, nodes, words) or (op, *nodes)."""


def tokens(text: str) -> list[str]:
    """The tokens of an expression; raises where there is something else."""
    found, place = [], 0
    text = text.strip()
    while place < len(text):
        match = TOKEN.match(text, place)
        if not match or match.end() == place:
            raise NotUnderstood(text[place:])
        found.append(match[match.lastgroup or 0].strip())
        place = match.end()
    return found


class Parser:
    """An expression's tree, by the usual precedence; what stands side by side is multiplied."""

    def __init__(self, text: str) -> None:
        self.tokens = tokens(text)
        self.place = 0

    def whole(self) -> Node:
        """The tree of the whole text."""
        node = self.sum()
        if self.place != len(self.tokens):
            raise NotUnderstood(" ".join(self.tokens[self.place :]))
        return node

    def peek(self) -> str:
        return self.tokens[self.place] if self.place < len(self.tokens) else ""

    def take(self, *wanted: str) -> str:
        if self.peek() and (not wanted or self.peek() in wanted):
            self.place += 1
            return self.tokens[self.place - 1]
        if wanted:
            raise NotUnderstood(f"{' '.join(wanted)} is missing")
        raise NotUnderstood("it ends too early")

    def sum(self) -> Node:
        node = self.product()
        while self.peek() in ("+", "-"):
            node = (self.take(), node, self.product())
        return node

    def product(self) -> Node:
        node = self.sign()
        while True:
            if self.peek() in ("*", "/", "@"):
                node = (self.take(), node, self.sign())
            elif re.match(r"[\w(\[]", self.peek()) and not (
                isinstance(node, Number) and self.peek()[0].isdigit()
            ):
                node = ("beside", node, self.power())
            else:
                return node

    def sign(self) -> Node:
        if self.peek() == "-":
            self.take()
            return ("neg", self.sign())
        if self.peek() == "+":
            self.take()
        return self.power()

    def power(self) -> Node:
        node = self.atom()
        while self.peek() in ("^", "^T", ".T"):
            turned = self.take() != "^"
            node = ("turn", node) if turned else ("^", node, self.sign())
        return node

    def atom(self) -> Node:
        token = self.take()
        if token[0].isdigit() or token[0] == ".":
            if len(token) > 40 or re.search(r"e[-+]?\d{3}", token):
                raise NotUnderstood(token)
            return Number(token)
        if token == "(":
            nodes = [self.sum()]
            while self.peek() == ",":
                self.take()
                nodes.append(self.sum())
            self.take(")")
            return nodes[0] if len(nodes) == 1 else ("list", nodes)
        if token == "[":
            return ("list", self.items("]"))
        if token == "|":
            node = self.sum()
            self.take("|")
            return ("call", "norm", [node], {})
        if token[0].isalpha() or token[0] == "_":
            if self.peek() == "(" and token in (*FUNCTIONS, "array", "tensor"):
                self.take()
                return self.call(token)
            if token in FUNCTIONS and token != "PE":
                return ("call", token, [self.power()], {})
            return ("name", token)
        raise NotUnderstood(token)

    def items(self, end: str) -> list[Node]:
        nodes: list[Node] = []
        while self.peek() != end:
            nodes.append(self.sum() if "," in self.row() else self.sign_alone())
            if self.peek() == ",":
                self.take()
        self.take(end)
        return nodes

    def row(self) -> list[str]:
        """The tokens up to where this bracket closes."""
        depth, found = 0, []
        for token in self.tokens[self.place :]:
            depth += token in "([" and token != ""
            depth -= token in ")]"
            if depth < 0:
                break
            if depth == 0:
                found.append(token)
        return found

    def sign_alone(self) -> Node:
        """NumPy prints numbers with spaces between them, so what stands there is no product."""
        if self.peek() == "-":
            self.take()
            return ("neg", self.atom())
        return self.atom()

    def call(self, name: str) -> Node:
        nodes: list[Node] = []
        words: dict[str, Node] = {}
        while self.peek() != ")":
            if self.place + 1 < len(self.tokens) and self.tokens[self.place + 1] == "=":
                word = self.take()
                self.take("=")
                words[word] = ("name", self.take()) if self.peek().isalpha() else self.sum()
            else:
                nodes.append(self.sum())
            if self.peek() == ",":
                self.take()
        self.take(")")
        return ("call", name, nodes, words)


@dataclass
class Names:
    """What a note has said its names are, with how exact the numbers were written."""

    values: dict[str, Floats] = field(default_factory=dict)
    units: dict[str, Floats] = field(default_factory=dict)
    said: set[str] = field(default_factory=set)
    """What else a claim may rely on: "zero mean"."""

    def split(self, name: str) -> list[str]:
        """``nd`` as n and d, where these are known and ``nd`` is not."""
        if name in self.values or name in CONSTANTS:
            return [name]
        pieces, rest = [], name
        known = sorted((*self.values, "e"), key=len, reverse=True)
        while rest:
            first = next((each for each in known if rest.startswith(each)), None)
            if first is None:
                raise NotUnderstood(name)
            pieces.append(first)
            rest = rest[len(first) :]
        return pieces


def literal(node: Node) -> tuple[Floats, Floats] | None:
    """The numbers of what is only written out, and one in the last digit of each; else None."""
    match node:
        case Number():
            return np.array(node.value), np.array(node.unit)
        case ("neg", inner):
            found = literal(inner)
            return found and (-found[0], found[1])
        case ("list", nodes):
            parts = [literal(each) for each in nodes]
            if not parts or any(part is None for part in parts):
                return None
            shapes = {part[0].shape for part in parts if part}
            if len(shapes) != 1:
                return None
            return (
                np.array([part[0] for part in parts if part]),
                np.array([part[1] for part in parts if part]),
            )
        case ("call", "array" | "tensor", [inner, *_], _):
            return literal(inner)
    return None


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
        if piece in names.values:
            found: Any = names.values[piece]
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
    "^": _power,
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
            if len(parts) > 1 and parts[1].ndim == 0:  # softmax(x, dim)
                axis = int(parts[1])
            elif len(parts) > 1:  # softmax(1, 2, 3)
                first = np.array(parts)
            turned = np.moveaxis(first, -1 if axis is None else axis, -1)
            weights = np.asarray(formula.normalise(turned)[0]) if turned.ndim else turned
            return np.moveaxis(weights, -1, -1 if axis is None else axis)
        if name == "dot" and len(parts) == 2:
            return _beside(first, parts[1])
        if name == "PE":
            return _position(parts)
        if name in _REDUCTIONS:
            if len(parts) > 1 and axis is None:
                first = np.array(parts)
            return _REDUCTIONS[name](first, axis)
        if name in _MAPS:
            return _MAPS[name](first)
    raise NotUnderstood(name)


def _position(parts: list[Floats]) -> Any:
    """PE(position, d): the whole vector.  One number of it needs a width, which nobody has told."""
    if len(parts) != 2 or parts[1] < 2:
        raise NotUnderstood("PE")
    return sinusoids(int(parts[0]) + 1, int(parts[1]))[-1]


_MAPS: Mapping[str, Callable[[Any], Any]] = {
    "exp": np.exp, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "log": np.log,
    "ln": np.log, "abs": np.abs,
}  # fmt: skip
_REDUCTIONS: Mapping[str, Callable[[Any, int | None], Any]] = {
    "sum": lambda a, axis: a.sum(axis),
    "mean": lambda a, axis: a.mean(axis),
    "max": lambda a, axis: a.max(axis),
    "min": lambda a, axis: a.min(axis),
    "var": lambda a, axis: a.var(axis),
    "std": lambda a, axis: a.std(axis),
    "norm": lambda a, axis: np.sqrt((a * a).sum(axis)),
}


def leaves(node: Node) -> Iterator[Node]:
    """The numbers and names of ``node``."""
    if isinstance(node, Number) or node[0] == "name":
        yield node
        return
    for part in node[1:]:
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, Number | tuple):
                yield from leaves(each)


def numbers_of(node: Node) -> list[Number]:
    """Every number that is written in ``node``."""
    return [leaf for leaf in leaves(node) if isinstance(leaf, Number)]


def names_of(node: Node) -> list[str]:
    """Every name in ``node``."""
    return [leaf[1] for leaf in leaves(node) if not isinstance(leaf, Number)]
