"""Reads the dense masks that models hand to their kernels back into rules.

A model builds a (B, 1, T, S) array to say "causal, and the first three are padding".  Nearly always
each query's keys are one run, which takes two numbers a query, so the recording keeps those and
lets go of the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.rules import Mask, keep
from regard.rules.masks import Spans

CHUNK = 1 << 22
"""Entries that are looked at together, so that reading a mask takes no second one."""


class Masks:
    """The masks of one run: layers share them, so each is read once."""

    def __init__(self) -> None:
        self._read: list[tuple[Any, tuple[int, int], tuple[Mask | None, Any]]] = []

    def read(self, dense: Any, q: Any, k: Any) -> tuple[Mask | None, Any]:
        """The rule, and what is left to add to the scores (None if nothing), of a kernel's mask.

        ``dense`` is None, bool (True = may attend) or floating (added to the scores; the lowest
        number of its dtype, or −∞, hides).  It fits the scores (B, H, T, S) from the right, as
        torch's kernels read it: (T, S) is shared by all, (H, T, S) by the samples.  Where it is
        longer than the keys, as for a static cache that is not yet full, it is cut to them.
        """
        if dense is None:
            return None, None
        size = (int(q.shape[-2]), int(k.shape[-2]))
        for known, known_size, rule in self._read:
            if known is dense and known_size == size:
                return rule
        four = dense.detach()[(None,) * (4 - dense.ndim)][..., : size[1]]
        rule = _rule(four.expand(*four.shape[:-2], *size))
        self._read.append((dense, size, rule))
        return rule


def _rule(dense: Any) -> tuple[Mask | None, Any]:
    import torch

    if dense.dtype == torch.bool:
        return _spans(dense), None
    hidden_below = torch.finfo(dense.dtype).min / 2
    plain = all(bool(((rows == 0) | (rows <= hidden_below)).all()) for rows in _chunks(dense))
    return _spans(dense, hidden_below), None if plain else dense


def _spans(dense: Any, hidden_below: float | None = None) -> Mask | None:
    """One run of keys a query where that is what the mask says; else the array itself."""
    S = dense.shape[-1]
    starts, stops = [], []
    for rows in _chunks(dense):
        seen = rows if hidden_below is None else rows > hidden_below
        count = seen.sum(-1)
        first = seen.int().argmax(-1)
        last = S - seen.flip(-1).int().argmax(-1)
        if bool(((last - first != count) & (count > 0)).any()):
            return keep(dense if hidden_below is None else dense > hidden_below)
        starts.append(np.asarray(first.cpu(), np.int64))
        stops.append(np.asarray((first + count).cpu(), np.int64))
    start = np.concatenate(starts).reshape(dense.shape[:-1])
    stop = np.concatenate(stops).reshape(dense.shape[:-1])
    if start.shape[1] > 1:  # heads of their own
        same = (start == start[:, :1]).all() and (stop == stop[:, :1]).all()
        if not same:
            return keep(dense if hidden_below is None else dense > hidden_below)
    start, stop = start[:, 0], stop[:, 0]
    if (start == 0).all() and (stop == S).all():
        return None
    return Spans(start[0], stop[0]) if len(start) == 1 else Spans(start, stop)


def _chunks(dense: Any) -> Any:
    """The rows of all samples and heads, a few at a time: (n, S)."""
    rows = dense.reshape(-1, dense.shape[-1])
    return rows.split(max(1, CHUNK // max(dense.shape[-1], 1)))
