"""For other people's tests: an assertion that an attention is right."""

from __future__ import annotations

from typing import Any

from regard.diagnosis.check import check


def assert_right(fn: Any, **options: Any) -> None:
    """Asserts that ``regard.check`` finds no fault in ``fn``.

    ::

        check(fn, **options).verdict in {right, different}

    Args:
        fn: A function, class, object or ``"FILE.py:NAME"``, as for ``regard.check``.
        options: The options of ``regard.check``: ``init``, ``mask``, ``causal``, ``window``,
            ``layout``, ``against``.

    Raises:
        AssertionError: With the whole report, where a fault was found or nothing could be judged.

    Source: the reference of ``regard.check``.

    Example:
        >>> import numpy as np
        >>> def attention(q, k, v):
        ...     s = q @ k.T / np.sqrt(q.shape[-1])
        ...     e = np.exp(s - s.max(-1, keepdims=True))
        ...     return e / e.sum(-1, keepdims=True) @ v
        >>> assert_right(attention)
    """
    report = check(fn, lang="en", **options)
    if not report:
        raise AssertionError(str(report))
