"""How much could flow from one token to another: attention as a network of pipes.

The network has a node for each token at each layer, which is n² pipes a layer.  What is solved is a
small part of it, that most flows need no more than; and the cut that holds the flow back there is
then weighed in the whole network, a strip at a time.  Where the two are equal, no other pipe could
have helped.  Where they are not, the widest pipes that the cut leaves out join the part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._errors import MissingError
from regard.core.questions import received
from regard.recording.answers.rollout import check_square, one_of, row_sums, within
from regard.recording.recording import Layer

UNIT = 1 << 30
"""A width of 1 in the whole numbers that the solver takes."""
ROUNDS = 24
STRIP = 1 << 22
"""How many weights of a layer are held at once."""


@dataclass(frozen=True)
class Flow:
    """A largest flow, between two numbers that both are proven."""

    value: float
    """What does flow through the pipes that were looked at."""
    bound: float
    """What no flow through all pipes exceeds: the width of a cut."""


class _Pipes(NamedTuple):
    """Some of the pipes from a layer's outputs down to its inputs."""

    tops: NDArray[np.int64]
    bottoms: NDArray[np.int64]
    widths: NDArray[np.float64]


def flow(
    layers: Sequence[Layer],
    target: int,
    source: int,
    *,
    residual: float = 0.5,
    sample: int = 0,
    tolerance: float = 1e-5,
) -> Flow:
    """How much of token ``source`` can reach token ``target`` through all layers.

    ::

        the largest flow from (L, target) down to (0, source), where the pipe from (l, i) to
        (l − 1, j) is Ã_l[i, j] wide
        Ã_l = rows to sum 1 of (1 − r) · mean over heads W_l + r · I

    Memory grows with the layers times T, and with the pipes that are looked at; time with a few
    passes over all weights for each round.

    Args:
        layers: the layers of one run, self-attention over the same T tokens, first to last.
        target, source: positions.
        residual: r, the width of what passes a layer by.
        sample: which of the batch.
        tolerance: how far apart ``value`` and ``bound`` may end.

    Raises:
        ShapeError: a layer that is not T × T.
        ValueRangeError: a position that is not there, or a share outside 0 … 1.
        MissingError: without SciPy.

    Source: Abnar and Zuidema 2020, section 4.
    """
    T = check_square(layers, residual)
    network = _Network(layers, within(target, T), within(source, T), residual, sample)
    parts = [network.likely(n) for n in range(len(layers))]
    best = Flow(0.0, 1.0)
    for attempt in range(ROUNDS):
        value, reached = _solve(parts, T, network.target, network.source)
        width, missing = network.cut(reached, parts, 16 << attempt, tolerance / 2 / len(layers))
        best = Flow(max(best.value, value), min(best.bound, width))
        if best.bound - best.value <= tolerance or not missing:
            break
        for n, more in missing.items():
            both = (np.concatenate(pair) for pair in zip(parts[n], more, strict=True))
            parts[n] = _distinct(_Pipes(*both), T)
    return best


def _solve(
    parts: Sequence[_Pipes], T: int, target: int, source: int
) -> tuple[float, NDArray[np.bool_]]:
    """The largest flow through ``parts``, and (L + 1, T) what its leftovers still reach.

    Node l · T + i is token i at layer l.
    """
    try:
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow
    except ImportError as error:
        raise MissingError("flow needs SciPy: pip install 'regard[look]'") from error
    tops = np.concatenate([(n + 1) * T + part.tops for n, part in enumerate(parts)])
    bottoms = np.concatenate([n * T + part.bottoms for n, part in enumerate(parts)])
    # Down, so that what is found flows in the network itself.
    units = np.floor(np.concatenate([part.widths for part in parts]) * UNIT).astype(np.int32)
    nodes = (len(parts) + 1) * T
    pipes = csr_array((units, (tops, bottoms)), shape=(nodes, nodes))
    begin = len(parts) * T + target
    found = maximum_flow(pipes, begin, source)
    left = pipes - found.flow
    left.data = (left.data > 0).astype(np.int32)
    left.eliminate_zeros()
    reached = np.zeros(nodes, dtype=np.bool_)
    reached[breadth_first_order(left, begin, return_predecessors=False)] = True
    return float(found.flow_value) / UNIT, reached.reshape(-1, T)


def _distinct(pipes: _Pipes, T: int) -> _Pipes:
    """Each pipe once, and none without a width."""
    _, first = np.unique(pipes.tops * T + pipes.bottoms, return_index=True)
    kept = first[pipes.widths[first] > 0]
    return _Pipes(*(part[kept] for part in pipes))


class _Network:
    """All pipes, of which some can be asked for."""

    def __init__(
        self, layers: Sequence[Layer], target: int, source: int, residual: float, sample: int
    ) -> None:
        self.layers, self.target, self.source = layers, target, source
        self.residual, self.sample = residual, sample
        self.T = int(layers[0].q.shape[-2])
        self.wholes = [row_sums(layer, residual, sample) for layer in layers]

    def likely(self, n: int) -> _Pipes:
        """Straight down everywhere, out of the target's place, and into the source's."""
        rows = np.arange(self.T)
        out = self.rows(n, np.array([self.target]))[0]
        into = self.rows(n, rows, np.array([self.source]))[:, 0]
        straight = self._diagonal(n)
        tops = np.concatenate([rows, np.full(self.T, self.target), rows])
        bottoms = np.concatenate([rows, rows, np.full(self.T, self.source)])
        widths = np.concatenate([straight, out, into])
        return _distinct(_Pipes(tops, bottoms, widths), self.T)

    def rows(self, n: int, rows: NDArray[np.int64], keys: Any = slice(None)) -> NDArray[np.float64]:
        """(t, w) widths of the pipes of layer n."""
        W = self.layers[n].weights
        widths = one_of(W[..., rows, keys], self.sample).mean(axis=0) * (1 - self.residual)
        widths += self.residual * (rows[:, None] == np.arange(self.T)[keys])
        whole = self.wholes[n][rows, None]
        widths /= np.where(whole > 0, whole, 1.0)
        return np.asarray(widths)

    def cut(
        self, reached: NDArray[np.bool_], parts: Sequence[_Pipes], most: int, enough: float
    ) -> tuple[float, dict[int, _Pipes]]:
        """The width of the cut below the nodes ``reached`` (L + 1, T), and pipes that widen it.

        The latter of each layer where the parts lack more than ``enough`` of the width: from every
        node above, the ``most`` widest.
        """
        total, missing = 0.0, {}
        for n, part in enumerate(parts):
            above, below = reached[n + 1], reached[n]
            ends = ~below if n else np.arange(self.T) == self.source  # other inputs lead nowhere
            width = self._across(n, above, ends)
            total += width
            crossing = above[part.tops] & ends[part.bottoms]
            if width - float(part.widths[crossing].sum()) > enough:
                missing[n] = self._widest(n, np.flatnonzero(above), np.flatnonzero(ends), most)
        return total, missing

    def _across(self, n: int, above: NDArray[np.bool_], ends: NDArray[np.bool_]) -> float:
        """The width of all pipes of layer n from nodes ``above`` to ``ends``."""
        share = np.where(above, 1.0, 0.0)
        share = np.divide(share, self.wholes[n], out=share, where=self.wholes[n] > 0)
        (got,) = self.layers[n].weights.ask(received(share))
        carried = one_of(got, self.sample).mean(axis=0)
        return float(((1 - self.residual) * carried + self.residual * share)[ends].sum())

    def _widest(
        self, n: int, tops: NDArray[np.int64], ends: NDArray[np.int64], most: int
    ) -> _Pipes:
        """The widest few of each top's pipes into ``ends``."""
        each = min(most, len(ends))
        step = max(1, STRIP // (self.T * self.layers[n].heads))
        found: list[_Pipes] = []
        for first in range(0, len(tops), step):
            some = tops[first : first + step]
            widths = self.rows(n, some)[:, ends]
            at = np.argpartition(-widths, each - 1, axis=1)[:, :each]
            picked = np.take_along_axis(widths, at, axis=1)
            there = picked > 0
            found.append(_Pipes(np.repeat(some, there.sum(1)), ends[at][there], picked[there]))
        return _Pipes(*(np.concatenate(part) for part in zip(*found, strict=True)))

    def _diagonal(self, n: int) -> NDArray[np.float64]:
        """(T,) the pipes straight down."""
        step = max(1, STRIP // (self.T * self.layers[n].heads))
        found = []
        for first in range(0, self.T, step):
            rows = np.arange(first, min(first + step, self.T))
            found.append(np.diagonal(self.rows(n, rows, rows)))
        return np.concatenate(found)
