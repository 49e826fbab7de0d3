"""What each step of a generation looks at, summed up as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard.core import formula
from regard.core.questions import TopK, received, topk
from regard.recording.recording import Layer

if TYPE_CHECKING:
    from regard.core.call import Call
    from regard.recording.capture.sequences import Sequence

FEW = 1 << 22
"""As many weights are computed at once, which for the one query of a step is fastest."""


class Follower:
    """The strongest keys of the newest queries, and what each key has received so far."""

    def __init__(self, k: int) -> None:
        self.k = k
        self.top: list[TopK] = []
        """For each layer the weights and keys (B, H, T, k) of the T queries of the last call."""
        self._mass: list[Any] = []
        """(B, H, room for more than all keys)"""
        self._keys: list[int] = []
        self._sequence: Sequence | None = None

    @property
    def received(self) -> list[Any]:
        """(B, H, S) for each layer: the weight that each key has got from all queries so far.

        In the order of the sequence, whatever a sliding cache has let go of.
        """
        return [mass[..., :keys] for mass, keys in zip(self._mass, self._keys, strict=True)]

    def after(self, sequence: Sequence, layers: list[Layer]) -> None:
        """A forward pass has ended: ``layers`` are as they were called."""
        goes_on = sequence is self._sequence and len(self._mass) == len(layers)
        self._sequence = sequence
        strands = sequence.strands[-len(layers) :] if layers else []
        firsts = sequence.firsts if goes_on else [0] * len(layers)
        self._keys = [strand.keys for strand in strands]
        answers = _answers(layers, self.k)
        self.top = [_moved(top, first) for (top, _), first in zip(answers, firsts, strict=True)]
        # Not the empty places of a static cache.
        got = [
            mass[..., : keys - first]
            for (_, mass), keys, first in zip(answers, self._keys, firsts, strict=True)
        ]
        if not goes_on:
            self._mass = [mass.clone() for mass in got]  # those of a group are one array
            return
        if sequence.parents is not None:
            self._mass = [mass[sequence.parents] for mass in self._mass]
        self._mass = [_roomy(m, keys) for m, keys in zip(self._mass, self._keys, strict=True)]
        torch._foreach_add_(
            [
                mass[..., first : first + new.shape[-1]]
                for mass, new, first in zip(self._mass, got, firsts, strict=True)
            ],
            got,
        )


def _moved(top: TopK, first: int) -> TopK:
    """The keys by their numbers in the sequence, where the call's first is its ``first``."""
    return top._replace(keys=top.keys + first * (top.keys >= 0)) if first else top


def _roomy(mass: Tensor, keys: int) -> Tensor:
    """``mass`` with room for that many keys, and for as many again."""
    if keys <= mass.shape[-1]:
        return mass
    room = mass.new_zeros(*mass.shape[:-1], 2 * keys)
    room[..., : mass.shape[-1]] = mass
    return room


def _answers(layers: list[Layer], k: int) -> list[tuple[TopK, Tensor]]:
    """For each layer the k strongest keys of each query, and what each key gets from all of them.

    Layers of the same shape and rule are asked together: a step's numbers are few, and most of its
    time goes into calling.
    """
    calls = [layer.weights._call for layer in layers]
    alike: dict[Any, list[int]] = {}
    for number, call in enumerate(calls):
        alone = number if call.bias is not None or call.sink is not None else None
        form = (call.sizes, call.scale, call.softcap, id(call.mask), call.frame.start, alone)
        alike.setdefault(str(form), []).append(number)
    found: dict[int, tuple[TopK, Tensor]] = {}
    for numbers in alike.values():
        some = [calls[number] for number in numbers]
        sizes = some[0].sizes
        if len(some) * sizes.rows * sizes.T * sizes.S > FEW or k > sizes.S:
            for number in numbers:
                top, got = layers[number].weights.ask(topk(k), received())
                found[number] = (top, got)
            continue
        w = _weights(some)
        weights, keys = w.topk(k)
        if some[0].mask is not None:
            keys = keys.where(weights > 0, -1)
        for number, *parts in zip(numbers, weights, keys, w.sum(-2), strict=True):
            found[number] = (TopK(*parts[:2]), parts[2])
    return [found[number] for number in range(len(layers))]


def _weights(calls: list[Call]) -> Tensor:
    """(calls, B, H, T, S) in float32, by the definition; all have the rule of the first."""
    call = calls[0]
    G, frame = call.sizes.G, call.frame
    products = torch.stack(
        [  # a group's queries side by side, so that its keys are read once
            c.q.float().reshape(-1, G, c.sizes.group * c.sizes.T, c.sizes.D) @ c.k.float().mT
            for c in calls
        ]
    ).view(len(calls), *call.q.shape[:-1], call.sizes.S)
    bias = None if call.bias is None else call.bias.over(frame, torch.float32)
    seen = call.seen(frame)
    s = formula.scores(products, seen, scale=call.scale, softcap=call.softcap, bias=bias)
    if call.sink is None and seen is None:
        soft: Tensor = s.softmax(-1)
        return soft
    weights: Tensor = formula.normalise(s, None if call.sink is None else call.sink.float())[0]
    return weights
