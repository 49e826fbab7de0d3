"""Partial results and how they join: attention over pieces of the keys equals that over all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import Array, check_devices, dtype_name, namespace
from regard.core.call import check_number
from regard.core.formula import normalise


class Partial(NamedTuple):
    """Attention over some of the keys, with what is needed to join it to that over the others."""

    output: Array
    """(…, H, T, E)"""
    lse: Array
    """(…, H, T) the logarithm of the sum of exp(score), in float32 at least; −∞ where no key."""


def merge(parts: Iterable[Partial], sink: Array | float | None = None) -> Partial:
    """Join partial results over separate keys into that over all of them.

    ::

        lse = ln( Σ_p exp lse_p  (+ exp sink) ),    output = Σ_p exp(lse_p − lse) · output_p

    Args:
        parts: results of :func:`regard.partial` for the same queries, or of ``merge`` without sink.
        sink: one logit a head, shape (H,), or a number; it is counted here, once.

    Raises:
        ShapeError: parts whose shapes differ.

    Source: Milakov and Gimelshein 2018, section 3; Dao et al. 2022 (FlashAttention), section 3.1.

    >>> import numpy as np, regard
    >>> q, k, v = (np.random.default_rng(0).normal(size=(5, 8)) for _ in range(3))
    >>> halves = [regard.partial(q, k[s], v[s]) for s in (slice(0, 2), slice(2, 5))]
    >>> bool(np.allclose(regard.merge(halves).output, regard.attend(q, k, v)))
    True
    """
    if not isinstance(parts, Iterable):
        raise KindError(f"parts must be a list of Partial values, not a {type(parts).__name__}")
    parts = list(parts)
    if not parts:
        raise ValueRangeError("parts must hold at least one Partial, but it is empty")
    for part in parts:
        if not isinstance(part, Partial):
            raise KindError(f"parts must hold Partial values, but one is a {type(part).__name__}")
    xp = namespace(**{f"parts[{i}]": a for i, part in enumerate(parts) for a in part})
    for part in parts:
        first = parts[0].output.shape
        if part.output.shape != first or part.lse.shape != first[:-1]:
            raise ShapeError(
                "parts must have the same shapes, but outputs are "
                f"{', '.join(str(tuple(p.output.shape)) for p in parts)}"
            )
    logs = [p.lse for p in parts]
    if sink is not None:
        logs.append(_sink_lse(xp, sink, parts[0]))
    shares, lse = normalise(xp.stack(logs, axis=-1))  # a softmax over parts, not keys
    output = sum(
        xp.astype(p.output, lse.dtype) * shares[..., i : i + 1] for i, p in enumerate(parts)
    )
    return Partial(xp.astype(output, parts[0].output.dtype), lse)


def _sink_lse(xp: Any, sink: Array | float, part: Partial) -> Array:
    """The sink's logit as an lse of its own, (…, H, T)."""
    if isinstance(sink, int | float | np.number):
        return xp.full_like(part.lse, check_number("sink", sink))
    namespace(sink=sink, parts=part.output)
    H = part.lse.shape[-2] if part.lse.ndim > 1 else 1
    if tuple(sink.shape) == ():
        sink = xp.broadcast_to(sink, (H,))
    if tuple(sink.shape) != (H,):
        raise ShapeError(f"sink must have shape ({H},), one logit a head, not {tuple(sink.shape)}")
    if dtype_name(sink) != dtype_name(part.lse):
        sink = xp.astype(sink, part.lse.dtype)
    check_devices(sink=sink, parts=part.lse)
    return (sink[:, None] if part.lse.ndim > 1 else sink) + xp.zeros_like(part.lse)
