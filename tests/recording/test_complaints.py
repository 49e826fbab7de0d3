"""What people have asked for in public, each held here or where it is named."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from small import GROUPED, SMALL

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

# pytorch#88810, #128413 (the fast path of an encoder gives no weights and calls no hooks): see
# capture/test_functions.py.  vit-explain#23 (timm's fused attention leaves a rollout without
# weights): test_real_models.py.  pytorch#143993 (weights while decoding, to evict from a cache):
# capture/test_generation.py, and bench/generation.py for what it costs.


def made(name: str, how: str, **sizes: Any) -> Any:
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**sizes)
    return transformers.AutoModel.from_config(config, attn_implementation=how).eval()


@pytest.mark.parametrize("name", ["Bert", "Llama"])
def test_output_attentions_of_sdpa_is_empty_and_a_watch_is_not(name: str) -> None:
    # transformers#28903, #33996: under sdpa no attentions come back.
    model = made(name, "sdpa", **(SMALL if name == "Bert" else GROUPED))
    ids = torch.arange(1, 10)[None]
    with torch.no_grad(), regard.watch(model) as seen:
        output = model(ids, output_attentions=True)
    assert not any(one is not None for one in output.attentions or ())
    assert [tuple(layer.weights.shape) for layer in seen] == [(1, 4, 9, 9)] * 2


def test_what_is_explained_is_the_model_that_runs() -> None:
    # LLaVA-NeXT#254: switched to eager for its weights, a model answers otherwise.  So it is with
    # Falcon's ALiBi, which transformers scales and rounds otherwise when it runs eager.
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": True}
    sdpa, eager = (made("Falcon", how, **sizes, vocab_size=99) for how in ("sdpa", "eager"))
    eager.load_state_dict(sdpa.state_dict())
    ids = torch.arange(1, 10)[None]
    values: list[Any] = []
    outputs: list[Any] = []
    kernel = torch.nn.functional.scaled_dot_product_attention

    def noting(query: Any, key: Any, value: Any, **options: Any) -> Any:
        values.append(value)
        outputs.append(kernel(query, key, value, **options))
        return outputs[-1]

    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", noting)
        sdpa(ids)
    with torch.no_grad():
        with regard.watch(sdpa) as seen:
            sdpa(ids)
        truth = eager(ids, output_attentions=True).attentions
    for layer, value, output in zip(seen, values, outputs, strict=True):
        torch.testing.assert_close(layer.weights @ value, output, rtol=1e-4, atol=1e-6)
    parted = [
        float((layer.weights.dense() - one).abs().max())
        for layer, one in zip(seen, truth, strict=True)
    ]
    assert max(parted) > 1e-3


def test_a_long_text_takes_memory_that_grows_with_it() -> None:
    # Qwen3-VL#1464 (97 GiB) and inseq#279: all weights of all layers at once are too many.
    model = made("Qwen2", "sdpa", **GROUPED, max_position_embeddings=8192)
    kept = []
    for length in (1000, 4000):
        with torch.no_grad(), regard.watch(model) as seen:
            model(torch.arange(length)[None] % 99)
        kept.append(seen.nbytes)
        assert repr(seen[0].mask) == "causal()"
    assert kept[1] == 4 * kept[0]
    assert kept[1] < 4 * 2 * 4 * 4000**2 / 100  # a hundredth of the weights themselves
    received = seen[1].weights.received()
    assert abs(float(received.sum()) - 4 * 4000) < 1


def test_nothing_is_replaced_for_the_rest_of_the_process() -> None:
    # TransformerLens#1795: a hook for one model is left in the modules of others.
    from transformers.models.gemma2 import modeling_gemma2
    from transformers.models.gemma3 import modeling_gemma3

    files = (modeling_gemma2, modeling_gemma3)
    before = [file.eager_attention_forward for file in files]
    with regard.watch(made("Llama", "eager", **GROUPED)) as seen:
        assert [file.eager_attention_forward for file in files] == before
        made("Gemma2", "eager", **GROUPED)(torch.arange(5)[None])
    assert not seen.runs
    assert [file.eager_attention_forward for file in files] == before
