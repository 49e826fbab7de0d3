"""Expressions of a note's program: what each is, as far as NumPy's and PyTorch's arithmetic tells."""

from __future__ import annotations

import ast
import builtins
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.explanation.notes.mathematics.parsing import NotUnderstood
from regard.explanation.notes.programs import arrays
from regard.explanation.notes.programs.arrays import FUNCTIONS, Ghost, Value, each_number
from regard.explanation.notes.programs.layers import LAYERS, Layer

STEPS = 20_000
"""Steps of all programs of a note."""
LIBRARIES = (
    "np",
    "numpy",
    "torch",
    "F",
    "nn",
    "math",
    "functional",
    "linalg",
    "random",
    "special",
    "scipy",
    "jnp",
    "jax",
)
_NAMED = {
    "pi": math.pi,
    "inf": math.inf,
    "e": math.e,
    "newaxis": None,
    "nan": math.nan,
    "Inf": math.inf,
}


@dataclass(frozen=True)
class Made:
    """What one statement makes or prints."""

    line: int
    text: str
    """The expression, as it is written."""
    value: Value
    printed: bool = False


@dataclass(frozen=True)
class Text:
    """A formatted text: its pieces and values."""

    parts: tuple[Value, ...]


class Library:
    """``np``, ``torch.nn.functional``: what it holds is known by name."""


@dataclass(frozen=True)
class Known:
    """A function of a library, by its name."""

    name: str


@dataclass(frozen=True)
class Function:
    """A function of the note, and the names around it."""

    node: ast.FunctionDef | ast.Lambda
    env: dict[str, Value]


@dataclass
class Instance:
    """An instance of a class of the note."""

    methods: Mapping[str, ast.FunctionDef]
    held: dict[str, Value] = field(default_factory=dict)


class Returned(Exception):
    """What ends a function of the note."""

    def __init__(self, value: Value) -> None:
        self.value = value


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


class Evaluator:
    """The names of a note's programs, and what expressions of them are."""

    def __init__(self) -> None:
        self.env: dict[str, Value] = {}
        self.given: Mapping[str, Value] = {}
        """What the note's text calls its arrays."""
        self.steps = 0
        self.torch = False
        self.out: list[Made] = []
        self.learned: list[Value] = []
        """What is a parameter."""

    def called(self, node: ast.Call, env: dict[str, Value]) -> Value:
        """What a call gives."""
        raise NotImplementedError

    def body(self, nodes: list[ast.stmt], env: dict[str, Value]) -> None:
        """Does the statements of a function of the note."""
        raise NotImplementedError

    def step(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise NotUnderstood("it takes too long")

    def truth(self, test: ast.expr, env: dict[str, Value]) -> bool:
        found = self.value(test, env)
        if found is NotUnderstood or isinstance(found, Ghost):
            raise NotUnderstood("test")
        return bool(found)

    def bind(self, target: ast.expr, value: Value, env: dict[str, Value]) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = list(self.items_of(value))
                for part, item in zip(parts, items, strict=True):
                    self.bind(part, item, env)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if isinstance(
                env.get(name), Instance
            ):
                env[name].held[attr] = value
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                held = env.get(name)
                if isinstance(held, np.ndarray) and not arrays.has_ghost(value):
                    changed = held.astype(float) if held.dtype.kind == "i" else held.copy()
                    changed[self._index(index, env)] = arrays.array(value)
                    env[name] = changed
                    self.part(held, changed, env)
                elif isinstance(held, dict):
                    held[self.value(index, env)] = value
                elif not isinstance(held, Ghost):
                    raise NotUnderstood(name)
            case _:
                raise NotUnderstood("target")

    def part(self, before: Value, after: Value, env: dict[str, Value]) -> None:
        """Forgets the other names of an array that was changed in place, and of its parts."""
        if isinstance(before, np.ndarray):
            for name, value in env.items():
                if (
                    value is not after
                    and isinstance(value, np.ndarray)
                    and np.shares_memory(value, before)
                ):
                    env[name] = NotUnderstood

    def items_of(self, value: Value) -> Iterator[Value]:
        if isinstance(value, Ghost):
            return iter([Ghost(value.shape[1:])] * min(value.shape[0], 1000))
        if isinstance(value, Text) or value is NotUnderstood:
            raise NotUnderstood("items")
        return iter(value)

    def value(self, node: ast.expr, env: dict[str, Value]) -> Value:  # noqa: PLR0912
        """What an expression is; raises where that is not known."""
        self.step()
        match node:
            case ast.Constant(value=found):
                return found
            case ast.Name(id=name):
                return self._named(name, env)
            case ast.Tuple(elts=parts):
                return tuple(self.spread(parts, env))
            case ast.List(elts=parts):
                return list(self.spread(parts, env))
            case ast.Dict(keys=keys, values=values):
                return {
                    self.value(k, env): self.value(v, env)
                    for k, v in zip(keys, values, strict=True)
                    if k
                }
            case ast.BinOp(left=left, op=op, right=right):
                return self._operate(op, self.value(left, env), self.value(right, env))
            case ast.UnaryOp(op=op, operand=operand):
                found = self.value(operand, env)
                if isinstance(op, ast.Not):
                    return not found
                if isinstance(op, ast.Invert):
                    return each_number(np.logical_not)(found)
                return (
                    found
                    if isinstance(op, ast.UAdd)
                    else each_number(np.negative)(found)
                    if isinstance(found, Ghost | np.ndarray)
                    else -found
                )
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                one, other = self.value(left, env), self.value(right, env)
                if isinstance(op, ast.Is | ast.IsNot):
                    return (one is other) == isinstance(op, ast.Is)
                if isinstance(op, ast.In | ast.NotIn):
                    return (one in other) == isinstance(op, ast.In)
                return self._operate(op, one, other)
            case ast.BoolOp(op=op, values=values):
                truths = [self.truth(each, env) for each in values]
                return all(truths) if isinstance(op, ast.And) else any(truths)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self.truth(test, env) else orelse, env)
            case ast.Subscript(value=held, slice=index):
                return self._item(self.value(held, env), self._index(index, env))
            case ast.Attribute(value=held, attr=attr):
                return self.attribute(self.value(held, env), attr)
            case ast.Call():
                return self.called(node, env)
            case ast.JoinedStr(values=values):
                return Text(tuple(self.value(each, env) for each in values))
            case ast.FormattedValue(value=inner):
                return self.value(inner, env)
            case (
                ast.ListComp(elt=element, generators=[loop])
                | ast.GeneratorExp(elt=element, generators=[loop])
            ):
                return self._comprehended(element, loop, env)
            case ast.Lambda():
                return Function(node, env)
        raise NotUnderstood(type(node).__name__)

    def spread(self, parts: list[ast.expr], env: dict[str, Value]) -> Iterator[Value]:
        for part in parts:
            if isinstance(part, ast.Starred):
                yield from self.items_of(self.value(part.value, env))
            else:
                yield self.value(part, env)

    def _comprehended(
        self, element: ast.expr, loop: ast.comprehension, env: dict[str, Value]
    ) -> list[Value]:
        found = []
        for item in self.items_of(self.value(loop.iter, env)):
            inner = dict(env)
            self.bind(loop.target, item, inner)
            if all(self.truth(test, inner) for test in loop.ifs):
                found.append(self.value(element, inner))
        return found

    def _named(self, name: str, env: dict[str, Value]) -> Value:
        if name in env:
            if env[name] is NotUnderstood:
                raise NotUnderstood(name)
            return env[name]
        if name in self.env:
            return self._named(name, self.env)
        if name in ("F", "np", "torch", "nn", "math", "numpy"):
            return Library()
        if name in self.given:
            return self.given[name]
        if name in _PLAIN:
            return _PLAIN[name]
        if name in LAYERS:
            return LAYERS[name]
        if name in ("softmax", "sqrt", "exp", "log", "sin", "cos"):
            return FUNCTIONS[name]
        raise NotUnderstood(name)

    def _index(self, node: ast.expr, env: dict[str, Value]) -> Any:
        match node:
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(
                    *(
                        None if each is None else self.value(each, env)
                        for each in (lower, upper, step)
                    )
                )
            case ast.Tuple(elts=parts):
                return tuple(self._index(part, env) for part in parts)
        return self.value(node, env)

    def _item(self, held: Value, index: Any) -> Value:
        if isinstance(held, Text):
            raise NotUnderstood("text")
        if isinstance(held, Ghost):
            if arrays.has_ghost(index):
                raise NotUnderstood("index")
            return Ghost(arrays.array(held)[index].shape)
        return held[index]

    def attribute(self, held: Value, name: str) -> Value:
        if isinstance(held, Library):
            return (
                _NAMED[name] if name in _NAMED else Library() if name in LIBRARIES else Known(name)
            )
        if isinstance(held, Instance):
            return held.held[name]
        if isinstance(held, Layer):
            return held.held[name] if name in held.held else held.weights[name]
        if name in ("T", "mT") and (name == "T" or len(arrays.shape_of(held)) > 1):
            dims = len(arrays.shape_of(held))
            return (
                arrays.transpose(held)
                if name == "T" or dims == 2
                else arrays.transpose(held, -1, -2)
            )
        if isinstance(held, Ghost | np.ndarray) and name in ("shape", "ndim", "size"):
            shape = held.shape
            return {"shape": shape, "ndim": len(shape), "size": math.prod(shape)}[name]
        if name == "values" and isinstance(held, tuple):
            return held[0]
        raise NotUnderstood(name)

    def _operate(self, op: ast.AST, one: Value, other: Value) -> Value:
        if isinstance(op, ast.MatMult):
            return arrays.product(one, other)
        function = _OPERATORS[type(op)]
        if isinstance(one, Ghost | np.ndarray) or isinstance(other, Ghost | np.ndarray):
            return each_number(function)(one, other)
        if isinstance(one, Text | str) or isinstance(other, Text | str):
            if isinstance(op, ast.Mult) and isinstance(other, int) and isinstance(one, str):
                return one * min(other, 200)
            return Text((one, other)) if isinstance(op, ast.Add) else function(one, other)
        if isinstance(op, ast.Pow) and abs(other) > 400:
            raise NotUnderstood("power")
        if isinstance(op, ast.Mult) and isinstance(one, list | tuple) and other * len(one) > 1000:
            raise NotUnderstood("it is too large")
        return function(one, other)


def _sum(values: Value, start: Value = 0) -> Value:
    if isinstance(values, Ghost | np.ndarray):
        return FUNCTIONS["sum"](values, 0)
    for each in values:
        start = (
            each_number(np.add)(start, each)
            if isinstance(each, Ghost | np.ndarray)
            else start + each
        )
    return start


def _most(name: str) -> Callable[..., Value]:
    return lambda *values, **words: (
        getattr(builtins, name)(*values) if len(values) > 1 else FUNCTIONS[name](list(values[0]))
    )


_PLAIN: Mapping[str, Callable[..., Value]] = {
    **{name: getattr(builtins, name) for name in ("range", "len", "int", "zip", "enumerate", "list", "tuple", "float", "sorted", "reversed", "dict")},
    "bool": bool, "str": lambda value: Text((value,)), "round": lambda value, digits=0: value, "abs": FUNCTIONS["abs"],
    "sum": _sum, "max": _most("max"), "min": _most("min"), "len": lambda value: arrays.shape_of(value)[0] if isinstance(value, Ghost) else len(value),
}  # fmt: skip
