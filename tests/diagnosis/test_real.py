"""Real right code raises no alarm: the attention of torch, transformers, x-transformers, Keras."""

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


@pytest.mark.parametrize("options", [{}, {"causal": True, "kv_heads": 1}], ids=str)
def test_the_attention_of_x_transformers_is_not_accused(options: dict[str, Any]):
    module = pytest.importorskip("x_transformers.x_transformers", reason="no x-transformers here")
    report = check(module.Attention(dim=24, heads=3, dim_head=8, **options))
    assert report.faults == ()
    assert report.verdict in ("right", "different")


@pytest.mark.parametrize("options", [{}, {"use_bias": False, "value_dim": 5}], ids=str)
def test_the_attention_of_keras_is_not_accused(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras", reason="no Keras here")
    if keras.backend.backend() != "torch":
        pytest.skip("Keras runs on another backend here")
    report = check(keras.layers.MultiHeadAttention(3, 8, **options))
    assert report.faults == ()
    assert report.verdict == "right"
