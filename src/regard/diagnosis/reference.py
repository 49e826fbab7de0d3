"""Attention in float64 with every step a switch: the right one and what people write instead.

``compute(case, steps)`` is the whole of it.  A *case* is what a subject was given (inputs and its
own weights, in one canonical form); *steps* say how each step is taken, else it is ``RIGHT``.
Letters are the legend's: B batch, H heads, G key heads, T queries, S keys, D and E widths, C model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.diagnosis.steps import ACTIVATIONS, Array, rotate, rule_of, softmax

Steps = Mapping[str, Any]

RIGHT: dict[str, Any] = {
    "weights": 0, "sequence": "time", "qk": "right", "value": "right", "activation": None,
    "split": "right", "groups": "interleaved", "rotary": None, "scale": "head", "bias": None,
    "rule": "none", "place": "fill", "meaning": "keep", "turn": "keys", "given": "fill",
    "axis": "keys", "merge": "right", "out": "right", "around": "none", "factor": 1.0,
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
    """A layer norm's gain (C), bias (C) and epsilon; no bias and no mean if it is rms."""

    gain: Array
    bias: Array
    eps: float
    rms: bool = False
    groups: int = 0
    """Over how many groups of channels and all tokens it is taken; 0 for each token alone."""

    def __call__(self, x: Array) -> Array:
        if self.groups:
            b, t, c = x.shape
            parts = x.reshape(b, t, self.groups, c // self.groups)
            parts = parts - parts.mean((1, 3), keepdims=True)
            parts = parts / np.sqrt((parts * parts).mean((1, 3), keepdims=True) + self.eps)
            return parts.reshape(b, t, c) * self.gain + self.bias
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


def _headed(x: Array, heads: int, how: str) -> Array:
    b, t, c = x.shape
    if how == "right":
        return x.reshape(b, t, heads, c // heads).swapaxes(1, 2)
    if how == "last":
        return x.reshape(b, t, c // heads, heads).transpose(0, 3, 1, 2)
    if how == "flat-time-first":
        x = x.swapaxes(0, 1)
    elif how == "flat-channels-first":
        x = x.swapaxes(1, 2)
    return x.reshape(b, heads, t, c // heads)  # the view without the transposition


def _merged(x: Array, how: str) -> Array:
    b, h, t, d = x.shape
    if how == "right":
        return x.swapaxes(1, 2).reshape(b, t, h * d)
    if how == "last":
        return x.transpose(0, 2, 3, 1).reshape(b, t, h * d)
    if how == "time-last":
        return x.transpose(0, 1, 3, 2).reshape(b, t, h * d)
    if how == "flat-time-first":
        return x.reshape(t, b, h * d).swapaxes(0, 1)
    if how == "flat-channels-first":
        return x.reshape(b, h * d, t).swapaxes(1, 2)
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
    """The queries (B, H, T, D), keys (B, H, S, D) and values (B, H, S, E), split and rotated."""
    q, k, v = _split(case, steps, _linear(case, steps, _sources(case, steps)))
    if steps["rotary"] is not None:
        q, k = _rotated(q, k, steps["rotary"], case)
    repeat = case.heads // case.groups
    if repeat > 1 and steps["groups"] == "interleaved":
        k, v = np.repeat(k, repeat, 1), np.repeat(v, repeat, 1)
    elif repeat > 1:
        k, v = np.tile(k, (1, repeat, 1, 1)), np.tile(v, (1, repeat, 1, 1))
    return q, k, v


def _linear(case: Case, steps: Steps, inputs: tuple[Array, Array, Array]) -> tuple[Array, ...]:
    """Projects the inputs, whichever of them and of the projections the steps take."""
    w = case.weights[steps["weights"]]
    q, k, v = inputs
    if case.norm is not None and steps["around"] in ("pre", "pre-residual"):
        q, k, v = case.norm(q), case.norm(k), case.norm(v)
    wq, wk = w.q, w.k
    match steps["qk"]:
        case "inputs-swapped":  # the roles of cross attention
            q, k, v = k, q, q
        case "inputs-swapped-alone":
            q, k = k, q
        case "both-query":
            wk, k = w.q, q
        case "both-key":
            wq, q = w.k, k
    v = {"input-key": k, "input-query": q}.get(steps["value"], v)
    q, k = (x if f is None else f(x) for x, f in ((q, wq), (k, wk)))
    if w.v is not None and steps["value"] != "unprojected":
        v = w.v(v)
    q, k, v = _act(steps, "q", q), _act(steps, "k", k), _act(steps, "v", v)
    if steps["qk"] == "exchanged":
        q, k = k, q
    named = {"key": (q, k, k), "query": (q, k, q), "exchanged": (q, v, k)}
    return named.get(steps["value"], (q, k, v))


def _split(case: Case, steps: Steps, parts: tuple[Array, ...]) -> tuple[Array, Array, Array]:
    q, k, v = parts
    if case.explicit:
        return q, k, v
    split = steps["split"]
    of_keys = "flat" if split == "keys-flat" else split
    q = _headed(q, case.heads, "right" if split == "keys-flat" else split)
    return q, _headed(k, case.groups, of_keys), _headed(v, case.groups, of_keys)


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
    spots = [
        np.arange(x.shape[axis]).reshape([-1 if a == axis else 1 for a in range(3)]) for x in (q, k)
    ]
    return rotate(q, spots[0], pairing), rotate(k, spots[1], pairing)


def _masks(case: Case, steps: Steps, shape: tuple[int, ...]) -> list[tuple[Array, Any]]:
    """The subject's own rule and the mask that it is given, each with where it acts."""
    _, heads, t, s = shape
    found = []
    if case.allowed is not None and steps["meaning"] != "ignored":
        given = case.allowed
        if steps["turn"] == "queries":  # a padding mask (B, 1, 1, S) that lands on the other axis
            given = given.swapaxes(-1, -2)
        elif steps["turn"] in ("heads", "heads-first"):  # copies in the order that the other has
            flat = np.broadcast_to(given, (*given.shape[:1], 1, *given.shape[2:]))[:, 0]
            batch, rest = len(flat), flat.shape[1:]
            if steps["turn"] == "heads":  # of heads, then batch, for batch, then heads
                order = np.arange(batch * heads) % batch
                given = flat[order].reshape(batch, heads, *rest)
            else:
                order = np.arange(batch * heads) // heads
                given = flat[order].reshape(heads, batch, *rest).swapaxes(0, 1)
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
        case "lost":
            return np.where(a, s, -np.inf)
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
    fill = -np.inf if axis == "keys" else -1e9  # no row over keys is lost where another axis is
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
    masks = _masks(case, steps, s.shape)
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
