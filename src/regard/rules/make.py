"""The masks' front doors: small functions that check what they are given, with the words for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import Array, count, dtype_name, in_graph, rectangular, whole_numbers
from regard.rules.apart import Documents, Packed
from regard.rules.masks import (
    Causal,
    Keep,
    Lengths,
    Mask,
    Prefix,
    Where,
    Window,
)


def causal() -> Mask:
    """Each query may attend to its own position and those before it: j ≤ i.

    With fewer queries than keys the last query sits at the last key (``start`` = S − T), as a
    cache needs; ``start`` moves it.

    Source: Vaswani et al. 2017, section 3.2.3.

    >>> import numpy as np, regard
    >>> x = np.eye(3)
    >>> regard.weights(x, x, regard.causal()).dense()[0].tolist()
    [1.0, 0.0, 0.0]
    """
    return Causal()


def window(n: int | None = None, *, before: int | None = None, after: int | None = None) -> Mask:
    """Each query may attend to keys near its own position.

    ``window(n)`` looks back over n keys, itself included: i − n < j ≤ i.
    ``window(before=a, after=b)`` counts neighbours: i − a ≤ j ≤ i + b.

    Raises:
        ValueRangeError: n < 1, a or b negative, n together with before or after, or none of them.
        KindError: a size that is no whole number.

    Source: Beltagy et al. 2020 (Longformer), section 3.1.

    >>> window(3)
    window(3)
    >>> window(before=2, after=1)
    window(before=2, after=1)
    """
    if n is not None:
        if before is not None or after is not None:
            raise ValueRangeError(
                "window takes either n or before and after, but both came; window(n) is "
                "window(before=n - 1, after=0)"
            )
        return Window(count("n", n, at_least=1) - 1, 0)
    if before is None and after is None:
        raise ValueRangeError("window needs a size: window(n), or window(before=a, after=b)")
    before, after = (0 if n is None else n for n in (before, after))
    return Window(count("before", before), count("after", after))


def prefix(n: int) -> Mask:
    """Every query may attend to the first n keys: j < n.

    ``causal() | prefix(n)`` is a language model that reads its first n tokens in both directions.

    Raises:
        KindError: n that is no whole number.
        ValueRangeError: a negative n.

    Source: Raffel et al. 2020 (T5), section 3.2.1, "prefix LM".

    >>> causal() | prefix(4)
    causal() | prefix(4)
    """
    return Prefix(count("n", n))


def lengths(stop: Any, start: Any = 0) -> Mask:
    """Only the keys start ≤ j < stop are there; the rest is padding, on either side.

    Args:
        stop: one number, or one per batch entry, shape (…).
        start: likewise; 0 unless the padding stands on the left.

    Raises:
        KindError, ValueRangeError: what are no whole numbers, or negative ones.
        ShapeError: in the call, a number above S, or not one per batch entry.

    >>> lengths([3, 5])
    lengths([3, 5])
    """
    if in_graph():  # the numbers are not known yet: the operator in the graph checks them
        return Lengths(as_tensor(stop), as_tensor(start))
    stops, starts = whole_numbers("stop", stop), whole_numbers("start", start)
    for name, array in (("stop", stops), ("start", starts)):
        if np.any(array < 0):
            raise ValueRangeError(f"{name} must be 0 or more, but {array.min()} came")
    return Lengths(stops, starts)


def documents(ids: Any = None, *, lengths: Any = None, cumulative: Any = None) -> Mask:
    """Each query may attend only to keys of its own document, where several lie in one sequence.

    Give one of the three:

    Args:
        ids: the document of each key, shape (S,) or (…, S); a document's keys lie together.
        lengths: the length of each document; they sum to S.
        cumulative: where each begins, then S: ``[0, 3, 7]`` (``cu_seqlens`` elsewhere).

    Raises:
        ValueRangeError: none or two of the three, ids that are not contiguous, edges that fall.
        KindError: what are no whole numbers.
        ShapeError: in the call, documents that do not cover its S keys.

    Source: Krell et al. 2021 (packing without cross-contamination), section 3.

    >>> documents([0, 0, 0, 1, 1])
    documents(lengths=[3, 2])
    >>> documents(cumulative=[0, 3, 5])
    documents(lengths=[3, 2])
    """
    given = [x for x in (ids, lengths, cumulative) if x is not None]
    if len(given) != 1:
        raise ValueRangeError(
            f"documents takes one of ids, lengths=, cumulative=, but {len(given)} came"
        )
    if in_graph():
        return _documents_in_graph(ids, lengths, cumulative)
    if lengths is not None:
        sizes = whole_numbers("lengths", lengths)
        if sizes.ndim != 1 or sizes.size == 0 or np.any(sizes < 0):
            raise ValueRangeError("lengths must be a list of sizes of 0 or more, such as [3, 2]")
        cumulative = np.concatenate([[0], np.cumsum(sizes)])
    if cumulative is not None:
        edges = whole_numbers("cumulative", cumulative)
        if edges.ndim != 1 or len(edges) < 2 or edges[0] != 0 or np.any(np.diff(edges) < 0):
            raise ValueRangeError(
                "cumulative must begin with 0 and not fall up to S, such as [0, 3, 5], but it is "
                f"{np.array2string(edges, threshold=8)}"
            )
        return Packed(edges)
    return _documents_by_id(whole_numbers("ids", ids))


def _documents_in_graph(ids: Any, lengths: Any, cumulative: Any) -> Mask:
    if ids is not None:
        return Documents(as_tensor(ids))
    if cumulative is not None:
        return Packed(as_tensor(cumulative))
    import torch

    edges: Any = torch.nn.functional.pad(torch.cumsum(as_tensor(lengths), 0), (1, 0))
    return Packed(edges)


def as_tensor(value: Any) -> Any:
    """Whole numbers as a tensor of a graph that is being made, which holds for other numbers too.

    To torch.as_tensor a number is a constant, and a graph would be made for each.
    """
    import torch

    if isinstance(value, int | torch.SymInt) and not isinstance(value, bool):
        number: Any = value
        return torch.full((), number, dtype=torch.int64)
    if isinstance(value, list | tuple) and value:
        return torch.stack([as_tensor(one) for one in value])
    return torch.as_tensor(value)


def _documents_by_id(ids: NDArray[np.int64]) -> Documents:
    if ids.ndim == 0 or ids.shape[-1] == 0:
        raise ShapeError(
            f"ids must hold one number a key, shape (S,), but its shape is {ids.shape}"
        )
    for row in ids.reshape(-1, ids.shape[-1]):
        if np.count_nonzero(row[1:] != row[:-1]) + 1 != len(np.unique(row)):
            raise ValueRangeError(
                "ids must be contiguous: the keys of one document lie together, but an id comes "
                "again after another one; sort the sequence by document, or use where(fn)"
            )
    return Documents(ids)


def keep(array: Array) -> Mask:
    """May attend where ``array`` is True; ``~keep(array)`` where True means hidden.

    Args:
        array: bool, shape that broadcasts to (…, H, T, S), at least (T, S).  It is kept, not
            copied, and is evaluated a strip at a time.

    Raises:
        KindError: an array that is not bool.
        ShapeError: in the call, an array that does not fit it.

    >>> import numpy as np
    >>> ~keep(np.zeros((2, 2), bool))
    ~keep(<2 × 2 bool>)
    """
    if in_graph():
        return Keep(array)
    if not hasattr(array, "shape") or not hasattr(array, "dtype"):
        array = rectangular("array", array)
    if dtype_name(array) != "bool":
        raise KindError(
            f"keep(array) takes a bool array, True meaning 'may attend', but it is "
            f"{dtype_name(array)}; compare it first: keep(array == 1); an array that is added to "
            "the scores is bias=array"
        )
    return Keep(array)


def where(fn: Callable[[Array, Array], Array]) -> Mask:
    """May attend where ``fn(query_positions, key_positions)`` is True; evaluated strip by strip.

    ``fn`` gets integer arrays of the call's own library, the queries' as (…, t, 1) and the keys'
    as (w,), and returns booleans of the broadcast shape.

    Raises:
        KindError: what cannot be called; in the call, a function that returns no booleans.
        ShapeError: in the call, a function that returns another shape.

    Source: Dong et al. 2024 (FlexAttention), section 3.

    >>> where(lambda i, j: (i - j) % 2 == 0)
    where(<lambda>)
    """
    if not callable(fn):
        raise KindError(f"where takes a function of two arrays, but {type(fn).__name__} came")
    return Where(fn)
