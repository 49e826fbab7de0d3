"""What a head does, in one word: rules that anyone can check against the weights.

Each score lies in 0 … 1.  The first query is left out, since it often sees nothing but itself.
Padding is no text: its queries count nowhere, and the first query and key are the first that are
none.

``previous``, ``next``, ``same``
    the weight on the key before the query, the key after it, and the query's own key
``first``
    the weight on key 0
``separator``
    the weight on punctuation and special tokens other than key 0
``duplicate``
    the weight on earlier occurrences of the query's own token
``induction``
    the weight on keys that come right after an earlier occurrence of the query's own token
``positional``
    the share of the weights' variance that the distance from query to key explains (adjusted R²)
``broad``
    the entropy, as a share of the largest that the query's visible keys allow
``dead``
    how far what the head writes falls short of an even share of its layer's output: 0 where it has
    that share or more, 1 where it writes nothing.  It takes the values, so it comes by running the
    model again (``regard.recording.answers.written``)

The first five and ``broad`` are means over all queries.  The other three scores of the weights are
taken at no more than ``SAMPLED`` queries, evenly spaced; those two of repeated tokens are means
over the queries among them that have such a key, and 0 where these are fewer than ``FEW``, which
say nothing.

A head's role is ``dead`` where that is at least ``IDLE``; else the largest of the first seven if it
is at least ``MARKED``; else ``positional`` if that is at least ``PLACED``; else ``broad`` if the
weights are nearly even; else ``none``.

Source: previous, next, first, separator and broad are kinds of Clark et al. 2019 ("What does BERT
look at?"), section 3; positional heads: Voita et al. 2019, section 5; induction is the prefix
matching score of Olsson et al. 2022, and duplicate-token heads are those of Wang et al. 2022
("Interpretability in the wild"), section 3; that the weight of a head says little where its values
are small: Kobayashi et al. 2020.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from regard.core.weights import Weights
    from regard.recording.recording import Layer, Run

MARKED = 0.4
"""The mean weight that makes a role."""
EVEN = 0.85
"""The share of the largest entropy that makes a head broad."""
PLACED = 0.6
"""The share of the variance that makes a head positional."""
IDLE = 0.9
"""How far below an even share of the output makes a head dead: it writes a tenth of that."""
SAMPLED, SAMPLED_OF_MANY, PAIRS = 512, 96, 3 << 18
"""How many queries are looked at one by one; and of a text so long that these would make more pairs
with its keys than ``PAIRS``, where they would cost as much as all other questions together."""
FEW = 8
"""Fewer queries than these say nothing of a head."""
BY_WEIGHT = ("previous", "next", "first", "same", "separator", "duplicate", "induction")
STRIP = 1 << 21
"""How many weights are held at once."""


def real_of(layer: Layer, run: Run) -> NDArray[np.bool_] | None:
    """(B, T) which of the layer's queries are no padding; None where all are."""
    hidden = run.expected.padding.get(layer.queries)
    B, T = int(layer.q.shape[0]), int(layer.q.shape[-2])
    if hidden is None or len(hidden) != B:
        return None
    real = np.ones((B, T), np.bool_)
    # A step's mask speaks of all keys; that of a generation's first call, of the first queries.
    width = min(T, hidden.shape[1])
    real[:, :width] = ~hidden[:, hidden.shape[1] - width :]
    return None if real.all() else real


def scores_of(
    on_first: NDArray[np.float64],
    on_separators: NDArray[np.float64],
    entropy: NDArray[np.float64],
    at_distance: dict[int, float],
    visible: NDArray[np.int64],
) -> dict[str, float]:
    """The scores for one head that are means over all its T queries, padding left out.

    Args:
        on_first, on_separators, entropy: (T,) of each query.
        at_distance: the summed weight at the distances 1 (previous), −1 (next) and 0 (same).
        visible: (T,) how many keys each query may attend to.
    """
    T = len(entropy)
    if T < 2:
        return dict.fromkeys(("previous", "next", "first", "same", "separator", "broad"), 0.0)
    several = visible[1:] > 1
    most = np.log(np.maximum(visible[1:], 2))
    return {
        "previous": at_distance[1] / (T - 1),
        "next": at_distance[-1] / (T - 1),
        "first": float(on_first[1:].mean()),
        "same": (at_distance[0] - float(on_first[0])) / (T - 1),
        "separator": float(on_separators[1:].mean()),
        "broad": float((entropy[1:] / most)[several].mean()) if several.any() else 0.0,
    }


def patterns_of(
    W: Weights, ids: NDArray[np.int64] | None = None, real: NDArray[np.bool_] | None = None
) -> dict[str, NDArray[np.float64]]:
    """(B, H) the scores that are taken query by query: duplicate, induction, positional.

    Args:
        W: a layer's weights (B, H, T, S).
        ids: (B, T) the token numbers of queries and keys, where they are the same; without them
            nothing is known of repeated tokens.
        real: (B, T) the queries that are no padding; all unless given.
    """
    B, H, T, S = W.shape
    chosen, own = sampled(T), None
    if real is not None:
        own = _sampled_of(real)
        chosen = np.flatnonzero(own.any(0))
    placed = _Placed(B, H, T + S)
    found = {role: np.zeros((B, H)) for role in ("duplicate", "induction")}
    counted = {role: np.zeros((B, 1)) for role in found}
    step = max(1, STRIP // max(1, B * H * S))
    for first in range(0, len(chosen), step):
        rows = chosen[first : first + step]
        w, seen = strip_of(W, rows)
        if own is not None:
            mine = own[:, None, rows, None]
            w, seen = w * mine, seen & mine
        placed.add(rows, w, seen)
        if ids is not None:
            for role, earlier in zip(found, _earlier(ids, rows), strict=True):
                keys = earlier if own is None else earlier & own[:, rows, None]
                found[role] += np.einsum("bhis,bis->bh", w, keys)
                counted[role] += keys.any(-1).sum(-1, keepdims=True)
    means = {
        role: np.where(counted[role] >= FEW, total / np.maximum(counted[role], 1), 0.0)
        for role, total in found.items()
    }
    return means | {"positional": placed.explained()}


def sampled(T: int) -> NDArray[np.int64]:
    """At most ``SAMPLED`` queries, evenly spaced, without the first; fewer of a long text."""
    most = min(SAMPLED, max(SAMPLED_OF_MANY, PAIRS // max(T, 1)))
    return np.unique(np.linspace(1, T - 1, min(max(T - 1, 0), most)).round().astype(np.int64))


def _sampled_of(real: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(B, T) the same of each sample's own queries."""
    own = np.zeros_like(real)
    for mine, there in zip(own, real, strict=True):
        at = np.flatnonzero(there)
        mine[at[sampled(len(at))]] = True
    return own


def strip_of(W: Weights, rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The weights of some queries, (B, H, t, S), and which keys these may attend to."""
    weights = W[..., rows, :]
    call = W._call.of_rows(rows)
    seen = call.seen(call.frame)
    there = True if seen is None else in_numpy(seen)
    w = in_numpy(weights).astype(np.float64)
    return w, np.broadcast_to(there, w.shape)


def in_numpy(answer: Any) -> Any:
    """The answer in NumPy's arrays."""
    if isinstance(answer, tuple):
        return tuple(in_numpy(one) for one in answer)
    return np.asarray(answer.detach().cpu() if hasattr(answer, "detach") else answer)


def _earlier(
    ids: NDArray[np.int64], rows: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(B, t, S) the earlier occurrences of each query's token, and the keys right after those."""
    before = np.arange(ids.shape[1]) < rows[:, None]
    same = ids[:, rows, None] == ids[:, None, :]
    after = np.zeros_like(same)
    after[..., 1:] = same[..., :-1]
    return same & before, after & before


class _Placed:
    """How much of the weights' variance lies between distances, added up row by row."""

    def __init__(self, B: int, H: int, distances: int) -> None:
        self.sums, self.counts = np.zeros((B, H, distances)), np.zeros((B, H, distances))
        self.squares = np.zeros((B, H))

    def add(self, rows: NDArray[np.int64], w: NDArray[np.float64], seen: NDArray[np.bool_]) -> None:
        """Some queries' weights (B, H, t, S), and which of them may be above 0."""
        S = w.shape[-1]
        self.squares += (w * w).sum((-2, -1))
        for n, row in enumerate(rows):
            at = slice(int(row), int(row) + S)
            self.sums[..., at] += w[..., n, ::-1]
            self.counts[..., at] += seen[..., n, ::-1]

    def explained(self) -> NDArray[np.float64]:
        """(B, H) the adjusted R² of a mean weight for each distance."""
        n, groups = self.counts.sum(-1), (self.counts > 0).sum(-1)
        middle = self.sums.sum(-1) ** 2 / np.maximum(n, 1)
        whole = self.squares - middle
        between = (self.sums**2 / np.maximum(self.counts, 1)).sum(-1) - middle
        rest = np.maximum(whole - between, 0.0) / np.maximum(n - groups, 1)
        varied = (n > groups) & (whole > 1e-12 * self.squares)
        share = rest * np.maximum(n - 1, 1) / np.where(varied, whole, 1.0)
        return np.asarray(np.where(varied, np.clip(1 - share, 0.0, 1.0), 0.0))


def role_of(scores: dict[str, Any]) -> str:
    """The role that the scores make; one that was not scored is none."""
    if scores.get("dead", 0.0) >= IDLE:
        return "dead"
    best = max(BY_WEIGHT, key=lambda role: scores.get(role, 0.0))
    if scores.get(best, 0.0) >= MARKED:
        return best
    if scores.get("positional", 0.0) >= PLACED:
        return "positional"
    return "broad" if scores["broad"] >= EVEN else "none"
