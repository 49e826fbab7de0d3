"""The engine ``flex``: its blocks, its rules, and what torch compiles of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn.attention import flex_attention as torchs

import regard
from cases import Case, arrays, by_hand, cases, masks, numbers
from regard.core.call import check
from regard.core.engines import flex
from regard.core.reducers import Lse, Mixed
from regard.rules.ranges import Ranges
from tolerance import assert_within, bounds, exact


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 3 × 3, so that small matrices have many."""
    monkeypatch.setattr(flex, "BLOCK", 3)


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The slow flex_attention of torch: it does on a CPU what is compiled for CUDA only."""
    flex._kernel.cache_clear()
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)
    monkeypatch.setattr(torchs, "_FLEX_ATTENTION_DISABLE_COMPILE_DEBUG", True)
    monkeypatch.setattr(flex, "compiled", set())
    yield
    flex._kernel.cache_clear()


@pytest.fixture
def compiler() -> None:
    """Something that torch can compile for this CPU with, or a skip that says what is missing."""
    x = torch.ones(1, 2, 4)
    if reason := flex.refuses(check(x, x, x), "output"):
        pytest.skip(reason.removeprefix("it "))


def brute(seen: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """From every entry of (…, T, S): which n × n blocks are seen in part, and which whole."""
    *lead, T, S = seen.shape
    padded = np.zeros((*lead, -(-T // n) * n, -(-S // n) * n), bool)
    padded[..., :T, :S] = seen
    each = padded.reshape(*lead, -(-T // n), n, -(-S // n), n)
    whole = each.all((-1, -3))
    return each.any((-1, -3)) & ~whole, whole


@st.composite
def masked(draw: Any) -> tuple[Any, np.ndarray]:
    """A call with a mask, and what it allows: (B, H, T, S)."""
    lead, H = draw(st.sampled_from([(1,), (2,), (3,)])), draw(st.integers(1, 2))
    T, S = draw(st.integers(1, 14)), draw(st.integers(1, 14))
    mask, allowed = draw(masks(lead, H, T, S))
    start = draw(st.sampled_from([None, -2, 0, 3]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    start = rng.integers(-2, S + 1, lead) if draw(st.booleans()) else start
    q, k = torch.zeros(*lead, H, T, 2), torch.zeros(*lead, H, S, 2)
    case = Case(q.numpy(), k.numpy(), k.numpy(), mask, allowed, start)
    return check(q, k, k, mask, start=start), case.seen()


quick = settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(call_and_seen=masked())
@quick
def test_the_blocks_are_those_of_the_matrix(
    call_and_seen: tuple[Any, np.ndarray], small_blocks: None
) -> None:
    call, seen = call_and_seen
    made = flex.block_mask(call)
    shape = (*made.kv_num_blocks.shape[:-1], *made.kv_indices.shape[-2:])
    part, whole = (
        listed(*pair, shape)
        for pair in (
            (made.kv_num_blocks, made.kv_indices),
            (made.full_kv_num_blocks, made.full_kv_indices),
        )
    )
    if call.ranges is None:  # an array or a function: blocks that may hold something, no more
        assert not whole.any()
        assert (part >= brute(seen.any(1), 3)[0]).all()
        assert (part >= brute(seen.any(1), 3)[1]).all()
    else:
        expected = brute(seen[:, 0], 3)
        np.testing.assert_array_equal(np.broadcast_to(part, expected[0].shape), expected[0])
        np.testing.assert_array_equal(np.broadcast_to(whole, expected[1].shape), expected[1])
    assert made.shape[-2:] == seen.shape[-2:]


def listed(counts: torch.Tensor, order: torch.Tensor, shape: tuple[int, ...]) -> np.ndarray:
    """The blocks that a table lists: (B or 1, blocks of queries, blocks of keys)."""
    found = np.zeros(order.shape, bool)
    for at in np.ndindex(*counts.shape):
        found[(*at, order[at][: counts[at]].numpy())] = True
    return found[:, 0]


def test_torch_makes_the_same_blocks_of_the_dense_mask() -> None:
    q, k = torch.zeros(2, 1, 300, 2), torch.zeros(2, 1, 700, 2)
    mask = (regard.causal() & regard.window(200) | regard.prefix(130)) & regard.lengths([500, 0])
    ours = flex.block_mask(check(q, k, k, mask), training=True)
    theirs = torchs.create_block_mask(ours.mask_mod, 2, 1, 300, 700, device="cpu")
    assert (ours.to_dense() == theirs.to_dense()).all()
    assert ours.sparsity() == theirs.sparsity()
    for counts in ("kv", "full_kv", "q", "full_q"):
        one, other = (getattr(made, f"{counts}_num_blocks") for made in (ours, theirs))
        assert torch.equal(one, other), counts


def test_blocks_take_memory_by_rows_and_blocks() -> None:
    n = 1 << 18  # whose dense mask would be 64 GiB
    at = np.arange(n)
    part, whole = flex.blocks(Ranges.of(at - 500, at + 1, n))
    assert part.shape == (2048, 2048)
    assert part.sum() == 2048 + 2045 + 2044  # the diagonal, and where the window ends
    assert whole.sum() == 2047 + 2046


@given(call_and_seen=masked())
@quick
def test_a_mask_at_one_query_and_key(call_and_seen: tuple[Any, np.ndarray]) -> None:
    call, seen = call_and_seen
    found = flex.mask_mod(call.mask, call.ranges, call)(*grid(*seen.shape))
    np.testing.assert_array_equal(found.expand(*seen.shape).numpy(), seen)


def grid(*shape: int) -> list[torch.Tensor]:
    """The numbers along each axis, as arrays that broadcast."""
    return [
        torch.arange(n).reshape([-1 if i == j else 1 for j in range(len(shape))])
        for i, n in enumerate(shape)
    ]


@pytest.mark.parametrize("start", [None, 3, np.array([[0, -2, 5], [1, 1, 2]])])
@pytest.mark.parametrize(
    "bias",
    [
        regard.alibi(4),
        regard.relative(torch.randn(4, 5)),
        regard.relative(torch.randn(9)),
        regard.t5_relative(torch.randn(8, 4), max_distance=6),
        torch.randn(7, 9),
        torch.randn(2, 1, 4, 7, 1),
        torch.randn(1, 9).bfloat16(),
        regard.alibi(torch.rand(4)) + regard.relative(torch.randn(3)) + torch.randn(4, 1, 9),
    ],
    ids=["alibi", "relative", "one row", "t5", "dense", "by entry", "bfloat16", "sum"],
)
def test_a_bias_at_one_query_and_key(bias: Any, start: Any) -> None:
    q, k = torch.randn(2, 3, 4, 7, 2), torch.randn(2, 3, 4, 9, 2)
    call = check(q, k, k, bias=bias, softcap=2.0, start=start)
    s = torch.randn(6, 4, 7, 9)
    found = flex.score_mod(call)(s, *grid(6, 4, 7, 9))
    dense = call.bias.over(call.frame, torch.float32).expand(2, 3, 4, 7, 9).reshape(6, 4, 7, 9)
    torch.testing.assert_close(found, 2 * torch.tanh(s / 2) + dense)


@given(case=cases(), dtype=st.sampled_from(["float16", "bfloat16", "float32"]))
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_rest_around_the_kernel_agrees_with_the_formula(
    case: Case, dtype: str, uncompiled: None
) -> None:
    """Batches, grouped heads, empty rows, lse and sink, by torch's own slow flex_attention."""
    args, options = arrays(case, "torch", dtype)
    call = check(*args, **options)
    output, lse = flex.compute(call, [Mixed(call), Lse(call.frame)])
    assert output.dtype == call.v.dtype
    assert lse.dtype == torch.float32
    assert_within([output], exact(case, dtype), bounds(case, dtype), case)
    if dtype == "float32":
        lse_of = by_hand(case)[2]
        most = 1 + float(np.abs(case.q).max() * np.abs(case.k).max()) * call.sizes.D
        most += np.abs(lse_of[np.isfinite(lse_of)]).max(initial=0)
        far = 8 * (call.sizes.D + call.sizes.S) * 2.0**-24 * most
        np.testing.assert_allclose(lse.numpy(), lse_of, rtol=0, atol=far)


def test_a_row_that_sees_nothing_gives_its_weight_to_the_sink(uncompiled: None) -> None:
    q, k, v = (torch.randn(2, 3, 5, 4) for _ in range(3))
    for sink, expected in ((None, -torch.inf), (torch.tensor([1.0, -torch.inf, 2.0]), None)):
        call = check(q, k, v, regard.lengths([0, 5]), sink=sink)
        output, lse = flex.compute(call, [Mixed(call), Lse(call.frame)])
        assert (output[0] == 0).all()
        assert (lse[0] == (sink[:, None] if expected is None else expected)).all()
        assert torch.isfinite(lse[1]).all()


X = torch.ones(1, 2, 3, 16)
TABLE = torch.ones(3, dtype=torch.float64)


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        ((X.double(),) * 3, {}, "it sums in float32, too coarsely for float64"),
        ((X,) * 3, {"bias": TABLE[None]}, "it would round the bias to float32"),
        ((X,) * 3, {"dropout": 0.5}, "it has no dropout"),
        ((X[:, :, :0], X, X), {}, "it does not define attention over nothing"),
        ((X, X, X[..., :0]), {}, "it does not define attention over nothing"),
        ((X.to("meta"),) * 3, {}, "it runs on CUDA and on CPUs, not on meta"),
        ((X, X, X.clone().requires_grad_()), {}, "it does not train on a CPU"),
        ((X,) * 3, {"sink": 1.0}, "it has no sink on a CPU"),
    ],
)
def test_it_refuses_by_name(arguments: Any, options: Any, reason: str) -> None:
    assert flex.refuses(check(*arguments, **options), "output") == reason


def test_it_refuses_other_libraries_weights_and_lse() -> None:
    one = check(X.numpy(), X.numpy(), X.numpy())
    assert flex.refuses(one, "output") == "it takes torch tensors only"
    assert flex.refuses(check(X, X, None), "weights") == "it keeps no weights"
    assert flex.refuses(check(X, X, X), "lse") == "it returns no lse on a CPU"


def test_without_a_compiler_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert flex.refuses(check(X, X, X), "output") == "it needs a C++ compiler: install g++"


class OnCuda(torch.Tensor):
    """A tensor that says it is on a device that this machine may not have."""

    device = torch.device("cuda")


def test_on_cuda_it_refuses_narrow_heads_and_a_derivative_of_a_bias() -> None:
    x, narrow = (torch.ones(1, 2, 3, n).as_subclass(OnCuda) for n in (16, 8))
    bias = torch.ones(3, 3).as_subclass(OnCuda)
    reason = flex.refuses(check(x, x, narrow), "output")
    assert reason == "on CUDA its heads are at least 16 wide"
    assert flex.refuses(check(x, x, x, bias=bias), "output") in (None, "it needs triton")
    learned = check(x, x, x, bias=bias.requires_grad_())
    assert flex.refuses(learned, "output") == "it gives a bias no derivative"


def test_it_refuses_every_derivative_on_a_cpu() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return regard.attend(x, X, X, engine="flex").sum()

    for call in (
        lambda: torch.func.grad(f)(X),
        lambda: torch.func.vmap(torch.func.grad(f))(X[None]),
        lambda: torch.func.vmap(f)(X[None].clone().requires_grad_()),
    ):
        with pytest.raises(regard.EngineError, match="it does not train on a CPU"):
            call()


# What follows compiles: few shapes, each for many calls.

T, S = 270, 300
START = np.array([30, 0])
RNG = np.random.default_rng(0)
LENGTHS, KEPT = (300, 120), RNG.random((2, 1, T, S)) < 0.4
DOCUMENT = np.repeat([0, 1, 2], [100, 150, 50])

RULES: dict[str, tuple[Any, Callable[[int, int, int, int, int], bool]]] = {
    "causal": (regard.causal(), lambda b, h, t, i, j: j <= i),
    "an empty row": (
        regard.causal() & regard.window(90) & regard.lengths(LENGTHS, [7, 0]),
        lambda b, h, t, i, j: i - 90 < j <= i and (7, 0)[b] <= j < LENGTHS[b],
    ),
    "documents": (
        regard.documents(lengths=[100, 150, 50]),
        lambda b, h, t, i, j: DOCUMENT[i] == DOCUMENT[j],
    ),
    "arrays and functions": (
        (regard.keep(torch.tensor(KEPT)) | regard.where(lambda i, j: (i + j) % 5 == 0))
        & ~~regard.causal(),
        lambda b, h, t, i, j: (KEPT[b, 0, t, j] or (i + j) % 5 == 0) and j <= i,
    ),
}


def case_of(rule: str, D: int = 16, E: int = 24, **options: Any) -> Case:
    """Two batch entries with starts of their own, two query heads to a key head, E ≠ D."""
    rng = np.random.default_rng(1)
    q, k, v = numbers(rng, 2, 2, T, D), numbers(rng, 2, 1, S, D), numbers(rng, 2, 1, S, E)
    return Case(q, k, v, *RULES[rule], START, options)


@pytest.mark.usefixtures("compiler")
class TestCompiled:
    def test_masks_of_ranges_agree_with_the_formula_by_one_kernel(self) -> None:
        for rule in ("causal", "an empty row", "documents"):
            self.agrees(case_of(rule))

    def test_arrays_and_functions_agree_with_the_formula(self) -> None:
        self.agrees(case_of("arrays and functions"))

    def agrees(self, case: Case, dtype: str = "float32", **replaced: Any) -> None:
        args, options = arrays(case, "torch", dtype)
        found = regard.attend(*args, **(options | replaced), engine="flex")
        assert_within([found], exact(case, dtype), bounds(case, dtype), case)

    @pytest.mark.usefixtures("without_native")
    def test_scores_agree_with_the_formula_and_auto_takes_what_is_compiled(self) -> None:
        table, row = numbers(np.random.default_rng(2), 2, 65), numbers(RNG, 1, S)
        bias = regard.alibi(2) + regard.relative(torch.tensor(table).float())
        far = np.arange(S) - (START[:, None, None] + np.arange(T)[:, None])
        slopes = np.array([2.0**-4, 2.0**-8])[:, None, None]
        dense = -slopes * np.abs(far)[:, None] + table[:, np.clip(far + 32, 0, 64)].swapaxes(0, 1)
        case = case_of("causal", bias=dense + row, softcap=3.0)
        whole = bias + torch.tensor(row).float()
        args, options = arrays(case, "torch", "float32")
        before = regard.plan(*args, **(options | {"bias": whole}))
        assert before.engine == "tiles"
        assert before.refused["flex"].startswith("it would compile for seconds")
        self.agrees(case, bias=whole)
        options |= {"bias": whole, "softcap": 9.0, "start": START[::-1].copy()}
        q, k, v, _ = args
        mask = regard.window(9)  # other numbers in the same shape
        assert regard.plan(q, k, v, mask, **options).engine == "flex"
        with torch.compiler.set_stance("fail_on_recompile"):
            found = regard.attend(q, k, v, mask, **options)
        expected = regard.attend(q, k, v, mask, **options, engine="formula")
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)

    def test_a_function_that_torch_cannot_trace_is_named(self) -> None:
        def odd(i: torch.Tensor, j: torch.Tensor) -> torch.Tensor:
            return (i - j) % (1 + int(i.sum())) == 1

        x = torch.randn(1, 5, 4)
        with pytest.raises(regard.EngineError, match=r"cannot compile mask=where\(odd\)"):
            regard.attend(x, x, x, regard.where(odd), engine="flex")
        with pytest.raises(regard.KindError, match="must return booleans"):
            regard.attend(x, x, x, regard.where(lambda i, j: i - j), engine="flex")

    @pytest.mark.campaign
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    @pytest.mark.parametrize("rule", ["an empty row", "arrays and functions"])
    def test_narrow_dtypes_agree_with_the_formula(self, rule: str, dtype: str) -> None:
        self.agrees(case_of(rule, D=33, E=8), dtype)

    @pytest.mark.campaign
    @pytest.mark.parametrize("lead", [(), (2, 2)])
    @pytest.mark.parametrize("size", [(1, 1), (1, 700), (130, 5), (128, 256)])
    def test_other_shapes_agree_with_the_formula(
        self, lead: tuple[int, ...], size: tuple[int, int]
    ) -> None:
        n, m = size
        q, k, v = (numbers(RNG, *lead, 3, x, 5) for x in (n, m, m))
        for mask, allowed in ((None, lambda *x: True), RULES["causal"]):
            self.agrees(Case(q, k, v, mask, allowed, None, {"scale": -0.7}))

    @pytest.mark.campaign
    def test_vmap_is_one_more_axis(self) -> None:
        q, k, v = (torch.randn(3, 2, 2, 140, 16) for _ in range(3))
        kept, bias = torch.rand(3, 140, 140) < 0.5, torch.randn(3, 140, 1)
        mask = regard.causal() & regard.lengths([100, 0])

        def f(engine: str, q: Any, kept: Any, bias: Any) -> Any:
            a = regard.attend(q, k[0], v[0], mask, bias=bias, start=[0, 3], engine=engine)
            return a, regard.attend(q, k[0], v[0], regard.keep(kept) & mask, engine=engine)

        found, expected = (
            torch.func.vmap(lambda *x, e=engine: f(e, *x))(q, kept, bias)
            for engine in ("flex", "formula")
        )
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
