"""What changed between two recordings: head by head, over the tokens that they share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard.recording.answers.held import layers_of
from regard.recording.answers.rollout import in_float64
from regard.recording.recording import Layer, Recording

ROWS = 1 << 22
"""How many weights of each side are held at once."""


@dataclass(frozen=True)
class Comparison:
    """How far apart the heads of two recordings are."""

    distance: NDArray[np.float64]
    """(L, H) the mean over the shared queries of the total variation of their weights: 0 where they
    are the same, 1 where nothing overlaps."""
    queries: tuple[tuple[int, int], ...]
    """The shared tokens: the place in one, and the place in the other."""
    layers: tuple[tuple[Layer, Layer], ...]

    def image(self, layer: int, head: int, side: int = 256) -> NDArray[np.float64]:
        """(h, w) the second's weights less the first's over the shared tokens, in blocks' means."""
        mine, other = self.layers[layer]
        at = np.array(self.queries, dtype=np.int64).reshape(-1, 2)
        block = -(-len(at) // side)
        count = -(-len(at) // block)
        starts = np.arange(count) * block
        picture = np.zeros((count, count))
        for i, first in enumerate(starts):
            rows = at[first : first + block]
            before, after = _rows(mine, rows[:, 0])[head], _rows(other, rows[:, 1])[head]
            change = after[:, at[:, 1]] - before[:, at[:, 0]]
            picture[i] = np.add.reduceat(change.sum(axis=0), starts)
        sizes = np.minimum(block, len(at) - starts)
        return np.asarray(picture / (sizes[:, None] * sizes))

    def most_changed(self, n: int = 10) -> list[tuple[int, int, float]]:
        """The n heads that are farthest apart: layer, head, distance."""
        order = np.argsort(-self.distance, axis=None, kind="stable")[:n]
        places = zip(*np.unravel_index(order, self.distance.shape), strict=True)
        return [(int(at), int(h), float(self.distance[at, h])) for at, h in places]


def compare(
    mine: Recording,
    other: Recording,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """How the heads of ``other`` differ from those of ``mine``: two prompts, two checkpoints.

    ::

        distance_h = mean over shared i of ½ (Σ_j |w_ij − w'_ij| + |s_i − s'_i| + rest_i + rest'_i)

    Tokens are shared where the two texts are alike; ``rest`` is what a query gives to tokens that
    the other text lacks, ``s`` what it gives to a sink.  With the same number of tokens and no
    ``input_ids`` all places are shared.

    Raises:
        KindError: statistics only.
        ShapeError: recordings of unlike layers or heads, or texts that share no token.

    Source: Clark et al. 2019, section 6, with the total variation in place of Jensen-Shannon's
    divergence.
    """
    pairs = _pairs(mine, other)
    shared = np.array(_shared(mine, other), dtype=np.int64).reshape(-1, 2)
    told = progress or (lambda done, total: None)
    found = []
    for done, (a, b) in enumerate(pairs):
        told(done, len(pairs))
        found.append(_distances(a, b, shared))
    told(len(pairs), len(pairs))
    return Comparison(np.array(found), tuple((int(i), int(j)) for i, j in shared), tuple(pairs))


def _distances(mine: Layer, other: Layer, at: NDArray[np.int64]) -> NDArray[np.float64]:
    total = np.zeros(mine.heads)
    step = max(1, ROWS // (mine.heads * max(layer.k.shape[-2] for layer in (mine, other))))
    for first in range(0, len(at), step):
        rows = at[first : first + step]
        a, b = _rows(mine, rows[:, 0]), _rows(other, rows[:, 1])
        whole = [side.sum(axis=-1) for side in (a, b)]  # below 1 where a sink takes some
        a, b = a[..., at[:, 0]], b[..., at[:, 1]]
        changed = np.abs(a - b).sum(axis=-1) + np.abs(whole[0] - whole[1])
        unshared = [w - side.sum(axis=-1) for w, side in zip(whole, (a, b), strict=True)]
        total += 0.5 * (changed + np.maximum(sum(unshared), 0.0)).sum(axis=-1)
    return np.asarray(total / len(at))


def _rows(layer: Layer, rows: Any) -> NDArray[np.float64]:
    """(H, t, S) the weights of some queries of the first sample."""
    return in_float64(layer.weights[0, :, rows])


def _pairs(mine: Recording, other: Recording) -> list[tuple[Layer, Layer]]:
    shapes = [[layer.heads for layer in layers_of(seen)] for seen in (mine, other)]
    if shapes[0] != shapes[1]:
        raise ShapeError(
            "two recordings are compared head by head, so their layers must have equal heads, but "
            f"one has {shapes[0]} and the other {shapes[1]}"
        )
    return list(zip(mine.layers, other.layers, strict=True))


def _shared(mine: Recording, other: Recording) -> Sequence[tuple[int, int]]:
    """The places of tokens that stand in both texts, in order."""
    one, two = (
        None if (ids := seen.run.ids) is None else ids[0].tolist() for seen in (mine, other)
    )
    if one is None or two is None:
        sizes = [int(seen[0].q.shape[-2]) for seen in (mine, other)]
        if sizes[0] != sizes[1]:
            raise ShapeError(
                f"recordings without input_ids are compared place by place, but one has {sizes[0]} "
                f"queries and the other {sizes[1]}"
            )
        return [(i, i) for i in range(sizes[0])]
    blocks = SequenceMatcher(None, one, two, autojunk=False).get_matching_blocks()
    found = [(a + n, b + n) for a, b, size in blocks for n in range(size)]
    if not found:
        raise ShapeError("the two texts share no token, so nothing of their heads can be compared")
    return found
