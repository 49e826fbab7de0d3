"""What it costs to watch SmolLM2 while it writes, and to sum up each of its steps; JSON.

    python bench/generation.py                     # steps after a text of 500 tokens
    python bench/generation.py --tokens 4000       # after a longer one

Three models of the same weights write in turns, a step each: one unwatched, one
recorded, and one that is
also followed (top keys and received mass of every head).  A step's cost is the ratio to the step
without a watch before it, given as median and spread.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from contextlib import ExitStack
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads would slow each other


def costs(tokens: int, rounds: int) -> dict[str, Any]:
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    import regard
    from regard.recording import shelf

    place = shelf.find("smollm2", lambda key: None)
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    text = torch.randint(5, 40_000, (1, tokens), generator=torch.Generator().manual_seed(0))

    kinds = ("alone", "recorded", "followed")
    took: dict[str, list[float]] = {kind: [] for kind in kinds}
    with torch.no_grad():
        caches = {kind: DynamicCache(config=model.config) for kind in kinds}
        # Each watch has a model of its own, so that they can be open together; the weights are one.
        models = {kind: shared(model) for kind in kinds}
        with ExitStack() as watches:
            for kind in kinds[1:]:
                seen = watches.enter_context(regard.watch(models[kind]))
                if kind == "followed":
                    seen.follow(8)
            for kind in kinds:
                models[kind](text, cache=caches[kind], logits_to_keep=1)
            for number in range(rounds + 2):
                for kind in kinds:
                    began = time.perf_counter()
                    models[kind](text[:, number : number + 1], cache=caches[kind])
                    took[kind].append(time.perf_counter() - began)
    took = {kind: times[2:] for kind, times in took.items()}
    found: dict[str, Any] = {"tokens": tokens, "steps": rounds}
    found["alone_ms"] = round(1e3 * statistics.median(took["alone"]), 2)
    for kind in kinds[1:]:
        ratios = [a / b for a, b in zip(took[kind], took["alone"], strict=True)]
        found[kind] = {
            "ratio": round(statistics.median(ratios), 4),
            "quartiles": [round(q, 3) for q in statistics.quantiles(ratios, n=4)[::2]],
        }
    return found


def shared(model: Any) -> Any:
    """Another model of the same weights."""
    import copy

    memo = {id(parameter): parameter for parameter in model.parameters()}
    return copy.deepcopy(model, memo)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    print(json.dumps(costs(options.tokens, options.rounds), indent=1))


if __name__ == "__main__":
    main()
