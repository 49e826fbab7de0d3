"""What it costs to watch SmolLM2: recording, statistics, and reading a recording; JSON.

    python bench/recording.py                      # recording, over the first 2 layers
    python bench/recording.py --layers 30          # over the whole model (minutes)
    python bench/recording.py --statistics         # statistics of all 270 heads (minutes)
    python bench/recording.py --memory             # what recording takes over the forward (minutes)
    python bench/recording.py --peak 32000         # the peak of regard look --statistics (long)
    python bench/recording.py --tokens 2000 …      # another length than 8,000

The text is the help that comes with Python.  Times are taken in turns: the forward alone, recorded,
summed up; or of each layer the model's own attention and then its statistics, over the queries and
keys that the model made, which are added up over the layers.  Ratios are those of one round, given
as median and spread.  What a process holds at most (ru_maxrss) is that of a process of its own.
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
import json, resource, sys, time
from regard.cli import main
from regard.cli.stages import Stages
began = time.perf_counter()
def step(self, done, total):
    passed, most = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"layer {done} of {total}, {passed:.0f} s, {most * 1024 / 1e9:.3f} GB", file=sys.stderr)
Stages.step = step  # the line of progress, also where nobody sits at a terminal
text, path = sys.argv[1:3]
options = ["--statistics", "--beyond-context", "--layer", "0"]
code = main(["look", "--file", text, *options, "--to", path])
print(json.dumps({
    "code": code,
    "seconds": round(time.perf_counter() - began, 1),
    "peak_GB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3),
}))
"""


FORWARD = """
import json, resource, sys
import torch
import regard
from regard.recording.models import load
model = load("smollm2", lambda key: None).model
model.layers = model.layers[:int(sys.argv[2])]
ids = torch.tensor([json.load(sys.stdin)])
with torch.inference_mode():
    if sys.argv[1] == "recorded":
        with regard.watch(model) as seen:
            model(input_ids=ids)
    else:
        model(input_ids=ids)
print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 3))
"""


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def ratio(some: list[float], others: list[float]) -> dict[str, float]:
    return spread([a / b for a, b in zip(some, others, strict=True)])


def spread(values: list[float]) -> dict[str, float]:
    found = {"median": statistics.median(values), "least": min(values), "most": max(values)}
    return {name: round(value, 4) for name, value in found.items()}


def costs(tokens: int, layers: int, rounds: int) -> dict[str, Any]:
    """Forward passes alone, recorded and summed up; then rows and windows of the last layer."""
    import torch

    import regard

    model, ids = ready(tokens, layers)
    bare = regard.Statistics(strongest=0)
    held: list[Any] = []

    def watched(keep: Any) -> None:
        with regard.watch(model, keep=keep) as seen:
            model(input_ids=ids)
        held[:] = [seen]

    times: dict[str, list[float]] = {}
    with torch.inference_mode():
        model(input_ids=ids[:, :256])
        for number in range(rounds):
            for name, work in (
                ("forward", lambda: model(input_ids=ids)),
                ("summed_up", lambda: watched(bare)),
                ("recorded", lambda: watched(None)),
            ):
                times.setdefault(name, []).append(seconds(work))
            told(f"round {number + 1} of {rounds}")
        layer = held[0][-1]
        at = tokens - 600
        row = [seconds(lambda i=i: layer.weights[..., at + i, :]) for i in range(20)]
        window = slice(at, at + 512), slice(at // 2, at // 2 + 512)
        one = [seconds(lambda: layer.weights[0, 3, *window]) for _ in range(9)]
        every = [seconds(lambda: layer.weights[..., *window]) for _ in range(9)]
    return {
        "tokens": tokens,
        "layers": layers,
        "seconds": {name: spread(found) for name, found in times.items()},
        "recorded_over_forward": ratio(times["recorded"], times["forward"]),
        "summed_up_over_forward": ratio(times["summed_up"], times["forward"]),
        "recording_MB_of_30_layers": round(held[0].nbytes / layers * 30 / 1e6, 1),
        "row_of_all_heads_ms": spread([1e3 * s for s in row]),
        "window_512_of_one_head_ms": spread([1e3 * s for s in one]),
        "window_512_of_all_heads_ms": spread([1e3 * s for s in every]),
    }


def sums(tokens: int, layers: int, rounds: int) -> dict[str, Any]:
    """The model's own attention beside the statistics of every layer, added up over the layers."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    import regard
    from regard.recording.summary import summarise

    model, ids = ready(tokens, layers)
    with torch.inference_mode():
        with regard.watch(model) as seen:
            model(input_ids=ids)
        told("the forward is through")
        v = torch.randn_like(seen[0].k)
        kinds: dict[str, Callable[[Any], Any]] = {
            "attention": lambda layer: scaled_dot_product_attention(
                layer.q, layer.k, v, is_causal=True, enable_gqa=True
            ),
            "statistics": lambda layer: summarise(layer, strongest=0),
            "statistics_and_top_1": lambda layer: summarise(layer, strongest=1),
            "statistics_and_top_8": lambda layer: summarise(layer, strongest=8),
        }
        times: dict[str, list[float]] = {name: [0.0] * rounds for name in kinds}
        for number in range(rounds):
            for layer in seen:
                for name, work in kinds.items():
                    times[name][number] += seconds(lambda work=work, layer=layer: work(layer))
            told(f"round {number + 1} of {rounds}")
    over = {f"{name}_over_attention": ratio(times[name], times["attention"]) for name in kinds}
    del over["attention_over_attention"]
    return {
        "tokens": tokens,
        "heads": sum(layer.heads for layer in seen),
        "engine": regard.plan(seen[0].q, seen[0].k, seen[0].mask).engine,
        "seconds": {name: spread(found) for name, found in times.items()},
        **over,
    }


def memory(tokens: int, layers: int) -> dict[str, Any]:
    """What the forward holds at most, and how much more it is when it is recorded."""
    _, ids = ready(tokens, layers)
    text = json.dumps(ids[0].tolist())
    found = {}
    for kind in ("alone", "recorded"):
        command = [sys.executable, "-c", FORWARD, kind, str(layers)]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True)
        found[f"{kind}_GB"] = float(done.stdout.splitlines()[-1])
        told(f"{kind}: {found[f'{kind}_GB']} GB")
    over = round(found["recorded_GB"] - found["alone_GB"], 3)
    return {"tokens": tokens, "layers": layers, **found, "over_GB": over}


def ready(tokens: int, layers: int) -> tuple[Any, Any]:
    """The first layers of the model, and the text for it."""
    import torch

    from regard.recording.models import load

    model: Any = load("smollm2", lambda key: None).model
    model.layers = model.layers[:layers]
    return model, torch.tensor([load_tokenizer()(prose(tokens))["input_ids"][:tokens]])


def told(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


def prose(tokens: int) -> str:
    """So many tokens of English, over and over if need be: the help that comes with Python."""
    from pydoc_data.topics import topics

    tokenizer = load_tokenizer()
    text = "\n\n".join(topics[name] for name in sorted(topics))
    while True:
        ends = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        if len(ends) >= tokens:
            return text[: ends[tokens - 1][1]]
        text += "\n\n" + text


def load_tokenizer() -> Any:
    from transformers import AutoTokenizer

    from regard.recording import shelf

    return AutoTokenizer.from_pretrained(shelf.find("smollm2", lambda key: None))


def peak(tokens: int) -> dict[str, Any]:
    """``regard look --statistics --beyond-context`` at a text of so many tokens, by itself."""
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder, "text.txt")
        text.write_text(prose(tokens), encoding="utf-8")
        command = [sys.executable, "-c", LOOK, str(text), str(Path(folder, "a.json"))]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        read = len(json.loads(Path(folder, "a.json").read_text("utf-8"))["tokens"])
    return {"tokens": read, **json.loads(done.stdout.splitlines()[-1])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=8000)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--statistics", action="store_true")
    what.add_argument("--memory", action="store_true")
    what.add_argument("--peak", type=int, default=0, metavar="TOKENS")
    asked = parser.parse_args()
    if asked.peak:
        found = {"peak": peak(asked.peak)}
    elif asked.memory:
        found = memory(asked.tokens, asked.layers or 30)
    elif asked.statistics:
        found = sums(asked.tokens, asked.layers or 30, asked.rounds)
    else:
        found = costs(asked.tokens, asked.layers or 2, asked.rounds)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
