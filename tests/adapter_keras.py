"""A pytest plugin (``-p adapter_keras``): Keras' own tests meet our attention in its layers.

The layers keep Keras' names, variables and arguments, and its rules for joining masks.  What they
compute, ours computes, from views of their variables.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import keras
import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from regard import keep
from regard.nn import from_keras
from regard.nn.conversion.keras import PROJECTIONS

calls = 0


def tensor(variable: Any) -> Tensor:
    """A variable as it is, with its gradient, in the dtype of the computation."""
    found: Tensor = keras.ops.convert_to_tensor(variable)
    return found


def views_of_heads(theirs: Any) -> dict[str, Tensor]:
    """The variables of MultiHeadAttention and GroupQueryAttention under our names."""
    found = {}
    for name, dense in (*PROJECTIONS, ("output", "_output_dense"), ("gate", "_gate_dense")):
        layer = getattr(theirs, dense, None)
        if layer is None:
            continue
        kernel = tensor(layer.kernel)
        inputs = kernel.shape[0] if name != "output" else kernel.shape[0] * kernel.shape[1]
        found[f"{name}.weight"] = kernel.reshape(inputs, -1).T
        if layer.bias is not None:
            found[f"{name}.bias"] = tensor(layer.bias).reshape(-1)
    return found


def called(ours: Any, views: dict[str, Tensor], training: Any, *arrays: Any) -> Tensor:
    """What ours says, with those numbers."""
    global calls  # noqa: PLW0603 - pytest's hooks and Keras' layers have no other place to share
    calls += 1
    ours.train(bool(training))
    found: Tensor = functional_call(ours, views, arrays)
    return found


def scores(ours: Any, views: dict[str, Tensor], *arrays: Any) -> Tensor:
    """Its weights (B, H, T, S)."""

    class Weights(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ours = ours

        def forward(self, *arrays: Any) -> Any:
            return ours.weights(*arrays).dense()

    named = {f"ours.{name}": a for name, a in views.items()}
    found: Tensor = functional_call(Weights(), named, arrays)
    return found


def call_of_heads(
    self: Any,
    query: Any,
    value: Any,
    key: Any = None,
    query_mask: Any = None,
    value_mask: Any = None,
    key_mask: Any = None,
    attention_mask: Any = None,
    return_attention_scores: bool = False,
    training: Any = None,
    use_causal_mask: bool = False,
) -> Any:
    """``call`` of MultiHeadAttention and GroupQueryAttention."""
    key = value if key is None else key
    query_mask = getattr(query, "_keras_mask", None)
    seen = self._compute_attention_mask(
        query,
        value,
        query_mask=query_mask,
        value_mask=value_mask,
        key_mask=key_mask,
        attention_mask=attention_mask,
        use_causal_mask=use_causal_mask,
    )
    mask = None
    if seen is not None:
        seen = seen.bool()
        mask = keep(seen[:, None] if seen.ndim == 3 else seen)
    ours, views = from_keras(self), views_of_heads(self)
    query, key, value = (a.as_subclass(Tensor) for a in (query, key, value))
    output: Any = called(ours, views, training, query, key, value, mask)
    if query_mask is not None:
        output._keras_mask = query_mask
    return (output, scores(ours, views, query, key, mask)) if return_attention_scores else output


def views_of_scores(theirs: Any, width: int) -> dict[str, Tensor]:
    """The variables of Attention and AdditiveAttention under our names."""
    if isinstance(theirs, keras.layers.AdditiveAttention):
        return {} if theirs.scale is None else {"score.weight": tensor(theirs.scale)[None]}
    factor = None if theirs.scale is None else torch.eye(width) * tensor(theirs.scale)
    if theirs.score_mode == "dot":
        return {} if factor is None else {"between.weight": factor}
    found = {"joint.score.weight": tensor(theirs.concat_score_weight).expand(1, width)}
    if factor is not None:
        found |= {"joint.query.weight": factor, "joint.key.weight": factor}
    return found


def call_of_scores(
    self: Any,
    inputs: Any,
    mask: Any = None,
    training: bool = False,
    return_attention_scores: bool = False,
    use_causal_mask: bool = False,
) -> Any:
    """``call`` of Attention and AdditiveAttention."""
    self._validate_inputs(inputs=inputs, mask=mask)
    query, value, key = inputs[0], inputs[1], inputs[-1 if len(inputs) > 2 else 1]
    asked, there = (None, None) if mask is None else (*mask, None)[:2]
    rule = None
    if there is not None:
        there = keras.ops.convert_to_tensor(there).bool()
        rule = keep(there[..., None, None, :] if there.ndim == 2 else there[..., None, :, :])
    if use_causal_mask:
        ones = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool).tril()
        rule = keep(ones) if rule is None else rule & keep(ones)
    ours, views = from_keras(self, query.shape[-1]), views_of_scores(self, query.shape[-1])
    output: Any = called(ours, views, training, query, key, value, rule)
    if asked is not None:
        output = torch.where(keras.ops.convert_to_tensor(asked).bool()[..., None], output, 0.0)
    if not return_attention_scores:
        return output
    return output, scores(ours, views, query, key, rule)[..., 0, :, :]


for kind in (keras.layers.MultiHeadAttention, keras.layers.GroupQueryAttention):
    kind.call = call_of_heads
for kind in (keras.layers.Attention, keras.layers.AdditiveAttention):
    kind.call = call_of_scores


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Notes how often a test reached our attention."""
    before = calls
    try:
        return (yield)
    finally:
        item.user_properties.append(("reached", calls - before))
