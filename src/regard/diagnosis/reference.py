"""Attention in float64 with every step a switch: the right one and what people write instead.

``compute(case, steps)`` is the whole of it.  A *case* is what a subject was given (inputs and its
own weights, in one canonical form); *steps* say how each step is taken, ``RIGHT`` where they do not.
Letters are the legend's: B batch, H heads, G key heads, T queries, S keys, D and E widths, C model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = Any
Steps = Mapping[str, Any]

RIGHT: dict[str, Any] = {
    "weights": 0, "sequence": "time", "qk": "right", "value": "right", "activation": None,
    "split": "right", "groups": "interleaved", "rotary": None, "scale": "head", "bias": None,
    "rule": "none", "place": "fill", "meaning": "keep", "turn": "keys", "given": "fill", "axis": "keys", "merge": "right", "out": "right",
    "around": "none", "factor": 1.0,
}  # fmt: skip


@dataclass(frozen=True)
class Linear:
    """An affine map x ↦ x·w + b, w of shape (in, out)."""

    w: Array
    b: Array = None

    def __call__(self, x: Array) -> Array:
        y = x @ self.w
        return y if self.b is None else y + self.b


@dataclass(frozen=True)
class Weights:
    """A subject's projections in canonical form; None where it has none."""

    q: Linear | None = None
    k: Linear | None = None
    v: Linear | None = None
    o: Linear | None = None


@dataclass(frozen=True)
class Norm:
    """A layer norm's parameters: gain (C), bias (C) and epsilon; no bias and no mean if it is rms."""

    gain: Array
    bias: Array
    eps: float
    rms: bool = False

    def __call__(self, x: Array) -> Array:
        if not self.rms:
            x = x - x.mean(-1, keepdims=True)
        y = x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * self.gain
        return y if self.bias is None else y + self.bias


@dataclass(frozen=True)
class Case:
    """What a subject was given: q (B, T, C) or, with ``explicit`` heads, (B, H, T, D); k, v alike.

    ``weights`` are the readings of its parameters, among which one step chooses.  ``allowed`` is
    the mask (B or 1, H or 1, T, S), True where a query may attend; ``added`` is what an additive
    mask adds.  ``scales`` names the factors that the scores may meet.
    """

    q: Array
    k: Array
    v: Array
    heads: int = 1
    groups: int = 1
    explicit: bool = False
    weights: tuple[Weights, ...] = (Weights(),)
    allowed: Array = None
    window: int | None = None
    start: int | None = None
    places: tuple[Array, Array] | None = None
    """The positions that rotary gives to queries and keys, where they are not in step."""
    norm: Norm | None = None
    scales: Mapping[str, float] = field(default_factory=dict)
    biases: Mapping[str, Array] = field(default_factory=dict)


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
        angle = np.repeat(angle, 2, -1)
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
    rules = {
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


def _headed(x: Array, heads: int, how: str) -> Array:
    b, t, c = x.shape
    if how == "right":
        return x.reshape(b, t, heads, c // heads).swapaxes(1, 2)
    if how == "last":
        return x.reshape(b, t, c // heads, heads).transpose(0, 3, 1, 2)
    return x.reshape(b, heads, t, c // heads)  # the view without the transposition


def _merged(x: Array, how: str) -> Array:
    b, h, t, d = x.shape
    if how == "right":
        return x.swapaxes(1, 2).reshape(b, t, h * d)
    if how == "last":
        return x.transpose(0, 2, 3, 1).reshape(b, t, h * d)
    if how == "time-last":
        return x.transpose(0, 1, 3, 2).reshape(b, t, h * d)
    return x.reshape(b, t, h * d)


def _sources(case: Case, steps: Steps) -> tuple[Array, Array, Array]:
    q, k, v = case.q, case.k, case.v
    how = steps["sequence"]
    if how == "batch":
        q, k, v = (x.swapaxes(0, -2) for x in (q, k, v))
    elif how == "both":
        q, k, v = (x.reshape(1, -1, x.shape[-1]) for x in (q, k, v))
    return q, k, v


def _act(steps: Steps, which: str, x: Array) -> Array:
    if steps["activation"] is None:
        return x
    name, where = steps["activation"]
    return ACTIVATIONS[name](x) if which in where else x


_PROJECTING = (
    "weights",
    "sequence",
    "qk",
    "value",
    "activation",
    "split",
    "groups",
    "rotary",
    "around",
)


def projected(
    case: Case, steps: Steps, memo: dict[Any, Any] | None = None
) -> tuple[Array, Array, Array]:
    """``_projected``, remembered in ``memo`` by the steps that it reads."""
    if memo is None:
        return _projected(case, steps)
    key = tuple(steps[step] for step in _PROJECTING)
    if key not in memo:
        memo[key] = _projected(case, steps)
    found: tuple[Array, Array, Array] = memo[key]
    return found


def _projected(case: Case, steps: Steps) -> tuple[Array, Array, Array]:
    """Q (B, H, T, D), k (B, H, S, D), v (B, H, S, E) after projection, split and rotary."""
    w = case.weights[steps["weights"]]
    q, k, v = _sources(case, steps)
    if case.norm is not None and steps["around"] in ("pre", "pre-residual"):
        q, k, v = case.norm(q), case.norm(k), case.norm(v)
    if steps["qk"] == "inputs-swapped":  # the roles of cross attention
        q, k, v = k, q, q
    value_from = {"input-key": k, "input-query": q}.get(steps["value"], v)
    wq, wk = w.q, w.k
    if steps["qk"] == "inputs-swapped-alone":
        q, k = k, q
    elif steps["qk"] == "both-query":
        wk, k = w.q, q
    elif steps["qk"] == "both-key":
        wq, q = w.k, k
    elif steps["qk"] == "key-is-value":
        wk, k = w.v, v
    q, k = (x if f is None else f(x) for x, f in ((q, wq), (k, wk)))
    raw = w.v is None or steps["value"] == "unprojected"
    v = value_from if raw else w.v(value_from)  # type: ignore[misc]
    q, k, v = _act(steps, "q", q), _act(steps, "k", k), _act(steps, "v", v)
    if steps["qk"] == "exchanged":
        q, k = k, q
    if steps["value"] == "key":
        v = k
    elif steps["value"] == "query":
        v = q
    elif steps["value"] == "exchanged":
        k, v = v, k
    if not case.explicit:
        split = steps["split"]
        q = _headed(q, case.heads, "right" if split == "keys-flat" else split)
        split = "flat" if split == "keys-flat" else split
        k, v = (_headed(x, case.groups, split) for x in (k, v))
    repeat = case.heads // case.groups
    if repeat > 1:
        if steps["groups"] == "interleaved":
            k, v = np.repeat(k, repeat, 1), np.repeat(v, repeat, 1)
        else:
            k, v = np.tile(k, (1, repeat, 1, 1)), np.tile(v, (1, repeat, 1, 1))
    if steps["rotary"] is not None:
        q, k = _rotated(q, k, steps["rotary"], case)
    return q, k, v


def _rotated(q: Array, k: Array, how: tuple[str, str], case: Case) -> tuple[Array, Array]:
    pairing, along = how
    t, s = q.shape[-2], k.shape[-2]
    start = s - t if case.start is None else case.start
    at_q, at_k = np.arange(t) + start, np.arange(s)
    if case.places is not None:
        at_q, at_k = case.places
    if along == "time":
        return rotate(q, at_q, pairing), rotate(k, at_k, pairing)
    if along == "no-offset":
        return rotate(q, np.arange(t), pairing), rotate(k, at_k, pairing)
    if along == "query-only":
        return rotate(q, at_q, pairing), k
    axis = {"heads": 1, "batch": 0}[along]
    spots = np.arange(q.shape[axis]).reshape([-1 if a == axis else 1 for a in range(3)])
    return rotate(q, spots, pairing), rotate(k, spots, pairing)


def _masks(case: Case, steps: Steps, t: int, s: int, heads: int) -> list[tuple[Array, Any]]:
    """The subject's own rule and the mask that it is given, each with where it acts."""
    found = []
    if case.allowed is not None and steps["meaning"] != "ignored":
        given = case.allowed
        if steps["turn"] == "queries":  # a padding mask (B, 1, 1, S) that lands on the other axis
            given = given.swapaxes(-1, -2)
        elif steps["turn"] == "heads":  # copies of (B, …) in the order of heads, then batch
            flat = np.broadcast_to(given, (*given.shape[:1], 1, *given.shape[2:]))[:, 0]
            order = np.arange(len(flat) * heads) % len(flat)
            given = flat[order].reshape(len(flat), heads, *flat.shape[1:])
        found.append((~given if steps["meaning"] == "drop" else given, steps["given"]))
    if steps["rule"] != "none":
        rule = rule_of(steps["rule"], t, s, case.window, case.start)
        found.append((rule[None, None], steps["place"]))
    return found


AXES: dict[str, Any] = {
    "keys": -1, "queries": -2, "heads": 1, "batch": 0, "matrix": (-2, -1), "all": (0, 1, 2, 3),
    "flat-heads": (0, 1), "sample": (1, 2, 3),
}  # fmt: skip


def normalised(s: Array, axis: str) -> Array:
    """The weights that a softmax along ``axis`` makes of scores s (B, H, T, S)."""
    if axis == "none":
        return s
    if axis == "single":
        return np.ones_like(s)
    return softmax(s, AXES[axis])


def _on_scores(s: Array, a: Array, place: Any, fill: float) -> Array:
    """A mask's effect before the softmax."""
    match place:
        case "fill":
            return np.where(a, s, fill)
        case "zero":
            return np.where(a, s, 0.0)
        case "added":
            return s + a
        case "added-hidden":
            return s + ~a
        case "subtracted":
            return s - ~a
        case ("weak", value):
            return np.where(a, s, value)
        case ("weak-added", value):
            return np.where(a, s, s + value)
    return s


def _on_weights(w: Array, a: Array, place: Any) -> Array:
    """A mask's effect behind the softmax."""
    match place:
        case "after":
            return w * a
        case "after-renormalised":
            return w * a / (w * a).sum(-1, keepdims=True)
        case ("after", value):
            return np.where(a, w, value)
    return w


def weigh(s: Array, masks: list[tuple[Array, Any]], axis: str) -> Array:
    """Scores (B, H, T, S) to weights, each mask applied where and how its place says."""
    fill = -1e9 if axis == "none" else -np.inf
    for a, place in masks:
        s = _on_scores(s, a, place, fill)
    w = normalised(s, axis)
    for a, place in masks:
        w = _on_weights(w, a, place)
    return w


def pieces(
    case: Case, steps: Steps, memo: dict[Any, Any] | None = None
) -> tuple[Array, Array, Array, Array, Array]:
    """q, k, v, scores before the mask (B, H, T, S) and weights."""
    q, k, v = projected(case, steps, memo)
    s = q @ k.swapaxes(-1, -2) * case.scales[steps["scale"]]
    if steps["bias"] is not None:
        s = s + case.biases[steps["bias"]]
    masks = _masks(case, steps, *s.shape[-2:], s.shape[1])
    return q, k, v, s, weigh(s, masks, steps["axis"])


def compute(case: Case, steps: Steps, memo: dict[Any, Any] | None = None) -> Array:
    """The output: (B, T, C), or (B, H, T, E) where the heads are explicit."""
    steps = {**RIGHT, **steps}
    with np.errstate(all="ignore"):
        *_, v, _, w = pieces(case, steps, memo)
        y = w @ v * steps["factor"]
        if not case.explicit:
            y = _merged(y, steps["merge"])
        elif steps["merge"] != "right":
            y = _merged(y, steps["merge"].removeprefix("explicit-"))
        weights = case.weights[steps["weights"]]
        if weights.o is not None and steps["out"] == "right":
            y = weights.o(y)
        if steps["sequence"] == "batch":
            y = y.swapaxes(0, -2)
        elif steps["sequence"] == "both":
            y = y.reshape(*case.q.shape[:-1], y.shape[-1])
        if steps["around"] in ("residual", "pre-residual", "post"):
            y = y + case.q
        if steps["around"] == "post" and case.norm is not None:
            y = case.norm(y)
        return y
