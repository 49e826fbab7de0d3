"""How each question is answered strip by strip, in memory that grows with T and S, not T × S."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array
from regard.core import dropout
from regard.core.arrays import scalar
from regard.core.call import Call
from regard.rules.frame import Frame
from regard.rules.masks import Mask
from regard.rules.scores import Place


@dataclass(frozen=True)
class Strip:
    """The weights of some queries over a run of keys; the keys left out have weight 0."""

    call: Call
    frame: Frame
    weights: Array
    """(…, H, t, w)"""
    lse: Array
    """(…, H, t)"""
    sink: Array | None
    """(…, H, t) the sink's own weight."""
    mix: Callable[[Array], Array]
    """Weights (…, H, t, w) to the values of these keys mixed by them, (…, H, t, E)."""


@dataclass(frozen=True)
class Output:
    """How one array of a pass comes from its parts, one a strip."""

    shape: Callable[[Array], tuple[int, ...]]
    """The whole's, from the first part."""
    mode: Literal["put", "add", "max"]
    """What a part does where it lies in the whole: each of its places is met once, or often."""
    sums: Any = None
    """The dtype that the whole is made in; the part's unless given."""
    dtype: Any = None
    """The dtype that it is returned in; the part's unless given."""
    smooth: bool = True
    """Whether it has a derivative."""


class Reducer(ABC):
    """Takes each strip to a small part, which has its place in one answer."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame

    @abstractmethod
    def outputs(self) -> list[Output]:
        """How the arrays of the answer are made."""

    @abstractmethod
    def part(self, strip: Strip) -> tuple[Array, ...]:
        """What is kept of a strip: a pure function, so that autograd may compute it again."""

    @abstractmethod
    def at(self, frame: Frame) -> Place:
        """Where the parts of the strip over ``frame`` lie in the whole."""

    def result(self, *wholes: Array) -> Any:
        """The answer from the whole arrays; one array unless said otherwise."""
        (only,) = wholes
        return only


class PerQuery(Reducer):
    """An answer with a row for each query: the parts lie one after another."""

    axis = -1
    """Where the queries are, counted from the end."""
    smooth: tuple[bool, ...] = (True,)
    """One entry an array: whether it has a derivative."""

    def outputs(self) -> list[Output]:
        return [Output(self._whole, "put", smooth=smooth) for smooth in self.smooth]

    def at(self, frame: Frame) -> Place:
        return (..., frame.rows, *[slice(None)] * (-1 - self.axis))

    def _whole(self, part: Array) -> tuple[int, ...]:
        order, shape = self.frame.order, list(part.shape)
        shape[self.axis] = self.frame.sizes.T if order is None else len(order)
        return tuple(shape)


class Mixed(PerQuery):
    """(…, H, T, E) the output: Σ_j w_ij v_j, with the dropout of the call."""

    axis = -2

    def __init__(self, call: Call) -> None:
        super().__init__(call.frame)
        assert call.v is not None
        self.dtype = call.v.dtype

    def outputs(self) -> list[Output]:
        return [Output(self._whole, "put", dtype=self.dtype)]

    def part(self, strip: Strip) -> tuple[Array, ...]:
        call, w = strip.call, strip.weights
        if call.dropout:
            w = w * dropout.kept(strip.frame, call.dropout, call.seed, w.dtype)
        return (strip.mix(w),)


class Lse(PerQuery):
    """(…, H, T) the logarithm of each row's normaliser."""

    def part(self, strip: Strip) -> tuple[Array, ...]:
        return (strip.lse,)


class Entries(PerQuery):
    """(…, H, t, n) the weights on ``keys`` themselves."""

    axis = -2

    def __init__(self, frame: Frame, keys: NDArray[np.int64]) -> None:
        super().__init__(frame)
        self.keys = keys

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp, at = self.frame.xp, strip.frame.keys
        inside = (self.keys >= at.start) & (self.keys < at.stop)
        if not inside.any():
            shape = (*strip.weights.shape[:-1], len(self.keys))
            return (xp.zeros(shape, dtype=strip.weights.dtype, device=self.frame.device),)
        index = self.frame.move(np.where(inside, self.keys - at.start, 0))
        picked = xp.take(strip.weights, index, axis=-1)
        return (xp.where(self.frame.move(inside), picked, scalar(picked, 0.0)),)


class Strongest(PerQuery):
    """The k largest weights of each query, and their keys."""

    axis = -2
    smooth = (True, False)

    def __init__(self, frame: Frame, k: int, answer: Callable[[Array, Array], Any]) -> None:
        super().__init__(frame)
        self.k = k
        self.result = answer  # type: ignore[method-assign]

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp, w = self.frame.xp, strip.weights
        values, index = largest(xp, w, min(self.k, w.shape[-1]))
        none = xp.full((), -1, dtype=index.dtype, device=self.frame.device)
        index = xp.where(values > 0, index + strip.frame.keys.start, none)
        if missing := self.k - values.shape[-1]:
            shape = (*values.shape[:-1], missing)
            more = {"device": self.frame.device}
            values = xp.concat([values, xp.zeros(shape, dtype=values.dtype, **more)], axis=-1)
            index = xp.concat([index, xp.full(shape, -1, dtype=index.dtype, **more)], axis=-1)
        return values, index


class Entropy(PerQuery):
    """−Σ w ln w over keys and sink."""

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp = self.frame.xp
        total = xp.sum(_surprise(xp, strip.weights), axis=-1)
        if strip.sink is not None:
            total = total + _surprise(xp, strip.sink)
        return (-total,)


def _surprise(xp: Any, w: Array) -> Array:
    """The terms w ln w, 0 at 0: there the logarithm of the smallest number stands in."""
    tiny = scalar(w, xp.finfo(w.dtype).smallest_normal)
    return w * xp.log(xp.maximum(w, tiny))


class Mass(PerQuery):
    """The weight on a set of keys."""

    def __init__(self, frame: Frame, keys: NDArray[np.int64]) -> None:
        super().__init__(frame)
        self.keys = keys

    def part(self, strip: Strip) -> tuple[Array, ...]:
        at = strip.frame.keys
        inside = self.keys[(self.keys >= at.start) & (self.keys < at.stop)] - at.start
        picked = self.frame.xp.take(strip.weights, self.frame.move(inside), axis=-1)
        return (self.frame.xp.sum(picked, axis=-1),)


class Among(PerQuery):
    """The weight on the keys that a mask allows."""

    def __init__(self, frame: Frame, mask: Mask) -> None:
        super().__init__(frame)
        self.mask = mask

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp, w = self.frame.xp, strip.weights
        return (xp.sum(xp.where(self.mask.strip(strip.frame), w, scalar(w, 0.0)), axis=-1),)


class Total(Reducer):
    """An answer that all strips add to; summed in float64, since many rows may add up."""

    def outputs(self) -> list[Output]:
        return [Output(self._whole, "add", sums=self.frame.xp.float64)]

    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The last axes of the whole."""

    def _whole(self, part: Array) -> tuple[int, ...]:
        axes = self.shape()
        return (*part.shape[: part.ndim - len(axes)], *axes)


class Received(Total):
    """Σ over the queries of each key's weights."""

    def part(self, strip: Strip) -> tuple[Array, ...]:
        return (self.frame.xp.sum(strip.weights, axis=-2),)

    def shape(self) -> tuple[int, ...]:
        return (self.frame.sizes.S,)

    def at(self, frame: Frame) -> Place:
        return (..., frame.keys)


class Carried(Total):
    """Σ over the queries of each key's weights, every query counted as much as ``by`` says."""

    def __init__(self, frame: Frame, by: NDArray[np.float64]) -> None:
        super().__init__(frame)
        self.by = by

    def part(self, strip: Strip) -> tuple[Array, ...]:
        xp, w = self.frame.xp, strip.weights
        rows = self.by[..., strip.frame.query_index()].astype(np.float64)
        u = xp.astype(self.frame.move(np.atleast_2d(rows)), w.dtype)
        carried = u @ w
        return (carried if self.by.ndim == 2 else carried[..., 0, :],)

    def shape(self) -> tuple[int, ...]:
        return (*self.by.shape[:-1], self.frame.sizes.S)

    def at(self, frame: Frame) -> Place:
        return (..., frame.keys)


class Diagonals(Total):
    """Σ along each diagonal of the matrix."""

    def __init__(self, frame: Frame, answer: Callable[[Array, Array], Any]) -> None:
        super().__init__(frame)
        self.answer = answer

    def part(self, strip: Strip) -> tuple[Array, ...]:
        # With the keys reversed, a diagonal runs down to the left.  Rows that are t zeros longer,
        # read again as rows that are one shorter than that, move one step right each: then the
        # diagonals stand upright, and the sum over the rows is the sum along each.
        xp, w = self.frame.xp, self.frame.xp.flip(strip.weights, axis=-1)
        t, width = w.shape[-2:]
        if t == 0 or width == 0:
            return (xp.sum(w, axis=-2),)
        pad = xp.zeros((*w.shape[:-1], t), dtype=w.dtype, device=self.frame.device)
        flat = xp.reshape(xp.concat([w, pad], axis=-1), (*w.shape[:-2], t * (width + t)))
        upright = xp.reshape(flat[..., : t * (width + t - 1)], (*w.shape[:-1], width + t - 1))
        return (xp.sum(upright, axis=-2),)

    def shape(self) -> tuple[int, ...]:
        return (max(self.frame.sizes.T + self.frame.sizes.S - 1, 0),)

    def at(self, frame: Frame) -> Place:
        # of i − j, counted from −(S − 1)
        first = frame.rows.start - frame.keys.stop + self.frame.sizes.S
        rows, width = (part.stop - part.start for part in (frame.rows, frame.keys))
        return (..., slice(first, first + (rows + width - 1 if rows and width else width)))

    def result(self, *wholes: Array) -> Any:
        T, S = self.frame.sizes.T, self.frame.sizes.S
        distance = np.asarray(self.frame.start)[..., None] + np.arange(1 - S, max(T, 1 - S))
        return self.answer(self.frame.move(distance), *wholes)


def largest(xp: Any, w: Array, k: int) -> tuple[Array, Array]:
    """The k largest of the last axis, largest first, and where they are."""
    if array_api_compat.is_torch_array(w):
        return tuple(w.topk(k, dim=-1))  # type: ignore[return-value]
    if array_api_compat.is_numpy_array(w) and k < w.shape[-1]:
        index = np.argpartition(w, -k, axis=-1)[..., w.shape[-1] - k :]
        order = np.argsort(-np.take_along_axis(w, index, -1), axis=-1, kind="stable")
        index = np.take_along_axis(index, order, -1)
    else:
        index = xp.argsort(w, axis=-1, descending=True)[..., :k]
    return xp.take_along_axis(w, index, axis=-1), index
