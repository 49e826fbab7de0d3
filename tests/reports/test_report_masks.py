"""Reports of bool masks: what True means differs between libraries, and within one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from cases import double

torch = pytest.importorskip("torch")
F = torch.nn.functional

ENGINES = ["formula", "tiles", "sdpa"]


def tensors(*shape: int) -> Any:
    return torch.tensor(np.random.default_rng(0).normal(size=(3, *shape)))


def test_peer_pytorch_170415_sdpa_and_multihead_attention_read_true_oppositely() -> None:
    # Still so in torch 2.13, whose documentation now says it.  All scores are 0 here, so that a
    # weight is 1 over the number of keys that take part.
    a = torch.tensor([[True, False, False], [True, True, False], [False, True, True]])
    x = torch.zeros(1, 3, 2)
    kept = F.scaled_dot_product_attention(x, x, torch.eye(3)[None], attn_mask=a)[0]
    torch.testing.assert_close(kept, a / a.sum(-1, keepdim=True))
    _, hidden = torch.nn.MultiheadAttention(2, 1, batch_first=True)(x, x, x, attn_mask=a)
    torch.testing.assert_close(hidden[0].detach(), ~a / (~a).sum(-1, keepdim=True))


@pytest.mark.parametrize("engine", ENGINES)
def test_pytorch_170415_an_array_is_refused_until_it_says_what_true_means(
    engine: str, formula: Any
) -> None:
    a = torch.tensor([[True, False, False], [True, True, False], [False, True, True]])
    q, k, v = tensors(2, 3, 4)
    with pytest.raises(regard.KindError, match=r"keep\(array\).*~keep\(array\)"):
        regard.attend(q, k, v, a, engine=engine)  # type: ignore[arg-type]
    for mask, seen in ((regard.keep(a), a), (~regard.keep(a), ~a)):
        found = regard.attend(q, k, v, mask, engine=engine)
        np.testing.assert_allclose(found, formula(q, k, v, seen.numpy()).output, atol=1e-12)


def test_peer_llms_from_scratch_1061_an_upper_triangle_shows_sdpa_the_future() -> None:
    # Still so: the book's causal mask marks what is hidden, and sdpa reads it as what is seen.
    q, k, v = tensors(1, 5, 4)
    future = torch.triu(torch.ones(5, 5), diagonal=1).bool()
    found = F.scaled_dot_product_attention(q * 0, k, v, attn_mask=future)
    torch.testing.assert_close(found[0, 0], v[0, 1:].mean(0))  # token 0 reads all but itself
    assert not found[0, 4].any()  # and the last one reads nothing


@pytest.mark.parametrize("engine", ENGINES)
def test_llms_from_scratch_1061_an_upper_triangle_must_be_named_hidden(
    engine: str, formula: Any
) -> None:
    q, k, v = tensors(2, 5, 4)
    future = torch.triu(torch.ones(5, 5), diagonal=1).bool()
    with pytest.raises(regard.KindError, match="raw bool array"):
        regard.attend(q, k, v, future, engine=engine)  # type: ignore[arg-type]
    truth = formula(q, k, v, np.tri(5, dtype=bool)).output
    for mask in (~regard.keep(future), regard.causal()):
        found = regard.attend(q, k, v, mask, engine=engine)
        np.testing.assert_allclose(found, truth, atol=1e-12)
        k_moved, v_moved = k.clone(), v.clone()
        k_moved[:, 3:], v_moved[:, 3:] = 7.0, -7.0
        moved = regard.attend(q, k_moved, v_moved, mask, engine=engine)
        np.testing.assert_allclose(moved[:, :3], truth[:, :3], atol=1e-12)


def test_peer_transformerengine_614_lengths_count_what_is_not_masked() -> None:
    # Mended: the report found that one backend summed the True entries and another the False ones.
    utils = pytest.importorskip(
        "transformer_engine.pytorch.attention.dot_product_attention.utils", exc_type=ImportError
    )
    if not torch.cuda.is_available():
        pytest.skip("it makes arrays on a GPU")
    padding = torch.tensor([[False] * 3 + [True] * 2, [False] * 5], device="cuda")
    assert utils.get_cu_seqlens(padding[:, None, None]).tolist() == [0, 3, 8]


@pytest.mark.parametrize("engine", ENGINES)
def test_transformerengine_614_padding_means_one_thing_on_every_engine(
    engine: str, formula: Any
) -> None:
    q, k, v = tensors(2, 3, 5, 4)  # 2 sentences, 3 heads, of 3 and 5 tokens
    padding = torch.tensor([[False] * 3 + [True] * 2, [False] * 5])
    truth = formula(q, k, v, ~padding.numpy()[:, None, None]).output
    as_array = ~regard.keep(padding[:, None, None])
    for mask in (as_array, regard.lengths([3, 5]), regard.lengths([3, 5]) & as_array):
        found = regard.attend(q, k, v, mask, engine=engine)
        np.testing.assert_allclose(double(found), truth, atol=1e-12)
