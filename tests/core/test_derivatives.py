"""What torch may ask of a result: gradients of any order, tangents, mapped axes."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from cases import strips_of

torch = pytest.importorskip("torch")

H, G, T, S, D, E = 4, 2, 4, 5, 3, 2
MASKS = {
    "none": None,
    "causal and window": regard.causal() & regard.window(2),
    "lengths with an empty row": regard.lengths([0, 4]),
    "documents": regard.documents([0, 0, 1, 1, 2]),
    "keep": regard.keep(np.random.default_rng(0).random((H, T, S)) < 0.6),
    "where": regard.where(lambda i, j: (i + j) % 2 == 0),
}


def leaf(*shape: int) -> Any:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def inputs() -> list[Any]:
    return [leaf(2, H, T, D), leaf(2, G, S, D), leaf(2, G, S, E)]


def everything(mask: Any, engine: str) -> tuple[Callable[..., Any], list[Any]]:
    """Grouped heads with bias, slopes, a table, softcap and a sink; each is differentiated."""

    def call(q: Any, k: Any, v: Any, bias: Any, slopes: Any, table: Any, sink: Any) -> Any:
        scores = regard.alibi(slopes) + regard.relative(table) + bias
        return regard.attend(q, k, v, mask, bias=scores, softcap=3.0, sink=sink, engine=engine)

    return call, [*inputs(), leaf(H, T, S), leaf(H), leaf(H, 5), leaf(H)]


@pytest.mark.parametrize("engine", ["tiles", "formula"])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_every_derivative_of_everything(mask: Any, engine: str) -> None:
    call, arrays = everything(mask, engine)
    with strips_of(40):
        assert torch.autograd.gradcheck(call, arrays, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(
            call, arrays, check_fwd_over_rev=True, check_rev_over_rev=True, fast_mode=True
        )


@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_every_derivative_of_what_auto_takes(mask: Any) -> None:
    call: Callable[..., Any] = lambda q, k, v: regard.attend(q, k, v, mask)  # noqa: E731
    arrays = inputs()
    assert regard.plan(*arrays, mask).engine in ("sdpa", "tiles")
    assert torch.autograd.gradcheck(call, arrays, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, arrays, check_fwd_over_rev=True, fast_mode=True)


def test_a_third_derivative() -> None:
    q, k, v = (x[0] for x in inputs())

    def along(t: Any) -> Any:
        return regard.attend(q + t * v.sum(), k * t, v, regard.causal()).sin().sum()

    t = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    found = along(t)
    for _ in range(3):
        (found,) = torch.autograd.grad(found, t, create_graph=True)
    step = 1e-3

    def second(at: float) -> float:
        t = torch.tensor(at, dtype=torch.float64, requires_grad=True)
        (first,) = torch.autograd.grad(along(t), t, create_graph=True)
        return torch.autograd.grad(first, t)[0].item()

    at = t.item()
    assert found.item() == pytest.approx(
        (second(at + step) - second(at - step)) / (2 * step), rel=1e-4, abs=1e-6
    )


def test_questions_and_entries_and_lse() -> None:
    q, k, v = inputs()
    asked = [
        regard.entropy(),
        regard.received(),
        regard.topk(2),
        regard.mass([1, 2]),
        regard.by_distance(),
        regard.image(2, 2),
        regard.image(2, 2, reduce="max"),
    ]

    def call(q: Any, k: Any, sink: Any) -> Any:
        W = regard.weights(q, k, regard.causal(), sink=sink)
        a = W.ask(*asked)
        smooth = [a[0], a[1], a[2].weights, a[3], a[4].weight, a[5], a[6]]
        return *smooth, W[..., [1, 3, 3], 1:4], W.lse

    with strips_of(40):
        arrays = (q, k, leaf(H))
        assert torch.autograd.gradcheck(call, arrays, check_forward_ad=True, fast_mode=True)
        assert torch.autograd.gradgradcheck(call, arrays, fast_mode=True)

    def merged(q: Any, k: Any, v: Any) -> Any:
        parts = [
            regard.partial(q, k[..., s, :], v[..., s, :]) for s in (slice(0, 2), slice(2, None))
        ]
        return regard.merge(parts, sink=0.3)

    assert torch.autograd.gradcheck(merged, (q, k, v), check_forward_ad=True, fast_mode=True)


def test_the_largest_of_a_block_shares_its_gradient_between_ties() -> None:
    q, k = torch.zeros(1, 4, 2), torch.zeros(1, 4, 2)
    bias = torch.zeros(4, 4)
    bias[:, 1] = 1  # each row's largest is the same number
    bias.requires_grad_()
    with strips_of(4):  # a strip a row: the tie runs through all of them
        top = regard.weights(q, k, bias=bias).image(1, 1, reduce="max")
        (found,) = torch.autograd.grad(top.sum(), bias)
    (one,) = torch.autograd.grad(torch.softmax(bias, -1).amax(), bias)
    assert found.abs().max() > 0.01
    torch.testing.assert_close(found, one)


MAPPED = {
    **{name: mask for name, mask in MASKS.items() if name != "lengths with an empty row"},
    "lengths": regard.lengths(3),
}


@pytest.mark.parametrize("engine", ["auto", "tiles", "formula"])
@pytest.mark.parametrize("mask", MAPPED.values(), ids=MAPPED)
def test_vmap_is_a_loop(mask: Any, engine: str) -> None:
    q, k, v, bias = (x.detach() for x in (*inputs(), leaf(3, T, S)))
    q = torch.stack([q, q * 2, q - 1])

    def call(q: Any, bias: Any) -> Any:
        return regard.attend(q, k, v, mask, bias=bias, engine=engine)

    def total(q: Any, bias: Any) -> Any:
        return call(q, bias).sin().sum()

    found = torch.func.vmap(call)(q, bias)
    want = torch.stack([call(*pair) for pair in zip(q, bias, strict=True)])
    torch.testing.assert_close(found, want)
    for a, b in zip(
        torch.func.vmap(torch.func.grad(total, argnums=(0, 1)))(q, bias),
        map(
            torch.stack,
            zip(
                *(torch.func.grad(total, (0, 1))(*p) for p in zip(q, bias, strict=True)),
                strict=True,
            ),
        ),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


def test_vmap_over_some_axes_and_over_masks_and_twice() -> None:
    q, k, v = (x.detach() for x in inputs())
    seen = torch.rand(3, T, S) < 0.6
    found = torch.func.vmap(lambda m: regard.attend(q, k, v, regard.keep(m)))(seen)
    want = torch.stack([regard.attend(q, k, v, regard.keep(m)) for m in seen])
    torch.testing.assert_close(found, want)
    found = torch.func.vmap(lambda k, v: regard.attend(q, k, v), in_dims=(0, 2), out_dims=1)(
        torch.stack([k, k + 1]), torch.stack([v, v * 2], 2)
    )
    torch.testing.assert_close(found[:, 1], regard.attend(q, k + 1, v * 2))
    twice = torch.func.vmap(torch.func.vmap(regard.attend))
    one = [x.unflatten(1, (2, -1)).transpose(0, 1)[None] for x in (q, k, v)]
    torch.testing.assert_close(twice(*one)[0].transpose(0, 1).flatten(1, 2), regard.attend(q, k, v))


def test_vmap_needs_no_slow_fallback_and_says_what_it_cannot_map() -> None:
    q, k, v = (x.detach() for x in inputs())
    torch._C._functorch._set_vmap_fallback_enabled(False)
    try:
        torch.func.vmap(lambda q: regard.attend(q, k, v, regard.causal()))(torch.stack([q, q]))
        torch.func.vmap(lambda q: regard.weights(q, k).topk(2).keys)(torch.stack([q, q]))
    finally:
        torch._C._functorch._set_vmap_fallback_enabled(True)
    with pytest.raises(regard.KindError, match="stop must not be mapped by vmap"):
        torch.func.vmap(lambda n: regard.attend(q, k, v, regard.lengths(n)))(torch.tensor([1, 2]))
    with pytest.raises(regard.KindError, match="pass vmap randomness='same'"):
        torch.func.vmap(lambda q: regard.attend(q, k, v, dropout=0.4), randomness="different")(
            torch.stack([q, q])
        )
    seen = torch.rand(2, T, S) < 0.5
    for made in (torch.func.vmap, lambda f: torch.func.vmap(torch.func.jacrev(f))):
        with pytest.raises(regard.KindError, match=r"make the boolean array .* keep\(array\)"):
            made(
                lambda q, m: regard.attend(q, k, v, regard.where(lambda i, j: m[i, j]))  # type: ignore[misc]
            )(torch.stack([q, q]), seen)
    same = torch.func.vmap(lambda q: regard.attend(q, k, v, dropout=0.4), randomness="same")
    assert torch.equal(*same(torch.stack([q, q])))
    with pytest.raises(regard.EngineError, match=r"torch's old vmap .* use torch.func"):
        torch.autograd.functional.jacobian(lambda q: regard.attend(q, k, v), q, vectorize=True)
    with pytest.raises(regard.EngineError, match=r"torch's old vmap .* use torch.func"):
        torch.autograd.functional.jacobian(
            lambda q: regard.attend(q, k, v), q, vectorize=True, strategy="forward-mode"
        )
    with pytest.raises(regard.KindError, match="n must be a whole number"):
        torch.func.vmap(lambda n: regard.attend(q, k, v, regard.window(n)))(torch.tensor([1, 2]))


def test_hessians_agree_whichever_way_they_are_made() -> None:
    q, k, v = (x[0].detach() for x in inputs())

    def total(q: Any) -> Any:
        return regard.attend(q, k, v, regard.causal()).sin().sum()

    forward_over_reverse = torch.func.hessian(total)(q)
    reverse_over_forward = torch.func.jacrev(torch.func.jacfwd(total))(q)
    reverse_twice = torch.func.jacrev(torch.func.jacrev(total))(q)
    torch.testing.assert_close(forward_over_reverse, reverse_over_forward)
    torch.testing.assert_close(forward_over_reverse, reverse_twice)
    n = q.numel()
    square = forward_over_reverse.reshape(n, n)
    torch.testing.assert_close(square, square.T)


@pytest.mark.parametrize("in_graph", [False, True])
def test_an_array_of_numpys_may_change_before_the_backward_pass(in_graph: bool) -> None:
    arrays = inputs()
    seen, slopes = np.tri(T, S, dtype=bool), np.full(H, 0.5)

    def attend(q: Any, k: Any, v: Any) -> Any:
        return regard.attend(q, k, v, regard.keep(seen), bias=regard.alibi(slopes), engine="tiles")

    want = torch.autograd.grad(attend(*arrays).sin().sum(), arrays)
    torch._dynamo.reset()
    fn = torch.compile(attend, fullgraph=True, backend="aot_eager") if in_graph else attend
    total = fn(*arrays).sin().sum()
    seen[:], slopes[:] = True, 9.0
    for a, b in zip(torch.autograd.grad(total, arrays), want, strict=True):
        torch.testing.assert_close(a, b)


def test_only_the_gradients_that_are_wanted_are_made() -> None:
    q, k, v = (x.detach() for x in inputs())
    bias = torch.randn(T, S, dtype=torch.float64)
    q.requires_grad_()
    output = regard.attend(q, k, v, bias=bias, engine="tiles")
    output.sum().backward()
    assert q.grad is not None
    assert (k.grad, v.grad, bias.grad) == (None, None, None)


@pytest.mark.parametrize("engine", ["sdpa", "tiles"])
def test_a_graph_may_be_used_twice_and_is_let_go(engine: str) -> None:
    q, k, v = inputs()
    output = regard.attend(q, k, v, regard.causal(), engine=engine)
    first = torch.autograd.grad(output.sum(), (q, k, v), retain_graph=True)
    again = torch.autograd.grad(output.sum(), (q, k, v))
    for a, b in zip(first, again, strict=True):
        torch.testing.assert_close(a, b)
    held = weakref.ref(k)
    del q, k, v, output, first, again, a, b
    gc.collect()
    assert held() is None


def test_a_result_changed_in_place_is_noticed_not_used() -> None:
    q, k, v = inputs()
    output = regard.attend(q, k, v, regard.causal(), engine="sdpa")
    output.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(output.sum(), q)


@pytest.mark.parametrize("engine", ["sdpa", "tiles"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_within_a_checkpoint_of_the_users(engine: str, reentrant: bool) -> None:
    from torch.utils.checkpoint import checkpoint

    q, k, v = inputs()

    def block(q: Any, k: Any, v: Any) -> Any:
        return regard.attend(q.sin(), k, v, regard.causal(), engine=engine).sin()

    want = torch.autograd.grad(block(q, k, v).sum(), (q, k, v))
    checkpoint(block, q, k, v, use_reentrant=reentrant).sum().backward()
    for x, g in zip((q, k, v), want, strict=True):
        torch.testing.assert_close(x.grad, g)


@pytest.mark.parametrize("engine", ["auto", "sdpa", "tiles", "formula"])
def test_in_inference_mode(engine: str) -> None:
    """torch.func differentiates there; an autograd.Function's tangent would be a silent zero."""
    from torch.func import grad, jacfwd, jvp, vjp, vmap

    q, k, v = (a.detach() for a in inputs())
    along, mask = torch.randn_like(q), regard.causal()
    asked = "tiles" if engine == "sdpa" else engine

    def attend(q: Any) -> Any:
        return regard.attend(q, k, v, mask, engine=engine)

    def entropy(q: Any) -> Any:
        return regard.weights(q, k, mask, engine=asked).entropy()

    def derivatives() -> list[Any]:
        found = []
        for f in (attend, entropy):
            found.append(jvp(f, (q,), (along,))[1])
            found.append(vmap(lambda t, f=f: jvp(f, (q,), (t,))[1])(along[None])[0])
            found.append(grad(lambda q, f=f: f(q).sin().sum())(q))
            output, back = vjp(f, q)
            found += back(output)
        return [*found, jacfwd(lambda q: attend(q).sum((0, -1)))(q), q.clone(), entropy(q.clone())]

    wanted = derivatives()
    with torch.inference_mode():
        made_there = derivatives()
    assert all(w.abs().max() > 0.01 for w in wanted)
    for found, want in zip(made_there, wanted, strict=True):
        torch.testing.assert_close(found, want)
    with torch.inference_mode():
        q, along = q.clone(), along.clone()
        made_of_such = derivatives()
    for found, want in zip(made_of_such, wanted, strict=True):
        torch.testing.assert_close(found, want)


def test_guided_attention_learns() -> None:
    """The use of a question's gradient: pull the weight on one key up by its own loss."""
    q, k = torch.randn(1, 6, 4), torch.randn(1, 6, 4)
    q.requires_grad_()
    rate = torch.optim.SGD([q], lr=5.0)
    before = regard.weights(q, k).mass(2).mean().item()
    for _ in range(50):
        rate.zero_grad()
        (-regard.weights(q, k).mass(2).log().mean()).backward()
        rate.step()
    assert before < 0.5
    assert regard.weights(q, k).mass(2).mean().item() > 0.9
