"""The definition equals attention written out by hand, in every array library."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, arrays, by_hand, cases, double


@given(case=cases(), library=st.sampled_from(["numpy", "strict", "torch"]))
@settings(max_examples=150)
def test_output_weights_and_lse_are_those_written_out_by_hand(case: Case, library: str) -> None:
    output, w, lse = by_hand(case)
    (q, k, v, mask), options = arrays(case, library, "float64")
    W = regard.weights(q, k, mask, **options, engine="formula")
    found = regard.attend(q, k, v, mask, **options, engine="formula")
    np.testing.assert_allclose(double(found), output, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(double(W.dense()), w, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(double(W.lse), lse, rtol=1e-11, atol=1e-12)


def test_a_plain_2d_call_works_as_a_beginner_writes_it() -> None:
    x = np.array([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
    scores = x @ x.T / np.sqrt(2)
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    np.testing.assert_allclose(regard.attend(x, x, x, engine="formula"), p @ x, rtol=1e-14)


@pytest.mark.parametrize("engine", ["formula", "tiles"])
def test_rows_sum_to_one_with_the_sink_counted(engine: str) -> None:
    rng = np.random.default_rng(1)
    q, k, sink = rng.normal(size=(3, 5, 4)), rng.normal(size=(3, 6, 4)), rng.normal(size=3)
    W = regard.weights(q, k, sink=sink, engine=engine)
    on_sink = np.exp(sink[:, None] - W.lse)
    np.testing.assert_allclose(W.dense().sum(-1) + on_sink, 1, rtol=1e-12)


@pytest.mark.parametrize("engine", ["formula", "tiles", "sdpa"])
def test_a_query_that_may_attend_to_nothing(engine: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    q, k, v = (torch.tensor(rng.normal(size=(2, 4, 3)), requires_grad=True) for _ in range(3))
    mask = regard.keep(np.array([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]], bool))
    output = regard.attend(q, k, v, mask, engine=engine)
    assert (output[:, 1] == 0).all()
    grads = torch.autograd.grad(output.sin().sum(), (q, k, v))
    assert all(bool(torch.isfinite(g).all()) for g in grads)
    assert (grads[0][:, 1] == 0).all()
    if engine != "sdpa":
        W = regard.weights(q, k, mask, engine=engine)
        assert (W.dense()[:, 1] == 0).all()
        assert (W.lse[:, 1] == -np.inf).all()
        assert (W.entropy()[:, 1] == 0).all()
        assert (W.topk(2).keys[:, 1] == -1).all()
    with torch.no_grad():
        lse = regard.partial(q, k, v, mask, engine=engine).lse
    assert (lse[:, 1] == -np.inf).all()
    assert torch.isfinite(lse[:, [0, 2, 3]]).all()


@given(case=cases(plain=True), library=st.sampled_from(["numpy", "torch"]))
@settings(max_examples=120)
def test_poison_in_hidden_keys_and_values_never_shows(case: Case, library: str) -> None:
    seen = case.seen()
    lead, H, G, T, S = case.sizes
    hidden = ~seen.reshape(*lead, G, H // G * T, S).any(-2)
    for bad in (np.nan, np.inf, -np.inf):
        k, v = case.k.copy(), case.v.copy()
        k[hidden], v[hidden] = bad, bad
        dirty = Case(case.q, k, v, case.mask, case.allowed, case.start, case.options)
        for engine in ("formula", "tiles"):
            (q, k1, v1, mask), options = arrays(case, library, "float64")
            (_, k2, v2, _), _ = arrays(dirty, library, "float64")
            clean = regard.attend(q, k1, v1, mask, **options, engine=engine)
            found = regard.attend(q, k2, v2, mask, **options, engine=engine)
            np.testing.assert_allclose(double(found), double(clean), rtol=1e-9, atol=1e-12)
            w = regard.weights(q, k2, mask, **options, engine=engine).dense()
            assert np.isfinite(double(w)).all()


@pytest.mark.parametrize("engine", ["formula", "tiles"])
def test_poison_that_some_queries_see_spares_the_others_and_their_gradients(engine: str) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    q, k, v = (torch.tensor(rng.normal(size=(1, 4, 3))) for _ in range(3))
    k[:, 2], v[:, 2] = float("nan"), float("inf")
    q, k, v = (a.requires_grad_() for a in (q, k, v))
    output = regard.attend(q, k, v, regard.causal(), softcap=3.0, engine=engine)
    assert torch.isfinite(output[:, :2]).all()
    assert not torch.isfinite(output[:, 2:]).any()
    (grad,) = torch.autograd.grad(output[:, :2].sum(), q)
    assert torch.isfinite(grad[:, :2]).all()


@pytest.mark.parametrize("engine", ["formula", "tiles"])
def test_a_visible_infinity_in_a_value_stays_an_infinity(engine: str) -> None:
    v = np.array([[1.0, 2.0], [np.inf, 3.0], [5.0, -np.inf]])
    output = regard.attend(np.zeros((3, 2)), np.zeros((3, 2)), v, regard.causal(), engine=engine)
    np.testing.assert_array_equal(output, [[1, 2], [np.inf, 2.5], [np.inf, -np.inf]])
