"""Reads the dense masks and biases that models hand to their kernels back into rules.

A model builds a (B, 1, T, S) array to say "causal, and the first three are padding".  Nearly always
each query's keys are one run, which takes two numbers a query, so the recording keeps those and
lets go of the array.  So it is with a bias that says one thing of each distance (T5's): it is
H × (T + S) numbers, not H × T × S.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from regard.rules import Mask, Score, dense, keep, relative
from regard.rules.masks import Spans

CHUNK = 1 << 22
"""Entries that are looked at together, so that reading a mask takes no second one."""


class Shared:
    """What was read of the arrays of one run: layers share them, so each is read once."""

    def __init__(self) -> None:
        self._read: list[tuple[Any, Any, Any]] = []

    def once(self, given: Any, key: Any, read: Callable[[], Any]) -> Any:
        """What ``read`` says of ``given`` under ``key``."""
        for known, at, found in self._read:
            if known is given and at == key:
                return found
        found = read()
        self._read.append((given, key, found))
        return found


class Masks(Shared):
    """The masks of one run."""

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

        def read() -> tuple[Mask | None, Any]:
            four = dense.detach()[(None,) * (4 - dense.ndim)][..., : size[1]]
            return _rule(four.expand(*four.shape[:-2], *size))

        found: tuple[Mask | None, Any] = self.once(dense, size, read)
        return found


def _rule(given: Any) -> tuple[Mask | None, Any]:
    import torch

    if given.dtype == torch.bool:
        return _spans(given), None
    hidden_below = torch.finfo(given.dtype).min / 2
    plain = all(bool(((rows == 0) | (rows <= hidden_below)).all()) for rows in _chunks(given))
    return _spans(given, hidden_below), None if plain else given


def _spans(given: Any, hidden_below: float | None = None) -> Mask | None:
    """One run of keys a query where that is what the mask says; else the array itself."""
    S = given.shape[-1]
    starts, stops = [], []
    for rows in _chunks(given):
        seen = rows if hidden_below is None else rows > hidden_below
        count = seen.sum(-1)
        first = seen.int().argmax(-1)
        last = S - seen.flip(-1).int().argmax(-1)
        if bool(((last - first != count) & (count > 0)).any()):
            return keep(given if hidden_below is None else given > hidden_below)
        starts.append(np.asarray(first.cpu(), np.int64))
        stops.append(np.asarray((first + count).cpu(), np.int64))
    start = np.concatenate(starts).reshape(given.shape[:-1])
    stop = np.concatenate(stops).reshape(given.shape[:-1])
    if start.shape[1] > 1:  # heads of their own
        same = (start == start[:, :1]).all() and (stop == stop[:, :1]).all()
        if not same:
            return keep(given if hidden_below is None else given > hidden_below)
    start, stop = start[:, 0], stop[:, 0]
    if (start == 0).all() and (stop == S).all():
        return None
    return Spans(start[0], stop[0]) if len(start) == 1 else Spans(start, stop)


class Biases(Shared):
    """The position biases of one run."""

    def read(self, given: Any, start: int | None) -> Score | None:
        """The rule that ``given`` (1 or B, H, T, S) is, where the queries begin at ``start``."""
        T, S = given.shape[-2:]
        start = S - T if start is None else start
        found: Score | None = self.once(given, start, lambda: _by_distance(given.detach(), start))
        return found


def _by_distance(given: Any, start: int) -> Score | None:
    """A table of distances where the bias is one; None where it adds nothing; else the array."""
    import torch

    T, S = given.shape[-2:]
    step = max(1, CHUNK // max(given[..., :1, :].numel(), 1))
    alike = given.shape[0] == 1 and all(
        torch.equal(
            given[..., t + 1 : t + 1 + step, 1:], given[..., t : t + step, :-1][..., : T - 1 - t, :]
        )
        for t in range(0, T - 1, step)
    )
    if not alike:
        return dense(given)
    # From the last query's first key to the first query's last one: j − i, one entry a distance.
    line = torch.cat([given[0, :, :, 0].flip(-1), given[0, :, 0, 1:]], -1)
    if not line.any():
        return None
    first, last = -(T - 1) - start, S - 1 - start
    reach = max(-first, last, 0)
    at = torch.arange(-reach, reach + 1, device=line.device).clamp(first, last) - first
    return relative(line[:, at])


def _chunks(given: Any) -> Any:
    """The rows of all samples and heads, a few at a time: (n, S)."""
    rows = given.reshape(-1, given.shape[-1])
    return rows.split(max(1, CHUNK // max(given.shape[-1], 1)))
