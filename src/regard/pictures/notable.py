"""Which heads, and which of their links, a reader should look at first."""

from __future__ import annotations

import numpy as np

from regard.pictures.marks import shown
from regard.pictures.overview import ROLES, HeadView, Overview


def narrowed(overview: Overview) -> bool:
    """Whether the reader asked for some queries only."""
    return len(overview.queries) < len(overview.tokens)


def columns(overview: Overview) -> list[int]:
    """The numbers of all heads shown, ascending: the columns of the grid."""
    return sorted({view.head for view in overview.heads()})


def score(view: HeadView) -> float:
    """How marked the head's own role is, 0..1; for ``none``, how decided the head is."""
    return decided(view) if view.role == "none" else float(view.scores.get(view.role, 0.0))


def decided(view: HeadView) -> float:
    """1 where every query looks at one key, 0 where all look everywhere alike."""
    return min(1.0, max(0.0, 1.0 - float(view.scores.get("broad", 0.0))))


def notable(overview: Overview, each: int = 2, content: int = 3) -> list[HeadView]:
    """The heads to look at first: decided ones of no fixed role, then the most marked per role."""
    picked: list[HeadView] = []
    for role in sorted(ROLES, key=lambda role: role != "none"):
        heads = [view for view in overview.heads() if view.role == role]
        heads.sort(key=lambda view: (-score(view), view.layer, view.head))
        picked += heads[: content if role == "none" else each]
    return picked


def clearest(overview: Overview, view: HeadView, count: int = 5) -> list[tuple[int, int, float]]:
    """The head's strongest links as (query, key, weight), no pair of words twice.

    In a head of no fixed role, links between words apart come first: they say most.
    """
    asked = np.asarray(overview.queries, dtype=np.intp)
    # A query that sees one key alone looks at it with 1.00, which tells nothing of the head.
    asked = asked[~view.lone[asked]] if len(overview.tokens) > 1 else asked
    keys, weights = view.top_keys[asked], view.top_weights[asked]
    rows, ranks = np.nonzero(keys >= 0)
    query, key, weight = asked[rows], keys[rows, ranks], weights[rows, ranks]
    near = (np.abs(query - key) <= 1) | (key == 0)
    order = weight - 2 * near if view.role == "none" else weight
    found: dict[tuple[str, str], tuple[int, int, float]] = {}
    for n in np.argsort(-order, kind="stable")[: 50 * count]:
        pair = shown(overview.tokens[query[n]]), shown(overview.tokens[key[n]])
        found.setdefault(pair, (int(query[n]), int(key[n]), float(weight[n])))
        if len(found) == count:
            break
    return list(found.values())
