"""How much each head writes into its layer's output: what the role ``dead`` is judged by."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from regard.recording.capture.replay import Called, Visitor, replay
from regard.recording.recording import Run
from regard.recording.roles import real_of

Progress = Callable[[int, int], None]


def written(run: Run, progress: Progress | None = None) -> dict[int, NDArray[np.float64]]:
    """(B, H) for each layer: the mean length of what a head writes, of all queries but padding.

    ::

        written_h = mean over i of ‖ o_ih W_O,h ‖

    Where no linear map is seen that the heads' outputs go through, it is the length of o_ih.  A
    layer whose attention is computed by hand is left out.

    Raises:
        KindError: a run that cannot be had again.
    """
    found = _Lengths(run, progress)
    replay(run, found)
    return found.of


def dead_scores(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """(B, H) how far each head falls short of an even share of its layer's output, 0 … 1."""
    whole = lengths.sum(-1, keepdims=True)
    even = lengths.shape[-1] * lengths / np.where(whole > 0, whole, 1.0)
    return np.asarray(np.clip(1.0 - even, 0.0, 1.0))


class _Lengths(Visitor):
    def __init__(self, run: Run, progress: Progress | None) -> None:
        self.of: dict[int, NDArray[np.float64]] = {}
        self._run, self._told = run, progress or (lambda done, total: None)

    def done(self, called: Called) -> None:
        """Measure it."""
        o = called.o.float()
        into = called.projection
        squares = (o * o).sum(-1)
        if into is not None:
            # ‖o W‖² by the E × E products of W's rows, so that no output of width d is made.
            gram = into.float() @ into.float().mT
            squares = ((o @ gram) * o).sum(-1).clamp(min=0.0)
        lengths, real = squares.sqrt(), real_of(called.layer, self._run)
        mean = lengths.mean(-1)
        if real is not None:
            there = lengths.new_tensor(real)[:, None]
            mean = (lengths * there).sum(-1) / there.sum(-1).clamp(min=1)
        self.of[called.number] = np.asarray(mean.cpu(), np.float64)
        self._told(len(self.of), len(self._run.layers))
