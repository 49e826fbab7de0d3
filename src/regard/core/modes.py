"""The modes of torch that a call may be in: autocast, and tensors that have no data yet."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from regard._errors import EngineError
from regard._shapes import Array, in_graph

OLD_VMAP = (
    "regard has nothing for torch's old vmap (is_grads_batched=True, vectorize=True); use "
    "torch.func: vmap(vjp(attend, q, k, v)[1]), jacrev or jacfwd"
)
_NOTHING = nullcontext()


def is_torch(array: Any) -> bool:
    """Whether ``array`` is a torch tensor; does not load torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def without_data(array: Any) -> bool:
    """Whether a graph is being made of the call, or it is about shapes alone (a meta tensor)."""
    return is_torch(array) and (in_graph() or array.is_meta)


def undisturbed(q: Any, k: Any, v: Any) -> bool:
    """Whether no mode of torch is on and no gradient wanted: the numbers are all there is."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return True
    if torch.compiler.is_compiling():
        return False
    modes = torch._C
    if modes._len_torch_dispatch_stack() or modes._is_tracing():
        return False
    if modes._is_any_autocast_enabled() or modes._are_functorch_transforms_active():
        return False
    if torch.autograd.forward_ad._current_level >= 0:
        return False
    if not torch.is_grad_enabled():
        return True
    return not any(getattr(a, "requires_grad", False) for a in (q, k, v))


def at_autocast(q: Array, k: Array, v: Array | None) -> tuple[Array, Array, Array | None]:
    """Queries, keys and values in the dtype that autocast asks for; float64 stays what it is."""
    if not _autocasts(q):
        return q, k, v
    import torch

    dtype = torch.get_autocast_dtype(q.device.type)
    return _cast(q, dtype), _cast(k, dtype), _cast(v, dtype)


def at_autocast_of(q: Array, v: Array) -> Array:
    """Values in the dtype of queries that are cast already, where autocast is on."""
    return _cast(v, q.dtype) if _autocasts(v) and is_torch(q) else v


def _autocasts(array: Any) -> bool:
    torch: Any = sys.modules.get("torch")
    if torch is None or not torch._C._is_any_autocast_enabled():
        return False
    on: bool = is_torch(array) and not array.is_meta
    return on and torch.is_autocast_enabled(array.device.type)


def _cast(array: Any, dtype: Any) -> Any:
    import torch

    casts = (torch.float16, torch.bfloat16, torch.float32)
    return array.to(dtype) if is_torch(array) and {array.dtype, dtype} <= {*casts} else array


def differentiates(q: Any, floats: Iterable[Any]) -> bool:
    """Whether torch may ask anything of a result made of ``floats`` now.

    A gradient, a tangent, a mapped axis.
    """
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(q, torch.Tensor):
        return False
    mapped, graded = torch._C._are_functorch_transforms_active(), torch.is_grad_enabled()
    if mapped or (graded and any(a.requires_grad for a in floats)):
        return True
    dual: bool = torch.autograd.forward_ad._current_level >= 0
    return dual and any(map(has_tangent, floats))


def has_tangent(array: Array) -> bool:
    """Whether a torch tensor carries a tangent (forward mode)."""
    import torch

    # In inference mode there is no forward mode, and torch fails where it is asked.
    off = torch._C._dispatch_tls_is_dispatch_key_excluded
    if off(torch._C.DispatchKey.AutogradFunctionality):
        return False
    unpack: Any = torch.autograd.forward_ad.unpack_dual
    try:
        return unpack(array).tangent is not None
    except RuntimeError as error:  # torch's old vmap cannot say it of a tangent that it maps
        raise EngineError(OLD_VMAP) from error


def exactly(array: Any) -> AbstractContextManager[Any]:
    """Inside, sums are made in the dtype that they are written in, whatever autocast asks."""
    if not _autocasts(array):
        return _NOTHING
    import torch

    return torch.autocast(array.device.type, enabled=False)


def refuse_old_vmap(arrays: Iterable[Any]) -> None:
    """Torch's vmap from before torch.func, which some of its functions still use."""
    if "torch" not in sys.modules:
        return
    import torch

    if any(is_torch(a) and torch._C._functorch.is_legacy_batchedtensor(a) for a in arrays):
        raise EngineError(OLD_VMAP)
