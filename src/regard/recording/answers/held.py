"""What a question needs of a recording: queries and keys, and layers that the second run meets."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from regard._errors import KindError, ValueRangeError
from regard.recording.recording import Layer, Recording, Run


def layers_of(seen: Recording) -> Sequence[Layer]:
    """The layers of the only run.

    Raises:
        KindError: statistics, of which only roles, tables and the overview are made.
        ValueRangeError: nothing that was recorded.
    """
    if seen.statistics:
        raise KindError(
            "this recording holds statistics only, but the question is to queries and keys; watch "
            "without keep=Statistics(…)"
        )
    if not seen.layers:
        raise ValueRangeError(
            "this recording holds no layers to be asked; seen.missed says what was not recorded"
        )
    return seen.layers


def check_met(run: Run, asked: Collection[int], met: Collection[int]) -> None:
    """That the second run met each of the layers ``asked``.

    Raises:
        KindError: attention that is computed by hand.
    """
    if left := [run.layers[n].name for n in asked if n not in met]:
        raise KindError(
            f"attention is computed by hand in {', '.join(left)}, so what its heads give can "
            "neither be seen nor be taken away; call F.scaled_dot_product_attention or "
            "regard.attend there, or leave it out: "
            "watch(model, keep=regard.QueriesAndKeys(layers=[…]))"
        )
