"""The sines and cosines of positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
BASE = 10_000.0
"""Vaswani et al. 2017, section 3.5; RoFormer (Su et al. 2021), section 3.2.2, takes the same."""


def angles(n: int, d: int) -> Floats:
    """(n, ⌈d / 2⌉): position ÷ 10000^(2i/d)."""
    return np.asarray(np.arange(n)[:, None] / BASE ** (np.arange(0, d, 2) / d))


def sinusoids(n: int, d: int) -> Floats:
    """(n, d): the sine of each angle and the cosine beside it (Vaswani et al. 2017, 3.5)."""
    turned = np.stack([np.sin(angles(n, d)), np.cos(angles(n, d))], axis=-1)
    return turned.reshape(n, -1)[:, :d]
