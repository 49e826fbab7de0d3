"""ALiBi's slopes, sinusoids and rotations: what they should be and what people write instead."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from regard.diagnosis.steps import Array


def alibi_slopes(heads: int) -> Array:
    """The slopes of Press et al. (2022): 2^(−8·i/H), and for other H those of two powers of two."""
    power = 2 ** int(np.floor(np.log2(heads)))
    slopes = 2.0 ** (-8.0 * np.arange(1, power + 1) / power)
    if power < heads:
        more = 2.0 ** (-4.0 * np.arange(1, 2 * (heads - power), 2) / power)
        slopes = np.concatenate([slopes, more])
    return slopes


def alibi_variants(heads: int) -> dict[str, Array]:
    """Slopes by name: the right ones, the plain formula for any H, and what people write."""
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


@dataclass(frozen=True)
class Wave:
    """One way to fill a table of sines and cosines (T, D), and the faults that it has."""

    table: Array
    faults: tuple[str, ...]
    note: str = ""


def sinusoids(length: int, width: int, bases: tuple[float, ...] = (10000.0,)) -> Iterator[Wave]:
    """Tables by plausibility: the right one of Vaswani et al. (2017), its layouts, its faults."""
    pairs = (width + 1) // 2
    i = np.arange(pairs)
    exponents: list[tuple[Array, Array, tuple[str, ...], str]] = [
        (2 * i / width, 2 * i / width, (), ""),
        (4 * i / width, 4 * i / width, ("position-exponent-doubled",), ""),
        (2 * i / width, (2 * i + 1) / width, ("position-cosine-shifted",), ""),
        (2 * i / width, (2 * i + 2) / width, ("position-cosine-shifted",), ""),
        (
            4 * i / width,
            (4 * i + 2) / width,
            ("position-exponent-doubled", "position-cosine-shifted"),
            "",
        ),
        (
            4 * i / width,
            (4 * i + 4) / width,
            ("position-exponent-doubled", "position-cosine-shifted"),
            "",
        ),
        (i / max(pairs - 1, 1), i / max(pairs - 1, 1), (), "timescales"),
        (2 * i // width, 2 * i // width, ("position-integer",), ""),
        (4 * i // width, 4 * i // width, ("position-exponent-doubled", "position-integer"), ""),
        (2 * i // width, (2 * i + 1) // width, ("position-integer",), ""),
        (2 * i // width, (2 * i + 2) // width, ("position-integer", "position-cosine-shifted"), ""),
    ]
    for start in (0, 1):
        p = np.arange(start, length + start)[:, None].astype(float)
        for base in bases:
            for a, b, faults, note in exponents:
                note_ = "from-one" if start else note
                if not math.isclose(base, 10000.0):
                    note_ = "base"
                for whole in ("none", "angle", "frequency", "divisor", "table"):
                    more = (
                        ()
                        if whole == "none" or "position-integer" in faults
                        else ("position-integer",)
                    )
                    if more and start:
                        continue
                    yield from _filled(p, a, b, base, whole, (*faults, *more), note_, width)


def _filled(
    p: Array,
    a: Array,
    b: Array,
    base: float,
    whole: str,
    faults: tuple[str, ...],
    note: str,
    width: int,
) -> Iterator[Wave]:
    def angle(e: Array) -> Array:
        if whole == "frequency":
            return p * np.floor(base ** -e.astype(float))
        divisor = base ** e.astype(float)
        if whole == "divisor":
            divisor = np.floor(divisor)
        return np.floor(p / divisor) if whole == "angle" else p / divisor

    s, c = np.sin(angle(a)), np.cos(angle(b))
    if whole == "table":
        s, c = np.trunc(s), np.trunc(c)
    both = np.stack([s, c], -1).reshape(len(p), -1)[:, :width]
    yield Wave(both, faults, note)
    yield Wave(np.stack([c, s], -1).reshape(len(p), -1)[:, :width], faults, note or "cosine-first")
    if width % 2 == 0:
        yield Wave(np.concatenate([s, c], -1), faults, note or "halves")
        yield Wave(np.concatenate([c, s], -1), faults, note or "halves")
