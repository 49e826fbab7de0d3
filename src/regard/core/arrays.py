"""The few words of array arithmetic that the standard has no name for."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard._errors import EngineError
from regard._shapes import Array, array_namespace, device, dtype_name


def all_finite(*arrays: Array) -> bool:
    """No NaN and no infinity anywhere."""
    return all(
        bool(array_namespace(a).all(array_namespace(a).isfinite(constant(a)))) for a in arrays
    )


def constant(x: Array) -> Array:
    """``x`` without a derivative (torch)."""
    return x.detach() if hasattr(x, "detach") else x


def scalar(like: Array, value: float) -> Array:
    """``value`` as an array of no axes, of ``like``'s library, dtype and device."""
    return array_namespace(like).full((), value, dtype=like.dtype, device=device(like))


def sink_weight(sink: Array | None, lse: Array) -> Array | None:
    """What the sink takes of each row, (…, H, T); 0 of an empty one."""
    if sink is None:
        return None
    xp, empty = array_namespace(lse), lse == float("-inf")
    taken = xp.exp(sink[..., None] - xp.where(empty, scalar(lse, 0.0), lse))
    return xp.where(empty, scalar(lse, 0.0), taken)


def accumulator(xp: Any, array: Array) -> Any:
    """The dtype that sums are made in: float64 for float64, else float32."""
    return xp.float64 if dtype_name(array) == "float64" else xp.float32


def address(array: Array) -> int:
    """Where the numbers of a NumPy array or a torch tensor on a CPU begin; never 0."""
    if isinstance(array, np.ndarray):
        at: int = array.__array_interface__["data"][0]
    else:
        at = array.data_ptr()
    if not at and 0 not in array.shape:
        raise EngineError(
            "the engine 'native' reads numbers where they lie, and these have no place in memory, "
            "as under torch's FakeTensorMode; call outside of it"
        )
    return at or 64  # 0 would mean that there is no such array


def empty(like: Array, shape: tuple[int, ...], dtype: Any) -> Array:
    """Room for numbers in NumPy's or torch's memory, of ``like``'s library and device."""
    return (
        np.empty(shape, dtype)
        if isinstance(like, np.ndarray)
        else like.new_empty(shape, dtype=dtype)
    )


def empty_like(array: Array) -> Array:
    """Room for as many numbers as ``array`` has, one row after another."""
    if isinstance(array, np.ndarray):
        return np.empty(array.shape, array.dtype)
    import torch

    return torch.empty_like(array, memory_format=torch.contiguous_format)


def contiguous(array: Array) -> Array:
    """``array``, or a copy if its last axis is not contiguous."""
    if isinstance(array, np.ndarray):
        near = array.strides[-1] == array.itemsize or array.shape[-1] < 2
        whole = all(n % array.itemsize == 0 for n in array.strides)  # not so in a record's field
        return array if near and whole else np.ascontiguousarray(array)
    near = array.is_contiguous() or array.stride(-1) == 1 or array.shape[-1] < 2
    return array if near else array.contiguous()


def strides(array: Array) -> tuple[int, ...]:
    """The strides in items."""
    if isinstance(array, np.ndarray):
        return tuple(n // array.itemsize for n in array.strides)
    return array.stride()  # type: ignore[no-any-return]


def place(array: Array | None, row: int = 0) -> tuple[int, ...]:
    """Address and steps of an array that has all axes, from ``row`` on; 0 if there is none."""
    if array is None:
        return (0,)
    if row:
        steps = strides(array)
        return (address(array) + row * steps[-2] * array.itemsize, *steps)
    return (address(array), *strides(array))
