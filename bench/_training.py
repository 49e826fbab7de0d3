"""The rows of the CPU's bench that go backward."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch
from _rows import NAMES, Attend, Row, Work, sdpa

import regard


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


def backward_rows() -> Iterator[Row]:
    bars = {torch.float32: None, torch.bfloat16: 1.6, torch.float16: 8.0}
    for dtype, name in NAMES.items():
        x = leaves_of(2048, dtype)
        yield Row(
            f"{name}, backward, 2048", back(regard.attend, x), back(sdpa, x), bars[dtype], "SDPA"
        )
        for n, bar in ((512, 1 / 0.62), (2048, 1 / 0.54)):
            x = leaves_of(n, dtype)
            yield Row(
                f"{name}, backward, causal beside full, {n}",
                back(causal, x),
                back(regard.attend, x),
                bar,
                "itself without a mask",
            )
    x = leaves_of(2048, torch.float32)
    yield Row(
        "float32, forward and backward, causal, 2048",
        both_ways(causal, x),
        both_ways(partial(sdpa, is_causal=True), x),
        1.25,
        "SDPA",
    )
    i, j = torch.arange(4096)[:, None], torch.arange(4096)
    rule = regard.causal() & regard.window(256)
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        x = leaves_of(4096, dtype)
        yield Row(
            f"{name}, forward and backward, causal window of 256, 4096",
            both_ways(lambda q, k, v: regard.attend(q, k, v, rule), x),
            both_ways(partial(sdpa, attn_mask=(j <= i) & (i - j < 256)), x),
            8.0,
            "SDPA with a mask",
        )


def training_rows() -> Iterator[Row]:
    x = leaves_of(2048, torch.float32)
    itself, bias = both_ways(regard.attend, x), torch.randn(8, 2048, 2048, requires_grad=True)
    yield Row(
        "float32, forward and backward, dropout, 2048",
        both_ways(partial(regard.attend, dropout=0.1, generator=1), x),
        itself,
        1 / 1.25,
        "itself without",
    )
    yield Row(
        "float32, forward and backward, learned bias, 2048",
        both_ways(lambda q, k, v, bias: regard.attend(q, k, v, bias=bias), [*x, bias]),
        itself,
        1 / 1.25,
        "itself without",
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
        both_ways(loop, parts),
        1 / 1.1,
        "a loop over its parts",
    )
