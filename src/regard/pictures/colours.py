"""The colours of a weight, and images made small."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def _oklab_to_srgb(lab: NDArray[np.float64]) -> NDArray[np.float64]:
    lms = (
        lab
        @ np.array([[1, 0.39633778, 0.21580376], [1, -0.10556135, -0.06385417],
                    [1, -0.08948418, -1.29148555]]).T
    ) ** 3  # fmt: skip
    linear = lms @ np.array([[4.07674166, -3.30771159, 0.23096993],
                             [-1.26843800, 2.60975740, -0.34131940],
                             [-0.00419609, -0.70341861, 1.70761470]]).T  # fmt: skip
    linear = np.clip(linear, 0, 1)
    srgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.asarray(srgb, dtype=np.float64)


def ramp(dark: bool = False) -> NDArray[np.uint8]:
    """(256, 3) colours of a weight from 0 to the most, as even steps of lightness.

    Lightness in OKLab falls (on dark paper: rises) linearly, so equal steps of weight look equal
    and the picture reads the same when printed in grey.  Source: B. Ottosson, "A perceptual color
    space for image processing", 2020.
    """
    t = np.linspace(0.0, 1.0, 256)
    light = 0.235 + 0.715 * t if dark else 0.985 - 0.735 * t
    # The chroma peaks in the middle, where the screen can show it; the hue goes from teal to blue.
    chroma = (0.014 if dark else 0.004 + 0.05 * t) + 0.09 * np.sin(np.pi * t) ** 0.9
    hue = np.radians(262.0 - 50.0 * t if dark else 215.0 + 50.0 * t)
    lab = np.stack([light, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)
    return np.round(255 * _oklab_to_srgb(lab)).astype(np.uint8)


def diverging() -> NDArray[np.uint8]:
    """(256, 3) colours of a difference from −most over 0 to the most: blue, white, orange.

    Lightness in OKLab falls evenly on both sides, so in grey print the size of a difference can be
    read, though not its sign; blue and orange differ to colour-blind readers too.
    """
    t = np.linspace(-1.0, 1.0, 256)
    size = np.abs(t)
    light = 0.985 - 0.545 * size
    chroma = 0.15 * size**0.8
    hue = np.radians(np.where(t < 0, 255.0, 52.0))
    lab = np.stack([light, chroma * np.cos(hue), chroma * np.sin(hue)], axis=1)
    return np.round(255 * _oklab_to_srgb(lab)).astype(np.uint8)


def shrink(
    image: NDArray[np.floating], step: int, entries: NDArray[np.integer] | None = None
) -> NDArray[np.float32]:
    """``image`` as means over squares of ``step`` × ``step`` pixels.

    ``entries`` tells how many entries each pixel stands for, along both sides; all alike if not
    given.
    """
    filled = np.nan_to_num(image.astype(np.float32))
    if step == 1:
        return filled
    heights, widths = (
        np.ones(n) if entries is None else entries[:n].astype(np.float64) for n in image.shape
    )
    rows, cols = (np.arange(0, n, step) for n in image.shape)
    sums = np.add.reduceat(np.add.reduceat(filled * np.outer(heights, widths), rows), cols, 1)
    sizes = np.outer(np.add.reduceat(heights, rows), np.add.reduceat(widths, cols))
    return np.asarray(sums / sizes, dtype=np.float32)
