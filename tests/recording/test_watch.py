"""A watch notes what every attention layer did, and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from regard.recording import shelf
from regard.recording.recording import Recording
from regard.rules.masks import Keep, Spans
from regard.rules.scores import Relative
from small import GROUPED, SMALL, need_package

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

SEQ2SEQ = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
    "vocab_size": 99,
}


def config(name: str, **options: Any) -> Any:
    return getattr(transformers, f"{name}Config")(**options)


DECODERS = {
    "Llama": lambda: config("Llama", **GROUPED),
    "Mistral, windows of 5": lambda: config("Mistral", **GROUPED, sliding_window=5),
    "Qwen3": lambda: config("Qwen3", **GROUPED),
    "Gemma2, softcap and windows": lambda: config(
        "Gemma2", **GROUPED, sliding_window=4, attn_logit_softcapping=2.0
    ),
    "Gemma3": lambda: config("Gemma3Text", **GROUPED, sliding_window=4),
    "GPT2": lambda: config("GPT2", n_embd=32, n_layer=2, n_head=4, vocab_size=99),
    "GPT-oss, sinks": lambda: config(
        "GptOss", **GROUPED, num_local_experts=2, num_experts_per_tok=1, sliding_window=4
    ),
    "Phi": lambda: config("Phi", **SMALL),
    "OPT": lambda: config(
        "OPT", **{**SMALL, "ffn_dim": 48}, word_embed_proj_dim=32, max_position_embeddings=64
    ),
    "GPTNeoX": lambda: config("GPTNeoX", **SMALL),
}
ENCODERS = {
    "Bert": lambda: config("Bert", **SMALL),
    "DistilBert": lambda: config(
        "DistilBert", dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=99
    ),
    "ModernBert": lambda: config(
        "ModernBert", **SMALL, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1,
        sep_token_id=2, local_attention=6,
    ),
}  # fmt: skip
PAIRS = {
    "Bart": lambda: config("Bart", **SEQ2SEQ),
    "Marian": lambda: config("Marian", **SEQ2SEQ, pad_token_id=0, decoder_start_token_id=0),
    "T5": lambda: config(
        "T5", d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=99
    ),
}


def build(make: Callable[[], Any], implementation: str) -> Any:
    torch.manual_seed(0)
    found = make()
    found._attn_implementation = implementation
    return transformers.AutoModel.from_config(found, attn_implementation=implementation).eval()


def both(make: Callable[[], Any], **inputs: Any) -> dict[str, tuple[Recording, Any]]:
    """The recording and the outputs of a model under each implementation it has."""
    found = {}
    for implementation in ("sdpa", "eager"):
        try:
            model = build(make, implementation)
        except ValueError:  # the model has no sdpa form
            assert implementation == "sdpa"
            continue
        options = {"output_attentions": True} if implementation == "eager" else {}
        with torch.no_grad():
            plain = model(**inputs)[0]
            with regard.watch(model) as seen:
                outputs = model(**inputs, **options)
        assert torch.equal(plain, outputs[0])
        found[implementation] = (seen, outputs)
    return found


def ids(batch: int = 1, length: int = 12) -> Any:
    return torch.randint(3, 99, (batch, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [*DECODERS, *ENCODERS])
def test_every_layer_and_head_of_padded_texts_equals_the_eager_models_own(name: str) -> None:
    mask = torch.ones(2, 12, dtype=torch.long)
    mask[1, :4] = 0
    make = (DECODERS | ENCODERS)[name]
    found = both(make, input_ids=ids(2), attention_mask=mask)
    truth = found["eager"][1].attentions
    for implementation, (seen, _) in found.items():
        assert len(seen) == 2
        for layer, expected in zip(seen, truth, strict=True):
            got = layer.weights.dense()
            assert got.shape == expected.shape
            live = mask.bool()[:, None, :, None].expand_as(expected)
            difference = (got - expected).abs()[live].max()
            assert difference < 1e-5, f"{name}, {implementation}, {layer}: {difference}"
            assert layer.mask is None or not isinstance(layer.mask, Keep)


@pytest.mark.models
def test_all_270_heads_of_smollm2_equal_its_eager_self_and_its_logits_are_unchanged() -> None:
    need_package("smollm2")
    place = shelf.find("smollm2", lambda key: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    text = "The animal didn't cross the street because it was too tired"
    inputs = tokenizer(text, return_tensors="pt")
    with torch.no_grad():
        plain = model(**inputs).logits
        with regard.watch(model, tokenizer) as seen:
            watched = model(**inputs).logits
        model.set_attn_implementation("eager")
        truth = model(**inputs, output_attentions=True).attentions
    assert torch.equal(plain, watched)
    assert len(seen) == 30
    for layer, expected in zip(seen, truth, strict=True):
        assert layer.weights.dense().shape == (1, 9, 12, 12)
        assert (layer.weights.dense() - expected).abs().max() < 1e-4
    it, animal = seen.tokens.index("Ġit"), seen.tokens.index("Ġanimal")
    assert abs(float(seen[13].weights[0, 8, it, animal]) - 0.70) < 0.06
    assert repr(seen[13]).startswith("Layer('model.layers.13.self_attn', 9 heads, Weights(<1 × 9")


@pytest.mark.models
def test_all_72_heads_of_minilm_equal_its_eager_self() -> None:
    need_package("minilm")
    place = shelf.find("minilm", lambda key: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    model = transformers.AutoModel.from_pretrained(place, attn_implementation="sdpa").eval()
    inputs = tokenizer(["the cat sat", "on the very long mat"], return_tensors="pt", padding=True)
    with torch.no_grad(), regard.watch(model) as seen:
        model(**inputs)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        truth = model(**inputs, output_attentions=True).attentions
    for layer, expected in zip(seen, truth, strict=True):
        assert (layer.weights.dense() - expected).abs().max() < 1e-4


def test_what_is_kept_grows_with_the_text_and_not_its_square() -> None:
    model = build(DECODERS["Llama"], "sdpa")
    sizes = []
    for length in (100, 200):
        mask = torch.ones(1, length, dtype=torch.long)
        mask[0, :3] = 0
        with torch.no_grad(), regard.watch(model) as seen:
            model(input_ids=ids(1, length), attention_mask=mask)
        spans = seen[0].mask
        assert isinstance(spans, Spans)
        kept = seen[0].q.nbytes + seen[0].k.nbytes
        shared = spans.start.nbytes + spans.stop.nbytes
        assert [layer.nbytes for layer in seen] == [kept + shared] * 2
        assert seen.nbytes == 2 * kept + shared
        sizes.append(seen.nbytes)
    assert sizes[1] == 2 * sizes[0]


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_bias_of_the_distance_is_kept_as_a_table(implementation: str) -> None:
    model = build(PAIRS["T5"], implementation)
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=ids(1, 300), decoder_input_ids=ids(1, 5))
    layer = seen[0]
    bias = layer.options["bias"]
    assert isinstance(bias, Relative)
    assert bias.table.shape == (4, 599)
    assert layer.nbytes == layer.q.nbytes + layer.k.nbytes + bias.table.nbytes
    (across, *_) = (layer for layer in seen if "EncDec" in layer.name)
    assert "bias" not in across.options  # it was zeros


def test_dense_masks_and_biases_are_counted() -> None:
    model = build(DECODERS["Llama"], "sdpa")
    odd = torch.rand(1, 1, 400, 400, generator=torch.Generator().manual_seed(0)) < 0.5
    odd |= torch.eye(400, dtype=torch.bool)
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=ids(1, 400), attention_mask=odd)
    kept = seen[0].q.nbytes + seen[0].k.nbytes
    assert isinstance(seen[0].mask, Keep)
    assert seen[0].nbytes == kept + odd.nbytes
    assert seen.nbytes == 2 * kept + odd.nbytes  # both layers hold the same one
    assert repr(seen) == f"Recording(2 layers; {seen.nbytes / 2**20:.1f} MiB)"


def test_a_query_that_sees_nothing_is_recorded_as_zeros() -> None:
    mask = torch.tensor([[0, 0, 0, 1, 1, 1]])
    found = both(DECODERS["Llama"], input_ids=ids(1, 6), attention_mask=mask)
    for seen, _ in found.values():
        assert not seen[0].weights.dense()[0, :, :3].any()
    evenly = found["eager"][1].attentions[0][0, :, :3]
    assert (evenly == evenly[..., :1]).all()


def test_tables_and_hooks_are_gone_afterwards_even_after_an_error() -> None:
    from torch.nn import functional
    from transformers.modeling_utils import AttentionInterface

    def tapped() -> list[Any]:
        named = [functional.scaled_dot_product_attention, torch.softmax, torch.Tensor.softmax]
        return [*named, AttentionInterface.get_interface, AttentionInterface.__getitem__]

    model = build(DECODERS["Llama"], "sdpa")
    before = tapped()
    seen = Recording()

    def fail() -> None:
        nonlocal seen
        with regard.watch(model) as seen:
            assert not any(a is b for a, b in zip(tapped(), before, strict=True))
            model(input_ids=ids())
            raise RuntimeError("on purpose")

    with pytest.raises(RuntimeError, match="on purpose"):
        fail()
    assert tapped() == before
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    model(input_ids=ids())
    assert len(seen.runs) == 1


def test_a_model_that_raises_in_the_middle_can_be_watched_again() -> None:
    model = build(DECODERS["Llama"], "sdpa")
    with pytest.raises(IndexError), regard.watch(model):
        model(input_ids=torch.tensor([[500]]))
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=ids())
    assert len(seen) == 2


def test_only_the_watched_model_is_recorded_and_watches_nest() -> None:
    one, other = build(DECODERS["Llama"], "sdpa"), build(DECODERS["Llama"], "sdpa")
    with torch.no_grad(), regard.watch(one) as seen, regard.watch(other) as seen_other:
        one(input_ids=ids())
        assert not seen_other.runs
        other(input_ids=ids(1, 7))
    assert seen[0].q.shape[-2] == 12
    assert seen_other[0].q.shape[-2] == 7


def test_several_runs_are_kept_apart() -> None:
    model = build(DECODERS["Llama"], "sdpa")
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=ids(1, 4))
        model(input_ids=ids(1, 6))
    assert [run.layers[0].q.shape[-2] for run in seen.runs] == [4, 6]
    assert repr(seen).startswith("Recording(2 layers, 2 layers; ")
    with pytest.raises(regard.ValueRangeError, match=r"holds 2 runs .* choose one: seen.only\(0\)"):
        seen.layers  # noqa: B018
    with regard.watch(model) as empty:
        pass
    with pytest.raises(regard.ValueRangeError, match=r"holds 0 runs .* call the model inside"):
        empty[0]
    assert repr(empty) == "Recording(nothing yet; 0.0 MiB)"


def test_a_cached_step_sees_all_the_keys_so_far() -> None:
    model = build(DECODERS["Llama"], "sdpa")
    tokens = ids(1, 8)
    with torch.no_grad(), regard.watch(model) as whole:
        model(input_ids=tokens)
    with torch.no_grad(), regard.watch(model) as seen:
        kept = transformers.DynamicCache(config=model.config)
        for part in (tokens[:, :5], tokens[:, 5:7], tokens[:, 7:]):
            model(input_ids=part, cache=kept)
    assert seen.run.calls == 3
    assert np.array_equal(seen.run.ids, tokens)
    for got, expected in zip(seen.layers, whole.layers, strict=True):
        assert repr(got.mask) == "causal()"
        want = expected.weights.dense()
        torch.testing.assert_close(got.weights.dense(), want, rtol=1e-4, atol=1e-6)


def test_tokens_are_named_by_a_tokenizer_or_numbered() -> None:
    class Letters:
        def convert_ids_to_tokens(self, numbers: list[int]) -> list[str]:
            return [chr(96 + n) for n in numbers]

    model = build(DECODERS["Llama"], "sdpa")
    for tokenizer, names in ((None, ["3", "5"]), (Letters(), ["c", "e"])):
        with torch.no_grad(), regard.watch(model, tokenizer) as seen:
            model(torch.tensor([[3, 5]]))
        assert seen.tokens == names
    with pytest.raises(regard.ValueRangeError, match=r"layer must lie in 0 … 1, but 2 came"):
        seen[2]


def test_what_cannot_be_watched_says_so() -> None:
    def refused(model: Any, match: str) -> None:
        with pytest.raises(regard.KindError, match=match):
            regard.watch(model).__enter__()

    model = build(DECODERS["Llama"], "sdpa")
    refused("bert", r"takes a torch.nn.Module, but a str came")
    refused(torch.nn.DataParallel(model), r"is a DataParallel, .* watch its \.module")
    refused(
        torch.compile(model), r"the model is compiled by torch.compile.* watch model\._orig_mod"
    )
    refused(build(DECODERS["Llama"], "sdpa").to("meta"), r"stands on 'meta'.* load its weights")
    parts = build(DECODERS["Llama"], "sdpa")
    parts.layers[1].compile()
    refused(parts, r"layers.1 is compiled by torch.compile.* before \.compile\(\)")
    model.config._attn_implementation = "flash_attention_2"
    refused(model, r"one of 'sdpa', 'eager', .* it is 'flash_attention_2'; load it with attn_impl")


def test_the_weights_that_a_recording_gives_are_those_of_attend() -> None:
    model = build(DECODERS["Mistral, windows of 5"], "sdpa")
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=ids())
    layer = seen[1]
    by_hand = regard.weights(
        layer.q, layer.k, regard.causal() & regard.window(5), scale=8**-0.5
    ).dense()
    np.testing.assert_allclose(layer.weights.dense(), by_hand, atol=1e-6)
    assert layer.visible.tolist() == [1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 5, 5]
