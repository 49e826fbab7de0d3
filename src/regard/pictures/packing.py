"""How the numbers of all heads are laid into a page of at most ``MOST`` bytes.

A short text goes in whole.  A long one keeps what a reader asks for first, and gives up the rest
step by step: digits, then the weaker of each query's strongest keys, then sharpness of the images.
What is left is exact or says what it is: the page is told the ``Grain`` and tells its reader.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.pictures.colours import shrink
from regard.pictures.overview import HeadView, Overview

MOST = 9_300_000
"""The bytes that the heads' numbers may take in the file."""
BINS = 2048
"""The most parts of the strip of received weight, where it is not kept token by token."""
SAMPLE = 20
"""How many heads are packed to guess how large all of them would be."""


@dataclass(frozen=True)
class Grain:
    """How much of each head is kept."""

    fine: bool
    """16 bits a weight and the received weight of every token; else 8 bits and ``BINS`` maxima."""
    floor: float
    """The least weight of a strongest key that is told; the chosen tokens tell all of theirs."""
    image: int
    """The most pixels on the side of a head's image."""


LADDER = (
    Grain(fine=True, floor=0, image=256),
    Grain(fine=False, floor=0, image=256),
    Grain(fine=False, floor=0.05, image=256),
    Grain(fine=False, floor=0.1, image=192),
    Grain(fine=False, floor=0.15, image=192),
    Grain(fine=False, floor=0.25, image=192),
    Grain(fine=False, floor=0.4, image=160),
    Grain(fine=False, floor=0.5, image=160),
    Grain(fine=False, floor=0.6, image=160),
    Grain(fine=False, floor=0.8, image=128),
    Grain(fine=False, floor=2, image=128),
    Grain(fine=False, floor=2, image=64),
)
"""From all to least; a page stands on the first rung on which it fits."""


class Layout:
    """How the numbers of a head lie in its layer's block; ``data.js`` reads the same."""

    def __init__(self, overview: Overview, grain: Grain) -> None:
        tokens = len(overview.tokens)
        side = max((max(view.image.shape) for view in overview.heads()), default=1)
        self.fine = grain.fine
        self.floor = grain.floor
        self.strongest = min((view.top_keys.shape[1] for view in overview.heads()), default=0)
        self.chosen = np.isin(np.arange(tokens), overview.chosen)[:, None]
        self.dense = grain.fine and overview.block == 1 and side <= grain.image
        """Whether the whole matrix is stored exactly, and therefore no image beside it."""
        self.step = 1 if self.dense else -(-side // grain.image)
        self.block = overview.block * self.step
        self.bin = 1 if grain.fine else -(-tokens // BINS)
        """Tokens that one part of the strip of received weight stands for."""
        self.index = np.dtype("<u2" if tokens < 1 << 16 else "<u4")
        # The last pixel may stand for fewer entries, and must weigh less in a mean of pixels.
        self.entries = np.full(-(-tokens // overview.block), overview.block)
        self.entries[-1] = tokens - overview.block * (len(self.entries) - 1)

    def packed(self, view: HeadView) -> bytes:
        """The head's numbers, array after array, each split into planes of bytes."""
        return b"".join(_planes(array) for array in self._arrays(view))

    def _arrays(self, view: HeadView) -> Iterator[NDArray[Any]]:
        yield self._received(view)
        told = self.chosen | (view.top_weights >= self.floor) | (view.top_keys < 0)
        # Relative to the query, keys repeat from one query to the next.  0 would be key −1.
        keys = view.top_keys.astype(np.int64) + 1
        ahead = np.arange(len(keys), dtype=np.int64)[:, None] + 1 - keys
        # A query that looks at itself with weight 0 stands for a key that is not told.
        yield np.where(told, ahead % (1 << 8 * self.index.itemsize), 0).astype(self.index).T
        yield self._levels(np.where(told, view.top_weights, 0)).T
        if self.dense:
            yield self._levels(view.image)
        else:
            yield rooted(self.image(view))
            yield self._levels(view.exact)

    def _received(self, view: HeadView) -> NDArray[Any]:
        received = np.nan_to_num(view.received).astype("<f4")
        if self.fine:
            # 12 bits of fraction are more than a heat strip can show; zeros pack well.
            return (received.view("<u4") + 0x400) & 0xFFFFF800
        # A sink gets thousands of times what others get: the logarithm tells both apart.
        most = np.log1p(received.max(initial=0.0)) or 1.0
        parts = np.maximum.reduceat(received, np.arange(0, len(received), self.bin))
        return np.round(np.log1p(np.maximum(parts, 0)) / most * 255).astype(np.uint8)

    def _levels(self, weights: NDArray[np.float32]) -> NDArray[Any]:
        weights = np.clip(np.nan_to_num(weights), 0, 1)
        if self.fine:
            return np.round(weights * 65535).astype(np.dtype("<u2"))
        return np.round(np.sqrt(weights) * 255).astype(np.uint8)

    def image(self, view: HeadView) -> NDArray[np.float32]:
        """The head's block means at the resolution that the page stores."""
        return shrink(view.image, self.step, self.entries)


def fitting(overview: Overview, most: int = MOST) -> tuple[Layout, list[str]]:
    """The layout that keeps most of ``overview`` in ``most`` bytes, and each layer's block in it.

    Where none fits, it is the least.
    """
    heads = list(overview.heads())
    # No whole step between them, lest they be the same head of each layer.
    sample = [heads[int(at)] for at in np.linspace(0, len(heads) - 1, min(len(heads), SAMPLE))]
    for grain in LADDER:
        layout = Layout(overview, grain)
        if grain is not LADDER[-1]:
            guess = sum(len(packed(layout.packed(view))) for view in sample)
            if guess * len(heads) > 1.1 * most * len(sample):
                continue  # a guess this far off has never been
        blocks = [packed(b"".join(map(layout.packed, layer))) for layer in overview.layers]
        if sum(map(len, blocks)) <= most:
            break
    return layout, blocks


def rooted(image: NDArray[np.float32]) -> NDArray[np.uint8]:
    """0..255 for the root of value ÷ maximum: small means keep their digits, and their colour."""
    most = float(image.max(initial=0.0)) or 1.0
    levels = np.round(np.sqrt(np.clip(image / most, 0, 1)) * 255)
    return np.asarray(levels, dtype=np.uint8)


def _planes(array: NDArray[Any]) -> bytes:
    """All first bytes, then all second bytes: like stands by like, and deflate finds it."""
    flat = np.ascontiguousarray(array)
    return flat.reshape(-1).view(np.uint8).reshape(-1, flat.itemsize).T.tobytes()


def packed(data: bytes) -> str:
    """``data`` deflated, as text."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    return base64.b64encode(deflate.compress(data) + deflate.flush()).decode()
