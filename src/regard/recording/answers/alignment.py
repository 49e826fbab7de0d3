"""When each word of a transcript is said: cross attention to sound, as a path through time.

The heads that Whisper's makers name, or all of its later half, look at the frame that a token is
about.  What they look at beyond that is evened out, and the cheapest way through tokens and frames
that never turns back gives each token its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import count
from regard.recording.answers.held import layers_of
from regard.recording.answers.rollout import in_float64
from regard.recording.numbered import number, pairs
from regard.recording.recording import Layer, Recording

MEDIAN = 7
"""Frames over which a median is taken: 0.14 s."""


@dataclass(frozen=True)
class Word:
    """A word, and when it is said."""

    text: str
    start: float
    """Seconds."""
    stop: float
    tokens: tuple[int, int]
    """The first of its tokens, and one after the last."""


def align(
    seen: Recording,
    pieces: Sequence[str],
    *,
    heads: Sequence[tuple[int, int]] | None = None,
    first: int = 0,
    seconds: float = 0.02,
    length: float | None = None,
) -> tuple[Word, ...]:
    """The words that ``pieces`` spell, with the seconds at which cross attention finds them.

    ::

        a_tj = mean over the heads of  median over j of  (w_tj − mean_t w_tj) / std_t w_tj
        path = the way from (first token, frame 0) to (last token, last frame) by steps of one
               token, one frame or both, whose sum of −a is least
        a token begins at the first frame of its part of the path

    Args:
        seen: one forward pass of a speech model over the sound and its transcript.
        pieces: what each token of the transcript spells, a new word beginning with a space; as
            many as there are tokens from ``first`` on, without special ones at the end.
        heads: (cross layer, head), counted among the cross attention's layers; the later half of
            these unless given.  Whisper's own stand in its ``generation_config.json``.
        first: the query that predicts the first of them: how many special tokens begin it, less 1.
        seconds: the length of a frame.
        length: how long the sound is; frames beyond it are left out.

    Raises:
        KindError: a recording without cross attention, or of statistics only.
        ShapeError: more pieces than queries.
        ValueRangeError: a layer or a head that is not there, no heads, a first below 0,
            or seconds or a length that are not above 0.

    Source: Radford et al. 2022 (Whisper), section 6 and its timestamps by dynamic time warping;
    the warping: Sakoe and Chiba 1978.
    """
    cross = [layer for layer in layers_of(seen) if layer.kind == "cross"]
    if not cross:
        raise KindError(
            "words are aligned by cross attention to sound, but this recording has none; watch the "
            "whole model, with input_features and decoder_input_ids"
        )
    T, S = (int(array.shape[-2]) for array in (cross[0].q, cross[0].k))
    first = count("first", first)
    for name, value in (("seconds", seconds), ("length", 1.0 if length is None else length)):
        if not value > 0:
            raise ValueRangeError(f"{name} must be above 0, but {value} came")
    if first + len(pieces) > T:
        raise ShapeError(
            f"pieces must be at most the {T - first} tokens that queries {first} … {T - 1} "
            f"predict, but {len(pieces)} came"
        )
    if heads is None:
        later = range(len(cross) // 2, len(cross))
        heads = [(n, h) for n in later for h in range(cross[n].heads)]
    chosen = [(cross[number("a cross layer", n, len(cross))], h) for n, h in pairs("heads", heads)]
    if not chosen:
        raise ValueRangeError("heads must hold a (cross layer, head), but there is none")
    frames = S if length is None else max(1, min(S, int(np.ceil(length / seconds))))
    rows = np.arange(first, first + len(pieces))
    matches = np.mean(
        [_match(layer, number("head", h, layer.heads), rows, frames) for layer, h in chosen], axis=0
    )
    starts = _warped(-matches)
    return tuple(_words(pieces, [*(starts * seconds), frames * seconds]))


def _match(layer: Layer, head: int, rows: NDArray[np.int64], frames: int) -> NDArray[np.float64]:
    """(tokens, frames) one head's weights, each frame set beside itself at other tokens."""
    w = in_float64(layer.weights[0, head, rows, slice(0, frames)])
    w /= np.maximum(w.sum(-1, keepdims=True), np.finfo(np.float64).tiny)
    spread = w.std(0, keepdims=True)
    w = (w - w.mean(0, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    side = min(MEDIAN // 2, (frames - 1) // 2)
    padded = np.pad(w, ((0, 0), (side, side)), mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, 2 * side + 1, axis=-1)
    return np.asarray(np.median(windows, axis=-1))


def _warped(cost: NDArray[np.float64]) -> NDArray[np.int64]:
    """(tokens,) the first frame of each token's part of the cheapest path."""
    n, m = cost.shape
    total = np.full((n + 1, m + 1), np.inf)
    total[0, 0] = 0.0
    came = np.zeros((n, m), dtype=np.int8)
    for i in range(n):
        for j in range(m):
            ways = (total[i, j], total[i, j + 1], total[i + 1, j])
            came[i, j] = way = int(np.argmin(ways))
            total[i + 1, j + 1] = cost[i, j] + ways[way]
    starts = np.zeros(n, np.int64)
    i, j = n - 1, m - 1
    while i >= 0 and j >= 0:
        starts[i] = j
        way = came[i, j]
        i, j = i - (way != 2), j - (way != 1)
    return starts


def _words(pieces: Sequence[str], times: Sequence[float]) -> list[Word]:
    found: list[Word] = []
    begin = 0
    for n in range(1, len(pieces) + 1):
        if n < len(pieces) and not pieces[n].startswith(" "):
            continue
        text = "".join(pieces[begin:n]).strip()
        found.append(Word(text, float(times[begin]), float(times[n]), (begin, n)))
        begin = n
    return found
