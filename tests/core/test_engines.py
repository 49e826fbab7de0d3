"""Every engine agrees with the formula in float64, inside the contract's tolerance."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, arrays, cases, strips_of
from tolerance import assert_within, bounds, exact, loss

KINDS = [("numpy", d) for d in ("float16", "float32", "float64")]
KINDS += [("torch", d) for d in ("float16", "bfloat16", "float32", "float64")]
KINDS += [("strict", "float32"), ("strict", "float64")]


BUDGETS = st.sampled_from([1, 24, 1 << 20])
"""Rows of one, small strips, one strip."""
DTYPES = st.sampled_from(["float16", "bfloat16", "float32", "float64"])


@given(case=cases(), kind=st.sampled_from(KINDS), budget=BUDGETS)
@settings(max_examples=200)
def test_tiles_agree_with_the_formula(case: Case, kind: tuple[str, str], budget: int) -> None:
    args, options = arrays(case, *kind)
    with strips_of(budget):
        found = regard.attend(*args, **options, engine="tiles")
    assert_within([found], exact(case, kind[1]), bounds(case, kind[1]), case)


@given(case=cases() | cases(plain=True), dtype=DTYPES)
@settings(max_examples=150)
def test_sdpa_agrees_with_the_formula_or_refuses_by_name(case: Case, dtype: str) -> None:
    args, options = arrays(case, "torch", dtype)
    if {"softcap", "sink"} & set(case.options):
        with pytest.raises(regard.EngineError, match="engine='sdpa' cannot do this call: it has"):
            regard.attend(*args, **options, engine="sdpa")
        return
    found = regard.attend(*args, **options, engine="sdpa")
    assert_within([found], exact(case, dtype), bounds(case, dtype), case)


@pytest.mark.parametrize("engine", ["tiles", "sdpa"])
@given(case=cases() | cases(plain=True), dtype=DTYPES)
@settings(max_examples=100)
def test_gradients_agree_with_those_of_the_formula(engine: str, case: Case, dtype: str) -> None:
    (q, k, v, mask), options = arrays(case, "torch", dtype)
    if engine == "sdpa" and {"softcap", "sink"} & set(case.options):
        return
    leaves = [a.clone().requires_grad_() for a in (q, k, v)]
    output = regard.attend(*leaves, mask, **options, engine=engine)
    found = [output, *torch.autograd.grad(loss(output), leaves)]
    assert_within(found, exact(case, dtype, True), bounds(case, dtype, True), case)


def test_gradcheck_of_tiles_with_everything_that_has_a_gradient() -> None:
    g = torch.Generator().manual_seed(0)
    q = torch.randn(2, 3, 2, generator=g, dtype=torch.float64, requires_grad=True)
    k, v = (
        torch.randn(1, 4, 2, generator=g, dtype=torch.float64, requires_grad=True) for _ in range(2)
    )
    bias = torch.randn(2, 3, 4, generator=g, dtype=torch.float64, requires_grad=True)
    sink = torch.randn(2, generator=g, dtype=torch.float64, requires_grad=True)

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, b: torch.Tensor, s: torch.Tensor):
        mask = regard.causal() & regard.window(3)
        return regard.attend(q, k, v, mask, bias=b, sink=s, softcap=2.0, engine="tiles")

    with strips_of(12):
        assert torch.autograd.gradcheck(f, (q, k, v, bias, sink))
        assert torch.autograd.gradgradcheck(f, (q, k, v, bias, sink))


@given(case=cases(plain=True))
@settings(max_examples=60)
def test_numpy_and_torch_give_the_same_numbers(case: Case) -> None:
    args, options = arrays(case, "numpy", "float32")
    there, other = arrays(case, "torch", "float32")
    one = regard.attend(*args, **options)
    two = regard.attend(*there, **other, engine="tiles")
    np.testing.assert_allclose(one, two.numpy(), rtol=2e-5, atol=2e-6)


def test_a_bias_wider_than_the_queries_is_not_rounded() -> None:
    x = torch.randn(6, 4).half()
    expected = regard.attend(x, x, x, engine="formula")
    for number in (1e5, -1e5):  # one number added to all scores, and beyond float16
        found = regard.attend(x, x, x, bias=torch.full((1, 6), number))
        torch.testing.assert_close(found, expected, rtol=0, atol=2e-2)


def test_a_bias_and_a_sink_get_the_formulas_gradients() -> None:
    q, k, v = (torch.randn(2, 4, 5, 3, dtype=torch.float64) for _ in range(3))
    for shape in ((5, 5), (1, 5), (4, 5, 1), (2, 1, 5, 5), (1, 1)):
        grads = []
        for engine in ("formula", "tiles", "sdpa"):
            bias = torch.ones(shape, dtype=torch.float64, requires_grad=True)
            output = regard.attend(q, k, v, regard.causal(), bias=bias, engine=engine)
            grads += torch.autograd.grad(loss(output), bias)
        torch.testing.assert_close(grads[1], grads[0], rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(grads[2], grads[0], rtol=1e-9, atol=1e-11)
    grads = []
    for engine in ("formula", "tiles"):
        sink = torch.ones(4, dtype=torch.float64, requires_grad=True)
        output = regard.attend(q, k, v, regard.causal(), sink=sink, engine=engine)
        grads += torch.autograd.grad(loss(output), sink)
    torch.testing.assert_close(grads[1], grads[0], rtol=1e-9, atol=1e-11)


def test_the_number_of_threads_changes_nothing() -> None:
    q, k, v = (torch.randn(4, 300, 32) for _ in range(3))
    before = torch.get_num_threads()
    try:
        found = []
        for n in (1, 2, 3):
            torch.set_num_threads(n)
            found.append(regard.attend(q, k, v, regard.causal(), engine="tiles"))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


def test_the_private_kernel_of_torch_is_what_the_engine_takes_it_for() -> None:
    """If this fails after an update of torch, look at ``engines/sdpa.py`` before anything else."""
    op = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    assert str(op._schema) == (
        "aten::_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value,"
        " float dropout_p=0., bool is_causal=False, *, Tensor? attn_mask=None, float? scale=None)"
        " -> (Tensor output, Tensor logsumexp)"
    )
    q, k, v = (torch.randn(2, 3, 7, 8) for _ in range(3))
    output, lse = op(q, k, v, is_causal=True, scale=0.3)
    W = regard.weights(q.double(), k.double(), regard.causal(), scale=0.3, engine="formula")
    assert output.shape == q.shape
    assert lse.shape == (2, 3, 7)
    torch.testing.assert_close(lse.double(), W.lse, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(output.double(), W @ v.double(), rtol=1e-4, atol=1e-5)
    hidden = torch.zeros(7, 7)
    hidden[2] = float("-inf")
    assert (op(q, k, v, attn_mask=hidden)[1][:, :, 2] == 0).all()  # which we read as −∞


@pytest.mark.parametrize("engine", ["tiles", "sdpa"])
@given(case=cases(plain=True), dtype=st.sampled_from(["bfloat16", "float32", "float64"]))
@settings(max_examples=60)
def test_lse_of_a_partial_is_the_formulas(engine: str, case: Case, dtype: str) -> None:
    (q, k, v, mask), options = arrays(case, "torch", dtype)
    wide = [a.double() for a in (q, k, v)]
    truth = regard.partial(*wide, mask, **options, engine="formula")
    if engine == "sdpa" and q.shape[-3] != k.shape[-3]:
        with pytest.raises(regard.EngineError, match="it returns lse"):
            regard.partial(q, k, v, mask, **options, engine=engine)
        return
    found = regard.partial(q, k, v, mask, **options, engine=engine)
    assert found.lse.dtype == (torch.float64 if dtype == "float64" else torch.float32)
    # Sums of products in float32: an error of eps for each of D products and of S exponentials.
    n, most = q.shape[-1] + k.shape[-2], float(q.abs().max() * k.abs().max()) * q.shape[-1]
    allowed = 8 * n * (2.0**-53 if dtype == "float64" else 2.0**-24) * (1 + most)
    torch.testing.assert_close(found.lse.double(), truth.lse, rtol=0, atol=allowed)
