"""PyTorch's layers in a note's program: the shape that each makes, and how many parameters it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.explanation.notes.mathematics.parsing import NotUnderstood
from regard.explanation.notes.programs.arrays import FUNCTIONS, Ghost, Value, shape_of, softmax


@dataclass(frozen=True)
class Layer:
    """A layer, its weights unknown."""

    kind: str
    call: Callable[..., Value]
    weights: Mapping[str, Ghost] = field(default_factory=dict)
    held: Mapping[str, Any] = field(default_factory=dict)
    """What else it has by name."""


def _linear(wide: int, out: int, bias: bool = True, **words: Any) -> Layer:
    def call(x: Value) -> Value:
        if shape_of(x)[-1] != wide:
            raise NotUnderstood("the widths do not fit")
        return Ghost((*shape_of(x)[:-1], out))

    weights = {"weight": Ghost((out, wide))} | ({"bias": Ghost((out,))} if bias else {})
    return Layer("Linear", call, weights, {"in_features": wide, "out_features": out})


def _embedding(number: int, wide: int, *rest: Any, **words: Any) -> Layer:
    table = {"weight": Ghost((number, wide))}
    return Layer("Embedding", lambda x: Ghost((*shape_of(x), wide)), table)


def _norm(shape: Any, *rest: Any, **words: Any) -> Layer:
    sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)

    def call(x: Value) -> Value:
        if isinstance(x, Ghost):
            return x
        x = np.asarray(x, dtype=float)
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)

    return Layer("LayerNorm", call, {"weight": Ghost(sizes), "bias": Ghost(sizes)})


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
        return Ghost(out), Ghost((*batch, *several, out[axis], keys[axis]), -1)

    d, k, v = embed_dim, kdim or embed_dim, vdim or embed_dim
    inner: dict[str, tuple[int, ...]] = {"in_proj_weight": (3 * d, d)}
    if (k, v) != (d, d):
        inner = {"q_proj_weight": (d, d), "k_proj_weight": (d, k), "v_proj_weight": (d, v)}
    inner |= {"in_proj_bias": (3 * d,)} if bias else {}
    inner |= {"out_proj.weight": (d, d)} | ({"out_proj.bias": (d,)} if bias else {})
    held = {
        "head_dim": d // num_heads,
        "num_heads": num_heads,
        "embed_dim": d,
        "out_proj": _linear(d, d, bias),
    }
    return Layer(
        "MultiheadAttention", call, {name: Ghost(shape) for name, shape in inner.items()}, held
    )


def _sequence(*layers: Layer) -> Layer:
    def call(x: Value) -> Value:
        for layer in layers:
            x = layer.call(x)
        return x

    return Layer("Sequential", call, named(enumerate(layers)))


def named(parts: Iterable[tuple[Any, Layer]]) -> dict[str, Ghost]:
    """The weights of several layers, each under its layer's name."""
    return {
        f"{name}.{each}": weight for name, part in parts for each, weight in part.weights.items()
    }


def _encoder_layer(
    d_model: int, nhead: int, dim_feedforward: int = 2048, *rest: Any, **words: Any
) -> Layer:
    parts = {
        "self_attn": _heads(d_model, nhead), "linear1": _linear(d_model, dim_feedforward),
        "linear2": _linear(dim_feedforward, d_model), "norm1": _norm(d_model), "norm2": _norm(d_model),
    }  # fmt: skip
    return Layer(
        "TransformerEncoderLayer",
        lambda x, *rest, **words: x if isinstance(x, Ghost) else Ghost(shape_of(x)),
        named(parts.items()),
        parts,
    )


def _map(name: str) -> Callable[..., Layer]:
    return lambda *rest, **words: Layer(name, FUNCTIONS[name.lower()])


LAYERS: Mapping[str, Callable[..., Any]] = {
    "Linear": _linear, "Embedding": _embedding, "LayerNorm": _norm, "MultiheadAttention": _heads, "TransformerEncoderLayer": _encoder_layer, "Sequential": _sequence,
    "Dropout": _map("Dropout"), "ReLU": _map("ReLU"), "GELU": _map("GELU"), "Sigmoid": _map("Sigmoid"), "Tanh": _map("Tanh"),
    "Softmax": lambda axis=-1: Layer("Softmax", lambda x: softmax(x, axis)), "Identity": lambda *rest: Layer("Identity", lambda x: x),
    "Parameter": lambda x, **words: x, "ModuleList": lambda layers=(): list(layers),
}  # fmt: skip
