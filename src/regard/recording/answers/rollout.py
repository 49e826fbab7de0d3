"""Where a token's information comes from: attention, rolled out through all layers.

Only row vectors go through the layers, from the last to the first: n numbers a target, where the
paper's own order of the products holds an n × n matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError, ValueRangeError
from regard.recording.numbered import number
from regard.recording.recording import Layer

Progress = Callable[[int, int], None]


def rollout(
    layers: Sequence[Layer],
    targets: Sequence[int],
    *,
    residual: float = 0.5,
    sample: int = 0,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """How much of each target comes from each token, (N, T); each row sums to 1.

    ::

        rollout_t = e_t Ã_L … Ã_1,    Ã_l = rows to sum 1 of (1 − r) · mean over heads W_l + r · I

    Args:
        layers: the layers of one run, self-attention over the same T tokens, first to last.
        targets: N positions whose origin is asked for.
        residual: r, the share that the residual connection carries past a layer.
        sample: which of the batch.
        progress: called with (layers done, layers in all).

    Raises:
        ShapeError: a layer that is not T × T.
        ValueRangeError: a target that is not there, or a share outside 0 … 1.

    Source: Abnar and Zuidema 2020, section 3, with its r = 0.5 and mean over heads.
    """
    T = check_square(layers, residual)
    told = progress or (lambda done, total: None)
    flow = np.zeros((len(targets), T))
    flow[np.arange(len(targets)), [within(t, T) for t in targets]] = 1.0
    for done, layer in enumerate(reversed(layers)):
        told(done, len(layers))
        whole = row_sums(layer, residual, sample)
        share = np.divide(flow, whole, out=np.zeros_like(flow), where=whole > 0)
        carried = one_of(layer.weights.received(by=share), sample).mean(axis=0)
        flow = (1 - residual) * carried + residual * share
    told(len(layers), len(layers))
    return flow


def check_square(layers: Sequence[Layer], residual: float) -> int:
    """T, the tokens that all ``layers`` are over."""
    if not 0.0 <= residual <= 1.0:
        raise ValueRangeError(f"residual must lie in 0 … 1, but it is {residual}")
    if not layers:
        raise ShapeError("layers must hold at least one layer, but the recording has none")
    T = int(layers[0].q.shape[-2])
    for layer in layers:
        if tuple(layer.weights.shape[-2:]) != (T, T):
            raise ShapeError(
                f"layers must be self-attention over the same {T} tokens, but {layer.name} has "
                f"{layer.q.shape[-2]} queries and {layer.k.shape[-2]} keys; choose some: "
                "[layer for layer in seen if layer.kind == 'decoder']"
            )
    return T


def row_sums(layer: Layer, residual: float, sample: int) -> NDArray[np.float64]:
    """(T,) what each row of (1 − r) · mean W + r · I sums to: 1, but for sinks and padding."""
    W = layer.weights
    if "sink" not in layer.options and W.visible.all():
        return np.ones(W.shape[-2])
    there = one_of(W.mass(slice(None)), sample).mean(axis=0)
    return np.asarray((1 - residual) * there + residual)


def within(target: int, T: int) -> int:
    """``target`` counted from 0."""
    if not -T <= target < T:
        raise ValueRangeError(f"a target must lie in 0 … {T - 1}, but {target} came")
    return target % T


def one_of(answer: Any, sample: int) -> NDArray[np.float64]:
    """One sample's answer, (H, …), in float64."""
    return in_float64(answer[number("sample", sample, len(answer))])


def in_float64(answer: Any) -> NDArray[np.float64]:
    """In NumPy's arrays, which do not know bfloat16."""
    if hasattr(answer, "detach"):
        answer = answer.detach().double().cpu()
    return np.asarray(answer, np.float64)
