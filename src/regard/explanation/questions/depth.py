"""Questions about many steps: what runs in parallel, and why a layer is normalised."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from regard.core import formula
from regard.explanation.questions.question import Experiment, best_time
from regard.explanation.sheet import FIXED, Floats
from regard.explanation.trace import Chart, Trace

KERNEL = 3


def recurrence(x: Floats, w: Floats) -> Floats:
    """hᵢ = tanh(xᵢ + hᵢ₋₁ W): one position after another."""
    h, out = np.zeros(x.shape[1]), np.empty_like(x)
    for i, row in enumerate(x):
        h = np.tanh(row + h @ w)
        out[i] = h
    return out


def convolution(x: Floats, w: Floats) -> Floats:
    """A kernel of three over neighbours, all positions at once."""
    n = len(x)
    padded = np.vstack([np.zeros((1, x.shape[1])), x, np.zeros((1, x.shape[1]))])
    parts = [padded[i : i + n] @ w for i in range(KERNEL)]
    return np.asarray(np.tanh(np.sum(parts, axis=0)))


def attention(x: Floats, w: Floats) -> Floats:
    """Every position with every other, all at once."""
    h = (x @ w)[None]
    weights, _ = formula.normalise(formula.products(h, h) * x.shape[1] ** -0.5)
    return np.asarray((weights @ x)[0])


LAYERS = (recurrence, convolution, attention)


def path(layer: Callable[[Floats, Floats], Floats], n: int) -> tuple[int, int]:
    """How many layers until the last output feels the first input; the steps in a row of one."""
    # Around 0, where tanh lets nearly all through: a signal must not be lost in rounding.
    w, x = np.eye(4), np.zeros((n, 4))
    moved = x.copy()
    moved[0] += 1.0
    a, b = x, moved
    layers = 0
    while layers < n:
        a, b, layers = layer(a, w), layer(b, w), layers + 1
        if np.abs(a[-1] - b[-1]).max() > 0:
            break
    return layers, n if layer is recurrence else 1


def parallel(e: Experiment) -> Trace:
    """Time of one layer here, steps that must wait for each other, and the longest path."""
    n, d = e.whole("length"), e.whole("width")
    random = np.random.default_rng(0)
    x, w = random.standard_normal((n, d)), random.standard_normal((d, d)) / d**0.5
    small = e.whole("path")
    rows = []
    for layer in LAYERS:
        layers, waits = path(layer, small)
        # A signal walks along a recurrence step by step, and crosses a layer in one.
        steps = (small - 1) if layer is recurrence else layers
        rows.append([1000 * best_time(partial(layer, x, w)), waits, layers, steps])
    e.sheet.given("kinds", rows, "t", rows="layers", columns="parallel", operation=FIXED)
    e.step(
        "kinds", "hᵢ = f(xᵢ, hᵢ₋₁);  yᵢ = f(xᵢ₋₁, xᵢ, xᵢ₊₁);  O = A V",
        r"h_i = f(x_i, h_{i-1});\quad y_i = f(x_{i-1}, x_i, x_{i+1});\quad O = A V",
        text="ask.parallel-kinds", chart=Chart("kinds", -1, (0,)), n=n, d=d, small=small,
        waits=("kinds", 0, 1), steps=("kinds", 0, 3), layers=("kinds", 1, 2), one=("kinds", 2, 2),
        rnn=f"{rows[0][0]:.3g}", cnn=f"{rows[1][0]:.3g}", mine=f"{rows[2][0]:.3g}",
    )  # fmt: skip
    return e.trace("kinds", ())


def why_norm(e: Experiment) -> Trace:
    """The variance of x after each layer x + f(x), and after x + f(norm(x))."""
    e.setting("layers", "layer-count")
    e.setting("width", "width", "d")
    how = {"rows": "", "columns": "norms"}
    e.sheet.add("norms", "norms", "layers", "width", symbol="Var(x)", **how)
    e.sheet.add("ends", "norm_ends", "layers", "width", symbol="end", rows="", columns="norm-ends")
    e.step(
        "layers", "x ← x + x W;  x ← x + norm(x) W",
        r"x \leftarrow x + x W;\quad x \leftarrow x + \operatorname{norm}(x) W",
        shown=("norms",), text="ask.why-norm-layers", chart=Chart("norms", 0, (1, 2), log=True),
        layers=("ends", 0, 0), start=("norms", 0, 1), bare=("ends", 0, 1), calm=("ends", 0, 2),
        twice=("ends", 0, 3),
    )  # fmt: skip
    return e.trace("norms", ())
