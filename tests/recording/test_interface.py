"""transformers' models with our attention: the same numbers as with its own."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from small import GROUPED, SMALL, need_package

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from regard.recording import shelf  # noqa: E402
from regard.recording.interface import Seen, _rule_of, attention, mask  # noqa: E402
from regard.rules.masks import Keep  # noqa: E402

DECODERS: dict[str, Any] = {
    "Llama": GROUPED,
    "Mistral": {**GROUPED, "sliding_window": 5},
    "Qwen3": GROUPED,
    "Gemma2": {**GROUPED, "sliding_window": 4, "attn_logit_softcapping": 2.0},
    "Gemma3Text": {**GROUPED, "sliding_window": 4},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
    "GptOss": {
        **GROUPED,
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "sliding_window": 4,
    },
    "OPT": {**SMALL, "ffn_dim": 48, "word_embed_proj_dim": 32, "max_position_embeddings": 64},
}


def pair(name: str, head: str = "Model") -> tuple[Any, Any]:
    """The same model with its own eager attention, and with ours."""
    regard.register()
    torch.manual_seed(0)
    kind = {"GPT2": "GPT2LMHead", "OPT": "OPTFor", "Llama": "LlamaFor"}.get(name)
    config = getattr(transformers, f"{name}Config")(**DECODERS[name])
    config.pad_token_id = 0
    found = []
    for implementation in ("eager", "regard"):
        made = transformers.AutoModelForCausalLM.from_config(
            config, attn_implementation=implementation
        ).eval()
        found.append(made)
    found[1].load_state_dict(found[0].state_dict())
    assert kind is None or kind in type(found[0]).__name__
    return found[0], found[1]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("side", [None, "left", "right"])
def test_the_same_logits_padded_or_not(name: str, side: str | None) -> None:
    theirs, ours = pair(name)
    ids = torch.randint(1, 99, (2, 12))
    there = torch.ones(2, 12, dtype=torch.int64)
    if side is not None:
        there[0, : 3 if side == "left" else 12] = 0
        if side == "right":
            there[0, :8] = 1
    with torch.no_grad():
        want = theirs(ids, attention_mask=there).logits
        found = ours(ids, attention_mask=there).logits
    torch.testing.assert_close(found[there.bool()], want[there.bool()], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_the_same_tokens_are_written(name: str, cache: str) -> None:
    theirs, ours = pair(name)
    ids = torch.randint(1, 99, (2, 6))
    there = torch.ones(2, 6, dtype=torch.int64)
    there[0, :2] = 0
    options: dict[str, Any] = {"max_new_tokens": 12, "do_sample": False, "attention_mask": there}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}
    want = theirs.generate(ids, **options)
    assert torch.equal(ours.generate(ids, **options), want)


@pytest.mark.parametrize("name", ["Bert", "T5", "Bart", "Marian", "Whisper"])
def test_encoders_and_pairs(name: str) -> None:
    regard.register()
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")
    seq2seq = {
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "vocab_size": 99,
        "pad_token_id": 0,
        "max_position_embeddings": 64,
    }
    made = {
        "Bert": lambda: config(**SMALL),
        "T5": lambda: config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=99),
        "Bart": lambda: config(**seq2seq),
        "Marian": lambda: config(**seq2seq),
        "Whisper": lambda: config(
            **{**seq2seq, "num_mel_bins": 8, "max_source_positions": 10, "bos_token_id": 1},
            eos_token_id=2,
            decoder_start_token_id=3,
            suppress_tokens=[],
            begin_suppress_tokens=[],
        ),
    }[name]()
    models = [
        transformers.AutoModel.from_config(made, attn_implementation=how).eval()
        for how in ("eager", "regard")
    ]
    models[1].load_state_dict(models[0].state_dict())
    ids, there = torch.randint(3, 99, (2, 9)), torch.ones(2, 9, dtype=torch.int64)
    there[1, 6:] = 0
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": there}
    if name == "Whisper":
        inputs = {"input_features": torch.randn(2, 8, 20)}
    if name != "Bert":
        inputs["decoder_input_ids"] = ids[:, :5]
    with torch.no_grad():
        want, found = (model(**inputs).last_hidden_state for model in models)
    shown = there.bool() if name == "Bert" else torch.ones(want.shape[:2], dtype=torch.bool)
    torch.testing.assert_close(found[shown], want[shown], rtol=1e-4, atol=1e-5)


def test_masks_are_read_as_rules_and_what_is_not_known_as_an_array() -> None:
    from transformers import masking_utils as theirs

    windowed = theirs.sliding_window_causal_mask_function(4)
    assert repr(_rule_of(theirs.causal_mask_function)[1]) == "causal()"
    assert _rule_of(theirs.bidirectional_mask_function) == (True, None)
    known, rule = _rule_of(windowed)
    assert known
    assert "causal()" in repr(rule)
    odd = theirs.or_masks(theirs.causal_mask_function, lambda b, h, i, j: (j == 5) & (b == 1))
    there = torch.tensor([[True, False, True, True, True, True, True]] * 2)
    for fn in (theirs.causal_mask_function, windowed, odd):
        for padding in (None, there, torch.arange(7) < torch.tensor([[7], [4]])):
            options: dict[str, Any] = {
                "batch_size": 2,
                "q_length": 3,
                "kv_length": 7,
                "q_offset": 4,
                "mask_function": fn,
                "attention_mask": padding,
            }
            want = theirs.sdpa_mask(
                **options, allow_is_causal_skip=False, use_vmap=True, device="cpu"
            )
            seen = mask(**options)
            assert isinstance(seen, Seen)
            assert seen.start == 4
            q, k = torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, 7, 4)
            W = regard.weights(q, k, seen.rule, start=seen.start).dense()
            assert torch.equal(W > 0, want.expand(2, 1, 3, 7))
    assert isinstance(mask(2, 7, 7, mask_function=odd).rule, Keep)
    changed = mask(2, 7, 7)[:, :, :, :3]
    with pytest.raises(regard.EngineError, match="changes its attention mask on the way"):
        attention(torch.nn.Module(), q, k, k, changed)


@pytest.mark.models
@pytest.mark.parametrize("length", [40, pytest.param(200, marks=pytest.mark.campaign)])
def test_smollm2_writes_the_same_tokens_padded_or_not(length: int) -> None:
    need_package("smollm2")
    regard.register()
    place = shelf.find("smollm2", lambda key: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    inputs = tokenizer(
        ["The animal didn't cross the street because", "Attention is"],
        return_tensors="pt",
        padding=True,
    )
    assert not inputs["attention_mask"].all()
    found = {}
    for how in ("sdpa", "regard"):
        model.set_attn_implementation(how)
        options = {"max_new_tokens": length, "do_sample": False, "output_logits": True}
        found[how] = model.generate(**inputs, **options, return_dict_in_generate=True)
    mine, theirs = found["regard"], found["sdpa"]
    for b in range(2):
        for t, (one, other) in enumerate(zip(mine.logits, theirs.logits, strict=False)):
            best = other[b].topk(2).values
            if one[b].argmax() != other[b].argmax():
                assert best[0] - best[1] < 1e-3, f"text {b} parts at token {t}"
                break


def test_without_transformers_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(regard.MissingError, match=r"pip install 'regard\[look\]'"):
        regard.register()
