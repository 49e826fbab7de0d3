"""What a head does, in one word: rules that anyone can check against the weights.

Each score is a mean over the queries, from 0 to 1.  The first query is left out, since it often
sees nothing but itself.

``previous``, ``next``, ``same``
    the weight on the key before the query, the key after it, and the query's own key
``first``
    the weight on key 0
``separator``
    the weight on punctuation and special tokens other than key 0
``broad``
    the entropy, as a share of the largest that the query's visible keys allow

A head's role is the largest of the first five if that is at least ``MARKED``; else ``broad`` if
the weights are nearly even; else ``none``.

Source: the kinds are those of Clark et al. 2019 ("What does BERT look at?"), section 3.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MARKED = 0.4
"""The mean weight that makes a role."""
EVEN = 0.85
"""The share of the largest entropy that makes a head broad."""
BY_WEIGHT = ("previous", "next", "first", "same", "separator")


def scores_of(
    on_first: NDArray[np.float64],
    on_separators: NDArray[np.float64],
    entropy: NDArray[np.float64],
    at_distance: dict[int, float],
    visible: NDArray[np.int64],
) -> dict[str, float]:
    """Every role's score for one head.

    Args:
        on_first, on_separators, entropy: (T,) of each query.
        at_distance: the summed weight at the distances 1 (previous), −1 (next) and 0 (same).
        visible: (T,) how many keys each query may attend to.
    """
    T = len(entropy)
    if T < 2:
        return dict.fromkeys((*BY_WEIGHT, "broad"), 0.0)
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


def role_of(scores: dict[str, float]) -> str:
    """The role that the scores make."""
    best = max(BY_WEIGHT, key=lambda role: scores[role])
    if scores[best] >= MARKED:
        return best
    return "broad" if scores["broad"] >= EVEN else "none"
