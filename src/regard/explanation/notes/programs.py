"""A note's programs followed by reading them: what each statement makes and what it prints.

Nothing is run: a small reader of Python's tree knows the arithmetic of NumPy and PyTorch and nothing
of files, processes or time.  What it does not know stays unknown, with all that comes of it.
"""

from __future__ import annotations

import ast
import builtins
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.explanation.notes import arrays
from regard.explanation.notes.arrays import FUNCTIONS, Ghost, Value, each_number
from regard.explanation.notes.layers import LAYERS, Layer
from regard.explanation.notes.parsing import NotUnderstood

STEPS = 20_000
"""Steps of all programs of a note."""
LIBRARIES = ("np", "numpy", "torch", "F", "nn", "math", "functional", "linalg", "random", "special", "scipy", "jnp", "jax")
_NAMED = {"pi": math.pi, "inf": math.inf, "e": math.e, "newaxis": None, "nan": math.nan, "Inf": math.inf}
_SILENT = ("seed", "manual_seed", "set_printoptions", "super", "filterwarnings", "set_seed", "register_buffer")


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


class _Library:
    """``np``, ``torch.nn.functional``: what it holds is known by name."""


@dataclass(frozen=True)
class _Function:
    node: ast.FunctionDef | ast.Lambda
    env: dict[str, Value]


@dataclass
class _Object:
    """An instance of a class of the note."""

    methods: Mapping[str, ast.FunctionDef]
    held: dict[str, Value] = field(default_factory=dict)


class _Return(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.Pow: operator.pow, ast.BitAnd: operator.and_, ast.BitOr: operator.or_,
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
FAULTS = (NotUnderstood, ArithmeticError, ValueError, TypeError, IndexError, KeyError, AttributeError, RecursionError, StopIteration)


class Program:
    """The names of a note's programs, block after block."""

    def __init__(self) -> None:
        self.env: dict[str, Value] = {}
        self.given: Mapping[str, Value] = {}
        """What the note's text calls its arrays."""
        self.steps = 0
        self.torch = False
        self.out: list[Made] = []

    def read(self, tree: list[ast.stmt], source: str, first: int, given: Mapping[str, Value]) -> list[Made]:
        """What the statements of a block make, and print, in order."""
        self.given, self.out = given, []
        self.torch = re.search(r"\btorch\b", source) is not None
        for node in tree:
            count = len(self.out)
            try:
                value = self.statement(node, self.env)
            except FAULTS:
                value = NotUnderstood
                self.env.update(dict.fromkeys(_changed(node), NotUnderstood))
                if _prints(node):
                    self.out.append(Made(node.end_lineno or node.lineno, "print", NotUnderstood, printed=True))
            except _Return:
                continue
            if len(self.out) == count and isinstance(node, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign):
                written = node.value if node.value is not None else node
                text = ast.get_source_segment(source, written) or ""
                self.out.append(Made(node.end_lineno or node.lineno, text, value, False))
        return [Made(each.line + first - 1, each.text, each.value, each.printed) for each in self.out]

    def statement(self, node: ast.stmt, env: dict[str, Value]) -> Value:  # noqa: PLR0911, PLR0912
        """Does ``node``; the value of an assignment or an expression."""
        self._step()
        match node:
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    if isinstance(node, ast.Import) or alias.name in LIBRARIES:
                        env[name] = _Library()
                    else:
                        env.pop(name, None)
            case ast.Assign(targets=targets, value=source):
                value = self.value(source, env)
                for target in targets:
                    self._bind(target, value, env)
                return value
            case ast.AnnAssign(target=target, value=ast.expr() as source):
                value = self.value(source, env)
                self._bind(target, value, env)
                return value
            case ast.AugAssign(target=target, op=op, value=source):
                read = ast.copy_location(ast.parse(ast.unparse(target), mode="eval").body, target)
                value = self._operate(op, self.value(read, env), self.value(source, env))
                self._bind(target, value, env)
                return value
            case ast.Expr(value=ast.Constant(value=str())):
                return NotUnderstood
            case ast.Expr(value=source):
                value = self.value(source, env)
                match source:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if attr.endswith("_"):
                        env[name] = value  # PyTorch changes it in place
                return value
            case ast.FunctionDef():
                env[node.name] = _Function(node, env)
            case ast.ClassDef():
                methods = {each.name: each for each in node.body if isinstance(each, ast.FunctionDef)}
                env[node.name] = lambda *rest, **words: self._made(methods, env, rest, words)
            case ast.Return(value=source):
                raise _Return(None if source is None else self.value(source, env))
            case ast.For(target=target, iter=source, body=body):
                for item in self._items(self.value(source, env)):
                    self._bind(target, item, env)
                    self._body(body, env)
            case ast.If(test=test, body=body, orelse=orelse):
                self._body(body if self._truth(test, env) else orelse, env)
            case ast.With(body=body):
                self._body(body, env)
            case ast.Pass() | ast.Assert():
                pass
            case _:
                raise NotUnderstood(type(node).__name__)
        return NotUnderstood

    def _step(self) -> None:
        self.steps += 1
        if self.steps > STEPS:
            raise NotUnderstood("it takes too long")

    def _body(self, nodes: list[ast.stmt], env: dict[str, Value]) -> None:
        for node in nodes:
            self.statement(node, env)

    def _truth(self, test: ast.expr, env: dict[str, Value]) -> bool:
        found = self.value(test, env)
        if found is NotUnderstood or isinstance(found, Ghost):
            raise NotUnderstood("test")
        return bool(found)

    def _bind(self, target: ast.expr, value: Value, env: dict[str, Value]) -> None:
        match target:
            case ast.Name(id=name):
                env[name] = value
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                items = list(self._items(value))
                for part, item in zip(parts, items, strict=True):
                    self._bind(part, item, env)
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if isinstance(env.get(name), _Object):
                env[name].held[attr] = value
            case ast.Subscript(value=ast.Name(id=name), slice=index):
                held = env.get(name)
                if isinstance(held, np.ndarray) and not arrays.has_ghost(value):
                    changed = held.astype(float) if held.dtype.kind == "i" else held.copy()
                    changed[self._index(index, env)] = arrays.array(value)
                    env[name] = changed
                elif isinstance(held, dict):
                    held[self.value(index, env)] = value
                elif not isinstance(held, Ghost):
                    raise NotUnderstood(name)
            case _:
                raise NotUnderstood("target")

    def _items(self, value: Value) -> Iterator[Value]:
        if isinstance(value, Ghost):
            return iter([Ghost(value.shape[1:])] * min(value.shape[0], 1000))
        if isinstance(value, Text) or value is NotUnderstood:
            raise NotUnderstood("items")
        return iter(value)

    def value(self, node: ast.expr, env: dict[str, Value]) -> Value:  # noqa: PLR0911, PLR0912
        """What an expression is; raises where that is not known."""
        self._step()
        match node:
            case ast.Constant(value=found):
                return found
            case ast.Name(id=name):
                return self._named(name, env)
            case ast.Tuple(elts=parts):
                return tuple(self._spread(parts, env))
            case ast.List(elts=parts):
                return list(self._spread(parts, env))
            case ast.Dict(keys=keys, values=values):
                return {self.value(k, env): self.value(v, env) for k, v in zip(keys, values, strict=True) if k}
            case ast.BinOp(left=left, op=op, right=right):
                return self._operate(op, self.value(left, env), self.value(right, env))
            case ast.UnaryOp(op=op, operand=operand):
                found = self.value(operand, env)
                if isinstance(op, ast.Not):
                    return not found
                if isinstance(op, ast.Invert):
                    return each_number(np.logical_not)(found)
                return found if isinstance(op, ast.UAdd) else each_number(np.negative)(found) if isinstance(found, Ghost | np.ndarray) else -found
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                one, other = self.value(left, env), self.value(right, env)
                if isinstance(op, ast.Is | ast.IsNot):
                    return (one is other) == isinstance(op, ast.Is)
                if isinstance(op, ast.In | ast.NotIn):
                    return (one in other) == isinstance(op, ast.In)
                return self._operate(op, one, other)
            case ast.BoolOp(op=op, values=values):
                found = [self._truth(each, env) for each in values]
                return all(found) if isinstance(op, ast.And) else any(found)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.value(body if self._truth(test, env) else orelse, env)
            case ast.Subscript(value=held, slice=index):
                return self._item(self.value(held, env), self._index(index, env))
            case ast.Attribute(value=held, attr=attr):
                return self._attribute(self.value(held, env), attr)
            case ast.Call():
                return self._called(node, env)
            case ast.JoinedStr(values=values):
                return Text(tuple(self.value(each, env) for each in values))
            case ast.FormattedValue(value=inner):
                return self.value(inner, env)
            case ast.ListComp(elt=element, generators=[loop]) | ast.GeneratorExp(elt=element, generators=[loop]):
                return self._comprehended(element, loop, env)
            case ast.Lambda():
                return _Function(node, env)
        raise NotUnderstood(type(node).__name__)

    def _spread(self, parts: list[ast.expr], env: dict[str, Value]) -> Iterator[Value]:
        for part in parts:
            if isinstance(part, ast.Starred):
                yield from self._items(self.value(part.value, env))
            else:
                yield self.value(part, env)

    def _comprehended(self, element: ast.expr, loop: ast.comprehension, env: dict[str, Value]) -> list[Value]:
        found = []
        for item in self._items(self.value(loop.iter, env)):
            inner = dict(env)
            self._bind(loop.target, item, inner)
            if all(self._truth(test, inner) for test in loop.ifs):
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
            return _Library()
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
                return slice(*(None if each is None else self.value(each, env) for each in (lower, upper, step)))
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

    def _attribute(self, held: Value, name: str) -> Value:  # noqa: PLR0911
        if isinstance(held, _Library):
            return _NAMED[name] if name in _NAMED else _Library() if name in LIBRARIES else _Known(name)
        if isinstance(held, _Object):
            return held.held[name]
        if isinstance(held, Layer):
            return (held.weights or {})[name]
        if name in ("T", "mT") and (name == "T" or len(arrays.shape_of(held)) > 1):
            dims = len(arrays.shape_of(held))
            return arrays.transpose(held) if name == "T" or dims == 2 else arrays.transpose(held, -1, -2)
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

    def _called(self, node: ast.Call, env: dict[str, Value]) -> Value:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _SILENT and name not in env:
            return None
        rest = list(self._spread(node.args, env))
        words = {_word(each.arg): self.value(each.value, env) for each in node.keywords if each.arg}
        if name == "print" and isinstance(node.func, ast.Name):
            text = ", ".join(map(ast.unparse, node.args))
            shown = rest[0] if len(rest) == 1 else Text(tuple(rest))
            self.out.append(Made(node.end_lineno or node.lineno, text, shown, printed=True))
            return NotUnderstood
        if not isinstance(node.func, ast.Attribute):
            return self._apply(self.value(node.func, env), rest, words)
        if isinstance(node.func.value, ast.Call) and getattr(node.func.value.func, "id", "") == "super":
            return None
        held = self.value(node.func.value, env)
        if isinstance(held, _Library):
            found = self._attribute(held, name)
            if isinstance(found, _Library) and name not in FUNCTIONS:
                raise NotUnderstood(name)
            if name == "default_rng":
                return _Library()
            return self._function(name, rest, words)
        if isinstance(held, _Object):
            method = held.held.get(name)
            if method is None and name == "parameters":
                return [part for part in held.held.values() if isinstance(part, Layer)]
            if method is not None:
                return self._apply(method, rest, words)
            return self._apply(_Function(held.methods[name], self.env), [held, *rest], words)
        if isinstance(held, Layer):
            if name == "parameters":
                return [held]
            if name == "numel":
                return held.parameters
            if name in ("eval", "train", "to"):
                return held
            raise NotUnderstood(name)
        if isinstance(held, list) and name == "append":
            held.append(rest[0])
            return None
        if isinstance(held, dict) and name in ("items", "keys", "values"):
            return list(getattr(held, name)())
        if isinstance(held, str | Text):
            raise NotUnderstood(name)
        return self._function(name, [held, *rest], words)

    def _function(self, name: str, rest: list[Value], words: dict[str, Value]) -> Value:
        if name in LAYERS:
            return LAYERS[name](*rest, **words)
        if name in ("var", "std"):
            return self._spread_of(name, rest, words)
        if name not in FUNCTIONS:
            raise NotUnderstood(name)
        for unused in ("dtype", "device", "requires_grad", "generator"):
            words.pop(unused, None)
        if name in ("tensor", "array", "asarray", "FloatTensor", "Tensor", "as_tensor", "arange"):
            words.pop("copy", None)
            if name != "arange":
                return rest[0] if arrays.has_ghost(rest[0]) else arrays.array(rest[0])
        if name in ("max", "min") and len(rest) > 1 and isinstance(rest[1], Ghost | np.ndarray):
            name += "imum"
        found = FUNCTIONS[name](*rest, **words)
        if self.torch and name in ("max", "min") and (len(rest) > 1 or "axis" in words):
            return (found, FUNCTIONS[f"arg{name}"](*rest, **words))
        return found

    def _spread_of(self, name: str, rest: list[Value], words: dict[str, Value]) -> Value:
        """Of a sample in PyTorch, of all numbers in NumPy."""
        free = words.pop("correction", words.pop("ddof", int(self.torch)))
        if words.pop("unbiased", True) is False:
            free = 0
        function = np.var if name == "var" else np.std
        return arrays.reducing(lambda a, **kept: function(a, ddof=free, **kept))(*rest, **words)

    def _apply(self, function: Value, rest: list[Value], words: dict[str, Value]) -> Value:
        if isinstance(function, _Known):
            return self._function(function.name, rest, words)
        if isinstance(function, Layer):
            return function.call(*rest, **words)
        if isinstance(function, _Object):
            return self._apply(_Function(function.methods["forward"], self.env), [function, *rest], words)
        if not isinstance(function, _Function):
            if not callable(function):
                raise NotUnderstood("call")
            return function(*rest, **words)
        arguments = function.node.args
        names = [arg.arg for arg in arguments.args]
        given = dict(zip(names, rest, strict=False))
        given |= words
        for name, default in zip(reversed(names), reversed(arguments.defaults), strict=False):
            if name not in given:
                given[name] = self.value(default, function.env)
        for arg, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if arg.arg not in given and default is not None:
                given[arg.arg] = self.value(default, function.env)
        if any(name not in given for name in names):
            raise NotUnderstood("arguments")
        env = {**function.env, **given} if isinstance(function.node, ast.Lambda) else given
        if isinstance(function.node, ast.Lambda):
            return self.value(function.node.body, env)
        try:
            self._body(function.node.body, env)
        except _Return as found:
            return found.value
        return None

    def _made(self, methods: Mapping[str, ast.FunctionDef], env: dict[str, Value], rest: Any, words: Any) -> _Object:
        found = _Object(methods)
        if "__init__" in methods:
            self._apply(_Function(methods["__init__"], env), [found, *rest], words)
        return found


@dataclass(frozen=True)
class _Known:
    """A function of a library, by its name."""

    name: str


def _word(name: str) -> str:
    return {"dim": "axis", "keepdim": "keepdims", "diagonal": "k", "dim0": "axis1", "dim1": "axis2"}.get(name, name)


def _sum(values: Value, start: Value = 0) -> Value:
    if isinstance(values, Ghost | np.ndarray):
        return FUNCTIONS["sum"](values, 0)
    for each in values:
        start = each_number(np.add)(start, each) if isinstance(each, Ghost | np.ndarray) else start + each
    return start


def _most(name: str) -> Callable[..., Value]:
    return lambda *values, **words: (
        getattr(builtins, name)(*values) if len(values) > 1 else FUNCTIONS[name](list(values[0]))
    )


_PLAIN: Mapping[str, Callable[..., Value]] = {
    **{name: getattr(builtins, name) for name in ("range", "len", "int", "zip", "enumerate", "list", "tuple", "float", "sorted", "reversed", "dict")},
    "str": lambda value: Text((value,)), "round": lambda value, digits=0: value, "abs": FUNCTIONS["abs"],
    "sum": _sum, "max": _most("max"), "min": _most("min"), "len": lambda value: arrays.shape_of(value)[0] if isinstance(value, Ghost) else len(value),
}  # fmt: skip


def _changed(node: ast.AST) -> set[str]:
    """The names that a statement gives a value, or changes."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Subscript | ast.Attribute) and isinstance(each.ctx, ast.Store):
            found |= {name.id for name in ast.walk(each) if isinstance(name, ast.Name)}
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute) and (
            each.func.attr == "append" or each.func.attr.endswith("_")
        ):
            found |= {name.id for name in ast.walk(each.func) if isinstance(name, ast.Name)}
    return found


def _prints(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "print" for each in ast.walk(node))
