"""What every picture of a model's attention is drawn from: plain arrays, no model.

``Overview`` is made by the recording floor and read by the terminal, PNG, SVG, HTML and JSON
writers, so each of them shows the same numbers.  Letters: T queries, S keys (T = S in
self-attention), C chosen tokens, h × w pixels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROLES = (
    "previous",
    "next",
    "first",
    "same",
    "separator",
    "duplicate",
    "induction",
    "positional",
    "dead",
    "broad",
    "none",
)
"""The stable ids of a head's role, in the order in which ties are decided."""


@dataclass(frozen=True)
class HeadView:
    """One head of one layer, summed up in memory that grows with the text, not its square."""

    layer: int
    head: int
    role: str
    """One of ``ROLES``."""
    scores: dict[str, float]
    """Every role's score in 0..1 but ``none``'s, as far as it is known (recording/roles.py)."""
    entropy: float
    """Mean over the queries, in nats."""
    received: NDArray[np.float32]
    """(S,) the weight that each key receives, summed over the queries."""
    top_keys: NDArray[np.int32]
    """(T, k) the strongest keys of each query, strongest first; −1 where there are fewer.  k is 8,
    or less where statistics of a long text were all that was kept."""
    top_weights: NDArray[np.float32]
    """(T, k) their weights, exact; 0 where there are fewer."""
    image: NDArray[np.float32]
    """(h, w) means over blocks of ``Overview.block`` × ``block`` entries; rows are queries."""
    exact: NDArray[np.float32]
    """(C, C) exact weights between the chosen tokens, row = query, column = key."""

    @property
    def lone(self) -> NDArray[np.bool_]:
        """(T,) the queries that have a single key to look at."""
        if self.top_keys.shape[1] > 1:
            return np.asarray(self.top_keys[:, 1] < 0)
        return np.asarray(self.top_weights[:, 0] >= 1)


@dataclass(frozen=True)
class Overview:
    """All layers and heads of one model over one text."""

    model: str
    tokens: tuple[str, ...]
    """As people read them, one a position; may hold Chinese, spaces, line ends."""
    block: int
    """Entries on the side of one pixel of every ``image``; 1 means that the image is exact."""
    chosen: NDArray[np.int32]
    """(C,) the positions of the tokens whose weights are all exact, ascending; C ≤ 200."""
    queries: tuple[int, ...]
    """The query positions that the reader asked for (all of them unless narrowed)."""
    layers: tuple[tuple[HeadView, ...], ...]
    """Outer: the layers shown; inner: the heads shown.  Numbers stand in each view."""

    def heads(self) -> Iterator[HeadView]:
        """Every head shown, layer by layer."""
        for layer in self.layers:
            yield from layer
