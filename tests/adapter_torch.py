"""A pytest plugin (``-p adapter_torch``): torch's own tests meet our attention in its layer.

The layer keeps torch's name, parameters and arguments.  What it computes, ours computes, from views
of its parameters, so that gradients arrive where torch's tests look for them.  One convention is
translated: a query that may attend to nothing gets 0 here; in torch it does so too, but where
weights are asked for, it gets NaN.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from regard.nn.conversion.multihead import InPlaceOfMultihead

Theirs = nn.MultiheadAttention
calls = 0


def views(theirs: nn.MultiheadAttention) -> dict[str, Tensor]:
    """Their parameters under our names."""
    found: dict[str, Any] = {"bias_k": theirs.bias_k, "bias_v": theirs.bias_v}
    weights: Any = (theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight)
    if theirs._qkv_same_embed_dim:
        weights = theirs.in_proj_weight.chunk(3)
    biases = [None] * 3 if theirs.in_proj_bias is None else theirs.in_proj_bias.chunk(3)
    for name, weight, bias in zip(("query", "key", "value"), weights, biases, strict=True):
        found[f"attention.{name}.weight"] = weight
        found[f"attention.{name}.bias"] = None if bias is None else bias.to(weight.dtype)
    found["attention.output.weight"] = theirs.out_proj.weight
    found["attention.output.bias"] = theirs.out_proj.bias
    return {name: a for name, a in found.items() if a is not None}


def answer(
    ours: InPlaceOfMultihead,
    theirs: nn.MultiheadAttention,
    arrays: tuple[Tensor, ...],
    need_weights: bool,
    average: bool,
    **masks: Any,
) -> tuple[Tensor, Tensor | None]:
    """What ours says, with NaN where it attends to nothing."""
    global calls  # noqa: PLW0603 - pytest's hooks and torch's layer have no other place to share
    calls += 1
    ours.train(theirs.training)
    options = {**masks, "average_attn_weights": False, "need_weights": need_weights}
    output, weights = functional_call(ours, views(theirs), arrays, options)
    if not need_weights:  # then torch, too, has 0 for what attends to nothing
        return output, None
    empty = (weights == 0).all(-1)  # (…, H, T)
    weights = weights.masked_fill(empty[..., None], torch.nan)
    rows = empty.any(-2)
    rows = rows if ours.batch_first or rows.ndim == 1 else rows.T
    output = output.masked_fill(rows[..., None], torch.nan)
    return output, weights.mean(-3) if average else weights


class MultiheadAttention(Theirs):
    """Torch's layer in all but its arithmetic."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Beside the modules, so that torch's tests see the parameters of torch's layer alone.
        self.__dict__["ours"] = InPlaceOfMultihead(self)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        return answer(
            self.__dict__["ours"],
            self,
            (query, key, value),
            need_weights,
            average_attn_weights,
            key_padding_mask=key_padding_mask,
            attn_mask=attn_mask,
            is_causal=is_causal,
        )


class Static(InPlaceOfMultihead):
    """With keys and values (B · H, S, D) that are given in place of projected ones."""

    given: tuple[Tensor | None, Tensor | None]

    def _with_keys_of_no_token(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        k, v = (
            made if one is None else one.view(made.shape[0], made.shape[1], *one.shape[1:])
            for made, one in zip((k, v), self.given, strict=True)
        )
        return super()._with_keys_of_no_token(k, v)


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    width: int,
    heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The function behind torch's layer, which some of its tests call with a layer's parameters."""
    assert bias_k is None or static_k is None, "bias cannot be added to static key."
    theirs = MultiheadAttention(
        width,
        heads,
        dropout=dropout,
        bias=in_proj_bias is not None,
        add_bias_kv=bias_k is not None,
        add_zero_attn=add_zero_attn,
        kdim=key.shape[-1],
        vdim=value.shape[-1],
    )
    theirs._qkv_same_embed_dim = not use_separate_proj_weight
    given = {
        "in_proj_weight": in_proj_weight,
        "in_proj_bias": in_proj_bias,
        "bias_k": bias_k,
        "bias_v": bias_v,
        "q_proj_weight": q_proj_weight,
        "k_proj_weight": k_proj_weight,
        "v_proj_weight": v_proj_weight,
    }
    theirs._parameters.update(given)
    theirs.out_proj._parameters.update({"weight": out_proj_weight, "bias": out_proj_bias})
    ours = Static(theirs)
    ours.given = (static_k, static_v)
    return answer(
        ours,
        theirs.train(training),
        (query, key, value),
        need_weights,
        average_attn_weights,
        key_padding_mask=key_padding_mask,
        attn_mask=attn_mask,
        is_causal=is_causal,
    )


for place in (nn, nn.modules, nn.modules.activation, nn.modules.transformer):
    place.MultiheadAttention = MultiheadAttention  # type: ignore[misc]
nn.functional.multi_head_attention_forward = multi_head_attention_forward


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Notes how often a test reached our attention."""
    before = calls
    try:
        return (yield)
    finally:
        item.user_properties.append(("reached", calls - before))
