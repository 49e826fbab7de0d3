"""Single steps of the reference: activations, the softmax, rotary position, causal rules."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def _gelu(x: Array) -> Array:
    erf = np.vectorize(math.erf, otypes=[float])
    return 0.5 * x * (1 + erf(x / math.sqrt(2)))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "gelu": _gelu,
    "silu": lambda x: x * _sigmoid(x),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.log1p(np.exp(x)),
}


def softmax(s: Array, axis: Any = -1) -> Array:
    """exp(s) over its sum; a row of −inf alone gives NaN, as it does in the subjects."""
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def rotate(x: Array, positions: Array, pairing: str, base: float = 10000.0) -> Array:
    """Rotary position: pairs (2i, 2i+1) or halves (i, i + D/2); ``positions`` over axis −2."""
    d = x.shape[-1]
    if d % 2:
        raise ValueError("rotary needs an even width")
    angle = positions[..., None] * base ** (-np.arange(0, d, 2) / d)
    c, s = np.cos(angle), np.sin(angle)
    out = np.empty_like(x)
    if pairing == "pairs":
        a, b = x[..., 0::2], x[..., 1::2]
        out[..., 0::2], out[..., 1::2] = a * c - b * s, a * s + b * c
    elif pairing == "halves":
        a, b = x[..., : d // 2], x[..., d // 2 :]
        out[..., : d // 2], out[..., d // 2 :] = a * c - b * s, a * s + b * c
    elif pairing == "mixed-halves":  # halves rotated by the frequencies of pairs
        angle = np.repeat(angle, 2, axis=-1)
        half = np.concatenate([-x[..., d // 2 :], x[..., : d // 2]], -1)
        out = x * np.cos(angle) + half * np.sin(angle)
    elif pairing == "mixed-pairs":  # pairs rotated by the frequencies of halves
        angle = np.concatenate([angle, angle], -1)
        half = np.stack([-x[..., 1::2], x[..., 0::2]], -1).reshape(x.shape)
        out = x * np.cos(angle) + half * np.sin(angle)
    elif pairing == "no-sign":  # the rotated half keeps its sign
        angle = np.concatenate([angle, angle], -1)
        half = np.concatenate([x[..., d // 2 :], x[..., : d // 2]], -1)
        out = x * np.cos(angle) + half * np.sin(angle)
    else:
        raise ValueError(pairing)
    return out


def rule_of(rule: str, t: int, s: int, window: int | None, start: int | None) -> Array:
    """The rule's (T, S) booleans; ``start`` is the position of query 0, S − T unless given."""
    i = np.arange(t)[:, None] + (s - t if start is None else start)
    j = np.arange(s)
    n = window or 0
    rules: dict[str, Callable[[], Array]] = {
        "causal": lambda: j <= i,
        "transposed": lambda: j >= i,
        "inverted": lambda: j > i,
        "one-more": lambda: j <= i + 1,
        "one-less": lambda: j < i,
        "top-left": lambda: j <= np.arange(t)[:, None],
        "window": lambda: (j <= i) & (j > i - n),
        "window-one-more": lambda: (j <= i) & (j >= i - n),
        "window-one-less": lambda: (j <= i) & (j > i - n + 1),
        "window-both": lambda: np.abs(i - j) <= n,
        "window-both-less": lambda: np.abs(i - j) < n,
        "window-centred": lambda: np.abs(i - j) <= n // 2,
    }
    return rules[rule]()
