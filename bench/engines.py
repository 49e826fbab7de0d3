"""What the engine ``tiles`` costs beside torch's own kernel: interleaved pairs, medians of ratios.

    python bench/engines.py

``tiles`` is there for what torch's kernel lacks (questions, softcap, sinks, NumPy, linear memory
under any mask) and is slower where both can do the call; this says by how much on this machine.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

import regard

PAIRS = 15
WORK = {
    "dense, 512 tokens": (512, None),
    "dense, 2048 tokens": (2048, None),
    "causal, 2048 tokens": (2048, regard.causal()),
    "causal window of 256, 4096 tokens": (4096, regard.causal() & regard.window(256)),
    "eight documents of 256": (2048, regard.documents(lengths=[256] * 8)),
}


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def main() -> None:
    print(f"float32, 8 heads of width 64, {torch.get_num_threads()} threads, {PAIRS} pairs each")
    for name, (n, mask) in WORK.items():
        q, k, v = (torch.randn(1, 8, n, 64) for _ in range(3))
        times: dict[str, list[float]] = {"tiles": [], "sdpa": []}
        for turn in range(PAIRS + 1):
            for engine, found in times.items():

                def work(engine: str = engine) -> None:
                    regard.attend(q, k, v, mask, engine=engine)  # noqa: B023 - called at once

                took = seconds(work)
                if turn:  # the first pair warms up
                    found.append(took)
        ratios = sorted(a / b for a, b in zip(*times.values(), strict=True))
        quarter = len(ratios) // 4
        print(
            f"{name}: tiles {statistics.median(times['tiles']) * 1e3:.1f} ms, "
            f"sdpa {statistics.median(times['sdpa']) * 1e3:.1f} ms, tiles ÷ sdpa "
            f"{statistics.median(ratios):.2f} ({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"
        )


if __name__ == "__main__":
    main()
