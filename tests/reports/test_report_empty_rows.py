"""Reports of queries that may attend to nothing, and of NaN behind a mask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from cases import as_library, double

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn
SDPBackend, sdpa_kernel = torch.nn.attention.SDPBackend, torch.nn.attention.sdpa_kernel

ENGINES = ["formula", "tiles", "sdpa"]
BACKENDS = [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]


def tensors(*shapes: tuple[int, ...]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=shape)) for shape in shapes]


def check_attend(
    engine: str, mask: regard.Mask, seen: np.ndarray, arrays: Any, truths: Any
) -> None:
    """Output, lse and gradients of ``attend`` are the formula's, and 0 or −∞ on empty rows."""
    formula, gradients = truths
    q, k, v = arrays
    truth = formula(q, k, v, seen)
    empty = ~np.broadcast_to(seen, truth.weights.shape).any(-1)
    assert empty.any()
    leaves = [a.clone().requires_grad_() for a in arrays]
    output = regard.attend(*leaves, mask, engine=engine)
    assert not output.detach()[torch.tensor(empty)].any()
    np.testing.assert_allclose(double(output), truth.output, atol=1e-12)
    part = regard.partial(q, k, v, mask, engine=engine)
    assert torch.isneginf(part.lse[torch.tensor(empty)]).all()
    np.testing.assert_allclose(double(part.lse), truth.lse, atol=1e-12)
    upstream = torch.ones_like(output)
    found = torch.autograd.grad(output, leaves, upstream)
    assert not found[0][torch.tensor(empty)].any()
    for got, want in zip(found, gradients(q, k, v, upstream, seen), strict=False):
        np.testing.assert_allclose(double(got), want, atol=1e-12)


PADDED = np.tri(6, 10, dtype=bool) & (np.arange(6) < 5)[:, None]
"""Five causal rows over ten keys, and a sixth that is padding."""


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_peer_pytorch_103749_a_padding_row_gives_zeros(backend: Any) -> None:
    # Mended since the report, in every kernel: zeros in place of NaN, forward and backward.
    q, k, v = (a.requires_grad_() for a in tensors((1, 2, 6, 8), (1, 2, 10, 8), (1, 2, 10, 8)))
    seen = torch.tensor(PADDED)
    for mask in (seen, torch.zeros(6, 10).double().masked_fill(~seen, -torch.inf)):
        with sdpa_kernel(backend):
            output = F.scaled_dot_product_attention(q, k, v, mask, scale=0.125)
        assert not output[..., 5, :].any()
        assert all(g.isfinite().all() for g in torch.autograd.grad(output.sum(), (q, k, v)))


@pytest.mark.parametrize("engine", ENGINES)
def test_pytorch_103749_a_padding_row_gives_zeros(
    engine: str, formula: Any, gradients: Any
) -> None:
    arrays = tensors((1, 2, 6, 8), (1, 2, 10, 8), (1, 2, 10, 8))
    mask = regard.keep(torch.tensor(PADDED))
    check_attend(engine, mask, PADDED, arrays, (formula, gradients))


HEADS = np.array([True, True, False])[:, None, None].repeat(5, 1).repeat(5, 2)
"""The third head is switched off."""


def test_peer_pytorch_160064_a_head_switched_off_gives_nan_with_weights() -> None:
    # Still so in torch 2.13: asking for weights turns every output into NaN.
    x = torch.randn(1, 5, 3)
    hidden = ~torch.tensor(HEADS)
    layer = nn.MultiheadAttention(3, 3, batch_first=True)
    without, _ = layer(x, x, x, attn_mask=hidden, need_weights=False)
    assert without.isfinite().all()
    output, weights = layer(x, x, x, attn_mask=hidden, average_attn_weights=False)
    assert output.isnan().all()
    assert weights.isnan().all((-2, -1)).tolist() == [[False, False, True]]


@pytest.mark.parametrize("engine", ENGINES)
def test_pytorch_160064_a_head_switched_off_weighs_nothing(
    engine: str, formula: Any, gradients: Any
) -> None:
    arrays = tensors(*[(1, 3, 5, 4)] * 3)
    mask = regard.keep(torch.tensor(HEADS))
    check_attend(engine, mask, HEADS, arrays, (formula, gradients))
    weights = double(regard.weights(*arrays[:2], mask).dense())
    assert not weights[:, 2].any()
    np.testing.assert_allclose(weights, formula(*arrays, HEADS).weights, atol=1e-12)


def test_peer_pytorch_190486_a_sentence_of_padding_alone_gives_nan_with_weights() -> None:
    # Still so in torch 2.13, for the sentence that is all padding; its neighbour is well.
    x = torch.randn(2, 5, 4)
    padding = torch.tensor([[False] * 5, [True] * 5])
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    output, weights = layer(x, x, x, key_padding_mask=padding)
    assert output[0].isfinite().all()
    assert output[1].isnan().all()
    assert weights[1].isnan().all()
    # The bias of the last projection is all that is left of it without weights.
    without, _ = layer(x, x, x, key_padding_mask=padding, need_weights=False)
    torch.testing.assert_close(without[1], layer.out_proj.bias.expand(5, 4))


@pytest.mark.parametrize("engine", ENGINES)
def test_pytorch_190486_a_sentence_of_padding_alone_gives_zeros(
    engine: str, formula: Any, gradients: Any
) -> None:
    arrays = tensors(*[(2, 2, 5, 4)] * 3)
    seen = np.array([True, False])[:, None, None, None]
    check_attend(engine, regard.lengths([5, 0]), seen, arrays, (formula, gradients))


BAND = np.tri(4, dtype=bool) & ~np.tri(4, k=-2, dtype=bool)
"""Each token sees itself and the one before it."""


def test_peer_pytorch_41508_one_empty_row_makes_every_gradient_nan() -> None:
    # Still so in torch 2.13.  The loss looks at the first two tokens, whose rows are full; the
    # empty row is the last one of the second sentence, which ends after two tokens.
    x = torch.rand(4, 2, 1)
    padding = torch.tensor([[False] * 4, [False, False, True, True]])
    layer = nn.MultiheadAttention(1, 1)
    output, _ = layer(x, x, x, key_padding_mask=padding, attn_mask=~torch.tensor(BAND))
    assert output[:2].isfinite().all()
    output[:2].sum().backward()
    assert layer.in_proj_weight.grad.isnan().all()


@pytest.mark.parametrize("engine", ENGINES)
def test_pytorch_41508_an_empty_row_leaves_the_other_gradients_alone(
    engine: str, formula: Any, gradients: Any
) -> None:
    arrays = tensors(*[(2, 1, 4, 3)] * 3)
    seen = BAND & (np.arange(4) < np.array([4, 2])[:, None, None, None])
    mask = regard.window(2) & regard.lengths([4, 2])
    check_attend(engine, mask, seen, arrays, (formula, gradients))
    leaves = [a.clone().requires_grad_() for a in arrays]
    output = regard.attend(*leaves, mask, engine=engine)
    upstream = torch.zeros_like(output)
    upstream[:, :, :2] = 1
    output[:, :, :2].sum().backward()
    for leaf, want in zip(leaves, gradients(*arrays, upstream, seen), strict=False):
        np.testing.assert_allclose(double(leaf.grad), want, atol=1e-12)


def test_peer_apex_1390_all_keys_masked_gives_zeros() -> None:
    # Mended: the report found 1/S everywhere, the softmax of equal fill values.
    fused = pytest.importorskip("apex.transformer.functional.fused_softmax", exc_type=ImportError)
    if not torch.cuda.is_available():
        pytest.skip("its kernel runs on a GPU only")
    scores = torch.randn(1, 4, 4, 32, dtype=torch.float16, device="cuda")
    hidden = torch.zeros(1, 1, 4, 32, dtype=torch.bool, device="cuda")
    hidden[..., 2, :] = True
    weights = fused.scaled_masked_softmax(scores, hidden, 1.0)
    assert not weights[..., 2, :].any()


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("engine", ["formula", "tiles"])
def test_apex_1390_a_row_without_keys_is_no_even_spread(
    engine: str, library: str, formula: Any
) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 2, 4, 8))
    seen = np.ones((4, 4), bool)
    seen[2] = False
    arrays = [as_library(a, library, "float64") for a in (q, k, v)]
    hidden = ~seen if library == "numpy" else torch.tensor(~seen)
    W = regard.weights(*arrays[:2], ~regard.keep(hidden), engine=engine)
    truth = formula(q, k, v, seen)
    dense, spread, received = (double(a) for a in (W.dense(), W.entropy(), W.received()))
    assert dense.sum(-1)[:, 2].tolist() == [0, 0]
    assert spread[:, 2].tolist() == [0, 0]
    np.testing.assert_allclose(dense, truth.weights, atol=1e-12)
    np.testing.assert_allclose(received, truth.weights.sum(-2), atol=1e-12)
    np.testing.assert_allclose(double(W @ arrays[2]), truth.output, atol=1e-12)
    # A finite number that is added is a bias and hides nothing: there the spread is even.
    low = np.where(seen, 0.0, -1e30)
    biased = regard.weights(*arrays[:2], bias=as_library(low, library, "float64"), engine=engine)
    np.testing.assert_allclose(double(biased.dense())[:, 2], 0.25, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda b: b.name)
def test_peer_pytorch_101967_nan_in_a_masked_key_or_value_leaks(backend: Any) -> None:
    # Still so in torch 2.13: hidden numbers are multiplied by 0, and 0 · NaN is NaN.
    x = torch.arange(8.0).reshape(1, 1, 2, 4)
    seen = torch.tensor([[True, False], [True, False]])
    spoiled = x.clone()
    spoiled[0, 0, 1, 0] = torch.nan
    huge = x.clone()
    huge[0, 0, 1, 0] = 1e10
    with sdpa_kernel(backend):
        assert F.scaled_dot_product_attention(x, spoiled, x, seen).isnan().all()
        by_value = F.scaled_dot_product_attention(x, x, spoiled, seen)
        well = F.scaled_dot_product_attention(x, huge, huge, seen)
    assert by_value[..., 0].isnan().all()
    assert torch.equal(well[0, 0], x[0, 0, :1].expand(2, 4))


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("engine", ["formula", "tiles"])
@pytest.mark.parametrize("fill", [np.nan, np.inf, -np.inf], ids=str)
def test_pytorch_101967_what_is_hidden_never_leaks(engine: str, library: str, fill: float) -> None:
    x = np.arange(8.0).reshape(1, 1, 2, 4)
    spoiled = x.copy()
    spoiled[0, 0, 1, 0] = fill
    q, k = as_library(x, library, "float64"), as_library(spoiled, library, "float64")
    seen = np.array([[True, False], [True, False]])
    array = seen if library == "numpy" else torch.tensor(seen)
    for mask in (regard.keep(array), regard.lengths(1)):
        output = regard.attend(q, k, k, mask, engine=engine)
        assert np.array_equal(double(output)[0, 0], x[0, 0, :1].repeat(2, axis=0))


@pytest.mark.parametrize("engine", ["formula", "tiles"])
@pytest.mark.parametrize("spoiled", ["key", "value", "both"])
def test_pytorch_101967_nor_does_it_reach_a_gradient(
    engine: str, spoiled: str, gradients: Any
) -> None:
    arrays = tensors(*[(1, 2, 3, 4)] * 3)
    seen = np.array([True, False, True])  # a hidden key between two others cannot be cut off
    leaves = [a.clone() for a in arrays]
    for name, a in zip(("key", "value"), leaves[1:], strict=True):
        if spoiled in (name, "both"):
            a[:, :, 1] = torch.nan
    leaves = [a.requires_grad_() for a in leaves]
    mask = regard.keep(torch.tensor(seen)[None])
    output = regard.attend(*leaves, mask, engine=engine)
    upstream = torch.ones_like(output)
    found = torch.autograd.grad(output, leaves, upstream)
    for got, want in zip(found, gradients(*arrays, upstream, seen), strict=False):
        np.testing.assert_allclose(double(got), want, atol=1e-12)


def test_pytorch_101967_the_plan_says_which_engine_needs_finite_inputs() -> None:
    q, k, v = tensors(*[(1, 2, 3, 4)] * 3)
    assert "all is finite" in regard.plan(q, k, v, regard.causal(), engine="sdpa").why
    assert "finite" not in regard.plan(q, k, v, regard.causal()).why
    assert "finite" not in regard.plan(q, k, v, engine="tiles").why
