"""The gradients of what is added to the scores, and of the sink, around an engine of plain numbers.

An engine adds the gradient of each score to a place of an array: its own under a dense bias, or
that of its distance j − i, of which all else about positions is made.  The rest is here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array, dtype_name
from regard.core.call import Call
from regard.rules.rule import flatten, rebuild
from regard.rules.scores import Dense, Score, Sum

Fresh: TypeAlias = Callable[[Array, tuple[int, ...], Any, bool], Array]
"""(like, shape, dtype, zeros) → an array of an engine's own."""


class Rows(Protocol):
    """Some rows of a call, as an engine numbers them."""

    rows: slice

    def broadcast(self, array: Array | None, rows: bool = False) -> tuple[int, ...]:
        """Address and steps, 0 along what is broadcast; with ``rows``, from the first of them."""


def wide(call: Call) -> Any:
    """The dtype of sums."""
    return call.xp.float64 if dtype_name(call.q) == "float64" else call.xp.float32


def parts_of(score: Score) -> list[Score]:
    """The scores that a sum adds up."""
    return parts_of(score.left) + parts_of(score.right) if isinstance(score, Sum) else [score]


class Learned:
    """The gradients of the biases and the sink of a call."""

    def __init__(self, call: Call, wanted: Sequence[bool], fresh: Fresh) -> None:
        self.call, self.fresh = call, fresh
        self.parts = [] if call.bias is None else parts_of(call.bias)
        self.wanted: list[Sequence[bool]] = []
        for part in self.parts:
            n = len(flatten(part).arrays)
            self.wanted.append(wanted[:n])
            wanted = wanted[n:]
        self.sink = any(wanted)
        self.sums = [
            self._sums(part) if any(want) else None
            for part, want in zip(self.parts, self.wanted, strict=True)
        ]

    def _sums(self, part: Score) -> Array:
        """Where the gradient of a part is added up: as the array lies, or for each distance."""
        sizes = self.call.sizes
        shape = (*sizes.lead, sizes.H, 1, sizes.T + sizes.S - 1)
        if isinstance(part, Dense):
            whole = part.array.shape[-2:] == (sizes.T, sizes.S)
            shape = part.array.shape if whole else (*shape[:-2], *part.array.shape[-2:])
        once = self._meets_once(part) and self.call.bounds is None
        return self.fresh(self.call.q, shape, wide(self.call), not once)

    def _meets_once(self, part: Score) -> bool:
        """Whether one pair of query and key is all that each number of its gradient comes from."""
        sizes, plain = self.call.sizes, dtype_name(self.call.q) == "float64"
        full = (*sizes.lead, sizes.H, sizes.T, sizes.S)
        return isinstance(part, Dense) and tuple(part.array.shape) == full and not plain

    def numbers(self, rows: Rows) -> tuple[int, ...]:
        """Of each bias where its gradient lies; whether one thread must have all rows; heads."""
        sizes = self.call.sizes
        found: list[int] = []
        together = 1
        whole = False
        for part, sums in zip(self.parts, self.sums, strict=True):
            place = [0]
            if sums is not None and isinstance(part, Dense):
                place = [*rows.broadcast(sums, rows=sums.shape[-2] > 1)]
                whole |= sums.shape[-2] < sizes.T
                if 1 in sums.shape[:-3] and prod(sizes.lead) > 1:
                    together = max(together, prod(sizes.lead))
                if sums.shape[-3] < sizes.H:
                    together = prod(sizes.lead) * sizes.G
            elif sums is not None:
                place = [*rows.broadcast(sums)]
                place[0] += (sizes.T - 1 - rows.rows.start) * sums.itemsize
                place[-2:] = [-1, 1]
                whole = True
            found += [*place, self._meets_once(part)]
        return (*found, whole, together)

    def results(self, found: Sequence[Array], along: Sequence[Array]) -> list[Array]:
        """The gradients that are wanted, in their order."""
        gradients: list[Array] = []
        for part, want, sums in zip(self.parts, self.wanted, self.sums, strict=True):
            if sums is not None and isinstance(part, Dense):
                gradients.append(_summed(sums, part.array))
            elif sums is not None:
                gradients += self._of_line(part, want, sums[..., 0, :])
        if self.sink:
            gradients.append(self._of_sink(found, along))
        return gradients

    def _of_line(self, score: Score, wanted: Sequence[bool], sums: Array) -> list[Array]:
        """From the gradient of each distance to those of what its line is made of."""
        import torch

        flat = flatten(score)
        leaves = [a.detach().requires_grad_() for a in flat.arrays]
        with torch.enable_grad():
            line = line_of(self.call, rebuild(flat.with_arrays(leaves)))
        to = [leaf for leaf, want in zip(leaves, wanted, strict=True) if want]
        return list(torch.autograd.grad(line, to, _summed(sums, line)))

    def _of_sink(self, found: Sequence[Array], along: Sequence[Array]) -> Array:
        """Its weight in each row takes from what the others mix."""
        output, lse = found
        dtype, sink = wide(self.call), self.call.floats[-1]
        delta = (output.to(dtype) * along[0].to(dtype)).sum(-1)
        weight = (sink.to(dtype)[..., None] - lse).exp()
        return _summed(-(weight * delta).sum(-1), sink)


def _summed(array: Array, like: Array) -> Array:
    """``array`` summed along what is broadcast in ``like``, in its dtype."""
    missing = array.ndim - like.ndim
    axes = [*range(missing)]
    axes += [missing + i for i, n in enumerate(like.shape) if n != array.shape[missing + i]]
    array = array.sum(axes, keepdim=True) if axes else array
    return array.reshape(like.shape).to(like.dtype)


def line_of(call: Call, score: Score) -> Array:
    """A score at every distance of a call, from 1 − T − start on."""
    T, S = call.sizes.T, call.sizes.S
    start = np.asarray(call.frame.start, dtype=np.int64)[..., None]
    far: NDArray[np.int64] = np.arange(1 - T, max(S, 1 - T)) - start
    return score.line(call.frame, far)
