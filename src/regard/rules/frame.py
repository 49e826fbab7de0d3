"""Where a strip of the weights lies: which queries, which keys, and what positions they have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard._shapes import Array, Sizes


@dataclass(frozen=True)
class Frame:
    """The queries ``rows`` by the keys ``keys`` of one call.

    Position belongs to the call: query i stands at ``start + i`` among the keys 0 … S−1, with
    ``start`` an int or one per batch entry.  No rule has an alignment of its own.
    """

    xp: Any
    device: Any
    sizes: Sizes
    start: int | NDArray[np.int64]
    rows: slice
    """With plain bounds: of all queries, or of ``order``."""
    keys: slice
    order: NDArray[np.int64] | None = None
    """The numbers of the queries that are asked for, where these are not all."""

    def cut(self, rows: slice, keys: slice) -> Frame:
        """The same call's frame over other queries and keys."""
        return replace(self, rows=rows, keys=keys)

    def query_index(self) -> NDArray[np.int64]:
        """(t,) the numbers of the queries, from 0."""
        if self.order is not None:
            return self.order[self.rows]
        return np.arange(self.rows.start, self.rows.stop, dtype=np.int64)

    def query_positions(self) -> NDArray[np.int64]:
        """(t,), or (…, t) where each batch entry has its own start."""
        return np.asarray(self.start, dtype=np.int64)[..., None] + self.query_index()

    def key_positions(self) -> NDArray[np.int64]:
        """(w,) the numbers of the keys, which are their positions."""
        return np.arange(self.keys.start, self.keys.stop, dtype=np.int64)

    def per_batch(self, name: str, value: int | NDArray[np.int64]) -> NDArray[np.int64]:
        """``value`` as () or as (…,), one per batch entry; () is not copied to every entry."""
        array = np.asarray(value, dtype=np.int64)
        if array.ndim and array.shape != self.sizes.lead:
            raise ShapeError(
                f"{name} must be one number or one per batch entry, of shape {self.sizes.lead}, "
                f"but its shape is {array.shape}"
            )
        return array

    def move(self, array: Array) -> Array:
        """``array`` in the call's library and on its device."""
        if isinstance(array, np.ndarray):
            # Torch takes no array that is read-only or runs backwards.
            plain = array.flags.writeable and min(array.strides, default=0) >= 0
            return self.xp.asarray(array if plain else array.copy(), device=self.device)
        same = type(array).__module__.partition(".")[0] in self.xp.__name__
        return self.xp.asarray(array if same else np.asarray(array), device=self.device)

    def place(self, array: Array) -> tuple[Any, ...]:
        """Where the frame's rows and keys lie in an array that broadcasts to (…, H, T, S)."""
        rows = slice(None) if array.shape[-2] == 1 else self.rows
        keys = slice(None) if array.shape[-1] == 1 else self.keys
        return (..., rows, keys)

    def slice_dense(self, array: Array) -> Array:
        """The frame's part of such an array, which has a row for every query of the call."""
        rows, keys = self.place(array)[1:]
        if self.order is None or array.shape[-2] == 1:
            return array[..., rows, keys]
        return self.xp.take(array[..., keys], self.move(self.query_index()), axis=-2)
