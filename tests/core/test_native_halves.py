"""float16 in the C++ engine, which some levels multiply as the sum of two bfloat16."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from levels import LEVELS, at_level, check_extremes
from regard.core.engines import native

HALF = torch.float16
NAN, INF = float("nan"), float("inf")


def draw(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def lse_of(*args: Any, engine: str = "native", **options: Any) -> torch.Tensor:
    lse = regard.partial(*args, **options, engine=engine).lse
    assert isinstance(lse, torch.Tensor)
    return lse.double()


@pytest.mark.parametrize("level", LEVELS)
@given(
    D=st.integers(1, 256),
    E=st.integers(1, 256),
    T=st.sampled_from([17, 33, 70]),
    S=st.sampled_from([1, 31, 65, 150]),
    size=st.sampled_from([2.0**-24, 2.0**-14, 1.0, 100.0, 2000.0]),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=8)
def test_scores_are_exact_but_for_the_rounding_of_their_sums(
    level: str, D: int, E: int, T: int, S: int, size: float, seed: int
) -> None:
    # Of a number the low part is up to 2⁻⁷, and the product of two of these must not be left out.
    q, k, v = draw(seed, 1, 2, T, D), draw(seed + 1, 1, 1, S, D), draw(seed + 2, 1, 1, S, E)
    q = (q * size).to(HALF)
    k, v = k.to(HALF), (v * 2.0 ** (seed % 32 - 24)).to(HALF)
    with at_level(level):
        lse = lse_of(q, k, v)
        found = regard.attend(q, k, v, engine="native")
    wide = [a.double() for a in (q, k, v)]
    terms = (wide[0].abs() @ wide[1].abs().mT).amax() * D**-0.5
    error = float(8 * 2.0**-23 * (4 + terms))
    torch.testing.assert_close(lse, lse_of(*wide, engine="formula"), rtol=0, atol=error)
    truth = regard.attend(*wide, engine="formula")
    # What a float16 holds to 11 bits, subnormal ones to 2⁻²⁵.
    allowed = (2.0**-10 + min(1.0, 2 * error)) * float(wide[2].abs().max()) + 2.0**-24
    torch.testing.assert_close(found.double(), truth, rtol=0, atol=allowed)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("scale", [None, -0.3])
def test_what_is_not_finite_is_the_formulas(level: str, scale: float | None) -> None:
    """Scores of −∞ are legal, one of +∞ or NaN spoils its row, and other rows do not notice."""
    q, k, v = (draw(i, 1, 2, n, 40).to(HALF) for i, n in enumerate((40, 70, 70)))
    mask = regard.window(before=5, after=9)
    with at_level(level):
        clean = regard.attend(q, k, v, mask, scale=scale, engine="native")
    seen = regard.weights(q, k, mask, scale=0.0).dense() > 0
    for bad in (INF, -INF, NAN):
        for which in range(3):
            args = [q.clone(), k.clone(), v.clone()]
            args[which][0, 0, 3, 7] = args[which][0, 1, 16, 39] = bad
            with at_level(level):
                found = regard.attend(*args, mask, scale=scale, engine="native")
            wide = [a.double() for a in args]
            truth = regard.attend(*wide, mask, scale=scale, engine="formula")
            torch.testing.assert_close(found.double(), truth, rtol=2e-2, atol=2e-2, equal_nan=True)
            for head, place in ((0, 3), (1, 16)):
                hidden = torch.arange(40) != place if which == 0 else ~seen[0, head, :, place]
                assert torch.equal(found[0, head, hidden], clean[0, head, hidden]), (which, bad)


@pytest.mark.parametrize("level", LEVELS)
def test_infinite_and_huge_scores_are_the_formulas(level: str) -> None:
    q = torch.tensor([1.0, -1.0, 0.0, 2.0**-24, 100.0]).repeat(8)[None, :, None].to(HALF)
    check_extremes(level, q, alone=40)


@pytest.mark.parametrize("level", LEVELS)
def test_dropout_is_the_formulas(level: str) -> None:
    q, k, v = (draw(i, 2, 3, 70, 24).to(HALF) for i in range(3))
    for mask in (regard.causal(), regard.where(lambda i, j: (i + j) % 2 == 0)):
        found, truth = [], []
        for engine, to, dtype in (("native", found, HALF), ("formula", truth, torch.float64)):
            leaves = [a.to(dtype).requires_grad_() for a in (q, k, v)]
            with at_level(level):
                output = regard.attend(*leaves, mask, dropout=0.4, generator=5, engine=engine)
            to += [output.detach(), *torch.autograd.grad(output.sum(), leaves)]
        for got, want in zip(found, truth, strict=True):
            most = max(1.0, float(want.abs().max()))
            torch.testing.assert_close(got.double(), want, rtol=0, atol=4e-3 * most)


@pytest.mark.parametrize("level", LEVELS)
def test_questions_and_outputs_are_of_the_same_scores(level: str) -> None:
    q, k, v = (
        draw(i, 1, h, n, 64).to(HALF) for i, (h, n) in enumerate(((4, 90), (2, 300), (2, 300)))
    )
    q = q * 50
    with at_level(level):
        W = regard.weights(q, k, regard.causal(), engine="native")
        lse = lse_of(q, k, v, mask=regard.causal())
        asked, dense = torch.as_tensor(W.lse).double(), torch.as_tensor(W.dense()).double()
        found = regard.attend(q, k, v, regard.causal(), engine="native")
    torch.testing.assert_close(asked, lse, rtol=2.0**-20, atol=2.0**-20)
    wide_v = v.double().repeat_interleave(2, 1)
    torch.testing.assert_close(found.double(), dense @ wide_v, rtol=2e-3, atol=2e-3)


def test_the_number_of_threads_changes_no_bit() -> None:
    leaves = [
        draw(i, 1, h, n, 48).to(HALF) for i, (h, n) in enumerate(((4, 300), (2, 700), (2, 700)))
    ]

    def call() -> list[torch.Tensor]:
        given = [a.detach().requires_grad_() for a in leaves]
        output = regard.attend(*given, regard.causal(), engine="native")
        return [output.detach(), *torch.autograd.grad(output.float().sin().sum(), given)]

    want = call()
    try:
        for n in (1, 2, 3):
            regard.set_threads(n)
            assert native._native.threads() == n
            for got, one in zip(call(), want, strict=True):
                assert torch.equal(got, one)
    finally:
        regard.set_threads(None)
