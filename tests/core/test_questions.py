"""The answers to every question equal what NumPy finds in the dense matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, arrays, as_library, by_hand, cases, double, strips_of
from regard.core.questions import ByDistance, TopK

CLOSE: dict[str, float] = {"rtol": 1e-9, "atol": 1e-11}


@pytest.mark.parametrize("engine", ["tiles", "formula"])
@given(
    case=cases(longest=12),
    library=st.sampled_from(["numpy", "strict", "torch"]),
    k=st.integers(1, 14),
    pixels=st.tuples(st.integers(1, 13), st.integers(1, 13)),
    budget=st.sampled_from([1, 24, 1 << 20]),
    data=st.data(),
)
@settings(max_examples=80)
def test_all_questions_in_one_pass(
    engine: str,
    case: Case,
    library: str,
    k: int,
    pixels: tuple[int, int],
    budget: int,
    data: Any,
) -> None:
    _, w, lse = by_hand(case)
    T, S = w.shape[-2:]
    keys = data.draw(st.lists(st.integers(0, S - 1), max_size=4))
    row, key = data.draw(st.integers(0, T - 1)), data.draw(st.integers(0, S - 1))
    how = data.draw(st.sampled_from(["mean", "max", "sum"]))
    (q, kk, _, mask), options = arrays(case, library, "float64")
    W = regard.weights(q, kk, mask, **options, engine=engine)
    part = {"rows": slice(row, None), "keys": slice(0, key + 1), "reduce": how}
    with strips_of(budget):
        top, spread, got, along, on, whole, cut = W.ask(
            regard.topk(k),
            regard.entropy(),
            regard.received(),
            regard.by_distance(),
            regard.mass(keys),
            regard.image(*pixels),
            regard.image(*pixels, **part),
        )
    check_topk(top, w, k)
    np.testing.assert_allclose(double(spread), entropy_of(w, lse, case), **CLOSE)
    np.testing.assert_allclose(double(got), w.sum(-2), **CLOSE)
    check_distances(along, w, case)
    np.testing.assert_allclose(double(on), w[..., sorted(set(keys))].sum(-1), **CLOSE)
    np.testing.assert_allclose(double(whole), blocks(w, *pixels, "mean"), **CLOSE)
    expected = blocks(w[..., row:, : key + 1], *pixels, how)
    np.testing.assert_allclose(double(cut), expected, **CLOSE)
    np.testing.assert_allclose(double(W.lse), lse, **CLOSE)


@pytest.mark.parametrize("engine", ["tiles", "formula"])
@given(
    case=cases(longest=12),
    library=st.sampled_from(["numpy", "strict", "torch"]),
    ways=st.integers(0, 3),
    budget=st.sampled_from([1, 24, 1 << 20]),
    data=st.data(),
)
@settings(max_examples=60)
def test_queries_that_count_unlike_and_keys_of_each_querys_own(
    engine: str, case: Case, library: str, ways: int, budget: int, data: Any
) -> None:
    _, w, _ = by_hand(case)
    T, S = w.shape[-2:]
    numbers = st.lists(st.floats(-2, 2, width=16), min_size=T, max_size=T)
    by = np.array([data.draw(numbers) for _ in range(max(ways, 1))])
    near = data.draw(st.integers(1, 5))
    (q, k, _, mask), options = arrays(case, library, "float64")
    W = regard.weights(q, k, mask, **options, engine=engine)
    odd = regard.where(lambda i, j: (i + j) % 2 == 1)
    with strips_of(budget):
        got, local, mixed = W.ask(
            regard.received(by if ways else by[0]),
            regard.mass(regard.window(near)),
            regard.mass(odd | regard.prefix(1)),
        )
    want = by @ w if ways else (by @ w)[..., 0, :]
    np.testing.assert_allclose(double(got), want, **CLOSE)
    start = S - T if options.get("start") is None else np.asarray(options["start"])
    i, j = np.asarray(start)[..., None, None] + np.arange(T)[:, None], np.arange(S)
    if np.ndim(start):
        i = i[..., None, :, :]  # room for the heads
    inside = (j <= i) & (j > i - near)
    np.testing.assert_allclose(double(local), (w * inside).sum(-1), **CLOSE)
    inside = ((i + j) % 2 == 1) | (j < 1)
    np.testing.assert_allclose(double(mixed), (w * inside).sum(-1), **CLOSE)


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ([1.0, 2.0], r"\(T,\) or \(N, T\) with T = 3 queries, but its shape is \(2,\)"),
        (np.zeros((1, 1, 3)), r"its shape is \(1, 1, 3\)"),
        (["a", "b", "c"], "must be numbers, but it is <U1"),
        ([[1.0], [1.0, 2.0]], "rectangular"),
    ],
)
def test_a_count_of_queries_that_does_not_fit_is_refused(by: Any, says: str) -> None:
    with pytest.raises((regard.ShapeError, regard.KindError), match=says):
        regard.weights(np.eye(3), np.eye(3)).received(by)


def check_topk(top: TopK, w: np.ndarray, k: int) -> None:
    values, keys = double(top.weights), np.asarray(top.keys)
    want = -np.sort(-w, axis=-1)[..., :k]
    want = np.concatenate([want, np.zeros((*w.shape[:-1], k - want.shape[-1]))], -1)
    np.testing.assert_allclose(values, want, **CLOSE)
    there = np.take_along_axis(w, np.maximum(keys, 0), -1)
    np.testing.assert_allclose(np.where(keys >= 0, there, 0), values, **CLOSE)
    assert ((keys >= 0) == (values > 0)).all()
    for row in keys.reshape(-1, k):
        named = row[row >= 0]
        assert len(named) == len(set(named.tolist()))


def entropy_of(w: np.ndarray, lse: np.ndarray, case: Case) -> np.ndarray:
    sink = case.options.get("sink")
    if sink is not None:
        w = np.concatenate([w, np.exp(sink[:, None] - lse)[..., None]], -1)
    return -(w * np.log(np.where(w > 0, w, 1))).sum(-1)


def check_distances(found: ByDistance, w: np.ndarray, case: Case) -> None:
    lead, H, _, T, S = case.sizes
    start = np.broadcast_to(S - T if case.start is None else case.start, lead)
    distance = np.broadcast_to(np.asarray(found.distance), (*lead, T + S - 1))
    expected = np.zeros((*lead, H, T + S - 1))
    for i, j in np.ndindex(T, S):
        position = np.asarray(start)[..., None] + i - j == distance
        assert (position.sum(-1) == 1).all()
        expected += position[..., None, :] * w[..., i, j][..., None]
    np.testing.assert_allclose(double(found.weight), expected, **CLOSE)


def blocks(w: np.ndarray, height: int, width: int, how: str) -> np.ndarray:
    T, S = w.shape[-2:]
    a, b = -(-T // height), -(-S // width)
    rows = [slice(i, i + a) for i in range(0, T, a)]
    keys = [slice(j, j + b) for j in range(0, S, b)]
    reduce = getattr(np, how)
    return np.stack(
        [np.stack([reduce(w[..., r, k], (-2, -1)) for k in keys], -1) for r in rows], -2
    )


def test_the_helper_that_makes_blocks_can_fail() -> None:
    w = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(blocks(w, 1, 2, "sum"), [[8, 7]])
    assert not np.allclose(blocks(w, 1, 2, "sum"), blocks(w, 1, 2, "mean"))


@given(case=cases(), data=st.data())
@settings(max_examples=80)
def test_entries_by_any_index(case: Case, data: Any) -> None:
    _, w, _ = by_hand(case)
    (q, k, _, mask), options = arrays(case, "numpy", "float64")
    W = regard.weights(q, k, mask, **options, engine="tiles")

    def part(n: int) -> Any:
        slices, ints = st.slices(n), st.integers(-n, n - 1)
        return data.draw(st.one_of(slices, ints, st.lists(ints, min_size=1, max_size=3)))

    rows, keys = part(w.shape[-2]), part(w.shape[-1])
    apart = w[..., rows, :]  # NumPy would pair two lists; ours are the rows by the keys
    np.testing.assert_allclose(W[..., rows, keys], apart[..., keys], **CLOSE)
    if case.q.ndim == 4:
        np.testing.assert_allclose(
            W[0, -1, rows, keys],
            apart[0, -1][..., keys],
            **CLOSE,
        )


def test_w_at_v_is_attend_bit_for_bit() -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (torch.randn(2, 3, 40, 8) for _ in range(3))
    for options in ({}, {"softcap": 3.0}, {"mask": regard.causal()}):
        W = regard.weights(q, k, **options)
        assert torch.equal(W @ v, regard.attend(q, k, v, **options))
    x = np.eye(4)
    assert np.array_equal(regard.weights(x, x) @ x, regard.attend(x, x, x))


def test_answers_have_gradients() -> None:
    torch = pytest.importorskip("torch")
    g = torch.Generator().manual_seed(0)
    q, k = (
        torch.randn(1, 2, 5, 3, generator=g, dtype=torch.float64, requires_grad=True)
        for _ in range(2)
    )

    def answers(q: Any, k: Any) -> tuple[Any, ...]:
        W = regard.weights(q, k, regard.causal())
        top, *rest = W.ask(
            regard.topk(2),
            regard.entropy(),
            regard.received(),
            regard.mass([0, 3]),
            regard.image(2, 2),
        )
        return (top.weights, W.by_distance().weight, W.lse, *rest)

    assert torch.autograd.gradcheck(answers, (q, k))


def test_an_answer_asked_without_a_gradient_does_not_lose_later_ones() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(6, 4, requires_grad=True)
    W = regard.weights(x, x)
    with torch.no_grad():
        assert not W.lse.requires_grad
        assert not W.entropy().requires_grad
    assert W.lse.requires_grad
    assert W.entropy().requires_grad


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_indices_backwards_and_of_no_axes(library: str) -> None:
    x = as_library(np.random.default_rng(0).normal(size=(5, 3)), library, "float64")
    W = regard.weights(x, x)
    w = double(W.dense())
    np.testing.assert_array_equal(double(W[..., ::-1, ::-1]), w[::-1, ::-1])
    assert W[..., np.array(2), np.int64(-1)].shape == ()
    mask = regard.keep(np.tril(np.ones((5, 5), bool))[::-1])
    assert ((double(regard.weights(x, x, mask).dense()) > 0).sum(1) == [5, 4, 3, 2, 1]).all()
    shared = regard.keep(np.broadcast_to(np.arange(5) < 2, (5, 5)))
    assert ((double(regard.weights(x, x, shared).dense()) > 0).sum(1) == 2).all()


@pytest.mark.parametrize("engine", ["tiles", "formula"])
def test_a_sink_takes_nothing_of_an_empty_row(engine: str) -> None:
    x, sink = np.ones((1, 3, 2)), np.array([-np.inf])
    W = regard.weights(x, x, regard.lengths(0), sink=sink, engine=engine)
    assert (W.entropy() == 0).all()
    one = regard.weights(x, x, sink=np.float32(0.5), engine=engine)
    np.testing.assert_allclose(one.lse, regard.weights(x, x, sink=0.5, engine=engine).lse)


def test_half_precision_answers_come_in_float32() -> None:
    torch = pytest.importorskip("torch")
    W = regard.weights(*(torch.randn(4, 8).bfloat16() for _ in range(2)))
    assert W.dense().dtype == W.entropy().dtype == W.received().dtype == torch.float32


def test_dense_is_refused_above_the_limit_that_the_caller_may_raise() -> None:
    W = regard.weights(np.zeros((2, 10, 3)), np.zeros((2, 10, 3)))
    with pytest.raises(regard.ValueRangeError, match=r"2 × 10 × 10 = 200 weights, above limit=199"):
        W.dense(limit=199)
    assert W.dense(limit=200).shape == (2, 10, 10)
    big = regard.weights(np.zeros((20_000, 1)), np.zeros((20_000, 1)))
    with pytest.raises(regard.ValueRangeError, match="raise the limit"):
        big.dense()
    assert repr(big) == "Weights(<20000 × 20000, never built>)"


@pytest.mark.parametrize("mask", [None, regard.causal()], ids=repr)
def test_at_1024_tokens_the_answers_in_float32_are_those_of_the_formula(
    mask: regard.Mask | None,
) -> None:
    torch = pytest.importorskip("torch")
    g = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 1024, 64, generator=g) for _ in range(2))
    asked = regard.topk(8), regard.entropy(), regard.received(), regard.image(512, 512)
    found = regard.weights(q, k, mask).ask(*asked)
    truth = regard.weights(q.double(), k.double(), mask, engine="formula").ask(*asked)
    pairs = [(found[0].weights, truth[0].weights), *zip(found[1:], truth[1:], strict=True)]
    for got, want in pairs:
        # A score has an error of some eps for each of 64 products; a weight has that, relatively.
        torch.testing.assert_close(got.double(), want, rtol=64 * 2.0**-24, atol=1e-7)
    # Keys may change places only where two weights are equal to rounding.
    differ = found[0].keys != truth[0].keys
    assert differ.sum() <= 8
    torch.testing.assert_close(
        found[0].weights[differ].double(), truth[0].weights[differ], rtol=1e-5, atol=1e-8
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"softcap": 3.0, "sink": 0.5}, {"bias": regard.alibi(4)}])
def test_the_engine_in_cpp_carries_what_queries_count(dtype: str, options: Any) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    pytest.importorskip("regard.core.engines._native", reason="needs the native engine")
    kind = getattr(torch, dtype)
    q, k = torch.randn(2, 4, 70, 8, dtype=kind), torch.randn(2, 2, 70, 8, dtype=kind)
    mask = regard.causal() & regard.lengths([70, 40])
    by = np.random.default_rng(0).random((300, 70))  # more ways than a head may be wide
    W = regard.weights(q, k, mask, **options, engine="native")
    got, spread = W.ask(regard.received(by), regard.entropy())
    want = by @ regard.weights(q.double(), k.double(), mask, **options).dense().numpy()
    close = {"rtol": 0, "atol": 1e-5 if dtype == "float32" else 1e-12}
    np.testing.assert_allclose(got, want, **close)
    np.testing.assert_allclose(W.received(by=by[7]), want[..., 7, :], **close)
    np.testing.assert_allclose(spread, W.entropy(), **close)
    none = regard.weights(q[..., :0, :], k, engine="native").received(by=np.zeros((2, 0)))
    assert none.shape == (2, 4, 2, 70)
    assert not none.any()


def test_the_engine_in_cpp_says_which_questions_it_does_not_know() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    native = pytest.importorskip("regard.core.engines._native", reason="needs the native engine")
    assert native.levels()
    W = regard.weights(np.eye(3), np.eye(3), engine="native")
    with pytest.raises(regard.EngineError, match=r"it knows no mass\(mask\)"):
        W.mass(regard.causal())
    with pytest.raises(regard.EngineError, match=r"received\(by\) of torch tensors"):
        W.received(by=[1, 1, 1])
    broken = regard.weights(*torch.full((2, 3, 3), torch.nan), engine="native")
    with pytest.raises(regard.EngineError, match="finite queries and keys only"):
        broken.received(by=[1, 1, 1])
    free = regard.weights(np.eye(3), np.eye(3))
    np.testing.assert_allclose(free.received(by=[1, 1, 1]), W.received(), atol=1e-12)
