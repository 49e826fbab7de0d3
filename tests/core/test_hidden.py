"""What is hidden takes no part in a derivative, whatever it holds."""

from __future__ import annotations

from typing import Any

import pytest

import regard

torch = pytest.importorskip("torch")

H, G, T, S, D, E = 4, 2, 4, 5, 3, 2


def inputs() -> list[Any]:
    shapes = (2, H, T, D), (2, G, S, D), (2, G, S, E)
    return [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("engine", ["tiles", "formula"])
def test_what_is_hidden_reaches_no_derivative(engine: str) -> None:
    q, k, v = inputs()
    spoilt = [x.detach().clone() for x in (k, v)]
    for x in spoilt:
        x[:, :, 3:] = torch.nan
    mask = regard.lengths(3)

    def second(q: Any, k: Any, v: Any) -> Any:
        output = regard.attend(q, k, v, mask, engine=engine)
        (g,) = torch.autograd.grad(output.sin().sum(), q, create_graph=True)
        return torch.autograd.grad(g.sin().sum(), (q, k, v))

    found = second(q, *(x.requires_grad_() for x in spoilt))
    want = second(q, k, v)
    for a, b in zip(found, want, strict=True):
        torch.testing.assert_close(a, b)
    assert not found[1][:, :, 3:].any()


@pytest.mark.parametrize("engine", ["auto", "tiles", "formula"])
@pytest.mark.parametrize("ranges", [True, False])
def test_what_is_hidden_reaches_no_derivative_along_infinity(engine: str, ranges: bool) -> None:
    """The tangent of a hidden key or value may be infinite where the key itself is finite."""
    from torch.func import jvp, vjp

    q, k, v = (x.detach() for x in inputs())
    seen = torch.arange(S).expand(T, S) < 3
    mask = regard.lengths(3) if ranges else regard.keep(seen)
    along = [torch.randn_like(x) for x in (q, k, v)]
    infinite = [along[0], *(x.clone() for x in along[1:])]
    for x in infinite[1:]:
        x[:, :, 3:] = torch.inf
    attend = lambda *arrays: regard.attend(*arrays, mask, engine=engine)  # noqa: E731
    want, found = (jvp(attend, (q, k, v), tuple(t))[1] for t in (along, infinite))
    torch.testing.assert_close(found, want)
    for x in vjp(attend, q, k, v)[1](torch.full((2, H, T, E), torch.inf).double())[1:]:
        assert not x[:, :, 3:].any()


@pytest.mark.parametrize("engine", ["tiles", "formula"])
@pytest.mark.parametrize("softcap", [None, 5.0])
def test_hidden_products_may_overflow(engine: str, softcap: float | None) -> None:
    """A cache that is not filled yet holds anything: finite numbers whose products are not."""
    q = torch.full((1, 2, 2), 1e10, requires_grad=True)
    k, v = torch.tensor([[[0.0, 0.0], [1e30, -1e30]]]), torch.ones(1, 2, 2)
    mask = regard.keep(torch.tensor([[True, False], [True, False]]))
    output = regard.attend(q, k, v, mask, softcap=softcap, engine=engine)
    assert torch.equal(output, torch.ones(1, 2, 2))
    (g,) = torch.autograd.grad(output.sum(), q)
    assert torch.equal(g, torch.zeros(1, 2, 2))


@pytest.mark.parametrize("engine", ["sdpa", "tiles", "formula"])
def test_a_row_that_may_attend_to_nothing_has_gradient_0(engine: str) -> None:
    q, k, v = inputs()
    output = regard.attend(q, k, v, regard.lengths([0, 4]), engine=engine)
    for g in torch.autograd.grad(output.sum(), (q, k, v)):
        assert not g[0].any()
        assert torch.isfinite(g).all()
