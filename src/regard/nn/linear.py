"""Attention whose cost grows with the length and not its square: a kernel in place of softmax."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard._errors import KindError, ShapeError
from regard.core.formula import repeat_heads
from regard.nn import inputs

CHUNK = 64
"""Queries of a causal pass that are computed together."""


class State(NamedTuple):
    """All that the past is, to a causal linear attention: it is a recurrent network."""

    values: Tensor
    """(…, H, D, E) Σ φ(k_j) v_jᵀ"""
    keys: Tensor
    """(…, H, D) Σ φ(k_j)"""


class LinearAttention(nn.Module):
    """A product of features in place of the softmax, so that keys are summed once for all queries.

    ::

        output_i = φ(q_i)ᵀ Σ_j φ(k_j) v_jᵀ  /  φ(q_i)ᵀ Σ_j φ(k_j),    φ(x) = elu(x) + 1

    Args:
        causal: whether a query attends to keys at or before it only (T = S).

    Shapes: q (…, H, T, D), k (…, G, S, D), v (…, G, S, E) → (…, H, T, E); ``there`` (…, S) is True
    where a key is no padding.

    Raises:
        KindError: in the call, causal attention of more queries than keys, or fewer.

    Source: Katharopoulos et al. 2020, sections 3.2 to 3.4.

    >>> q = torch.zeros(1, 2, 4)
    >>> LinearAttention()(q, q, torch.tensor([[[1.0], [3.0]]])).tolist()
    [[[2.0], [2.0]]]
    """

    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor, there: Tensor | None = None) -> Tensor:
        """The output."""
        if self.causal and q.shape[-2] != k.shape[-2]:
            raise KindError(
                f"causal linear attention has a key for each query, but {q.shape[-2]} queries and "
                f"{k.shape[-2]} keys came; go on from a state with step(…)"
            )
        inputs.vectors("k", k, q.shape[-1], q)
        if q.ndim < 3:
            raise ShapeError(
                f"q must be (…, H, T, D), but its shape is {tuple(q.shape)}; one head is q[None]"
            )
        wide = torch.float64 if q.dtype == torch.float64 else torch.float32
        k, v = (repeat_heads(a, q.shape[-3]) for a in (k, v))
        fq, fk, values = features(q.to(wide)), features(k.to(wide)), v.to(wide)
        if there is not None:
            shown = there[..., None, :, None]
            fk, values = fk.where(shown, 0.0), values.where(shown, 0.0)
        if self.causal:
            return self._causal(fq, fk, values).to(v.dtype)
        below = fq @ fk.sum(-2)[..., None]  # 0 where no key is there
        return (fq @ (fk.mT @ values) / below.where(below > 0, 1.0)).to(v.dtype)

    def _causal(self, fq: Tensor, fk: Tensor, v: Tensor) -> Tensor:
        """Chunk by chunk: the past as a state, and within a chunk each pair."""
        past = v.new_zeros((*v.shape[:-2], fk.shape[-1], v.shape[-1]))
        keys, parts = fk.new_zeros((*fk.shape[:-2], fk.shape[-1])), []
        chunks = (torch.split(a, CHUNK, -2) for a in (fq, fk, v))
        for q, k, x in zip(*chunks, strict=True):
            pairs = (q @ k.mT).tril()
            above = q @ past + pairs @ x
            below = (q * keys[..., None, :]).sum(-1) + pairs.sum(-1)
            parts.append(above / below.where(below > 0, 1.0)[..., None])
            past, keys = past + k.mT @ x, keys + k.sum(-2)
        return torch.cat(parts, -2) if parts else v.new_empty((*fq.shape[:-1], v.shape[-1]))

    def step(self, state: State | None, q: Tensor, k: Tensor, v: Tensor) -> tuple[State, Tensor]:
        """The recurrent form: one more token, q and k (…, H, D) and v (…, H, E).

        ``state`` is None before the first.  Returns the new state and the output (…, H, E).
        """
        fq, fk = features(q), features(k)
        added = fk[..., :, None] * v[..., None, :]
        state = State(added, fk) if state is None else State(state[0] + added, state[1] + fk)
        above = (fq[..., None, :] @ state.values)[..., 0, :]
        return state, above / (fq * state.keys).sum(-1)[..., None]

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"causal={self.causal}"


def features(x: Tensor) -> Tensor:
    """φ(x) = elu(x) + 1, above 0 everywhere."""
    return nn.functional.elu(x) + 1
