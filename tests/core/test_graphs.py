"""Attention in compiled and exported graphs, under autocast, and of tensors without data."""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from graphs import H, assert_same, compiled, x

torch = pytest.importorskip("torch")

TABLE, WEIGHT = torch.randn(H, 5, requires_grad=True), torch.randn(8, H, requires_grad=True)
CALLS: dict[str, Callable[..., Any]] = {
    "no mask": lambda q, n: regard.attend(q, q, q),
    "a window of n": lambda q, n: regard.attend(q, q, q, regard.causal() & regard.window(n)),
    "a prefix or its end": lambda q, n: regard.attend(
        q, q, q, regard.causal() | regard.prefix(n - 1)
    ),
    "a length": lambda q, n: regard.attend(q, q, q, regard.lengths(n - 1)),
    "lengths": lambda q, n: regard.attend(q, q, q, regard.lengths(torch.tensor([n - 1, n]))),
    "documents by number": lambda q, n: regard.attend(
        q, q, q, regard.documents(torch.arange(n) // 2)
    ),
    "documents by length": lambda q, n: regard.attend(
        q, q, q, regard.documents(lengths=torch.stack([torch.tensor(1), torch.tensor(n - 1)]))
    ),
    "documents by edge": lambda q, n: regard.attend(
        q, q, q, regard.documents(cumulative=torch.stack([torch.tensor(0), torch.tensor(n)]))
    ),
    "keep": lambda q, n: regard.attend(q, q, q, regard.keep(q[0, 0] @ q[0, 0].T > 0)),
    "where": lambda q, n: regard.attend(
        q, q, q, regard.causal() & regard.where(lambda i, j: (i - j) % 2 == 0)
    ),
    "where with starts": lambda q, n: regard.attend(
        q, q, q, regard.where(lambda i, j: i >= j), start=torch.tensor([0, 1])
    ),
    "scores": lambda q, n: regard.attend(
        q,
        q,
        q,
        bias=regard.alibi(H) + regard.relative(TABLE) + regard.dense(torch.ones(n, n)),
        sink=0.5,
        softcap=3.0,
        scale=0.3,
    ),
    "t5": lambda q, n: regard.attend(q, q, q, bias=regard.t5_relative(WEIGHT, max_distance=4)),
    "a start": lambda q, n: regard.attend(q, q, q, regard.causal(), start=1),
    "dropout": lambda q, n: regard.attend(q, q, q, dropout=0.5, generator=3),
    "partial": lambda q, n: regard.partial(q, q, q, regard.causal()),
    "merge": lambda q, n: regard.merge([regard.partial(q, q, q), regard.partial(q, q, q)]).output,
    "plain arrays": lambda q, n: regard.attend(q[0, 0], q[0, 0], q[0, 0], regard.causal()),
}


@pytest.mark.parametrize("fn", CALLS.values(), ids=CALLS)
def test_a_graph_says_what_the_call_says_and_takes_other_lengths(fn: Callable[..., Any]) -> None:
    graph, counter = compiled(fn)
    for n in (5, 6, 9, 2):
        assert_same(fn, graph, x(n), n)
    assert counter.frame_count <= 2


VALUES: dict[str, Callable[[int], Any]] = {
    "none": lambda n: None,
    "causal": lambda n: regard.causal(),
    "window": lambda n: regard.causal() & regard.window(n),
    "lengths": lambda n: regard.lengths([n, n // 2]),
    "documents": lambda n: regard.causal() & regard.documents(lengths=[1, n - 1]),
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_fifty_lengths_compile_at_most_twice(value: Callable[[int], Any]) -> None:
    def fn(q: Any, mask: Any) -> Any:
        return regard.attend(q, q, q, mask, bias=regard.alibi(H))

    graph, counter = compiled(fn)
    for n in range(2, 52):
        assert_same(fn, graph, x(n), value(n))
    assert 1 <= counter.frame_count <= 2


def test_a_where_made_outside_of_the_graph() -> None:
    mask = ~regard.where(lambda i, j: (i + j) % 3 == 0) | regard.window(1)

    def fn(q: Any) -> Any:
        return regard.attend(q, q, q, mask)

    assert_same(fn, compiled(fn)[0], x(5))


def test_numpy_arrays_and_learned_sinks_and_bias_get_through() -> None:
    seen = np.tri(5, dtype=bool)
    sink, bias = torch.randn(H, requires_grad=True), torch.randn(5, 5, requires_grad=True)

    def fn(q: Any, sink: Any, bias: Any) -> Any:
        return regard.attend(q, q, q, regard.keep(seen), bias=bias, sink=sink, engine="tiles")

    assert_same(fn, compiled(fn)[0], x(5), sink, bias)


def test_inductor_makes_the_same_of_it() -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler: apt-get install g++")

    def fn(q: Any) -> Any:
        return regard.attend(q.sin(), q, q, regard.causal()).cos() * 2

    torch._dynamo.reset()
    assert_same(fn, torch.compile(fn, fullgraph=True), x(6))


def test_vmap_inside_a_graph() -> None:
    k = torch.randn(4, 2, 5, 4)  # mapped, batch, then no head: (B, H, S, D) is one entry's

    def one(q: Any, k: Any) -> Any:
        return regard.attend(
            q, k, k, regard.causal() & regard.lengths([5, 3]), bias=regard.alibi(1)
        )

    def fn(q: Any, k: Any) -> Any:
        return torch.func.vmap(one, in_dims=(0, 0))(q, k)

    q = torch.randn(4, 2, 1, 5, 4, requires_grad=True)
    assert_same(fn, compiled(fn)[0], q, k[:, :, None].requires_grad_())

    def mapped_lengths(q: Any, n: Any) -> Any:
        return torch.func.vmap(lambda n: regard.attend(q, q, q, regard.lengths(n)))(n)

    with pytest.raises(Exception, match="vmap cannot map what a mask says of positions"):
        compiled(mapped_lengths)[0](x(5), torch.tensor([1, 2]))


REFUSED = "no forward mode inside a compiled graph"


def test_forward_mode_in_a_graph_is_refused_and_never_zero() -> None:
    forward = torch.autograd.forward_ad
    q, t = x(5).detach(), torch.randn(2, H, 5, 4)

    def fn(q: Any) -> Any:
        return regard.attend(q, q, q, regard.causal())

    def inside(q: Any, t: Any) -> Any:
        return torch.func.jvp(fn, (q,), (t,))[1]

    assert inside(q, t).abs().max() > 0.01
    with pytest.raises(Exception, match=REFUSED):
        compiled(inside)[0](q, t)
    cold, _ = compiled(fn)
    with forward.dual_level(), pytest.raises(Exception, match=REFUSED):
        cold(forward.make_dual(q, t))
    warm, _ = compiled(fn)
    warm(q)
    with forward.dual_level(), pytest.raises(regard.EngineError, match=REFUSED):
        warm(forward.make_dual(q, t))
    meta = q.to("meta")
    with forward.dual_level(), pytest.raises(regard.EngineError, match=REFUSED):
        fn(forward.make_dual(meta, meta))


class Model(torch.nn.Module):
    """What people export: attention with something learned, and lengths that come along."""

    def __init__(self) -> None:
        super().__init__()
        self.sink = torch.nn.Parameter(torch.zeros(H))

    def forward(self, q: Any, lengths: Any) -> Any:
        mask = regard.causal() & regard.lengths(lengths)
        return regard.attend(q, q, q, mask, sink=self.sink, bias=regard.alibi(H))


@pytest.mark.parametrize("strict", [False, True])
def test_export_and_save_and_load(strict: bool) -> None:
    model, n = Model(), torch.export.Dim("n", min=2, max=512)
    example = (x(6).detach(), torch.tensor([3, 6]))
    shapes = {"q": {2: n}, "lengths": None}
    program = torch.export.export(model, example, dynamic_shapes=shapes, strict=strict)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    q, lengths = x(9), torch.tensor([9, 2])
    for saved in (program, torch.export.load(file)):
        assert_same(model, saved.module(), q, lengths)
    (g,) = torch.autograd.grad(program.module()(q, lengths).sin().sum(), q, create_graph=True)
    with pytest.raises(regard.EngineError, match="no second derivative inside a compiled or exp"):
        torch.autograd.grad(g.sum(), q)


class Everything(torch.nn.Module):
    """Each way of saying a mask from within a graph, in one model."""

    def forward(self, q: Any, n: Any, sizes: Any, edges: Any, ids: Any) -> Any:
        skip = ~(regard.causal() & regard.where(lambda i, j: (i - j) % 2 == 1))
        masks = [
            skip,
            regard.where(lambda i, j: i >= j) | regard.lengths(n, 1),
            regard.documents(lengths=sizes),
            regard.documents(cumulative=edges),
            regard.documents(ids),
            regard.keep(q[0, 0] @ q[0, 0].T > 0) & regard.prefix(3),
        ]
        outputs = [regard.attend(q, q, q, mask, start=torch.tensor([0, 1])) for mask in masks]
        dropped = regard.attend(q, q, q, dropout=0.5, generator=2)
        return torch.stack([*outputs, dropped])


def test_every_mask_is_said_in_an_exported_graph() -> None:
    args = (
        x(6), torch.tensor([3, 6]), torch.tensor([2, 4]), torch.tensor([0, 5, 6]),
        torch.tensor([0, 0, 1, 1, 1, 2]),
    )  # fmt: skip
    model = Everything()
    program = torch.export.export(model, (args[0].detach(), *args[1:]), strict=False)
    assert_same(model, program.module(), *args)


def test_the_operators_keep_torchs_own_rules() -> None:
    from regard.core import traced

    q = x(5)
    call = traced.Parts(
        q, q, q, [torch.randn(H, requires_grad=True)], torch.randn(H, requires_grad=True),
        [torch.rand(5, 5) < 0.6], [torch.tensor([5, 3]), torch.tensor(0)], None, None, [], [],
        "And Keep Lengths", "Alibi", None, 2.0, 0.0, "auto", False, 0,
    )  # fmt: skip
    torch.library.opcheck(torch.ops.regard.attend.default, tuple(call))
    torch.library.opcheck(
        torch.ops.regard.attend.default, tuple(call._replace(lse=True, engine="tiles"))
    )
    plain = call._replace(
        q=q.detach(), k=q.detach(), v=q.detach(), scores=[a.detach() for a in call.scores],
        sink=call.sink.detach(),
    )  # fmt: skip
    torch.library.opcheck(
        torch.ops.regard.attend_backward.default, ([torch.randn(2, H, 5, 4)], [True] * 5, *plain)
    )


def test_a_wrong_call_says_so_from_within_a_graph() -> None:
    q = x(5)

    def wrong(mask: Any = None, **options: Any) -> Callable[[], Any]:
        return lambda: compiled(lambda q: regard.attend(q, q, q, mask, **options))[0](q)

    for call, words in (
        (wrong(regard.lengths(99)), "must count keys from 0 to S = 5, but 99 came"),
        (wrong(engine="fast"), "engine must be 'auto' or one of"),
        (wrong(softcap=2.0, engine="sdpa"), "it has no softcap"),
        (wrong(bias=regard.alibi(3)), "one slope a query head"),
        (wrong(dropout=1.5, generator=0), "dropout must be at least 0 and below 1"),
        (wrong(dropout=0.5, generator=torch.Generator()), "generator must be a whole number"),
        (wrong(torch.ones(5, 5, dtype=torch.bool)), "mask must be a mask value"),
        (
            lambda: compiled(lambda q: regard.attend(q, q[..., :3], q))[0](q),
            "q and k must have the same width D",
        ),
        (
            lambda: compiled(lambda q: regard.attend(q, q, q, regard.lengths(-1)))[0](q),
            "stop must be 0 or more",
        ),
        (
            lambda: compiled(lambda q: regard.weights(q, q).entropy())[0](q),
            "weights are asked outside of a compiled graph",
        ),
    ):
        with pytest.raises(Exception) as caught:  # noqa: PT011 - torch wraps some of them
            call()
        told = str(caught.value) + str(caught.value.__cause__) + str(caught.value.__context__)
        assert words in told


def test_meta_tensors_have_shapes_and_no_data() -> None:
    q = torch.empty(2, 4, 6, 8, device="meta", dtype=torch.bfloat16, requires_grad=True)
    v = torch.empty(2, 2, 7, 3, device="meta", dtype=torch.bfloat16)
    k = torch.empty(2, 2, 7, 8, device="meta", dtype=torch.bfloat16)
    found = regard.attend(q, k, v, regard.causal() & regard.lengths([3, 7]), bias=regard.alibi(4))
    assert (found.shape, found.dtype, found.device.type) == ((2, 4, 6, 3), torch.bfloat16, "meta")
    (g,) = torch.autograd.grad(found.sum(), q)
    assert (g.shape, g.dtype) == (q.shape, q.dtype)
    _, lse = regard.partial(q, k, v)
    assert (lse.shape, lse.dtype) == ((2, 4, 6), torch.float32)
    with pytest.raises(regard.EngineError, match="of tensors with data"):
        regard.weights(q, k)
    with pytest.raises(regard.ShapeError, match="same width D"):
        regard.attend(q, v, v)


@pytest.mark.parametrize("engine", ["auto", "tiles", "formula"])
def test_autocast_casts_what_comes_in_and_nothing_within(engine: str) -> None:
    q, k, v = (torch.randn(2, 4, 40, 16) for _ in range(3))
    low = [a.bfloat16() for a in (q, k, v)]
    bias = torch.randn(40, 40)
    call = {"mask": regard.causal(), "bias": bias, "engine": engine}
    want = regard.attend(*low, **call)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = regard.attend(q, low[1], v, **call)
        W = regard.weights(q, low[1], regard.causal()).entropy()
        graph = compiled(lambda q: regard.attend(q, low[1], v, **call))[0](q)
        mixed = regard.weights(q, low[1], regard.causal()) @ v
        W_outside = regard.weights(*low[:2], regard.causal())
        assert torch.equal(W_outside @ v, mixed)
        exact = regard.attend(q.double(), k.double(), v.double(), engine=engine)
        assert regard.plan(q, low[1], v, **call).engine == regard.plan(*low, **call).engine
    assert torch.equal(found, want)
    assert torch.equal(graph, want)
    assert torch.equal(mixed, regard.attend(*low, regard.causal(), engine="auto"))
    assert torch.equal(W, regard.weights(*low[:2], regard.causal()).entropy())
    assert exact.dtype == torch.float64


def test_autocast_around_a_backward_pass_changes_no_sum() -> None:
    q = torch.randn(1, 2, 30, 8, requires_grad=True)
    output = regard.attend(q, q, q, regard.causal(), engine="tiles")
    (want,) = torch.autograd.grad(output.sin().sum(), q, retain_graph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        (found,) = torch.autograd.grad(output.sin().sum(), q)
    assert torch.equal(found, want)
