"""The steps of a generation are one matrix a sequence, the one that a single pass would give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.recording import shelf
from regard.rules.masks import Keep
from small import GROUPED, need_package

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

CONFIGS: dict[str, dict[str, Any]] = {
    "Llama": GROUPED,
    "Mistral": {**GROUPED, "sliding_window": 5},
    "Gemma3Text": {
        **GROUPED, "sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]
    },
    "GptOss": {**GROUPED, "num_local_experts": 2, "num_experts_per_tok": 1, "sliding_window": 4},
    "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99},
    "Qwen3": GROUPED,
}  # fmt: skip


def decoder(name: str, how: str = "sdpa") -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**CONFIGS[name], pad_token_id=0)
    config.eos_token_id = None
    how = "eager" if name == "GptOss" and how == "sdpa" else how
    made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=how)
    for parameter in made.parameters():  # so that heads and places differ
        torch.nn.init.normal_(parameter, std=0.25)
    return made.eval()


def prompt(batch: int = 2, length: int = 6) -> Any:
    return torch.randint(3, 99, (batch, length), generator=torch.Generator().manual_seed(1))


def whole(model: Any, ids: Any, there: Any = None) -> Any:
    ids = torch.as_tensor(ids)
    there = torch.ones_like(ids) if there is None else there
    places = (there.cumsum(-1) - 1).clamp(min=0)  # as generate counts them
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=ids, attention_mask=there, position_ids=places, use_cache=False)
    return seen


def check(seen: Any, want: Any, there: Any = None) -> None:
    assert not seen.missed
    for got, one in zip(seen.layers, want.layers, strict=True):
        expected = one.weights.dense()
        assert got.name == one.name
        assert got.weights.shape == expected.shape
        difference = (got.weights.dense() - expected).abs().amax((1, 3))
        # What a query that is padding looks at is nobody's business, and not the same.
        assert difference[there.bool() if there is not None else ...].max() < 1e-5
        assert not isinstance(got.mask, Keep)


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_generation_is_the_matrix_of_one_pass(name: str, padded: bool, cache: str) -> None:
    model, ids = decoder(name), prompt()
    there = torch.ones_like(ids)
    if padded:
        there[0, :2] = 0
    options: dict[str, Any] = {"max_new_tokens": 9, "do_sample": False, "attention_mask": there}
    if cache == "static":
        options |= {"cache_implementation": "static", "disable_compile": True}
    plain = model.generate(ids, **options)
    with regard.watch(model) as seen:
        steps = seen.follow(3)
        written = model.generate(ids, **options)
    assert torch.equal(plain, written)
    assert seen.run.calls == 9
    assert np.array_equal(seen.run.ids, written[:, :-1])
    longer = torch.cat([there, torch.ones(2, 8, dtype=torch.int64)], 1)
    check(seen, whole(model, written[:, :-1], longer), longer)
    if not padded:
        assert {repr(layer.mask) for layer in seen if layer.kind == "decoder"} <= {
            "causal()",
            "Spans(<14 ranges>)",
        }
    for got, top, layer in zip(steps.received, steps.top, seen.layers, strict=True):
        all_of_it = layer.weights.dense()
        torch.testing.assert_close(got, all_of_it.sum(-2), rtol=1e-4, atol=1e-5)
        best = all_of_it[:, :, -1:].topk(3)
        torch.testing.assert_close(top.weights, best.values, rtol=1e-4, atol=1e-5)
        assert torch.equal(top.keys, best.indices)


def test_with_our_own_attention_too() -> None:
    regard.register()
    model, ids = decoder("Mistral", "regard"), prompt()
    with regard.watch(model) as seen:
        written = model.generate(ids, max_new_tokens=9, do_sample=False)
    check(seen, whole(model, written[:, :-1]))


def test_beams_follow_their_ancestors() -> None:
    model, ids = decoder("Llama"), prompt()
    options = {"max_new_tokens": 9, "num_beams": 3, "do_sample": False}
    plain = model.generate(ids, **options)
    with regard.watch(model) as seen:
        steps = seen.follow(2)
        written = model.generate(ids, **options, num_return_sequences=3)
    assert torch.equal(plain, written[::3])
    held = seen.run.ids
    assert held.shape == (6, 14)
    assert len({tuple(row) for row in held.tolist()}) == 6
    alive = {tuple(row) for row in held.tolist()}
    assert any(tuple(row[:-1]) in alive for row in written.tolist())
    want = whole(model, held)
    check(seen, want)
    for got, layer in zip(steps.received, want.layers, strict=True):
        torch.testing.assert_close(got, layer.weights.dense().sum(-2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Bart", "T5"])
@pytest.mark.parametrize("beams", [1, 2])
def test_an_encoder_and_the_decoder_that_writes(name: str, beams: int) -> None:
    torch.manual_seed(0)
    sizes = {
        "Bart": {
            "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48,
            "max_position_embeddings": 64, "forced_eos_token_id": None,
        },
        "T5": {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4},
    }[name]  # fmt: skip
    config = getattr(transformers, f"{name}Config")(
        **sizes, vocab_size=99, pad_token_id=0, decoder_start_token_id=0, eos_token_id=None
    )
    model = transformers.AutoModelForSeq2SeqLM.from_config(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    there = torch.ones(2, 6, dtype=torch.int64)
    there[1, 4:] = 0
    options = {"max_new_tokens": 8, "do_sample": False, "num_beams": beams, "attention_mask": there}
    with regard.watch(model) as seen:
        model.generate(prompt(), **options)
    many = prompt().repeat_interleave(beams, 0)
    with torch.no_grad(), regard.watch(model) as want:
        model(
            input_ids=many,
            attention_mask=there.repeat_interleave(beams, 0),
            decoder_input_ids=torch.as_tensor(seen.run.texts["decoder_input_ids"]),
            use_cache=False,
        )
    assert [layer.kind for layer in seen] == [layer.kind for layer in want]
    for got, one in zip(seen, want, strict=True):
        assert (got.queries, got.keys) == (one.queries, one.keys)
        expected = one.weights.dense()
        if got.kind == "encoder":
            expected = expected[::beams]
        assert (got.weights.dense() - expected).abs().max() < 1e-5, got
    kinds = {layer.kind: (layer.queries, layer.keys) for layer in seen}
    assert kinds == {
        "encoder": ("input_ids", "input_ids"),
        "decoder": ("decoder_input_ids", "decoder_input_ids"),
        "cross": ("decoder_input_ids", "input_ids"),
    }


def test_what_does_not_go_on_is_a_run_of_its_own() -> None:
    model, ids = decoder("Llama"), prompt()
    with torch.no_grad(), regard.watch(model) as seen:
        cache = transformers.DynamicCache(config=model.config)
        model(input_ids=ids, cache=cache)
        model(input_ids=ids.flip(1))  # another text in between
        model(input_ids=ids[:, :1], cache=cache)
    assert [run.calls for run in seen.runs] == [1, 1, 1]
    with torch.no_grad(), regard.watch(model) as seen:
        cache = transformers.DynamicCache(config=model.config)
        model(input_ids=ids, cache=cache)
        cache.crop(-2)
        model(input_ids=ids[:, :1], cache=cache)
    assert [run.calls for run in seen.runs] == [1, 1]
    assert seen.runs[1].layers[0].weights.shape == (2, 4, 1, 5)


def test_a_cache_that_was_begun_unwatched() -> None:
    model, ids = decoder("Llama"), prompt()
    cache = transformers.DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=ids[:, :3], cache=cache)
        with regard.watch(model) as seen:
            for t in range(3, 6):
                model(input_ids=ids[:, t : t + 1], cache=cache)
    assert seen.run.calls == 3
    want = whole(model, ids)
    for got, one in zip(seen, want, strict=True):
        torch.testing.assert_close(
            got.weights.dense(), one.weights[..., 3:, :], rtol=1e-4, atol=1e-6
        )


def test_what_a_step_adds_is_its_own_rows() -> None:
    model = decoder("Llama")
    sizes = []
    for n in (50, 100):
        with regard.watch(model) as seen:
            model.generate(prompt(1), max_new_tokens=n, do_sample=False)
        assert seen.run.calls == n
        sizes.append(seen.nbytes)
    assert sizes[1] < 4 * sizes[0]  # room is doubled, and rows of all steps would be 4 times more


@pytest.mark.models
def test_smollm2_writes_200_tokens_whose_matrix_is_that_of_one_pass() -> None:
    need_package("smollm2")
    place = shelf.find("smollm2", lambda key: None)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    inputs = tokenizer("The animal didn't cross the street because", return_tensors="pt")
    options = {"max_new_tokens": 200, "min_new_tokens": 200, "do_sample": False}
    with regard.watch(model, tokenizer) as seen:
        written = model.generate(**inputs, **options)
    assert seen.run.calls == 200
    assert len(seen.tokens) == written.shape[1] - 1
    with torch.no_grad(), regard.watch(model) as want:
        model(input_ids=written[:, :-1], use_cache=False)
    for got, one in zip(seen, want, strict=True):
        assert repr(got.mask) == "causal()"
        assert (got.weights.dense() - one.weights.dense()).abs().max() < 1e-4
