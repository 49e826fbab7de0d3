"""What each head does: its role, the scores that make it, and where its weight lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import count
from regard.recording import numbered
from regard.recording.answers.written import dead_scores, written
from regard.recording.reading import plain
from regard.recording.recording import Layer, Recording
from regard.recording.roles import BY_WEIGHT, FEW, real_of, role_of
from regard.recording.summary import LayerStatistics, summarise, tokens_of

ROLES = (*BY_WEIGHT, "positional", "dead", "broad")
"""What a head may be found by."""
REPEATED = ("duplicate", "induction")


@dataclass(frozen=True)
class Head:
    """One head of one layer over one text."""

    layer: int
    head: int
    name: str
    """The layer's."""
    role: str
    """One of ``ROLES``, or ``none``."""
    scores: dict[str, float]
    """Of each role; ``dead`` is missing where the model could not be run again."""
    entropy: float
    """Mean over the queries that are no padding, in nats."""
    distance: float
    """The mean of |i − j|, each pair counted by its weight."""
    local: float
    """The share of its weight that lies at most 8 keys from the query."""
    sinks: tuple[int, ...]
    """The keys that take more than 0.3 of the weight of all that may see them."""


class Heads(tuple[Head, ...]):
    """All heads, layer by layer."""

    repeats: bool | None = True
    """Whether some layer has enough queries whose token came before; None where no token numbers
    are known."""

    def find(self, role: str, n: int = 10) -> tuple[Head, ...]:
        """The n heads that score highest for ``role``, highest first.

        Raises:
            ValueRangeError: a role that there is not, one of repeated tokens in a text that has
                next to none, ``separator`` where none are known; an n below 0.
            KindError: ``dead`` where the model could not be run again.
        """
        if role not in ROLES:
            raise ValueRangeError(f"role must be one of {', '.join(ROLES)}, but {role!r} came")
        if role in REPEATED and self.repeats is None:
            raise ValueRangeError(
                f"no token numbers of this recording's queries are known, so no head can show "
                f"{role!r}; call the model with input_ids"
            )
        # What a mark's own query gives to it is more than 0.
        if role == "separator" and not any(head.scores.get(role, 0.0) > 0 for head in self):
            raise ValueRangeError(
                "no punctuation or special token is known in this text besides its first token, so "
                "no head can show 'separator'; watch(model, tokenizer) finds them, or say where "
                "they are: separators=[…], for statistics in keep=Statistics(separators=[…])"
            )
        if role in REPEATED and not self.repeats:
            raise ValueRangeError(
                f"fewer than {FEW} tokens of this text came before in it, so no head can show "
                f"{role!r}; give the model a text that repeats itself, such as random tokens twice"
            )
        known = [head for head in self if role in head.scores]
        if not known:
            raise KindError(
                f"no head has a score for {role!r}, for it takes the values that heads mix, which "
                "a recording has only as long as its model can be run again, in evaluation mode"
            )
        known.sort(key=lambda head: (-head.scores[role], head.layer, head.head))
        return tuple(known[: count("n", n)])


def roles(
    seen: Recording,
    *,
    sample: int = 0,
    separators: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Heads:
    """Every head of the self-attention layers, summed up in one pass over each layer's weights.

    Args:
        seen: one run of a model, as queries and keys or as statistics.
        sample: which of the batch.
        separators: the positions of punctuation and special tokens in that sample; found from its
            tokens unless given.
        progress: called with (layers done, layers in all).  What it raises, as what the keyboard
            raises, ends the pass and leaves the recording as it was.

    Raises:
        ShapeError: a recording without self-attention.
        ValueRangeError: a sample that is not there.

    The rules, scores and sources: ``regard/recording/roles.py``.
    """
    run, told = seen.run, progress or (lambda done, total: None)
    held: Sequence[Layer | LayerStatistics] = run.statistics or run.layers
    numbers = [n for n, layer in enumerate(held) if _is_square(layer)]
    if not numbers:
        raise ShapeError("roles are those of self-attention, but this recording has none")
    sample = numbered.number("sample", sample, _batch(held[numbers[0]]))
    marks: dict[tuple[str, bool], tuple[int, ...]] = {}
    lengths = _lengths(seen)
    found: list[Head] = []
    repeats: bool | None = False if run.statistics and run.texts else None
    for done, number in enumerate(numbers):
        told(done, len(numbers))
        layer = held[number]
        if isinstance(layer, Layer):
            ids = run.texts.get(layer.queries)
            real = real_of(layer, run)
            tokens = tokens_of(layer, ids, real)
            repeats = repeats or (repeats if tokens is None else _repeats(tokens[sample]))
            if (at := (layer.queries, tokens is None)) not in marks:
                own = None if tokens is None or ids is None else ids[sample]
                marks[at] = tuple(_separators(seen, own) if separators is None else separators)
            layer = summarise(
                layer, strongest=0, pixels=1, separators=marks[at], ids=ids, real=real
            )
        elif any(layer.scores[role].any() for role in REPEATED if role in layer.scores):
            repeats = True
        found += _of(number, layer, lengths.get(number), sample)
    told(len(numbers), len(numbers))
    heads = Heads(found)
    heads.repeats = repeats
    return heads


def _of(
    number: int, layer: LayerStatistics, lengths: NDArray[np.float64] | None, sample: int
) -> list[Head]:
    scores = dict(layer.scores)
    if lengths is not None:
        scores["dead"] = dead_scores(lengths)
    rows = slice(None) if layer.real is None else layer.real[sample]
    heads = []
    for h in range(layer.heads):
        mine = {role: float(of[sample, h]) for role, of in scores.items()}
        heads.append(
            Head(
                layer=number,
                head=h,
                name=layer.name,
                role=role_of(mine),
                scores=mine,
                entropy=float(layer.entropy[sample, h][rows].mean()),
                distance=_number(layer.distance, sample, h),
                local=_number(layer.local, sample, h),
                sinks=layer.sinks(h, sample),
            )
        )
    return heads


def _number(of: NDArray[Any], sample: int, head: int) -> float:
    """NaN where a file of an earlier version does not say."""
    return float(of[sample, head]) if of.size else float("nan")


def _is_square(layer: Layer | LayerStatistics) -> bool:
    T, S = layer.sides
    return T == S and layer.kind != "cross"


def _batch(layer: Layer | LayerStatistics) -> int:
    return layer.shape[0] if isinstance(layer, LayerStatistics) else int(layer.q.shape[0])


def _repeats(ids: NDArray[np.int64]) -> bool:
    return len(ids) - len(np.unique(ids)) >= FEW


def _separators(seen: Recording, ids: NDArray[np.int64] | None) -> Sequence[int]:
    """The positions of marks in the text ``ids``, as far as its recording can spell it."""
    if seen.reading is not None:
        return seen.reading.separators
    if seen.tokenizer is None or ids is None:
        return ()
    return plain(seen.tokenizer.convert_ids_to_tokens(ids.tolist())).separators


def _lengths(seen: Recording) -> dict[int, NDArray[np.float64]]:
    """What the heads write, where the model can be run again."""
    try:
        return written(seen.run) if seen.run.layers else {}
    except (KindError, RuntimeError):  # the latter: the model has moved, or changed, since
        return {}
