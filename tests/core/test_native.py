"""The C++ engine against the formula in float64, at every dispatch level of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import Case, arrays, cases, double
from levels import EPS, KINDS, LEVELS, at_level, call_of, check_extremes, large
from regard.core.engines import native
from tolerance import assert_within, bounds, exact


@pytest.mark.parametrize("level", LEVELS)
@given(case=cases(), kind=st.sampled_from(KINDS))
@settings(max_examples=60)
def test_every_level_agrees_with_the_formula(level: str, case: Case, kind: tuple[str, str]) -> None:
    args, options = arrays(case, *kind)
    with at_level(level):
        found = regard.attend(*args, **options, engine="native")
    assert_within([found], exact(case, kind[1]), bounds(case, kind[1]), case)


@pytest.mark.parametrize("level", LEVELS)
@given(drawn=large(), dtype=st.sampled_from(list(EPS)))
@settings(max_examples=20)
def test_large_calls_agree_with_the_formula(
    level: str, drawn: dict[str, Any], dtype: torch.dtype
) -> None:
    args, options = call_of(drawn, dtype)
    with at_level(level):
        found = regard.partial if "sink" not in options else regard.attend
        output = found(*args, **options, engine="native")
    doubles = [a.double() for a in args]
    wide = {n: a.double() if isinstance(a, torch.Tensor) else a for n, a in options.items()}
    truth = regard.attend(*doubles, **wide, engine="formula")
    lse = None if "sink" in options else output.lse
    output = output if lse is None else output.output
    # An error of the scores moves the weights by as much, and these mix values up to |v|.
    scores = float(args[0].abs().max() * args[1].abs().max()) * args[0].shape[-1] ** 0.5
    allowed = 4 * EPS[dtype] + 8 * 2.0**-23 * (1 + scores)
    torch.testing.assert_close(
        output.double(), truth, rtol=0, atol=allowed * float(args[2].abs().max())
    )
    if lse is not None:
        options.pop("sink", None)
        want = regard.partial(*doubles, **wide, engine="formula").lse
        torch.testing.assert_close(lse.double(), want, rtol=0, atol=8 * 2.0**-23 * (4 + 4 * scores))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_hidden_never_matters_and_what_is_seen_always_does(
    level: str, dtype: str, seed: int
) -> None:
    g = torch.Generator().manual_seed(seed)
    kind = getattr(torch, dtype)
    q, k, v = (torch.randn(1, 2, 60, 16, generator=g).to(kind) for _ in range(3))
    masks = [
        regard.causal(),
        regard.window(before=3, after=2),
        regard.keep(torch.rand(60, 60, generator=g) < 0.5),
    ]
    bad = torch.tensor([torch.nan, torch.inf, -torch.inf])[seed % 3].to(kind)
    hurt = k if seed < 3 else v
    for mask in masks:
        seen = regard.weights(q, k, mask, scale=0.0).dense() > 0
        for j in (0, 31, 59):
            broken = hurt.clone()
            broken[:, :, j] = bad
            pair = (broken, v) if seed < 3 else (k, broken)
            with at_level(level):
                found = regard.attend(q, *pair, mask, engine="native")
                clean = regard.attend(q, k, v, mask, engine="native")
            truth = regard.attend(q, *pair, mask, engine="formula")
            hidden = ~seen[..., j]
            assert torch.equal(found[hidden], clean[hidden])
            assert torch.equal(found.isnan(), truth.isnan())
            assert torch.equal(found.isinf(), truth.isinf())


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("T", [1, 20, 70])
def test_what_pads_a_batch_never_matters(level: str, dtype: str, T: int) -> None:
    kind = getattr(torch, dtype)
    q, k, v = (torch.randn(4, 2, n, 16).to(kind) for n in (T, 70, 70))
    stops = [1, 15, 32, 69]
    beyond = (torch.arange(70) >= torch.tensor(stops)[:, None])[:, None, :, None]
    clean, broken = (
        [a.masked_fill(beyond, number) for a in (k, v)] for number in (0.0, float("nan"))
    )
    with at_level(level):
        want = regard.attend(q, *clean, regard.lengths(stops), engine="native")
        found = regard.attend(q, *broken, regard.lengths(stops), engine="native")
    assert torch.equal(found, want)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_infinite_and_huge_scores_are_the_formulas(level: str, dtype: torch.dtype) -> None:
    # The instructions that multiply bfloat16 take a denormal for 0.
    small = 1e-30 if dtype == torch.bfloat16 else 1e-40
    q = torch.tensor([1.0, -1.0, 0.0, small, 100.0])[None, :, None].to(dtype)
    check_extremes(level, q, alone=3)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_dropout_is_the_formulas(level: str, dtype: str) -> None:
    q, k, v = (torch.randn(2, 3, 70, 16, dtype=getattr(torch, dtype)) for _ in range(3))
    for mask in (regard.causal(), regard.where(lambda i, j: (i + j) % 2 == 0)):
        for rate in (0.2, 0.9):
            with at_level(level):
                found = regard.attend(q, k, v, mask, dropout=rate, generator=5, engine="native")
            truth = regard.attend(q, k, v, mask, dropout=rate, generator=5, engine="formula")
            torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-4)


def test_a_mask_that_is_no_ranges_goes_some_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = (torch.randn(2, 2, 50, 8) for _ in range(3))
    bias = regard.alibi(2) + torch.randn(2, 50, 50)
    mask = regard.causal() & regard.where(lambda i, j: (i + j) % 3 != 0)
    heights: list[int] = []

    def odd(i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
        heights.append(i.shape[-2])
        return (i + j) % 3 != 0

    whole = regard.attend(q, k, v, mask, bias=bias, dropout=0.2, generator=1, engine="formula")
    monkeypatch.setattr(native, "MASK", 7 * 4 * 50)
    mask = regard.causal() & regard.where(odd)
    found = regard.attend(q, k, v, mask, bias=bias, dropout=0.2, generator=1, engine="native")
    assert heights == [7] * 7 + [1]
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)


def test_the_number_of_threads_changes_nothing_and_no_run_differs() -> None:
    calls = []
    for T, S, H, G, dtype in (
        (300, 300, 4, 4, torch.float32),
        (1, 3000, 4, 1, torch.bfloat16),
        (64, 64, 16, 16, torch.float16),
    ):
        q, k, v = (torch.randn(2, h, n, 64).to(dtype) for h, n in ((H, T), (G, S), (G, S)))
        calls.append(lambda q=q, k=k, v=v: regard.attend(q, k, v, regard.causal(), engine="native"))
    expected = [call() for call in calls]
    try:
        for n in (1, 2, 3, 7):
            regard.set_threads(n)
            assert native._native.threads() == n
            for call, want in zip(calls, expected, strict=True):
                for _ in range(3):
                    assert torch.equal(call(), want)
    finally:
        regard.set_threads(None)
    assert native._native.threads() == torch.get_num_threads()
    with pytest.raises(regard.ValueRangeError, match="n must be 1 or more"):
        regard.set_threads(0)


def test_several_python_threads_get_their_own_answers() -> None:
    inputs = [torch.randn(3, 4, 100, 32) for _ in range(8)]
    expected = [regard.attend(x, x, x, engine="native") for x in inputs]

    def again(i: int) -> bool:
        x = inputs[i % 8]
        return torch.equal(regard.attend(x, x, x, engine="native"), expected[i % 8])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(again, range(64)))


FORK = """
import os, sys
{first}
import numpy as np, regard
x = np.random.default_rng(0).normal(size=(8, 200, 32)).astype(np.float32)
def run():
    {turn}
    return np.asarray(regard.attend(y, y, y, regard.causal(), engine="native"))
want = run()
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(run(), want) and np.array_equal(run(), want) else 1)
_, status = os.waitpid(child, 0)
assert np.array_equal(run(), want)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@pytest.mark.parametrize(
    ("first", "turn"),
    [("", "y = x"), ("import torch", "y = torch.from_numpy(x)")],
    ids=["own", "torch"],
)
def test_a_forked_child_computes_too(first: str, turn: str) -> None:
    code = FORK.format(first=first, turn=turn)
    env = os.environ | {"OMP_NUM_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=env,
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_environment_forces_a_level_and_names_one_that_is_not_there() -> None:
    code = (
        "import numpy, regard\n"
        "from regard.core.engines import _native\n"
        "regard.attend(*[numpy.eye(3)] * 3, engine='native')\n"
        "print(_native.level())"
    )
    for level in LEVELS:
        env = os.environ | {"REGARD_NATIVE_LEVEL": level}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == level
    env = os.environ | {"REGARD_NATIVE_LEVEL": "mmx"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "must name a level that this machine has" in done.stderr
    assert "'mmx'" in done.stderr


def test_the_gradient_of_a_call_that_names_the_engine_is_right() -> None:
    leaves = [torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    mask = regard.causal()
    found = torch.autograd.grad(regard.attend(*leaves, mask, engine="native").sin().sum(), leaves)
    truth = torch.autograd.grad(regard.attend(*leaves, mask, engine="formula").sin().sum(), leaves)
    for got, want in zip(found, truth, strict=True):
        torch.testing.assert_close(got, want)


def test_arrays_are_taken_where_they_lie() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 40, 16)).astype(np.float32)
    want = regard.attend(x, x, x, engine="formula")
    views = [
        np.moveaxis(np.moveaxis(x, 1, 2).copy(), 1, 2),
        x[:, ::-1][:, ::-1],
        np.broadcast_to(x[:, :1], x.shape),
        np.stack([x, x])[1],
    ]
    for view in views:
        found = regard.attend(view, view, view, engine="native")
        truth = want if view is not views[2] else regard.attend(view, view, view, engine="formula")
        np.testing.assert_allclose(double(found), truth, atol=1e-5)
