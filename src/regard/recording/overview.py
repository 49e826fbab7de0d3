"""From a recording to an overview: every head summed up, one pass over each layer's weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError
from regard.pictures.overview import HeadView, Overview
from regard.recording.chosen import CHOSEN
from regard.recording.recording import Layer, Recording
from regard.recording.roles import in_numpy, real_of
from regard.recording.summary import PIXELS, LayerStatistics, summarise


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
        separators: the positions of punctuation and special tokens; a recording of statistics was
            told them as it was made.
        progress: called with (layers done, layers in all).

    Raises:
        ShapeError: a layer that is not self-attention over ``tokens``.
    """
    T = len(tokens)
    summed = recording.statistics
    held: Sequence[Layer | LayerStatistics] = summed or recording.layers
    shown = list(range(len(held))) if layers is None else list(layers)
    told = progress or (lambda done, total: None)
    summaries: list[list[dict[str, Any]]] = []
    for done, number in enumerate(shown):
        told(done, len(shown))
        layer = held[number]
        _check_square(layer, T)
        if not isinstance(layer, LayerStatistics):
            run = recording.run
            layer = summarise(
                layer,
                separators=tuple(separators),
                ids=run.texts.get(layer.queries),
                real=real_of(layer, run),
            )
        summaries.append(_heads(layer, heads))
    # Queries and keys can still be asked about the tokens that turned out to matter; statistics
    # were told of some before anything was known.
    kept = summed[0].chosen if summed else _most_received(summaries, T, queries or ())
    chosen = np.zeros(0, np.int32) if kept is None else kept
    views = tuple(
        tuple(
            HeadView(layer=number, exact=exact, **summary)
            for summary, exact in zip(
                summary_of_layer, _exact(held[number], chosen, heads), strict=True
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


def _heads(layer: LayerStatistics, heads: Sequence[int] | None) -> list[dict[str, Any]]:
    """What ``HeadView`` holds of each head, but for the exact weights between chosen tokens."""
    return [
        {
            "head": head,
            "role": layer.role(head),
            "scores": {role: float(of[0, head]) for role, of in layer.scores.items()},
            "entropy": float(layer.entropy[0, head].mean()),
            "received": layer.received[0, head],
            "top_keys": layer.top_keys[0, head],
            "top_weights": layer.top_weights[0, head],
            "image": layer.image[0, head],
        }
        for head in (range(layer.heads) if heads is None else heads)
    ]


def _most_received(
    summaries: list[list[dict[str, Any]]], T: int, asked: Sequence[int]
) -> NDArray[np.int64]:
    """The tokens asked for, then those that all heads look at most, in the order of the text."""
    total = np.zeros(T)
    for layer in summaries:
        for summary in layer:
            total += summary["received"]
    total[list(asked)] = np.inf
    return np.sort(np.argsort(-total, kind="stable")[:CHOSEN])


def _exact(
    layer: Layer | LayerStatistics, chosen: NDArray[np.integer], heads: Sequence[int] | None
) -> list[NDArray[np.float32]]:
    numbers = range(layer.heads) if heads is None else heads
    if isinstance(layer, LayerStatistics):
        none = np.zeros((0, 0), np.float32)
        return [none if layer.links is None else layer.links[0, head] for head in numbers]
    entries = layer.weights[0, :, chosen, chosen]
    return [in_numpy(entries[head]).astype(np.float32) for head in numbers]


def _check_square(layer: Layer | LayerStatistics, T: int) -> None:
    if isinstance(layer, LayerStatistics):
        queries, keys = layer.shape[-2:]
    else:
        queries, keys = layer.q.shape[-2], layer.k.shape[-2]
    if queries != T or keys != T:
        raise ShapeError(
            f"an overview needs self-attention over its {T} tokens, but {layer.name} has {queries} "
            f"queries and {keys} keys; ask its weights directly: seen[i].weights"
        )
