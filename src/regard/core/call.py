"""The arguments of one call, checked and in one form, as every engine reads them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, cast

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import (
    Array,
    Sizes,
    check_devices,
    check_dtypes,
    namespace,
    sizes_of,
    whole_numbers,
)
from regard.core.arrays import accumulator, all_finite
from regard.core.known import keep, recall
from regard.core.modes import at_autocast_of, differentiates, is_torch, refuse_old_vmap
from regard.rules.frame import Frame
from regard.rules.masks import FARTHEST, Mask, check_mask, strip_of
from regard.rules.ranges import Ranges
from regard.rules.rule import Flat, Rule, flatten, rebuild
from regard.rules.scores import Score, as_score

R = TypeVar("R", bound=Rule)


@dataclass(frozen=True)
class Call:
    """One checked call: q (…, H, T, D), k (…, G, S, D), v (…, G, S, E) or None for weights."""

    q: Array
    k: Array
    v: Array | None
    mask: Mask | None
    bias: Score | None
    scale: float
    softcap: float | None
    sink: Array | None
    dropout: float
    seed: int
    frame: Frame
    """All T queries by all S keys."""
    ranges: Ranges | None
    """The mask as key ranges; None where it has no such form, or where there is no mask."""
    bounds: Ranges | None
    """Ranges that hold all that the mask allows and perhaps more; None if nothing is known."""
    bare: bool
    """q, k and v came as plain 2-D arrays; so do the results."""
    careful: bool = False
    """A derivative goes along what is not finite: hidden pairs are not even multiplied by 0."""

    @property
    def xp(self) -> Any:
        """The call's array library."""
        return self.frame.xp

    @cached_property
    def sizes(self) -> Sizes:
        """The legend's letters as numbers; axes that vmap added count among the leading ones."""
        q, k = self.q.shape, self.k.shape
        return Sizes(tuple(q[:-3]), q[-3], k[-3], q[-2], k[-2], q[-1])

    @cached_property
    def notes(self) -> dict[Any, Any]:
        """What an engine notes of calls of this form, for the next of them: never of its arrays."""
        return {}

    @property
    def is_torch(self) -> bool:
        """Whether the arrays are torch tensors."""
        return is_torch(self.q)

    @cached_property
    def hull(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each query (T,) the first key and one after the last that any batch entry may see."""
        T, S, order = self.frame.sizes.T, self.sizes.S, self.frame.order
        if self.bounds is None:
            first, last = np.zeros(T, np.int64), np.full(T, S, np.int64)
        else:
            low, high = self.bounds.hull()
            entries = math.prod(low.shape[:-1])
            first = low.reshape(entries, T).min(axis=0, initial=S)
            last = high.reshape(entries, T).max(axis=0, initial=0)
        return (first, last) if order is None else (first[order], last[order])

    @cached_property
    def clean_keys(self) -> bool:
        """No NaN or infinity in q and k, so that hidden keys may be multiplied and thrown away."""
        return not self.careful and all_finite(self.q, self.k)

    @cached_property
    def clean_values(self) -> bool:
        """The same of v."""
        return not self.careful and (self.v is None or all_finite(self.v))

    @property
    def differentiated(self) -> bool:
        """Whether torch may ask anything of a result made now: a gradient, tangent, mapped axis."""
        return differentiates(self.q, self.floats)

    def seen(self, frame: Frame) -> Array | None:
        """Which keys the queries of ``frame`` may attend to; None if all of them."""
        if self.mask is None:
            return None
        ranges = self.ranges
        if ranges is None:
            return self.mask.strip(frame)
        rows = ranges.take(frame.query_index() if frame.order is not None else frame.rows)
        if rows.cover(frame.keys):
            return None
        return strip_of(rows, frame)

    def of_rows(self, order: NDArray[np.int64]) -> Call:
        """The same call for some of its queries only."""
        frame = replace(self.frame, rows=slice(0, len(order)), order=order)
        q = self.xp.take(self.q, frame.move(order), axis=-2)
        bias = None if self.bias is None else self.bias.rows(frame, order)
        return replace(self, q=q, bias=bias, frame=frame)

    @cached_property
    def arrays(self) -> list[Array]:
        """The mask's arrays, then those that have a derivative: q, k, v, the bias's, the sink.

        Each has the call's leading axes, of size 1 where it does not differ between entries, so
        that one more can be put before them.
        """
        masks = [] if self.mask is None else self._full(flatten(self.mask))
        return [*masks, *self.floats]

    @cached_property
    def floats(self) -> list[Array]:
        """The last of ``arrays``: those that have a derivative."""
        scores = [] if self.bias is None else self._full(flatten(self.bias))
        sink = None if self.sink is None else self._leading(self.sink, 1)
        return [a for a in (self.q, self.k, self.v, *scores, sink) if a is not None]

    def with_arrays(self, arrays: Sequence[Array]) -> Call:
        """The same call with other ``arrays``, which may have more leading axes."""
        rest = list(arrays)
        mask = None if self.mask is None else _rebuilt(self.mask, rest)
        q, k = rest.pop(0), rest.pop(0)
        v = None if self.v is None else rest.pop(0)
        bias = None if self.bias is None else _rebuilt(self.bias, rest)
        sink = None if self.sink is None else rest.pop(0)
        return replace(self, q=q, k=k, v=v, mask=mask, bias=bias, sink=sink)

    def with_floats(self, floats: Sequence[Array]) -> Call:
        """The same call with others of the arrays that have a derivative."""
        return self.with_arrays([*self.arrays[: -len(self.floats)], *floats])

    def hollow(self) -> Call:
        """The same call with its arrays' places kept and no data, so that it holds on to none."""
        empty = self.xp.empty((0,), dtype=self.xp.float32, device=self.frame.device)
        return self.with_arrays([empty] * len(self.arrays))

    def _full(self, flat: Flat) -> list[Array]:
        return [self._leading(a, own) for a, own in zip(flat.arrays, flat.axes, strict=True)]

    def _leading(self, array: Array, own: int) -> Array:
        """``array`` with all leading axes before its ``own``."""
        missing = len(self.sizes.lead) + own - array.ndim
        shape = (1,) * missing + tuple(array.shape)
        return self.xp.reshape(array, shape) if missing else array

    def finish(self, result: Array, axes: int) -> Array:
        """``result`` without the head axis, ``axes`` from the end, where the call was 2-D."""
        return self.xp.squeeze(result, axis=-axes) if self.bare else result

    def with_values(self, v: Array) -> Call:
        """The same call with values, checked: what turns weights into an output."""
        v = v[None, ...] if self.bare and hasattr(v, "ndim") and v.ndim == 2 else v
        v = at_autocast_of(self.q, v)
        namespace(q=self.q, v=v)
        check_dtypes(q=self.q, v=v)
        sizes_of(self.q, self.k, v)
        return replace(self, v=v)


def check_values(v: Array | None) -> None:
    """``attend`` and ``partial`` mix values."""
    if v is None:
        raise KindError("v must be an array, but it is None; without values ask weights(q, k, …)")


def check(
    q: Array,
    k: Array,
    v: Array | None,
    mask: Mask | None = None,
    *,
    bias: Score | Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Array | None = None,
    start: Any = None,
    dropout: float = 0.0,
) -> Call:
    """Check every argument, and say of the first wrong one what it should have been."""
    if bias is not None or sink is not None:
        return _checked(q, k, v, mask, bias, scale, softcap, sink, start, dropout)
    form, known = recall(q, k, v, mask, scale, softcap, start, dropout)
    if known is not None:
        refuse_old_vmap(a for a in (q, k, v) if a is not None)
        if known.bare:
            q, k, v = (a if a is None else a[None, ...] for a in (q, k, v))
        call: Call = object.__new__(Call)
        call.__dict__.update(known.__dict__, q=q, k=k, v=v)
        return call
    call = _checked(q, k, v, mask, bias, scale, softcap, sink, start, dropout)
    if form is not None:
        keep(form, call)
    return call


def _checked(
    q: Array,
    k: Array,
    v: Array | None,
    mask: Mask | None,
    bias: Score | Array | None,
    scale: float | None,
    softcap: float | None,
    sink: Array | None,
    start: Any,
    dropout: float,
) -> Call:
    given = {"q": q, "k": k} if v is None else {"q": q, "k": k, "v": v}
    xp = namespace(**given)
    check_dtypes(**given)
    refuse_old_vmap(given.values())
    bare = all(a is None or a.ndim == 2 for a in (q, k, v))
    if bare:
        q, k, v = (a if a is None else a[None, ...] for a in (q, k, v))
    sizes = sizes_of(q, k, v)
    device = array_api_compat.device(q)
    whole = Frame(xp, device, sizes, _start(start, sizes), slice(0, sizes.T), slice(0, sizes.S))
    check_mask(mask)
    mask = None if mask is None else _at_home(mask, whole)
    ranges = None if mask is None else mask.ranges(whole)  # one that does not fit says so now
    bounds = mask.bounds(whole) if mask is not None and ranges is None else ranges
    score = None if bias is None else _score(q, bias, whole)
    rate = check_number("dropout", dropout)
    if not 0 <= rate < 1:
        raise ValueRangeError(f"dropout must be at least 0 and below 1, but {dropout} came")
    return Call(
        q=q,
        k=k,
        v=v,
        mask=mask,
        bias=score,
        scale=1 / math.sqrt(sizes.D) if scale is None else check_number("scale", scale),
        softcap=None if softcap is None else _positive("softcap", softcap),
        sink=None if sink is None else _sink(xp, sink, sizes, device, q),
        dropout=rate,
        seed=0,
        frame=whole,
        ranges=ranges,
        bounds=bounds,
        bare=bare,
    )


def _score(q: Array, bias: Score | Array, frame: Frame) -> Score:
    if not isinstance(bias, Score) and hasattr(bias, "dtype"):
        namespace(q=q, bias=bias)
    score = _at_home(as_score(bias), frame, accumulator(frame.xp, q))
    for array in flatten(score).arrays:
        namespace(q=q, bias=array)
        check_dtypes(bias=array)
        check_devices(q=q, bias=array)
    score.check(frame)
    return score


def _rebuilt(rule: R, arrays: list[Array]) -> R:
    """``rule`` with the first of ``arrays``, which are taken from the list."""
    flat = flatten(rule)
    n = len(flat.arrays)
    own, arrays[:] = arrays[:n], arrays[n:]
    return cast(R, rebuild(flat.with_arrays(own))) if n else rule


def _at_home(rule: R, frame: Frame, dtype: Any = None) -> R:
    """``rule`` with its arrays in the call's library and, a mask's, on its device.

    NumPy's are constants there, as those of ``alibi(8)``: they take ``dtype``.
    """
    flat = flatten(rule)
    if not flat.arrays:
        return rule

    def at_home(array: Array) -> Array:
        if isinstance(array, np.ndarray) and not array_api_compat.is_numpy_namespace(frame.xp):
            # A copy, that the user may change his own before a backward pass reads it.
            own = frame.move(array.copy())
            return own if dtype is None else frame.xp.astype(own, dtype, copy=False)
        return frame.move(array) if isinstance(rule, Mask) else array

    return cast(R, rebuild(flat.with_arrays([at_home(a) for a in flat.arrays])))


def check_number(name: str, value: Any) -> float:
    """``value`` as a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise KindError(f"{name} must be a number, but it is a {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= sys.float_info.max:  # nor NaN, which no comparison holds of
        raise ValueRangeError(f"{name} must be finite, but {number} came")
    return number


def _positive(name: str, value: Any) -> float:
    if (number := check_number(name, value)) <= 0:
        raise ValueRangeError(f"{name} must be above 0, but {value} came")
    return number


def _sink(xp: Any, sink: Any, sizes: Sizes, device: Any, q: Array) -> Array:
    if isinstance(sink, int | float | np.number):
        dtype = accumulator(xp, q)
        return xp.full((sizes.H,), check_number("sink", sink), dtype=dtype, device=device)
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
