"""Scaled dot-product attention as modules: bare, and between projections to several heads."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import count
from regard.core.attention import attend, weights
from regard.core.weights import Weights
from regard.nn import inputs
from regard.nn.cache import Cache, Memory
from regard.nn.positions import ALiBi, RelativeBias, Rotary, standing
from regard.rules.masks import Mask
from regard.rules.scores import Score, as_score

Position = Rotary | ALiBi | RelativeBias


class ScaledDotProductAttention(nn.Module):
    """Each query gets the values, averaged by how well their keys match it.

    ::

        output = softmax( q kᵀ / √D  (masked) ) v

    Args:
        dropout: the share of weights set to 0 while training.

    Shapes: q (…, H, T, D), k (…, G, S, D), v (…, G, S, E), or 2-D ones → (…, H, T, E).

    Source: Vaswani et al. 2017, section 3.2.1.

    >>> import torch
    >>> x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
    >>> ScaledDotProductAttention()(x, x, x).mul(1000).round()[0].tolist()
    [384.0, 312.0]
    """

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
        """The output; ``weights`` gives the weights."""
        rate = self.dropout if self.training else 0.0
        out: Tensor = attend(q, k, v, mask, dropout=rate)
        return out

    def weights(self, q: Tensor, k: Tensor, mask: Mask | None = None) -> Weights:
        """The weights, to be asked."""
        return weights(q, k, mask)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"dropout={self.dropout}" if self.dropout else ""


class MultiHeadAttention(nn.Module):
    """Attention in several subspaces at once: self, cross, grouped, rotary, cached.

    ::

        head_h = attend(x W_q[h], y W_k[g], y W_v[g]),    output = concat(head_1 … head_H) W_o

    Args:
        width: C, of what comes in and goes out.
        heads: H; each is ``head_width`` wide, C / H unless given.
        key_heads: G, of which H is a multiple: query head h reads key head h // (H // G).
        key_from: the width of what keys are made from, where it is not C.
        value_from: of what values are made from, where it is not that.
        value_width: of one head's values, where it is not ``head_width``.
        output_width: of what goes out, where it is not C.
        bias: whether q, k and v have one; ``output_bias``: whether the output has one, as they
            unless given.
        norm: makes a module of ``head_width`` that q and k go through, such as ``nn.RMSNorm``.
        position: ``Rotary``, ``ALiBi`` or ``RelativeBias``.
        mask: joined to the mask of every call, such as ``causal() & window(128)``.
        scale: 1/√head_width unless given.
        softcap: as in :func:`regard.attend`.
        sink: whether each head learns a logit that takes weight and gives no value.
        gate: whether what the heads find is multiplied by sigmoid(x W_g) before W_o.
        dropout: the share of weights set to 0 while training.

    Shapes: query (B, T, C), key and value (B, S, …) → (B, T, C).

    Raises:
        ValueRangeError: heads that do not divide the width, or key heads that do not divide them.

    Source: Vaswani et al. 2017, section 3.2.2; grouped: Ainslie et al. 2023; norms on q and k:
    Henry et al. 2020; the gate: Qiu et al. 2025 (Gated attention for large language models).

    >>> MultiHeadAttention(8, 2)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_heads: int | None = None,
        head_width: int | None = None,
        key_from: int | None = None,
        value_from: int | None = None,
        value_width: int | None = None,
        output_width: int | None = None,
        bias: bool = True,
        output_bias: bool | None = None,
        norm: Any = None,
        position: Position | None = None,
        mask: Mask | None = None,
        scale: float | None = None,
        softcap: float | None = None,
        sink: bool = False,
        gate: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        count("width", width, 1)
        H, G = count("heads", heads, 1), count("key_heads", key_heads or heads, 1)
        if head_width is None and width % H:
            raise ValueRangeError(
                f"width must be a multiple of heads, but it is {width} for {heads} heads; or give "
                "head_width"
            )
        if H % G:
            raise ValueRangeError(f"heads must be a multiple of key_heads, but {H} and {G} came")
        D = count("head_width", head_width or width // H, 1)
        if position is not None:
            self._fits(position, H, D)
        E = value_width or D
        self.width, self.heads, self.key_heads, self.head_width = width, H, G, D
        self.mask, self.scale, self.softcap, self.dropout = mask, scale, softcap, dropout
        made_of = key_from or width
        self.query = nn.Linear(width, H * D, bias=bias)
        self.key = nn.Linear(made_of, G * D, bias=bias)
        self.value = nn.Linear(value_from or made_of, G * E, bias=bias)
        biased = bias if output_bias is None else output_bias
        self.output = nn.Linear(H * E, output_width or width, bias=biased)
        self.gate = nn.Linear(width, H * E, bias=bias) if gate else None
        self.query_norm, self.key_norm = (nn.Identity() if norm is None else norm(D) for _ in "qk")
        self.position = position
        self.sink = nn.Parameter(torch.zeros(H)) if sink else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's uniform numbers, and biases of 0."""
        for linear in (self.query, self.key, self.value, self.output, self.gate):
            if linear is None:
                continue
            nn.init.xavier_uniform_(linear.weight)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)
        if self.sink is not None:
            nn.init.zeros_(self.sink)

    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        mask: Mask | None = None,
        *,
        bias: Any = None,
        positions: Tensor | None = None,
        cache: Cache | Memory | None = None,
    ) -> Tensor:
        """The output.

        Args:
            query: (B, T, C).
            key: what keys are made from, (B, S, …); the query unless given.
            value: what values are made from; what keys are unless given.
            mask: who may attend to whom; ``lengths(n)`` for padding.
            bias: added to the scores, besides ``position``'s.
            positions: (T,) or (B, T), for rotary; from 0, or from the cache's end, unless given.
            cache: ``Cache`` or ``StaticCache`` to attend to the tokens so far; ``Memory`` for the
                keys of a cross attention.
        """
        given = (query, key, value, mask, bias, positions, cache)
        q, k, v, mask, options = self.arguments(*given)
        rate = self.dropout if self.training else 0.0
        return self.joined(attend(q, k, v, mask, dropout=rate, **options), query)

    def joined(self, heads: Tensor, query: Tensor) -> Tensor:
        """(B, H, T, E) what the heads found for a query → (B, T, C), as one."""
        found = heads.transpose(-3, -2).flatten(-2)
        if self.gate is not None:
            found = found * torch.sigmoid(self.gate(query))
        out: Tensor = self.output(found)
        return out

    def weights(
        self,
        query: Tensor,
        key: Tensor | None = None,
        mask: Mask | None = None,
        *,
        bias: Any = None,
        positions: Tensor | None = None,
    ) -> Weights:
        """The weights (B, H, T, S) of ``forward`` with the same arguments, to be asked."""
        given = (query, key, None, mask, bias, positions, None)
        q, k, _, mask, options = self.arguments(*given, values=False)
        return weights(q, k, mask, **options)

    def arguments(
        self,
        query: Tensor,
        key: Tensor | None,
        value: Tensor | None,
        mask: Mask | None,
        bias: Any,
        positions: Tensor | None,
        cache: Cache | Memory | None,
        *,
        values: bool = True,
    ) -> tuple[Tensor, Tensor, Tensor, Mask | None, dict[str, Any]]:
        """What ``attend`` is asked with: q, k, v and the mask, in heads, and the rest by name."""
        inputs.vectors("query", query, self.width, self.query.weight)
        if query.ndim < 3:
            raise ShapeError(
                f"query must be (B, T, {self.width}), but its shape is {tuple(query.shape)}"
            )
        if cache is not None:
            inputs.kind("cache", cache, Cache, Memory)
        alone, start = key is None, None
        key = query if key is None else key
        value = key if value is None else value
        q = self.query_norm(self._split(self.query(query), self.heads))
        if isinstance(cache, Memory) and cache.held is not None:
            k, v = cache.held
        else:
            inputs.vectors("key", key, self.key.in_features, self.key.weight)
            if values:
                inputs.vectors("value", value, self.value.in_features, self.value.weight)
            k = self.key_norm(self._split(self.key(key), self.key_heads))
            v = self._split(self.value(value), self.key_heads) if values else k
        if isinstance(self.position, Rotary):
            if not alone:
                raise KindError(
                    "Rotary turns queries and keys of one sequence; a cross attention has two"
                )
            first = cache.length if isinstance(cache, Cache) else 0
            at = standing(positions, first, query.shape[-2], query.device)
            q, k = self.position(q, at), self.position(k, at)
        if self.mask is not None:
            mask = self.mask if mask is None else mask & self.mask
        if isinstance(cache, Memory):
            cache.held = (k, v)
        elif cache is not None:
            k, v, mask, start = cache.add(k, v, mask)
        options = {
            "bias": self._bias(bias),
            "scale": self.scale,
            "softcap": self.softcap,
            "sink": self.sink,
            "start": start,
        }
        return q, k, v, mask, options

    def _bias(self, bias: Any) -> Score | None:
        own = self.position() if isinstance(self.position, ALiBi | RelativeBias) else None
        given = None if bias is None else as_score(bias)
        return own if given is None else given if own is None else own + given

    @staticmethod
    def _fits(position: Position, heads: int, width: int) -> None:
        inputs.kind("position", position, Rotary, ALiBi, RelativeBias)
        if isinstance(position, Rotary):
            if position.width > width:
                raise ShapeError(
                    f"Rotary({position.width}) turns more numbers than the {width} of a head"
                )
            return
        has = position.heads if isinstance(position, ALiBi) else position.weight.shape[1]
        if has != heads:
            raise ShapeError(f"position is for {has} heads, but there are {heads}")

    @staticmethod
    def _split(x: Tensor, heads: int) -> Tensor:
        """(B, T, H·D) → (B, H, T, D)."""
        apart: Tensor = x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads)
        return apart.transpose(-3, -2)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        named = {"mask": self.mask, "scale": self.scale, "softcap": self.softcap}
        more = [f"{name}={value!r}" for name, value in named.items() if value is not None]
        grouped = [f"key_heads={self.key_heads}"] if self.key_heads != self.heads else []
        dropout = [f"dropout={self.dropout}"] if self.dropout else []
        return ", ".join([f"{self.width}, {self.heads}", *grouped, *more, *dropout])
