"""Where models come from: packages, GGUF files (converted once), directories, the hub cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from regard.recording import shelf
from regard.recording.models import load
from small import need_package, refusal, silent, unmeasured, write_gguf

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")


# Packages


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "minilm", "whisper"])
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


@pytest.mark.parametrize("name", ["smollm2", "minilm", "whisper"])
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
    assert "quantization" not in (tiny / "config.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("packed", [True, False])
def test_a_config_may_or_may_not_say_that_it_was_packed(
    packed: bool, gguf: Path, monkeypatch: pytest.MonkeyPatch
):
    real = transformers.AutoModelForCausalLM.from_pretrained

    def read(*args: object, **options: object) -> tuple[object, object]:
        model, found = real(*args, **options)
        model.config.__dict__.pop("quantization_config", None)
        if packed:
            model.config.quantization_config = {"quant_method": "gguf"}
        return model, found

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", read)
    model, _ = shelf._read_gguf(gguf)
    assert "quantization_config" not in model.config.to_dict()


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
    command = [sys.executable, "-c", KILLED, gguf]
    done = subprocess.run(command, capture_output=True, check=False, env=unmeasured())
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
    both = [subprocess.Popen(command, stderr=subprocess.PIPE, env=unmeasured()) for _ in range(2)]
    for process in both:
        assert process.communicate()[1] == b""
        assert process.returncode == 0
    assert len(list(cache.iterdir())) == 1


def test_a_copy_that_cannot_be_moved_into_place_is_refused(
    gguf: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
):
    def rename(self: Path, target: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", rename)
    assert f"cannot be kept in {cache} (Permission denied)" in refusal(gguf)
    assert list(cache.iterdir()) == []


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


@pytest.mark.parametrize("place", ["~nosuchuser/c", None])
def test_a_cache_in_a_home_that_is_not_known_is_refused(
    place: str | None, gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    if place:
        monkeypatch.setenv("REGARD_CACHE", place)
    else:  # a user whom the system does not know, in a container say
        monkeypatch.delenv("REGARD_CACHE", raising=False)
        monkeypatch.delenv("HOME", raising=False)
        monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    sentence = refusal(gguf)
    assert f"no place, for {place or '~/'}" in sentence
    assert "set REGARD_CACHE to a folder that is written in full" in sentence
    assert list(tmp_path.iterdir()) == []


def test_a_cache_whose_name_no_folder_can_have_is_refused(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / ("c" * 300)))
    assert "(File name too long): set REGARD_CACHE" in refusal(gguf)


def test_converting_says_nothing_on_its_own(
    gguf: Path, cache: Path, capfd: pytest.CaptureFixture[str]
):
    load(str(gguf), silent)
    assert capfd.readouterr() == ("", "")


def test_a_damaged_gguf_is_refused(gguf: Path, cache: Path, tmp_path: Path):
    (tmp_path / "a.gguf").write_bytes(b"not this" * 100)
    (tmp_path / "b.gguf").write_bytes(gguf.read_bytes()[:-30_000])
    for name in ("a.gguf", "b.gguf"):
        assert f"{name} cannot be read as a GGUF model" in refusal(tmp_path / name)
    assert not cache.exists()


def test_a_gguf_that_cannot_be_read_is_refused(gguf: Path, monkeypatch: pytest.MonkeyPatch):
    def digest(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(shelf.hashlib, "file_digest", digest)
    assert refusal(gguf) == f"cannot read {gguf}: Input/output error"


def test_a_gguf_that_would_be_partly_random_is_refused(cache: Path, tmp_path: Path):
    file = write_gguf(tmp_path / "a.gguf", without="blk.1.attn_k")
    assert "(it lacks model.layers.1.self_attn.k_proj.weight)" in refusal(file)
    assert not cache.exists()


# Names


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("nope", "--model takes smollm2, minilm, whisper, a model's directory, a .gguf file"),
        ("a/b/c", "there is no model “a/b/c”"),
        ("org/model", "hf download org/model"),
        ("nope.gguf", "there is no file nope.gguf"),
        ("~nosuchuser/x", "there is no model “~nosuchuser/x”"),
        ("~nosuchuser/x.gguf", "there is no file ~nosuchuser/x.gguf"),
        ("m" * 300, "there is no model “mmm"),
        ("org/" + "m" * 300, "there is no model “org/mmm"),
        ("m" * 300 + ".gguf", "there is no file mmm"),
        (__file__, "is not a model: give the directory"),
        (Path(__file__).parent, "holds no config.json"),
    ],
)
def test_what_is_no_model_is_refused(name: str | Path, part: str):
    assert part in refusal(name)


def test_a_path_is_what_a_shell_makes_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert shelf.user_path("~/a") == tmp_path / "a"
    assert shelf.user_path("./~/a") == Path("~", "a")
    assert shelf.user_path("~nosuchuser/a") == Path("~nosuchuser", "a")


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
