"""The engine ``tiles``: every call, in linear memory, in any array library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._shapes import Array
from regard.core import tiles
from regard.core.call import Call
from regard.core.reducers import Lse, Reducer

name = "tiles"
why = "it takes every call, in memory that grows with the length and not its square"


def refuses(call: Call, want: str) -> str | None:
    """It can do every call."""
    return None


def attend(call: Call) -> Array:
    """The output in the dtype of v."""
    (output,) = tiles.answer(call, [tiles.Mixed(call)])
    return output


def partial(call: Call) -> tuple[Array, Array]:
    """The output and lse."""
    output, lse = tiles.answer(call, [tiles.Mixed(call), Lse(call.frame)])
    return output, lse


def ask(
    call: Call, reducers: Sequence[Reducer], rows: NDArray[np.int64] | None = None
) -> list[Any]:
    """Every reducer's answer, in one pass over the strips."""
    return tiles.answer(call, reducers, rows)
