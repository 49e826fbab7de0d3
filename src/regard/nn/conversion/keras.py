"""Keras 3's attention layers and ours: the same numbers either way."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard._errors import KindError
from regard.nn.attention import MultiHeadAttention
from regard.nn.scored import AdditiveAttention, MultiplicativeAttention, Scored
from regard.rules.make import window
from regard.rules.masks import Window

PROJECTIONS = (("query", "_query_dense"), ("key", "_key_dense"), ("value", "_value_dense"))


def from_keras(theirs: Any, width: int | None = None) -> MultiHeadAttention | Scored:
    """Ours with the weights of a built layer of Keras, copied.

    Args:
        theirs: ``MultiHeadAttention``, ``GroupedQueryAttention``, ``Attention`` or
            ``AdditiveAttention``, called or built once, so that it has weights.
        width: of the queries, which ``Attention`` does not know.

    Keras has no projections in its ``AdditiveAttention``, and no matrix in its ``Attention``: ours
    have the identity there.  Its scale of a ``dot`` becomes a multiple of the identity
    (``general``).  Its ``sliding_window`` of n becomes ``window(before=n - 1, after=n - 1)``.  Its
    causal mask and window count from the first key, ours from the last: with as many queries as
    keys they are the same.

    Raises:
        KindError: another layer, one that is not built, or a setting without a counterpart
            (``attention_axes``, an ``output_shape`` of several axes, a quantized layer).

    Source: Keras 3, ``keras.layers``.
    """
    import keras

    if not theirs.built:
        raise KindError("the layer is not built and has no weights yet; call it once")
    if isinstance(theirs, keras.layers.MultiHeadAttention | keras.layers.GroupQueryAttention):
        return _from_heads(theirs)
    if isinstance(theirs, keras.layers.AdditiveAttention):
        scale = theirs.scale
        if scale is None and width is None:
            raise KindError("an AdditiveAttention without a scale does not know its width: say it")
        v = torch.ones(width or 0) if scale is None else _tensor(scale)
        return _additive(v, dropout=theirs.dropout)
    if isinstance(theirs, keras.layers.Attention):
        if width is None:
            raise KindError("a layer of Keras' Attention does not know its width: width=…")
        return _from_attention(theirs, width)
    raise KindError(f"there is no counterpart of Keras' {type(theirs).__name__} here")


def to_keras(ours: MultiHeadAttention | AdditiveAttention | MultiplicativeAttention) -> Any:
    """Keras' layer with the weights of ``ours``, copied.

    ``MultiHeadAttention`` becomes Keras' layer of that name, or ``GroupQueryAttention``;
    ``MultiplicativeAttention`` becomes ``Attention`` and ``AdditiveAttention`` its namesake, where
    their matrices are multiples of the identity, for Keras has none there.

    Raises:
        KindError: what Keras' layers have not: positions, masks of their own, norms, matrices of
            scores, and so on.
    """
    if isinstance(ours, AdditiveAttention):
        return _to_additive(ours)
    if isinstance(ours, MultiplicativeAttention):
        return _to_attention(ours)
    if not isinstance(ours, MultiHeadAttention):
        raise KindError(f"Keras has no counterpart of {type(ours).__name__}")
    import keras

    E = ours.value.out_features // ours.key_heads
    grouped = ours.key_heads != ours.heads
    biased = ours.query.bias is not None
    held = ours.mask
    near = held.before + 1 if isinstance(held, Window) and held.before == held.after else None
    for what, there in (
        ("norm", not isinstance(ours.query_norm, nn.Identity)),
        ("position", ours.position is not None),
        ("mask but a window of one width to both sides", ours.mask is not None and near is None),
        ("scale", ours.scale is not None),
        ("softcap", ours.softcap is not None),
        ("sink", ours.sink is not None),
        ("output_bias", (ours.output.bias is not None) != biased),
        ("value_width with key_heads", grouped and ours.head_width != E),
        ("output_width with key_heads", grouped and ours.output.out_features != ours.width),
    ):
        if there:
            raise KindError(f"Keras' layer has no {what} of its own, and this one has")
    options = {
        "dropout": ours.dropout,
        "use_bias": biased,
        "sliding_window": near,
        "use_gate": ours.gate is not None,
    }
    if grouped:
        theirs = keras.layers.GroupQueryAttention(
            ours.head_width, ours.heads, ours.key_heads, **options
        )
    else:
        theirs = keras.layers.MultiHeadAttention(
            ours.heads, ours.head_width, E, output_shape=ours.output.out_features, **options
        )
    key, value = ours.key.in_features, ours.value.in_features
    theirs.build((None, None, ours.width), (None, None, value), (None, None, key))
    for mine, name in PROJECTIONS:
        _set(getattr(theirs, name), getattr(ours, mine))
    _set(theirs._output_dense, ours.output)
    if ours.gate is not None:
        _set(theirs._gate_dense, ours.gate)
    return theirs


def _from_heads(theirs: Any) -> MultiHeadAttention:
    for what, there in (
        ("attention_axes", len(theirs._query_dense.equation.partition(",")[0]) != len("btc")),
        ("quantization", theirs._query_dense.quantization_mode is not None),
    ):
        if there:
            raise KindError(f"Keras' {what} has no counterpart here, and this layer has it")
    near = getattr(theirs, "_sliding_window", getattr(theirs, "sliding_window", None))
    gate = getattr(theirs, "_gate_dense", None)
    kernels = {mine: _tensor(getattr(theirs, name).kernel) for mine, name in PROJECTIONS}
    width, heads, head_width = kernels["query"].shape
    key_from, key_heads, _ = kernels["key"].shape
    out = _tensor(theirs._output_dense.kernel)
    if out.ndim != 3:
        raise KindError("Keras' output_shape of several axes has no counterpart here")
    ours = MultiHeadAttention(
        width,
        heads,
        key_heads=key_heads,
        head_width=head_width,
        key_from=key_from,
        value_from=kernels["value"].shape[0],
        value_width=kernels["value"].shape[-1],
        output_width=out.shape[-1],
        gate=gate is not None,
        bias=theirs._query_dense.bias is not None,
        mask=None if near is None else window(before=near - 1, after=near - 1),
        dropout=float(getattr(theirs, "_dropout", getattr(theirs, "dropout", 0.0))),
    )
    with torch.no_grad():
        for mine, name in PROJECTIONS:
            _read(getattr(ours, mine), getattr(theirs, name))
        _read(ours.output, theirs._output_dense)
        if ours.gate is not None:
            _read(ours.gate, gate)
    return ours.to(kernels["query"].dtype)


def _read(linear: nn.Linear, dense: Any) -> None:
    linear.weight.copy_(_tensor(dense.kernel).reshape(linear.weight.shape[::-1]).T)
    if linear.bias is not None:
        linear.bias.copy_(_tensor(dense.bias).reshape(-1))


def _set(dense: Any, linear: nn.Linear) -> None:
    weights = [_numbers(linear.weight.T).reshape(dense.kernel.shape)]
    if linear.bias is not None:
        weights.append(_numbers(linear.bias).reshape(dense.bias.shape))
    dense.set_weights(weights)


def _from_attention(theirs: Any, width: int) -> MultiplicativeAttention:
    factor = 1.0 if theirs.scale is None else float(_tensor(theirs.scale))
    kind: Any = "concat" if theirs.score_mode == "concat" else "general"
    if kind == "general" and theirs.scale is None:
        kind = "dot"
    ours = MultiplicativeAttention(width, kind, dropout=theirs.dropout)
    if kind == "concat":
        v = torch.full((width,), float(_tensor(theirs.concat_score_weight)))
        ours.joint = _additive(v, factor)
    if ours.between is not None:
        with torch.no_grad():
            ours.between.weight.copy_(torch.eye(width) * factor)
    return ours


def _additive(v: Tensor, factor: float = 1.0, dropout: float = 0.0) -> AdditiveAttention:
    """vᵀ tanh(factor · (q + k))."""
    ours = AdditiveAttention(len(v), len(v), len(v), dropout=dropout)
    with torch.no_grad():
        for linear in (ours.query, ours.key):
            linear.weight.copy_(torch.eye(len(v)) * factor)
        ours.score.weight.copy_(v[None])
    return ours


def _to_additive(ours: AdditiveAttention) -> Any:
    import keras

    if _sum_factor(ours) != 1.0:
        raise KindError("Keras' AdditiveAttention adds queries to keys as they are: W = U = I")
    theirs = keras.layers.AdditiveAttention(use_scale=True, dropout=ours.dropout)
    shape = (None, None, ours.query.in_features)
    theirs.build([shape, shape, shape])
    theirs.set_weights([_numbers(ours.score.weight[0])])
    return theirs


def _to_attention(ours: MultiplicativeAttention) -> Any:
    import keras

    weights: list[Any] = []
    if ours.joint is not None:
        v = ours.joint.score.weight[0].detach()
        if not bool((v == v[0]).all()):
            raise KindError(
                "Keras' Attention has one weight of its concat scores, and this has more"
            )
        weights = [_sum_factor(ours.joint), float(v[0])]
    elif ours.between is not None:
        weights = [_factor(ours.between)]
    theirs = keras.layers.Attention(
        use_scale=bool(weights),
        score_mode="concat" if ours.joint is not None else "dot",
        dropout=ours.dropout,
    )
    theirs.build([(None, None, None)] * 3)
    theirs.set_weights([np.asarray(weight) for weight in weights])
    return theirs


def _sum_factor(ours: AdditiveAttention) -> float:
    """c, where the scores are of tanh(c · (q + k))."""
    factor = _factor(ours.query)
    biased = len(list(ours.query.parameters())) > 1
    if biased or _factor(ours.key) != factor:
        raise KindError("Keras adds queries to keys without a matrix of either or a bias")
    return factor


def _factor(linear: nn.Linear) -> float:
    """c, where the matrix is c times the identity."""
    weight = linear.weight.detach()
    factor = float(weight[0, 0])
    if not torch.equal(weight, torch.eye(*weight.shape).to(weight) * factor):
        raise KindError(
            "Keras' layer has no matrix between queries and keys, and this one's is no multiple of "
            "the identity"
        )
    return factor


def _tensor(variable: Any) -> Tensor:
    import keras

    value = keras.ops.convert_to_tensor(variable)
    if isinstance(value, Tensor):
        return value.detach().cpu().clone()
    return torch.as_tensor(np.array(keras.ops.convert_to_numpy(value)))


def _numbers(array: Tensor) -> NDArray[Any]:
    numbers: NDArray[Any] = array.detach().cpu().numpy()
    return numbers
