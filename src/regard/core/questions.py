"""Questions to the weights, as values: many of them are answered in one pass over the matrix.

``W.ask(topk(8), entropy(), received())`` goes through the T × S weights once, a strip of rows at a
time, and keeps of each strip only what the questions need.  A question makes a ``Reducer`` for a
call; the reducer turns each strip into a small part, and joins the parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import Array, count, rectangular
from regard.core.pixels import Pixels
from regard.core.reducers import (
    Among,
    Carried,
    Diagonals,
    Entropy,
    Mass,
    Received,
    Reducer,
    Strongest,
)
from regard.rules.frame import Frame
from regard.rules.masks import Mask


class Question(ABC):
    """Something to ask of the weights; see :meth:`regard.Weights.ask`."""

    @abstractmethod
    def reducer(self, frame: Frame) -> Reducer:
        """What answers the question over the matrix of ``frame``."""


class TopK(NamedTuple):
    """The answer to :func:`topk`."""

    weights: Array
    """(…, H, T, k) the largest weights of each query, largest first; 0 where there are fewer."""
    keys: Array
    """(…, H, T, k) which keys they lie on; −1 where fewer than k have a weight above 0."""


class ByDistance(NamedTuple):
    """The answer to :func:`by_distance`."""

    distance: Array
    """(N,), or (…, N) if ``start`` differs by batch entry: position of query − position of key."""
    weight: Array
    """(…, H, N) the sum of all weights at that distance; N = T + S − 1."""


@dataclass(frozen=True)
class topk(Question):
    """The k strongest keys of each query: weights and keys, (…, H, T, k) each.

    ::

        weights_i1 ≥ weights_i2 ≥ …,    weights_in = w[i, keys_in]

    Equal weights may come in any order.

    Raises:
        ValueRangeError: k below 1.
        KindError: a k that is no whole number.

    >>> import numpy as np, regard
    >>> W = regard.weights(np.eye(3), np.eye(3), scale=4.0)
    >>> W.topk(1).keys[:, 0].tolist()
    [0, 1, 2]
    """

    k: int

    def __post_init__(self) -> None:
        count("k", self.k, at_least=1)

    def reducer(self, frame: Frame) -> Reducer:
        return Strongest(frame, self.k, TopK)


@dataclass(frozen=True)
class entropy(Question):
    """How spread each query's weights are, in nats, (…, H, T).

    ::

        entropy_i = −Σ_j w_ij ln w_ij      (over the keys and the sink)

    It is 0 where all weight lies on one key, ln n where it is even over n, and 0 for a query that
    may attend to nothing.

    Source: Clark et al. 2019, section 3.3.

    >>> import numpy as np, regard
    >>> W = regard.weights(np.zeros((1, 4)), np.zeros((8, 4)))
    >>> bool(np.isclose(W.entropy(), np.log(8)))
    True
    """

    def reducer(self, frame: Frame) -> Reducer:
        return Entropy(frame)


@dataclass(frozen=True, eq=False)
class received(Question):
    """The weight each key receives, summed over the queries, (…, H, S).

    ::

        received_j = Σ_i w_ij
        received_nj = Σ_i by_ni w_ij

    Args:
        by: (T,) or (N, T), how much each query counts, once or in N ways; 1 each unless given.
            With N ways the answer is (…, H, N, S).

    Raises:
        KindError: a ``by`` that is no array of numbers.
        ShapeError: a ``by`` that has not one number a query.

    Source: Zhang et al. 2023 (H2O), section 3.2.

    >>> import numpy as np, regard
    >>> W = regard.weights(np.zeros((6, 4)), np.zeros((3, 4)))
    >>> W.received().round(6).tolist()
    [2.0, 2.0, 2.0]
    >>> W.received(by=[0, 0, 0, 0, 0, 3]).round(6).tolist()
    [1.0, 1.0, 1.0]
    """

    by: Any = None

    def reducer(self, frame: Frame) -> Reducer:
        if self.by is None:
            return Received(frame)
        by = rectangular("by", self.by.detach().cpu() if hasattr(self.by, "detach") else self.by)
        if by.dtype.kind not in "biuf":
            raise KindError(f"by of received(by) must be numbers, but it is {by.dtype}")
        if by.ndim not in (1, 2) or by.shape[-1] != frame.sizes.T:
            raise ShapeError(
                f"by of received(by) must be (T,) or (N, T) with T = {frame.sizes.T} queries, but "
                f"its shape is {by.shape}"
            )
        return Carried(frame, by.astype(np.float64))


@dataclass(frozen=True)
class by_distance(Question):
    """How much weight lies at each distance, position of query − position of key.

    ::

        weight_d = Σ_{i − j = d} w_ij

    Distance 0 is the query itself, 1 the key before it, −1 the key after it.

    Source: Clark et al. 2019, section 3.1.

    >>> import numpy as np, regard
    >>> found = regard.weights(np.eye(3), np.eye(3), regard.window(1)).by_distance()
    >>> dict(zip(found.distance.tolist(), found.weight.tolist()))[0]
    3.0
    """

    def reducer(self, frame: Frame) -> Reducer:
        return Diagonals(frame, ByDistance)


@dataclass(frozen=True, eq=False)
class mass(Question):
    """The weight each query puts on a set of keys, (…, H, T).

    ::

        mass_i = Σ_{j in keys} w_ij

    Args:
        keys: a number, a list of numbers, a slice, or a bool array (S,); or a mask, for a set of
            each query's own: ``mass(window(8))``.

    Raises:
        KindError: keys that are no whole numbers.
        ValueRangeError: keys that are not there.

    Source: Xiao et al. 2024 (StreamingLLM), section 3.1.

    >>> import numpy as np, regard
    >>> W = regard.weights(np.zeros((2, 4)), np.zeros((4, 4)))
    >>> W.mass(0).tolist(), W.mass(slice(2, None)).tolist()
    ([0.25, 0.25], [0.5, 0.5])
    >>> W.mass(regard.window(1)).tolist()
    [0.25, 0.25]
    """

    keys: Any

    def reducer(self, frame: Frame) -> Reducer:
        if isinstance(self.keys, Mask):
            self.keys.ranges(frame)  # one that does not fit says so now
            return Among(frame, self.keys)
        chosen = np.zeros(frame.sizes.S, bool)
        keys = self.keys.detach().cpu() if hasattr(self.keys, "detach") else self.keys
        keys = keys if isinstance(keys, slice) else rectangular("keys", keys)
        if not isinstance(keys, slice) and keys.dtype.kind not in "iub" and keys.size:
            raise KindError(f"keys of mass(keys) must be whole numbers, but they are {keys.dtype}")
        try:
            chosen[keys if isinstance(keys, slice) or keys.size else []] = True
        except IndexError as error:
            raise ValueRangeError(f"keys of mass(keys) must lie in 0 … S−1: {error}") from None
        except TypeError:
            raise KindError(f"keys of mass(keys) must be whole numbers, not {keys!r}") from None
        return Mass(frame, np.flatnonzero(chosen))


@dataclass(frozen=True, eq=False)
class image(Question):
    """A picture of the matrix of at most height × width pixels, (…, H, height, width).

    Every pixel but those of the last row and column stands for a block of the same size:
    ceil(queries ÷ height) by ceil(keys ÷ width) weights, so a small matrix gives a smaller picture.

    Args:
        rows, keys: slices of the matrix to draw; all of it unless given.
        reduce: ``"mean"``, ``"max"`` or ``"sum"`` of the block's weights.  The gradient of a
            largest weight is shared by all that are it, not always evenly (torch).

    Raises:
        ValueRangeError: a height or width below 1, or another word for ``reduce``.
        KindError, ShapeError: rows or keys that are no slice, or hold nothing.

    >>> import numpy as np, regard
    >>> W = regard.weights(np.zeros((4, 4)), np.zeros((4, 4)), regard.causal())
    >>> W.image(2, 2, reduce="sum").round(3).tolist()
    [[2.0, 0.0], [1.167, 0.833]]
    """

    height: int
    width: int
    rows: slice | None = None
    keys: slice | None = None
    reduce: Literal["mean", "max", "sum"] = "mean"

    def __post_init__(self) -> None:
        count("height", self.height, at_least=1)
        count("width", self.width, at_least=1)
        if self.reduce not in ("mean", "max", "sum"):
            raise ValueRangeError(
                f"reduce must be 'mean', 'max' or 'sum', but it is {self.reduce!r}"
            )

    def reducer(self, frame: Frame) -> Reducer:
        rows = _plain("rows", self.rows, frame.sizes.T)
        keys = _plain("keys", self.keys, frame.sizes.S)
        return Pixels(frame, (self.height, self.width), rows, keys, self.reduce)


def _plain(name: str, part: slice | None, n: int) -> slice:
    part = slice(None) if part is None else part
    if not isinstance(part, slice) or part.step not in (None, 1):
        raise KindError(f"{name} of image(…) must be a slice without a step, but it is {part!r}")
    try:
        first, last, _ = part.indices(n)
    except TypeError:
        raise KindError(f"{name} must have whole bounds, but it is {part!r}") from None
    if last <= first:
        raise ShapeError(f"{name} of image(…) must hold something of 0 … {n - 1}, not {part!r}")
    return slice(first, last)
