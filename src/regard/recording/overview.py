"""From a recording to an overview: every head summed up, one pass over each layer's weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard.core.questions import by_distance, entropy, image, mass, received, topk
from regard.pictures.overview import HeadView, Overview
from regard.recording.recording import Layer, Recording
from regard.recording.roles import role_of, scores_of

PIXELS = 256
"""The largest side of a head's image."""
CHOSEN = 200
"""How many tokens have all their weights among each other kept exactly."""
STRONGEST = 8


def overview_of(
    recording: Recording,
    *,
    model: str,
    tokens: Sequence[str],
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    queries: Sequence[int] | None = None,
    separators: Sequence[int] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Overview:
    """Sum up the first sample of the only run: roles, entropy, received, strongest keys, images.

    Args:
        layers, heads, queries: numbers to narrow it to; all of them if None.
        separators: the positions of punctuation and special tokens.
        progress: called with (layers done, layers in all).

    Raises:
        ShapeError: a layer that is not self-attention over ``tokens``.
    """
    T = len(tokens)
    shown = list(range(len(recording))) if layers is None else list(layers)
    told = progress or (lambda done, total: None)
    summaries: list[list[dict[str, Any]]] = []
    for done, number in enumerate(shown):
        told(done, len(shown))
        _check_square(recording[number], T)
        summaries.append(_summaries(recording[number], heads, separators))
    chosen = _most_received(summaries, T)
    views = tuple(
        tuple(
            HeadView(layer=number, exact=exact, **summary)
            for summary, exact in zip(
                summary_of_layer, _exact(recording[number], chosen, heads), strict=True
            )
        )
        for number, summary_of_layer in zip(shown, summaries, strict=True)
    )
    told(len(shown), len(shown))
    return Overview(
        model=model,
        tokens=tuple(tokens),
        block=-(-T // PIXELS),
        chosen=chosen.astype(np.int32),
        queries=tuple(range(T)) if queries is None else tuple(queries),
        layers=views,
    )


def _summaries(
    layer: Layer, heads: Sequence[int] | None, separators: Sequence[int]
) -> list[dict[str, Any]]:
    """What ``HeadView`` holds of each head, but for the exact weights between chosen tokens."""
    asked = (
        topk(STRONGEST),
        entropy(),
        received(),
        by_distance(),
        mass([0]),
        mass([s for s in separators if s != 0]),
        image(PIXELS, PIXELS),
    )
    top, spread, got, diagonal, first, separator, picture = layer.weights.ask(*asked)
    distance = [int(d) for d in diagonal.distance.reshape(-1, diagonal.distance.shape[-1])[0]]
    places = {d: distance.index(d) for d in (1, 0, -1) if d in distance}
    visible, found = layer.visible, []
    for head in range(layer.heads) if heads is None else heads:

        def one(answer: Any, head: int = head) -> NDArray[Any]:
            return np.asarray(answer[0, head].cpu())

        along = one(diagonal.weight)
        scores = scores_of(
            one(first).astype(np.float64),
            one(separator).astype(np.float64),
            one(spread).astype(np.float64),
            {d: float(along[places[d]]) if d in places else 0.0 for d in (1, 0, -1)},
            visible,
        )
        found.append(
            {
                "head": head,
                "role": role_of(scores),
                "scores": scores,
                "entropy": float(one(spread).mean()),
                "received": one(got).astype(np.float32),
                "top_keys": one(top.keys).astype(np.int32),
                "top_weights": one(top.weights).astype(np.float32),
                "image": one(picture).astype(np.float32),
            }
        )
    return found


def _most_received(summaries: list[list[dict[str, Any]]], T: int) -> NDArray[np.int64]:
    """The tokens that all heads together look at most, in the order of the text."""
    total = np.zeros(T)
    for layer in summaries:
        for summary in layer:
            total += summary["received"]
    return np.sort(np.argsort(-total, kind="stable")[:CHOSEN])


def _exact(
    layer: Layer, chosen: NDArray[np.int64], heads: Sequence[int] | None
) -> list[NDArray[np.float32]]:
    entries = layer.weights[0, :, chosen, chosen]
    numbers = range(layer.heads) if heads is None else heads
    return [np.asarray(entries[head].cpu(), np.float32) for head in numbers]


def _check_square(layer: Layer, T: int) -> None:
    queries, keys = layer.q.shape[-2], layer.k.shape[-2]
    if queries != T or keys != T:
        raise ShapeError(
            f"an overview needs self-attention over its {T} tokens, but {layer.name} has {queries} "
            f"queries and {keys} keys; ask its weights directly: seen[i].weights"
        )
