"""Scores as values: what they add, how they join, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from cases import masks, numbers
from regard._shapes import Sizes
from regard.rules.frame import Frame
from regard.rules.rule import flatten, rebuild
from regard.rules.scores import T5, Score, as_score

TIMES = 32
"""How many roundings of the values, which are below 5, an output may be off."""


def frame_of(H: int, T: int, S: int, start: Any = None, lead: tuple[int, ...] = ()) -> Frame:
    import array_api_compat.numpy as xp

    start = S - T if start is None else start
    return Frame(xp, "cpu", Sizes(lead, H, H, T, S, 4), start, slice(0, T), slice(0, S))


def test_the_slopes_are_those_of_the_paper() -> None:
    eight = flatten(regard.alibi(8)).arrays[0]
    assert eight.tolist() == [2.0**-n for n in range(1, 9)]
    twelve = flatten(regard.alibi(12)).arrays[0]
    filled_up = [2.0**-n for n in (0.5, 1.5, 2.5, 3.5)]
    assert twelve.tolist() == [*eight.tolist(), *filled_up]


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "farthest"), [(32, 128), (16, 20), (8, 6), (64, 500)])
def test_the_buckets_are_those_of_t5(both_ways: bool, buckets: int, farthest: int) -> None:
    torch = pytest.importorskip("torch")
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    far = np.arange(-700, 701)
    theirs = t5.T5Attention._relative_position_bucket(
        torch.tensor(far), both_ways, num_buckets=buckets, max_distance=farthest
    )
    score = regard.t5_relative(
        np.zeros((buckets, 2)), bidirectional=both_ways, max_distance=farthest
    )
    assert isinstance(score, T5)
    np.testing.assert_array_equal(score.buckets(far), theirs.numpy())


@st.composite
def scores(draw: Any, lead: tuple[int, ...], H: int, T: int, S: int) -> tuple[Score, Any]:
    """A score and what it adds for (batch entry, head, number and position of the query, key)."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kind = draw(st.sampled_from(["alibi", "alibi by entry", "relative", "t5", "dense", "sum"]))
    if kind == "sum":
        (a, of_a), (b, of_b) = (draw(scores(lead, H, T, S)) for _ in range(2))
        return a + b, lambda *x: of_a(*x) + of_b(*x)
    if kind.startswith("alibi"):
        slopes = numbers(rng, *(lead if kind.endswith("entry") else ()), H)
        each = np.broadcast_to(slopes, (*lead, H)).reshape(-1, H)
        return regard.alibi(slopes), lambda b, h, t, i, j: -each[b, h] * abs(i - j)
    if kind == "relative":
        n = draw(st.integers(0, 4))
        table = numbers(rng, draw(st.sampled_from([1, H])), 2 * n + 1)
        rows = np.broadcast_to(table, (H, 2 * n + 1))
        return regard.relative(table), lambda b, h, t, i, j: rows[h, max(-n, min(n, j - i)) + n]
    if kind == "t5":
        weight = numbers(rng, 4, H)  # one bucket for itself, one for what is before, two after
        return regard.t5_relative(weight, max_distance=2), (
            lambda b, h, t, i, j: weight[(2 if j > i else 0) + (1 if j != i else 0), h]
        )
    shape = draw(st.sampled_from([(T, S), (H, 1, S), (*lead, 1, T, 1)]))
    array = numbers(rng, *shape)
    full = np.broadcast_to(array, (*lead, H, T, S)).reshape(-1, H, T, S)
    return regard.dense(array), lambda b, h, t, i, j: full[b, h, t, j]


@given(st.data())
def test_a_strip_is_that_part_of_the_whole(data: st.DataObject) -> None:
    draw = data.draw
    lead, H = draw(st.sampled_from([(), (2,)])), draw(st.integers(1, 3))
    T, S = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    score, of = draw(scores(lead, H, T, S))
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    start = rng.integers(-3, 5, lead) if draw(st.booleans()) else int(rng.integers(-3, 5))
    frame = frame_of(H, T, S, start, lead)
    score.check(frame)
    first, last = sorted(draw(st.lists(st.integers(0, T), min_size=2, max_size=2)))
    low, high = sorted(draw(st.lists(st.integers(0, S), min_size=2, max_size=2)))
    order = None
    if draw(st.booleans()):
        order = np.array(draw(st.lists(st.integers(0, T - 1), min_size=last, max_size=9)), int)
        score, last = score.rows(frame, order), min(last, len(order))
        first = min(first, last)
        frame = Frame(frame.xp, "cpu", frame.sizes, start, slice(0, len(order)), frame.keys, order)
    part = frame.cut(slice(first, last), slice(low, high))
    found = np.broadcast_to(score.over(part, np.float64), (*lead, H, last - first, high - low))
    starts = np.broadcast_to(start, lead).reshape(-1)
    rows = np.arange(T) if order is None else order
    for b, h, t, j in np.ndindex(max(len(starts), 1), H, last - first, high - low):
        number = int(rows[first + t])
        want = of(b, h, number, number + int(starts[b]), low + j)
        entry = found.reshape(-1, H, last - first, high - low)[b, h, t, j]
        assert entry == pytest.approx(want, abs=1e-12)


@given(st.data())
def test_what_is_taken_apart_is_built_again(data: st.DataObject) -> None:
    mask, _ = data.draw(masks((2,), 2, 4, 5))
    score, _ = data.draw(scores((2,), 2, 4, 5))
    frame = frame_of(2, 4, 5, lead=(2,))
    on = frame, np.float64
    again = rebuild(flatten(mask))
    assert repr(again) == repr(mask)
    np.testing.assert_array_equal(again.strip(frame), mask.strip(frame))
    assert repr(rebuild(flatten(score))) == repr(score)
    np.testing.assert_array_equal(rebuild(flatten(score)).over(*on), score.over(*on))


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_sums_take_an_array_on_either_side(library: str) -> None:
    xp = pytest.importorskip(library)
    array, q = xp.ones((3, 3)), xp.zeros((2, 3, 4))
    for bias in (regard.alibi(2) + array, array + regard.alibi(2)):
        W = regard.weights(q, q, bias=bias)
        want = regard.weights(q, q, bias=regard.alibi(2))
        np.testing.assert_allclose(np.asarray(W.dense()), np.asarray(want.dense()), atol=1e-7)
        assert repr(bias).count("3 × 3 bias") == 1


@pytest.mark.parametrize("engine", ["auto", "sdpa", "tiles", "formula"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
@pytest.mark.parametrize("name", ["paper's slopes", "own slopes", "relative", "t5", "a sum"])
def test_far_from_the_diagonal(name: str, dtype: str, engine: str) -> None:
    """A score of 1,000 is added exactly, whatever dtype its own numbers have."""
    torch = pytest.importorskip("torch")
    H, S, own = 12, 3000, {"dtype": getattr(torch, dtype)}
    rng = np.random.default_rng(0)

    def of(*shape: int, scale: float = 1.0) -> Any:
        return torch.asarray(rng.normal(size=shape) * scale).to(**own)

    score = {
        "paper's slopes": lambda: regard.alibi(H),
        "own slopes": lambda: regard.alibi(of(H).abs()),
        "relative": lambda: regard.relative(of(H, 5001, scale=100.0)),
        "t5": lambda: regard.t5_relative(of(32, H, scale=100.0), max_distance=2000),
        "a sum": lambda: regard.relative(of(H, 5001, scale=100.0)) + of(1, S, scale=100.0),
    }[name]()
    q, k, v = of(H, 2, 4), of(H, S, 4), of(H, S, 3)
    computed = name in ("paper's slopes", "own slopes", "a sum")
    if engine == "sdpa" and "16" in dtype and computed:
        with pytest.raises(regard.EngineError, match="round the bias to the dtype of q"):
            regard.attend(q, k, v, bias=score, engine=engine)
        return
    found = regard.attend(q, k, v, bias=score, engine=engine)
    frame = frame_of(H, 2, S)
    flat = flatten(score)
    wide = [a.double().numpy() if hasattr(a, "double") else a for a in flat.arrays]
    bias = rebuild(flat.with_arrays(wide)).over(frame, np.float64)
    want = regard.attend(*(a.double().numpy() for a in (q, k, v)), bias=bias, engine="formula")
    eps = torch.finfo(own["dtype"]).eps
    sums = min(eps, torch.finfo(torch.float32).eps)  # scores are summed in float32 or float64
    off = TIMES * eps + 8 * float(abs(bias).max()) * sums
    torch.testing.assert_close(found.double(), torch.asarray(want), rtol=0, atol=off)


def test_no_batch_entries_with_a_start_each() -> None:
    x, start = np.zeros((0, 2, 3, 4)), np.zeros(0, np.int64)
    for score in (regard.relative(np.ones((2, 5))), regard.t5_relative(np.ones((8, 2)))):
        assert regard.attend(x, x, x, bias=score, start=start).shape == (0, 2, 3, 4)


@pytest.mark.parametrize(("mine", "theirs"), [("float16", "bfloat16"), ("bfloat16", "float16")])
def test_a_bias_of_the_other_16_bits_is_not_cast(mine: str, theirs: str) -> None:
    torch = pytest.importorskip("torch")
    q = torch.ones(1, 3, 4, dtype=getattr(torch, mine))
    bias = torch.full((3, 3), torch.finfo(getattr(torch, theirs)).min, dtype=getattr(torch, theirs))
    bias[1] = 1.0
    for score in (bias, regard.relative(bias[:1])):
        assert torch.equal(regard.attend(q, q, q, bias=score), q)
        with pytest.raises(regard.EngineError, match="round the bias to the dtype of q"):
            regard.attend(q, q, q, bias=score, engine="sdpa")


def test_only_distances_that_occur_have_a_bucket() -> None:
    x, weight = np.ones((2, 5, 4)), np.random.default_rng(0).normal(size=(32, 2))
    near, far = (regard.t5_relative(weight, max_distance=n) for n in (128, 10**12))
    assert regard.attend(x, x, x, bias=far).shape == regard.attend(x, x, x, bias=near).shape


def test_a_score_has_no_alignment_of_its_own() -> None:
    x = np.random.default_rng(0).normal(size=(2, 6, 4))
    for bias in (regard.alibi(2), regard.relative(numbers(np.random.default_rng(1), 2, 5))):
        whole = regard.attend(x, x, x, regard.causal(), bias=bias)
        last = regard.attend(x[:, 4:], x, x, regard.causal(), bias=bias)
        np.testing.assert_allclose(last, whole[:, 4:], atol=1e-12)


def test_what_t5_learns_gets_its_gradient_through_the_buckets() -> None:
    torch = pytest.importorskip("torch")
    weight = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 5, 3, dtype=torch.float64)

    def call(weight: Any) -> Any:
        return regard.attend(x, x, x, bias=regard.t5_relative(weight, max_distance=4))

    assert torch.autograd.gradcheck(call, (weight,))


X = np.zeros((2, 3, 4))


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: regard.alibi(0), regard.ValueRangeError, "heads must be 1 or more"),
        (lambda: regard.alibi(np.array([1, 2])), regard.KindError, "slopes must be of a floating"),
        (lambda: regard.relative(np.zeros((2, 4))), regard.ShapeError, "with N odd"),
        (lambda: regard.relative([1.0]), regard.KindError, "table must be an array"),
        (lambda: regard.t5_relative(np.zeros(3)), regard.ShapeError, r"weight must be \(buckets"),
        (lambda: regard.t5_relative(np.zeros((3, 2))), regard.ValueRangeError, "at least 4"),
        (
            lambda: regard.t5_relative(np.zeros((32, 2)), max_distance=8),
            regard.ValueRangeError,
            "above the 8 distances",
        ),
        (lambda: regard.dense([[1.0]]), regard.KindError, "bias must be an array"),
        (lambda: regard.alibi(2) + 1, regard.KindError, "but it is a int"),
        (lambda: regard.attend(X, X, X, bias=3.0), regard.KindError, "or a value such as alibi"),
        (lambda: regard.attend(X, X, X, bias=regard.alibi(3)), regard.ShapeError, "one slope a"),
        (
            lambda: regard.attend(X, X, X, bias=regard.relative(np.zeros((3, 5)))),
            regard.ShapeError,
            "one row a query head, H = 2",
        ),
        (
            lambda: regard.attend(X, X, X, bias=regard.t5_relative(np.zeros((4, 3)))),
            regard.ShapeError,
            "one column a query head, H = 2",
        ),
        (
            lambda: regard.attend(X, X, X, bias=regard.alibi(2) + np.zeros((3, 4))),
            regard.ShapeError,
            "bias must fit",
        ),
        (lambda: regard.attend(X, X, X, regard.alibi(2)), regard.KindError, "pass it as bias="),
    ],
)
def test_a_score_that_cannot_be_says_why(make: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


def test_an_array_is_a_score_and_a_score_is_itself() -> None:
    score = regard.alibi(2)
    assert as_score(score) is score
    assert repr(as_score(np.zeros((2, 3)))) == "<2 × 3 bias>"
