"""Dropout as a rule: whether weight (i, j) is kept follows from the seed and the place alone.

A counter-based draw has no state, so every engine, every way of cutting the matrix into strips,
and the second computation in a backward pass keep the same weights.

Source: Srivastava et al. 2014, section 4; the idea of counter-based draws: Salmon et al. 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard._errors import KindError
from regard._shapes import Array
from regard.rules.frame import Frame

_LOW = 0xFFFFFFFF


def draw_seed(xp: Any, generator: Any) -> int:
    """A seed below 2³¹ from ``generator``: torch's or NumPy's, an int, or the global one."""
    if generator is None and "torch" not in xp.__name__:
        generator = np.random.default_rng()
    if isinstance(generator, np.random.Generator):
        return int(generator.integers(2**31))
    if isinstance(generator, int | np.integer) and not isinstance(generator, bool):
        return int(generator) % 2**31
    if generator is None or type(generator).__module__.startswith("torch"):
        import torch

        device = generator.device if generator is not None else "cpu"
        drawn = torch.randint(2**31, (), generator=generator, device=device)
        if torch._C._functorch.is_batchedtensor(drawn):
            raise KindError(
                "dropout under vmap drops the same weights of every mapped entry: pass vmap "
                "randomness='same', or a whole number as generator"
            )
        return int(drawn)
    raise KindError(
        "generator must be a torch.Generator, a numpy.random.Generator or an int, but it is a "
        f"{type(generator).__name__}"
    )


def kept(frame: Frame, rate: float, seed: int, dtype: Any) -> Array:
    """(…, H, t, w): 1 ÷ (1 − rate) where a weight is kept, 0 where it is dropped."""
    xp, sizes = frame.xp, frame.sizes
    heads = np.arange(sizes.rows, dtype=np.int64).reshape((*sizes.lead, sizes.H, 1))
    rows = heads * sizes.T + frame.query_index()
    row_seeds = _mixed(_mixed(rows & _LOW) ^ (rows >> 32) ^ seed)
    keys = _mixed(frame.key_positions() + 1)
    draw = _mixed(frame.move(row_seeds)[..., None] ^ frame.move(keys))
    threshold = round(rate * 2**32)
    return xp.astype(draw >= threshold, dtype) * (1 / (1 - rate))


def _mixed(x: Array) -> Array:
    """A bijection of the 32-bit numbers in which each bit of ``x`` moves every bit."""
    # The products stay below 2⁶³, so signed 64-bit arithmetic, which every library has, is exact.
    x = ((x ^ (x >> 16)) * 0x21F0AAAD) & _LOW
    x = ((x ^ (x >> 15)) * 0x735A2D97) & _LOW
    return x ^ (x >> 15)
