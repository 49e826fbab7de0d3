"""torch.nn.MultiheadAttention and ours: the same numbers either way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard._errors import KindError
from regard.nn.attention import MultiHeadAttention
from regard.rules.make import causal, keep
from regard.rules.masks import Mask


def from_multihead(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Ours with the weights of ``theirs``, copied.

    Raises:
        KindError: ``add_bias_kv`` or ``add_zero_attn``: keys of no token, which ours has not.

    >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(1, 3, 8)
    >>> torch.allclose(from_multihead(theirs)(x), theirs(x, x, x)[0], atol=1e-6)
    True
    """
    if theirs.bias_k is not None or theirs.add_zero_attn:
        raise KindError(
            "this nn.MultiheadAttention has keys of no token (add_bias_kv, add_zero_attn), which "
            "regard has not; a learned sink=True comes near"
        )
    ours = MultiHeadAttention(
        theirs.embed_dim,
        theirs.num_heads,
        key_from=theirs.kdim,
        value_from=theirs.vdim,
        bias=theirs.in_proj_bias is not None,
        output_bias=theirs.out_proj.bias is not None,
        dropout=theirs.dropout,
    ).to(theirs.out_proj.weight)
    with torch.no_grad():
        for linear, weight in zip(_inputs(ours), _weights(theirs), strict=True):
            linear.weight.copy_(weight)
        if theirs.in_proj_bias is not None:
            for linear, bias in zip(_inputs(ours), theirs.in_proj_bias.chunk(3), strict=True):
                linear.bias.copy_(bias)
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    return ours.train(theirs.training)


def to_multihead(ours: MultiHeadAttention) -> nn.MultiheadAttention:
    """Torch's layer, batch first, with the weights of ``ours``, copied.

    Raises:
        KindError: what torch's layer has not: grouped heads, positions, softcap, and so on.
    """
    E = ours.value.out_features // ours.key_heads
    linears = (*_inputs(ours), ours.output)
    for what, there in (
        ("key_heads", ours.key_heads != ours.heads),
        ("head_width", ours.head_width * ours.heads != ours.width),
        ("value_width", ours.head_width != E),
        ("norm", not isinstance(ours.query_norm, nn.Identity)),
        ("position", ours.position is not None),
        ("mask", ours.mask is not None),
        ("scale", ours.scale is not None),
        ("softcap", ours.softcap is not None),
        ("sink", ours.sink is not None),
        ("output_bias", len({"bias" in dict(m.named_parameters()) for m in linears}) > 1),
    ):
        if there:
            raise KindError(f"nn.MultiheadAttention has no {what} of its own, and this one has")
    theirs = nn.MultiheadAttention(
        ours.width,
        ours.heads,
        dropout=ours.dropout,
        bias=ours.query.bias is not None,
        kdim=ours.key.in_features,
        vdim=ours.value.in_features,
        batch_first=True,
    ).to(ours.output.weight)
    with torch.no_grad():
        for linear, weight in zip(_inputs(ours), _weights(theirs), strict=True):
            weight.copy_(linear.weight)
        if theirs.in_proj_bias is not None:
            theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in _inputs(ours)]))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    return theirs.train(ours.training)


def _inputs(ours: MultiHeadAttention) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
    return ours.query, ours.key, ours.value


def _weights(theirs: nn.MultiheadAttention) -> list[Tensor]:
    if theirs._qkv_same_embed_dim:
        return list(theirs.in_proj_weight.chunk(3))
    return [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight]


class InPlaceOfMultihead(nn.Module):
    """Ours behind the call of ``nn.MultiheadAttention``: what :func:`replace` puts in its place.

    Its masks mean what torch's mean: True is hidden.
    """

    in_proj_bias = None
    """nn.TransformerEncoderLayer passes a layer over in favour of a kernel of its own, but not one
    without this."""

    def __init__(self, theirs: nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = from_multihead(theirs)
        self.batch_first = theirs.batch_first
        self.embed_dim, self.num_heads = theirs.embed_dim, theirs.num_heads

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
        """As ``nn.MultiheadAttention``: the output, and the weights where they are needed."""
        if bare := query.ndim == 2:
            query, key, value = (a[None] for a in (query, key, value))
        elif not self.batch_first:
            query, key, value = (a.transpose(0, 1) for a in (query, key, value))
        mask, bias = self._mask(query, key_padding_mask, attn_mask, is_causal)
        output = self.attention(query, key, value, mask, bias=bias)
        weights = None
        if need_weights:
            weights = self.attention.weights(query, key, mask, bias=bias).dense(limit=2**63)
            weights = weights.mean(1) if average_attn_weights else weights
            weights = weights[0] if bare else weights
        if bare:
            return output[0], weights
        return (output if self.batch_first else output.transpose(0, 1)), weights

    def _mask(
        self, query: Tensor, padding: Tensor | None, mask: Tensor | None, is_causal: bool
    ) -> tuple[Mask | None, Any]:
        """Their masks as ours: a mask value, and what is added to the scores."""
        if is_causal and mask is None:
            raise KindError("is_causal is a hint that attn_mask is causal: give that too")
        if mask is not None and mask.ndim == 3:
            mask = mask.reshape(query.shape[0], self.num_heads, *mask.shape[1:])
        hinted = is_causal and mask is not None and mask.shape[-1] == mask.shape[-2]
        rule: Mask | None = causal() if hinted else None
        bias: Any = None
        dense = None if hinted else mask
        if padding is not None:
            padding = (padding if padding.ndim == 2 else padding[None])[:, None, None]
        for one in (padding, dense):
            if one is None:
                continue
            if one.dtype == torch.bool:
                seen = keep(~one)
                rule = seen if rule is None else rule & seen
            else:
                bias = one if bias is None else bias + one
        return rule, bias


def replace(model: nn.Module) -> int:
    """Swaps every ``nn.MultiheadAttention`` within ``model`` for ours, in place.

    The model is called as before and gives the same numbers; a query that may attend to nothing
    gets 0 where torch gives NaN.

    Returns:
        How many were swapped.

    Raises:
        KindError: a layer that :func:`from_multihead` refuses; then none is swapped.

    >>> model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 3)
    >>> replace(model)
    3
    """
    found = [
        (module, name, InPlaceOfMultihead(child))
        for module in model.modules()
        for name, child in module.named_children()
        if type(child) is nn.MultiheadAttention
    ]
    for module, name, ours in found:
        setattr(module, name, ours)
    return len(found)
