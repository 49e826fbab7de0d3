"""The smallest example of each fault: the right numbers and the faulty ones, at most 3 × 3."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from regard.diagnosis.positions import alibi_slopes
from regard.diagnosis.steps import Array, rotate, softmax

SCORES = np.array([[4.0, 2.0, 0.0], [1.0, 3.0, 2.0], [0.0, 2.0, 4.0]])
"""q·k of three tokens, one head of width 4 in a model of width 16."""
VALUES = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
KEEP = np.array([True, True, False])
LOWER = np.tri(3, dtype=bool)


@dataclass(frozen=True)
class Example:
    """The right matrix and the faulty one, and what their numbers are."""

    shown: str
    """weights, scores, order, mean, table or slopes."""
    right: Array
    came: Array


def _w(scores: Array, axis: int = -1) -> Array:
    return softmax(np.asarray(scores, float), axis)


def _masked(allowed: Array, fill: float = -np.inf) -> Array:
    return _w(np.where(allowed, SCORES / 2, fill))


def _order(split: bool) -> tuple[Array, Array]:
    """Which token and feature lands where: (T=3, H·D=2) cut into two heads of width 1."""
    x = np.arange(1.0, 7.0).reshape(3, 2)
    right = x.T
    came = x.reshape(2, 3)
    return (right, came) if split else (x, right.reshape(3, 2))


def _waves(exponent: float, shift: float = 0.0) -> Array:
    p = np.arange(3)[:, None].astype(float)
    angle = np.concatenate([p * np.ones(1), p * 100.0 ** (-shift), p * 100.0**-exponent], 1)
    return np.stack([np.sin(angle[:, 0]), np.cos(angle[:, 1]), np.sin(angle[:, 2])], 1)


def _rotated(pairing: str, positions: Array) -> Array:
    return rotate(np.tile([1.0, 0.0, 1.0, 0.0], (3, 1)), positions, pairing)[:, :3]


def _weights() -> Array:
    return _w(SCORES / 2)


_MAKE: dict[str, tuple[str, Callable[[], tuple[Array, Array]]]] = {
    "scale-model-dim": ("weights", lambda: (_weights(), _w(SCORES / 4))),
    "scale-missing": ("weights", lambda: (_weights(), _w(SCORES))),
    "scale-no-root": ("weights", lambda: (_weights(), _w(SCORES / 4))),
    "scale-inverted": ("weights", lambda: (_weights(), _w(SCORES * 2))),
    "scale-precedence": ("weights", lambda: (_w(SCORES / 8**0.5), _w(SCORES / 4))),
    "scale-wrong-size": ("weights", lambda: (_weights(), _w(SCORES / 3**0.5))),
    "scale-twice": ("weights", lambda: (_weights(), _w(SCORES / 4))),
    "softmax-axis": ("weights", lambda: (_weights(), _w(SCORES / 2, 0))),
    "softmax-heads": ("weights", lambda: (_weights(), _w((SCORES / 2).ravel()).reshape(3, 3))),
    "softmax-single": ("weights", lambda: (_weights(), np.ones((3, 3)))),
    "softmax-missing": ("weights", lambda: (_weights(), SCORES / 2)),
    "softmax-overflow": ("weights", lambda: (_w(SCORES * 500), _overflown())),
    "split-no-transpose": ("order", lambda: _order(split=True)),
    "merge-no-transpose": ("order", lambda: _order(split=False)),
    "mask-head-order": (
        "order",
        lambda: (np.array([[1.0, 1, 2, 2]])[:, :3], np.array([[1.0, 2, 1]])),
    ),
    "output-projection-missing": (
        "output",
        lambda: (_weights() @ VALUES @ [[1.0, 1], [1, -1]], _weights() @ VALUES),
    ),
    "projection-shared": ("matrix", lambda: (np.array([[1.0, 2], [3, 4]]), np.diag([1.0, 1.0]))),
    "projection-nonlinear": (
        "scores",
        lambda: (np.array([[-1.0, 2], [0.5, -3]]), np.array([[0.0, 2], [0.5, 0]])),
    ),
    "value-wrong-source": ("output", lambda: (_weights() @ VALUES, _weights() @ VALUES[::-1])),
    "key-wrong-source": ("scores", lambda: (SCORES, (SCORES + SCORES.T) / 2)),
    "query-key-swapped": ("weights", lambda: (_weights(), _w(SCORES.T / 2))),
    "kv-head-order": ("order", lambda: (np.array([[0.0, 0, 1]]), np.array([[0.0, 1, 0]]))),
    "batch-as-sequence": (
        "weights",
        lambda: (np.eye(2) * 0 + _w(SCORES[:2, :2] / 2), _w(SCORES[1:, 1:] / 2)),
    ),
    "mask-inverted": ("weights", lambda: (_masked(KEEP), _masked(~KEEP))),
    "mask-after-softmax": ("weights", lambda: (_masked(KEEP), _weights() * KEEP)),
    "mask-multiplied": ("weights", lambda: (_masked(KEEP), _masked(KEEP, 0.0))),
    "mask-too-weak": ("weights", lambda: (_masked(KEEP), _masked(KEEP, -2.0))),
    "mask-half-overflow": ("weights", lambda: (_masked(KEEP), np.full((3, 3), np.nan))),
    "mask-nan": ("weights", lambda: (_masked(KEEP), np.full((3, 3), np.nan))),
    "masked-row": (
        "weights",
        lambda: (
            _masked(LOWER) * [[0.0], [1], [1]],
            np.where([[True], [False], [False]], np.nan, _masked(LOWER)),
        ),
    ),
    "mask-on-queries": (
        "weights",
        lambda: (_masked(KEEP), np.where(KEEP[:, None], _weights(), 1 / 3)),
    ),
    "mask-ignored": ("weights", lambda: (_masked(KEEP), _weights())),
    "mask-added": ("weights", lambda: (_masked(KEEP), _w(SCORES / 2 + KEEP))),
    "causal-missing": ("weights", lambda: (_masked(LOWER), _weights())),
    "causal-transposed": ("weights", lambda: (_masked(LOWER), _masked(LOWER.T))),
    "causal-off-by-one": ("weights", lambda: (_masked(LOWER), _masked(np.tri(3, k=1, dtype=bool)))),
    "causal-misaligned": ("weights", lambda: (_masked(LOWER)[1:], _masked(LOWER)[:2])),
    "window-off-by-one": (
        "weights",
        lambda: (_masked(LOWER & ~np.tri(3, k=-2, dtype=bool)), _masked(LOWER)),
    ),
    "dropout-in-eval": (
        "weights",
        lambda: (_weights(), _weights() * [[1, 0, 1], [1, 1, 1], [0, 1, 1]] / 0.8),
    ),
    "dropout-no-rescale": (
        "weights",
        lambda: (_weights() * [[1, 0, 1]] / 0.8, _weights() * [[1, 0, 1]]),
    ),
    "position-exponent-doubled": ("table", lambda: (_waves(0.5), _waves(1.0))),
    "position-cosine-shifted": ("table", lambda: (_waves(0.5), _waves(0.5, 0.25))),
    "position-integer": ("table", lambda: (_waves(0.5), np.trunc(_waves(0.5)))),
    "position-by-batch": ("table", lambda: (_waves(0.5), np.tile(_waves(0.5)[:1], (3, 1)))),
    "position-odd-width": ("table", lambda: (_waves(0.5), np.full((3, 3), np.nan))),
    "rotary-pairing": (
        "table",
        lambda: (_rotated("halves", np.arange(3.0)), _rotated("mixed-halves", np.arange(3.0))),
    ),
    "rotary-axis": (
        "table",
        lambda: (_rotated("halves", np.arange(3.0)), _rotated("halves", np.zeros(3))),
    ),
    "rotary-offset": (
        "table",
        lambda: (
            _rotated("halves", np.array([0.0, 1, 2])),
            _rotated("halves", np.array([0.0, 1, 0])),
        ),
    ),
    "alibi-slopes": ("slopes", lambda: (alibi_slopes(4)[None, :3], 2.0 ** -np.arange(3.0)[None])),
}

FAULTS = tuple(_MAKE)
"""The id of every fault, in the order of the documentation."""


def _overflown() -> Array:
    with np.errstate(all="ignore"):
        e = np.exp((SCORES * 500).astype(np.float32))
        return np.asarray(e / e.sum(-1, keepdims=True), float)


def example(fault: str) -> Example:
    """The smallest example of a fault.

    >>> print(example("mask-added").right.round(2))
    [[0.73 0.27 0.  ]
     [0.27 0.73 0.  ]
     [0.27 0.73 0.  ]]
    """
    shown, make = _MAKE[fault]
    right, came = make()
    return Example(shown, np.asarray(right), np.asarray(came))
