"""The native engine beside torch on this CPU: pairs in turns, ratios of medians, their spread.

    python bench/cpu.py [part of a row's name …]

Each row runs its two sides in turns, at least 31 pairs of them (5 where a call takes above a
second); a ratio is that of the medians, and its interval comes from 2,000 resamples of the pairs.
The same run measures this machine's own matrix product, which a row's share of the peak is counted
from.  What a row must reach stands beside it; one that falls short is printed as it is.  Numbers go
to bench/results/cpu.json, the picture to docs/pictures/cpu.svg.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

import regard
from regard.core.engines import native

HERE = Path(__file__).parent
sdpa = torch.nn.functional.scaled_dot_product_attention
Work = Callable[[], object]
NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


@dataclass
class Row:
    """Two things to do, and how many times faster the first must be (below 1: how much slower)."""

    name: str
    ours: Work
    peer: Work
    bar: float | None
    against: str
    flops: float = 0.0


@dataclass
class Result:
    name: str
    against: str
    ours_ms: float
    peer_ms: float
    ratio: float
    low: float
    high: float
    bar: float | None
    share_of_gemm: float | None


def seconds(work: Work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(row: Row, gemm: float) -> Result:
    for _ in range(2):
        took = max(seconds(row.ours), seconds(row.peer))
    pairs = 5 if took > 1 else 31 if took > 0.01 else 201
    times = np.array([(seconds(row.ours), seconds(row.peer)) for _ in range(pairs)])
    drawn = np.random.default_rng(0).integers(pairs, size=(2000, pairs))
    ours, peer = (np.median(times[:, i][drawn], axis=1) for i in (0, 1))
    low, high = np.quantile(peer / ours, [0.025, 0.975])
    ours_s, peer_s = np.median(times, axis=0)
    share = row.flops / ours_s / gemm if row.flops else None
    return Result(
        row.name,
        row.against,
        ours_s * 1e3,
        peer_s * 1e3,
        peer_s / ours_s,
        low,
        high,
        row.bar,
        share,
    )


def gemm_peak(dtype: torch.dtype) -> float:
    """The best rate of a square product in this run, 1024 to 4096, in operations a second."""
    best = 0.0
    for n in (1024, 2048, 4096):
        a = torch.randn(n, n).to(dtype)
        best = max(best, *(2 * n**3 / seconds(lambda a=a: a @ a) for _ in range(5)))
    return best


def qkv(n: int, dtype: torch.dtype, heads: int = 8, width: int = 64) -> list[torch.Tensor]:
    return [torch.randn(1, heads, n, width).to(dtype) for _ in range(3)]


def dense_rows() -> Iterator[Row]:
    bars = {torch.float32: {512: 1.1, 2048: 1.05, 4096: 1.05}}
    bars |= {torch.bfloat16: {2048: 2.0}, torch.float16: {2048: 3.0}}
    for dtype, name in NAMES.items():
        for n in (16, 32, 64, 128, 256, 512, 2048, 4096):
            if dtype != torch.float32 and n == 4096:
                continue
            x = qkv(n, dtype)
            bar = bars[dtype].get(n, 1.0 if 64 <= n <= 256 else None)
            work = 4.0 * 8 * n * n * 64 if dtype == torch.float32 and n >= 512 else 0.0
            yield Row(
                f"{name}, dense, {n}",
                lambda x=x: regard.attend(*x),
                lambda x=x: sdpa(*x),
                bar,
                "SDPA",
                work,
            )


def causal_rows() -> Iterator[Row]:
    for dtype, name in NAMES.items():
        for n, bar in ((64, None), (512, 1 / 0.62), (2048, 1 / 0.54)):
            x = qkv(n, dtype)
            yield Row(
                f"{name}, causal, {n}",
                lambda x=x: regard.attend(*x, regard.causal()),
                lambda x=x: sdpa(*x, is_causal=True),
                1.0 if n == 64 else None,
                "SDPA",
            )
            if bar:
                yield Row(
                    f"{name}, causal beside full, {n}",
                    lambda x=x: regard.attend(*x, regard.causal()),
                    lambda x=x: regard.attend(*x),
                    bar,
                    "itself without a mask",
                )


def skipping_rows() -> Iterator[Row]:
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        x, n = qkv(4096, dtype), 4096
        i, j = torch.arange(n)[:, None], torch.arange(n)
        seen = (j <= i) & (i - j < 256)
        rule = regard.causal() & regard.window(256)
        yield Row(
            f"{name}, causal window of 256, 4096",
            lambda x=x, rule=rule: regard.attend(*x, rule),
            lambda x=x, seen=seen: sdpa(*x, attn_mask=seen),
            8.0,
            "SDPA with a mask",
        )
    x = qkv(2048, torch.float32)
    ids = torch.arange(2048) // 256
    mask, rule = ids[:, None] == ids, regard.documents(ids.numpy())
    apart = [a.view(8, 8, 256, 64).transpose(0, 1).contiguous() for a in x]
    yield Row(
        "float32, eight documents of 256",
        lambda: regard.attend(*x, rule),
        lambda: sdpa(*x, attn_mask=mask),
        6.0,
        "SDPA with a mask",
    )
    yield Row(
        "float32, eight documents of 256 as a batch",
        lambda: regard.attend(*x, rule),
        lambda: regard.attend(*apart),
        1 / 1.15,
        "itself, a batch of eight",
    )


def extra_rows() -> Iterator[Row]:
    x = qkv(2048, torch.float32)
    bias = torch.randn(8, 2048, 2048)

    def itself() -> object:
        return regard.attend(*x)

    yield Row(
        "float32, dropout, 2048",
        lambda: regard.attend(*x, dropout=0.1, generator=1),
        itself,
        1 / 1.25,
        "itself without",
    )
    yield Row(
        "float32, dense bias, 2048",
        lambda: regard.attend(*x, bias=bias),
        itself,
        None,
        "itself without",
    )
    yield Row(
        "float32, alibi, 2048",
        lambda: regard.attend(*x, bias=regard.alibi(8)),
        itself,
        None,
        "itself without",
    )
    stops = [2048, 1024, 512, 256]
    batch = [torch.randn(4, 8, 2048, 64) for _ in range(3)]
    rule = regard.lengths(stops)
    parts = [
        (batch[0][b : b + 1], *(a[b : b + 1, :, :n] for a in batch[1:]))
        for b, n in enumerate(stops)
    ]
    yield Row(
        "float32, ragged batch",
        lambda: regard.attend(*batch, rule),
        lambda: [regard.attend(*part) for part in parts],
        1 / 1.1,
        "a loop over its parts",
    )


def decode_rows() -> Iterator[Row]:
    for n in (1024, 16384):
        q = torch.randn(1, 32, 1, 128).bfloat16()
        both = torch.randn(2, 1, 8, n, 128).bfloat16()
        k, v, read = both[0], both[1], both.view(torch.float32)

        def ours(q: torch.Tensor = q, k: torch.Tensor = k, v: torch.Tensor = v) -> object:
            return regard.attend(q, k, v)

        yield Row(
            f"bfloat16, decode 32 over 8 heads, {n} keys",
            ours,
            lambda q=q, k=k, v=v: sdpa(q, k, v, enable_gqa=True),
            20.0,
            "SDPA enable_gqa",
        )
        yield Row(
            f"bfloat16, decode, group folded, {n} keys",
            ours,
            lambda q=q, k=k, v=v: sdpa(q.view(1, 8, 4, 128), k, v),
            1.5,
            "SDPA, group folded",
        )
        yield Row(
            f"bfloat16, decode beside reading alone, {n} keys",
            ours,
            lambda read=read: read.sum(),
            0.7,
            "the sum of keys and values",
        )


def dense_answers(q: torch.Tensor, k: torch.Tensor, hidden: torch.Tensor) -> list[torch.Tensor]:
    """Received, entropy and a picture from all weights at once, as one writes it by hand."""
    w = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(hidden, float("-inf")).softmax(-1)
    picture = w.unflatten(-1, (256, -1)).unflatten(-3, (256, -1)).mean((-1, -3))
    return [w.sum(-2), torch.special.entr(w).sum(-1), picture]


def question_rows() -> Iterator[Row]:
    asked = regard.received(), regard.entropy(), regard.image(256, 256)
    for n in (4096, 32768):
        q, k, v = qkv(n, torch.float32)
        W = regard.weights(q, k, regard.causal())
        for name, questions, bar in (
            ("received, entropy, image", asked, 0.75),
            ("the same with topk(8)", (*asked, regard.topk(8)), 1.2),
        ):
            yield Row(
                f"float32, questions, causal, {n}: {name}",
                lambda W=W, questions=questions: W.ask(*questions),
                lambda q=q, k=k, v=v: sdpa(q, k, v, is_causal=True),
                1 / bar,
                "SDPA's forward",
            )
        if n > 4096:
            continue
        hidden = torch.ones(n, n, dtype=torch.bool).triu(1)
        yield Row(
            f"float32, questions, causal, {n}: received, entropy, image",
            lambda W=W: W.ask(*asked),
            lambda q=q, k=k, hidden=hidden: dense_answers(q, k, hidden),
            4.0,
            "all weights at once",
        )
    q, (k, v) = torch.randn(1, 9, 8192, 64), torch.randn(2, 1, 3, 8192, 64)
    W = regard.weights(q, k, regard.causal())
    roles = regard.mass([0]), regard.mass(range(7, 8192, 13)), regard.by_distance()
    yield Row(
        "float32, statistics of SmolLM2's shape, 8192",
        lambda: W.ask(*asked, *roles),
        lambda: regard.attend(q, k, v, regard.causal()),
        1 / 0.75,
        "its own attention",
    )


def rows() -> Iterator[Row]:
    yield from dense_rows()
    yield from causal_rows()
    yield from skipping_rows()
    yield from extra_rows()
    yield from decode_rows()
    yield from question_rows()


def told(result: Result) -> str:
    bar = "" if result.bar is None else f", bar {result.bar:.2f}"
    if result.bar is not None and result.low < result.bar - 0.03:
        bar += " (short)"
    share = "" if result.share_of_gemm is None else f", {result.share_of_gemm:.0%} of GEMM"
    return (
        f"{result.name}: {result.ours_ms:.3f} ms, {result.against} {result.peer_ms:.3f} ms, "
        f"× {result.ratio:.2f} ({result.low:.2f} to {result.high:.2f}{bar}){share}"
    )


def draw(results: list[Result], to: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "regard"
    shown = [r for r in results if r.against.startswith("SDPA")][::-1]
    figure, axes = plt.subplots(figsize=(8, 0.24 * len(shown) + 1.2), layout="constrained")
    axes.barh(
        range(len(shown)),
        [r.ratio for r in shown],
        xerr=[
            [max(r.ratio - r.low, 0) for r in shown],
            [max(r.high - r.ratio, 0) for r in shown],
        ],
        color="#4c72b0",
    )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_yticks(range(len(shown)), [r.name for r in shown], fontsize=7)
    axes.set_xlabel("times as fast as torch's scaled_dot_product_attention")
    figure.savefig(to, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="only rows whose name holds one of these")
    names = parser.parse_args().names
    engine = native._native
    if engine is None:
        raise SystemExit(f"the native engine is not built: {native._missing}")
    peak = gemm_peak(torch.float32)
    print(
        f"{platform.machine()}, level {engine.level()}, {torch.get_num_threads()} threads, "
        f"float32 GEMM {peak / 1e9:.0f} GFLOP/s, torch {torch.__version__}",
        flush=True,
    )
    results = []
    with torch.no_grad():
        for row in rows():
            if names and not any(name in row.name for name in names):
                continue
            results.append(measure(row, peak))
            print(told(results[-1]), flush=True)
    if names:
        return
    (HERE / "results").mkdir(exist_ok=True)
    machine = {"level": engine.level(), "threads": torch.get_num_threads(), "gemm": peak}
    text = json.dumps({**machine, "rows": [asdict(r) for r in results]}, indent=1)
    (HERE / "results" / "cpu.json").write_text(text + "\n", encoding="utf-8")
    draw(results, HERE.parent / "docs" / "pictures" / "cpu.svg")


if __name__ == "__main__":
    main()
