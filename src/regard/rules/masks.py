"""Who may attend to whom, as values: ``causal() & window(128) | prefix(4)``.

True means "may attend", everywhere.  A mask holds no n × n array and no alignment of its own: it
is asked for the key ranges of a call's queries (``ranges``), or, where it has no such form, for
one strip of the matrix at a time (``strip``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError
from regard._shapes import Array, check_fits, dtype_name, times
from regard._words import Language
from regard.rules.frame import Frame
from regard.rules.ranges import Ranges
from regard.rules.rule import Rule
from regard.rules.scores import Score

FARTHEST = 1 << 40
"""A window that reaches so far reaches everything, and sums of positions stay within 64 bits."""


class Mask(Rule):
    """A rule that says, for any query and key, whether the query may attend to the key.

    Masks compose: ``a & b`` allows what both allow, ``a | b`` what either allows, ``~a`` the rest.
    """

    def ranges(self, frame: Frame) -> Ranges | None:
        """The keys that each query of ``frame`` may attend to, or None if not of that form.

        Raises an error that says so if the rule does not fit the call.
        """
        return None

    def bounds(self, frame: Frame) -> Ranges | None:
        """Ranges that hold all allowed keys and perhaps more; None if nothing is known."""
        return self.ranges(frame)

    def strip(self, frame: Frame) -> Array:
        """The rule over ``frame``: a boolean array that broadcasts to (…, H, t, w)."""
        ranges = self.ranges(frame)
        assert ranges is not None, f"{type(self).__name__} has neither ranges nor a strip"
        return strip_of(ranges, frame)

    def sentence(self, lang: Language = "en") -> str:
        """The rule in one plain sentence, in English or Chinese."""
        from regard.rules.sentences import sentence

        return sentence(self, lang)

    def __and__(self, other: Mask) -> Mask:
        check_mask(other, missing=False)
        return And(self, other)

    def __or__(self, other: Mask) -> Mask:
        check_mask(other, missing=False)
        return Or(self, other)

    __rand__, __ror__ = __and__, __or__
    __array_ufunc__ = None
    """NumPy leaves ``array & mask`` to us, and so to a clear word."""

    def __invert__(self) -> Mask:
        return self.rule if isinstance(self, Not) else Not(self)

    def __bool__(self) -> bool:
        raise KindError(
            "a mask has no truth value of its own; join masks with & | ~, not with 'and', 'or', "
            "'not', and test for a missing one with 'mask is None'"
        )


def strip_of(ranges: Ranges, frame: Frame) -> Array:
    """The strip that ``ranges`` allow over the keys of ``frame``: (t, w) or (…, 1, t, w)."""
    start, stop = frame.move(ranges.start), frame.move(ranges.stop)
    if ranges.start.ndim > 2:  # one row of ranges per batch entry: make room for the heads
        start, stop = start[..., None, :, :], stop[..., None, :, :]
    keys = frame.move(frame.key_positions())
    allowed = (keys >= start[..., 0:1]) & (keys < stop[..., 0:1])
    for i in range(1, ranges.start.shape[-1]):
        one = slice(i, i + 1)
        allowed = allowed | ((keys >= start[..., one]) & (keys < stop[..., one]))
    return allowed


@dataclass(frozen=True, eq=False)
class Causal(Mask):
    """See :func:`causal`.  There is one for all: a small call has no time to compare it."""

    _only: ClassVar[Causal | None] = None

    def __new__(cls) -> Causal:
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def ranges(self, frame: Frame) -> Ranges:
        at = frame.query_positions()
        return Ranges.of(np.zeros_like(at), at + 1, frame.sizes.S)

    def __repr__(self) -> str:
        return "causal()"


@dataclass(frozen=True)
class Window(Mask):
    """See :func:`window`."""

    before: int
    after: int
    numbers = ("before", "after")

    def ranges(self, frame: Frame) -> Ranges:
        at = frame.query_positions()
        before, after = min(self.before, FARTHEST), min(self.after, FARTHEST)
        return Ranges.of(at - before, at + after + 1, frame.sizes.S)

    def __repr__(self) -> str:
        if self.after == 0:
            return f"window({self.before + 1})"
        return f"window(before={self.before}, after={self.after})"


@dataclass(frozen=True)
class Prefix(Mask):
    """See :func:`prefix`."""

    n: int
    numbers = ("n",)

    def ranges(self, frame: Frame) -> Ranges:
        zeros = np.zeros_like(frame.query_positions())
        return Ranges.of(zeros, zeros + min(self.n, frame.sizes.S), frame.sizes.S)

    def __repr__(self) -> str:
        return f"prefix({self.n})"


@dataclass(frozen=True, eq=False, repr=False)
class Lengths(Mask):
    """See :func:`lengths`."""

    stop: NDArray[np.int64]
    start: NDArray[np.int64]
    positions = ("stop", "start")

    def ranges(self, frame: Frame) -> Ranges:
        S = frame.sizes.S
        start = frame.per_batch("start of lengths(stop, start)", self.start)
        stop = frame.per_batch("stop of lengths(stop, start)", self.stop)
        largest = max(np.max(stop, initial=0), np.max(start, initial=0))
        if largest > S:
            raise ShapeError(
                f"lengths(stop, start) must count keys from 0 to S = {S}, but {largest} came; "
                "they are counts of the keys in this call"
            )
        zeros = np.zeros(len(frame.query_index()), np.int64)
        return Ranges.of(zeros + start[..., None], zeros + stop[..., None], S)

    def __repr__(self) -> str:
        stop = np.array2string(self.stop, separator=", ", threshold=8)
        start = np.array2string(self.start, separator=", ", threshold=8)
        return f"lengths({stop})" if not self.start.any() else f"lengths({stop}, start={start})"


@dataclass(frozen=True, eq=False, repr=False)
class Spans(Mask):
    """Each query's own one range of keys, [start, stop): what a dense mask often turns out to be.

    ``start`` and ``stop`` have shape (T,) or (…, T) and go with the query's number, not position.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    positions = ("start", "stop")

    def ranges(self, frame: Frame) -> Ranges:
        T = frame.sizes.T
        if self.start.shape[-1] != T:
            raise ShapeError(f"this mask has {self.start.shape[-1]} rows, but the call has T = {T}")
        rows = frame.query_index()
        return Ranges.of(self.start[..., rows], self.stop[..., rows], frame.sizes.S)

    def __repr__(self) -> str:
        return f"Spans(<{times(self.start.shape)} ranges>)"


@dataclass(frozen=True, eq=False, repr=False)
class Keep(Mask):
    """See :func:`keep`."""

    array: Array
    arrays: ClassVar[dict[str, int]] = {"array": 3}

    def ranges(self, frame: Frame) -> None:
        check_fits("the array of keep(array)", self.array, frame.sizes)

    def strip(self, frame: Frame) -> Array:
        return frame.slice_dense(self.array)

    def __repr__(self) -> str:
        return f"keep(<{times(self.array.shape)} bool>)"


@dataclass(frozen=True)
class Where(Mask):
    """See :func:`where`."""

    fn: Callable[[Array, Array], Array]
    functions = ("fn",)

    def strip(self, frame: Frame) -> Array:
        queries = frame.move(frame.query_positions()[..., None])
        if queries.ndim > 2:
            queries = queries[..., None, :, :]
        keys = frame.move(frame.key_positions())
        allowed = self.fn(queries, keys)
        if isinstance(allowed, bool | np.bool_):
            allowed = frame.xp.full((), bool(allowed), dtype=frame.xp.bool, device=frame.device)
        check_booleans(allowed)
        return frame.xp.broadcast_to(allowed, self._shape(allowed, queries, keys))

    def _shape(self, allowed: Array, queries: Array, keys: Array) -> tuple[int, ...]:
        expected = (*queries.shape[:-1], *keys.shape)
        try:
            fits = np.broadcast_shapes(allowed.shape, expected) == expected
        except ValueError:
            fits = False
        if not fits:
            raise ShapeError(
                f"the function of where(fn) must return the shape that its arguments broadcast to, "
                f"{expected}, but it returned {tuple(allowed.shape)}"
            )
        return expected

    def __repr__(self) -> str:
        return f"where({getattr(self.fn, '__name__', repr(self.fn))})"


@dataclass(frozen=True)
class Pair(Mask, ABC):
    """Two masks joined by a sign, which joins their ranges and their strips alike."""

    left: Mask
    right: Mask
    sign: ClassVar[str]
    rules = ("left", "right")

    @abstractmethod
    def join(self, a: Any, b: Any) -> Any:
        """What the sign makes of two ranges, or of two boolean arrays."""

    def ranges(self, frame: Frame) -> Ranges | None:
        return self._known(self.left.ranges(frame), self.right.ranges(frame))

    def bounds(self, frame: Frame) -> Ranges | None:
        return self._known(self.left.bounds(frame), self.right.bounds(frame))

    def strip(self, frame: Frame) -> Array:
        return self.join(self.left.strip(frame), self.right.strip(frame))

    def _known(self, a: Ranges | None, b: Ranges | None) -> Ranges | None:
        if a is None or b is None:
            return None
        joined: Ranges = self.join(a, b)
        return joined

    def __repr__(self) -> str:
        return f"{_inside(self.left, type(self))} {self.sign} {_inside(self.right, type(self))}"


@dataclass(frozen=True, repr=False)
class And(Pair):
    """What both allow."""

    sign = "&"

    def join(self, a: Any, b: Any) -> Any:
        return a & b

    def bounds(self, frame: Frame) -> Ranges | None:
        a, b = self.left.bounds(frame), self.right.bounds(frame)
        return b if a is None else a if b is None else a & b


@dataclass(frozen=True, repr=False)
class Or(Pair):
    """What either allows."""

    sign = "|"

    def join(self, a: Any, b: Any) -> Any:
        return a | b


@dataclass(frozen=True)
class Not(Mask):
    """What the rule does not allow."""

    rule: Mask
    rules = ("rule",)

    def ranges(self, frame: Frame) -> Ranges | None:
        inner = self.rule.ranges(frame)
        return None if inner is None else ~inner

    def strip(self, frame: Frame) -> Array:
        return ~self.rule.strip(frame)

    def __repr__(self) -> str:
        return f"~{_inside(self.rule, Not)}"


def check_booleans(allowed: object) -> None:
    """Whether a key is seen is True or False, not a number."""
    if not hasattr(allowed, "dtype") or dtype_name(allowed) != "bool":
        came = getattr(allowed, "dtype", type(allowed).__name__)
        raise KindError(
            f"the function of where(fn) must return booleans, but it returned {came}; compare "
            "its numbers: (i - j) % 2 == 0"
        )


def _inside(rule: Mask, outer: type[Mask]) -> str:
    """The rule's repr, in brackets where it joins others by another sign than ``outer``."""
    return (
        f"({rule!r})" if isinstance(rule, And | Or) and not isinstance(rule, outer) else repr(rule)
    )


def check_mask(mask: object, missing: bool = True) -> None:
    """A mask is a value: refuse a raw array with the remedy, since its True could mean either."""
    if (mask is None and missing) or isinstance(mask, Mask):
        return
    if isinstance(mask, Score):
        raise KindError(f"{mask!r} is added to the scores: pass it as bias=, not as a mask")
    if hasattr(mask, "shape") and hasattr(mask, "dtype"):
        if dtype_name(mask) == "bool":
            raise KindError(
                "mask must be a mask value, but it is a raw bool array, whose True means 'may "
                "attend' in some libraries and 'hidden' in others; pass keep(array) if True means "
                "may attend, ~keep(array) if it means hidden"
            )
        raise KindError(
            f"mask must be a mask value, but it is an array of {dtype_name(mask)}; an array that "
            "is added to the scores is a bias: bias=array; a 0/1 array is keep(array == 1)"
        )
    raise KindError(
        f"mask must be a mask value such as causal() or keep(array), but it is a "
        f"{type(mask).__name__}"
    )
