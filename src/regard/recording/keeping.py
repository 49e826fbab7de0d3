"""What becomes of a captured layer: the values of ``watch(model, keep=…)``.

Each of them is handed every layer as soon as it was captured, and says what the run holds of it.
"""

from __future__ import annotations

import mmap
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._errors import KindError, UserError, ValueRangeError
from regard._shapes import count
from regard.recording.container import raw
from regard.recording.diagnoses import signs_of
from regard.recording.recording import Layer, Run
from regard.recording.roles import real_of
from regard.recording.summary import LONG, PIXELS, STRONGEST, give_back, summarise

if TYPE_CHECKING:
    from torch import Tensor

Chosen = Sequence[int | str] | None
"""Layers by number, in the order in which they run, or by name; None is all of them."""


class Keep(ABC):
    """What a watch keeps of each layer."""

    @abstractmethod
    def of(self, layer: Layer, number: int, run: Run) -> Layer | None:
        """What the run keeps of ``layer``, the ``number``-th of its pass, as it was called.

        Its arrays are the model's own and may change after the forward pass; those that come back
        as they were are copied when it ends.
        """


@dataclass(frozen=True)
class QueriesAndKeys(Keep):
    """Keep the queries and keys of each layer, so that anything may be asked of it later.

    ::

        bytes of a layer = B · (H · T + G · S) · D · itemsize

    Args:
        layers: only these, by number in the order in which a pass runs them, or by name; all unless
            given.
        dtype: what they are rounded to, such as ``torch.bfloat16``; the model's own unless given.
            The weights are then those of the rounded vectors.
        device: where they go, such as ``"cpu"``; they stay where they are unless given.
        folder: a directory on whose disk they lie instead, mapped into memory.  They have no name
            there and are gone with the recording, even if the process is killed; ``seen.save``
            keeps them.  Masks and biases stay in memory.

    Raises:
        KindError: layers that are neither numbers nor names; a dtype that is no floating point.
        ValueRangeError: a folder that is not there; a folder beside a device; a number below 0.
        UserError: while the model runs, a folder that cannot be written or is full.

    >>> QueriesAndKeys(layers=[0, "layers.13.self_attn"], device="cpu").layers
    (0, 'layers.13.self_attn')
    """

    layers: Chosen = None
    dtype: Any = None
    device: Any = None
    folder: str | Path | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", _chosen(self.layers))
        if self.dtype is not None and not getattr(self.dtype, "is_floating_point", False):
            raise KindError(
                f"dtype must be a floating-point dtype of torch such as torch.float16, but it is "
                f"{self.dtype!r}"
            )
        if self.folder is None:
            return
        if self.device is not None:
            raise ValueRangeError(
                f"folder and device are two places: give one of them, not folder={self.folder!r} "
                f"and device={self.device!r}"
            )
        if not Path(self.folder).is_dir():
            raise ValueRangeError(f"folder must be a directory that is there, not {self.folder!r}")

    def of(self, layer: Layer, number: int, run: Run) -> Layer | None:
        if not _takes(self.layers, layer, number):
            return None
        if self.device is self.dtype is self.folder is None:
            return layer
        q, k = (array.to(device=self.device, dtype=self.dtype) for array in (layer.q, layer.k))
        if self.folder is not None:
            q, k = _on_disk(Path(self.folder), q, k)
        return layer if q is layer.q and k is layer.k else replace(layer, q=q, k=k)


@dataclass(frozen=True)
class Statistics(Keep):
    """Keep no query and no key: sum each layer up as soon as it has run.

    ``seen.statistics`` then holds a :class:`LayerStatistics` a layer: received, entropy, the
    strongest keys, a picture and every role's score, for each sample and head.  Queries of padding
    count nowhere.

    Args:
        layers: only these, by number in the order in which a pass runs them, or by name; all unless
            given.
        strongest: how many keys of each query are told apart; they take most of the time and of
            the memory, 8 bytes each, and with 0 there are none.
        pixels: the largest side of a head's picture.
        separators: the positions of punctuation and special tokens, for the role ``separator``.
        chosen: the positions between which every weight is kept, 4 bytes each: 200 of them take
            160 kB a head.  None unless given; ``recording.chosen`` picks some of a text.

    Raises:
        KindError, ValueRangeError: a number that is none, or below its least.

    >>> import regard, torch
    >>> from transformers import LlamaConfig, LlamaModel
    >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
    >>> model = LlamaModel(config).eval()
    >>> with torch.no_grad(), regard.watch(model, keep=regard.Statistics(pixels=8)) as seen:
    ...     _ = model(input_ids=torch.arange(12)[None])
    >>> len(seen.layers), seen.statistics[1].entropy.shape, seen.statistics[1].image.shape
    (0, (1, 4, 12), (1, 4, 6, 6))
    """

    layers: Chosen = None
    strongest: int = STRONGEST
    pixels: int = PIXELS
    separators: tuple[int, ...] = ()
    chosen: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", _chosen(self.layers))
        object.__setattr__(self, "separators", tuple(self.separators))
        positions = {count("a chosen position", at, at_least=0) for at in self.chosen}
        object.__setattr__(self, "chosen", tuple(sorted(positions)))
        count("strongest", self.strongest, at_least=0)
        count("pixels", self.pixels, at_least=1)

    def of(self, layer: Layer, number: int, run: Run) -> None:
        if _takes(self.layers, layer, number):
            found = summarise(
                layer,
                strongest=self.strongest,
                pixels=self.pixels,
                separators=self.separators,
                ids=run.texts.get(layer.queries),
                chosen=self.chosen,
                real=real_of(layer, run),
            )
            run.statistics.append(replace(found, signs=tuple(signs_of(layer, run))))
            if layer.q.shape[-2] >= LONG:
                give_back()


def _takes(chosen: Chosen, layer: Layer, number: int) -> bool:
    return chosen is None or number in chosen or layer.name in chosen


def _chosen(layers: Chosen) -> Chosen:
    if layers is None:
        return None
    if isinstance(layers, str):
        raise KindError(f"layers must be a list of numbers or names, but it is {layers!r}")
    return tuple(
        one if isinstance(one, str) else count("a number of layers", one, at_least=0)
        for one in layers
    )


def _on_disk(folder: Path, *arrays: Tensor) -> list[Tensor]:
    """The same arrays in a file of ``folder`` that has no name."""
    import torch

    parts = [array.detach().cpu().contiguous() for array in arrays]
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            for part in parts:
                file.write(raw(part))
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if file.tell() else b""
    except OSError as error:
        raise UserError(
            "recording.no-room", folder=folder, why=error.strerror or str(error)
        ) from error
    found, offset = [], 0
    for part in parts:
        held = part
        if n := part.numel():
            held = torch.frombuffer(mapped, dtype=part.dtype, count=n, offset=offset)
        found.append(held.reshape(part.shape))
        offset += part.nbytes
    return found
