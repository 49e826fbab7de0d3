"""What regard does on an accelerator: agreement with the formula there, and times beside torch's.

    python bench/gpu.py          # cuda
    python bench/gpu.py cpu      # the same checks on the processor, to try the script

Not part of ``make bench``: most machines have no such device.  Exits 1 if an engine disagrees.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch

import regard

EPS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
MASKS = {
    "no mask": None,
    "causal": regard.causal(),
    "causal window of 256": regard.causal() & regard.window(256),
    "documents": regard.documents(lengths=[100, 412]) & regard.causal(),
}


def agreement(device: str) -> bool:
    """Every engine against the formula in float64 on the device, forward and gradients."""
    right = True
    for dtype, eps in EPS.items():
        for name, mask in MASKS.items():
            made = torch.Generator(device).manual_seed(0)
            shape = {"device": device, "generator": made}
            q = torch.randn(2, 8, 512, 64, **shape).to(dtype).requires_grad_()
            k, v = (
                torch.randn(2, 2, 512, 64, **shape).to(dtype).requires_grad_() for _ in range(2)
            )
            results = {}
            for engine in ("formula", "tiles", "sdpa", "flex"):
                try:
                    regard.plan(q, k, v, mask, engine=engine)
                except regard.EngineError as refused:
                    print(refused)
                    continue
                output = regard.attend(q, k, v, mask, engine=engine)
                grads = torch.autograd.grad(output.float().sin().sum(), (q, k, v))
                results[engine] = [a.detach().double() for a in (output, *grads)]
            for engine in [name for name in results if name != "formula"]:
                far = max(
                    float((a - b).abs().max() / (1 + b.abs().max()))
                    for a, b in zip(results[engine], results["formula"], strict=True)
                )
                # Each entry is a sum of 512 rounded terms; a TF32 product would show here.
                fits = far <= 16 * eps
                right &= fits
                print(f"{engine}, {dtype}, {name}: off by {far:.1e} {'' if fits else 'WRONG'}")
    return right


def seconds(work: Callable[[], object], device: str) -> float:
    began = time.perf_counter()
    work()
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def times(device: str, n: int) -> None:
    """The engines in turns, and one pass of the questions."""
    q, k, v = (torch.randn(1, 8, n, 64, device=device) for _ in range(3))
    asked = regard.topk(8), regard.entropy(), regard.received(), regard.image(256, 256)
    work: dict[str, Callable[[], object]] = {
        "sdpa": lambda: regard.attend(q, k, v, regard.causal(), engine="sdpa"),
        "tiles": lambda: regard.attend(q, k, v, regard.causal(), engine="tiles"),
        "questions": lambda: regard.weights(q, k, regard.causal()).ask(*asked),
    }
    found: dict[str, list[float]] = {name: [] for name in work}
    for turn in range(6):
        for name, one in work.items():
            took = seconds(one, device)
            if turn:
                found[name].append(took)
    for name, took in found.items():
        ratio = statistics.median(a / b for a, b in zip(took, found["sdpa"], strict=True))
        print(f"{n} tokens, {name}: {statistics.median(took) * 1e3:.1f} ms, {ratio:.1f} x sdpa")


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        sys.exit("bench/gpu.py needs a CUDA device: run it where torch.cuda.is_available()")
    right = agreement(device)
    for n in (512, 2048) if device == "cpu" else (2048, 16_384):
        times(device, n)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
