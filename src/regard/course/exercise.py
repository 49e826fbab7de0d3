"""What each exercise asks, and the mistakes that are known by name.

A mistake is known by a function that makes it: where the reader's numbers are that function's on
every round, the mistake is named.  The ids are those of ``regard check``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.core import formula
from regard.explanation.positions import BASE, angles, sinusoids
from regard.explanation.sheet import Floats

Function = Callable[..., Floats]


@dataclass(frozen=True)
class Exercise:
    """One function to write."""

    function: str
    rounds: tuple[tuple[Any, ...], ...]
    """The arguments of each call; sizes are coprime, so that no two axes can be mixed up."""
    right: Function
    mistakes: Mapping[str, Function]
    library: str = "numpy"
    options: Mapping[str, Any] | None = None
    """What ``regard check`` is told of it; None where it asks for something else than attention."""


def softmax(s: Floats, axis: int = -1) -> Floats:
    """The definition's, along any axis."""
    weights = np.asarray(formula.normalise(np.moveaxis(s, axis, -1))[0])
    return np.moveaxis(weights, -1, axis)


def _random(*shape: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape)


def _unsafe(s: Floats) -> Floats:
    e = np.exp(s)
    return np.asarray(e / e.sum(-1, keepdims=True))


def _across(s: Floats) -> Floats:
    """Powers over their rows' sums, laid along the columns: keepdims was forgotten."""
    e = np.exp(s - s.max())
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(e / e.sum(-1))


# Lesson 1

ONE = Exercise(
    "attend",
    ((_random(5, 3),), (_random(4, 7, seed=1),), (40 * _random(3, 2, seed=2),)),
    lambda x: softmax(x @ x.T) @ x,
    {
        "softmax-axis": lambda x: softmax(x @ x.T, 0) @ x,
        "softmax-missing": lambda x: x @ x.T @ x,
        "softmax-overflow": lambda x: _unsafe(x @ x.T) @ x,
        "softmax-sum": lambda x: x @ x.T / (x @ x.T).sum(-1, keepdims=True) @ x,
        "softmax-all": lambda x: softmax((x @ x.T).reshape(-1)).reshape(len(x), -1) @ x,
        "softmax-broadcast": lambda x: _across(x @ x.T) @ x,
        "weights-only": lambda x: softmax(x @ x.T),
        "scale-early": lambda x: softmax(x @ x.T / x.shape[1] ** 0.5) @ x,
    },
)


# Lesson 2


def _two(
    scale: Callable[[Floats, Floats], float], swap: bool = False, value: str = "v", axis: int = -1
) -> Function:
    def attention(x: Floats, wq: Floats, wk: Floats, wv: Floats) -> Floats:
        q, k = x @ wq, x @ wk
        s = (k @ q.T if swap else q @ k.T) * scale(x, q)
        source = {"v": x @ wv, "x": x, "k": k}[value]
        return softmax(s, axis) @ source

    return attention


def _root(x: Floats, q: Floats) -> float:
    return float(q.shape[1] ** -0.5)


def _late(x: Floats, wq: Floats, wk: Floats, wv: Floats) -> Floats:
    return np.asarray(softmax(x @ wq @ (x @ wk).T) / wq.shape[1] ** 0.5 @ (x @ wv))


TWO = Exercise(
    "attention",
    tuple(
        (_random(n, c, seed=n), *(_random(c, d, seed=n + i) for i in (1, 2)), _random(c, e, seed=9))
        for n, c, d, e in ((5, 4, 3, 7), (7, 2, 5, 3))
    ),
    _two(_root),
    {
        "scale-missing": _two(lambda x, q: 1.0),
        "scale-no-root": _two(lambda x, q: 1 / q.shape[1]),
        "scale-model-dim": _two(lambda x, q: x.shape[1] ** -0.5),
        "scale-late": _late,
        "scale-value": lambda x, wq, wk, wv: _two(lambda x, q: wv.shape[1] ** -0.5)(x, wq, wk, wv),
        "softmax-broadcast": lambda x, wq, wk, wv: np.asarray(
            _across(x @ wq @ (x @ wk).T / wq.shape[1] ** 0.5) @ (x @ wv)
        ),
        "scale-inverted": _two(lambda x, q: q.shape[1] ** 0.5),
        "scale-wrong-size": _two(lambda x, q: len(x) ** -0.5),
        "query-key-swapped": _two(_root, swap=True),
        "value-wrong-source": _two(_root, value="x"),
        "value-is-key": _two(_root, value="k"),
        "softmax-axis": _two(_root, axis=0),
    },
    options={},
)


# Lesson 3


def _three(
    hidden: str = "future", place: str = "before", split: str = "right", scale: str = "head",
    out: bool = True,
) -> Function:  # fmt: skip
    def attention(x: Floats, wq: Floats, wk: Floats, wv: Floats, wo: Floats, heads: int) -> Floats:
        n, c = len(x), wq.shape[1]

        def cut(a: Floats) -> Floats:
            if split == "no-transpose":
                return a.reshape(heads, n, -1)
            return a.reshape(n, heads, -1).swapaxes(0, 1)

        q, k, v = cut(x @ wq), cut(x @ wk), cut(x @ wv)
        s = q @ k.swapaxes(1, 2) / (c if scale == "model" else q.shape[2]) ** 0.5
        seen = {
            "future": np.tril(np.ones((n, n), bool)), "past": np.triu(np.ones((n, n), bool)),
            "none": np.ones((n, n), bool), "more": np.tril(np.ones((n, n), bool), 1),
            "itself": np.tril(np.ones((n, n), bool), -1),
        }[hidden]  # fmt: skip
        if place == "after":
            w = softmax(s) * seen
        elif place == "zero":
            w = softmax(s * seen)
        else:
            w = softmax(np.where(seen, s, -np.inf))
        o = w @ v
        side = o.reshape(n, -1) if split == "merge" else o.swapaxes(0, 1).reshape(n, -1)
        if split == "no-transpose":
            side = o.reshape(n, -1)
        return side @ wo if out else side

    return attention


THREE = Exercise(
    "attention",
    tuple(
        (_random(n, c, seed=n), *(_random(c, c, seed=n + i) for i in range(1, 5)), heads)
        for n, c, heads in ((5, 6, 3), (7, 4, 2))
    ),
    _three(),
    {
        "causal-missing": _three(hidden="none"),
        "causal-transposed": _three(hidden="past"),
        "causal-off-by-one": _three(hidden="more"),
        "causal-itself": _three(hidden="itself"),
        "mask-after-softmax": _three(place="after"),
        "mask-multiplied": _three(place="zero"),
        "split-no-transpose": _three(split="no-transpose"),
        "merge-no-transpose": _three(split="merge"),
        "scale-model-dim": _three(scale="model"),
        "output-projection-missing": _three(out=False),
    },
    options={"causal": True},
)


# Lesson 4


def _pairs(turned: Floats, first: Callable[..., Any] = np.sin) -> Floats:
    second = np.cos if first is np.sin else np.sin
    return np.stack([first(turned), second(turned)], -1).reshape(len(turned), -1)


def _places(n: int) -> Floats:
    return np.arange(float(n))[:, None]


FOUR = Exercise(
    "positions",
    ((5, 4), (7, 8), (3, 6)),
    sinusoids,
    {
        "positions-half-exponent": lambda n, d: _pairs(
            _places(n) / BASE ** (np.arange(d // 2) / d)
        ),
        "positions-swapped": lambda n, d: _pairs(angles(n, d), np.cos),
        "positions-from-one": lambda n, d: sinusoids(n + 1, d)[1:],
        "positions-halves": lambda n, d: np.concatenate(
            [np.sin(angles(n, d)), np.cos(angles(n, d))], 1
        ),
        "positions-degrees": lambda n, d: _pairs(np.radians(angles(n, d))),
        "positions-own-angle": lambda n, d: np.where(
            np.arange(d) % 2, np.cos(_places(n) / BASE ** (np.arange(d) / d)),
            np.sin(_places(n) / BASE ** (np.arange(d) / d)),
        ),
        "positions-multiplied": lambda n, d: _pairs(
            _places(n) * BASE ** (np.arange(0, d, 2) / d)
        ),
    },
)  # fmt: skip


# Lesson 5


def _five(
    hidden: str = "future", axis: int = -1, scale: float = -0.5, place: str = "before"
) -> Function:
    def attend(q: Floats, k: Floats, v: Floats) -> Floats:
        n = q.shape[-2]
        s = q @ k.swapaxes(-1, -2) * q.shape[-1] ** scale
        lower = np.tril(np.ones((n, n), bool))
        seen = {"future": lower, "past": lower.T, "none": np.ones((n, n), bool),
                "itself": np.tril(np.ones((n, n), bool), -1)}[hidden]  # fmt: skip
        if place == "after":
            return np.asarray(softmax(s) * seen @ v)
        if place == "zero":
            return np.asarray(softmax(s * seen) @ v)
        return np.asarray(softmax(np.where(seen, s, -np.inf), axis) @ v)

    return attend


FIVE = Exercise(
    "attend",
    tuple(
        tuple(_random(B, h, n, w, seed=i) for i in range(3))
        for B, h, n, w in ((2, 3, 5, 7), (3, 2, 7, 4))
    ),
    _five(),
    {
        "causal-missing": _five(hidden="none"),
        "causal-transposed": _five(hidden="past"),
        "causal-itself": _five(hidden="itself"),
        "softmax-axis": _five(axis=-2),
        "scale-missing": _five(scale=0.0),
        "scale-no-root": _five(scale=-1.0),
        "mask-after-softmax": _five(place="after"),
        "mask-multiplied": _five(place="zero"),
    },
    library="torch",
    options={"causal": True, "layout": "BHTD"},
)

EXERCISES: Mapping[int, Exercise] = {1: ONE, 2: TWO, 3: THREE, 4: FOUR, 5: FIVE}
