"""Functions compiled whole, and compared with themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

H = 2


def x(n: int, d: int = 4) -> Any:
    import torch

    return torch.randn(2, H, n, d, requires_grad=True)


def compiled(fn: Callable[..., Any]) -> tuple[Callable[..., Any], Any]:
    """``fn`` compiled whole, and what counts its compilations."""
    import torch
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    return torch.compile(fn, fullgraph=True, backend=counter), counter


def assert_same(fn: Callable[..., Any], graph: Callable[..., Any], *args: Any) -> None:
    """Output and gradients, in the graph and outside of it."""
    import torch

    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    results = []
    for f in (fn, graph):
        output = f(*args)
        outputs = [output] if isinstance(output, torch.Tensor) else list(output)
        total = sum((o.double().sin().sum() for o in outputs), torch.zeros(()))
        results.append([*outputs, *torch.autograd.grad(total, leaves)])
    for a, b in zip(*results, strict=True):
        torch.testing.assert_close(a, b)
