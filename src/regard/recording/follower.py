"""What each step of a generation looks at, summed up as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regard.core import formula
from regard.core.engines.native import newest
from regard.core.questions import TopK, received, topk
from regard.recording.recording import Layer

if TYPE_CHECKING:
    from torch import Tensor

    from regard.recording.capture.sequences import Sequence

FEW = 1 << 18
"""As many weights of a layer are computed at once, which for the one query of a step is fastest."""


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
        return [
            mass[..., :keys].to(top.weights.dtype)
            for mass, keys, top in zip(self._mass, self._keys, self.top, strict=True)
        ]

    def after(self, sequence: Sequence, layers: list[Layer]) -> None:
        """A forward pass has ended, and ``layers`` are as they were called."""
        goes_on = sequence is self._sequence and len(self._mass) == len(layers)
        self._sequence = sequence
        strands = sequence.strands[-len(layers) :] if layers else []
        self._keys = [strand.keys for strand in strands]
        if not goes_on:
            self._mass = [_sums(layer) for layer in layers]
        elif sequence.parents is not None:
            self._mass = [mass[sequence.parents] for mass in self._mass]
        self._mass = [_roomy(m, keys) for m, keys in zip(self._mass, self._keys, strict=True)]
        firsts = sequence.firsts if goes_on else [0] * len(layers)
        rows = [mass[..., first:] for mass, first in zip(self._mass, firsts, strict=True)]
        # One after the other in a few words: most of a step's time would go into calling.
        found = [self._added(*each) for each in zip(layers, rows, strict=True)]
        rest = [number for number, top in enumerate(found) if top is None]
        answers = _answers([layers[number] for number in rest], self.k)
        for number, (top, got) in zip(rest, answers, strict=True):
            found[number] = top
            known = self._keys[number] - firsts[number]  # not the empty places of a static cache
            rows[number][..., :known] += got[..., :known]
        self.top = [_moved(top, first) for top, first in zip(found, firsts, strict=True) if top]

    def _added(self, layer: Layer, to: Tensor) -> TopK | None:
        """The strongest keys, and what each key gets added to ``to``; None if not by this way."""
        given = layer.options
        if layer.mask is not None or "bias" in given or "sink" in given:
            return None
        found = newest(layer.q, layer.k, self.k, given.get("scale"), given.get("softcap"), to)
        return None if found is None else TopK(*found)


def _moved(top: TopK, first: int) -> TopK:
    """The keys by their numbers in the sequence, where the call's first is its ``first``."""
    return top._replace(keys=top.keys + first * (top.keys >= 0)) if first else top


def _sums(layer: Layer) -> Tensor:
    """(B, H, no keys yet) sums, in float64 where they are made on the CPU."""
    import torch

    on_cpu = layer.q.device.type == "cpu" or layer.q.dtype == torch.float64
    dtype = torch.float64 if on_cpu else torch.float32
    found: Tensor = layer.q.new_zeros((*layer.q.shape[:2], 0), dtype=dtype)
    return found


def _roomy(mass: Tensor, keys: int) -> Tensor:
    """``mass`` with room for that many keys, and for as many again."""
    if keys <= mass.shape[-1]:
        return mass
    room = mass.new_zeros(*mass.shape[:-1], 2 * keys)
    room[..., : mass.shape[-1]] = mass
    return room


def _products(layer: Layer) -> Tensor | None:
    """(B, H, T, S) every query times every key in float32; None where these are too many."""
    (B, H, T, D), (_, G, S, _) = layer.q.shape, layer.k.shape
    if B * H * T * S > FEW:
        return None
    q = layer.q.float().reshape(B, G, H // G * T, D)  # side by side, so that keys are read once
    found: Tensor = (q @ layer.k.float().mT).view(B, H, T, S)
    return found


def _answers(layers: list[Layer], k: int) -> list[tuple[TopK, Tensor]]:
    """For each layer the k strongest keys of each query, and what each key gets from all of them.

    Layers of the same shape and rule are asked together: a step's numbers are few, and most of its
    time goes into calling.
    """
    import torch

    products = [_products(layer) for layer in layers]
    alike: dict[Any, list[int]] = {}
    for number, (layer, product) in enumerate(zip(layers, products, strict=True)):
        given = layer.options
        alone = number if product is None or "bias" in given or "sink" in given else None
        form = (layer.q.shape, layer.k.shape, layer.start, id(layer.mask), alone)
        alike.setdefault((str(form), given.get("scale"), given.get("softcap")), []).append(number)
    found: dict[int, tuple[TopK, Tensor]] = {}
    for numbers in alike.values():
        first = layers[numbers[0]]
        some = [p for number in numbers if (p := products[number]) is not None]
        if not some or k > first.k.shape[-2]:
            for number in numbers:
                top, got = layers[number].weights.ask(topk(k), received())
                found[number] = (top, got)
            continue
        w = _weights(first, torch.stack(some))
        weights, keys = w.topk(k)
        if first.mask is not None:
            keys = keys.where(weights > 0, -1)
        sums = w[..., 0, :] if w.shape[-2] == 1 else w.sum(-2)
        for number, *parts in zip(numbers, weights, keys, sums, strict=True):
            found[number] = (TopK(*parts[:2]), parts[2])
    return [found[number] for number in range(len(layers))]


def _weights(layer: Layer, products: Tensor) -> Tensor:
    """(layers, B, H, T, S) by the definition; all layers have the rule of this one."""
    import torch

    call = layer.weights._call
    bias = None if call.bias is None else call.bias.over(call.frame, torch.float32)
    seen = call.seen(call.frame)
    s = formula.scores(products, seen, scale=call.scale, softcap=call.softcap, bias=bias)
    if call.sink is None and seen is None:
        soft: Tensor = s.softmax(-1)
        return soft
    weights: Tensor = formula.normalise(s, None if call.sink is None else call.sink.float())[0]
    return weights
