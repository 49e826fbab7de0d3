"""Attention with other scores than a plain dot product: additive, multiplicative, top-k, hard."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard._errors import ShapeError, ValueRangeError
from regard._shapes import count
from regard.core.attention import attend, weights
from regard.core.weights import Weights
from regard.nn import inputs
from regard.rules.make import keep, window
from regard.rules.masks import Mask

SCORES_AT_ONCE = 1 << 22
"""Hidden numbers of additive scores held at a time: a row of queries is taken after another."""


def of_scores(scores: Tensor, v: Tensor, mask: Mask | None, dropout: float = 0.0) -> Tensor:
    """softmax(scores, masked) v, for scores (B, T, S) and v (B, S, E): scores are a bias of 0."""
    q, k = _nothing(scores)
    bias = scores[..., None, :, :]
    out: Tensor = attend(q, k, v[..., None, :, :], mask, bias=bias, dropout=dropout)
    return out[..., 0, :, :]


def weights_of_scores(scores: Tensor, mask: Mask | None) -> Weights:
    """The weights (B, 1, T, S) of the same."""
    q, k = _nothing(scores)
    return weights(q, k, mask, bias=scores[..., None, :, :])


def _nothing(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys (B, 1, T or S, 1) whose products are 0."""
    *lead, T, S = scores.shape
    return scores.new_zeros((*lead, 1, T, 1)), scores.new_zeros((*lead, 1, S, 1))


class Scored(nn.Module):
    """What mechanisms that make scores of their own share."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.dropout = dropout

    @property
    def rate(self) -> float:
        """The share of weights that is set to 0 now."""
        return self.dropout if self.training else 0.0

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, T, S) from query (B, T, …) and key (B, S, …)."""
        raise NotImplementedError

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor | None = None, mask: Mask | None = None
    ) -> Tensor:
        """The output (B, T, E); values are the keys unless given."""
        value = key if value is None else value
        return of_scores(self.scores(query, key), value, mask, self.rate)

    def weights(self, query: Tensor, key: Tensor, mask: Mask | None = None) -> Weights:
        """The weights (B, 1, T, S), to be asked."""
        return weights_of_scores(self.scores(query, key), mask)


class AdditiveAttention(Scored):
    """A small network scores each query and key.

    ::

        s_ij = vᵀ tanh( W q_i + U k_j + b )

    Args:
        query_width, key_width: of what comes in.
        hidden: of the network.
        bias: whether it has a b.
        dropout: the share of weights set to 0 while training.

    Shapes: query (B, T, query_width), key (B, S, key_width), value (B, S, E) → (B, T, E).

    Source: Bahdanau et al. 2015, section 3.1 and appendix A.1.2.

    >>> AdditiveAttention(4, 6, 8)(torch.zeros(1, 2, 4), torch.ones(1, 3, 6))[0].tolist()
    [[1.0, 1.0, 1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]]
    """

    def __init__(
        self,
        query_width: int,
        key_width: int,
        hidden: int,
        *,
        bias: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(dropout)
        self.query = nn.Linear(query_width, hidden, bias=bias)
        self.key = nn.Linear(key_width, hidden, bias=False)
        self.score = nn.Linear(hidden, 1, bias=False)

    def reset_parameters(self) -> None:
        """Torch's own numbers of a linear layer."""
        for linear in (self.query, self.key, self.score):
            linear.reset_parameters()

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """vᵀ tanh(W q + U k), some queries at a time."""
        inputs.vectors("query", query, self.query.in_features, self.query.weight)
        inputs.vectors("key", key, self.key.in_features, self.key.weight)
        q, k = self.query(query), self.key(key)
        rows = max(1, SCORES_AT_ONCE // max(1, k.numel()))
        parts = [
            self.score(torch.tanh(part[..., :, None, :] + k[..., None, :, :]))[..., 0]
            for part in q.split(rows, -2)
        ]
        return torch.cat(parts, -2)


class MultiplicativeAttention(Scored):
    """Luong's scores: a dot product, with a matrix between, or a network of both together.

    ::

        dot:     s_ij = q_i · k_j
        general: s_ij = q_iᵀ W k_j
        concat:  s_ij = vᵀ tanh( W [q_i ; k_j] )

    Args:
        width: of queries, and of keys unless ``key_width`` is given.
        score: one of the three.
        key_width: of the keys; ``dot`` needs that of the queries.
        dropout: the share of weights set to 0 while training.

    Shapes: query (B, T, width), key (B, S, key_width), value (B, S, E) → (B, T, E).

    Source: Luong et al. 2015, section 3.1.
    """

    def __init__(
        self,
        width: int,
        score: Literal["dot", "general", "concat"] = "general",
        *,
        key_width: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(dropout)
        key_width = key_width or width
        if score not in ("dot", "general", "concat"):
            raise ValueRangeError(
                f"score must be 'dot', 'general' or 'concat', but it is {score!r}"
            )
        if score == "dot" and key_width != width:
            raise ShapeError(
                f"score='dot' needs queries and keys of one width, but {width} and {key_width} "
                "came; score='general' has a matrix between"
            )
        self.kind = score
        self.between = nn.Linear(width, key_width, bias=False) if score == "general" else None
        self.joint = AdditiveAttention(width, key_width, width) if score == "concat" else None

    def scores(self, query: Tensor, key: Tensor) -> Tensor:
        """(B, T, S)."""
        if self.joint is not None:
            return self.joint.scores(query, key)
        if self.between is None:
            inputs.vectors("key", key, query.shape[-1], query)
        else:
            inputs.vectors("query", query, self.between.in_features, self.between.weight)
            inputs.vectors("key", key, self.between.out_features, self.between.weight)
            query = self.between(query)
        return query @ key.mT

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return repr(self.kind)


class LocalAttention(nn.Module):
    """Luong's local attention: a window about a position that is the query's own, or predicted.

    ::

        local-m: p_t = t, the query's own position (the last query's is the last key's)
        local-p: p_t = S · sigmoid( v_pᵀ tanh(W_p q_t) ),    w_ts · exp( −(s − p_t)² / (2 σ²) )

    with σ = D / 2 and the keys p_t − D … p_t + D.  The product of local-p does not sum to 1.

    Args:
        attention: makes the scores.
        width: of the queries.
        reach: D.
        predicted: whether positions are predicted (local-p).

    Source: Luong et al. 2015, section 3.2.
    """

    def __init__(
        self, attention: Scored, width: int, reach: int, *, predicted: bool = True
    ) -> None:
        super().__init__()
        inputs.kind("attention", attention, Scored)
        self.attention, self.reach = attention, count("reach", reach, 1)
        self.hidden = nn.Linear(width, width, bias=False) if predicted else None
        self.position = nn.Linear(width, 1, bias=False) if predicted else None

    def centres(self, query: Tensor, S: int) -> Tensor:
        """(B, T) p_t: where local-p predicts that each query looks, among S keys."""
        assert self.hidden is not None
        assert self.position is not None
        share: Tensor = torch.sigmoid(self.position(torch.tanh(self.hidden(query))))[..., 0]
        return S * share

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor | None = None, mask: Mask | None = None
    ) -> Tensor:
        """The output (B, T, E); values are the keys unless given."""
        value = key if value is None else value
        scores = self.attention.scores(query, key)
        if self.position is None:
            near = window(before=self.reach, after=self.reach)
            seen = near if mask is None else mask & near
            return of_scores(scores, value, seen, self.attention.rate)
        far = (
            torch.arange(key.shape[-2], device=key.device)
            - self.centres(query, key.shape[-2])[..., None]
        )
        near = keep((far.abs() <= self.reach)[..., None, :, :])
        bell = torch.exp(-((far / (self.reach / 2)) ** 2) / 2)
        seen = near if mask is None else mask & near
        out: Tensor = _belled(scores, seen, bell, value, self.attention.rate)
        return out

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"reach={self.reach}"


class TopKAttention(nn.Module):
    """Each query attends to its k best keys only.

    ::

        output = softmax( the k largest of q kᵀ / √D, the rest hidden ) v

    Args:
        k: how many keys; all that are tied with the k-th are kept.

    Shapes: as ``ScaledDotProductAttention``; it holds all T × S scores.

    Source: Zhao et al. 2019 (Explicit sparse transformer), section 3.1.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    >>> TopKAttention(1)(x, x, x).tolist()
    [[1.0, 0.0], [0.0, 2.0], [0.0, 2.0]]
    """

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = count("k", k, 1)

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
        """The output."""
        out: Tensor = attend(q, k, v, self.mask(q, k, mask))
        return out

    def weights(self, q: Tensor, k: Tensor, mask: Mask | None = None) -> Weights:
        """The weights, to be asked."""
        return weights(q, k, self.mask(q, k, mask))

    def mask(self, q: Tensor, k: Tensor, mask: Mask | None) -> Mask:
        """The given mask, and in it the k best keys of each query."""
        with torch.no_grad():
            best = _weights_of(q, k, mask)
            least = best.topk(min(self.k, best.shape[-1]), dim=-1).values[..., -1:]
            among = keep(best >= least)
        return among if mask is None else mask & among

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"{self.k}"


class HardAttention(nn.Module):
    """Each query takes the value of its best key, whole.

    ::

        output_i = v_j,    j = argmax_j q_i · k_j

    Its gradient is that of soft attention ("straight through").  A query that may attend to
    nothing gets 0.

    Shapes: as ``ScaledDotProductAttention``; it holds all T × S weights.

    Source: Xu et al. 2015 (Show, attend and tell), section 4.1; the gradient: Bengio et al. 2013.

    >>> x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    >>> HardAttention()(x, x, x).tolist()
    [[1.0, 0.0], [0.0, 2.0], [0.0, 2.0]]
    """

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None = None) -> Tensor:
        """The output."""
        soft: Tensor = _weights_of(q, k, mask)
        best = soft.argmax(-1, keepdim=True)
        hard = torch.zeros_like(soft).scatter(-1, best, 1.0) * (soft.amax(-1, keepdim=True) > 0)
        through = (hard - soft.detach() + soft).to(v.dtype)
        if v.ndim > 2 and v.shape[-3] != through.shape[-3]:
            v = v.repeat_interleave(through.shape[-3] // v.shape[-3], -3)
        out: Tensor = through @ v
        return out


# Under torch.compile weights are asked between two graphs, not within one.


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _weights_of(q: Tensor, k: Tensor, mask: Mask | None) -> Tensor:
    dense: Tensor = weights(q, k, mask).dense(limit=2**63)
    return dense


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _belled(scores: Tensor, mask: Mask, bell: Tensor, v: Tensor, dropout: float) -> Tensor:
    """(B, T, E) the values by the weights of the scores (B, T, S), times a bell."""
    W = weights_of_scores(scores, mask).dense(limit=2**63)[..., 0, :, :]
    out: Tensor = nn.functional.dropout(W * bell, dropout).to(v.dtype) @ v
    return out
