"""Images and sound as models look at them: the part of a model that reads them, and its inputs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._errors import UserError
from regard.recording import models, shelf
from regard.recording.places import Frames, Places, places_of
from regard.recording.quiet import quiet
from regard.recording.reading import Reading
from regard.recording.shelf import Stage, reason
from regard.recording.sound import samples_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Sensed:
    """A model that is ready to look at an image or to listen."""

    model: PreTrainedModel
    """Its encoder, in eval mode."""
    inputs: dict[str, Any]
    reading: Reading
    """Its positions: patches by row and column, frames by seconds."""
    layers: int
    heads: int
    heard: float
    """How many seconds of sound it reads; 0 of an image."""
    whole: float
    """How many there are."""


def see(name: str, image: Path, stage: Stage) -> Sensed:
    """The vision model ``name``, ready to look at the file ``image``.

    Raises ``UserError`` for a file that is no image, or a model that takes none.
    """
    shelf.need("torch", "transformers", "PIL")
    picture = _picture(image)
    model, processor = _loaded(name, stage, "AutoImageProcessor", "look.blind")
    # A model of images and texts has a tower for each.
    tower = getattr(model, "vision_model", model)
    with _tried("look.cannot-see", name):
        given = processor(picture, return_tensors="pt")
        inputs = {"pixel_values": given["pixel_values"]}
    return _sensed(name, tower, inputs, "look.blind")


def hear(name: str, sound: Path, stage: Stage) -> Sensed:
    """The speech model ``name``, ready to listen to the WAV file ``sound``.

    Raises ``UserError`` for a file that is no WAV, or a model that takes no sound.
    """
    shelf.need("torch", "transformers")
    rate = 16_000
    samples = samples_of(sound, rate)
    model, processor = _loaded(name, stage, "AutoFeatureExtractor", "look.deaf")
    if processor.sampling_rate != rate or "input_features" not in processor.model_input_names:
        raise UserError("look.deaf", model=name)
    with _tried("look.cannot-hear", name):
        given = processor(samples, sampling_rate=rate, return_tensors="pt")
        inputs = {"input_features": given["input_features"]}
    tower = model.get_encoder()
    return _sensed(name, tower, inputs, "look.deaf", whole=len(samples) / rate)


def _picture(path: Path) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as opened:
            return opened.convert("RGB")
    except FileNotFoundError as error:
        raise UserError("look.no-such-file", file=path) from error
    except Exception as error:  # what a foreign parser raises on a foreign file
        raise UserError("look.no-image", file=path, why=reason(error)) from error


def _loaded(name: str, stage: Stage, processor: str, key: str) -> tuple[Any, Any]:
    """The model, and what turns a file into its inputs."""
    import transformers

    stage("look.loading")
    directory = shelf.find(name, stage)
    stage("look.loading")
    if not os.path.isfile(directory / "config.json"):
        raise UserError("look.not-a-model", directory=directory)
    make: Callable[..., Any] = getattr(transformers, processor).from_pretrained
    with quiet():
        try:
            turned = make(directory, trust_remote_code=False)
        except Exception as error:
            raise UserError(key, model=name) from error
        return models.encoder(directory), turned


def _sensed(name: str, tower: Any, inputs: Any, key: str, whole: float = 0.0) -> Sensed:
    places: Places | None = next(iter(places_of(tower, inputs).values()), None)
    if places is None:
        raise UserError(key, model=name)
    names = tuple(places.names())
    reading = Reading(ids=(), tokens=names, spelled=names, separators=(), unknown=0)
    config = tower.config
    heads = getattr(config, "num_attention_heads", None) or config.encoder_attention_heads
    layers = getattr(config, "encoder_layers", None) or config.num_hidden_layers
    heard = places.count * places.seconds if isinstance(places, Frames) else 0.0
    return Sensed(tower, inputs, reading, layers, heads, min(heard, whole), whole)


class _tried:
    """Turns what a model's own preparation raises into one sentence."""

    def __init__(self, key: str, model: str) -> None:
        self.key, self.model = key, model

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Exception):
            raise UserError(self.key, model=self.model, why=reason(error)) from error
