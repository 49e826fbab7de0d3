"""What the positions of a recording are where they are no words: patches of an image, sound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Patches:
    """The patches of an image, row by row, after some tokens that are no patches.

    >>> Patches(rows=2, columns=2, before=("[CLS]",)).names()
    ['[CLS]', '1·1', '1·2', '2·1', '2·2']
    """

    rows: int
    columns: int
    before: tuple[str, ...] = ()
    """What stands before the first patch, such as a class token."""

    def names(self) -> list[str]:
        """One name a position: a patch is called by its row and column, from 1."""
        return [
            *self.before,
            *(f"{r}·{c}" for r in range(1, self.rows + 1) for c in range(1, self.columns + 1)),
        ]


@dataclass(frozen=True)
class Frames:
    """Frames of sound, ``seconds`` each.

    >>> Frames(count=3, seconds=0.02).names()
    ['0.00 s', '0.02 s', '0.04 s']
    """

    count: int
    seconds: float

    def names(self) -> list[str]:
        """One name a position: when the frame begins."""
        digits = 2 if self.seconds < 0.1 else 1
        return [f"{number * self.seconds:.{digits}f} s" for number in range(self.count)]


Places = Patches | Frames


def places_of(model: Any, inputs: dict[str, Any]) -> dict[str, Places]:
    """What the positions of a model's own inputs are, by the argument that they came in.

    Known are images of transformers' ViTs (``pixel_values``, by the config's ``patch_size``) and
    the spectrograms of Whisper (``input_features``); of others nothing is said.
    """
    found: dict[str, Places] = {}
    config = getattr(model, "config", None)
    pixels, sound = inputs.get("pixel_values"), inputs.get("input_features")
    image = getattr(config, "vision_config", config)
    side = getattr(image, "patch_size", None)
    if getattr(pixels, "ndim", 0) == 4 and side:
        tall, wide = (side, side) if isinstance(side, int) else side
        assert pixels is not None
        rows, columns = pixels.shape[-2] // tall, pixels.shape[-1] // wide
        found["pixel_values"] = Patches(rows, columns, _before(model))
    if getattr(sound, "ndim", 0) == 3 and getattr(config, "max_source_positions", None):
        assert sound is not None
        stride = max(1, round(sound.shape[-1] / config.max_source_positions))  # type: ignore[union-attr]
        # Whisper's spectrograms hold 100 frames a second, and two of them become one position.
        found["input_features"] = Frames(sound.shape[-1] // stride, stride / 100)
    return found


def _before(model: Any) -> tuple[str, ...]:
    """The tokens that a ViT puts before its patches: those that it has weights for."""
    names = {name.rpartition(".")[2] for name, _ in model.named_parameters()}
    before = ["[CLS]"] if names & {"cls_token", "class_embedding"} else []
    before += ["[DIST]"] if "distillation_token" in names else []
    for name, weight in model.named_parameters():
        if name.rpartition(".")[2] in ("register_tokens", "reg_token"):
            before += [f"[REG{n}]" for n in range(1, weight.shape[-2] + 1)]
    return tuple(before)
