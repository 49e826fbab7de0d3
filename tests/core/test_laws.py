"""Laws of attention that hold whatever the numbers are."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, arrays, as_library, cases, double, strips_of

ENGINES = ["tiles", "formula"]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("engine", ENGINES)
def test_keys_may_come_in_any_order(engine: str) -> None:
    q, k, v = normal(2, 5, 4), normal(2, 7, 4, seed=1), normal(2, 7, 3, seed=2)
    order = np.random.default_rng(3).permutation(7)
    one = regard.attend(q, k, v, engine=engine)
    two = regard.attend(q, k[:, order], v[:, order], engine=engine)
    np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_causal_means_that_the_future_moves_nothing(engine: str) -> None:
    q, k, v = (normal(1, 6, 4, seed=s) for s in range(3))
    before = regard.attend(q, k, v, regard.causal(), engine=engine)
    k[:, 4:], v[:, 4:] = 9.0, -9.0
    after = regard.attend(q, k, v, regard.causal(), engine=engine)
    assert np.array_equal(before[:, :4], after[:, :4])
    assert not np.allclose(before[:, 4:], after[:, 4:])


@pytest.mark.parametrize("engine", [*ENGINES, "sdpa"])
@pytest.mark.parametrize("mask", [regard.causal(), regard.causal() & regard.window(5)], ids=repr)
@pytest.mark.parametrize("step", [1, 3])
def test_a_cache_sees_what_the_whole_run_saw(engine: str, mask: regard.Mask, step: int) -> None:
    torch = pytest.importorskip("torch")
    q = torch.tensor(normal(2, 4, 9, 4))
    k, v = (torch.tensor(normal(2, 2, 9, 4, seed=s)) for s in (1, 2))
    whole = regard.attend(q, k, v, mask, engine="formula")
    for t in range(0, 9, step):
        rows, keys = slice(t, t + step), slice(0, t + step)
        new = regard.attend(q[:, :, rows], k[:, :, keys], v[:, :, keys], mask, engine=engine)
        torch.testing.assert_close(new, whole[:, :, rows], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("engine", [*ENGINES, "sdpa"])
@pytest.mark.parametrize("start", [-1, 0, 2, [0, 3]], ids=str)
@pytest.mark.parametrize(("T", "S"), [(3, 5), (5, 3), (4, 4)])
def test_causal_counts_from_start(engine: str, start: int | list[int], T: int, S: int) -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 1, max(T, S), 2, dtype=torch.float64)
    v = torch.eye(S, dtype=torch.float64).expand(2, 1, S, S)
    w = regard.attend(x[:, :, :T], x[:, :, :S], v, regard.causal(), start=start, engine=engine)
    for b, first in enumerate(np.broadcast_to(start, 2)):
        visible = np.clip(np.arange(T) + first + 1, 0, S)
        assert (w[b, 0] > 0).sum(-1).tolist() == visible.tolist()


@pytest.mark.parametrize("engine", [*ENGINES, "sdpa"])
@pytest.mark.parametrize("shift", [1e4, -1e4])
def test_a_number_added_to_all_scores_of_a_row_changes_nothing(engine: str, shift: float) -> None:
    torch = pytest.importorskip("torch")
    q, k, v = (torch.tensor(normal(2, 6, 4, seed=s)) for s in range(3))
    bias = torch.full((6, 6), shift, dtype=torch.float64)
    found = regard.attend(q, k, v, regard.causal(), bias=bias, engine=engine)
    expected = regard.attend(q, k, v, regard.causal(), engine=engine)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_static_cache_of_16_slots_with_10_valid_and_3_new_queries() -> None:
    q, k = normal(1, 1, 3, 4), normal(1, 1, 16, 4)
    w = regard.weights(q, k, regard.causal() & regard.lengths(10), start=7).dense()
    assert (w[0, 0] > 0).sum(-1).tolist() == [8, 9, 10]


@pytest.mark.parametrize("engine", ENGINES)
def test_packed_documents_equal_separate_runs(engine: str) -> None:
    q, k, v = (normal(2, 9, 4, seed=s) for s in range(3))
    mask = regard.documents(cumulative=[0, 2, 3, 9]) & regard.causal()
    packed = regard.attend(q, k, v, mask, engine=engine)
    for part in (slice(0, 2), slice(2, 3), slice(3, 9)):
        alone = regard.attend(q[:, part], k[:, part], v[:, part], regard.causal(), engine=engine)
        np.testing.assert_allclose(packed[:, part], alone, rtol=1e-12)


@pytest.mark.parametrize("engine", ENGINES)
def test_padding_of_one_batch_entry_leaves_the_others_alone(engine: str) -> None:
    q, k, v = (normal(3, 2, 5, 4, seed=s) for s in range(3))
    stop = np.array([5, 2, 0])
    batch = regard.attend(q, k, v, regard.lengths(stop), engine=engine)
    for b, n in enumerate(stop):
        alone = regard.attend(q[b], k[b][:, :n], v[b][:, :n], engine=engine)
        np.testing.assert_allclose(batch[b], alone, rtol=1e-12)


@given(case=cases(), cuts=st.lists(st.integers(0, 9), max_size=2), engine=st.sampled_from(ENGINES))
@settings(max_examples=100)
def test_chunked_keys_merged_by_lse_equal_the_whole(case: Case, cuts: list[int], engine: str):
    (q, k, v, _), options = arrays(case, "numpy", "float64")
    sink, bias, start = (options.pop(n, None) for n in ("sink", "bias", "start"))
    T, S = q.shape[-2], k.shape[-2]
    first = S - T if start is None else start
    mask = regard.causal() | regard.prefix(2)  # positions count from the first key of a chunk
    whole = regard.attend(q, k, v, mask, sink=sink, bias=bias, start=start, **options)
    edges = sorted({0, S, *(c for c in cuts if c < S)})
    parts = []
    for a, b in itertools.pairwise(edges):
        part_mask = regard.causal() | regard.prefix(max(2 - a, 0))
        own = None if bias is None else bias[..., a:b] if bias.shape[-1] > 1 else bias
        parts.append(
            regard.partial(
                q, k[..., a:b, :], v[..., a:b, :], part_mask, bias=own, start=first - a,
                engine=engine, **options,
            )
        )  # fmt: skip
    merged = regard.merge(parts, sink=sink)
    np.testing.assert_allclose(merged.output, whole, rtol=1e-9, atol=1e-11)
    lse = regard.weights(q, k, mask, sink=sink, bias=bias, start=start, **options).lse
    np.testing.assert_allclose(merged.lse, lse, rtol=1e-9, atol=1e-11)


def test_merge_of_2d_parts_and_a_sink_as_a_number() -> None:
    q, k, v = normal(3, 4), normal(5, 4, seed=1), normal(5, 2, seed=2)
    parts = [regard.partial(q, k[s], v[s]) for s in (slice(0, 1), slice(1, 5))]
    whole = regard.attend(q, k, v, sink=0.5)
    for sink in (0.5, np.float32(0.5)):
        np.testing.assert_allclose(regard.merge(parts, sink=sink).output, whole, rtol=1e-12)
    np.testing.assert_allclose(regard.merge(parts, sink=np.array([0.5])).output, whole, rtol=1e-12)


def test_merge_says_what_does_not_fit() -> None:
    part = regard.partial(np.eye(3), np.eye(3), np.eye(3))
    assert regard.merge(p for p in (part,)).output.shape == (3, 3)
    with pytest.raises(regard.ValueRangeError, match="at least one Partial"):
        regard.merge([])
    for wrong, sink, words in (
        (None, None, "parts must be a list of Partial values"),
        ([regard.Partial([1], [1])], None, r"parts\[0\] must be an array"),
        ([part], np.nan, "sink must be finite"),
        ([part], True, "sink must be a number"),
    ):
        with pytest.raises(regard.RegardError, match=words):
            regard.merge(wrong, sink=sink)  # type: ignore[arg-type]
    with pytest.raises(regard.KindError, match="one is a ndarray"):
        regard.merge([np.eye(3)])  # type: ignore[list-item]
    with pytest.raises(regard.ShapeError, match=r"outputs are \(3, 3\), \(2, 3\)"):
        regard.merge([part, regard.partial(np.eye(3)[:2], np.eye(3), np.eye(3))])
    with pytest.raises(regard.ShapeError, match=r"sink must have shape \(1,\)"):
        regard.merge([part], sink=np.zeros(2))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_dropout_is_the_same_in_every_engine_and_strip_and_keeps_the_mean(library: str) -> None:
    rng = np.random.default_rng(0)
    q, k = (as_library(rng.normal(size=(2, 3, 40, 4)), library, "float64") for _ in range(2))
    v = as_library(np.broadcast_to(np.eye(40), (2, 3, 40, 40)), library, "float64")

    def drop(seed: int, engine: str = "tiles", rate: float = 0.25) -> np.ndarray:
        return double(regard.attend(q, k, v, dropout=rate, generator=seed, engine=engine))

    w = double(regard.weights(q, k).dense())
    one = drop(7)
    np.testing.assert_allclose(one, drop(7, "formula"), rtol=1e-12)
    with strips_of(500):
        np.testing.assert_allclose(one, drop(7), rtol=1e-12)
    assert not np.allclose(one, drop(8))
    ratio = one / w
    kept = ratio > 0.5
    np.testing.assert_allclose(ratio[kept], 1 / 0.75, rtol=1e-9)
    assert (ratio[~kept] == 0).all()
    n = kept.size
    assert abs(kept.mean() - 0.75) < 4 * np.sqrt(0.25 * 0.75 / n)
    for axis in (0, 1, 2, 3):  # no batch entry, head, row or key is favoured
        means = kept.mean(axis=tuple(a for a in range(4) if a != axis))
        assert np.abs(means - 0.75).max() < 5 * np.sqrt(0.25 * 0.75 / (n / kept.shape[axis]))
    pairs = kept[..., 1:] == kept[..., :-1]  # neighbours are kept independently
    assert abs(pairs.mean() - (0.75**2 + 0.25**2)) < 5 * np.sqrt(0.24 / pairs.size)


def test_dropout_draws_from_the_generator_it_is_given() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(20, 4)
    outputs = [
        regard.attend(x, x, x, dropout=0.5, generator=torch.Generator().manual_seed(s))
        for s in (1, 1, 2)
    ]
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    torch.manual_seed(3)
    first = regard.attend(x, x, x, dropout=0.5)
    torch.manual_seed(3)
    assert torch.equal(first, regard.attend(x, x, x, dropout=0.5))
    a = x.numpy()
    assert np.array_equal(
        *(regard.attend(a, a, a, dropout=0.5, generator=s) for s in (3, np.int64(3)))
    )
    draws = [
        regard.attend(a, a, a, dropout=0.5, generator=np.random.default_rng(s)) for s in (1, 1)
    ]
    assert np.array_equal(*draws)
    assert not np.array_equal(regard.attend(a, a, a, dropout=0.5), draws[0])
    with pytest.raises(regard.KindError, match="generator must be"):
        regard.attend(a, a, a, dropout=0.5, generator="seed")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("T", "S"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_attend_gives_zeros(engine: str, T: int, S: int) -> None:
    q, k, v = np.ones((2, T, 4)), np.ones((2, S, 4)), np.ones((2, S, 5))
    assert regard.attend(q, k, v, regard.causal(), engine=engine).shape == (2, T, 5)
    assert not regard.attend(q, k, v, engine=engine).any()
    W = regard.weights(q, k, engine=engine)
    assert W.dense().shape == (2, T, S)
    assert W.received().shape == (2, S)
    assert (W.lse == -np.inf).all()
