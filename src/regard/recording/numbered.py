"""What is told by its number: a layer, a head, a position, a sample; from the end if negative."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from regard._errors import KindError, ValueRangeError


def number(name: str, value: Any, count: int) -> int:
    """``value`` counted from 0, or from the end where it is negative.

    Raises:
        KindError: what is no whole number.
        ValueRangeError: a number that is not there.
    """
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise KindError(f"{name} must be a whole number, but it is {value!r}")
    if not -count <= value < count:
        raise ValueRangeError(f"{name} must lie in 0 … {count - 1}, but {value} came")
    return int(value) % count


def numbers(name: str, values: Any, count: int) -> list[int]:
    """One number or several; all of them if None.

    Raises:
        KindError: what is no whole number.
        ValueRangeError: a number that is not there, or none.
    """
    if values is None:
        return list(range(count))
    if isinstance(values, int | np.integer):
        values = [values]
    found = [number(name, value, count) for value in values]
    if not found:
        raise ValueRangeError(f"{name} must hold a number, but there is none")
    return found


def pairs(name: str, values: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Each of ``values`` as two.

    Raises:
        KindError: what is no two.
    """
    found = []
    for value in values:
        if not isinstance(value, tuple | list) or len(value) != 2:
            raise KindError(f"{name} must hold pairs (layer, head), but {value!r} is none")
        found.append((value[0], value[1]))
    return found
