"""The keys and values of the tokens so far, so that a new one costs one row and not a triangle."""

from __future__ import annotations

import torch
from torch import Tensor

from regard._errors import ShapeError, ValueRangeError
from regard._shapes import count
from regard.rules.make import lengths
from regard.rules.masks import Mask


class Cache:
    """Keys and values (B, G, S, D) of one attention, which grow as tokens come.

    Room is made for half as many again when it runs out, so that n tokens copy O(n) in all.

    >>> cache = Cache()
    >>> k = torch.zeros(1, 2, 3, 4)
    >>> keys, values, mask, start = cache.add(k, k, None)
    >>> keys.shape, start, cache.length
    (torch.Size([1, 2, 3, 4]), 0, 3)
    """

    def __init__(self) -> None:
        self.length = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    def add(
        self, k: Tensor, v: Tensor, mask: Mask | None
    ) -> tuple[Tensor, Tensor, Mask | None, int]:
        """All keys and values with these after them, the mask, and where the first of these is."""
        start, end = self.length, self.length + k.shape[-2]
        if self._k is None or self._v is None:
            self._k, self._v = k, v
        else:
            if k.shape[:2] != self._k.shape[:2]:
                raise ShapeError(
                    f"the cache holds batch and heads {tuple(self._k.shape[:2])}, but "
                    f"{tuple(k.shape[:2])} came; begin another text with a new cache"
                )
            if end > self._k.shape[-2]:
                room = max(end, start + start // 2 + 16)
                self._k, self._v = (_roomier(a, start, room) for a in (self._k, self._v))
            self._k, self._v = _put(self._k, k, start), _put(self._v, v, start)
        self.length = end
        return self._k[..., :end, :], self._v[..., :end, :], mask, start

    def select(self, entries: Tensor) -> None:
        """Keep these batch entries, in this order: what a beam search needs."""
        if self._k is not None and self._v is not None:
            self._k, self._v = self._k[entries], self._v[entries]


class StaticCache(Cache):
    """A cache of ``slots`` places that are there from the start: shapes never change.

    Empty slots are hidden by ``lengths``.

    Raises:
        ValueRangeError: in use, more tokens than slots.
    """

    def __init__(self, slots: int) -> None:
        super().__init__()
        self.slots = count("slots", slots, 1)

    def add(
        self, k: Tensor, v: Tensor, mask: Mask | None
    ) -> tuple[Tensor, Tensor, Mask | None, int]:
        """All slots, and a mask that hides the empty ones besides."""
        start, end = self.length, self.length + k.shape[-2]
        if end > self.slots:
            raise ValueRangeError(
                f"the cache has {self.slots} slots, but {end} tokens came; make it longer, or use "
                "Cache(), which grows"
            )
        if self._k is None or self._v is None:
            self._k, self._v = (_roomier(a[..., :0, :], 0, self.slots) for a in (k, v))
        self._k, self._v = _put(self._k, k, start), _put(self._v, v, start)
        self.length = end
        there = lengths(end)
        return self._k, self._v, there if mask is None else mask & there, start


def _roomier(a: Tensor, length: int, room: int) -> Tensor:
    """The first ``length`` places of ``a``, and zeros up to ``room``."""
    more = a.new_zeros((*a.shape[:-2], room - length, a.shape[-1]))
    return torch.cat([a[..., :length, :], more], -2)


def _put(whole: Tensor, part: Tensor, start: int) -> Tensor:
    """``whole`` with ``part`` from ``start`` on: in place, unless a gradient wants both."""
    end = start + part.shape[-2]
    if whole.requires_grad or part.requires_grad:
        return torch.cat([whole[..., :start, :], part, whole[..., end:, :]], -2)
    whole[..., start:end, :] = part
    return whole


class Memory:
    """The keys and values of a cross attention, which are computed once and read at every step."""

    def __init__(self) -> None:
        self.held: tuple[Tensor, Tensor] | None = None

    def select(self, entries: Tensor) -> None:
        """As :meth:`Cache.select`."""
        if self.held is not None:
            self.held = (self.held[0][entries], self.held[1][entries])
