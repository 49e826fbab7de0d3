"""The legend of letters, and the checks that speak of shapes, dtypes and devices.

====== =====================================================================
letter meaning
====== =====================================================================
``…``  leading axes, mostly one: B, the batch
H      query heads
G      key heads; H is a multiple of G, query head h reads key head h // (H // G)
T      queries (the length of the sequence that looks)
S      keys (the length of the sequence that is looked at)
D      width of one head's queries and keys
E      width of one head's values
====== =====================================================================

In names, ``q_HTD`` is an array of those axes after any leading ones; lower case t and w are the
rows and the width of one strip of the T × S matrix.
"""

from __future__ import annotations

import operator
import sys
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError, ValueRangeError

Array: TypeAlias = Any
"""An array of NumPy, PyTorch or another library that follows the array API standard."""

FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Sizes:
    """The letters of one call, as numbers."""

    lead: tuple[int, ...]
    H: int
    G: int
    T: int
    S: int
    D: int

    @property
    def group(self) -> int:
        """How many query heads read one key head."""
        return self.H // self.G

    @property
    def rows(self) -> int:
        """How many rows of weights one query position has: batch entries × heads."""
        return prod(self.lead) * self.H


def in_graph() -> bool:
    """Whether torch is making a graph of this call (torch.compile, torch.export)."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and bool(torch.compiler.is_compiling())


def array_namespace(*arrays: Array) -> Any:
    """The arrays' library, in a form that torch can put into a graph too."""
    if in_graph():
        import array_api_compat.torch as compat

        return compat
    return array_api_compat.array_namespace(*arrays)


def device(array: Array) -> Any:
    """The array's device, likewise."""
    return array.device if in_graph() else array_api_compat.device(array)


def namespace(**arrays: Array) -> Any:
    """The one array library of all ``arrays``."""
    if in_graph():
        return array_namespace()
    for name, array in arrays.items():
        if not array_api_compat.is_array_api_obj(array):
            raise KindError(
                f"{name} must be an array (NumPy, PyTorch, or another that follows the array API "
                f"standard), but it is a {type(array).__name__}; wrap it: np.asarray({name})"
            )
    try:
        return array_api_compat.array_namespace(*arrays.values())
    except TypeError:
        kinds = ", ".join(f"{name}: {type(a).__module__}" for name, a in arrays.items())
        raise KindError(
            f"{' and '.join(arrays)} must come from one array library, but they are {kinds}; "
            "convert them to one of the two"
        ) from None


def times(shape: tuple[int, ...]) -> str:
    """``"2 × 3"`` for (2, 3)."""
    return " × ".join(map(str, shape))


def dtype_name(array: Array) -> str:
    """``"float32"`` for any library's float32."""
    return str(array.dtype).rpartition(".")[2]


def check_dtypes(**arrays: Array) -> None:
    """All of one floating-point dtype, on one device."""
    if in_graph():
        return
    names = {name: dtype_name(a) for name, a in arrays.items()}
    for name, dtype in names.items():
        if dtype not in FLOATS:
            raise KindError(
                f"{name} must be of a floating-point dtype ({', '.join(FLOATS)}), but it is "
                f"{dtype}; convert it first, as in {name}.astype('float32') or {name}.float()"
            )
    if len(set(names.values())) > 1:
        came = ", ".join(f"{name} is {dtype}" for name, dtype in names.items())
        names_of = ", ".join(arrays)
        raise KindError(f"{names_of} must share one dtype, but {came}; convert one of them")
    check_devices(**arrays)


def check_devices(**arrays: Array) -> None:
    """All on one device."""
    devices = {name: str(array_api_compat.device(a)) for name, a in arrays.items()}
    if len(set(devices.values())) > 1:
        came = ", ".join(f"{name} is on {device}" for name, device in devices.items())
        raise KindError(f"{', '.join(arrays)} must be on one device, but {came}; move one of them")


def whole_numbers(name: str, value: Any) -> NDArray[np.int64]:
    """``value``, a number or any array or list of whole numbers, as NumPy int64."""
    if hasattr(value, "detach"):  # a torch tensor, perhaps on a device
        value = value.detach().cpu()
    try:
        array = rectangular(name, value)
    except RuntimeError:
        raise KindError(
            f"{name} must not be mapped by vmap: it is a number for each entry of a batch; put the "
            "mapped axis among the leading ones instead"
        ) from None
    if array.size == 0:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        what = array.dtype if array.ndim else type(value).__name__
        raise KindError(f"{name} must be whole numbers, but it is {what}")
    if array.dtype.kind == "u" and array.max(initial=0) > np.iinfo(np.int64).max:
        raise ValueRangeError(f"{name} must fit 64 bits with a sign, but {array.max()} came")
    return array.astype(np.int64)


def rectangular(name: str, value: Any) -> NDArray[Any]:
    """Lists of lists as an array."""
    try:
        return np.asarray(value)
    except ValueError:
        raise ShapeError(f"{name} must be a rectangular array, but it is {value!r}") from None


def count(name: str, value: Any, at_least: int = 0) -> int:
    """``value`` as a whole number of ``at_least`` or more."""
    # To look at the number would tie a graph to it.
    if in_graph() and type(value).__name__ in ("int", "SymInt"):
        return value  # type: ignore[no-any-return]
    try:
        number = operator.index(value)
    except (TypeError, RuntimeError):  # the latter: a tensor that vmap maps
        raise KindError(
            f"{name} must be a whole number, but it is a {type(value).__name__}"
        ) from None
    if isinstance(value, bool) or number < at_least:
        raise ValueRangeError(f"{name} must be {at_least} or more, but {value} came")
    return number


def sizes_of(q: Array, k: Array, v: Array | None = None) -> Sizes:
    """The sizes of ``q (…, H, T, D)``, ``k (…, G, S, D)`` and ``v (…, G, S, E)``."""
    for name, array, letters in (("q", q, "H, T, D"), ("k", k, "G, S, D"), ("v", v, "G, S, E")):
        if array is not None and array.ndim < 3:
            raise ShapeError(
                f"{name} must have the axes (…, {letters}), but its shape is {tuple(array.shape)}; "
                "plain 2-D arrays (length, width) work too, if q, k and v are all 2-D"
            )
    if k.shape[-1] != q.shape[-1]:
        raise ShapeError(
            f"q and k must have the same width D, but q is {q.shape[-1]} wide {tuple(q.shape)} and "
            f"k is {k.shape[-1]} wide {tuple(k.shape)}; project them to one width"
        )
    if q.shape[-1] == 0:
        raise ShapeError(f"q must have a width D of at least 1, but its shape is {tuple(q.shape)}")
    _same_lead("q", q, "k", k)
    if v is not None:
        _same_lead("k", k, "v", v)
        if v.shape[-3:-1] != k.shape[-3:-1]:
            raise ShapeError(
                "k and v must have the same heads G and length S, but k is "
                f"{tuple(k.shape)} and v is {tuple(v.shape)}; each key needs one value"
            )
    H, G = q.shape[-3], k.shape[-3]
    if G == 0 or H % G:
        raise ShapeError(
            f"the heads of q must be a multiple of those of k, but q has H = {H} {tuple(q.shape)} "
            f"and k has G = {G} {tuple(k.shape)}; the axes are (…, heads, length, width): if yours "
            "are (…, length, heads, width), swap them"
        )
    return Sizes(tuple(q.shape[:-3]), H, G, q.shape[-2], k.shape[-2], q.shape[-1])


def _same_lead(one: str, a: Array, other: str, b: Array) -> None:
    if a.shape[:-3] != b.shape[:-3]:
        raise ShapeError(
            f"{one} and {other} must have the same leading axes, but {one} is {tuple(a.shape)} and "
            f"{other} is {tuple(b.shape)}; expand the smaller one (broadcast_to, expand)"
        )


def check_fits(name: str, array: Array, sizes: Sizes) -> None:
    """``array`` can be broadcast to (…, H, T, S), and has at least the axes (T, S)."""
    full = (*sizes.lead, sizes.H, sizes.T, sizes.S)
    shape = tuple(array.shape)
    short = full[len(full) - len(shape) :] if len(shape) <= len(full) else None
    if (
        len(shape) < 2
        or short is None
        or any(a not in (1, b) for a, b in zip(shape, short, strict=True))
    ):
        raise ShapeError(
            f"{name} must fit (…, H, T, S) = {full}, each axis of that size or 1 and at least "
            f"(T, S) = {full[-2:]}, but its shape is {shape}; a mask of one row per batch entry, "
            "(B, S), is lengths(...) or needs two more axes: array[:, None, None, :]"
        )
