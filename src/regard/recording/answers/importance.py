"""What weights carry: each times the length of the vector that it multiplies.

A weight says how much of a value is taken, not how much there is.  A head that looks at one token
with all its weight and finds a vector of length 0 there has taken nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from regard._errors import ValueRangeError
from regard.recording.answers.held import check_met, layers_of
from regard.recording.answers.rollout import in_float64, within
from regard.recording.capture.replay import Called, Visitor, replay
from regard.recording.numbered import number
from regard.recording.recording import Layer, Recording, Run
from regard.recording.roles import real_of

Progress = Callable[[int, int], None]
Targets = Sequence[int] | Mapping[str, Sequence[int]]
"""Positions of queries, or such by the argument that they come from."""


@dataclass(frozen=True, eq=False, repr=False)
class Importance:
    """The norm-weighted weights of one layer."""

    layer: int
    name: str
    norms: NDArray[np.float64]
    """(H, S) ‖f(x_j)‖"""
    received: NDArray[np.float64]
    """(H, S) of each key, the sum over all queries but padding of weight times norm."""
    targets: NDArray[np.float64]
    """(H, N, S) weight times norm at the chosen queries."""
    projected: bool
    """Whether f ends in the model's output projection; where none was seen, f(x_j) is the value
    v_j alone, whose length is only comparable within a head."""

    def __repr__(self) -> str:
        H, N, S = self.targets.shape
        how = "" if self.projected else ", by the values alone"
        return f"Importance({self.name!r}, {H} × {N} × {S}{how})"


def importance(
    seen: Recording,
    targets: Targets = (),
    *,
    sample: int = 0,
    progress: Progress | None = None,
) -> tuple[Importance, ...]:
    """Weights times the length of what they carry, for each layer, in linear memory.

    ::

        importance_ij = w_ij · ‖f(x_j)‖,    f(x_j) = v_j W_O,h

    The model is run again, because a recording keeps no values.  v_j holds the value projection's
    bias, as in the paper; the bias of the output projection is no head's.

    Args:
        seen: a recording of one forward pass whose model is still there.
        targets: N positions of queries whose links are wanted, besides what each key receives; of
            an encoder-decoder, those of the encoder, or ``{"decoder_input_ids": [3]}``.  Layers
            that look from elsewhere have none.
        sample: which of the batch.
        progress: called with (layers done, layers in all).

    Raises:
        KindError: a run that cannot be had again; statistics only; an attention that is computed
            by hand.
        ValueRangeError: a target or a sample that is not there.

    Source: Kobayashi et al. 2020, section 3.
    """
    layers = layers_of(seen)
    sample = number("sample", sample, int(layers[0].q.shape[0]))
    check_targets(seen.run, targets)
    found = _Weighed(seen.run, targets, sample, progress)
    replay(seen.run, found)
    check_met(seen.run, range(len(layers)), {one.layer for one in found.of})
    return tuple(found.of)


def check_targets(run: Run, targets: Targets) -> None:
    """Refuse targets of an argument from which no layer of ``run`` looks."""
    known = dict.fromkeys(layer.queries for layer in run.layers)
    for name in targets if isinstance(targets, Mapping) else ():
        if name not in known:
            raise ValueRangeError(
                f"targets must be of an argument whose places layers look from, one of "
                f"{', '.join(known)}, but {name!r} came"
            )


def rows_of(layer: Layer, run: Run, targets: Targets) -> NDArray[np.int64]:
    """(N,) the layer's queries among ``targets``."""
    if isinstance(targets, Mapping):
        mine = targets.get(layer.queries, ())
    else:
        looking = [one.queries for one in run.layers]
        meant = "input_ids" if "input_ids" in looking else looking[0]
        mine = targets if layer.queries == meant else ()
    return np.array([within(t, int(layer.q.shape[-2])) for t in mine], dtype=np.int64)


class _Weighed(Visitor):
    def __init__(self, run: Run, targets: Targets, sample: int, progress: Progress | None) -> None:
        self.of: list[Importance] = []
        self._run, self._targets, self._sample = run, targets, sample
        self._told = progress or (lambda done, total: None)

    def done(self, called: Called) -> None:
        """Weigh it."""
        W, n = called.layer.weights, self._sample
        rows = rows_of(called.layer, self._run, self._targets)
        norms = _norms(called, n)
        real = real_of(called.layer, self._run)
        got = in_float64(W.received(None if real is None else real[n])[n])
        links = np.zeros((W.shape[-3], 0, W.shape[-1]))
        if len(rows):
            links = in_float64(W[..., rows, :][n])
        self.of.append(
            Importance(
                called.number,
                called.layer.name,
                norms,
                got * norms,
                links * norms[:, None],
                called.projection is not None,
            )
        )
        self._told(len(self.of), len(self._run.layers))


def _norms(called: Called, sample: int) -> NDArray[np.float64]:
    """(H, S) the length of v_j W_O for each head."""
    v = called.v[sample].double()  # (G, S, E)
    H = called.layer.heads
    group = H // v.shape[0]
    into = called.projection
    if into is None:
        return np.asarray(v.norm(dim=-1).repeat_interleave(group, 0).cpu())
    found = []
    for h in range(H):
        one = into[h].double()
        # By the E × E products of the rows of W_O, so that nothing of width d is made.
        mine = v[h // group]
        found.append(((mine @ (one @ one.mT)) * mine).sum(-1).clamp(min=0.0).sqrt().cpu().numpy())
    return np.stack(found)
