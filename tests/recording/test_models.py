"""Models are found, converted once, loaded whole, and refused in one sentence otherwise."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard._errors import UserError
from regard.recording import shelf
from regard.recording.models import load
from regard.recording.reading import read
from small import need_package, write_gguf

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")


def silent(_: str) -> None:
    """A stage that nobody waits for."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def broken(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model, to break."""
    return shutil.copytree(tiny, tmp_path / "broken")


def refusal(name: str | Path) -> str:
    """The sentence with which ``name`` is refused."""
    with pytest.raises(UserError) as caught:
        load(str(name), silent)
    chinese = caught.value.say("zh")
    assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese)
    for sentence in (str(caught.value), chinese):
        assert "\n" not in sentence
    return str(caught.value)


# The two packaged models


@pytest.mark.models
def test_smollm2_is_loaded_for_watching():
    need_package("smollm2")
    loaded = load("smollm2", silent)
    assert (loaded.layers, loaded.heads, loaded.context, loaded.extends) == (30, 9, 8192, True)
    assert type(loaded.model).__name__ == "LlamaModel"
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    assert loaded.model.config._attn_implementation == "sdpa"
    assert not loaded.model.training
    text = "猫在看书。 It's a cat;\n"
    reading = read(loaded, text)
    assert "".join(reading.spelled) == text
    assert [reading.tokens[p] for p in reading.find("书")] == ["书", "书₂"]
    assert [reading.tokens[p] for p in reading.separators] == ["。", ";", "\n"]
    assert reading.unknown == 0


@pytest.mark.models
def test_minilm_tells_what_it_does_not_know():
    need_package("minilm")
    loaded = load("minilm", silent)
    assert (loaded.layers, loaded.heads, loaded.context, loaded.extends) == (6, 12, 512, False)
    reading = read(loaded, "Tokenizing 书!")
    assert reading.tokens == ("[CLS]", "token", "##izing", "[UNK]", "!", "[SEP]")
    assert [reading.tokens[p] for p in reading.separators] == ["[CLS]", "!", "[SEP]"]
    assert reading.find("tokenizing") == (1, 2)
    assert reading.unknown == 1
    assert read(loaded, "plain words").unknown == 0
    assert read(loaded, "an [UNK] that was written").unknown == 0


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "minilm"])
def test_altered_weights_are_refused(
    name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    need_package(name)
    packaged = shelf.PACKAGED[name]
    weights = Path(shelf.find_spec(packaged.package).submodule_search_locations[0])
    weights = weights / packaged.weights
    copy = tmp_path / packaged.package / packaged.weights
    copy.parent.mkdir(parents=True)
    (tmp_path / packaged.package / "__init__.py").write_text("raise ImportError('imported')")
    shutil.copy(weights, copy)
    with copy.open("r+b") as file:
        file.seek(1_000_000)
        file.write(b"altered")
    monkeypatch.syspath_prepend(tmp_path)
    assert f"--force-reinstall --no-deps {packaged.requirement}" in refusal(name)
    copy.unlink()
    assert "is missing or is not the file that was published" in refusal(name)
    assert not cache.exists()


@pytest.mark.parametrize("name", ["smollm2", "minilm"])
def test_a_missing_package_names_its_line(name: str, cache: Path, monkeypatch: pytest.MonkeyPatch):
    hide(monkeypatch, shelf.PACKAGED[name].package)
    sentence = refusal(name)
    assert sentence.endswith(f"pip install --no-deps {shelf.PACKAGED[name].requirement}")


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    real = shelf.find_spec
    monkeypatch.setattr(shelf, "find_spec", lambda n: None if n in packages else real(n))


@pytest.mark.parametrize("package", ["torch", "transformers"])
def test_a_missing_library_names_its_extra(package: str, monkeypatch: pytest.MonkeyPatch):
    hide(monkeypatch, package)
    assert refusal("smollm2") == (
        f'this needs {package}, which is not installed: pip install "regard[look]"'
    )


# Conversion


def stages_of(work: Callable[[Callable[[str], None]], object]) -> list[str]:
    heard: list[str] = []
    work(heard.append)
    return heard


def test_a_gguf_is_converted_once_and_known_by_its_content(gguf: Path, cache: Path, tmp_path: Path):
    elsewhere = shutil.copy(gguf, tmp_path / "other name.gguf")
    assert stages_of(lambda stage: shelf.find(str(gguf), stage)) == ["look.converting"]
    assert stages_of(lambda stage: shelf.find(str(elsewhere), stage)) == []
    other = write_gguf(tmp_path / "b.gguf", seed=1)
    assert stages_of(lambda stage: shelf.find(str(other), stage)) == ["look.converting"]
    assert len(list(cache.iterdir())) == 2


def test_the_copy_says_what_the_gguf_says(gguf: Path, tiny: Path):
    full = transformers.AutoModel.from_pretrained(gguf.parent, gguf_file=gguf.name)
    full = full.to(torch.float32)
    copy = load(str(tiny), silent).model
    ids = torch.arange(10)[None]
    with torch.no_grad():
        a, b = full(input_ids=ids).last_hidden_state, copy(input_ids=ids).last_hidden_state
    assert (a - b).abs().max() < 0.05 * a.abs().max()  # bfloat16 keeps eight bits
    assert not hasattr(copy.config, "quantization_config")


@pytest.mark.parametrize("package", ["gguf", "accelerate"])
def test_only_converting_needs_gguf(
    package: str, gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as hidden:
        hide(hidden, package)
        assert f"this needs {package}," in refusal(gguf)
    shelf.find(str(gguf), silent)
    hide(monkeypatch, package)
    load(str(gguf), silent)


def test_a_conversion_that_fails_leaves_nothing(
    gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(self: object, directory: str) -> None:
        Path(directory).mkdir()
        Path(directory, "model.safetensors").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
        sentence = refusal(gguf)
    assert "(No space left on device): set REGARD_CACHE" in sentence
    assert list(cache.iterdir()) == []
    load(str(gguf), silent)


KILLED = """
import os, sys
from transformers import PreTrainedTokenizerBase
from regard.recording import shelf
PreTrainedTokenizerBase.save_pretrained = lambda *_, **__: os._exit(9)
shelf.find(sys.argv[1], print)
"""


def test_what_a_killed_process_left_is_never_used_and_swept_in_the_end(gguf: Path, cache: Path):
    done = subprocess.run([sys.executable, "-c", KILLED, gguf], capture_output=True, check=False)
    assert done.returncode == 9, done.stderr
    (draft,) = cache.iterdir()
    assert draft.name.startswith(".draft-")
    assert (draft / "model" / "model.safetensors").exists()
    copy = shelf.find(str(gguf), silent)
    assert copy.parent == cache
    assert draft.exists()  # it might belong to a process that is still at work
    shutil.rmtree(copy)
    os.utime(draft, (time.time() - 25 * 3600,) * 2)
    shelf.find(str(gguf), silent)
    assert [path.name for path in cache.iterdir()] == [copy.name]


def test_who_comes_second_uses_what_the_first_made(
    gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    real = shelf._read_gguf

    def slow(path: Path) -> object:
        model = real(path)
        monkeypatch.setattr(shelf, "_read_gguf", real)
        shelf.find(str(path), silent)  # meanwhile, another process
        (cache / f"gguf-{shelf._sha256(path)}" / "first").touch()
        return model

    monkeypatch.setattr(shelf, "_read_gguf", slow)
    copy = shelf.find(str(gguf), silent)
    assert (copy / "first").exists()
    assert list(cache.iterdir()) == [copy]


def test_two_processes_at_once_make_one_copy(gguf: Path, cache: Path):
    code = (
        "import sys; from regard.recording.models import load; load(sys.argv[1], lambda key: None)"
    )
    command = [sys.executable, "-c", code, gguf]
    both = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    for process in both:
        assert process.communicate()[1] == b""
        assert process.returncode == 0
    assert len(list(cache.iterdir())) == 1


def test_a_cache_that_cannot_be_written_is_named(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "file" / "cache"))
    sentence = refusal(gguf)
    assert str(tmp_path / "file" / "cache") in sentence
    assert "REGARD_CACHE" in sentence


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {"HOME": "/h"}, "/h/.cache/regard"),
        ("linux", {"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/regard"),
        ("linux", {"HOME": "/h", "XDG_CACHE_HOME": "/x", "REGARD_CACHE": "~/r"}, "/h/r"),
        ("darwin", {"HOME": "/h"}, "/h/Library/Caches/regard"),
        ("win32", {"HOME": "/h", "LOCALAPPDATA": "/l"}, "/l/regard/cache"),
    ],
)
def test_the_cache_stands_where_the_system_keeps_such_files(
    platform: str, variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
):
    for name in ("REGARD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(shelf, "sys", SimpleNamespace(platform=platform))
    assert shelf.cache_directory() == Path(place)


def test_transformers_is_left_as_it_was_found(tiny: Path, capfd: pytest.CaptureFixture[str]):
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_info()
    try:
        load(str(tiny), silent)
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity(before)
    assert capfd.readouterr() == ("", "")


def test_converting_says_nothing_on_its_own(
    gguf: Path, cache: Path, capfd: pytest.CaptureFixture[str]
):
    load(str(gguf), silent)
    assert capfd.readouterr() == ("", "")


# Refusals


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("nope", "--model takes smollm2, minilm, a model's directory, a .gguf file"),
        ("a/b/c", "there is no model “a/b/c”"),
        ("org/model", "hf download org/model"),
        ("nope.gguf", "there is no file nope.gguf"),
        (__file__, "is not a model: give the directory"),
        (Path(__file__).parent, "holds no config.json"),
    ],
)
def test_what_is_no_model_is_refused(name: str | Path, part: str):
    assert part in refusal(name)


def test_a_model_in_the_hub_cache_is_found(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    repository = tmp_path / "models--org--tiny"
    shutil.copytree(tiny, repository / "snapshots" / "abc")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    assert load("org/tiny", silent).layers == 2


def test_a_damaged_gguf_is_refused(gguf: Path, cache: Path, tmp_path: Path):
    (tmp_path / "a.gguf").write_bytes(b"not this" * 100)
    (tmp_path / "b.gguf").write_bytes(gguf.read_bytes()[:-30_000])
    for name in ("a.gguf", "b.gguf"):
        assert f"{name} cannot be read as a GGUF model" in refusal(tmp_path / name)
    assert not cache.exists()


def test_a_gguf_that_would_be_partly_random_is_refused(cache: Path, tmp_path: Path):
    file = write_gguf(tmp_path / "a.gguf", without="blk.1.attn_k")
    assert "(it lacks model.layers.1.self_attn.k_proj.weight)" in refusal(file)
    assert not cache.exists()


def test_a_model_without_tokenizer_is_refused(broken: Path):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    assert "tokenizer.save_pretrained" in refusal(broken)


def test_a_tokenizer_that_transformers_makes_up_is_refused(broken: Path):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    transformers.BertModel(
        transformers.BertConfig(
            vocab_size=9,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
        )
    ).save_pretrained(broken)
    assert "tokenizer.save_pretrained" in refusal(broken)


def edit(directory: Path, **changes: object) -> None:
    file = directory / "config.json"
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def test_a_config_of_no_known_model_is_refused(broken: Path):
    edit(broken, model_type="nonesuch")
    assert "has model type `nonesuch`" in refusal(broken)
    edit(broken, auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})
    assert "custom code" in refusal(broken)
    (broken / "config.json").write_text("{")
    assert "not a valid JSON file" in refusal(broken)


def test_damaged_weights_are_refused(broken: Path):
    with (broken / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    assert "cannot be loaded" in refusal(broken)
    (broken / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(broken)


def test_a_model_that_would_be_partly_random_is_refused(broken: Path):
    edit(broken, num_hidden_layers=3)
    assert "lacks 9 of its weights (layers.2." in refusal(broken)


def test_an_encoder_decoder_is_refused(broken: Path):
    edit(broken, model_type="t5", architectures=None)
    assert "regard.watch" in refusal(broken)


def test_a_tokenizer_of_another_model_is_refused(tiny: Path):
    loaded = load(str(tiny), silent)
    loaded.model.resize_token_embeddings(100)
    with pytest.raises(UserError, match="belongs to another model"):
        read(loaded, "the text")


def test_a_text_without_tokens_is_refused(tiny: Path):
    with pytest.raises(UserError, match="finds no tokens"):
        read(load(str(tiny), silent), "")


def test_the_models_own_end_token_is_a_separator(tiny: Path):
    reading = read(load(str(tiny), silent), " the<|end|>it")
    assert reading.tokens == (" the", "<|end|>", "it")
    assert reading.separators == (1,)
    assert reading.unknown == 0
