"""Chance in a subject: dropout made to keep everything, and weights drawn inside recorded."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import numpy as np

from regard.diagnosis.entries import Entry
from regard.diagnosis.roles import weight_role
from regard.diagnosis.source import Source

HIGH, LOW = 1 - 1e-9, 1e-9


@contextlib.contextmanager
def keeping(value: float, *spaces: dict[str, Any]) -> Iterator[None]:
    """Every uniform draw is ``value``, and every dropout of a library lets everything pass.

    Code that keeps what lies above its rate keeps all with a value near 1, code that keeps what
    lies below with one near 0.
    """
    with contextlib.ExitStack() as stack:
        for name in ("rand", "random", "random_sample", "ranf", "sample"):
            stack.enter_context(mock.patch.object(np.random, name, _constant(value, name)))
        stack.enter_context(mock.patch.object(np.random, "uniform", _uniform(value)))
        stack.enter_context(mock.patch.object(np.random, "binomial", _ones))
        stack.enter_context(
            mock.patch.object(np.random, "default_rng", return_value=_Constant(value))
        )
        stack.enter_context(mock.patch.object(np.random, "choice", _choice))
        for space in spaces:  # generators that the code has made for itself
            kinds = (np.random.Generator, np.random.RandomState)
            own = {name: _Constant(value) for name, v in space.items() if isinstance(v, kinds)}
            stack.enter_context(mock.patch.dict(space, own))
        torch = sys.modules.get("torch")
        if torch is not None:
            for target, name, fake in _torch_patches(torch, value):
                stack.enter_context(mock.patch.object(target, name, fake))
        yield


def _constant(value: float, name: str) -> Any:
    def draw(*shape: Any) -> Any:
        size = shape[0] if name != "rand" and shape else shape
        return np.full(size, value) if shape else value

    return draw


def _uniform(value: float) -> Any:
    def draw(low: float = 0.0, high: float = 1.0, size: Any = None) -> Any:
        got = low + (high - low) * value
        return got if size is None else np.full(size, got)

    return draw


def _ones(n: Any = 1, p: Any = None, size: Any = None) -> Any:
    return np.ones(size if size is not None else np.shape(p), dtype=int)


def _choice(a: Any, size: Any = None, replace: bool = True, p: Any = None) -> Any:
    values = np.arange(int(a)) if np.ndim(a) == 0 else np.asarray(a)
    return np.full(size, values.max())


class _Constant(np.random.Generator):
    def __init__(self, value: float) -> None:
        super().__init__(np.random.PCG64(0))
        self._value = value

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return self._value if size is None else np.full(size, self._value)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return _uniform(self._value)(low, high, size)

    def binomial(self, n: Any, p: Any, size: Any = None) -> Any:
        return _ones(n, p, size)


def _torch_patches(torch: Any, value: float) -> Iterator[tuple[Any, str, Any]]:
    functional = torch.nn.functional
    attend = functional.scaled_dot_product_attention

    def identity(x: Any, *_: Any, **__: Any) -> Any:
        return x

    def quiet(*args: Any, **kwargs: Any) -> Any:
        kwargs["dropout_p"] = 0.0
        return attend(*args[:4], **kwargs)

    yield functional, "dropout", identity
    yield torch, "dropout", identity
    yield functional, "scaled_dot_product_attention", quiet
    yield torch, "rand", lambda *shape, **_: torch.full(_flat(shape), value)
    yield (
        torch,
        "rand_like",
        lambda x, **_: torch.full_like(x, value, dtype=torch.get_default_dtype()),
    )
    yield torch, "bernoulli", lambda x, *_, **__: torch.ones_like(x)
    yield torch.Tensor, "bernoulli_", lambda x, *_, **__: x.fill_(1)
    yield torch.Tensor, "bernoulli", lambda x, *_, **__: torch.ones_like(x)


def _flat(shape: Any) -> Any:
    return shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape


# Weights that are drawn inside the call


@dataclass
class Record:
    """What was drawn, in order."""

    arrays: list[Any] = field(default_factory=list)
    linears: list[tuple[str, Any, Any]] = field(default_factory=list)


@contextlib.contextmanager
def recording(known: Any) -> Iterator[Record]:
    """Records matrices drawn from NumPy's or torch's generators, and linear layers made inside."""
    record = Record()

    def noted(function: Any) -> Any:
        def draw(*args: Any, **kwargs: Any) -> Any:
            value = function(*args, **kwargs)
            array = value.detach().numpy() if hasattr(value, "detach") else value
            if isinstance(array, np.ndarray) and array.ndim >= 2:
                record.arrays.append(array.copy())
            return value

        return draw

    with contextlib.ExitStack() as stack:
        for name in (
            "randn",
            "rand",
            "normal",
            "random",
            "uniform",
            "standard_normal",
            "random_sample",
        ):
            stack.enter_context(mock.patch.object(np.random, name, noted(getattr(np.random, name))))
        made = np.random.default_rng

        class Noted(np.random.Generator):
            def __init__(self, given: Any = None) -> None:
                super().__init__(np.random.PCG64(given))

        for name in ("standard_normal", "normal", "uniform", "random"):
            setattr(Noted, name, _noted_method(made, name, record))
        stack.enter_context(
            mock.patch.object(np.random, "default_rng", lambda given=None: Noted(given))
        )
        torch = sys.modules.get("torch")
        if torch is not None:
            for name in ("randn", "rand"):
                stack.enter_context(mock.patch.object(torch, name, noted(getattr(torch, name))))
            owned = {id(m) for m in known.modules()} if hasattr(known, "modules") else set()

            def hook(module: Any, *_: Any) -> None:
                if isinstance(module, torch.nn.Linear) and id(module) not in owned:
                    bias = None if module.bias is None else module.bias.detach().numpy().copy()
                    record.linears.append(("", module.weight.detach().numpy().T.copy(), bias))

            handle = torch.nn.modules.module.register_module_forward_hook(hook)
            stack.callback(handle.remove)
        yield record


def _noted_method(made: Any, name: str, record: Record) -> Any:
    plain = getattr(np.random.Generator, name)

    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        value = plain(self, *args, **kwargs)
        if isinstance(value, np.ndarray) and value.ndim >= 2:
            record.arrays.append(value.copy())
        return value

    return draw


def drawn_entries(record: Record, source: Source) -> list[Entry]:
    """What was drawn as weights, by the names that the source assigns them to."""
    named = _assigned(source)
    if record.linears:
        names = [n for n, kind in named if kind == "linear"] or list("qkvo")
        return [
            Entry(name, _role(name), w, b, exact=True)
            for name, (_, w, b) in zip(names, record.linears, strict=False)
        ]
    names = [n for n, kind in named if kind == "draw"]
    arrays = record.arrays
    if len(names) != len(arrays):
        names = list("qkvo")[: len(arrays)] if len(arrays) in (3, 4) else []
    return [
        Entry(name, _role(name), _scaled(array, source, name), None)
        for name, array in zip(names, arrays, strict=False)
    ]


def _scaled(array: Any, source: Source, name: str) -> Any:
    """The draw times what the source multiplies it with on its line, where that is a number."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Assign([ast.Name(target)], ast.BinOp(_, operation, right)) if target == name:
                with contextlib.suppress(Exception):
                    d = array.shape[0]
                    space = {
                        "np": np,
                        "d_model": d,
                        "d": d,
                        "n": d,
                        "dim": d,
                        "C": d,
                        "d_k": array.shape[1],
                    }
                    factor = eval(
                        compile(ast.Expression(right), "", "eval"), {"__builtins__": {}}, space
                    )
                    if isinstance(operation, ast.Mult):
                        return array * factor
                    if isinstance(operation, ast.Div):
                        return array / factor
    return array


def _assigned(source: Source) -> list[tuple[str, str]]:
    found = []
    spans = source.spans
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Assign) or not any(a <= node.lineno <= b for a, b in spans):
            continue
        text = ast.unparse(node.value)
        kind = None
        if "Linear(" in text:
            kind = "linear"
        elif any(
            w in text
            for w in ("randn", "rand(", ".normal(", ".random(", "uniform(", "standard_normal")
        ):
            kind = "draw"
        target = node.targets[0]
        if kind is not None and isinstance(target, ast.Name):
            found.append((node.lineno, target.id, kind))
    return [(name, kind) for _, name, kind in sorted(found)]


def _role(name: str) -> str | None:
    return name if name in ("q", "k", "v", "o") else weight_role(name)
