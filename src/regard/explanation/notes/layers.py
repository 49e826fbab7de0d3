"""PyTorch's layers in a note's program: the shape that each makes, and how many parameters it has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.explanation.notes.arrays import FUNCTIONS, Ghost, Value, shape_of, softmax
from regard.explanation.notes.parsing import NotUnderstood


@dataclass(frozen=True)
class Layer:
    """A layer, its weights unknown."""

    kind: str
    call: Callable[..., Value]
    parameters: int = 0
    weights: Mapping[str, Value] | None = None


def _linear(wide: int, out: int, bias: bool = True, **words: Any) -> Layer:
    def call(x: Value) -> Value:
        if shape_of(x)[-1] != wide:
            raise NotUnderstood("the widths do not fit")
        return Ghost((*shape_of(x)[:-1], out))

    weights = {"weight": Ghost((out, wide)), "bias": Ghost((out,)) if bias else None}
    return Layer("Linear", call, wide * out + out * bias, weights)


def _embedding(number: int, wide: int, *rest: Any, **words: Any) -> Layer:
    table = {"weight": Ghost((number, wide))}
    return Layer("Embedding", lambda x: Ghost((*shape_of(x), wide)), number * wide, table)


def _norm(shape: Any, *rest: Any, **words: Any) -> Layer:
    sizes = shape if isinstance(shape, tuple | list) else [shape]
    number = 2 * int(np.prod(sizes))

    def call(x: Value) -> Value:
        if isinstance(x, Ghost):
            return x
        x = np.asarray(x, dtype=float)
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    return Layer("LayerNorm", call, number, {"weight": Ghost(tuple(sizes))})


def _heads(
    embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: Any = None,
    vdim: Any = None, batch_first: bool = False, **words: Any,
) -> Layer:  # fmt: skip
    def call(
        q: Value, k: Value, v: Value, average_attn_weights: bool = True, **words: Any
    ) -> Value:
        out, keys = shape_of(q), shape_of(k)
        axis = 1 if batch_first else 0
        batch = (out[1 - axis],) if len(out) == 3 else ()
        if len(out) != 3:
            axis = 0
        several = () if average_attn_weights else (num_heads,)
        return Ghost(out), Ghost((*batch, *several, out[axis], keys[axis]))

    d, k, v = embed_dim, kdim or embed_dim, vdim or embed_dim
    number = d * d + d * k + d * v + d * d + (4 * d if bias else 0)
    weights = {
        "in_proj_weight": Ghost((3 * d, d)),
        "in_proj_bias": Ghost((3 * d,)),
        "head_dim": d // num_heads,
    }
    return Layer("MultiheadAttention", call, number, weights)


def _sequence(*layers: Layer) -> Layer:
    def call(x: Value) -> Value:
        for layer in layers:
            x = layer.call(x)
        return x

    return Layer("Sequential", call, sum(layer.parameters for layer in layers))


def _map(name: str) -> Callable[..., Layer]:
    return lambda *rest, **words: Layer(name, FUNCTIONS[name.lower()])


LAYERS: Mapping[str, Callable[..., Any]] = {
    "Linear": _linear, "Embedding": _embedding, "LayerNorm": _norm, "MultiheadAttention": _heads, "Sequential": _sequence,
    "Dropout": _map("Dropout"), "ReLU": _map("ReLU"), "GELU": _map("GELU"), "Sigmoid": _map("Sigmoid"), "Tanh": _map("Tanh"),
    "Softmax": lambda axis=-1: Layer("Softmax", lambda x: softmax(x, axis)), "Identity": lambda *rest: Layer("Identity", lambda x: x),
    "Parameter": lambda x, **words: x, "ModuleList": lambda layers=(): list(layers),
}  # fmt: skip
