"""Works that do the same, run in turns: ratios of medians, and how far they spread.

A row runs ours and each peer one after another, over and over: at least 31 rounds, 5 where a call
takes above a second.  A ratio is that of the medians; its interval comes from 2,000 resamples of
the rounds.  A peer that cannot do a row's work says so in the row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

Work = Callable[[], object]


@dataclass(frozen=True)
class Peer:
    """What does a row's work besides us, and how many times its speed ours must have."""

    name: str
    work: Work
    bar: float | None = None
    """Below 1: how much slower ours may be."""


@dataclass(frozen=True)
class Row:
    """Ours and its peers."""

    name: str
    ours: Work
    peers: tuple[Peer, ...]
    flops: float = 0.0
    """Operations of ours, where its share of the machine's matrix product is of interest."""
    trains: bool = False
    """Whether autograd records."""


@dataclass(frozen=True)
class Gain:
    """What all threads gain over one in ours, as a share of what they gain in the peer's work."""

    name: str
    ours: Work
    peer: Peer


@dataclass(frozen=True)
class Result:
    """Ours beside one peer, in milliseconds and as a ratio with its interval."""

    name: str
    peer: str
    ours_ms: float
    peer_ms: float
    ratio: float
    low: float
    high: float
    bar: float | None
    share_of_gemm: float | None

    @property
    def short(self) -> bool:
        """Whether it falls short of its bar."""
        return self.bar is not None and bool(self.low < self.bar - 0.03)

    def __str__(self) -> str:
        bar = "" if self.bar is None else f", bar {self.bar:.2f}" + " (short)" * self.short
        share = "" if self.share_of_gemm is None else f", {self.share_of_gemm:.0%} of GEMM"
        return (
            f"{self.name}: {self.ours_ms:.3f} ms, {self.peer} {self.peer_ms:.3f} ms, "
            f"× {self.ratio:.2f} ({self.low:.2f} to {self.high:.2f}{bar}){share}"
        )


def seconds(work: Work) -> float:
    """How long one call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(row: Row, gemm: float) -> tuple[list[Result], dict[str, str]]:
    """A result for each peer, and why the others could not do it."""
    with torch.set_grad_enabled(row.trains):
        return _measure(row, gemm)


def _measure(row: Row, gemm: float) -> tuple[list[Result], dict[str, str]]:
    refused: dict[str, str] = {}
    able: list[Peer] = []
    longest = 0.0
    for _ in range(2):
        longest = seconds(row.ours)
    for peer in row.peers:
        try:
            peer.work()  # a first call may compile
            longest = max(longest, seconds(peer.work))
            able.append(peer)
        except Exception as error:
            refused[peer.name] = type(error).__name__
    rounds = 5 if longest > 1 else 31 if longest > 0.01 else 201
    works = [row.ours, *(peer.work for peer in able)]
    times = np.array([[seconds(work) for work in works] for _ in range(rounds)])
    drawn = np.random.default_rng(0).integers(rounds, size=(2000, rounds))
    ours = np.median(times[:, 0][drawn], axis=1)
    share = row.flops / float(np.median(times[:, 0])) / gemm if row.flops else None
    results = []
    for i, peer in enumerate(able, 1):
        spread = np.median(times[:, i][drawn], axis=1) / ours
        low, high = np.quantile(spread, [0.025, 0.975])
        mine, other = np.median(times[:, [0, i]], axis=0)
        results.append(
            Result(
                row.name,
                peer.name,
                mine * 1e3,
                other * 1e3,
                other / mine,
                low,
                high,
                peer.bar,
                share,
            )
        )
    return results, refused


def measure_gain(gain: Gain) -> Result:
    """The share; the times are those with all threads."""
    with torch.no_grad():
        return _measure_gain(gain)


def _measure_gain(gain: Gain) -> Result:
    threads, works = torch.get_num_threads(), (gain.ours, gain.peer.work)
    try:
        times = np.array([_with_each(works, (threads, 1)) for _ in range(31)])
    finally:
        torch.set_num_threads(threads)
    drawn = np.random.default_rng(0).integers(len(times), size=(2000, len(times)))
    mine, other, mine_alone, other_alone = (np.median(times[:, i][drawn], axis=1) for i in range(4))
    low, high = np.quantile(mine_alone / mine / (other_alone / other), [0.025, 0.975])
    mine, other, mine_alone, other_alone = np.median(times, axis=0)
    ratio = mine_alone / mine / (other_alone / other)
    return Result(
        gain.name,
        f"of the gain of {gain.peer.name}",
        mine * 1e3,
        other * 1e3,
        ratio,
        low,
        high,
        gain.peer.bar,
        None,
    )


def _with_each(works: tuple[Work, ...], threads: tuple[int, ...]) -> list[float]:
    times = []
    for n in threads:
        torch.set_num_threads(n)
        for work in works:
            work()
            times.append(seconds(work))
    return times


def gemm_peak(dtype: torch.dtype) -> float:
    """The best rate of a square product in this run, 1024 to 4096, in operations a second."""
    best = 0.0
    for n in (1024, 2048, 4096):
        a = torch.randn(n, n).to(dtype)
        best = max(best, *(2 * n**3 / seconds(lambda a=a: a @ a) for _ in range(5)))
    return best


def draw(results: list[Result], to: Path) -> None:
    """Every ratio to torch's kernel as a bar with its interval, and a mark where it should be."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    mpl.rcParams["svg.hashsalt"] = "regard"
    shown = results[::-1]
    figure, axes = plt.subplots(figsize=(8, 0.19 * len(shown) + 1.0), layout="constrained")
    at = range(len(shown))
    axes.barh(
        at,
        [r.ratio for r in shown],
        xerr=np.maximum([[r.ratio - r.low for r in shown], [r.high - r.ratio for r in shown]], 0.0),
        color=["#4c72b0" if r.ratio >= 1 else "#c44e52" for r in shown],
        error_kw={"linewidth": 0.8},
    )
    barred = [i for i in at if shown[i].bar is not None]
    axes.plot(
        [shown[i].bar for i in barred], barred, "k|", markersize=7, label="what it must reach"
    )
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    ticks = [0.5, 1, 2, 4, 8, 16]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.minorticks_off()
    axes.set_ylim(-0.7, len(shown) - 0.3)
    axes.set_yticks(at, [r.name for r in shown], fontsize=7)
    axes.set_xlabel("times as fast as torch's scaled_dot_product_attention")
    axes.legend(fontsize=7, loc="lower right")
    figure.savefig(to, metadata={"Date": None})
