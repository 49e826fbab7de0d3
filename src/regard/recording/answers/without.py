"""What becomes of a model's output where some heads are off: a weight is no cause, a change is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError
from regard._shapes import count
from regard.recording.answers.held import check_met, layers_of
from regard.recording.capture.replay import Called, Visitor, replay
from regard.recording.numbered import number, pairs
from regard.recording.recording import Recording, Run

if TYPE_CHECKING:
    from torch import Tensor

HELD = 1 << 22
"""How many logits are compared at once."""


class Likely(NamedTuple):
    """A next token, and how likely the model finds it with the heads and without."""

    token: int
    before: float
    after: float


@dataclass(frozen=True, eq=False, repr=False)
class Without:
    """The model's output with some heads off, beside its own."""

    heads: tuple[tuple[int, int], ...]
    """(layer, head) of each."""
    change: NDArray[np.float64]
    """(B, T) how far the output vector (logits, or hidden state) of each position moves, as a share
    of its length: ‖after − before‖ / ‖before‖.  Here and below NaN at padding, which says nothing.
    """
    divergence: NDArray[np.float64] | None
    """(B, T) the Kullback-Leibler divergence of what is said to come next, in nats, from the
    model's own to that without the heads; None where the output is no logits."""
    loss: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    """(B, T − 1) before and after: −ln of how likely each next token of the text is; None where the
    output is not the logits of a model that says what comes next."""
    last: tuple[NDArray[np.float64], NDArray[np.float64]] | None
    """(B, V) before and after: how likely each token is after the last position that is no
    padding."""

    def likeliest(self, n: int = 5, sample: int = 0) -> list[Likely]:
        """What comes after the last position: the n likeliest before and after, largest first.

        Raises:
            KindError: an output that is no logits.
            ValueRangeError: a sample that is not there, or an n below 0.
        """
        if self.last is None:
            raise KindError(
                "the model's output is no logits, so nothing is likely to come next; watch the "
                "model with its language-model head, or say where they are: without(…, logits=…)"
            )
        sample = number("sample", sample, len(self.last[0]))
        before, after = (side[sample] for side in self.last)
        some = {
            int(t)
            for side in (before, after)
            for t in np.argsort(-side, kind="stable")[: count("n", n)]
        }
        found = [Likely(t, float(before[t]), float(after[t])) for t in some]
        return sorted(found, key=lambda one: (-max(one.before, one.after), one.token))

    def __repr__(self) -> str:
        names = ", ".join(f"{layer}.{head}" for layer, head in self.heads)
        what = f"change {_mean(self.change):.3f}"
        if self.divergence is not None:
            what += f", divergence {_mean(self.divergence):.4f} nats"
        if self.loss is not None:
            rise = _mean(self.loss[1]) - _mean(self.loss[0])
            what += f", loss {rise:+.4f} nats a token"
        return f"Without({names}: {what})"


def _mean(of: NDArray[np.float64]) -> float:
    """Over all but padding."""
    return float(of[~np.isnan(of)].mean())


def without(
    seen: Recording,
    heads: Sequence[tuple[int, int]],
    *,
    logits: Callable[[Any], Any] | None = None,
) -> Without:
    """Run the model again with ``heads`` off, and compare its output with its own.

    ::

        o_h = 0 for each (layer, h) in heads; all else, what these heads' outputs change included,
        is computed anew

    Args:
        seen: a recording of one forward pass whose model is still there.
        heads: (layer, head) of each.
        logits: takes the model's output to logits (B, T, V); ``output.logits`` unless given.

    Raises:
        KindError: a run that cannot be had again; statistics only; an attention that is computed
            by hand, an output without vectors, or a head that is no (layer, head).
        ValueRangeError: a layer or head that is not there.
        ShapeError: logits that are not (B, T, V).

    Source: removing heads one by one: Michel, Levy and Neubig 2019, section 2.
    """
    layers_of(seen)
    run = seen.run
    off: dict[int, list[int]] = {}
    for layer, head in pairs("heads", heads):
        at, h = place_of(run, layer, head)
        off.setdefault(at, []).append(h)
    own = _vectors(replay(run, Visitor()), logits)
    silenced = Silenced(off)
    other = _vectors(replay(run, silenced), logits)
    check_met(run, off, silenced.met)
    named = tuple(sorted((n, h) for n, some in off.items() for h in set(some)))
    real = told_of(run, *own.values.shape[:2])
    return _compared(named, own, other, _next_of(run, own), real)


def place_of(run: Run, layer: int, head: int) -> tuple[int, int]:
    """``layer`` and ``head`` counted from 0."""
    at = number("layer", layer, len(run.layers))
    return at, number("head", head, run.layers[at].heads)


def told_of(run: Run, B: int, T: int) -> NDArray[np.bool_] | None:
    """(B, T) which positions of the model's output are no padding; None where nothing is known.

    An output has the positions that the last layer looks from.
    """
    hidden = run.expected.padding.get(run.layers[-1].queries) if run.layers else None
    return None if hidden is None or hidden.shape != (B, T) else ~hidden


def last_of(real: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(B,) the last position of each sample that is no padding."""
    return np.asarray(real.shape[1] - 1 - real[:, ::-1].argmax(1))


class Silenced(Visitor):
    """Takes heads away."""

    def __init__(self, off: dict[int, list[int]]) -> None:
        self.off = off
        self.met: set[int] = set()

    def output(self, called: Called) -> Tensor | None:
        heads = self.off.get(called.number)
        if heads is None:
            return None
        self.met.add(called.number)
        silent = called.o.clone()
        silent[:, heads] = 0.0
        return silent


class _Vectors(NamedTuple):
    """What a model gives for each position."""

    values: Tensor
    """(B, T, V) logits, or (B, T, d)"""
    are_logits: bool


def _vectors(output: Any, logits: Callable[[Any], Any] | None) -> _Vectors:
    found = getattr(output, "logits", None) if logits is None else logits(output)
    said = found is not None
    if found is None:
        found = getattr(output, "last_hidden_state", output)
    if isinstance(found, tuple | list) and found:
        # Where the model was given labels, their loss comes before.
        found = next((one for one in found if getattr(one, "ndim", 0) > 1), found[0])
    if not hasattr(found, "detach"):
        raise KindError(
            "the model's output must be a tensor, or have logits or last_hidden_state, but it is a "
            f"{type(found).__name__}; say which with without(…, logits=…)"
        )
    if logits is not None and found.ndim != 3:
        raise ShapeError(f"logits must be (B, T, V), but their shape is {tuple(found.shape)}")
    if found.ndim < 2:
        raise KindError(
            "the model's output must hold vectors (B, …, d), but its shape is "
            f"{tuple(found.shape)}; say where they are with without(…, logits=…)"
        )
    found = found.detach()
    # One vector a sample, as a classifier gives it, is one position.
    flat = found.reshape(found.shape[0], -1, found.shape[-1])
    return _Vectors(flat, said and found.ndim == 3)


def _next_of(run: Run, own: _Vectors) -> NDArray[np.int64] | None:
    """(B, T − 1) the token that comes after each position, where that is what logits tell of."""
    if not own.are_logits:
        return None
    B, T, V = own.values.shape
    for layer in run.layers:
        if layer.kind in ("decoder", "self") and layer.queries in run.texts:
            ids = run.texts[layer.queries]
            causal = (layer.kind == "decoder") or "causal" in repr(layer.mask)
            if causal and ids.shape == (B, T) and ids.max(initial=0) < V:
                return np.asarray(ids[:, 1:])
    return None


def _compared(
    heads: tuple[tuple[int, int], ...],
    own: _Vectors,
    other: _Vectors,
    following: NDArray[np.int64] | None,
    real: NDArray[np.bool_] | None,
) -> Without:
    B, T, V = own.values.shape
    change, divergence = np.zeros((B, T)), np.zeros((B, T))
    losses = np.zeros((2, B, max(T - 1, 0)))
    step = max(1, HELD // max(1, B * V))
    for first in range(0, T, step):
        rows = slice(first, min(first + step, T))
        before, after = (side.values[:, rows].cpu().double() for side in (own, other))
        length = np.asarray(before.norm(dim=-1))
        moved = np.asarray((after - before).norm(dim=-1))
        change[:, rows] = np.divide(moved, length, out=np.zeros_like(moved), where=length > 0)
        if not own.are_logits:
            continue
        p, q = before.log_softmax(-1), after.log_softmax(-1)
        divergence[:, rows] = np.asarray((p.exp() * (p - q)).sum(-1)).clip(0.0)
        if following is not None and T > 1:
            at = slice(first, min(first + step, T - 1))
            index = following[:, at, None]
            for loss, side in zip(losses, (p, q), strict=True):
                picked = np.take_along_axis(np.asarray(side)[:, : index.shape[1]], index, -1)
                loss[:, at] = -picked[..., 0]
    last = None
    if own.are_logits:
        ends = np.full(B, T - 1) if real is None else last_of(real)
        chances = [
            side.values[range(B), ends.tolist()].cpu().double().softmax(-1) for side in (own, other)
        ]
        last = (np.asarray(chances[0]), np.asarray(chances[1]))
    if real is not None:
        change[~real] = divergence[~real] = np.nan
        losses[:, ~(real[:, :-1] & real[:, 1:])] = np.nan
    return Without(
        heads,
        change,
        divergence if own.are_logits else None,
        (losses[0], losses[1]) if following is not None else None,
        last,
    )
