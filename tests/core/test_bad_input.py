"""Bad input gets one sentence that names the argument, what was expected, what came, the remedy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard

Q, K, V = np.zeros((2, 4, 5, 8)), np.zeros((2, 2, 6, 8)), np.zeros((2, 2, 6, 3))
NAN, LOW = float("nan"), np.float32


@pytest.mark.parametrize(
    ("args", "options", "kind", "words"),
    [
        (([1.0], K, V), {}, regard.KindError, r"q must be an array .* it is a list; wrap it"),
        ((Q.astype(int), K, V), {}, regard.KindError, r"q must be of a floating-point .* int64"),
        ((Q > 0, K, V), {}, regard.KindError, "but it is bool"),
        ((Q.astype(LOW), K, V), {}, regard.KindError, "q is float32, k is float64"),
        ((Q[0, 0], K, V), {}, regard.ShapeError, r"q must have the axes \(…, H, T, D\)"),
        ((Q, K[0, 0, 0], V), {}, regard.ShapeError, r"k must have the axes \(…, G, S, D\)"),
        ((Q[..., :7], K, V), {}, regard.ShapeError, "q is 7 wide .* and k is 8 wide"),
        ((Q[..., :0], K[..., :0], V), {}, regard.ShapeError, "a width D of at least 1"),
        ((Q[:1], K, V), {}, regard.ShapeError, "q and k must have the same leading axes"),
        ((Q, K, V[:1]), {}, regard.ShapeError, "k and v must have the same leading axes"),
        ((Q, K, V[..., :5, :]), {}, regard.ShapeError, "each key needs one value"),
        ((Q[:, :3], K, V), {}, regard.ShapeError, r"H = 3 .* G = 2 .* swap them"),
        (
            (Q, K, V, np.ones((5, 6), bool)),
            {},
            regard.KindError,
            r"keep\(array\) if True means may",
        ),
        ((Q, K, V, np.ones((5, 6))), {}, regard.KindError, r"is added to the scores is a bias"),
        ((Q, K, V, "causal"), {}, regard.KindError, r"must be a mask value such as causal\(\)"),
        ((Q, K, V), {"bias": np.zeros((6, 6))}, regard.ShapeError, "bias must fit"),
        ((Q, K, V), {"bias": np.zeros((5, 6), int)}, regard.KindError, "bias must be of a float"),
        ((Q, K, V), {"scale": "1"}, regard.KindError, "scale must be a number, but it is a str"),
        ((Q, K, V), {"scale": NAN}, regard.ValueRangeError, "scale must be finite, but nan came"),
        ((Q, K, V), {"softcap": 0}, regard.ValueRangeError, "softcap must be above 0, but 0 came"),
        ((Q, K, V), {"sink": np.zeros(3)}, regard.ShapeError, r"shape \(4,\), or one number"),
        ((Q, K, V), {"start": 1.5}, regard.KindError, "start must be whole numbers"),
        ((Q, K, V), {"start": True}, regard.KindError, "start must be whole numbers"),
        ((Q, K, V), {"start": [1, 2, 3]}, regard.ShapeError, r"start must be .* shape \(2,\)"),
        (
            (Q, K, V),
            {"start": [[1], [2, 3]]},
            regard.ShapeError,
            "start must be a rectangular array",
        ),
        ((Q, K, V), {"start": 2**63 - 1}, regard.ValueRangeError, "start must be at most"),
        ((Q, K, V), {"scale": 10**400}, regard.ValueRangeError, "scale must be finite, but inf"),
        ((Q, K, V), {"sink": NAN}, regard.ValueRangeError, "sink must be finite"),
        ((Q, K, V), {"sink": True}, regard.KindError, "sink must be a number"),
        ((Q, K, V), {"engine": ["tiles"]}, regard.EngineError, r"it is \['tiles'\]"),
        ((Q, K, V), {"dropout": 1.0}, regard.ValueRangeError, "at least 0 and below 1, but 1.0"),
        (
            (Q, K, V),
            {"engine": "fast"},
            regard.EngineError,
            "one of 'native', 'sdpa', 'flex', 'tiles', 'formula'",
        ),
        ((Q, K, V), {"engine": "sdpa"}, regard.EngineError, "it takes torch tensors only"),
        ((Q, K, None), {}, regard.KindError, "v must be an array, but it is None"),
        ((Q, None, V), {}, regard.KindError, "k must be an array .* it is a NoneType"),
    ],
)
def test_attend(args: tuple[Any, ...], options: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        regard.attend(*args, **options)
    assert issubclass(kind, regard.RegardError)
    assert issubclass(kind, ValueError | TypeError)


def test_two_libraries_do_not_mix() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(
        regard.KindError, match="must come from one array library, but they are q: t"
    ):
        regard.attend(torch.zeros(2, 3), np.zeros((2, 3)), np.zeros((2, 3)))
    x = torch.zeros(2, 3)
    for name in ("bias", "sink"):
        far = torch.zeros((2, 2) if name == "bias" else (1,), device="meta")
        with pytest.raises(regard.KindError, match=f"on one device, but q is on cpu, {name} is on"):
            regard.attend(x, x, x, **{name: far})
    with pytest.raises(regard.KindError, match=r"on one device, but q is on cpu, k is on meta"):
        regard.attend(torch.zeros(2, 3), torch.zeros(2, 3, device="meta"), torch.zeros(2, 3))


@pytest.mark.parametrize(
    ("ask", "kind", "words"),
    [
        (lambda W: W.ask("entropy"), regard.KindError, "ask takes questions such as"),
        (lambda W: W.topk(0), regard.ValueRangeError, "k must be 1 or more, but 0 came"),
        (lambda W: W.topk(1.5), regard.KindError, "k must be a whole number"),
        (lambda W: W.mass([9]), regard.ValueRangeError, "must lie in 0 … S−1"),
        (lambda W: W.mass([0.5]), regard.KindError, "must be whole numbers"),
        (lambda W: W.image(0, 4), regard.ValueRangeError, "height must be 1 or more"),
        (lambda W: W.image(2, 2, reduce="min"), regard.ValueRangeError, "reduce must be 'mean'"),
        (lambda W: W.image(2, 2, rows=slice(3, 3)), regard.ShapeError, "must hold something"),
        (lambda W: W.image(2, 2, keys=slice(0, 4, 2)), regard.KindError, "without a step"),
        (lambda W: W[..., 7, 0], regard.ValueRangeError, "the row index must lie within 5 rows"),
        (lambda W: W[..., 0, 6], regard.ValueRangeError, "the key index must lie within 6 keys"),
        (lambda W: W[0, 0, 0, 0, 0], regard.ShapeError, "5 indices for weights"),
        (
            lambda W: W[..., 1.5, :],
            regard.KindError,
            "row index must be a whole number, .* float64",
        ),
        (lambda W: W[..., True, :], regard.KindError, r"it is bool of shape \(\)"),
        (lambda W: W[..., [[0, 1]], :], regard.KindError, r"it is int64 of shape \(1, 2\)"),
        (lambda W: W[5, 0, 0], regard.ValueRangeError, r"batch and heads must lie within \(2, 4\)"),
        (iter, TypeError, "not iterable"),
        (lambda W: W.image(2, 2, rows=slice(0.5, 2)), regard.KindError, "must have whole bounds"),
        (lambda W: W.mass(slice(0.5, 2)), regard.KindError, "must be whole numbers, not slice"),
        (lambda W: W[None], regard.KindError, "numbers, slices, arrays and one"),
        (lambda W: W @ np.zeros((2, 2, 5, 3)), regard.ShapeError, "each key needs one value"),
    ],
)
def test_weights(ask: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        ask(regard.weights(Q, K))


def test_no_engine_of_weights_is_sdpa() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(3, 4)
    with pytest.raises(regard.EngineError, match="it keeps no weights"):
        regard.weights(x, x, engine="sdpa")
    with pytest.raises(regard.EngineError, match="it does not define attention over nothing"):
        regard.attend(x[:0], x, x, engine="sdpa")
    with pytest.raises(regard.EngineError, match="its dropout draws"):
        regard.attend(x, x, x, dropout=0.1, engine="sdpa")
    with pytest.raises(regard.EngineError, match="each query head has a key head of its own"):
        regard.partial(x.expand(2, 3, 4), x[None], x[None], engine="sdpa")
    half = x.half()
    with pytest.raises(regard.EngineError, match="it would round the bias to the dtype of q"):
        regard.attend(half, half, half, bias=torch.zeros(3, 3), engine="sdpa")


def test_plan_draws_nothing_and_says_what_does_not_fit() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(3, 4)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    assert regard.plan(x, x, x, dropout=0.5).engine == "native"
    assert torch.equal(torch.rand(1), expected)
    wrong = regard.keep(np.ones((4, 5), bool))
    for call in (lambda: regard.plan(x, x, x, wrong), lambda: regard.weights(x, x, ~wrong & wrong)):
        with pytest.raises(regard.ShapeError, match=r"the array of keep\(array\) must fit"):
            call()


def test_plan_takes_the_native_engine_where_it_is() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 64, 4)
    for array in (x, x.numpy(), x.half(), x.bfloat16(), x.double()):
        plan = regard.plan(array, array, array, regard.causal())
        assert (plan.engine, plan.refused) == ("native", {})
    trained = regard.plan(x.double().requires_grad_(), x.double(), x.double())
    assert trained.engine == "sdpa"
    assert trained.refused == {"native": "it computes gradients in float64 one row after another"}
    assert regard.plan(x.to("meta"), x.to("meta"), x.to("meta")).engine == "sdpa"
    wide = torch.zeros(2, 4, 257)
    with pytest.raises(regard.EngineError, match="heads of width 256 at most"):
        regard.attend(wide, wide, wide, engine="native")


@pytest.mark.usefixtures("without_native")
def test_plan_says_that_the_native_engine_was_not_built() -> None:
    x = np.zeros((2, 4, 4))
    plan = regard.plan(x, x, x)
    assert plan.engine == "tiles"
    assert plan.refused["native"].startswith("it was not built when regard was installed")
    with pytest.raises(regard.EngineError, match="it was not built"):
        regard.attend(x, x, x, engine="native")


@pytest.mark.usefixtures("without_native")
def test_plan_tells_which_engine_and_why() -> None:
    torch = pytest.importorskip("torch")
    x = torch.zeros(2, 64, 4)
    assert regard.plan(x, x, x).engine == "sdpa"
    assert regard.plan(x, x, x, regard.causal()).engine == "sdpa"
    assert "all is finite" in regard.plan(x, x, x).why
    weights = regard.plan(x, x, regard.causal())
    assert weights.engine == "tiles"
    assert [weights.refused[e] for e in ("sdpa", "flex")] == ["it keeps no weights"] * 2
    narrow = regard.plan(x, x, x, regard.causal() & regard.window(4))
    assert narrow.engine == "tiles"
    assert "the mask needs 6% of them" in narrow.refused["sdpa"]
    named = regard.plan(x, x, x, regard.causal(), engine="formula")
    assert named.engine == "formula"
    assert named.why.startswith("asked for by name")
    long = torch.zeros(1, 1, 1).expand(1, 20_000, 1)
    dense = regard.plan(long, long, long, regard.causal() | regard.prefix(1))
    assert dense.engine == "tiles"
    assert "mask would take 1,907 MiB" in dense.refused["sdpa"]
    assert regard.plan(x.numpy(), x.numpy(), x.numpy()).engine == "tiles"


def test_a_call_like_one_before_is_still_checked() -> None:
    x, wide = np.ones((2, 2, 3, 4)), np.ones((2, 2, 5, 4))
    for _ in range(2):
        regard.attend(x, x, x, regard.causal(), scale=1, start=1, dropout=0)
    for wrong in ({"scale": True}, {"start": True}, {"dropout": False}):
        with pytest.raises(regard.KindError):
            regard.attend(
                x, x, x, regard.causal(), **{"scale": 1, "start": 1, "dropout": 0} | wrong
            )
    with pytest.raises(regard.ShapeError):
        regard.attend(x, wide, x, regard.causal())
    with pytest.raises(regard.KindError):
        regard.attend(x, x.astype(np.float32), x, regard.causal())
    found = [
        regard.attend(x, x, np.arange(48.0).reshape(x.shape), regard.causal(), start=np.array(s))
        for s in ([0, 1], [1, 0])
    ]
    assert not np.allclose(*found)
