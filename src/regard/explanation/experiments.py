"""Experiments on numbers drawn at random, and counts: tables that follow from a few settings.

Each is an operation of a sheet, and the page's ``experiments.js`` has the same by the same names:
so a slider draws again, and both draw the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from regard.core import formula
from regard.explanation.draws import normals, uniforms
from regard.explanation.positions import sinusoids

Floats = NDArray[np.float64]
CHUNK = 1_000_000
"""Numbers that are drawn at once."""


def drawn(width: int, keys: int, draws: int) -> list[list[float]]:
    """Dot products at d/16, d/4 and d: variance, deviation, √d, and the largest weight."""
    rows = []
    for d in (max(width // 16, 1), max(width // 4, 1), width):
        step = max(CHUNK // (keys * d), 1)
        parts = []
        for first in range(0, draws, step):
            n = min(step, draws - first)
            q = normals(n * d, 1, first * d).reshape(n, 1, d)
            k = normals(n * keys * d, 2, first * keys * d).reshape(n, keys, d)
            parts.append(formula.products(q, k))
        dots = np.concatenate(parts)
        largest = [
            float(formula.normalise(dots * scale)[0].max(-1).mean())
            for scale in (1.0, d**-0.5, 1 / d)
        ]
        rows.append([d, float(dots.var()), float(dots.std()), d**0.5, *largest])
    return rows


def best_of(tries: int) -> Floats:
    """Of random matrices W (3, 3) the one that comes nearest to a → b → c → a with Q = K."""
    w = normals(tries * 9, 1).reshape(tries, 3, 3) * (0.5 + 3.5 * uniforms(tries, 2)[:, None, None])
    weights = formula.normalise(w @ w.swapaxes(1, 2))[0]
    worst = np.min([weights[:, i, (i + 1) % 3] for i in range(3)], axis=0)
    return np.asarray(w[int(worst.argmax())])


def worst_of_ring(weights: Floats) -> list[list[float]]:
    """The smallest of the three wanted weights a → b, b → c, c → a."""
    return [[min(float(weights[i, (i + 1) % 3]) for i in range(3))]]


def head_costs(length: int, width: int) -> list[list[float]]:
    """Multiplications of h heads of width d/h, and of h heads of width d."""
    once = 2 * length * length * width
    return [[h, width // h, 2 * length * length * (width // h) * h, h * once] for h in (1, 2, 4, 8)]


def lengths(width: int) -> list[list[float]]:
    """4nd² and 2n²d at four lengths; in the third they are equal."""
    return [
        [n, 4 * n * width**2, 2 * n * n * width, 4 * n * n]
        for n in (max(width // 2, 1), width, 2 * width, 8 * width)
    ]


def sizes(width: int) -> list[list[float]]:
    """Three matrices of a layer where positions are added, and where they are laid beside."""
    return [[width, 3 * width**2], [2 * width, 6 * width**2]]


def cosine(width: int) -> list[list[float]]:
    """The mean |cosine| of random words with the positions of 512 places."""
    words, places = normals(512 * width, 3).reshape(512, width), sinusoids(512, width)
    lengths_ = np.linalg.norm(words, axis=1) * np.linalg.norm(places, axis=1)
    return [[float(np.abs((words * places).sum(1) / lengths_).mean())]]


def embeddings(width: int) -> list[list[float]]:
    """How large words of deviation 1/√d and positions are, without and with √d."""
    rows = []
    for d in (max(width // 32, 2), max(width // 8, 2), max(width // 2, 2), width):
        x, p = normals(200 * d, 4) / d**0.5, sinusoids(200, d)
        word, place = float(np.sqrt((x * x).mean())), float(np.sqrt((p * p).mean()))
        rows.append([d, word, place, word * d**0.5, place / word])
    return rows


def additive(q: Floats, k: Floats, w: Floats, u: Floats, v: Floats) -> Floats:
    """Bahdanau et al. 2015, appendix A.1.2: v · tanh(W q + U k), for every query and key."""
    return np.asarray(np.tanh((q @ w)[:, None, :] + (k @ u)[None, :, :]) @ v)


def pairs(n: int, d: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Queries, keys and the weights of additive attention, drawn at random."""
    q, k = (normals(n * d, seed).reshape(n, d) for seed in (1, 2))
    w, u = (normals(d * d, seed).reshape(d, d) / d**0.5 for seed in (3, 4))
    return q, k, w, u, normals(d, 5) / d**0.5


def kinds(length: int, width: int) -> list[list[float]]:
    """Multiplications of both kinds of scores, and how the scores deviate."""
    rows = []
    n = length
    for d in (max(width // 8, 1), max(width // 2, 1), width):
        q, k, w, u, v = pairs(n, d)
        dots, added = q @ k.T, additive(q, k, w, u, v)
        rows.append(
            [d, n * n * d, 2 * n * d * d + n * n * d, n * n * d,
             float(dots.std()), float(dots.std()) / d**0.5, float(added.std())]
        )  # fmt: skip
    return rows


def normalised(x: Floats) -> Floats:
    """Each row less its mean, over its deviation (Ba et al. 2016)."""
    return np.asarray((x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5))


def norms(layers: int, width: int) -> list[list[float]]:
    """The variance of x after each layer x + x W, and after x + norm(x) W."""
    bare = calm = normals(16 * width, 0).reshape(16, width)
    rows = [[0, float(bare.var()), float(calm.var())]]
    for layer in range(1, layers + 1):
        w = normals(width * width, layer).reshape(width, width) / width**0.5
        bare = bare + bare @ w
        calm = calm + normalised(calm) @ w
        rows.append([layer, float(bare.var()), float(calm.var())])
    return rows


def norm_ends(layers: int, width: int) -> list[list[float]]:
    """The last of ``norms``, and by what the first layer without normalising multiplies."""
    rows = norms(layers, width)
    return [[*rows[-1], rows[1][1] / rows[0][1]]]


def hides(hidden: int) -> list[list[float]]:
    """A mask that keeps all keys of three but the last ``hidden``."""
    return [[float(key < 3 - hidden) for key in range(3)]] * 3


def opposite(mask: Floats) -> Floats:
    """The mask read the other way."""
    return 1 - mask


def _counted(rows: Callable[..., list[list[float]] | Floats]) -> Callable[..., Floats]:
    """An experiment that takes its settings from tables of one number."""

    def compute(*settings: Floats) -> Floats:
        return np.array(rows(*(int(setting[0, 0]) for setting in settings)), dtype=np.float64)

    return compute


EXPERIMENTS: Mapping[str, Callable[..., Floats]] = {
    "worst_of_ring": lambda weights: np.array(worst_of_ring(weights)),
    "opposite": opposite,
    **{
        rows.__name__: _counted(rows)
        for rows in (
            drawn, best_of, head_costs, lengths, sizes, cosine, embeddings, kinds, norms, norm_ends,
            hides,
        )
    },
}  # fmt: skip
