"""The modes of torch that a call may be in: autocast, and tensors that have no data yet."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from regard._shapes import Array, in_graph

_NOTHING = nullcontext()


def is_torch(array: Any) -> bool:
    """Whether ``array`` is a torch tensor; does not load torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def without_data(array: Any) -> bool:
    """Whether a graph is being made of the call, or it is about shapes alone (a meta tensor)."""
    return is_torch(array) and (in_graph() or array.is_meta)


def at_autocast(q: Array, k: Array, v: Array | None) -> tuple[Array, Array, Array | None]:
    """Queries, keys and values in the dtype that autocast asks for; float64 stays what it is."""
    if not is_torch(q):
        return q, k, v
    import torch

    kind = q.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return q, k, v
    dtype, casts = torch.get_autocast_dtype(kind), (torch.float16, torch.bfloat16, torch.float32)

    def cast(a: Any) -> Any:
        return a.to(dtype) if is_torch(a) and a.dtype in casts else a

    return cast(q), cast(k), cast(v)


def exactly(array: Any) -> AbstractContextManager[Any]:
    """Inside, sums are made in the dtype that they are written in, whatever autocast asks."""
    if not is_torch(array):
        return _NOTHING
    import torch

    kind = array.device.type
    if not torch.is_autocast_enabled(kind):
        return _NOTHING
    return torch.autocast(kind, enabled=False)
