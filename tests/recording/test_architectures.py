"""Architectures of transformers, as small as they can be: each head as its eager model says."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from small import GROUPED, SMALL

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

SEQ2SEQ = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 99,
    "max_position_embeddings": 64, "pad_token_id": 0, "decoder_start_token_id": 0,
}  # fmt: skip
PICTURE = {**{k: v for k, v in SMALL.items() if k != "vocab_size"}, "image_size": 16}
PICTURE["patch_size"] = 4
SOUND = {
    **SMALL, "conv_dim": [8, 8], "conv_stride": [4, 4], "conv_kernel": [8, 8],
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2,
}  # fmt: skip
PADDED = {**SMALL, "pad_token_id": 0}
OLD = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}

DECODERS: dict[str, dict[str, Any]] = {
    "Llama": GROUPED,
    "Mistral": {**GROUPED, "sliding_window": 5},
    "Mixtral": {**GROUPED, "num_local_experts": 2},
    "Qwen2": GROUPED,
    "Qwen3": GROUPED,
    "Gemma": GROUPED,
    "Gemma2": {**GROUPED, "sliding_window": 4, "attn_logit_softcapping": 2.0},
    "Gemma3Text": {**GROUPED, "sliding_window": 4},
    "Phi": SMALL,
    "Phi3": {**GROUPED, "pad_token_id": 0},
    "GPT2": OLD,
    "GPTNeoX": SMALL,
    "GPTJ": {**OLD, "rotary_dim": 4},
    "CodeGen": {**OLD, "rotary_dim": 4},
    "OPT": {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
    "StableLm": GROUPED,
    "Starcoder2": GROUPED,
    "Cohere": GROUPED,
    "Olmo": GROUPED,
    "Olmo2": GROUPED,
    "Granite": GROUPED,
    "Glm": {**GROUPED, "pad_token_id": 0},
    "SmolLM3": {**GROUPED, "pad_token_id": 0},
    "GptOss": {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4},
    "DeepseekV3": {
        **SMALL, "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "v_head_dim": 8,
        "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "n_routed_experts": 4, "n_group": 1,
        "topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
        "first_k_dense_replace": 2,
    },
}  # fmt: skip
ENCODERS: dict[str, dict[str, Any]] = {
    "Bert": SMALL,
    "Roberta": PADDED,
    "XLMRoberta": PADDED,
    "DistilBert": {"dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48, "vocab_size": 99},
    "Electra": {**SMALL, "embedding_size": 32},
    "Albert": {**SMALL, "embedding_size": 16},
    "Esm": {**PADDED, "position_embedding_type": "rotary"},
    "ModernBert": {
        **PADDED, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
        "local_attention": 6,
    },
}  # fmt: skip
PAIRS: dict[str, dict[str, Any]] = {
    "T5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 99},
    "MT5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 9},
    **dict.fromkeys(("Bart", "MBart", "Marian", "Pegasus", "M2M100"), SEQ2SEQ),
    "BlenderbotSmall": SEQ2SEQ,
    "Whisper": {
        **{k: v for k, v in SEQ2SEQ.items() if k != "max_position_embeddings"},
        "num_mel_bins": 8, "max_source_positions": 10, "bos_token_id": 1, "eos_token_id": 2,
    },
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "ViT": PICTURE,
    "DeiT": PICTURE,
    "Beit": PICTURE,
    "Dinov2": {k: v for k, v in PICTURE.items() if k != "intermediate_size"},
    "Swin": {
        "image_size": 16, "patch_size": 2, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4],
        "window_size": 2,
    },
    "Segformer": {
        "num_encoder_blocks": 2, "depths": [1, 1], "sr_ratios": [2, 1], "hidden_sizes": [16, 32],
        "num_attention_heads": [2, 4], "patch_sizes": [3, 3], "strides": [2, 2],
        "mlp_ratios": [2, 2], "decoder_hidden_size": 16,
    },
    "Wav2Vec2": SOUND,
    "Hubert": SOUND,
}  # fmt: skip
SEEN = DECODERS | ENCODERS | PAIRS | OTHERS
BY_HAND: dict[str, dict[str, Any]] = {
    "Bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
    "Mpt": {"d_model": 32, "n_heads": 4, "n_layers": 2, "vocab_size": 99},
    "GPTNeo": {
        "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 4, "vocab_size": 99,
        "attention_types": [[["global", "local"], 1]],
    },
    "Deberta": SMALL,
    "DebertaV2": {**SMALL, "relative_attention": True, "position_buckets": 8},
    "MPNet": SMALL,
    "RoFormer": SMALL,
    "Nystromformer": SMALL,
    "Longformer": {**PADDED, "attention_window": 4},
    "BigBird": {**SMALL, "attention_type": "original_full"},
    "XLNet": {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48, "vocab_size": 99},
    "LED": {
        **SEQ2SEQ, "attention_window": 4, "max_encoder_position_embeddings": 64,
        "max_decoder_position_embeddings": 64,
    },
    "ProphetNet": {
        "hidden_size": 32, "num_encoder_layers": 2, "num_decoder_layers": 2, "vocab_size": 99,
        "num_encoder_attention_heads": 4, "num_decoder_attention_heads": 4, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
    },
}  # fmt: skip
"""Models whose attention transformers writes by hand: listed as missed, and seen at points."""


def made(name: str, how: str) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**(SEEN | BY_HAND)[name])
    model = transformers.AutoModel.from_config(config, attn_implementation=how)
    return model.eval()


def inputs(name: str) -> dict[str, Any]:
    torch.manual_seed(1)
    ids = torch.randint(3, 9, (2, 9))
    if name in OTHERS:
        sound = name in ("Wav2Vec2", "Hubert")
        return (
            {"input_values": torch.randn(2, 400)}
            if sound
            else {"pixel_values": torch.randn(2, 3, 16, 16)}
        )
    if name == "Whisper":
        return {"input_features": torch.randn(2, 8, 20), "decoder_input_ids": ids[:, :5]}
    target = {"decoder_input_ids": ids[:, :5]} if name in (*PAIRS, "LED", "ProphetNet") else {}
    return {"input_ids": ids, **target}


@pytest.mark.parametrize("name", SEEN)
def test_every_layer_and_head_is_what_the_eager_model_gives(name: str) -> None:
    given = inputs(name)
    eager = made(name, "eager")
    with torch.no_grad():
        truth = eager(**given, output_attentions=True)
    models = [eager]
    if name not in ("Gemma2", "GptOss"):  # which transformers runs by no fused kernel
        models.append(made(name, "sdpa"))
        models[1].load_state_dict(eager.state_dict())
    wanted = {
        kind: [one for one in getattr(truth, field, None) or () if one is not None]
        for kind, field in {
            "": "attentions",
            "encoder": "encoder_attentions",
            "decoder": "decoder_attentions",
            "cross": "cross_attentions",
        }.items()
    }
    assert sum(map(len, wanted.values())) >= 2
    for model in models:
        with torch.no_grad():
            plain = model(**given)[0]
            with regard.watch(model) as seen:
                output = model(**given)[0]
        assert torch.equal(plain, output)
        assert not seen.missed
        assert len(seen) == sum(map(len, wanted.values()))
        for kind, truths in wanted.items():
            layers = [layer for layer in seen if layer.kind == kind or not kind] if truths else []
            for layer, expected in zip(layers, truths, strict=True):
                got = layer.weights.dense()
                assert got.shape == expected.shape
                assert (got - expected).abs().max() < 1e-4, layer
        if name in DECODERS:
            assert {layer.kind for layer in seen} == {"decoder"}
        if name in ENCODERS or name in OTHERS:
            assert {layer.kind for layer in seen} == {"encoder"}
        about = {(layer.queries, layer.keys) for layer in seen}
        names = {name for pair in about for name in pair}
        assert names <= set(given)


@pytest.mark.parametrize("name", BY_HAND)
def test_what_is_written_by_hand_is_listed_layer_by_layer(name: str) -> None:
    with torch.no_grad(), regard.watch(model := made(name, "eager")) as seen:
        model(**inputs(name))
    assert len(seen) == 0
    layers = 6 if name in ("LED", "ProphetNet") else 2
    assert len(seen.missed) == layers, [str(missed) for missed in seen.missed]
    for missed in seen.missed:
        assert "takes a softmax over " in missed.why
        assert "watch(model, points={…})" in missed.why


def bloom(module: Any, inputs: dict[str, Any], output: Any) -> Any:
    """BLOOM: one projection, head after head, and ALiBi with the mask added."""
    fused = module.query_key_value(inputs["hidden_states"])
    q, k, _ = fused.unflatten(-1, (module.num_heads, 3, -1)).transpose(1, 2).unbind(-2)
    alibi = inputs["alibi"].unflatten(0, (len(q), -1))
    return q, k, regard.causal(), {"bias": alibi.expand(-1, -1, q.shape[-2], -1)}


def mpnet(module: Any, inputs: dict[str, Any], output: Any) -> Any:
    """MPNet: a position bias of all layers."""
    x = inputs["hidden_states"]
    q, k = (f(x).unflatten(-1, (4, -1)).transpose(1, 2) for f in (module.q, module.k))
    return q, k, None, {"bias": inputs["position_bias"]}


POINTS = {
    "Bloom": {"h.*.self_attention": bloom},
    "MPNet": {"encoder.layer.*.attention.attn": mpnet},
    "BigBird": {"encoder.layer.*.attention.self": regard.Point(q="query", k="key", heads=4)},
}


@pytest.mark.parametrize("name", POINTS)
def test_and_is_seen_at_its_points(name: str) -> None:
    model = made(name, "eager")
    with torch.no_grad():
        truth = model(**inputs(name), output_attentions=True).attentions
        with regard.watch(model, points=POINTS[name]) as seen:
            model(**inputs(name))
    assert not seen.missed
    for layer, expected in zip(seen, truth, strict=True):
        assert (layer.weights.dense() - expected).abs().max() < 1e-4


@pytest.mark.campaign
@pytest.mark.parametrize("name", ["Llama", "Mistral", "Bert"])
def test_flex_attention_of_transformers_is_seen(name: str) -> None:
    eager, flex = made(name, "eager"), made(name, "flex_attention")
    flex.load_state_dict(eager.state_dict())
    with torch.no_grad():
        truth = eager(**inputs(name), output_attentions=True).attentions
        plain = flex(**inputs(name))[0]
        with regard.watch(flex) as seen:
            assert torch.equal(plain, flex(**inputs(name))[0])
    assert not seen.missed
    for layer, expected in zip(seen, truth, strict=True):
        assert (layer.weights.dense() - expected).abs().max() < 1e-4


def test_a_model_that_sees_and_reads_says_which_layer_is_about_what() -> None:
    torch.manual_seed(0)
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**PICTURE),
        text_config=transformers.LlamaConfig(**GROUPED),
        image_token_index=98,
    )
    model = transformers.LlavaForConditionalGeneration(config).eval()
    ids = torch.tensor([[1, *[98] * 16, 5, 6, 7]])
    given = {"input_ids": ids, "pixel_values": torch.randn(1, 3, 16, 16)}
    with torch.no_grad(), regard.watch(model) as seen:
        model(**given)
    assert not seen.missed
    about = [(layer.kind, layer.queries, layer.weights.shape[-1]) for layer in seen]
    assert about == [("encoder", "pixel_values", 17)] * 2 + [("decoder", "input_ids", 20)] * 2
