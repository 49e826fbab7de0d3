"""Each of five faults is named when a model has it, and never when it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    BartConfig,
    BartForConditionalGeneration,
    BartModel,
    BertConfig,
    BertModel,
    DynamicCache,
    LlamaConfig,
    LlamaModel,
    StaticCache,
    T5Config,
    T5Model,
)

import regard
from regard.recording.recording import Layer, Recording, Run
from small import GROUPED, SMALL, need_package, silent

LENGTH = 10
IDS = torch.randint(5, 99, (2, LENGTH), generator=torch.Generator().manual_seed(0))
LEFT = torch.tensor([[0] * 4 + [1] * 6, [1] * 10])
RIGHT = LEFT.flip(1)


def seed() -> None:
    torch.manual_seed(0)


def llama(**more: Any) -> LlamaModel:
    seed()
    return LlamaModel(LlamaConfig(**GROUPED, **more)).eval()


def bert(**more: Any) -> BertModel:
    seed()
    return BertModel(BertConfig(**SMALL, **more)).eval()


def watched(model: Any, *calls: dict[str, Any]) -> Recording:
    with torch.no_grad(), regard.watch(model) as seen:
        for inputs in calls:
            model(**inputs)
    return seen


def faults(seen: Recording) -> list[str]:
    found = seen.diagnose()
    for one in found:
        assert str(one)
        assert any("\u4e00" <= letter <= "\u9fff" for letter in one.say("zh"))
        assert "{" not in str(one) + one.say("zh")
    return [one.fault for one in found]


# Right models: no alarm

TEXTS: list[dict[str, Any]] = [
    {},
    {"attention_mask": torch.ones(2, LENGTH, dtype=torch.long)},
    {"attention_mask": LEFT},
    {"attention_mask": RIGHT},
]
RIGHT_ONES = [
    "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "gpt2", "falcon",
    "gpt_neox",
    "opt", "phi", "olmo2", "stablelm", "cohere", "bert", "roberta", "electra", "distilbert",
]  # fmt: skip


def tiny(name: str) -> Any:
    sizes = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0, "sliding_window": 4}
    seed()
    made = AutoModel.from_config(AutoConfig.for_model(name, **sizes))
    return made.eval()


@pytest.mark.parametrize("name", RIGHT_ONES)
def test_a_right_model_gives_no_alarm(name: str):
    model = tiny(name)
    for text in TEXTS:
        seen = watched(model, {"input_ids": IDS, **text})
        assert len(seen.layers) == 2
        assert [str(one) for one in seen.diagnose()] == []
    # A text that begins with the pad token, as one of numbers may.
    assert faults(watched(model, {"input_ids": torch.arange(LENGTH)[None]})) == []


@pytest.mark.parametrize("eager", [False, True])
def test_right_encoder_decoders_give_no_alarm(eager: bool):
    kernel = {"attn_implementation": "eager" if eager else "sdpa"}
    small = {"d_model": 32, "vocab_size": 99, "encoder_layers": 2, "decoder_layers": 2}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    seed()
    bart = BartModel(BartConfig(**small, **heads, encoder_ffn_dim=48, decoder_ffn_dim=48, **kernel))
    t5 = T5Model(
        T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, vocab_size=99, **kernel)
    )
    for model in (bart.eval(), t5.eval()):
        for text in TEXTS:
            for target in (torch.ones(2, 6, dtype=torch.long), LEFT[:, 2:8]):
                inputs = {
                    "input_ids": IDS,
                    **text,
                    "decoder_input_ids": IDS[:, :6],
                    "decoder_attention_mask": target,
                }
                assert [str(one) for one in watched(model, inputs).diagnose()] == []


@pytest.mark.parametrize("name", ["llama", "mistral", "gemma3_text", "gpt2"])
@pytest.mark.parametrize("static", [False, True])
def test_a_right_cache_gives_no_alarm(name: str, static: bool):
    model = tiny(name)
    cache = StaticCache(model.config, 16) if static else DynamicCache(config=model.config)
    steps: list[dict[str, Any]] = [
        {"input_ids": IDS[:, :6]},
        {"input_ids": IDS[:, 6:7]},
        {"input_ids": IDS[:, 7:8]},
        {"input_ids": IDS[:, 8:10]},
    ]
    steps = [{**step, "cache": cache, "use_cache": True} for step in steps]
    assert [str(one) for one in watched(model, *steps).diagnose()] == []


def test_beams_and_two_texts_give_no_alarm():
    model, caches = llama(), [DynamicCache(), DynamicCache()]
    with torch.no_grad(), regard.watch(model) as seen:
        for part in (IDS[:, :6], IDS[:, 6:7]):
            model(input_ids=part, cache=caches[0])
        caches[0].batch_select_indices(torch.tensor([1, 0]))
        model(input_ids=IDS[:, 7:8], cache=caches[0])
        model(input_ids=IDS[:1, 3:9], cache=caches[1])
        model(input_ids=IDS[:, 8:9], cache=caches[0])
    assert [str(one) for one in seen.diagnose()] == []


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_a_right_generation_gives_no_alarm(name: str, cache: str, beams: int):
    sizes = {**SMALL, "num_key_value_heads": 2, "pad_token_id": 0, "sliding_window": 4}
    ends = {"eos_token_id": 1, "bos_token_id": 2}
    seed()
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **sizes, **ends)).eval()
    with regard.watch(model) as seen:
        model.generate(
            IDS,
            attention_mask=LEFT,
            max_new_tokens=6,
            min_new_tokens=6,
            do_sample=False,
            num_beams=beams,
            cache_implementation=cache,
        )
    assert [str(one) for one in seen.diagnose()] == []


def test_a_right_translation_gives_no_alarm():
    seed()
    small = {"d_model": 32, "vocab_size": 99, "encoder_layers": 2, "decoder_layers": 2}
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    config = BartConfig(**small, **heads, encoder_ffn_dim=48, decoder_ffn_dim=48)
    model = BartForConditionalGeneration(config).eval()
    with regard.watch(model) as seen:
        model.generate(IDS, attention_mask=RIGHT, max_new_tokens=6, do_sample=False, num_beams=2)
    assert [str(one) for one in seen.diagnose()] == []


@pytest.mark.models
@pytest.mark.parametrize("name", ["minilm", "smollm2"])
def test_real_models_give_no_alarm(name: str):
    from regard.recording.models import load

    need_package(name)
    model = load(name, silent).model
    ids = IDS + 1000
    for text in TEXTS:
        assert [str(one) for one in watched(model, {"input_ids": ids, **text}).diagnose()] == []


# Faulty ones


def spoil(model: Any, fault: Callable[[Tensor | None, Tensor], Any]) -> Any:
    """``model``, every layer's mask changed before it reaches the kernel."""
    for module in model.modules():
        if hasattr(module, "is_causal"):
            module.register_forward_pre_hook(_changed(fault), with_kwargs=True)
    return model


def _changed(fault: Callable[[Tensor | None, Tensor], Any]) -> Any:
    def hook(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        hidden = kwargs.get("hidden_states", args[0] if args else None)
        return args, {**kwargs, "attention_mask": fault(kwargs.get("attention_mask"), hidden)}

    return hook


def all_seen(_: Any, hidden: Tensor) -> Tensor:
    B, T = hidden.shape[:2]
    return torch.ones(B, 1, T, T, dtype=torch.bool)


def test_a_mask_that_is_lost_puts_weight_on_padding():
    seen = watched(spoil(bert(), all_seen), {"input_ids": IDS, "attention_mask": RIGHT})
    (found,) = seen.diagnose()
    assert (found.fault, found.run, len(found.layers)) == ("padding", 0, 2)
    assert "encoder.layer.0.attention.self and 1 more layers" in str(found)
    assert 0.3 < found.values["share"] < 0.5


def test_padding_without_any_mask_is_named():
    ids = IDS.clone()
    ids[0, 6:] = 0
    assert faults(watched(bert(), {"input_ids": ids})) == ["padding"]
    assert faults(watched(bert(), {"input_ids": ids, "attention_mask": (ids > 0).long()})) == []


def test_a_mask_that_keeps_the_padding_is_inverted():
    def inverted(mask: Tensor | None, hidden: Tensor) -> Tensor:
        assert mask is not None
        return ~mask

    seen = watched(spoil(bert(), inverted), {"input_ids": IDS, "attention_mask": RIGHT})
    assert faults(seen) == ["inverted"]
    assert "padding mask is inverted" in str(seen.diagnose()[0])


def test_an_argument_that_is_inverted_is_named_itself():
    ids = IDS.clone()
    ids[0, 6:], ids[1, 8:] = 0, 0
    seen = watched(bert(), {"input_ids": ids, "attention_mask": (ids == 0).long()})
    assert faults(seen) == ["inverted", "inverted"]
    assert str(seen.diagnose()[0]).startswith("attention_mask is inverted")


def test_a_causal_mask_of_the_wrong_triangle_is_inverted():
    def upper(_: Any, hidden: Tensor) -> Tensor:
        T = hidden.shape[1]
        return torch.ones(T, T, dtype=torch.bool).triu(1)[None, None]

    seen = watched(spoil(llama(), upper), {"input_ids": IDS})
    assert faults(seen) == ["inverted"]
    assert "causal mask is inverted" in str(seen.diagnose()[0])


@pytest.mark.parametrize("reach", [1, 3])
def test_the_future_is_seen(reach: int):
    """A mask that is aligned one key too late, and more."""

    def late(_: Any, hidden: Tensor) -> Tensor:
        T = hidden.shape[1]
        return torch.ones(T, T, dtype=torch.bool).tril(reach)[None, None]

    seen = watched(spoil(llama(), late), {"input_ids": IDS})
    assert faults(seen) == ["future"]
    assert len(seen.diagnose()[0].layers) == 2


def test_the_future_is_seen_in_one_layer_only():
    model = llama()
    spoil(model.layers[1], all_seen)
    (found,) = watched(model, {"input_ids": IDS}).diagnose()
    assert (found.fault, found.layers) == ("future", ("layers.1.self_attn",))


class Twice(DynamicCache):
    """A cache to which each key is written twice."""

    def update(self, key: Tensor, value: Tensor, layer: int, *rest: Any, **more: Any) -> Any:
        if key.shape[-2] == 1:
            super().update(key, value, layer, *rest, **more)
        return super().update(key, value, layer, *rest, **more)


class Rolled(DynamicCache):
    """A cache whose keys change places."""

    def update(self, key: Tensor, value: Tensor, layer: int, *rest: Any, **more: Any) -> Any:
        keys, values = super().update(key, value, layer, *rest, **more)
        if key.shape[-2] == 1:
            self.layers[layer].keys = keys = keys.roll(1, -2)
        return keys, values


class Late(DynamicCache):
    """A cache that forgets the newest key but one."""

    def update(self, key: Tensor, value: Tensor, layer: int, *rest: Any, **more: Any) -> Any:
        if key.shape[-2] == 1:
            one = self.layers[layer]
            one.keys, one.values = one.keys[..., :-1, :], one.values[..., :-1, :]
        return super().update(key, value, layer, *rest, **more)


@pytest.mark.parametrize("kind", [Twice, Rolled, Late])
def test_a_cache_out_of_step_is_named(kind: type[DynamicCache]):
    model, cache = llama(), kind()
    steps = [IDS[:, :6], IDS[:, 6:7], IDS[:, 7:8]]
    seen = watched(model, *({"input_ids": step, "cache": cache} for step in steps))
    found = [one for one in seen.diagnose() if one.fault == "cache"]
    assert len(found) == 1
    assert (found[0].run, len(found[0].layers)) == (1, 2)


def heads(repeat: Callable[[Tensor], Tensor], G: int = 2) -> Recording:
    """What a hand-written model gives its kernel: each of G key heads for two query heads."""
    seed()
    q, k = torch.randn(1, 4, 6, 8), torch.randn(1, G, 6, 8)
    seen = Recording()
    seen.runs.append(Run([Layer("a", q, repeat(k), regard.causal(), None)]))
    return seen


def test_key_heads_that_are_repeated_as_a_whole_are_named():
    seen = heads(lambda k: k.repeat(1, 2, 1, 1))
    assert faults(seen) == ["grouping"]
    assert "query head h reads key head h mod 2; it must read h // 2" in str(seen.diagnose()[0])


WELL_REPEATED: dict[str, Callable[[Tensor], Tensor]] = {
    "not": lambda k: k,
    "one by one": lambda k: k.repeat_interleave(2, 1),
    "a single head": lambda k: k[:, :1].repeat(1, 4, 1, 1),
    "no pattern": lambda k: torch.cat([k, k.flip(1)], 1),
}


@pytest.mark.parametrize("how", WELL_REPEATED)
def test_key_heads_that_are_right_give_no_alarm(how: str):
    assert faults(heads(WELL_REPEATED[how])) == []


def upside_down(mask: Tensor | None, hidden: Tensor) -> Tensor:
    T = hidden.shape[1]
    return torch.ones(T, T, dtype=torch.bool).triu(1)[None, None] if mask is None else ~mask


CASES: dict[str, tuple[Callable[[], Any], dict[str, Tensor], list[str]]] = {
    "right, padded on the left": (llama, {"attention_mask": LEFT}, []),
    "right, padded on the right": (llama, {"attention_mask": RIGHT}, []),
    "right, both ways": (bert, {"attention_mask": RIGHT}, []),
    "no mask": (lambda: spoil(bert(), all_seen), {"attention_mask": LEFT}, ["padding"]),
    "no triangle": (lambda: spoil(llama(), all_seen), {}, ["future"]),
    "nothing hidden": (
        lambda: spoil(llama(), all_seen),
        {"attention_mask": LEFT},
        ["padding", "future"],
    ),
    "~padding": (lambda: spoil(bert(), upside_down), {"attention_mask": RIGHT}, ["inverted"]),
    "~triangle": (lambda: spoil(llama(), upside_down), {}, ["inverted"]),
}


@pytest.mark.parametrize("case", CASES)
def test_statistics_show_the_same(case: str, tmp_path: Any):
    make, text, expected = CASES[case]
    with torch.no_grad(), regard.watch(model := make(), keep=regard.Statistics()) as summed_up:
        model(input_ids=IDS, **text)
    found = summed_up.diagnose()
    assert [one.fault for one in found] == expected
    assert found == watched(make(), {"input_ids": IDS, **text}).diagnose()
    summed_up.save(tmp_path / "x.regard")
    assert regard.load(tmp_path / "x.regard").diagnose() == found


def test_statistics_show_a_wrong_grouping():
    (layer,) = heads(lambda k: k.repeat(1, 2, 1, 1)).layers
    run = Run()
    regard.Statistics().of(layer, 0, run)
    seen = Recording()
    seen.runs.append(run)
    assert faults(seen) == ["grouping"]


def test_a_saved_recording_is_diagnosed_too(tmp_path: Any):
    seen = watched(spoil(bert(), all_seen), {"input_ids": IDS, "attention_mask": RIGHT})
    seen.save(tmp_path / "x.regard")
    assert regard.load(tmp_path / "x.regard").diagnose() == seen.diagnose()
