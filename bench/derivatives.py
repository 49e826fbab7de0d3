"""What derivatives cost beside torch's own: interleaved pairs, medians of ratios.

    python bench/derivatives.py

First derivatives beside torch's fused kernel.  The others beside torch's math kernel, which is what
torch has for them: it holds all T × T weights, and regard a strip of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import regard

PAIRS = 9
Attend = Callable[[Any, Any, Any], Any]


def first(attend: Attend, q: Any, k: Any, v: Any) -> object:
    return torch.autograd.grad(attend(q, k, v).sin().sum(), (q, k, v))


def second(attend: Attend, q: Any, k: Any, v: Any) -> object:
    grads = torch.autograd.grad(attend(q, k, v).sin().sum(), (q, k, v), create_graph=True)
    return torch.autograd.grad(sum(g.sin().sum() for g in grads), (q, k, v))


def forward(attend: Attend, q: Any, k: Any, v: Any) -> object:
    arrays = tuple(x.detach() for x in (q, k, v))
    return torch.func.jvp(attend, arrays, tuple(torch.ones_like(x) for x in arrays))


def ours(q: Any, k: Any, v: Any) -> Any:
    return regard.attend(q, k, v, regard.causal())


def torchs(q: Any, k: Any, v: Any) -> Any:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def torchs_math(q: Any, k: Any, v: Any) -> Any:
    with sdpa_kernel(SDPBackend.MATH):
        return torchs(q, k, v)


WORK = {
    "first derivative, fused kernel": (first, torchs),
    "first derivative, math kernel": (first, torchs_math),
    "second derivative, math kernel": (second, torchs_math),
    "forward mode, math kernel": (forward, torchs_math),
}


def main() -> None:
    print(f"float32, causal, 8 heads of width 64, {torch.get_num_threads()} threads, {PAIRS} pairs")
    for n in (256, 1024):
        q, k, v = (torch.randn(1, 8, n, 64, requires_grad=True) for _ in range(3))
        for name, (asked, theirs) in WORK.items():
            ratios = []
            for turn in range(PAIRS + 1):
                took = []
                for attend in (ours, theirs):
                    began = time.perf_counter()
                    asked(attend, q, k, v)
                    took.append(time.perf_counter() - began)
                if turn:  # the first pair warms up
                    ratios.append(took[0] / took[1])
            ratios.sort()
            quarter = len(ratios) // 4
            print(
                f"{n} tokens, {name}: regard ÷ torch {statistics.median(ratios):.2f} "
                f"({ratios[quarter]:.2f} to {ratios[-1 - quarter]:.2f})"
            )


if __name__ == "__main__":
    main()
