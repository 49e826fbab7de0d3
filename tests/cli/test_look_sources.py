"""``regard look`` at images, sounds, recordings and what a model writes itself."""

from __future__ import annotations

import io
import json
import os
import sys
import wave
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import regard
from regard.cli import main
from regard.recording.quiet import quiet
from regard.recording.sound import samples_of
from small import GROUPED, need_package

Looked = Callable[..., SimpleNamespace]


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Looked:
    """``run("--option", …)``: ``regard look`` with these arguments."""

    def look(*args: str | Path) -> SimpleNamespace:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
        code = main(["look", *map(str, args)])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return look


def document(looked: SimpleNamespace) -> dict[str, Any]:
    assert looked.code == 0, looked.err
    found: dict[str, Any] = json.loads(looked.out)
    return found


def refused(looked: SimpleNamespace, *parts: str) -> None:
    assert (looked.code, looked.out) == (2, "")
    assert looked.err.count("\n") == 1
    for part in parts:
        assert part in looked.err


@pytest.fixture(scope="module")
def vit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random ViT of 4 × 4 patches."""
    from transformers import ViTConfig, ViTImageProcessorPil, ViTModel

    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("vit")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = ViTConfig(**sizes, intermediate_size=48, image_size=32, patch_size=8)
    ViTModel(config).save_pretrained(place)
    ViTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def whisper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Whisper that hears 3 seconds."""
    from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperModel

    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("whisper")
    heads = {"encoder_attention_heads": 4, "decoder_attention_heads": 4}
    layers = {"encoder_layers": 2, "decoder_layers": 2, "encoder_ffn_dim": 48}
    config = WhisperConfig(
        d_model=32, **heads, **layers, decoder_ffn_dim=48, max_source_positions=150,
        vocab_size=99, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
    )  # fmt: skip
    WhisperModel(config).save_pretrained(place)
    WhisperFeatureExtractor(chunk_length=3).save_pretrained(place)
    return place


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def sound(path: Path, seconds: float, rate: int = 8000, channels: int = 1, width: int = 2) -> Path:
    """A tone of 440 Hz."""
    at = np.arange(round(seconds * rate)) / rate
    tone = np.repeat(np.sin(2 * np.pi * 440 * at)[:, None] / 2, channels, 1)
    whole = np.round(tone * (2 ** (8 * width - 1) - 1)).astype("<i4") + (128 if width == 1 else 0)
    data = whole.reshape(-1, 1).view(np.uint8)[:, :width].tobytes()
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(data)
    return path


# What is shown


def test_an_image_is_seen_by_its_patches(run: Looked, vit: Path, picture: Path):
    seen = document(run("--image", picture, "--model", vit, "--json"))
    assert seen["tokens"][:6] == ["[CLS]", "1·1", "1·2", "1·3", "1·4", "2·1"]
    assert len(seen["tokens"]) == 17
    assert [len(layer["heads"]) for layer in seen["layers"]] == [4, 4]
    one = document(run("--image", picture, "--model", vit, "--json", "--query", "2·1"))
    assert {row["query"] for row in one["layers"][0]["heads"][0]["top"]} == {5}


def test_what_is_seen_is_what_the_model_attends_to(run: Looked, vit: Path, picture: Path):
    from PIL import Image
    from transformers import ViTImageProcessorPil, ViTModel

    seen = document(run("--image", picture, "--model", vit, "--json", "--query", "[CLS]"))
    model = ViTModel.from_pretrained(vit, attn_implementation="eager").eval()
    given = ViTImageProcessorPil.from_pretrained(vit)(Image.open(picture), return_tensors="pt")
    with torch.no_grad():
        right = model(**given, output_attentions=True).attentions[1][0, 2, 0]
    first = seen["layers"][1]["heads"][2]["top"][0]
    assert first["key"] == int(right.argmax())
    assert first["weight"] == pytest.approx(float(right.max()), abs=1e-5)


def test_a_sound_is_heard_by_its_frames(run: Looked, whisper: Path, tmp_path: Path):
    file = sound(tmp_path / "a.wav", 2)
    seen = document(run("--audio", file, "--model", whisper, "--json"))
    assert len(seen["tokens"]) == 150
    assert seen["tokens"][:2] == ["0.00 s", "0.02 s"]
    assert seen["tokens"][-1] == "2.98 s"


def test_a_longer_sound_is_cut_and_said_so(run: Looked, whisper: Path, tmp_path: Path):
    looked = run("--audio", sound(tmp_path / "a.wav", 4.5), "--model", whisper, "--json")
    document(looked)
    assert "hears 3 s at a time, and the sound lasts 4.5 s: the rest is not read" in looked.err


def test_a_model_writes_and_all_of_it_is_shown(run: Looked, tiny: Path):
    seen = document(run("the it", "--model", tiny, "--generate", "5", "--json"))
    short = document(run("the it", "--model", tiny, "--json"))
    assert seen["tokens"][: len(short["tokens"])] == short["tokens"]
    assert len(short["tokens"]) < len(seen["tokens"]) <= len(short["tokens"]) + 5


def test_statistics_say_what_a_whole_recording_says(run: Looked, tiny: Path):
    whole = document(run("the it the", "--model", tiny, "--json"))
    summed = document(run("the it the", "--model", tiny, "--json", "--statistics"))
    for a, b in zip(whole["layers"], summed["layers"], strict=True):
        for one, other in zip(a["heads"], b["heads"], strict=True):
            assert (one["role"], one["entropy"], one["top"]) == (
                other["role"], other["entropy"], other["top"],
            )  # fmt: skip


def test_statistics_of_a_long_text_tell_the_strongest_key_only(
    run: Looked, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regard.cli.look.LONG", 4)
    options = ["--model", tiny, "--statistics", "--json"]
    seen = document(run("the it the it the it", *options, "--to", tmp_path / "a.html"))
    queries = [row["query"] for row in seen["layers"][0]["heads"][0]["top"]]
    assert len(queries) == len(set(queries)) > 4
    assert (tmp_path / "a.html").stat().st_size


@pytest.mark.models
def test_whisper_hears_by_itself(run: Looked, tmp_path: Path):
    need_package("whisper")
    seen = document(run("--audio", sound(tmp_path / "a.wav", 2), "--json", "--layer", "0"))
    assert (seen["model"], len(seen["tokens"])) == ("whisper", 1500)


@pytest.mark.parametrize("how", [[], ["--statistics"]])
def test_what_is_saved_is_shown_again(run: Looked, tiny: Path, tmp_path: Path, how: list[str]):
    path = tmp_path / "x.regard"
    looked = run("the it, the", "--model", tiny, "--save", path, "--json", *how)
    first = document(looked)
    assert looked.err == f"wrote {path}\n"
    assert document(run("--load", path, "--json")) == first
    named = run("--load", path, "--json", "--query", "it")
    assert {row["query"] for row in document(named)["layers"][0]["heads"][0]["top"]} == {2}
    assert run("--load", path, "--to", tmp_path / "a.html").code == 0


def test_a_recording_from_python_is_shown(run: Looked, tmp_path: Path):
    from transformers import LlamaConfig, LlamaModel

    model = LlamaModel(LlamaConfig(**GROUPED)).eval()
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=torch.arange(5)[None])
    seen.save(tmp_path / "x.regard")
    shown = document(run("--load", tmp_path / "x.regard", "--json"))
    assert (shown["model"], shown["tokens"]) == ("x.regard", ["0", "1", "2", "3", "4"])


def test_a_recording_of_an_image_keeps_its_grid(
    run: Looked, vit: Path, picture: Path, tmp_path: Path
):
    path = tmp_path / "x.regard"
    first = document(run("--image", picture, "--model", vit, "--save", path, "--json"))
    assert document(run("--load", path, "--json")) == first
    (place,) = regard.load(path).run.places.values()
    assert (place.rows, place.columns, place.before) == (4, 4, ("[CLS]",))


def test_what_is_wrong_is_said(run: Looked, tiny: Path, monkeypatch: pytest.MonkeyPatch):
    import transformers.models.llama.modeling_llama as llama

    monkeypatch.setattr(llama, "create_causal_mask", lambda **_: torch.ones(1, 1, 3, 3).bool())
    looked = run("the it", "--model", tiny, "--json")
    document(looked)
    assert looked.err.startswith("diagnosis: the future leaks into a causal model")
    chinese = run("the it", "--model", tiny, "--json", "--lang", "zh")
    assert chinese.err.startswith("诊断：未来信息泄漏进了因果模型")


# What is refused


@pytest.mark.parametrize(
    ("args", "english", "chinese"),
    [
        (["a", "--image", "b.png"], "TEXT and --image both say what to look at", "TEXT 和 --image"),
        (["--image", "a", "--audio", "b"], "--image and --audio both say", "--image 和 --audio"),
        (["--file", "a", "--load", "b"], "--file and --load both say", "--file 和 --load"),
        (["--load", "a", "--statistics"], "--load a shows what was recorded", "--load a 显示"),
        (["--load", "a", "--model", "b"], "--load a shows what was recorded", "--load a 显示"),
        (["--image", "a.png"], "--image needs a vision model", "--image 需要视觉模型"),
        (["a", "--generate", "0"], "number of tokens to write, 1 or more, not 0", "而不是 0"),
        (["a", "--generate", "x"], "--generate is a whole number", "--generate 应为整数"),
        (
            ["--image", "a", "--model", "b", "--generate", "2"],
            "goes on with a text, not with --image",
            "只能续写文本",
        ),
        (["a", "--save", "nope/x.regard"], "--save nope/x.regard cannot be written", "--save nope"),
        (["a", "--save", "."], "--save . is a folder", "是一个文件夹"),
        (["--load", "nope"], "cannot read the recording nope: No such file", "无法读取记录 nope"),
        (["--load", "."], "cannot read the recording .: Is a directory", "无法读取记录 ."),
    ],
)
def test_it_is_refused(args: list[str], english: str, chinese: str, run: Looked):
    refused(run(*args), english)
    refused(run(*args, "--lang", "zh"), chinese)


def test_a_file_that_is_no_image_is_refused(run: Looked, vit: Path, tmp_path: Path):
    (tmp_path / "a.png").write_bytes(b"no image")
    refused(run("--image", tmp_path / "a.png", "--model", vit), "cannot be read as an image")
    refused(run("--image", tmp_path / "b.png", "--model", vit), "there is no file")


def test_a_file_that_is_no_sound_is_refused(run: Looked, whisper: Path, tmp_path: Path):
    (tmp_path / "a.wav").write_bytes(b"no sound")
    refused(run("--audio", tmp_path / "a.wav", "--model", whisper), "cannot be read as sound")
    refused(run("--audio", tmp_path / "b.wav", "--model", whisper), "there is no file")
    refused(run("--audio", sound(tmp_path / "c.wav", 0), "--model", whisper), "as sound (0 s)")


def test_models_that_have_no_such_sense_are_refused(
    run: Looked, tiny: Path, vit: Path, whisper: Path, picture: Path, tmp_path: Path
):
    file = sound(tmp_path / "a.wav", 1)
    refused(run("--image", picture, "--model", tiny), "is no vision model that regard knows")
    refused(run("--audio", file, "--model", tiny), "is no speech model that regard knows")
    refused(run("--audio", file, "--model", vit), "is no speech model that regard knows")


def test_an_encoder_cannot_write(run: Looked, tmp_path: Path, tiny: Path):
    from transformers import AutoTokenizer, BertConfig, BertModel

    small = BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=48,
        vocab_size=400,
    )  # fmt: skip
    with quiet():
        BertModel(small).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny).save_pretrained(tmp_path)
    looked = run("the", "--model", tmp_path, "--generate", "2")
    refused(looked, "cannot go on with a text, for it has no language-model head")


def test_an_altered_recording_is_refused(run: Looked, tiny: Path, tmp_path: Path):
    path = tmp_path / "x.regard"
    assert run("the it", "--model", tiny, "--save", path, "--json").code == 0
    whole = path.read_bytes()
    path.write_bytes(whole[:-100] + b"\0" + whole[-99:])
    refused(run("--load", path), "was altered or damaged after it was written")
    path.write_bytes(whole[:-100])
    refused(run("--load", path), "is cut short")


def test_a_full_disk_leaves_nothing_half_written(
    run: Looked, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(self: Path, target: Any) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", full)
    path = tmp_path / "x.regard"
    refused(run("the it", "--model", tiny, "--save", path), "No space left on device")
    assert list(tmp_path.iterdir()) == []


# Sound


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8000, 16000, 44100])
def test_a_tone_is_the_same_however_it_was_stored(
    tmp_path: Path, width: int, channels: int, rate: int
):
    heard = samples_of(sound(tmp_path / "a.wav", 0.5, rate, channels, width), 16000)
    at = np.arange(len(heard)) / 16000
    assert len(heard) == 8000
    assert heard.dtype == np.float32
    # Its ends ring where it was resampled, as 220 whole turns do not.
    middle = slice(800, -800)
    right = np.sin(2 * np.pi * 440 * at) / 2
    assert np.abs(heard - right)[middle].max() < (0.02 if width == 1 else 0.005)
