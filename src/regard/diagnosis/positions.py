"""Positional encodings as subjects of their own."""

from __future__ import annotations

import numpy as np

from regard.diagnosis.reference import Array


def alibi_slopes(heads: int) -> Array:
    """The slopes of Press et al. (2022): 2^(−8·i/H), and for other H those of two powers of two."""
    power = 2 ** int(np.floor(np.log2(heads)))
    slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    if power < heads:
        more = 2.0 ** (-4.0 * np.arange(1, 2 * (heads - power), 2) / power)
        slopes = np.concatenate([slopes, more])
    return slopes


def alibi_variants(heads: int) -> dict[str, Array]:
    """Slopes by name: the right ones, the plain formula for any H, and what people write instead."""
    i = np.arange(heads)
    return {
        "alibi": alibi_slopes(heads),
        "alibi-plain": 2.0 ** (-8.0 * (i + 1) / heads),
        "wrong-from-zero": 2.0 ** (-8.0 * i / heads),
        "wrong-halves": 2.0 ** -(i + 1.0),
        "wrong-halves-from-zero": 2.0**-i,
        "wrong-sign": -alibi_slopes(heads),
        "wrong-linear": 1.0 / (i + 1.0),
        "wrong-inverse": 2.0 ** (-(i + 1.0) / heads),
        "wrong-last-first": alibi_slopes(heads)[::-1],
    }


def examine(thing, source, said):
    return None
