"""Calls in a note's program: of its own functions and classes, of NumPy and of PyTorch."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from regard.explanation.notes.mathematics.parsing import NotUnderstood
from regard.explanation.notes.programs import arrays
from regard.explanation.notes.programs.arrays import FUNCTIONS, Ghost, Value
from regard.explanation.notes.programs.evaluating import (
    Evaluator,
    Function,
    Instance,
    Known,
    Library,
    Made,
    Returned,
    Text,
)
from regard.explanation.notes.programs.layers import LAYERS, Layer

_SILENT = (
    "seed",
    "manual_seed",
    "set_printoptions",
    "super",
    "filterwarnings",
    "set_seed",
    "register_buffer",
)


_KINDS = ("dtype", "device", "requires_grad", "generator")
"""What says how numbers are kept, and not which they are."""


class Caller(Evaluator):
    """An evaluator that follows calls."""

    def called(self, node: ast.Call, env: dict[str, Value]) -> Value:  # noqa: PLR0912
        """What a call gives."""
        name = (
            node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        )
        if name in _SILENT and name not in env:
            return None
        rest = list(self.spread(node.args, env))
        words = {
            _word(each.arg): self.value(each.value, env)
            for each in node.keywords
            if each.arg and each.arg not in _KINDS
        }
        kind = next((each.value for each in node.keywords if each.arg == "dtype"), None)
        if isinstance(kind, ast.Attribute | ast.Name) and name in (
            "ones",
            "zeros",
            "full",
            "tensor",
            "array",
        ):
            label = kind.attr if isinstance(kind, ast.Attribute) else kind.id
            if label in ("bool", "bool_") and isinstance(node.func, ast.Attribute):
                return arrays.of_kind(self._function(name, rest, words), label)
        if name == "print" and isinstance(node.func, ast.Name):
            text = ", ".join(map(ast.unparse, node.args))
            shown = rest[0] if len(rest) == 1 else Text(tuple(rest))
            self.out.append(Made(node.end_lineno or node.lineno, text, shown, printed=True))
            return NotUnderstood
        if not isinstance(node.func, ast.Attribute):
            return self._apply(self.value(node.func, env), rest, words)
        if (
            isinstance(node.func.value, ast.Call)
            and getattr(node.func.value.func, "id", "") == "super"
        ):
            return None
        held = self.value(node.func.value, env)
        if isinstance(held, Library):
            found = self.attribute(held, name)
            if isinstance(found, Library) and name not in FUNCTIONS:
                raise NotUnderstood(name)
            if name == "default_rng":
                return Library()
            return self._function(name, rest, words)
        if isinstance(held, Instance):
            method = held.held.get(name)
            if method is None and name in ("parameters", "named_parameters"):
                found = dict(self._weights(held))
                return list(found.items() if name == "named_parameters" else found.values())
            if method is not None:
                return self._apply(method, rest, words)
            return self._apply(Function(held.methods[name], self.env), [held, *rest], words)
        if isinstance(held, Layer):
            if name in ("parameters", "named_parameters"):
                return list(
                    held.weights.items() if name == "named_parameters" else held.weights.values()
                )
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
        if name == "Parameter":
            self.learned.append(
                Ghost(rest[0].shape) if isinstance(rest[0], Ghost) else arrays.array(rest[0]).copy()
            )
            return self.learned[-1]
        if name in LAYERS:
            return LAYERS[name](*rest, **words)
        if name in ("var", "std"):
            return self._spread_of(name, rest, words)
        if name not in FUNCTIONS:
            raise NotUnderstood(name)
        if name in ("tensor", "array", "asarray", "FloatTensor", "Tensor", "as_tensor", "arange"):
            words.pop("copy", None)
            if name != "arange":
                if arrays.has_ghost(rest[0]):
                    return rest[0]
                found = arrays.array(rest[0])
                return found.copy() if name in ("tensor", "array") else found
        if name in ("max", "min") and len(rest) > 1 and isinstance(rest[1], Ghost | np.ndarray):
            name += "imum"
        found = FUNCTIONS[name](*rest, **words)
        if self.torch and name in ("max", "min") and (len(rest) > 1 or "axis" in words):
            return (found, FUNCTIONS[f"arg{name}"](*rest, **words))
        return found

    def _weights(self, held: Value) -> Iterator[tuple[str, Value]]:
        """The weights of what an instance holds, by name."""
        if isinstance(held, Layer):
            yield from held.weights.items()
        elif isinstance(held, Instance | list):
            parts = held.held.items() if isinstance(held, Instance) else enumerate(held)
            for name, part in parts:
                if any(part is weight for weight in self.learned):
                    yield str(name), part
                yield from ((f"{name}.{each}", weight) for each, weight in self._weights(part))

    def _spread_of(self, name: str, rest: list[Value], words: dict[str, Value]) -> Value:
        """Of a sample in PyTorch, of all numbers in NumPy."""
        free = words.pop("correction", words.pop("ddof", int(self.torch)))
        if words.pop("unbiased", True) is False:
            free = 0
        function = np.var if name == "var" else np.std
        return arrays.reducing(lambda a, **kept: function(a, ddof=free, **kept))(*rest, **words)

    def _apply(self, function: Value, rest: list[Value], words: dict[str, Value]) -> Value:
        if isinstance(function, Known):
            return self._function(function.name, rest, words)
        if isinstance(function, Layer):
            return function.call(*rest, **words)
        if isinstance(function, Instance):
            return self._apply(
                Function(function.methods["forward"], self.env), [function, *rest], words
            )
        if not isinstance(function, Function):
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
        for arg, usual in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if arg.arg not in given and usual is not None:
                given[arg.arg] = self.value(usual, function.env)
        if any(name not in given for name in names):
            raise NotUnderstood("arguments")
        env = {**function.env, **given} if isinstance(function.node, ast.Lambda) else given
        if isinstance(function.node, ast.Lambda):
            return self.value(function.node.body, env)
        try:
            self.body(function.node.body, env)
        except Returned as found:
            return found.value
        return None

    def made(
        self, methods: Mapping[str, ast.FunctionDef], env: dict[str, Value], rest: Any, words: Any
    ) -> Instance:
        found = Instance(methods)
        if "__init__" in methods:
            self._apply(Function(methods["__init__"], env), [found, *rest], words)
        return found


def _word(name: str) -> str:
    return {
        "dim": "axis",
        "keepdim": "keepdims",
        "diagonal": "k",
        "dim0": "axis1",
        "dim1": "axis2",
    }.get(name, name)
