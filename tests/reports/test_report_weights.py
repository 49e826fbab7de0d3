"""Reports of weights that fast kernels do not give, and of what it costs to ask for them."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest

import regard
from cases import double, strips_of
from regard.core.call import check

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn


def test_peer_pytorch_98505_sdpa_gives_no_weights() -> None:
    # Still so in torch 2.13.  What gets them out is an identity as values: S × S numbers more.
    q, k = torch.randn(2, 1, 2, 6, 4)
    output = F.scaled_dot_product_attention(q, k, torch.eye(6).expand(1, 2, 6, 6))
    assert isinstance(output, torch.Tensor)
    torch.testing.assert_close(output, (q @ k.mT / 2).softmax(-1))
    with pytest.raises(TypeError, match="need_weights"):
        F.scaled_dot_product_attention(q, k, k, need_weights=True)


def test_pytorch_98505_the_weights_are_there_to_ask(formula: Any) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 50, 8))
    output, w, lse = formula(q, k, v, np.tri(50, dtype=bool))
    W = regard.weights(q, k, regard.causal())
    np.testing.assert_allclose(W[:, 7:9, :], w[:, 7:9], atol=1e-12)
    np.testing.assert_allclose(W @ v, output, atol=1e-12)
    np.testing.assert_allclose(W.lse, lse, atol=1e-12)
    strongest, spread, got = W.ask(regard.topk(3), regard.entropy(), regard.received())
    order = np.argsort(-w, axis=-1)[..., :3]
    np.testing.assert_allclose(strongest.weights, np.take_along_axis(w, order, -1), atol=1e-12)
    assert np.array_equal(strongest.keys[:, 3:], order[:, 3:])
    logs = np.log(np.where(w > 0, w, 1.0))
    np.testing.assert_allclose(spread, -(w * logs).sum(-1), atol=1e-12)
    np.testing.assert_allclose(got, w.sum(-2), atol=1e-12)


def test_pytorch_98505_asking_takes_a_small_share_of_the_matrix(formula: Any) -> None:
    n = 4096
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, n, 8), dtype=np.float32)
    W = regard.weights(q, k, regard.causal())
    tracemalloc.start()
    strongest, spread, got = W.ask(regard.topk(2), regard.entropy(), regard.received())
    (_, peak) = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < n * n * 4 / 4  # bytes: a quarter of the weights in float32
    last = formula(q[-1:], k, k).weights[0]  # the last query sees all keys
    assert strongest.keys[-1].tolist() == np.argsort(-last)[:2].tolist()
    np.testing.assert_allclose(spread[-1], -(last * np.log(last)).sum(), rtol=1e-5)
    np.testing.assert_allclose(got.sum(), n, rtol=1e-5)


LLAMA = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def llama() -> Any:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(**LLAMA, attn_implementation="sdpa")
    return transformers.LlamaModel(config).eval()


def test_peer_chatterbox_398_a_model_with_sdpa_gives_no_attentions() -> None:
    # Still so in transformers 5.24, in two ways: the setting is refused, the argument is ignored.
    model = llama()
    with pytest.raises(ValueError, match="not supported when using the `attn_implementation`"):
        model.config.output_attentions = True
    with torch.no_grad():
        assert model(torch.arange(6)[None], output_attentions=True).attentions == ()


def test_chatterbox_398_a_layer_is_watched_while_all_keep_their_kernel(
    monkeypatch: pytest.MonkeyPatch, formula: Any
) -> None:
    model, ids, asked = llama(), torch.arange(6)[None], []
    kernel = F.scaled_dot_product_attention

    def spy(q: Any, k: Any, v: Any, **options: Any) -> Any:
        asked.append((q, k, v))
        return kernel(q, k, v, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    with torch.no_grad(), regard.watch(model) as seen:
        output = model(ids).last_hidden_state
    assert len(asked) == 2  # both layers ran sdpa
    truth = formula(*asked[1], np.tri(6, dtype=bool)).weights
    np.testing.assert_allclose(double(seen[1].weights.dense()), truth, atol=1e-6)
    with torch.no_grad():
        assert torch.equal(output, model(ids).last_hidden_state)


def test_peer_rt_detr_680_asking_for_weights_leaves_the_fast_kernel(operations: Any) -> None:
    # Still so in torch 2.13, and still the default: all H · N · N weights are built.
    layer, x = nn.MultiheadAttention(16, 2, batch_first=True), torch.randn(1, 300, 16)
    matrix = 2 * 300 * 300 * 4  # bytes
    with torch.no_grad(), operations() as slow:
        output, weights = layer(x, x, x)
    assert weights.shape == (1, 300, 300)
    assert "_softmax" in slow.names
    assert slow.largest == matrix
    with torch.no_grad(), operations() as fast:
        same, _ = layer(x, x, x, need_weights=False)
    assert "_scaled_dot_product_flash_attention_for_cpu" in fast.names
    assert fast.largest < matrix / 10
    torch.testing.assert_close(output, same)


def test_rt_detr_680_questions_build_no_matrix(operations: Any, formula: Any) -> None:
    n = 1200
    q, k, v = torch.randn(3, 2, n, 8).double()
    with operations() as done:
        output = regard.attend(q, k, v)
        strongest, got = regard.weights(q, k).ask(regard.topk(1), regard.received())
    assert done.largest < 2 * n * n * 8 / 4  # bytes: a quarter of the weights
    truth = formula(q, k, v)
    np.testing.assert_allclose(double(output), truth.output, atol=1e-12)
    assert np.array_equal(strongest.keys[..., 0], truth.weights.argmax(-1))
    np.testing.assert_allclose(double(got), truth.weights.sum(-2), atol=1e-10)


def test_peer_depth_anything_3_268_repeating_a_mask_copies_it_for_every_head() -> None:
    # The report's own two lines: what is copied is equal to what broadcasts.
    q, k, v = torch.randn(3, 2, 12, 24, 4)
    mask = torch.zeros(2, 24, 24).masked_fill(torch.rand(2, 24, 24) < 0.3, -1e9)
    copied, shared = mask[:, None].repeat(1, 12, 1, 1), mask[:, None]
    assert copied.untyped_storage().nbytes() == 12 * mask.untyped_storage().nbytes()
    assert shared.untyped_storage().data_ptr() == mask.untyped_storage().data_ptr()
    attend = F.scaled_dot_product_attention
    torch.testing.assert_close(attend(q, k, v, copied), attend(q, k, v, shared))


@pytest.mark.parametrize("engine", ["tiles", "sdpa"])
def test_depth_anything_3_268_no_head_gets_a_copy_of_the_mask(
    engine: str, operations: Any, formula: Any
) -> None:
    H, n = 12, 200
    q, k, v = torch.randn(3, 2, H, n, 4)
    array = torch.rand(2, 1, n, n) < 0.7
    mask = regard.keep(array)
    with operations() as done, strips_of(1 << 15):
        output = regard.attend(q, k, v, mask, engine=engine)
    assert done.largest < 2 * H * n * n / 2  # bytes: half a bool for every head and pair
    truth = formula(q, k, v, array.numpy()).output
    np.testing.assert_allclose(double(output), truth, atol=1e-5)


def test_depth_anything_3_268_a_rule_holds_a_few_numbers_a_query(formula: Any) -> None:
    T = 13_622  # 14 views of 973 tokens: 8.3 GiB of mask in the report
    x = np.zeros((12, T, 1), np.float32)
    mask = regard.causal() & regard.window(256)
    assert len(pickle.dumps(mask)) < 1_000
    tracemalloc.start()
    call = check(x, x, x, mask)
    (_, peak) = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert call.ranges is not None
    assert call.ranges.start.shape == call.ranges.stop.shape == (T, 1)
    assert peak < 200 * T  # bytes; a bool array of T × T would be 13,622 · T
    # And so few numbers say the whole mask.
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 40, 4))
    i, j = np.indices((40, 40))
    found = regard.attend(q, k, v, regard.causal() & regard.window(5))
    np.testing.assert_allclose(found, formula(q, k, v, (i - 5 < j) & (j <= i)).output, atol=1e-12)
