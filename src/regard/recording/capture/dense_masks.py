"""Reads the dense masks and biases that models hand to their kernels back into rules.

A model builds a (B, 1, T, S) array to say "causal, and the first three are padding".  Nearly always
each query's keys are one run, which takes two numbers a query, so the recording keeps those and
lets go of the array.  So it is with a bias that says one thing of each distance (T5's): it is
H × (T + S) numbers, not H × T × S.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
            if known() is given and at == key:
                return found
        found = read()
        # A model that makes a mask for each layer shall not have all of them held here.
        self._read = [one for one in self._read if one[0]() is not None]
        self._read.append((weakref.ref(given), key, found))
        return found


class Masks(Shared):
    """The masks of one run."""

    def read(self, dense: Any, q: Any, k: Any, hides: bool = False) -> tuple[Mask | None, Any]:
        """The rule, and what is left to add to the scores (None if nothing), of a kernel's mask.

        ``dense`` is None, bool (True = may attend, or with ``hides`` may not) or floating (added to
        the scores; the lowest number of its dtype, or −∞, hides).  It fits the scores (B, H, T, S)
        from the right, as torch's kernels read it: (T, S) is shared by all, (H, T, S) by the
        samples.  Where it is longer than the keys, as for a static cache that is not yet full, it
        is cut to them.
        """
        import torch

        if dense is None:
            return None, None
        size = (int(q.shape[-2]), int(k.shape[-2]))

        def read() -> tuple[Mask | None, Any]:
            four = dense.detach()[(None,) * (4 - dense.ndim)][..., : size[1]]
            if hides and four.dtype == torch.bool:
                four = ~four
            return _rule(four.expand(*four.shape[:-2], *size))

        found: tuple[Mask | None, Any] = self.once(dense, (size, hides), read)
        return found

    def read_function(self, fn: Any, given: Any, q: Any, k: Any, heads: int) -> Mask | None:
        """The rule of ``fn`` (b, h, i, j) → bool over ``given`` = (batch entries, what holds it).

        It is evaluated a few queries at a time, so that what is one run of keys a query takes no
        T × S array.
        """
        batch, holder = given
        T, S = int(q.shape[-2]), int(k.shape[-2])

        def strip(first: int, last: int) -> Any:
            at = [(0, batch), (0, heads), (first, last - first), (0, S)]
            return evaluate(fn, at, q.device).expand(batch, heads, last - first, S)

        def read() -> Mask | None:
            step = max(1, CHUNK // (batch * heads * S))
            strips = [(first, min(first + step, T)) for first in range(0, T, step)]
            runs = [found for at in strips if (found := _runs(strip(*at))) is not None]
            if len(runs) == len(strips):
                start, stop = (np.concatenate(part, -1) for part in zip(*runs, strict=True))
                if _heads_agree(start, stop):
                    return _of_samples(start[:, 0], stop[:, 0], S)
            return keep(torch.cat([strip(*at) for at in strips], -2))

        import torch

        from regard.recording.interface import evaluate

        found: Mask | None = self.once(holder, (T, S), read)
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
    starts, stops = [], []
    for rows in _chunks(given):
        found = _runs(rows if hidden_below is None else rows > hidden_below)
        if found is None:
            break
        starts.append(found[0])
        stops.append(found[1])
    else:
        start = np.concatenate(starts).reshape(given.shape[:-1])
        stop = np.concatenate(stops).reshape(given.shape[:-1])
        if _heads_agree(start, stop):
            return _of_samples(start[:, 0], stop[:, 0], given.shape[-1])
    return keep(given if hidden_below is None else given > hidden_below)


def _runs(seen: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """The first key and the one after the last of each row (…, S); None where they are no run."""
    count = seen.sum(-1)
    first = seen.int().argmax(-1)
    last = seen.shape[-1] - seen.flip(-1).int().argmax(-1)
    if bool(((last - first != count) & (count > 0)).any()):
        return None
    return np.asarray(first.cpu(), np.int64), np.asarray((first + count).cpu(), np.int64)


def _heads_agree(start: NDArray[np.int64], stop: NDArray[np.int64]) -> bool:
    """Whether the runs (B, H, T) are the same in all heads."""
    return bool((start == start[:, :1]).all() and (stop == stop[:, :1]).all())


def _of_samples(start: NDArray[np.int64], stop: NDArray[np.int64], S: int) -> Mask | None:
    """The runs (B, T) as a rule; None where they hide nothing."""
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
