"""What each step of a generation looks at, summed up as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.core.questions import TopK, received, topk
from regard.recording.recording import Layer

if TYPE_CHECKING:
    from regard.recording.capture.sequences import Sequence


class Follower:
    """The strongest keys of the newest queries, and what each key has received so far."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.received: list[Any] = []
        """(B, H, S) for each layer: the weight that each key of the sequence has got from all
        queries so far, in nothing but the order of the sequence, whatever the cache has let go."""
        self.top: list[TopK] = []
        """For each layer the keys and weights (B, H, T, k) of the T queries of the last call."""
        self._sequence: Sequence | None = None

    def after(self, sequence: Sequence, layers: list[Layer]) -> None:
        """A forward pass has ended: ``layers`` are as they were called."""
        goes_on = sequence is self._sequence and len(self.received) == len(layers)
        self._sequence = sequence
        asked = (topk(self.k), received())
        self.top = []
        total = []
        strands = sequence.strands[-len(layers) :]
        for number, layer in enumerate(layers):
            top, got = layer.weights.ask(*asked)
            first = sequence.firsts[number] if goes_on else 0
            if first:
                top = top._replace(keys=top.keys + first * (top.keys >= 0))
            self.top.append(top)
            if goes_on:
                before = self.received[number]
                if sequence.parents is not None:
                    before = before[sequence.parents]
                got = _sum(before, got, first)
            total.append(got[..., : strands[number].keys])  # not the empty places of a static cache
        self.received = total


def _sum(before: Any, got: Any, first: int) -> Any:
    """What keys got before, and what those from ``first`` on get now."""
    import torch

    n = max(before.shape[-1], first + got.shape[-1])
    whole = torch.nn.functional.pad(before, (0, n - before.shape[-1]))
    whole[..., first : first + got.shape[-1]] += got
    return whole
