"""How much each weight adds to one number of the output, to first order: gradient × attention.

No gradient of a T × S matrix is ever made: with the gradient dO of the heads' outputs, that of each
weight is a product of two vectors, dA_ij = dO_i · v_j.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError
from regard.core.attention import attend
from regard.recording.answers.held import check_met, layers_of
from regard.recording.answers.importance import Targets, check_targets, rows_of
from regard.recording.answers.rollout import one_of
from regard.recording.answers.without import last_of, told_of
from regard.recording.capture.replay import Called, Visitor, replay
from regard.recording.numbered import number
from regard.recording.recording import Layer, Recording, Run

if TYPE_CHECKING:
    from torch import Tensor

Of = Callable[[Any], Any] | tuple[int, int] | None


@dataclass(frozen=True, eq=False, repr=False)
class LayerAttribution:
    """What the weights of one layer add."""

    layer: int
    name: str
    heads: NDArray[np.float64]
    """(H,) of each head, summed over all its weights."""
    received: NDArray[np.float64]
    """(H, S) of each key, summed over the queries."""
    targets: NDArray[np.float64]
    """(H, N, S) of each weight at the chosen queries."""


@dataclass(frozen=True, eq=False, repr=False)
class Attribution:
    """What all weights of a run add to one number."""

    value: float
    """The number."""
    layers: tuple[LayerAttribution, ...]

    def __repr__(self) -> str:
        return f"Attribution({self.value:.4f}, {len(self.layers)} layers)"


def attribution(
    seen: Recording,
    of: Of = None,
    targets: Targets = (),
    *,
    sample: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Attribution:
    """The gradient of one number of the output by each weight, times the weight.

    ::

        attribution_ij = w_ij · ∂y/∂w_ij = w_ij · (∂y/∂o_i · v_j)

    Summed over a head it says how y would begin to change if the head's output were scaled; a
    negative number speaks against y.  The model runs again with gradients, in memory that grows
    with the text.

    Args:
        seen: a recording of one forward pass whose model is still there.
        of: takes the model's output to y, one number; or (position, token), whose logit is y.  The
            largest logit of the last position that is no padding unless given.
        targets: N positions of queries whose links are wanted; of an encoder-decoder, those of the
            encoder, or ``{"decoder_input_ids": [3]}``.
        sample: which of the batch.
        progress: called with (layers done, layers in all).

    Raises:
        KindError: a run that cannot be had again; statistics only; an attention that is computed
            by hand; an output without logits; a y that is no number, or that no attention has a
            part in.
        ValueRangeError: a target, a sample, a position or a token that is not there.

    Source: weight times gradient: Chefer, Gur and Wolf 2021 (CVPR), section 3.1; summed over a
    head: Michel, Levy and Neubig 2019, section 4.1.
    """
    check_targets(seen.run, targets)
    found, told = _Leaves(), progress or (lambda done, total: None)
    import torch

    held = layers_of(seen)
    sample = number("sample", sample, int(held[0].q.shape[0]))
    output = replay(seen.run, found, gradients=True)
    check_met(seen.run, range(len(held)), {called.number for called, _ in found.of})
    with torch.inference_mode(False), torch.enable_grad():
        y = _number(output, of, sample, seen.run)
        if not found.of or not y.requires_grad:
            raise KindError(
                "of must be a number that the model computes by attention, but no attention that "
                "was recorded has a part in it"
            )
        leaves = [leaf for _, leaf in found.of]
        gradients = torch.autograd.grad(y, leaves, allow_unused=True, materialize_grads=True)
    layers = []
    for done, ((called, _), dO) in enumerate(zip(found.of, gradients, strict=True)):
        told(done, len(leaves))
        rows = rows_of(called.layer, seen.run, targets)
        layers.append(_of_layer(called, dO, rows, sample))
    told(len(leaves), len(leaves))
    return Attribution(float(y.detach()), tuple(layers))


class _Leaves(Visitor):
    """Adds to each output a 0 whose gradient is the output's."""

    def __init__(self) -> None:
        self.of: list[tuple[Called, Tensor]] = []

    def output(self, called: Called) -> Tensor | None:
        """The same numbers."""
        import torch

        leaf = torch.zeros_like(called.o, requires_grad=True)
        self.of.append((called, leaf))
        return called.o + leaf


def _number(output: Any, of: Of, sample: int, run: Run) -> Any:
    if callable(of):
        y = of(output)
        if not hasattr(y, "detach") or y.numel() != 1:
            raise KindError(
                "of must give one number as a tensor, such as lambda output: "
                f"output.logits[0, -1, 42], but it gave {type(y).__name__}"
            )
        return y.reshape(())
    logits = getattr(output, "logits", None)
    if logits is None or logits.ndim != 3:
        raise KindError(
            "the model's output has no logits (B, T, V) to take a number from; say which number: "
            "attribution(of=lambda output: …)"
        )
    if of is None:
        real = told_of(run, *logits.shape[:2])
        return logits[sample, -1 if real is None else last_of(real)[sample]].max()
    if not isinstance(of, tuple | list) or len(of) != 2:
        raise KindError(
            f"of must be a function of the model's output, or (position, token), but it is {of!r}"
        )
    T, V = logits.shape[1:]
    return logits[sample, number("of's position", of[0], T), number("of's token", of[1], V)]


def _of_layer(called: Called, dO: Tensor, rows: NDArray[np.int64], sample: int) -> LayerAttribution:
    layer, group = called.layer, called.layer.heads // called.v.shape[1]
    v = called.v.repeat_interleave(group, 1)
    links = np.zeros((layer.heads, 0, v.shape[-2]))
    if len(rows):
        w = one_of(layer.weights[..., rows, :], sample)
        links = w * one_of(dO[:, :, rows].double() @ v.double().mT, sample)
    return LayerAttribution(
        called.number,
        layer.name,
        one_of((dO * called.o).double().sum((-2, -1)), sample),
        one_of((_back(layer, v, dO) * v).double().sum(-1), sample),
        links,
    )


def _back(layer: Layer, v: Tensor, dO: Tensor) -> Tensor:
    """(B, H, S, E) Σ_i w_ij dO_i: the gradient of values that each head has for itself."""
    import torch

    k = layer.k.repeat_interleave(v.shape[1] // layer.k.shape[1], 1)
    with torch.inference_mode(False), torch.enable_grad():
        values = v.clone().requires_grad_()
        out = attend(layer.q, k, values, layer.mask, start=layer.start, **layer.options)
        return torch.autograd.grad(out, values, dO)[0]
