"""What changed between two recordings: head by head, over the tokens that they share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard.recording.answers.held import layers_of
from regard.recording.answers.rollout import in_float64
from regard.recording.recording import Layer, Recording, Run

Pairs = NDArray[np.int64]
ROWS = 1 << 22
"""How many weights of each side are held at once."""


@dataclass(frozen=True)
class Comparison:
    """How far apart the heads of two recordings are, by their first samples."""

    distance: NDArray[np.float64]
    """(L, H) the mean over the shared queries of the total variation of their weights: 0 where they
    are the same, 1 where nothing overlaps, NaN where the layer's queries share no token."""
    queries: tuple[tuple[int, int], ...]
    """The first layer's shared queries: the place in one, and the place in the other."""
    layers: tuple[tuple[Layer, Layer], ...]
    places: tuple[tuple[Pairs, Pairs], ...] = field(repr=False)
    """Of each layer the shared queries and the shared keys, (n, 2): a decoder's stand elsewhere
    than its encoder's."""

    def image(self, layer: int, head: int, side: int = 256) -> NDArray[np.float64]:
        """(h, w) the second's weights less the first's over the shared tokens, in blocks' means.

        Raises:
            ShapeError: a layer whose queries or keys share no token.
        """
        mine, other = self.layers[layer]
        queries, keys = self.places[layer]
        if not (len(queries) and len(keys)):
            raise ShapeError(f"the two texts of {mine.name} share no token, so they have no image")
        block = -(-max(len(queries), len(keys)) // side)
        rows, columns = (np.arange(0, len(one), block) for one in (queries, keys))
        picture = np.zeros((len(rows), len(columns)))
        for i, first in enumerate(rows):
            at = queries[first : first + block]
            before, after = _rows(mine, at[:, 0])[head], _rows(other, at[:, 1])[head]
            change = after[:, keys[:, 1]] - before[:, keys[:, 0]]
            picture[i] = np.add.reduceat(change.sum(axis=0), columns)
        high, wide = (
            np.minimum(block, len(one) - starts)
            for one, starts in ((queries, rows), (keys, columns))
        )
        return np.asarray(picture / (high[:, None] * wide))

    def most_changed(self, n: int = 10) -> list[tuple[int, int, float]]:
        """The n heads that are farthest apart: layer, head, distance; none that is not known."""
        known = np.count_nonzero(~np.isnan(self.distance))
        order = np.argsort(-self.distance, axis=None, kind="stable")[: min(n, known)]
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
    the other text lacks, ``s`` what it gives to a sink.  Each layer's queries and keys are those of
    the argument that they come from, such as ``decoder_input_ids``.  With the same number of places
    and no token numbers all places are shared.  Padding is not.

    Raises:
        KindError: statistics only.
        ShapeError: recordings of unlike layers or heads, or texts that share no token.

    Source: Clark et al. 2019, section 6, with the total variation in place of Jensen-Shannon's
    divergence.
    """
    pairs = _pairs(mine, other)
    known: dict[tuple[str, int, str, int], Pairs] = {}
    places = []
    for pair in pairs:
        both = []
        for sides in (
            [(one.queries, int(one.q.shape[-2])) for one in pair],
            [(one.keys, int(one.k.shape[-2])) for one in pair],
        ):
            key = (*sides[0], *sides[1])
            if key not in known:
                known[key] = _shared(mine.run, other.run, *sides)
            both.append(known[key])
        places.append((both[0], both[1]))
    if pairs and not any(len(queries) for queries, _ in places):
        raise ShapeError("the two texts share no token, so nothing of their heads can be compared")
    told = progress or (lambda done, total: None)
    found = []
    for done, ((a, b), at) in enumerate(zip(pairs, places, strict=True)):
        told(done, len(pairs))
        found.append(_distances(a, b, *at))
    told(len(pairs), len(pairs))
    first = tuple((int(i), int(j)) for i, j in places[0][0]) if places else ()
    return Comparison(np.array(found), first, tuple(pairs), tuple(places))


def _distances(mine: Layer, other: Layer, at: Pairs, keys: Pairs) -> NDArray[np.float64]:
    if not len(at):
        return np.full(mine.heads, np.nan)
    total = np.zeros(mine.heads)
    step = max(1, ROWS // (mine.heads * max(layer.k.shape[-2] for layer in (mine, other))))
    for first in range(0, len(at), step):
        rows = at[first : first + step]
        a, b = _rows(mine, rows[:, 0]), _rows(other, rows[:, 1])
        whole = [side.sum(axis=-1) for side in (a, b)]  # below 1 where a sink takes some
        a, b = a[..., keys[:, 0]], b[..., keys[:, 1]]
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


def _shared(mine: Run, other: Run, one: tuple[str, int], two: tuple[str, int]) -> Pairs:
    """(n, 2) the places of tokens that stand in both texts, in order.

    Each side is the argument that they come from, and how many places it has there.
    """
    text, other_text = _text(mine, *one), _text(other, *two)
    if text is None or other_text is None:
        if one[1] != two[1]:
            raise ShapeError(
                f"places of {one[0]} without token numbers are compared one by one, but one "
                f"recording has {one[1]} and the other {two[1]}"
            )
        return np.stack([np.arange(one[1])] * 2, axis=1)
    (ids, at), (theirs, there) = text, other_text
    blocks = SequenceMatcher(None, ids, theirs, autojunk=False).get_matching_blocks()
    found = [(at[a + n], there[b + n]) for a, b, size in blocks for n in range(size)]
    return np.array(found, dtype=np.int64).reshape(-1, 2)


def _text(run: Run, argument: str, count: int) -> tuple[list[int], NDArray[np.int64]] | None:
    """The numbers of the first sample's tokens and where they stand, padding left out."""
    ids = run.texts.get(argument, run.ids if argument == "input_ids" else None)
    if ids is None or ids.shape[-1] != count:
        return None
    hidden = run.expected.padding.get(argument)
    known = hidden is not None and hidden.shape == ids.shape
    at = np.flatnonzero(~hidden[0]) if hidden is not None and known else np.arange(count)
    return ids[0][at].tolist(), at
