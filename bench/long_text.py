"""What a long text costs: an overview of every head of SmolLM2, and the weights of 32,768 tokens.

    python bench/long_text.py            # 8,000 and 32,768 tokens
    python bench/long_text.py 2000 8192  # other lengths

Each run is a process of its own, so that its peak (ru_maxrss) is its own.  Beside each time stands
that of a named peer in the same process, interleaved: for the overview the model's own forward,
for the weights torch's fused attention over the same tensors.
"""

from __future__ import annotations

import subprocess
import sys

OVERVIEW = """
import resource, sys, time
import torch
from regard.recording.models import load
from regard.recording.overview import overview_of
from regard.recording.watch import watch

n = int(sys.argv[1])
loaded = load("smollm2", lambda key: None)
ids = torch.randint(100, 49_000, (1, n), generator=torch.Generator().manual_seed(0))
with torch.inference_mode():
    began = time.perf_counter()
    with watch(loaded.model) as seen:
        loaded.model(input_ids=ids, use_cache=False)
    forward = time.perf_counter() - began
    began = time.perf_counter()
    view = overview_of(seen, model="smollm2", tokens=[str(i) for i in ids[0].tolist()])
    overview = time.perf_counter() - began
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
heads = sum(1 for _ in view.heads())
dense = heads * n * n * 4 / 1e9
print(f"{n:,} tokens, {heads} heads: forward {forward:.1f} s, overview {overview:.1f} s"
      f" ({overview / forward:.1f} x), peak {peak:.2f} GiB; dense weights would be {dense:.0f} GB")
"""

WEIGHTS = """
import resource, statistics, sys, time
import torch
import regard

n = int(sys.argv[1])
q, k, v = (torch.randn(1, 1, n, 64, generator=torch.Generator().manual_seed(s)) for s in range(3))
questions = regard.topk(8), regard.entropy(), regard.received(), regard.image(512, 512)
ours, peers = [], []
for _ in range(3):
    began = time.perf_counter()
    regard.weights(q, k).ask(*questions)
    ours.append(time.perf_counter() - began)
    began = time.perf_counter()
    torch.nn.functional.scaled_dot_product_attention(q, k, v)
    peers.append(time.perf_counter() - began)
ratios = sorted(a / b for a, b in zip(ours, peers))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(f"{n:,} tokens, one head, width 64: topk(8), entropy, received and image in"
      f" {statistics.median(ours):.1f} s; torch SDPA {statistics.median(peers):.1f} s;"
      f" ratio {ratios[1]:.1f} ({ratios[0]:.1f} to {ratios[2]:.1f}); peak {peak:.2f} GiB,"
      f" dense {n * n * 4 / 2**30:.1f} GiB")
"""


def main() -> None:
    lengths = [int(n) for n in sys.argv[1:]] or [8_000, 32_768]
    for code, n in zip((OVERVIEW, WEIGHTS), lengths, strict=True):
        subprocess.run([sys.executable, "-c", code, str(n)], check=True)


if __name__ == "__main__":
    main()
