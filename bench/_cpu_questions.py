"""Rows that ask the weights: in one pass and linear memory, beside a kernel that gives none."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from _cpu_forward import qkv
from _peers import sdpa
from _turns import Peer, Row
from torch import Tensor

import regard

ASKED = regard.received(), regard.entropy(), regard.image(256, 256)


def dense(q: Tensor, k: Tensor, hidden: Tensor) -> list[Tensor]:
    """The same answers from all weights at once, as everybody finds them."""
    n = q.shape[-2]
    w = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, float("-inf")).softmax(-1)
    picture = w.view(*w.shape[:2], 256, n // 256, 256, n // 256).mean((3, 5))
    return [w.sum(-2), torch.special.entr(w).sum(-1), picture]


def rows() -> Iterator[Row]:
    for n in (4096, 32768):
        q, k, v = qkv(n, torch.float32)
        W = regard.weights(q, k, regard.causal())
        forward = Peer(
            "SDPA's forward", lambda q=q, k=k, v=v: sdpa(q, k, v, is_causal=True), 1 / 0.75
        )
        peers = [forward]
        if n == 4096:  # beyond, the weights alone would take 34 GB
            hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
            peers.append(
                Peer(
                    "all weights at once",
                    lambda q=q, k=k, hidden=hidden: dense(q, k, hidden),
                    4.0,
                )
            )
        name = f"float32, questions, causal, {n}: received, entropy, image"
        yield Row(name, lambda W=W: W.ask(*ASKED), tuple(peers))
        yield Row(
            f"{name}, topk(8)",
            lambda W=W: W.ask(*ASKED, regard.topk(8)),
            (Peer(forward.name, forward.work, 1 / 1.2),),
        )
    q, (k, v) = torch.randn(1, 9, 8192, 64), torch.randn(2, 1, 3, 8192, 64)
    W = regard.weights(q, k, regard.causal())
    roles = regard.mass([0]), regard.mass(range(7, 8192, 13)), regard.by_distance()
    yield Row(
        "float32, statistics of SmolLM2's shape, 8192",
        lambda: W.ask(*ASKED, *roles),
        (Peer("its own attention", lambda: regard.attend(q, k, v, regard.causal()), 1 / 0.75),),
    )
