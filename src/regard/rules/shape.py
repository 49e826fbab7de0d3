"""The scores' front doors: small functions that check what they are given, as in ``make``."""

from __future__ import annotations

import numpy as np

from regard._errors import ShapeError, ValueRangeError
from regard._shapes import Array, check_dtypes, count, namespace
from regard.rules.scores import T5, Alibi, Relative, Score, as_score


def alibi(heads: int | Array) -> Score:
    """A penalty that grows with the distance, by one slope a head.

    ::

        bias_ij = −m_h · |i − j|
        m_h = 2^(−8 h / H),  h = 1 … H      (H a power of two; else as the paper's code fills up)

    Args:
        heads: H, for the paper's slopes, or an array (H,) or (…, H) of your own, which may be
            learned.

    Raises:
        ValueRangeError: H below 1.
        KindError: slopes that are no floating-point array.
        ShapeError: in the call, slopes that are not one a query head.

    Source: Press et al. 2022 (ALiBi), section 3; for queries that look ahead, its symmetric form.

    >>> import numpy as np, regard
    >>> x = np.zeros((1, 3, 4))
    >>> regard.weights(x, x, bias=regard.alibi(1))[0, 2].round(4).tolist()
    [0.332, 0.3333, 0.3346]
    """
    if not isinstance(heads, int) and getattr(heads, "ndim", 0) > 0:
        slopes: Array = heads
        namespace(slopes=slopes)
        check_dtypes(slopes=slopes)
        return Alibi(slopes)
    return Alibi(np.array(_slopes(count("heads", heads, at_least=1))))


def _slopes(H: int) -> list[float]:
    # The power of two at or below H, by comparisons: of a length that is open while a graph is made
    # torch allows no more.
    whole = max(2**n for n in range(32) if 2**n <= H)
    first = [2.0 ** (-8 * (h + 1) / whole) for h in range(whole)]
    between = [2.0 ** (-4 * (2 * h + 1) / whole) for h in range(H - whole)]
    return first + between


def relative(table: Array) -> Score:
    """A bias of the distance alone, one vector a head.

    ::

        bias_ij = table[h, j − i]

    Args:
        table: (H, N) or (N,) for all heads, N odd; entry n is for the key at distance
            j − i = n − N // 2.  Farther keys get the end that is nearest.  It may be learned.

    Raises:
        KindError: a table that is no floating-point array.
        ShapeError: a table of another shape, or with an even N; in the call, one whose rows are
            not the query heads.

    Source: Shaw et al. 2018, section 3.2 (the clipped distances); Raffel et al. 2020 (T5), section
    2.1 (a number in place of a vector).

    >>> import numpy as np, regard
    >>> x = np.zeros((3, 4))
    >>> after, itself, before = np.log([1.0, 2.0, 1.0])
    >>> regard.weights(x, x, bias=regard.relative(np.array([before, itself, after])))[0].tolist()
    [0.5, 0.25, 0.25]
    """
    namespace(table=table)
    check_dtypes(table=table)
    if table.ndim not in (1, 2) or table.shape[-1] % 2 == 0:
        raise ShapeError(
            "table must have the shape (H, N) or (N,) with N odd, so that its middle is distance "
            f"0, but it is {tuple(table.shape)}"
        )
    return Relative(table if table.ndim == 2 else table[None, :])


def t5_relative(weight: Array, *, bidirectional: bool = True, max_distance: int = 128) -> Score:
    """T5's relative position bias: near distances each have their own number, far ones share.

    ::

        bias_ij = weight[ bucket(j − i), h ]

    Args:
        weight: (buckets, H), the embedding as T5 keeps it; it may be learned.
        bidirectional: half of the buckets are for keys after the query (an encoder's); else all
            are for keys at or before it (a decoder's).
        max_distance: from here on every distance shares the last bucket.

    Raises:
        KindError: a weight that is no floating-point array.
        ShapeError: a weight that is not (buckets, H); in the call, another H than its own.
        ValueRangeError: too few buckets, or a ``max_distance`` that leaves nothing to share.

    Source: Raffel et al. 2020 (T5), section 2.1.

    >>> import numpy as np, regard
    >>> regard.t5_relative(np.zeros((32, 8)))
    t5_relative(<32 × 8>)
    """
    namespace(weight=weight)
    check_dtypes(weight=weight)
    if weight.ndim != 2:
        raise ShapeError(f"weight must be (buckets, H), but it is {tuple(weight.shape)}")
    buckets, far = weight.shape[0], count("max_distance", max_distance, at_least=1)
    exact = buckets // (4 if bidirectional else 2)
    if exact < 1 or far <= exact:
        raise ValueRangeError(
            f"max_distance must be above the {exact} distances that have a bucket of their own, "
            f"and there must be at least {4 if bidirectional else 2} buckets, but max_distance is "
            f"{far} and weight has {buckets}"
        )
    return T5(weight, int(bidirectional), far)


def dense(array: Array) -> Score:
    """An array as a score.

    ::

        bias_ij = array[…, h, i, j]

    ``bias=array`` means the same, and so does ``alibi(8) + array``; inside a compiled function,
    where torch takes that sum for its own, write ``alibi(8) + dense(array)``.

    Args:
        array: any shape that broadcasts to (…, H, T, S), at least (T, S).  It may be learned.

    Raises:
        KindError: what is no array.
        ShapeError: in the call, an array that does not fit it.

    >>> import numpy as np
    >>> alibi(2) + dense(np.zeros((3, 3)))
    alibi(<2 slopes>) + <3 × 3 bias>
    """
    return as_score(array)
