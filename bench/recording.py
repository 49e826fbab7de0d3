"""What it costs to watch SmolLM2: recording, statistics, and reading a recording; JSON.

    python bench/recording.py                      # the first 2 layers over 8,000 tokens
    python bench/recording.py --tokens 2000        # another length
    python bench/recording.py --layers 30          # the whole model (minutes)
    python bench/recording.py --peak 32000         # the peak of regard look --statistics (long)

A layer costs what any other does, so a few of them tell the ratios.  Each round runs the forward
alone, recorded, and summed up, in turns, and then the model's own attention over the same queries
and keys beside the statistics of them; ratios are those of one round, given as median and spread.
``--peak`` runs a process of its own, so that its peak (ru_maxrss) is its own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads would slow each other

LOOK = """
import resource, sys, time
began = time.perf_counter()
from regard.cli import main
text, path = sys.argv[1:3]
options = ["--statistics", "--beyond-context", "--layer", "0"]
code = main(["look", "--file", text, *options, "--to", path])
import json, torch
print(json.dumps({
    "code": code,
    "seconds": round(time.perf_counter() - began, 1),
    "peak_GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
}))
"""


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def spread(values: list[float]) -> dict[str, float]:
    found = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, 4) for name, value in found.items()}


def costs(tokens: int, layers: int, rounds: int) -> dict[str, Any]:
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    import regard
    from regard.recording.models import load
    from regard.recording.summary import summarise

    model: Any = load("smollm2", lambda key: None).model
    model.layers = model.layers[:layers]
    ids = torch.randint(100, 49_000, (1, tokens), generator=torch.Generator().manual_seed(0))
    bare = regard.Statistics(strongest=0)
    held: list[Any] = []

    def watched(keep: Any) -> None:
        with regard.watch(model, keep=keep) as seen:
            model(input_ids=ids)
        held[:] = [seen]

    times: dict[str, list[float]] = {}
    with torch.inference_mode():
        model(input_ids=ids[:, :256])
        for _ in range(rounds):
            for name, work in (
                ("forward", lambda: model(input_ids=ids)),
                ("summed_up", lambda: watched(bare)),
                ("recorded", lambda: watched(None)),
            ):
                times.setdefault(name, []).append(seconds(work))
            layer = held[0][0]
            v = torch.randn_like(layer.k)

            def own(layer: Any = layer, v: Any = v) -> None:
                scaled_dot_product_attention(layer.q, layer.k, v, is_causal=True, enable_gqa=True)

            for name, work in (
                ("attention", own),
                ("statistics", lambda layer=layer: summarise(layer, strongest=0)),
                ("statistics_and_top_8", lambda layer=layer: summarise(layer, strongest=8)),
            ):
                times.setdefault(name, []).append(seconds(work))
        at = tokens - 600
        row = [seconds(lambda i=i: layer.weights[..., at + i, :]) for i in range(20)]
        window = slice(at, at + 512), slice(at // 2, at // 2 + 512)
        one = [seconds(lambda: layer.weights[0, 3, *window]) for _ in range(9)]
        every = [seconds(lambda: layer.weights[..., *window]) for _ in range(9)]
    ratio = lambda a, b: spread([x / y for x, y in zip(times[a], times[b], strict=True)])  # noqa: E731
    return {
        "tokens": tokens,
        "layers": layers,
        "engine": regard.plan(layer.q, layer.k, layer.mask).engine,
        "seconds": {name: spread(found) for name, found in times.items()},
        "recorded_over_forward": ratio("recorded", "forward"),
        "summed_up_over_forward": ratio("summed_up", "forward"),
        "statistics_over_attention": ratio("statistics", "attention"),
        "statistics_and_top_8_over_attention": ratio("statistics_and_top_8", "attention"),
        "recording_MB_of_30_layers": round(held[0].nbytes / layers * 30 / 1e6, 1),
        "row_of_all_heads_ms": spread([1e3 * s for s in row]),
        "window_512_of_one_head_ms": spread([1e3 * s for s in one]),
        "window_512_of_all_heads_ms": spread([1e3 * s for s in every]),
    }


def peak(tokens: int) -> dict[str, Any]:
    """``regard look --statistics --beyond-context`` at a text of so many tokens, by itself."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text(" it" * tokens, encoding="utf-8")  # a token each
        command = [sys.executable, "-c", LOOK, str(text), str(Path(folder, "a.json"))]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {"tokens": tokens, **json.loads(done.stdout.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peak", type=int, default=0, metavar="TOKENS")
    asked = parser.parse_args()
    if asked.peak:
        print(json.dumps({"peak": peak(asked.peak)}, indent=1))
    else:
        print(json.dumps(costs(asked.tokens, asked.layers, asked.rounds), indent=1))


if __name__ == "__main__":
    main()
