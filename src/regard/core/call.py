"""The arguments of one call, checked and in one form, as every engine reads them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import (
    Array,
    Sizes,
    check_devices,
    check_dtypes,
    check_fits,
    namespace,
    sizes_of,
    whole_numbers,
)
from regard.core.arrays import all_finite
from regard.rules.frame import Frame
from regard.rules.masks import FARTHEST, Mask, check_mask, strip_of
from regard.rules.ranges import Ranges


@dataclass(frozen=True)
class Call:
    """One checked call: q (…, H, T, D), k (…, G, S, D), v (…, G, S, E) or None for weights."""

    q: Array
    k: Array
    v: Array | None
    mask: Mask | None
    bias: Array | None
    scale: float
    softcap: float | None
    sink: Array | None
    dropout: float
    seed: int
    frame: Frame
    """All T queries by all S keys."""
    ranges: Ranges | None
    """The mask as key ranges; None where it has no such form, or where there is no mask."""
    bare: bool
    """q, k and v came as plain 2-D arrays; so do the results."""

    @property
    def xp(self) -> Any:
        """The call's array library."""
        return self.frame.xp

    @property
    def sizes(self) -> Sizes:
        """The legend's letters as numbers."""
        return self.frame.sizes

    @property
    def is_torch(self) -> bool:
        """Whether the arrays are torch tensors."""
        return bool(array_api_compat.is_torch_array(self.q))

    @cached_property
    def hull(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each query (T,) the first key and one after the last that any batch entry may see."""
        T, S = self.sizes.T, self.sizes.S
        bounds = None if self.mask is None else self.mask.bounds(self.frame)
        if bounds is None:
            return np.zeros(T, np.int64), np.full(T, S, np.int64)
        first, last = bounds.hull()
        entries = math.prod(first.shape[:-1])
        first, last = first.reshape(entries, T), last.reshape(entries, T)
        return first.min(axis=0, initial=S), last.max(axis=0, initial=0)

    @cached_property
    def clean_keys(self) -> bool:
        """No NaN or infinity in q and k, so that hidden keys may be multiplied and thrown away."""
        return all_finite(self.q, self.k)

    @cached_property
    def clean_values(self) -> bool:
        """The same of v."""
        return self.v is None or all_finite(self.v)

    @property
    def needs_grad(self) -> bool:
        """Whether a derivative will be asked of the result (torch)."""
        if not self.is_torch:
            return False
        import torch

        arrays = (self.q, self.k, self.v, self.bias, self.sink)
        return torch.is_grad_enabled() and any(a is not None and a.requires_grad for a in arrays)

    def seen(self, frame: Frame) -> Array | None:
        """Which keys the queries of ``frame`` may attend to; None if all of them."""
        if self.mask is None:
            return None
        ranges = self.ranges
        if ranges is None:
            return self.mask.strip(frame)
        rows = ranges.take(frame.rows)
        if rows.cover(frame.keys):
            return None
        return strip_of(rows, frame)

    def finish(self, result: Array, axes: int) -> Array:
        """``result`` without the head axis, ``axes`` from the end, where the call was 2-D."""
        return self.xp.squeeze(result, axis=-axes) if self.bare else result

    def with_values(self, v: Array) -> Call:
        """The same call with values, checked: what turns weights into an output."""
        v = v[None, ...] if self.bare and hasattr(v, "ndim") and v.ndim == 2 else v
        namespace(q=self.q, v=v)
        check_dtypes(q=self.q, v=v)
        sizes_of(self.q, self.k, v)
        return replace(self, v=v)


def check(
    q: Array,
    k: Array,
    v: Array | None,
    mask: Mask | None = None,
    *,
    bias: Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Array | None = None,
    start: Any = None,
    dropout: float = 0.0,
) -> Call:
    """Check every argument, and say of the first wrong one what it should have been."""
    xp = namespace(q=q, k=k, v=v)
    check_dtypes(q=q, k=k, v=v)
    bare = all(a is None or a.ndim == 2 for a in (q, k, v))
    if bare:
        q, k, v = (a if a is None else a[None, ...] for a in (q, k, v))
    sizes = sizes_of(q, k, v)
    device = array_api_compat.device(q)
    whole = Frame(xp, device, sizes, _start(start, sizes), slice(0, sizes.T), slice(0, sizes.S))
    check_mask(mask)
    ranges = None if mask is None else mask.ranges(whole)  # one that does not fit says so now
    if bias is not None:
        namespace(q=q, bias=bias)
        check_dtypes(bias=bias)
        check_devices(q=q, bias=bias)
        check_fits("bias", bias, sizes)
    rate = _number("dropout", dropout)
    if not 0 <= rate < 1:
        raise ValueRangeError(f"dropout must be at least 0 and below 1, but {dropout} came")
    return Call(
        q=q,
        k=k,
        v=v,
        mask=mask,
        bias=bias,
        scale=1 / math.sqrt(sizes.D) if scale is None else _number("scale", scale),
        softcap=None if softcap is None else _positive("softcap", softcap),
        sink=None if sink is None else _sink(xp, sink, sizes, device, q),
        dropout=rate,
        seed=0,
        frame=whole,
        ranges=ranges,
        bare=bare,
    )


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise KindError(f"{name} must be a number, but it is a {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueRangeError(f"{name} must be finite, but {number} came")
    return number


def _positive(name: str, value: Any) -> float:
    if (number := _number(name, value)) <= 0:
        raise ValueRangeError(f"{name} must be above 0, but {value} came")
    return number


def _sink(xp: Any, sink: Any, sizes: Sizes, device: Any, q: Array) -> Array:
    if isinstance(sink, int | float | np.number):
        return xp.full((sizes.H,), _number("sink", sink), dtype=q.dtype, device=device)
    namespace(q=q, sink=sink)
    check_dtypes(sink=sink)
    check_devices(q=q, sink=sink)
    if tuple(sink.shape) not in ((), (sizes.H,)):
        raise ShapeError(
            f"sink must be one logit per query head, shape ({sizes.H},), or one number for all, "
            f"but its shape is {tuple(sink.shape)}"
        )
    return xp.broadcast_to(sink, (sizes.H,))


def _start(start: Any, sizes: Sizes) -> int | NDArray[np.int64]:
    if start is None:
        return sizes.S - sizes.T
    array = whole_numbers("start", start)
    if array.size and np.abs(array).max() > FARTHEST:
        raise ValueRangeError(f"start must be at most {FARTHEST:,} either way, but {start} came")
    if array.ndim == 0:
        return int(array)
    if array.shape != sizes.lead:
        raise ShapeError(
            f"start must be one number or one per batch entry, of shape {sizes.lead}, but its "
            f"shape is {array.shape}"
        )
    return array
