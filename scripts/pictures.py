"""Draws the pictures of docs/pictures.md and of the README.

``python scripts/pictures.py FOLDER [SOUND.wav]`` takes the two models that come as packages, a
vision model of random weights, and for the picture of sound a WAV file in which someone speaks
English; without one that picture is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from transformers import ViTConfig, ViTModel, WhisperForConditionalGeneration, WhisperProcessor

import regard
from regard.pictures import Picture
from regard.recording import shelf
from regard.recording.models import load
from regard.recording.sound import samples_of

ROOT = Path(__file__).resolve().parents[1]
TEXT = "The animal didn't cross the street because it was too tired"
CHINESE = "那只动物没有过马路，因为它太累了。"
LONG = (ROOT / "LICENSE").read_text(encoding="utf-8")[:3000]
RATE = 16_000


def silent(_key: str, **_values: Any) -> None:
    """A stage that nobody waits for."""


def read(model: str, text: str | None) -> Any:
    """The recording of a text, or of 64 random tokens twice, where only repetition can be seen."""
    loaded = load(model, silent)
    if text is None:
        torch.manual_seed(0)
        ids = torch.randint(0, loaded.model.config.vocab_size, (1, 64)).repeat(1, 2)
    else:
        ids = loaded.tokenizer(text, return_tensors="pt")["input_ids"]
    with torch.no_grad(), regard.watch(loaded.model, loaded.tokenizer) as seen:
        loaded.model(input_ids=ids)
    return seen


def scene() -> Image.Image:
    """A house, a tree and the sun."""
    image = Image.new("RGB", (224, 224), "#9cc4e4")
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 150, 224, 224), fill="#6d9a52")
    draw.ellipse((158, 18, 206, 66), fill="#f4d35e")
    draw.rectangle((32, 96, 112, 176), fill="#c96f4a")
    draw.polygon(((22, 98), (72, 48), (122, 98)), fill="#6b3a2e")
    draw.rectangle((62, 128, 86, 176), fill="#3d2a24")
    draw.rectangle((158, 120, 172, 184), fill="#5d4630")
    draw.ellipse((134, 76, 198, 140), fill="#2f6b3c")
    return image


def sight() -> tuple[Any, Image.Image]:
    """A small ViT whose keys are its queries: each patch looks at those that are like it."""
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
    config = ViTConfig(**sizes, intermediate_size=64, image_size=224, patch_size=16)
    model = ViTModel(config, add_pooling_layer=False).eval()
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, value in weights.items():
            if "position" in name:
                value.zero_()
            elif name.endswith(("query.weight", "q_proj.weight")):
                torch.nn.init.normal_(value, std=0.3)
                twin = name.replace("query.", "key.").replace("q_proj.", "k_proj.")
                weights[twin].copy_(value)
        image = scene()
        pixels = torch.tensor(np.asarray(image) / 127.5 - 1).permute(2, 0, 1)[None].float()
        with regard.watch(model) as seen:
            model(pixel_values=pixels)
    return seen, image


def hearing(sound: Path) -> Picture:
    """What each word of a sound looks at, over its seconds."""
    folder = shelf.find("whisper", silent)
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    processor = WhisperProcessor.from_pretrained(folder)
    samples = samples_of(sound, RATE)
    given = processor(samples, sampling_rate=RATE, return_tensors="pt")["input_features"]
    with torch.no_grad():
        ids = model.generate(given)
        with regard.watch(model, processor.tokenizer) as seen:
            model(input_features=given, decoder_input_ids=ids)
    cross = [number for number, layer in enumerate(seen) if layer.kind == "cross"]
    # Layer 2, head 5 of those that OpenAI lists as following the words of tiny.en.
    return seen.pictures.head(cross[2], 5, keys=slice(0, round(50 * len(samples) / RATE)))


def pictures(sound: Path | None) -> dict[str, tuple[Picture, str]]:
    """Every picture by its file's name, and its language."""
    seen = read("smollm2", TEXT)
    other = read("smollm2", TEXT.replace("animal", "dog"))
    chinese, long = read("smollm2", CHINESE), read("smollm2", LONG)
    eyes, image = sight()
    draw, it = seen.pictures, 8
    twice = read("smollm2", None).pictures
    found: dict[str, tuple[Picture, str]] = {
        "roles": (twice.heads(), "en"),
        "induction": (twice.head(18, 6), "en"),
        "heads": (draw.heads(), "en"),
        "head": (draw.head(13, 8), "en"),
        "head-long": (long.pictures.head(13, 8), "en"),
        "links": (draw.links(13, 8), "en"),
        "strip": (draw.strip(13, 8, it), "en"),
        "strip.zh": (chinese.pictures.strip(13, 8), "zh"),
        "strip-long": (
            read("smollm2", LONG[LONG.index("Definitions") :][:900]).pictures.strip(13, 8),
            "en",
        ),
        "patches": (eyes.pictures.patches(image, 0, None, (2, 11)), "en"),
        "distances": (long.pictures.distances(13), "en"),
        "change": (draw.change(seen.compare(other), 13, 8), "en"),
        "changes": (draw.change(seen.compare(other)), "en"),
    }
    if sound is not None:
        found["sound"] = (hearing(sound), "en")
    return found


def main() -> None:
    folder = Path(sys.argv[1])
    sound = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    for name, (picture, lang) in pictures(sound).items():
        path = folder / f"{name}.png"
        picture.save(path, lang)
        # 150 dots an inch and 256 colours do for a page of the documentation.
        with Image.open(path) as opened:
            size = opened.width // 2, opened.height // 2
            small = opened.convert("RGB").resize(size, Image.Resampling.BOX)
        few = small.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
        few.save(path, optimize=True, dpi=(150, 150))
        print(path.name, path.stat().st_size)


if __name__ == "__main__":
    main()
