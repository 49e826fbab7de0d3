"""Backward rows: gradients alone, and forward and backward together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from _cpu_forward import NAMES
from _peers import eager, sdpa
from _turns import Peer, Row, Work

import regard

Attend = Callable[..., Any]


def leaves_of(n: int, dtype: torch.dtype, batch: int = 1) -> list[torch.Tensor]:
    return [torch.randn(batch, 8, n, 64).to(dtype).requires_grad_() for _ in range(3)]


def back(attend: Attend, leaves: list[torch.Tensor]) -> Work:
    """The backward pass alone, again and again from one forward pass."""
    with torch.enable_grad():
        output = attend(*leaves)
    along = torch.randn(output.shape).to(output.dtype)
    return lambda: torch.autograd.grad(output, leaves, along, retain_graph=True)


def both_ways(attend: Attend, leaves: list[torch.Tensor]) -> Work:
    """Forward and backward."""

    def work() -> object:
        with torch.enable_grad():
            outputs = attend(*leaves)
            outputs = outputs if isinstance(outputs, list) else [outputs]
            return torch.autograd.grad(outputs, leaves, [torch.ones_like(o) for o in outputs])

    return work


def causal(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return regard.attend(q, k, v, regard.causal())


def alone() -> Iterator[Row]:
    bars = {torch.float32: None, torch.bfloat16: 1.6, torch.float16: 8.0}
    for dtype, name in NAMES.items():
        x = leaves_of(2048, dtype)
        peers = (
            Peer("SDPA", back(sdpa, x), bars[dtype]),
            Peer("the formula, eager", back(eager, x)),
        )
        yield Row(f"{name}, backward, 2048", back(regard.attend, x), peers, trains=True)
        for n, bar in ((512, 1 / 0.62), (2048, 1 / 0.54)):
            x = leaves_of(n, dtype)
            peers = (
                Peer("SDPA", back(partial(sdpa, is_causal=True), x)),
                Peer("itself without a mask", back(regard.attend, x), bar),
            )
            yield Row(f"{name}, backward, causal, {n}", back(causal, x), peers, trains=True)


def skipping() -> Iterator[Row]:
    x = leaves_of(2048, torch.float32)
    yield Row(
        "float32, forward and backward, causal, 2048",
        both_ways(causal, x),
        (Peer("SDPA", both_ways(partial(sdpa, is_causal=True), x), 1.25),),
        trains=True,
    )
    i, j = torch.arange(4096)[:, None], torch.arange(4096)
    near = (j <= i) & (i - j < 256)
    rule = regard.causal() & regard.window(256)
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        x = leaves_of(4096, dtype)
        yield Row(
            f"{name}, forward and backward, causal window of 256, 4096",
            both_ways(lambda q, k, v: regard.attend(q, k, v, rule), x),
            (
                Peer("SDPA with a mask", both_ways(partial(sdpa, attn_mask=near), x), 8.0),
                Peer("the formula, eager", both_ways(partial(eager, hidden=~near), x)),
            ),
            trains=True,
        )


def added() -> Iterator[Row]:
    x = leaves_of(2048, torch.float32)
    bias = torch.randn(8, 2048, 2048, requires_grad=True)
    itself = both_ways(regard.attend, x)
    yield Row(
        "float32, forward and backward, dropout, 2048",
        both_ways(partial(regard.attend, dropout=0.1, generator=1), x),
        (
            Peer("itself without", itself, 1 / 1.25),
            Peer("SDPA", both_ways(partial(sdpa, dropout_p=0.1), x)),
        ),
        trains=True,
    )
    yield Row(
        "float32, forward and backward, learned bias, 2048",
        both_ways(lambda q, k, v, bias: regard.attend(q, k, v, bias=bias), [*x, bias]),
        (
            Peer("itself without", itself, 1 / 1.25),
            Peer(
                "SDPA",
                both_ways(lambda q, k, v, bias: sdpa(q, k, v, attn_mask=bias[None]), [*x, bias]),
            ),
        ),
        trains=True,
    )
    stops = [2048, 1024, 512, 256]
    batch = leaves_of(2048, torch.float32, batch=4)
    parts = [
        a[b : b + 1, :, : n if i else 2048].detach().requires_grad_()
        for b, n in enumerate(stops)
        for i, a in enumerate(batch)
    ]

    def loop(*parts: torch.Tensor) -> list[torch.Tensor]:
        return [regard.attend(*parts[i : i + 3]) for i in range(0, len(parts), 3)]

    yield Row(
        "float32, forward and backward, ragged batch",
        both_ways(lambda q, k, v: regard.attend(q, k, v, regard.lengths(stops)), batch),
        (Peer("a loop over its parts", both_ways(loop, parts), 1 / 1.1),),
        trains=True,
    )


def rows() -> Iterator[Row]:
    yield from alone()
    yield from skipping()
    yield from added()
