"""What the reports' tests share: attention and its gradients by their formulas, in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest

from cases import double


class Truth(NamedTuple):
    """Attention in float64, all T × S weights at once."""

    output: np.ndarray
    weights: np.ndarray
    lse: np.ndarray


def attention(
    q: Any, k: Any, v: Any, seen: Any = True, bias: Any = 0.0, scale: Any = None
) -> Truth:
    """Output, weights and lse; ``seen`` and ``bias`` broadcast to (…, H, T, S)."""
    q, k, v = map(double, (q, k, v))
    if q.ndim > 2:
        k, v = (np.repeat(a, q.shape[-3] // a.shape[-3], axis=-3) for a in (k, v))
    s = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    s = np.where(np.broadcast_to(seen, s.shape), s + double(bias), -np.inf)
    top = s.max(axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    e = np.exp(s - top)
    total = e.sum(axis=-1, keepdims=True)
    w = e / np.where(total == 0, 1.0, total)
    lse = np.where(total == 0, -np.inf, top + np.log(np.where(total == 0, 1.0, total)))
    return Truth(w @ v, w, lse[..., 0])


class Gradients(NamedTuple):
    """Of Σ output · upstream, in float64; ``bias`` is that of each score, (…, H, T, S)."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    bias: np.ndarray


def differentiated(
    q: Any, k: Any, v: Any, upstream: Any, seen: Any = True, bias: Any = 0.0
) -> Gradients:
    """The gradients where each query head has a key head of its own and the scale is 1/√D."""
    w = attention(q, k, v, seen, bias).weights
    q, k, v, upstream = map(double, (q, k, v, upstream))
    dw = upstream @ np.swapaxes(v, -1, -2)
    ds = w * (dw - (w * dw).sum(axis=-1, keepdims=True))
    scale = q.shape[-1] ** -0.5
    turned = np.swapaxes(ds, -1, -2)
    return Gradients(scale * ds @ k, scale * turned @ q, np.swapaxes(w, -1, -2) @ upstream, ds)


@pytest.fixture
def formula() -> Callable[..., Truth]:
    return attention


@pytest.fixture
def gradients() -> Callable[..., Gradients]:
    return differentiated


class Operations:
    """The names of torch's operations, and the largest memory that a result lies in (bytes)."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.largest = 0


@pytest.fixture
def operations() -> Callable[[], AbstractContextManager[Operations]]:
    """A context that notes all that torch does in it, autograd's own work included."""
    torch = pytest.importorskip("torch")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Noting(TorchDispatchMode):
        def __init__(self, done: Operations) -> None:
            super().__init__()
            self.done = done

        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found = op(*args, **(kwargs or {}))
            self.done.names.append(op.overloadpacket.__name__)
            for one in found if isinstance(found, tuple | list) else (found,):
                if isinstance(one, torch.Tensor):
                    self.done.largest = max(self.done.largest, one.untyped_storage().nbytes())
            return found

    @contextmanager
    def noting() -> Iterator[Operations]:
        done = Operations()
        with Noting(done):
            yield done

    return noting
