"""torch.nn.MultiheadAttention and ours: the same numbers either way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard._errors import KindError, ShapeError
from regard.core.attention import attend, weights
from regard.nn import inputs
from regard.nn.attention import MultiHeadAttention
from regard.rules.make import causal, keep
from regard.rules.masks import Mask


def from_multihead(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Ours with the weights of ``theirs``, copied.

    Raises:
        KindError: ``add_bias_kv`` or ``add_zero_attn``: keys of no token, which ours has not;
            :func:`replace` keeps them.

    >>> theirs = nn.MultiheadAttention(8, 2, batch_first=True)
    >>> x = torch.randn(1, 3, 8)
    >>> torch.allclose(from_multihead(theirs)(x), theirs(x, x, x)[0], atol=1e-6)
    True
    """
    inputs.kind("theirs", theirs, nn.MultiheadAttention)
    if theirs.bias_k is not None or theirs.add_zero_attn:
        raise KindError(
            "this nn.MultiheadAttention has keys of no token (add_bias_kv, add_zero_attn), which "
            "regard's has not; a learned sink=True comes near, and replace(model) keeps them"
        )
    return _copied(theirs)


def _copied(theirs: nn.MultiheadAttention) -> MultiHeadAttention:
    """Ours with the weights of their projections."""
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
    inputs.kind("ours", ours, MultiHeadAttention)
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
        ("gate", ours.gate is not None),
        ("output_width", ours.output.out_features != ours.width),
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

    Its masks mean what torch's mean: True is hidden.  Keys of no token (``add_bias_kv``,
    ``add_zero_attn``) stand after those of tokens, and are never hidden.

    Raises:
        ShapeError: in the call, arrays that do not fit each other.
        KindError: nested tensors, or ``is_causal`` without the mask that it is a hint of.
    """

    in_proj_bias = None
    """nn.TransformerEncoderLayer passes a layer over in favour of a kernel of its own, but not one
    without this."""

    def __init__(self, theirs: nn.MultiheadAttention) -> None:
        super().__init__()
        self.attention = _copied(theirs)
        self.batch_first = theirs.batch_first
        self.embed_dim, self.num_heads = theirs.embed_dim, theirs.num_heads
        self._qkv_same_embed_dim = theirs._qkv_same_embed_dim  # nn.TransformerEncoder asks for it
        self.bias_k, self.bias_v = (_parameter(a) for a in (theirs.bias_k, theirs.bias_v))
        self.add_zero_attn = theirs.add_zero_attn
        self.train(theirs.training)

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
        _check_axes(query, key, value)
        if bare := query.ndim == 2:
            query, key, value = (a[None] for a in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask[None]
        elif not self.batch_first:
            query, key, value = (a.transpose(0, 1) for a in (query, key, value))
        B, T, S = query.shape[0], query.shape[1], key.shape[1]
        _check_mask("key_padding_mask", key_padding_mask, ((B, S),))
        _check_mask("attn_mask", attn_mask, ((T, S), (B * self.num_heads, T, S)))
        mask, bias = self._mask(B, key_padding_mask, attn_mask, is_causal)
        given = (query, key, value, mask, bias, None, None)
        q, k, v, mask, options = self.attention.arguments(*given)
        k, v = self._with_keys_of_no_token(k, v)
        rate = self.attention.dropout if self.training else 0.0
        output = self.attention.joined(attend(q, k, v, mask, dropout=rate, **options), query)
        found = None
        if need_weights:
            found = weights(q, k, mask, **options).dense(limit=2**63)
            found = found.mean(1) if average_attn_weights else found
            found = found[0] if bare else found
        if bare:
            return output[0], found
        return (output if self.batch_first else output.transpose(0, 1)), found

    def _with_keys_of_no_token(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, S, D) with those after them that stand for no token."""
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (
                torch.cat([a, more.view(1, k.shape[1], 1, -1).expand(len(k), -1, -1, -1)], -2)
                for a, more in ((k, self.bias_k), (v, self.bias_v))
            )
        if self.add_zero_attn:
            k, v = (nn.functional.pad(a, (0, 0, 0, 1)) for a in (k, v))
        return k, v

    def _mask(
        self, batch: int, padding: Tensor | None, mask: Tensor | None, is_causal: bool
    ) -> tuple[Mask | None, Any]:
        """Their masks as ours: a mask value, and what is added to the scores."""
        if is_causal and mask is None:
            raise KindError("is_causal is a hint that attn_mask is causal: give that too")
        more = int(self.bias_k is not None) + int(self.add_zero_attn)
        square = mask is not None and mask.shape[-1] == mask.shape[-2]
        hinted = is_causal and square and not more
        rule: Mask | None = causal() if hinted else None
        bias: Any = None
        if mask is not None and mask.ndim == 3:
            mask = mask.reshape(batch, self.num_heads, *mask.shape[1:])
        padding = None if padding is None else padding[:, None, None]
        for one in (padding, None if hinted else mask):
            if one is None:
                continue
            whole = nn.functional.pad(one, (0, more))  # keys of no token are seen
            if one.dtype == torch.bool:
                seen = keep(~whole)
                rule = seen if rule is None else rule & seen
            else:
                bias = whole if bias is None else bias + whole
        return rule, bias


def _parameter(theirs: Tensor | None) -> nn.Parameter | None:
    return None if theirs is None else nn.Parameter(theirs.detach().clone())


def _check_axes(query: Tensor, key: Tensor, value: Tensor) -> None:
    if any(a.is_nested for a in (query, key, value)):
        raise KindError(
            "nested tensors have no counterpart here; pad them, and say so by key_padding_mask"
        )
    if query.ndim not in (2, 3):
        raise ShapeError(
            f"query must have 3 axes, or 2 without a batch, but its shape is {tuple(query.shape)}"
        )
    for name, array in (("key", key), ("value", value)):
        if array.ndim != query.ndim:
            raise ShapeError(
                f"{name} must have as many axes as query, {query.ndim}, but its shape is "
                f"{tuple(array.shape)}"
            )


def _check_mask(name: str, mask: Tensor | None, shapes: tuple[tuple[int, ...], ...]) -> None:
    if mask is not None and tuple(mask.shape) not in shapes:
        wanted = " or ".join(map(str, shapes))
        raise ShapeError(f"{name} must be {wanted} here, but its shape is {tuple(mask.shape)}")


def replace(model: nn.Module) -> int:
    """Swaps every ``nn.MultiheadAttention`` within ``model`` for ours, in place.

    The model is called as before and gives the same numbers; a query that may attend to nothing
    gets 0 where torch gives NaN.

    Returns:
        How many were swapped.

    Raises:
        KindError: a model that is an ``nn.MultiheadAttention`` itself.

    >>> model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, batch_first=True), 3)
    >>> replace(model)
    3
    """
    if isinstance(model, nn.MultiheadAttention):
        raise KindError(
            "this is an nn.MultiheadAttention itself, and nothing around it in which to swap it; "
            "from_multihead(layer) makes ours of it"
        )
    found = [
        (module, name, InPlaceOfMultihead(child))
        for module in model.modules()
        for name, child in module.named_children()
        if type(child) is nn.MultiheadAttention
    ]
    for module, name, ours in found:
        setattr(module, name, ours)
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False  # they are for torch's own kernel
    return len(found)
