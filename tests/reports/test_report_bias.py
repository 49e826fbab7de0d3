"""Reports of kernels that take no mask, or give a bias no gradient."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import regard
from cases import double

torch = pytest.importorskip("torch")

ENGINES = ["formula", "tiles", "sdpa"]


def tensors(*shape: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=shape)) for _ in range(3)]


def check_gradients(engine: str, arrays: Any, bias: Any, mask: Any, seen: Any, truths: Any) -> None:
    """Output and the gradients of q, k, v and bias are the formula's."""
    formula, gradients = truths
    leaves = [a.clone().requires_grad_() for a in (*arrays, bias)]
    output = regard.attend(*leaves[:3], mask, bias=leaves[3], engine=engine)
    np.testing.assert_allclose(double(output), formula(*arrays, seen, bias).output, atol=1e-12)
    upstream = torch.cos(output.detach() * 3)
    output.backward(upstream)
    *wanted, scores = gradients(*arrays, upstream, seen, bias)
    # What the bias broadcasts to in the scores is summed in its gradient.
    axes = tuple(i - 4 for i, n in enumerate((1,) * (4 - bias.ndim) + bias.shape) if n == 1)
    wanted.append(scores.sum(axes, keepdims=True).reshape(bias.shape))
    for leaf, want in zip(leaves, wanted, strict=True):
        np.testing.assert_allclose(double(leaf.grad), want, atol=1e-12)


def test_peer_flash_attention_352_its_functions_take_no_mask() -> None:
    # Still so in the 2.x releases: padding goes by packing, anything else does not go.
    flash = pytest.importorskip("flash_attn", exc_type=ImportError)
    for name in ("flash_attn_func", "flash_attn_varlen_func"):
        parameters = inspect.signature(getattr(flash, name)).parameters
        assert not {"mask", "attn_mask", "bias", "attn_bias"} & set(parameters)


@pytest.mark.parametrize("engine", ENGINES)
def test_flash_attention_352_padding_or_any_mask_goes_with_a_learned_bias(
    engine: str, formula: Any, gradients: Any
) -> None:
    arrays = tensors(2, 3, 5, 4)
    rng = np.random.default_rng(1)
    bias = torch.tensor(rng.normal(size=(3, 5, 5)))
    padding = np.arange(5) < np.array([3, 5])[:, None, None, None]
    free = rng.random((2, 1, 5, 5)) < 0.6
    for mask, seen in (
        (regard.lengths([3, 5]), padding),
        (regard.keep(torch.tensor(free)), free),
        (regard.lengths([3, 5]) & regard.keep(torch.tensor(free)), padding & free),
    ):
        check_gradients(engine, arrays, bias, mask, seen, (formula, gradients))


def test_peer_xformers_783_the_flash_operator_gives_a_bias_no_gradient() -> None:
    # Still so for that operator; the one from CUTLASS has learned to.
    fmha = pytest.importorskip("xformers.ops.fmha", exc_type=ImportError)
    assert not fmha.flash.BwOp.SUPPORTS_ATTN_BIAS_GRAD


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(2, 3, 5, 5), (2, 1, 5, 5), (5, 5), (1, 5)], ids=str)
def test_xformers_783_a_bias_of_any_broadcast_shape_is_learned(
    engine: str, shape: tuple[int, ...], formula: Any, gradients: Any
) -> None:
    arrays = tensors(2, 3, 5, 4)
    bias = torch.tensor(np.random.default_rng(1).normal(size=shape))
    seen = np.tri(5, dtype=bool)
    check_gradients(engine, arrays, bias, regard.causal(), seen, (formula, gradients))


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning")
def test_peer_attention_gym_20_a_captured_bias_is_learned_only_beside_fixed_inputs() -> None:
    # Mended in part: torch 2.13 gives a captured table its gradient, but on a CPU it refuses
    # queries that have one themselves, which in training they have.
    from torch.nn.attention.flex_attention import flex_attention

    q, k, v = torch.randn(3, 1, 1, 8, 4)
    table = torch.randn(15, requires_grad=True)

    def relative(score: Any, b: Any, h: Any, i: Any, j: Any) -> Any:
        return score + table[i - j + 7]

    flex_attention(q, k, v, score_mod=relative).square().sum().backward()
    found, table.grad = table.grad, None
    distance = torch.arange(8)[:, None] - torch.arange(8) + 7
    torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=table[distance][None, None]
    ).square().sum().backward()
    torch.testing.assert_close(found, table.grad)
    with pytest.raises(NotImplementedError, match="does not support backward on CPU"):
        flex_attention(q.requires_grad_(), k, v, score_mod=relative)


@pytest.mark.parametrize("engine", ENGINES)
def test_attention_gym_20_a_table_of_distances_is_learned_with_everything_else(
    engine: str, formula: Any, gradients: Any
) -> None:
    q, k, v = tensors(1, 2, 8, 4)
    table = torch.tensor(np.random.default_rng(1).normal(size=(2, 15)))
    leaves = [a.clone().requires_grad_() for a in (q, k, v, table)]
    output = regard.attend(
        *leaves[:3], regard.causal(), bias=regard.relative(leaves[3]), engine=engine
    )
    distance = np.arange(8) - np.arange(8)[:, None] + 7  # position of the key − that of the query
    bias, seen = table.numpy()[:, distance], np.tri(8, dtype=bool)
    np.testing.assert_allclose(double(output), formula(q, k, v, seen, bias).output, atol=1e-12)
    upstream = torch.cos(output.detach() * 3)
    output.backward(upstream)
    *wanted, scores = gradients(q, k, v, upstream, seen, bias)
    summed = np.zeros((2, 15))
    for h in range(2):
        np.add.at(summed[h], distance, scores[0, h])
    for leaf, want in zip(leaves, [*wanted, summed], strict=True):
        np.testing.assert_allclose(double(leaf.grad), want, atol=1e-12)
