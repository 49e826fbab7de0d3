"""Forward rows: dense, causal, what a mask skips, what is added, and decoding."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from _peers import eager, flex, peers, sdpa
from _turns import Gain, Peer, Row
from torch import Tensor

import regard

NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


def qkv(n: int, dtype: torch.dtype, heads: int = 8, width: int = 64) -> list[Tensor]:
    """Three random tensors (1, H, n, D)."""
    return [torch.randn(1, heads, n, width).to(dtype) for _ in range(3)]


def is_past(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j <= i


def is_near(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return (j <= i) & (i - j < 256)


def same_document(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i // 256 == j // 256


def dense() -> Iterator[Row]:
    bars = {torch.float32: {512: 1.1, 2048: 1.05, 4096: 1.05}}
    bars |= {torch.bfloat16: {2048: 2.0}, torch.float16: {2048: 3.0}}
    for dtype, name in NAMES.items():
        for n in (16, 32, 64, 128, 256, 512, 2048, 4096):
            if dtype != torch.float32 and n == 4096:
                continue
            x = qkv(n, dtype)
            bar = bars[dtype].get(n, 1.0 if 64 <= n <= 256 else None)
            work = 4.0 * 8 * n * n * 64 if dtype == torch.float32 and n >= 512 else 0.0
            yield Row(f"{name}, dense, {n}", lambda x=x: regard.attend(*x), peers(x, bar), work)


def causal() -> Iterator[Row]:
    for dtype, name in NAMES.items():
        for n, bar in ((64, None), (512, 1 / 0.62), (2048, 1 / 0.54)):
            x = qkv(n, dtype)

            def full(x: list[Tensor] = x) -> Tensor:
                return regard.attend(*x)

            itself = () if bar is None else (Peer("itself without a mask", full, bar),)
            yield Row(
                f"{name}, causal, {n}",
                lambda x=x: regard.attend(*x, regard.causal()),
                (*peers(x, 1.0 if n == 64 else None, seen=is_past, is_causal=True), *itself),
            )


def skipping() -> Iterator[Row]:
    n = 4096
    i, j = torch.arange(n)[:, None], torch.arange(n)
    near = (j <= i) & (i - j < 256)
    rule = regard.causal() & regard.window(256)
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        x = qkv(n, dtype)
        yield Row(
            f"{name}, causal window of 256, 4096",
            lambda x=x: regard.attend(*x, rule),
            peers(x, 8.0, seen=is_near, flex_bar=1.5, attn_mask=near),
        )
    x = qkv(2048, torch.float32)
    ids = torch.arange(2048) // 256
    apart = [a.view(8, 8, 256, 64).transpose(0, 1).contiguous() for a in x]
    batch = Peer("itself, a batch of eight", lambda: regard.attend(*apart), 1 / 1.15)
    packed = regard.documents(ids.numpy())
    yield Row(
        "float32, eight documents of 256",
        lambda: regard.attend(*x, packed),
        (*peers(x, 6.0, seen=same_document, attn_mask=ids[:, None] == ids), batch),
    )


def added() -> Iterator[Row]:
    x = qkv(2048, torch.float32)
    bias = torch.randn(8, 2048, 2048)
    slopes = torch.tensor([2.0 ** -(h + 1) for h in range(8)])
    distance = torch.arange(2048) - torch.arange(2048)[:, None]

    def with_bias(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return s + bias[h, i, j]

    def with_slope(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return s + slopes[h] * (j - i)

    def itself() -> Tensor:
        return regard.attend(*x)

    yield Row(
        "float32, dropout, 2048",
        lambda: regard.attend(*x, dropout=0.1, generator=1),
        (
            Peer("itself without", itself, 1 / 1.25),
            Peer("SDPA", lambda: sdpa(*x, dropout_p=0.1)),
            Peer(
                "the formula, eager",
                lambda: (x[0] @ x[1].mT / 8).softmax(-1).dropout(0.1, True) @ x[2],
            ),
        ),
    )
    yield Row(
        "float32, dense bias, 2048",
        lambda: regard.attend(*x, bias=bias),
        (
            Peer("itself without", itself),
            Peer("SDPA", lambda: sdpa(*x, attn_mask=bias[None])),
            Peer("FlexAttention, compiled", flex(*x, shaped=with_bias)),
            Peer("the formula, eager", lambda: (x[0] @ x[1].mT / 8 + bias).softmax(-1) @ x[2]),
        ),
    )
    made = (slopes[:, None, None] * distance)[None]
    yield Row(
        "float32, alibi, 2048",
        lambda: regard.attend(*x, bias=regard.alibi(8)),
        (
            Peer("itself without", itself),
            Peer("SDPA", lambda: sdpa(*x, attn_mask=made)),
            Peer("FlexAttention, compiled", flex(*x, shaped=with_slope)),
            Peer("the formula, eager", lambda: (x[0] @ x[1].mT / 8 + made).softmax(-1) @ x[2]),
        ),
    )
    stops = [2048, 1024, 512, 256]
    batch = [torch.randn(4, 8, 2048, 64) for _ in range(3)]
    there = (torch.arange(2048) < torch.tensor(stops)[:, None])[:, None, None]
    parts = [
        (batch[0][b : b + 1], *(a[b : b + 1, :, :n] for a in batch[1:]))
        for b, n in enumerate(stops)
    ]
    yield Row(
        "float32, ragged batch",
        lambda: regard.attend(*batch, regard.lengths(stops)),
        (
            Peer("a loop over its parts", lambda: [regard.attend(*p) for p in parts], 1 / 1.1),
            Peer("SDPA with a mask", lambda: sdpa(*batch, attn_mask=there)),
            Peer("the formula, eager", lambda: eager(*batch, ~there)),
        ),
    )


def decode() -> Iterator[Row | Gain]:
    for n in (1024, 16384):
        q = torch.randn(1, 32, 1, 128).bfloat16()
        both = torch.randn(2, 1, 8, n, 128).bfloat16()
        k, v, read = both[0], both[1], both.view(torch.float32)
        yield Row(
            f"bfloat16, decode 32 over 8 heads, {n} keys",
            lambda q=q, k=k, v=v: regard.attend(q, k, v),
            (
                Peer("SDPA enable_gqa", lambda q=q, k=k, v=v: sdpa(q, k, v, enable_gqa=True), 20.0),
                Peer(
                    "SDPA, group folded by hand",
                    lambda q=q, k=k, v=v: sdpa(q.view(1, 8, 4, 128), k, v),
                    1.5,
                ),
                Peer("FlexAttention, compiled", flex(q, k, v, grouped=True)),
                Peer("the formula, eager", lambda q=q, k=k, v=v: eager(q, k, v)),
                Peer("reading the same bytes", lambda read=read: read.sum(), 0.7),
            ),
        )
        yield Gain(
            f"bfloat16, decode 32 over 8 heads, {n} keys: two threads for one",
            lambda q=q, k=k, v=v: regard.attend(q, k, v),
            Peer("reading the same bytes", lambda read=read: read.sum(), 0.9),
        )


def rows() -> Iterator[Row | Gain]:
    yield from dense()
    yield from causal()
    yield from skipping()
    yield from added()
    yield from decode()
