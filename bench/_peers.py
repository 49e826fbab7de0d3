"""Attention as others do it on a CPU: torch's fused kernel, compiled FlexAttention, the formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from _turns import Peer
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as sdpa

__all__ = ["eager", "flex", "peers", "sdpa"]

Predicate = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def eager(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None = None) -> Tensor:
    """The formula as everybody writes it, three tensors of T × S and all."""
    if group := q.shape[-3] // k.shape[-3] - 1:
        k, v = (x.repeat_interleave(group + 1, dim=-3) for x in (k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return scores.softmax(-1) @ v


def flex(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    seen: Predicate | None = None,
    shaped: Any = None,
    grouped: bool = False,
) -> Callable[[], Tensor]:
    """FlexAttention, compiled at the first call for these tensors alone."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    made: list[Any] = []

    def work() -> Tensor:
        if not made:
            torch._dynamo.reset()  # else what other rows compiled makes this one run eagerly
            blocks = None
            if seen is not None:
                blocks = create_block_mask(seen, None, None, q.shape[-2], k.shape[-2], device="cpu")
            made.append((torch.compile(flex_attention, dynamic=False), blocks))
        run, blocks = made[0]
        result: Tensor = run(q, k, v, score_mod=shaped, block_mask=blocks, enable_gqa=grouped)
        return result

    return work


def peers(
    x: list[Tensor],
    bar: float | None = None,
    *,
    seen: Predicate | None = None,
    flex_bar: float | None = None,
    **options: Any,
) -> tuple[Peer, ...]:
    """The three of them on the same q, k and v; ``options`` are those of torch's kernel.

    ``seen`` says as FlexAttention takes it who may attend to whom.
    """
    T, S = x[0].shape[-2], x[1].shape[-2]
    hidden = None
    if seen is not None:
        none = torch.zeros((), dtype=torch.int64)
        hidden = ~seen(none, none, torch.arange(T)[:, None], torch.arange(S))
    name = "SDPA with a mask" if "attn_mask" in options else "SDPA"
    return (
        Peer(name, lambda: sdpa(*x, **options), bar),
        Peer("FlexAttention, compiled", flex(*x, seen=seen), flex_bar),
        Peer("the formula, eager", lambda: eager(*x, hidden)),
    )
