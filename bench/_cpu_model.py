"""A real model end to end: SmolLM2 through transformers' attention interface, ours beside sdpa."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from _turns import Peer, Row, Work

import regard
from regard.recording import shelf
from regard.recording.quiet import quiet

PROMPT, NEW = 2048, 200


def model_of(dtype: torch.dtype, implementation: str) -> Any:
    """SmolLM2-135M with its head."""
    from transformers import AutoModelForCausalLM

    directory = shelf.find("smollm2", lambda stage: None)
    with quiet():
        return AutoModelForCausalLM.from_pretrained(
            directory, dtype=dtype, attn_implementation=implementation
        ).eval()


def prefill(model: Any, ids: torch.Tensor) -> Work:
    """One pass over the prompt; of its logits only the last are made, as ``generate`` does."""
    return lambda: model(input_ids=ids, use_cache=True, logits_to_keep=1)


def decode(model: Any, ids: torch.Tensor) -> Work:
    """200 greedy tokens after 64, a step each."""
    return lambda: model.generate(
        ids[:, :64], max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False, pad_token_id=0
    )


def rows() -> Iterator[Row]:
    regard.register()
    ids = torch.randint(0, 49152, (1, PROMPT), generator=torch.Generator().manual_seed(0))
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        ours, theirs = (model_of(dtype, by) for by in ("regard", "sdpa"))
        for what, work in (
            (f"prefill of {PROMPT:,} tokens", prefill),
            (f"decode of {NEW} tokens", decode),
        ):
            peer = Peer("the model with sdpa", work(theirs, ids), 1.0)
            yield Row(f"{name}, SmolLM2, {what}", work(ours, ids), (peer,))
