"""transformers' models carried over: the same logits here, and the same weights back again."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

import regard
from small import SMALL, need_package

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from regard.nn import Cache, Encoder, LanguageModel, Seq2Seq, generate  # noqa: E402
from regard.nn.conversion.transformers import from_transformers, to_transformers  # noqa: E402
from regard.recording import shelf  # noqa: E402

GROUPED = {**SMALL, "num_key_value_heads": 2}
SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": 99,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
T5 = {"d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": 2, "num_heads": 4, "vocab_size": 99}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8,
}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Llama 3": ("LlamaForCausalLM", {**GROUPED, "rope_parameters": LLAMA3}),
    "Llama, tied, wide heads": (
        "LlamaForCausalLM",
        {**GROUPED, "tie_word_embeddings": True, "head_dim": 12},
    ),
    "Mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 4, "head_dim": 8}),
    "Qwen 2": ("Qwen2ForCausalLM", GROUPED),
    "GPT-2": ("GPT2LMHeadModel", {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99}),
    "BERT": ("BertModel", SMALL),
    "T5": ("T5ForConditionalGeneration", T5),
    "T5 1.1": (
        "T5ForConditionalGeneration",
        {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    ),
    "BART": ("BartForConditionalGeneration", SEQ2SEQ),
    "Marian": ("MarianMTModel", {**SEQ2SEQ, "scale_embedding": True}),
}


def made(name: str) -> Any:
    torch.manual_seed(0)
    kind, options = MODELS[name]
    model = getattr(transformers, kind)
    theirs = model(model.config_class(**options)).eval()
    for p in theirs.parameters():  # so that no bias is 0 and no norm 1
        if p.requires_grad:  # Marian's waves are no weights
            p.data.add_(torch.randn_like(p) * 0.1)
    for text, buffer in theirs.named_buffers():
        if text == "final_logits_bias":
            buffer.normal_()
    theirs.tie_weights()
    return theirs


def answers(theirs: Any, ours: Any, length: int = 9) -> tuple[Any, Any]:
    ids = torch.randint(3, 99, (2, length))
    with torch.no_grad():
        if isinstance(ours, Seq2Seq):
            written = torch.randint(3, 99, (2, 6))
            return theirs(ids, decoder_input_ids=written).logits, ours(ids, written)
        if isinstance(ours, Encoder):
            kinds = torch.randint(2, (2, length))
            want = theirs(ids, token_type_ids=kinds).last_hidden_state
            return want, ours(ids, segments=kinds)
        assert isinstance(ours, LanguageModel)
        return theirs(ids).logits, ours(ids)


@pytest.mark.parametrize("name", MODELS)
def test_the_same_numbers_both_ways(name: str) -> None:
    theirs = made(name)
    ours = from_transformers(theirs)
    want, found = answers(theirs, ours)
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)
    other = copy.deepcopy(theirs)
    for p in other.parameters():
        p.data.mul_(1.0 if not p.requires_grad else 0.0)
    to_transformers(ours, other)
    back = dict(other.named_parameters())
    for text, p in theirs.named_parameters():
        if "pooler" not in text:
            assert torch.equal(p, back[text]), text
    ours.load_state_dict({k: v * 1.1 for k, v in ours.state_dict().items()})
    to_transformers(ours, other)
    want, found = answers(other, ours)
    torch.testing.assert_close(found, want, rtol=1e-3, atol=1e-3)


def test_marians_waves_are_their_own_and_padding_is_passed_over() -> None:
    theirs = made("Marian")
    ours = from_transformers(theirs)
    ids, written = torch.randint(3, 99, (2, 7)), torch.randint(3, 99, (2, 5))
    there = torch.arange(7) < torch.tensor([[7], [4]])
    with torch.no_grad():
        want = theirs(ids, attention_mask=there.long(), decoder_input_ids=written).logits
        found = ours(ids, written, regard.lengths([7, 4]))
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["Llama", "Mistral", "GPT-2"])
def test_a_carried_model_writes_the_same(name: str) -> None:
    theirs = made(name)
    ids = torch.randint(3, 99, (2, 6))
    want = theirs.generate(
        ids, max_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=None
    )
    ours = from_transformers(theirs)
    assert torch.equal(generate(ours, ids, new=12), want[:, 6:])  # type: ignore[arg-type]


@pytest.mark.parametrize("beams", [1, 3])
def test_a_carried_pair_writes_the_same(beams: int) -> None:
    theirs = made("BART")
    ids = torch.randint(3, 99, (2, 6))
    config = transformers.GenerationConfig(
        max_new_tokens=8,
        do_sample=False,
        num_beams=beams,
        decoder_start_token_id=2,
        eos_token_id=None,
        pad_token_id=0,
        length_penalty=0.0,
    )
    theirs.generation_config = config
    want = theirs.generate(ids)
    how: Callable[[], Any] = lambda: regard.nn.Beam(beams, 0.0)  # noqa: E731
    ours = from_transformers(theirs)
    found = generate(ours, ids, new=8, begin=2, how=how())  # type: ignore[arg-type]
    assert torch.equal(found, want[:, 1:])


def test_what_has_no_counterpart_is_refused_by_name() -> None:
    vit = transformers.ViTModel(transformers.ViTConfig(**{**SMALL, "image_size": 8}))
    llama, gpt2 = made("Llama"), made("GPT-2")
    wide = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_embd=16, n_layer=2, n_head=4, vocab_size=99)
    )
    before = [p.clone() for p in wide.parameters()]
    for call, words in (
        (lambda: from_transformers(vit), "no counterpart of 'vit'"),
        (lambda: from_transformers(torch.nn.Linear(2, 2)), "no counterpart of 'Linear'"),
        (lambda: to_transformers(from_transformers(llama), gpt2), "ours has no"),
        (lambda: to_transformers(from_transformers(gpt2), wide), "is .* there, but .* here"),
    ):
        with pytest.raises(regard.RegardError, match=words):
            call()
    for one, other in zip(wide.parameters(), before, strict=True):
        assert torch.equal(one, other)
    odd = transformers.LlamaConfig(**GROUPED, hidden_act="relu6")
    with pytest.raises(regard.KindError, match="hidden_act='relu6'"):
        from_transformers(transformers.LlamaForCausalLM(odd))


@pytest.mark.models
def test_smollm2_has_the_same_logits_here() -> None:
    need_package("smollm2")
    place = shelf.find("smollm2", lambda key: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    ids = tokenizer("The animal didn't cross the street because it was", return_tensors="pt")
    ours = from_transformers(theirs)
    assert isinstance(ours, LanguageModel)
    with torch.no_grad():
        want, found = theirs(**ids).logits, ours(ids["input_ids"])
        cache = ours.cache()
        assert isinstance(cache[0], Cache)
        parts = [ours(ids["input_ids"][:, t : t + 1], cache=cache) for t in range(found.shape[1])]
    assert (found - want).abs().max() < 1e-4 * want.abs().max()
    assert (torch.cat(parts, 1) - want).abs().max() < 1e-4 * want.abs().max()


@pytest.mark.models
def test_minilm_has_the_same_vectors_here() -> None:
    need_package("minilm")
    place = shelf.find("minilm", lambda key: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    theirs = transformers.AutoModel.from_pretrained(place).eval()
    texts = ["The animal was too tired.", "Attention"]
    inputs = tokenizer(texts, return_tensors="pt", padding=True)
    ours = from_transformers(theirs)
    n = inputs["attention_mask"].sum(1)
    with torch.no_grad():
        want = theirs(**inputs).last_hidden_state
        found = ours(inputs["input_ids"], regard.lengths(n))
    shown = inputs["attention_mask"].bool()
    torch.testing.assert_close(found[shown], want[shown], rtol=1e-4, atol=1e-4)
