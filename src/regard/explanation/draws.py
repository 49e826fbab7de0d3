"""Random numbers that the page draws too: hashes of their places, the same in both languages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_GOLDEN = 0x9E3779B9


def uniforms(count: int, seed: int, start: int = 0) -> Floats:
    """Numbers between 0 and 1, those at the places from ``start`` on.

    The hash is lowbias32 (C. Wellons, "Prospecting for Hash Functions", 2018, public domain).
    """
    x = (np.arange(start, start + count, dtype=np.uint64) + seed * _GOLDEN).astype(np.uint32)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return np.asarray((x.astype(np.float64) + 0.5) / 2.0**32)


def normals(count: int, seed: int, start: int = 0) -> Floats:
    """Independent numbers of mean 0 and variance 1 (Box and Muller 1958)."""
    u = uniforms(2 * count, seed, 2 * start)
    return np.asarray(np.sqrt(-2 * np.log(u[::2])) * np.cos(2 * np.pi * u[1::2]))
