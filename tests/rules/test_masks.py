"""Masks mean what their predicates say, as ranges and as strips, and say it in two languages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, as_library, cases, double
from regard.core.call import check
from regard.rules.masks import Mask, Spans
from regard.rules.ranges import Ranges


def matrix(mask: Mask, T: int, S: int, start: int | None = None) -> np.ndarray:
    """The mask over one head, from its key ranges where it has them."""
    q, k = np.zeros((1, T, 1)), np.zeros((1, S, 1))
    call = check(q, k, None, mask, start=start)
    seen = call.seen(call.frame)
    return np.ones((T, S), bool) if seen is None else np.broadcast_to(seen, (T, S))


@given(case=cases(longest=12))
@settings(max_examples=300)
def test_ranges_bounds_and_strips_all_say_what_the_predicate_says(case: Case) -> None:
    if case.mask is None:
        return
    _lead, _H, _, _T, S = case.sizes
    seen = case.seen()
    call = check(case.q, case.k, None, case.mask, start=case.start)
    found = case.mask.strip(call.frame)
    np.testing.assert_array_equal(np.broadcast_to(found, seen.shape), seen)
    bounds = case.mask.bounds(call.frame)
    if bounds is not None:
        first, last = bounds.hull()
        keys = np.arange(S)
        inside = (keys >= first[..., None]) & (keys < last[..., None])
        inside = inside[..., None, :, :] if first.ndim > 1 else inside
        assert not (seen & ~inside).any()
    if call.ranges is not None:
        check_ranges(call.ranges)
        covered = np.zeros((*call.ranges.start.shape[:-1], S), int)
        for i in range(call.ranges.start.shape[-1]):
            start, stop = call.ranges.start[..., i, None], call.ranges.stop[..., i, None]
            covered += (np.arange(S) >= start) & (np.arange(S) < stop)
        covered = covered[..., None, :, :] if covered.ndim > 2 else covered
        np.testing.assert_array_equal(np.broadcast_to(covered, seen.shape), seen.astype(int))


def check_ranges(ranges: Ranges) -> None:
    """Sorted, apart, the empty ones last as [S, S)."""
    start, stop, S = ranges.start, ranges.stop, ranges.S
    empty = start >= stop
    assert (start[empty] == S).all()
    assert (stop[empty] == S).all()
    assert (start[..., 1:] >= stop[..., :-1]).all()
    assert (start >= 0).all()
    assert (stop <= S).all()


def test_how_many_ranges_follows_from_the_expression_alone() -> None:
    def r(mask: Mask, T: int) -> int:
        q = np.zeros((1, T, 1))
        ranges = check(q, q, None, mask).ranges
        assert ranges is not None
        return ranges.start.shape[-1]

    expression = (regard.causal() & ~regard.window(3)) | regard.prefix(2)
    assert r(expression, 2) == r(expression, 50)
    assert r(regard.causal() & regard.window(9) & regard.documents(lengths=[2, 18]), 20) == 1


def test_position_belongs_to_the_call() -> None:
    expected = np.tril(np.ones((5, 5), bool))
    np.testing.assert_array_equal(matrix(regard.causal(), 5, 5), expected)
    np.testing.assert_array_equal(matrix(regard.causal(), 2, 5), expected[3:])
    np.testing.assert_array_equal(matrix(regard.causal(), 2, 5, start=0), expected[:2])
    np.testing.assert_array_equal(matrix(regard.causal(), 3, 5, start=-2)[:2], np.zeros((2, 5)))


def test_window_counts_itself() -> None:
    assert matrix(regard.window(3), 1, 9).nonzero()[1].tolist() == [6, 7, 8]
    around = matrix(regard.window(before=1, after=2), 1, 9, start=4)
    assert around.nonzero()[1].tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (regard.causal() & regard.window(128), "causal() & window(128)"),
        (~(regard.causal() | regard.prefix(2)), "~(causal() | prefix(2))"),
        (
            regard.causal() & regard.prefix(1) & ~regard.window(2),
            "causal() & prefix(1) & ~window(2)",
        ),
        (
            regard.window(before=2, after=1) | regard.causal(),
            "window(before=2, after=1) | causal()",
        ),
        (regard.lengths([3, 5], start=[1, 0]), "lengths([3, 5], start=[1, 0])"),
        (regard.lengths(4), "lengths(4)"),
        (regard.documents(ids=[[0, 1], [0, 0]]), "documents(<2 × 2 ids>)"),
        (regard.documents(lengths=[1, 2]), "documents(lengths=[1, 2])"),
        (regard.keep(np.ones((2, 3), bool)), "keep(<2 × 3 bool>)"),
        (Spans(np.zeros(4, int), np.ones(4, int)), "Spans(<4 ranges>)"),
        (regard.where(max), "where(max)"),
    ],
)
def test_repr(mask: Mask, text: str) -> None:
    assert repr(mask) == text


def test_not_not_is_the_mask_itself_and_masks_are_values() -> None:
    mask = regard.causal() & regard.window(4)
    assert ~~mask is mask
    assert mask == regard.causal() & regard.window(4)
    assert hash(mask) == hash(mask)
    assert mask != regard.causal() & regard.window(5)
    with pytest.raises(regard.KindError, match="no truth value"):
        bool(mask and mask)
    raw = np.ones((2, 2), bool)
    for join in (lambda: mask & raw, lambda: raw | mask):
        with pytest.raises(regard.KindError, match=r"pass keep\(array\) if True means may attend"):
            join()
    with pytest.raises(regard.KindError, match="it is a bool"):
        mask & True  # type: ignore[operator]
    with pytest.raises(regard.KindError, match="it is a NoneType"):
        mask | None  # type: ignore[operator]


def test_what_reaches_too_far_reaches_everything() -> None:
    far = 2**63 + 5
    everything = np.ones((5, 5), bool)
    for mask in (
        regard.window(before=1, after=far) | regard.window(far),
        regard.window(before=far, after=far),
        regard.prefix(10**20),
    ):
        np.testing.assert_array_equal(matrix(mask, 5, 5), everything)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_where_takes_booleans_of_the_right_shape_only(library: str) -> None:
    x = as_library(np.eye(4), library, "float64")

    def allowed(fn: Any) -> np.ndarray:
        return double(regard.weights(x, x, ~regard.where(fn)).dense()) > 0

    assert not allowed(lambda i, j: True).any()
    assert allowed(lambda i, j: False).all()
    assert (allowed(lambda i, j: j > 1) == [[True, True, False, False]] * 4).all()
    with pytest.raises(regard.KindError, match=r"must return booleans, but it returned .*int"):
        allowed(lambda i, j: (i >= j) * 1)
    with pytest.raises(regard.KindError, match="but it returned str"):
        allowed(lambda i, j: "yes")
    with pytest.raises(regard.ShapeError, match=r"\(4, 4\), but it returned \(3,\)"):
        allowed(lambda i, j: (j > 1)[:3])


SENTENCES = {
    regard.causal(): ("a key that is not after it.", "不在查询之后"),
    regard.window(3): ("among the last 3 up to it", "最近 3 个键"),
    regard.window(before=2, after=1): ("at most 2 before or 1 after", "之前不超过 2 个"),
    regard.prefix(5): ("the first 5", "最前面的 5 个键"),
    regard.lengths(5): ("not padding", "不是填充"),
    regard.documents([0, 0]): ("its own document", "同一文档"),
    regard.keep(np.ones((1, 1), bool)): ("the given array allows", "给定的数组允许"),
    regard.where(max): ("max(query, key) allows", "max(查询, 键) 允许"),
    ~regard.causal(): ("does not fit this: it is not after it", "不符合“不在查询之后”"),
    regard.causal() & (regard.prefix(1) | regard.lengths(2)): (
        "is not after it, and (is among the first 1, or is not padding)",
        "不在查询之后，并且（属于最前面的 1 个键，或者不是填充）",
    ),
}


@pytest.mark.parametrize("mask", SENTENCES, ids=repr)
def test_every_mask_says_what_it_is_in_both_languages(mask: Mask) -> None:
    english, chinese = SENTENCES[mask]
    assert english in mask.sentence("en")
    assert mask.sentence().startswith("A query may attend")
    assert chinese in mask.sentence("zh")
    assert mask.sentence("zh").startswith("查询可以关注")


def test_keep_takes_masks_of_another_library_than_the_calls() -> None:
    torch = pytest.importorskip("torch")
    allowed = np.tril(np.ones((4, 4), bool))
    x = np.eye(4)
    one = regard.attend(x, x, x, regard.keep(torch.tensor(allowed)))
    two = regard.attend(*(torch.tensor(x) for _ in range(3)), regard.keep(allowed), engine="tiles")
    np.testing.assert_allclose(one, two.numpy(), rtol=1e-12)
    starts = regard.attend(x[None, None], x[None, None], x[None, None], start=torch.tensor([0]))
    assert starts.shape == (1, 1, 4, 4)


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (regard.window, regard.ValueRangeError, "window needs a size"),
        (lambda: regard.window(0), regard.ValueRangeError, "n must be 1 or more, but 0 came"),
        (lambda: regard.window(3, after=1), regard.ValueRangeError, "either n or before and after"),
        (
            lambda: regard.window(2.5),
            regard.KindError,
            "n must be a whole number, but it is a float",
        ),
        (lambda: regard.prefix(-1), regard.ValueRangeError, "n must be 0 or more, but -1 came"),
        (lambda: regard.prefix(True), regard.ValueRangeError, "n must be 0 or more, but True"),
        (lambda: regard.lengths(-1), regard.ValueRangeError, "stop must be 0 or more, but -1"),
        (lambda: regard.lengths(1.5), regard.KindError, "stop must be whole numbers"),
        (regard.documents, regard.ValueRangeError, "but 0 came"),
        (lambda: regard.documents(lengths=[]), regard.ValueRangeError, "lengths must be a list"),
        (lambda: regard.window(before=0.0), regard.KindError, "before must be a whole number"),
        (lambda: regard.keep([[True], [True, False]]), regard.ShapeError, "a rectangular array"),
        (lambda: regard.documents([0], lengths=[1]), regard.ValueRangeError, "but 2 came"),
        (lambda: regard.documents([0, 1, 0]), regard.ValueRangeError, "ids must be contiguous"),
        (lambda: regard.documents([]), regard.ShapeError, r"its shape is \(0,\)"),
        (lambda: regard.documents([0.5]), regard.KindError, "ids must be whole numbers"),
        (lambda: regard.lengths(np.uint64(2**63)), regard.ValueRangeError, "must fit 64 bits"),
        (lambda: regard.documents(3), regard.ShapeError, "one number a key"),
        (lambda: regard.documents(lengths=[2, -1]), regard.ValueRangeError, "sizes of 0 or more"),
        (lambda: regard.documents(cumulative=[1, 3]), regard.ValueRangeError, "begin with 0"),
        (lambda: regard.documents(cumulative=[0, 3, 2]), regard.ValueRangeError, "not fall"),
        (lambda: regard.keep([[1, 0]]), regard.KindError, "takes a bool array"),
        (lambda: regard.keep(np.zeros((2, 2))), regard.KindError, "it is float64"),
        (lambda: regard.where(3), regard.KindError, "takes a function"),
    ],
)
def test_a_mask_that_cannot_be_says_why(make: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (
            regard.lengths([1, 2, 3]),
            r"stop of lengths\(stop, start\) must be one number or one per",
        ),
        (regard.lengths(9), r"must count keys from 0 to S = 5, but 9 came"),
        (regard.documents([0, 0, 1]), r"must cover the S = 5 keys"),
        (regard.keep(np.ones((4, 4), bool)), r"must fit \(…, H, T, S\) = \(2, 3, 4, 5\)"),
        (regard.keep(np.ones((2, 5), bool)), r"is lengths\(...\) or needs two more axes"),
        (regard.keep(np.ones(5, bool)), r"at least \(T, S\) = \(4, 5\)"),
        (Spans(np.zeros(3, int), np.zeros(3, int)), "this mask has 3 rows"),
    ],
    ids=repr,
)
def test_a_mask_that_does_not_fit_the_call_says_why(mask: Mask, words: str) -> None:
    q, k = np.zeros((2, 3, 4, 1)), np.zeros((2, 3, 5, 1))
    with pytest.raises(regard.ShapeError, match=words):
        regard.attend(q, k, k, mask)


def test_an_intersection_can_have_as_many_ranges_as_both_less_one() -> None:
    def of(*pairs: tuple[int, int]) -> Ranges:
        start, stop = np.array(pairs).T[:, None]
        return Ranges(start, stop, 12)

    both = of((0, 4), (6, 10)) & of((2, 7), (8, 9))
    assert both.start.tolist() == [[2, 6, 8]]
    assert both.stop.tolist() == [[4, 7, 9]]


@given(st.data())
@settings(max_examples=100)
def test_the_algebra_of_ranges_is_that_of_sets(data: Any) -> None:
    S = data.draw(st.integers(0, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))

    def some() -> tuple[Ranges, np.ndarray]:
        ranges, held = None, np.zeros((3, S), bool)
        for _ in range(data.draw(st.integers(1, 3))):
            a, b = rng.integers(-2, S + 3, (2, 3))
            one = Ranges.of(a, b, S)
            ranges = one if ranges is None else ranges | one
            held |= (np.arange(S) >= a[:, None]) & (np.arange(S) < b[:, None])
        assert ranges is not None
        return ranges, held

    def holds(ranges: Ranges) -> np.ndarray:
        check_ranges(ranges)
        j = np.arange(S)
        return ((j >= ranges.start[..., None]) & (j < ranges.stop[..., None])).any(-2)

    (a, in_a), (b, in_b) = some(), some()
    np.testing.assert_array_equal(holds(a), in_a)
    np.testing.assert_array_equal(holds(a & b), in_a & in_b)
    np.testing.assert_array_equal(holds(a | b), in_a | in_b)
    np.testing.assert_array_equal(holds(~a), ~in_a)


def test_documents_over_no_keys_hide_everything() -> None:
    q, none = np.ones((2, 3, 4)), np.ones((2, 0, 4))
    assert not regard.attend(q, none, none, regard.documents(lengths=[0])).any()
