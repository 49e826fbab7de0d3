"""The C++ engine's gradients against the formula in float64, at every dispatch level."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, arrays, cases, double
from levels import LEVELS, at_level, call_of, large
from regard.core.engines import native
from tolerance import assert_within, bounds, exact, loss

EPS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}


def gradients(
    call: Callable[..., Any], leaves: list[torch.Tensor], seed: int = 0
) -> list[torch.Tensor]:
    """Of what ``call`` returns, along random cotangents."""
    leaves = [a.detach().requires_grad_() for a in leaves]
    found = call(*leaves)
    outputs = [found] if isinstance(found, torch.Tensor) else list(found)
    g = torch.Generator().manual_seed(seed)
    along = [torch.randn(o.shape, generator=g).to(o.dtype) for o in outputs]
    return list(torch.autograd.grad(outputs, leaves, along))


def assert_by_engine(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """A list that says of each gradient whether the engine gave it."""
    given: list[bool] = []
    own = native.vjp

    def vjp(*args: Any) -> Any:
        found = own(*args)
        given.append(found is not None)
        return found

    monkeypatch.setattr(native, "vjp", vjp)
    return given


@pytest.mark.parametrize("level", LEVELS)
@given(case=cases(), dtype=st.sampled_from(["float16", "bfloat16", "float32", "float64"]))
@settings(max_examples=30)
def test_every_level_keeps_the_tolerance(level: str, case: Case, dtype: str) -> None:
    (q, k, v, mask), options = arrays(case, "torch", dtype)
    leaves = [a.detach().requires_grad_() for a in (q, k, v)]
    with at_level(level):
        output = regard.attend(*leaves, mask, **options, engine="native")
        found = torch.autograd.grad(loss(output), leaves)
    truth, allowed = exact(case, dtype, True), bounds(case, dtype, True)
    assert_within([output, *found], truth, allowed, case)


@pytest.mark.parametrize("level", LEVELS)
@given(drawn=large(), dtype=st.sampled_from(list(EPS)))
@settings(max_examples=12)
def test_large_calls_agree_with_the_formula(
    level: str, drawn: dict[str, Any], dtype: torch.dtype
) -> None:
    args, options = call_of(drawn, dtype)
    sink = "sink" in options
    learned = [n for n in ("sink", "bias") if isinstance(options.get(n), torch.Tensor)]
    more = [options.pop(n) for n in learned]
    ask = regard.attend if sink else regard.partial

    def call(engine: str, wide: bool) -> Callable[..., Any]:
        def run(*leaves: torch.Tensor) -> Any:
            given = dict(zip(learned, leaves[3:], strict=True))
            fixed = {n: a.double() if wide and isinstance(a, torch.Tensor) else a
                     for n, a in options.items()}  # fmt: skip
            return ask(*leaves[:3], **{**fixed, **given}, engine=engine)

        return run

    with at_level(level):
        found = gradients(call("native", False), [*args, *more])
    truth = gradients(call("formula", True), [a.double() for a in (*args, *more)])
    # Weights, and what they are multiplied by, are rounded; an error of a score moves a weight by
    # as much.  Each gradient is a sum of such terms of both signs.
    scores = float(args[0].abs().max() * args[1].abs().max()) * args[0].shape[-1] ** 0.5
    share = 6 * EPS[dtype] + 16 * 2.0**-24 * (1 + scores)
    sizes = magnitudes(args, options, drawn)
    for got, want, size in zip(found, truth, sizes + [sizes[2]] * len(more), strict=True):
        far = float((got.double() - want).abs().max())
        assert far <= share * max(size, float(want.abs().max())), (drawn, far, share, size)


def magnitudes(args: list[torch.Tensor], options: dict[str, Any], drawn: Any) -> list[float]:
    """What the terms of dq, dk and dv add up to at most."""
    q, k, v = (float(a.abs().max()) for a in args)
    T, S, E = args[0].shape[-2], args[1].shape[-2], args[2].shape[-1]
    group = args[0].shape[1] // args[1].shape[1]
    scale = abs(options.get("scale") or args[0].shape[-1] ** -0.5)
    ds = 8 * E**0.5 * v
    received = max(1.0, min(T * group, 3 * T * group / min(S, 32)))
    return [scale * ds * k, scale * ds * q * received, 4 * received + ds * received]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_biases_get_their_gradients_whatever_they_are_broadcast_over(
    level: str, dtype: torch.dtype
) -> None:
    B, H, T, S = 2, 4, 70, 90
    q, k, v = (torch.randn(B, h, n, 16) for h, n in ((H, T), (2, S), (2, S)))
    shapes = [(T, S), (H, T, S), (B, H, T, S), (B, 1, T, S), (1, S), (T, 1), (B, H, 1, S), (1, 1)]
    for shape in shapes:
        for mask in (None, regard.causal() & regard.window(40)):

            def call(*a: Any, mask: Any = mask, engine: str = "native") -> Any:
                bias, table, slopes, weight = a[3:]
                scores = regard.relative(table) + regard.alibi(slopes) + bias
                scores = scores + regard.t5_relative(weight)
                return regard.attend(*a[:3], mask, bias=scores, engine=engine)

            more = [torch.randn(shape), torch.randn(H, 31), torch.rand(H) / 9, torch.randn(32, H)]
            leaves = [q, k, v, *more]
            with at_level(level):
                found = gradients(call, [a.to(dtype) for a in leaves])
            truth = gradients(
                partial(call, engine="formula"), [a.to(dtype).double() for a in leaves]
            )
            for got, want in zip(found, truth, strict=True):
                assert got.dtype == dtype
                # A sum over many pairs cancels, and with them their errors only by and by.
                terms = B * H * T * S / want.numel()
                size = max(float(want.abs().max()), 0.01 * terms**0.5)
                eps = {torch.float32: 2e-5, torch.bfloat16: 4e-2, torch.float64: 1e-12}[dtype]
                far = float((got.double() - want).abs().max())
                assert far <= eps * max(size, 1), (shape, want.shape, far, size)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_dropout_drops_the_same_weights(level: str, dtype: torch.dtype) -> None:
    leaves = [torch.randn(2, 3, 70, 16).to(dtype) for _ in range(3)]
    for mask in (regard.causal(), regard.where(lambda i, j: (i + j) % 2 == 0)):

        def call(*a: Any, mask: Any = mask, engine: str = "native") -> Any:
            return regard.attend(*a, mask, dropout=0.4, generator=5, engine=engine)

        with at_level(level):
            found = gradients(call, leaves)
        truth = gradients(partial(call, engine="formula"), [a.double() for a in leaves])
        for got, want in zip(found, truth, strict=True):
            eps = {torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float64: 1e-12}[dtype]
            assert float((got.double() - want).abs().max()) <= eps * float(want.abs().max())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("what", range(4))
def test_what_is_hidden_reaches_no_gradient(level: str, dtype: torch.dtype, what: int) -> None:
    q, k, v = (torch.randn(1, 2, 80, 16).to(dtype) for _ in range(3))
    hidden, bad = 60, [torch.nan, torch.inf, -torch.inf, 0.0][what]
    mask = regard.keep((torch.arange(80) != hidden)[None])
    for rule in (mask, regard.lengths(hidden)):
        k[:, :, hidden:], v[:, :, hidden:] = 0, 0
        with at_level(level):
            clean = gradients(lambda *a: regard.attend(*a, rule, engine="native"), [q, k, v])  # noqa: B023
            k[:, :, hidden], v[:, :, hidden] = bad, bad
            found = gradients(lambda *a: regard.attend(*a, rule, engine="native"), [q, k, v])  # noqa: B023
        for got, want in zip(found, clean, strict=True):
            assert torch.isfinite(got).all()
            torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)
        assert (found[1][:, :, hidden] == 0).all()
        assert (found[2][:, :, hidden] == 0).all()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_an_empty_row_has_no_gradient(
    level: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = assert_by_engine(monkeypatch)
    q, k, v = (torch.randn(2, 2, 70, 16).to(dtype) for _ in range(3))
    with at_level(level):
        found = gradients(
            lambda *a: regard.partial(*a, regard.lengths([0, 50]), start=-9, engine="native"),
            [q, k, v],
        )
        past = gradients(
            lambda *a: regard.attend(*a, regard.causal(), start=-9, engine="native"), [q, k, v]
        )
    assert given == [True, True]
    assert all((g[0] == 0).all() for g in found)
    assert (past[0][:, :, :9] == 0).all()
    assert (past[1][:, :, 61:] == 0).all()
    assert all(torch.isfinite(g).all() for g in (*found, *past))


def test_gradcheck(monkeypatch: pytest.MonkeyPatch) -> None:
    given = assert_by_engine(monkeypatch)
    shapes = [(2, 4, 4, 3), (2, 2, 5, 3), (2, 2, 5, 2), (4, 4, 5), (4,), (4, 5), (4,)]
    arrays = [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes]

    def call(q: Any, k: Any, v: Any, bias: Any, slopes: Any, table: Any, sink: Any) -> Any:
        scores = regard.alibi(slopes) + regard.relative(table) + bias
        return regard.attend(q, k, v, regard.causal(), bias=scores, softcap=3.0, sink=sink,
                             dropout=0.2, generator=1, engine="native")  # fmt: skip

    assert torch.autograd.gradcheck(call, arrays, fast_mode=True)
    assert all(given)
    assert torch.autograd.gradgradcheck(call, arrays, fast_mode=True)


def test_the_number_of_threads_changes_no_bit() -> None:
    calls = []
    options = {"dropout": 0.1, "generator": 2, "engine": "native"}

    def biased(q: Any, k: Any, v: Any, bias: Any) -> Any:
        return regard.attend(q, k, v, regard.causal(), bias=bias, **options)

    def plain(q: Any, k: Any, v: Any) -> Any:
        return regard.attend(q, k, v, regard.causal(), engine="native")

    for T, S, H, G, dtype in (
        (300, 300, 4, 4, torch.float32),
        (600, 200, 1, 1, torch.bfloat16),
        (5, 700, 8, 2, torch.float32),
        (64, 64, 16, 16, torch.float16),
    ):
        leaves = [torch.randn(2, h, n, 64).to(dtype) for h, n in ((H, T), (G, S), (G, S))]
        calls.append(partial(gradients, biased, [*leaves, torch.randn(1, 1, S)]))
        calls.append(partial(gradients, plain, leaves))
    expected = [call() for call in calls]
    try:
        for n in (1, 2, 3):
            regard.set_threads(n)
            for call, want in zip(calls, expected, strict=True):
                for got, one in zip(call(), want, strict=True):
                    assert torch.equal(got, one)
    finally:
        regard.set_threads(None)


def test_arrays_and_cotangents_are_taken_where_they_lie() -> None:
    x = torch.randn(2, 40, 3, 32)
    views = [x.transpose(1, 2)[..., :16], x.transpose(1, 2)[..., 16:], x.transpose(1, 2)[..., ::2]]
    leaves = [a.detach().requires_grad_() for a in views]
    for loss_of in (torch.sum, lambda o: (o.transpose(-1, -2) * torch.arange(40.0)).sum()):
        out = regard.attend(*leaves, engine="native")
        found = torch.autograd.grad(loss_of(out), leaves)
        wide = [a.detach().double().requires_grad_() for a in views]
        out = regard.attend(*wide, engine="formula")
        truth = torch.autograd.grad(loss_of(out.float()), wide)
        for got, want in zip(found, truth, strict=True):
            torch.testing.assert_close(got.double(), want.double(), rtol=1e-4, atol=1e-4)


def test_only_the_wanted_gradients_are_computed() -> None:
    q, k, v = (torch.randn(1, 2, 70, 16) for _ in range(3))
    whole = gradients(lambda *a: regard.attend(*a, engine="native"), [q, k, v])
    for i, want in enumerate(whole):

        def call(x: torch.Tensor, i: int = i) -> torch.Tensor:
            return regard.attend(*[x if n == i else a for n, a in enumerate((q, k, v))],
                                 engine="native")  # fmt: skip

        (found,) = gradients(call, [(q, k, v)[i]])
        assert torch.equal(found, want)


def test_an_output_that_was_written_into_is_computed_again() -> None:
    leaves = [torch.randn(1, 2, 70, 16, requires_grad=True) for _ in range(3)]
    want = torch.autograd.grad(regard.attend(*leaves, engine="native").sum() * 2, leaves)
    output = regard.attend(*leaves, engine="native")
    twice = output.mul_(2)
    for _ in range(2):
        found = torch.autograd.grad(twice.sum(), leaves, retain_graph=True)
        for got, one in zip(found, want, strict=True):
            torch.testing.assert_close(got, one)


def test_nobody_holds_on_to_the_output() -> None:
    import gc
    import weakref

    leaves = [torch.randn(1, 2, 70, 16, requires_grad=True) for _ in range(3)]
    gc.disable()
    try:
        output = regard.attend(*leaves, engine="native")
        gone = weakref.ref(output)
        del output
        assert gone() is None
    finally:
        gc.enable()


def test_auto_takes_the_engine_for_gradients_but_in_float64() -> None:
    x = np.zeros((1, 2, 8, 16))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        leaf = torch.tensor(x, dtype=dtype, requires_grad=True)
        assert regard.plan(leaf, leaf, leaf).engine == "native"
    leaf = torch.tensor(x, requires_grad=True)
    plan = regard.plan(leaf, leaf, leaf)
    assert plan.engine == "sdpa"
    assert "one row after another" in plan.refused["native"]
    assert double(regard.attend(leaf, leaf, leaf)).shape == x.shape
