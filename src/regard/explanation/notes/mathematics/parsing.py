"""An expression's tree from plain mathematical text, and the numbers that stand in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.explanation.notes.mathematics.mathtext import FUNCTIONS
from regard.explanation.sheet import Floats

TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?![\d.])|\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?%?)"
    r"|(?P<name>[A-Za-z_][\w]*'?)|(?P<op>\^T\b|\.T\b|\.(?:sum|mean|max|min|var|std|exp)(?=\()|//|[-+*/@^()\[\],=|]))"
)


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
            if self.peek() in ("*", "/", "//", "@"):
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
        while self.peek() in ("^", "^T", ".T") or re.match(r"\.[a-z]", self.peek()):
            token = self.take()
            if token == "^":
                node = ("^", node, self.sign())
            elif token == "^T" and isinstance(node, Number):
                node = ("^", node, ("name", "T"))
            elif token in ("^T", ".T"):
                node = ("turn", node)
            else:  # x.sum(…) is sum(x, …)
                self.take("(")
                kind, name, nodes, words = self.call(token[1:])
                node = (kind, name, [node, *nodes], words)
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
        parted = "," in self.row()
        while self.peek() != end:
            nodes.append(self.sum() if parted else self.sign_alone())
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

    def call(self, name: str) -> tuple[Any, ...]:
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


def parsed(text: str) -> Node | None:
    """The tree of ``text``, or None."""
    try:
        return Parser(text).whole()
    except (NotUnderstood, RecursionError):
        return None


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
        case (
            "*" | "beside",
            Number() as digits,
            ("^", Number(text="10" | "1024.0") as base, power),
        ):
            exponent = literal(power)  # 1.61 · 10^9 and 96 KiB are numbers as they were written
            if exponent is not None and exponent[0].ndim == 0 and abs(exponent[0]) < 90:
                by = np.asarray(base.value ** exponent[0])
                return digits.value * by, digits.unit * by
    return None


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
