"""The engine ``tiles``: every call, in linear memory, in any array library."""

from __future__ import annotations

from collections.abc import Sequence

from regard._shapes import Array
from regard.core import tiles
from regard.core.call import Call
from regard.core.reducers import Reducer

name = "tiles"
why = "it takes every call, in memory that grows with the length and not its square"

pass_of = tiles.pass_of


def refuses(call: Call, want: str) -> str | None:
    """It can do every call."""
    return None


def compute(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    """Every reducer's arrays, in one pass over the strips."""
    return pass_of(call, reducers).run(call.floats)
