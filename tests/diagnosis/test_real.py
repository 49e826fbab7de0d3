"""Real right code raises no alarm: torch's own attention, and that of transformers' models."""

from __future__ import annotations

from typing import Any

import pytest

from regard import check

torch = pytest.importorskip("torch")


def test_torchs_own_is_right():
    assert check(torch.nn.functional.scaled_dot_product_attention).verdict == "right"
    for first in (True, False):
        assert check(torch.nn.MultiheadAttention(24, 3, batch_first=first)).verdict == "right"


def attention(name: str, kind: str) -> Any:
    transformers = pytest.importorskip("transformers")
    from importlib import import_module

    module = import_module(f"transformers.models.{name.lower()}.modeling_{name.lower()}")
    sizes = {
        "Bert": {"hidden_size": 24, "num_attention_heads": 3, "intermediate_size": 32},
        "GPT2": {"n_embd": 24, "n_head": 3, "n_positions": 16},
        "Llama": {
            "hidden_size": 48,
            "num_attention_heads": 6,
            "num_key_value_heads": 3,
            "intermediate_size": 32,
        },
        "T5": {"d_model": 24, "num_heads": 3, "d_kv": 8},
    }[name]
    config = getattr(transformers, f"{name}Config")(**sizes)
    config._attn_implementation = kind
    places = {"layer_idx": 0} if name in ("GPT2", "Llama") else {}
    return getattr(module, f"{name}Attention")(config, **places)


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["Bert", "GPT2", "Llama", "T5"])
def test_the_attention_of_transformers_is_not_accused(name: str, kind: str):
    report = check(attention(name, kind))
    assert report.faults == ()
    assert report.verdict in ("right", "different")
