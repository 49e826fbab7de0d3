"""Questions to the weights by the C++ engine: the formula's answers, at every dispatch level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, arrays, cases, double
from levels import EPS, KINDS, LEVELS, at_level, call_of, large
from regard.core.engines import native
from regard.core.questions import ByDistance, Question, TopK

if native._native is None:
    pytest.skip(f"needs the native engine: {native._missing}", allow_module_level=True)


def flat(answers: Any) -> list[np.ndarray]:
    """The numbers of each answer in float64; of the strongest keys their weights."""
    return [double(_numbers(answer)) for answer in answers]


def _numbers(answer: Any) -> Any:
    if isinstance(answer, TopK):
        return answer.weights
    return answer.weight if isinstance(answer, ByDistance) else answer


def assert_answers(
    W: regard.Weights, truth: regard.Weights, asked: list[Question], error: float, what: Any = ""
) -> None:
    """All answers are the truth's, where weights may differ by ``error``, relative to 1."""
    found, want = W.ask(*asked), truth.ask(*asked)
    for question, got, expected in zip(asked, flat(found), flat(want), strict=True):
        atol = 8 * error if isinstance(question, regard.entropy) else error
        np.testing.assert_allclose(
            got, expected, rtol=error, atol=atol, err_msg=f"{question} {what}"
        )
    np.testing.assert_allclose(double(W.lse), double(truth.lse), rtol=error, atol=error)
    dense = double(truth.dense(limit=2**40))
    np.testing.assert_allclose(double(W.dense(limit=2**40)), dense, rtol=0, atol=error)
    for question, answer in zip(asked, found, strict=True):
        if isinstance(question, regard.topk):
            keys = np.asarray(answer.keys)
            there = np.take_along_axis(dense, np.maximum(keys, 0), -1)
            np.testing.assert_allclose(
                np.where(keys >= 0, there, 0), double(answer.weights), rtol=0, atol=error
            )
            assert ((keys >= 0) == (double(answer.weights) > 0)).all()
            assert (np.diff(double(answer.weights), axis=-1) <= 0).all()
            named = np.sort(np.where(keys < 0, -1 - np.arange(keys.shape[-1]), keys), -1)
            assert (np.diff(named, axis=-1) > 0).all()


def error_of(q: Any, k: Any, scale: float | None) -> float:
    """How far a weight may be off: by the error of its score, and of the sums."""
    D = q.shape[-1]
    size = float(abs(double(q)).max(initial=0) * abs(double(k)).max(initial=0)) * D
    return 16 * 2.0**-23 * (2 + size * abs(D**-0.5 if scale is None else scale))


@pytest.mark.parametrize("level", LEVELS)
@given(
    case=cases(),
    kind=st.sampled_from(KINDS),
    k=st.integers(1, 12),
    pixels=st.tuples(st.integers(1, 10), st.integers(1, 10)),
    how=st.sampled_from(["mean", "max", "sum"]),
    data=st.data(),
)
@settings(max_examples=20)
def test_small_calls(
    level: str,
    case: Case,
    kind: tuple[str, str],
    k: int,
    pixels: tuple[int, int],
    how: Any,
    data: Any,
) -> None:
    (q, key, _, mask), options = arrays(case, *kind)
    T, S = q.shape[-2], key.shape[-2]
    row, column = data.draw(st.integers(0, T - 1)), data.draw(st.integers(0, S - 1))
    asked = [
        regard.topk(k),
        regard.entropy(),
        regard.received(),
        regard.by_distance(),
        regard.mass(data.draw(st.lists(st.integers(0, S - 1), max_size=4))),
        regard.image(*pixels),
        regard.image(*pixels, rows=slice(row, None), keys=slice(0, column + 1), reduce=how),
    ]
    wide = {n: as_double(x) for n, x in options.items()}
    truth = regard.weights(as_double(q), as_double(key), mask, **wide, engine="formula")
    with at_level(level):
        W = regard.weights(q, key, mask, **options, engine="native")
        error = error_of(q, key, options.get("scale"))
        assert_answers(W, truth, asked, error, case)


def as_double(x: Any) -> Any:
    if isinstance(x, torch.Tensor):
        return x.double()
    return x.astype(np.float64) if isinstance(x, np.ndarray) and x.dtype.kind == "f" else x


@pytest.mark.parametrize("level", LEVELS)
@given(
    drawn=large(),
    dtype=st.sampled_from(list(EPS)),
    k=st.sampled_from([1, 8, 40]),
    pixels=st.sampled_from([(1, 1), (16, 32), (64, 64), (700, 700)]),
    part=st.sampled_from([(slice(None), slice(None)), (slice(3, 200), slice(17, 400))]),
    how=st.sampled_from(["mean", "max"]),
)
@settings(max_examples=8)
def test_calls_of_several_tiles_strips_and_pieces(
    level: str,
    drawn: dict[str, Any],
    dtype: torch.dtype,
    k: int,
    pixels: tuple[int, int],
    part: tuple[slice, slice],
    how: Any,
) -> None:
    (q, key, _), options = call_of(drawn, dtype)
    T, S = q.shape[-2], key.shape[-2]
    rows, keys = (
        p if (p.start or 0) < n else slice(None) for p, n in zip(part, (T, S), strict=True)
    )
    asked = [
        regard.topk(k),
        regard.entropy(),
        regard.received(),
        regard.by_distance(),
        regard.mass(range(0, S, 3)),
        regard.image(*pixels, rows=rows, keys=keys, reduce=how),
        regard.image(9, 40),
    ]
    wide = {n: as_double(x) if n != "start" else x for n, x in options.items()}
    truth = regard.weights(q.double(), key.double(), **wide, engine="formula")
    with at_level(level):
        W = regard.weights(q, key, **options, engine="native")
        # A softcap, a bias or alibi moves the scores too; the products' size stands for all.
        error = error_of(q, key, options.get("scale")) + 2.0**-19
        assert_answers(W, truth, asked, error, drawn)
        some = np.arange(T)[:: max(1, T // 7)][::-1]
        np.testing.assert_allclose(
            double(W[..., some, 5:S:11]), double(truth[..., some, 5:S:11]), rtol=0, atol=error
        )


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_hidden_keys_reach_no_answer_and_seen_ones_do(level: str, dtype: str, bad: float) -> None:
    g = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 2, 60, 16, generator=g).to(getattr(torch, dtype)) for _ in range(2))
    hidden = torch.rand(60, generator=g) < 0.4
    for mask in (regard.keep(~hidden[None].expand(60, 60)), regard.lengths(40)):
        seen = double(regard.weights(q, k, mask, scale=0.0).dense()) > 0
        spoilt, clean = k.clone(), k.clone()
        out = torch.from_numpy(~seen.any((0, 1, 2)))
        spoilt[:, :, out], clean[:, :, out] = bad, 0
        asked = [
            regard.topk(5),
            regard.entropy(),
            regard.received(),
            regard.by_distance(),
            regard.mass([0, 30, 59]),
            regard.image(7, 7),
            regard.image(60, 60, reduce="max"),
        ]
        with at_level(level):
            found = regard.weights(q, spoilt, mask, engine="native")
            want = regard.weights(q, clean, mask, engine="native")
            for got, expected in zip(flat(found.ask(*asked)), flat(want.ask(*asked)), strict=True):
                np.testing.assert_array_equal(got, expected)
    # One query has a score that is not finite; every key is seen.
    broken = q.clone()
    broken[:, :, 33, 3] = bad
    asked += [regard.entropy(), regard.image(60, 60, reduce="max"), regard.image(4, 3)]
    truth = regard.weights(broken.double(), k.double(), engine="formula")
    with at_level(level):
        found = regard.weights(broken, k, engine="native")
        for got, expected in zip(flat(found.ask(*asked)), flat(truth.ask(*asked)), strict=True):
            np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
        np.testing.assert_array_equal(
            np.isnan(double(found.dense())), np.isnan(double(truth.dense()))
        )


@pytest.mark.parametrize("level", LEVELS)
def test_rows_that_may_attend_to_nothing(level: str) -> None:
    q, k = torch.randn(2, 2, 40, 16), torch.randn(2, 1, 70, 16)
    mask = regard.lengths([0, 33])
    with at_level(level):
        for sink in (None, torch.tensor([0.5, -torch.inf])):
            W = regard.weights(q, k, mask, sink=sink, engine="native")
            top, spread, got, on = W.ask(
                regard.topk(3), regard.entropy(), regard.received(), regard.mass([1, 60])
            )
            assert not top.weights[0].any()
            assert (top.keys[0] == -1).all()
            assert not spread[0].any()
            assert not got[0].any()
            assert not on[0].any()
            empty = [-torch.inf] * 2 if sink is None else sink.tolist()
            for h, want in enumerate(empty):
                assert (W.lse[0, h] == want).all()
    for shape in ((0, 5), (5, 0), (0, 0)):
        q, k = (torch.zeros(1, n, 4) for n in shape)
        top, got, along = regard.weights(q, k, engine="native").ask(
            regard.topk(2), regard.received(), regard.by_distance()
        )
        assert top.keys.shape == (1, shape[0], 2)
        assert got.shape == (1, shape[1])
        assert along.weight.shape == (1, max(sum(shape) - 1, 0))


def test_the_number_of_threads_changes_no_bit_of_an_answer() -> None:
    asked = [
        regard.topk(8),
        regard.entropy(),
        regard.received(),
        regard.by_distance(),
        regard.image(50, 40),
        regard.image(30, 90, reduce="max"),
    ]
    matrices = []
    for T, S, H, G, dtype in (
        (700, 700, 4, 2, torch.float32),
        (600, 900, 1, 1, torch.bfloat16),
        (3, 2000, 4, 1, torch.float16),
        (200, 300, 2, 2, torch.float64),
    ):
        q, k = (torch.randn(2, h, n, 32).to(dtype) for h, n in ((H, T), (G, S)))
        matrices.append(regard.weights(q, k, regard.causal(), engine="native"))
    try:
        regard.set_threads(1)
        expected = [flat(W.ask(*asked)) for W in matrices]
        for n in (2, 3):
            regard.set_threads(n)
            for W, want in zip(matrices, expected, strict=True):
                for a, b in zip(flat(W.ask(*asked)), want, strict=True):
                    np.testing.assert_array_equal(a, b)
    finally:
        regard.set_threads(None)


@pytest.mark.parametrize("level", LEVELS)
def test_of_equal_weights_the_first_keys_are_named(level: str) -> None:
    with at_level(level):
        W = regard.weights(torch.zeros(1, 3, 16), torch.zeros(1, 1100, 16), engine="native")
        for k in (1, 8, 300):
            assert (W.topk(k).keys == torch.arange(k)).all()
        key = torch.zeros(1, 1100, 16)
        key[:, ::100] = 1.0
        W = regard.weights(torch.ones(1, 3, 16), key, engine="native")
        assert (W.topk(13).keys[0, 0] == torch.tensor([*range(0, 1100, 100), 1, 2])).all()


def test_many_questions_and_the_same_one_twice() -> None:
    x = torch.randn(1, 60, 8)
    asked = [regard.mass([j]) for j in range(40)]
    asked += [regard.received(), regard.entropy(), regard.received(), regard.entropy()]
    found = regard.weights(x, x, engine="native").ask(*asked)
    truth = regard.weights(x.double(), x.double(), engine="formula").ask(*asked)
    for got, want in zip(found, truth, strict=True):
        torch.testing.assert_close(got.double(), want, rtol=1e-5, atol=1e-6)


def test_some_rows_at_a_time_add_up_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k = (torch.randn(2, 2, 50, 8) for _ in range(2))
    mask = regard.causal() & regard.where(lambda i, j: (i + j) % 3 != 0)
    bias = regard.alibi(2) + torch.randn(2, 50, 50)
    asked = [
        regard.topk(3),
        regard.received(),
        regard.by_distance(),
        regard.image(9, 9),
        regard.image(9, 9, rows=slice(11, 37), reduce="max"),
    ]
    truth = regard.weights(
        q.double(), k.double(), mask, bias=bias_in_double(bias), engine="formula"
    )
    monkeypatch.setattr(native, "MASK", 7 * 4 * 50)
    assert_answers(
        regard.weights(q, k, mask, bias=bias, engine="native"), truth, asked, error_of(q, k, None)
    )
    picked = [41, 3, 3, 20]
    torch.testing.assert_close(
        regard.weights(q, k, bias=bias, engine="native")[..., picked, :].double(),
        regard.weights(q.double(), k.double(), bias=bias_in_double(bias), engine="formula")[
            ..., picked, :
        ],
        rtol=1e-4,
        atol=1e-6,
    )


def bias_in_double(bias: Any) -> Any:
    return regard.alibi(2) + bias.right.array.double()


def test_auto_asks_the_engine_and_its_derivatives_are_those_of_tiles() -> None:
    x = torch.randn(1, 20, 8)
    assert regard.plan(x, x).engine == "native"
    y = x.clone().requires_grad_()
    with pytest.raises(regard.EngineError, match="width 256 at most"):
        regard.weights(torch.zeros(4, 257), torch.zeros(4, 257), engine="native")
    (g,) = torch.autograd.grad(regard.weights(y, y, engine="native").entropy().sum(), y)
    (want,) = torch.autograd.grad(regard.weights(y, y, engine="tiles").entropy().sum(), y)
    torch.testing.assert_close(g, want)
