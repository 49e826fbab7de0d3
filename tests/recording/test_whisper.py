"""A Whisper that CTranslate2 has written is transformers' own again."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard._errors import UserError
from regard.recording import shelf
from regard.recording.whisper import read_whisper
from small import cache, silent

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

__all__ = ["cache"]


def original() -> Any:
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=6, d_model=8, encoder_layers=2, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=4, encoder_ffn_dim=12, decoder_ffn_dim=10, num_mel_bins=3,
        max_source_positions=10, max_target_positions=7, pad_token_id=0, bos_token_id=0,
        eos_token_id=0, decoder_start_token_id=1, suppress_tokens=[2], begin_suppress_tokens=[3],
    )  # fmt: skip
    model = transformers.WhisperForConditionalGeneration(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter)
    return model


def arrays(model: Any) -> dict[str, Any]:
    """The model's numbers as CTranslate2 names and joins them."""
    state = {name: value.numpy() for name, value in model.state_dict().items()}
    found: dict[str, Any] = {
        "encoder/num_heads": np.int16(2),
        "decoder/num_heads": np.int16(4),
        "decoder/pre_norm": np.int8(1),
        "decoder/embeddings/weight": state["model.decoder.embed_tokens.weight"],
    }

    def put(theirs: str, *ours: str) -> None:
        for part in ("weight", "bias"):
            zeros = np.zeros(8, np.float32)  # for keys, which have no bias
            found[f"{theirs}/{part}"] = np.concatenate(
                [state.get(f"{name}.{part}", zeros) for name in ours]
            )

    def norm(theirs: str, ours: str) -> None:
        found[f"{theirs}/gamma"] = state[f"{ours}.weight"]
        found[f"{theirs}/beta"] = state[f"{ours}.bias"]

    for stack, layers in (("encoder", 2), ("decoder", 1)):
        norm(f"{stack}/layer_norm", f"model.{stack}.layer_norm")
        place = f"model.{stack}.embed_positions.weight"
        found[f"{stack}/position_encodings/encodings"] = state[place]
        for i in range(layers):
            at, mine = f"{stack}/layer_{i}", f"model.{stack}.layers.{i}"
            self, cross = f"{mine}.self_attn", f"{mine}.encoder_attn"
            put(f"{at}/self_attention/linear_0", *(f"{self}.{p}_proj" for p in "qkv"))
            put(f"{at}/self_attention/linear_1", f"{self}.out_proj")
            norm(f"{at}/self_attention/layer_norm", f"{self}_layer_norm")
            if stack == "decoder":
                put(f"{at}/attention/linear_0", f"{cross}.q_proj")
                put(f"{at}/attention/linear_1", *(f"{cross}.{p}_proj" for p in "kv"))
                put(f"{at}/attention/linear_2", f"{cross}.out_proj")
                norm(f"{at}/attention/layer_norm", f"{cross}_layer_norm")
            put(f"{at}/ffn/linear_0", f"{mine}.fc1")
            put(f"{at}/ffn/linear_1", f"{mine}.fc2")
            norm(f"{at}/ffn/layer_norm", f"{mine}.final_layer_norm")
    for conv in ("conv1", "conv2"):
        put(f"encoder/{conv}", f"model.encoder.{conv}")
    return found


def text(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def write(folder: Path, found: dict[str, Any], version: int = 6, kind: str = "WhisperSpec") -> Path:
    from tokenizers import Tokenizer, models

    numbers = {"float32": 0, "int8": 1, "int16": 2}
    data = [struct.pack("<I", version), text(kind), struct.pack("<II", 3, len(found))]
    for name, value in found.items():
        array = np.asarray(value)
        data.append(text(name) + struct.pack("<B", array.ndim))
        data.append(struct.pack(f"<{array.ndim}I", *array.shape))
        data.append(struct.pack("<BI", numbers[str(array.dtype)], array.nbytes) + array.tobytes())
    file = folder / "model.bin"
    file.write_bytes(b"".join(data) + struct.pack("<I", 0))
    said = {"suppress_ids": [2], "suppress_ids_begin": [3], "alignment_heads": [[0, 1]]}
    (folder / "config.json").write_text(json.dumps(said))
    words = ["<|endoftext|>", "<|startoftranscript|>", "a", "b", "c", "d"]
    vocabulary = {word: number for number, word in enumerate(words)}
    tokens = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    tokens.save(str(folder / "tokenizer.json"))
    return file


def test_every_number_and_size_comes_back(tmp_path: Path, cache: Path) -> None:
    model = original()
    file = write(tmp_path, arrays(model))
    read, processor = read_whisper(file)
    for name, value in model.state_dict().items():
        assert torch.equal(read.state_dict()[name], value), name
    kept = ("d_model", "encoder_attention_heads", "decoder_attention_heads", "num_mel_bins")
    kept += ("decoder_start_token_id", "eos_token_id", "suppress_tokens", "decoder_ffn_dim")
    assert all(getattr(read.config, name) == getattr(model.config, name) for name in kept)
    assert read.generation_config.alignment_heads == [[0, 1]]
    assert processor.feature_extractor.feature_size == 3
    place = shelf.converted(file, "abc", silent)
    assert place.name == "whisper-abc"
    again = transformers.WhisperForConditionalGeneration.from_pretrained(
        place, dtype=torch.float32
    ).eval()
    sound, ids = torch.randn(1, 3, 20), torch.tensor([[1, 2, 4]])
    with torch.no_grad():
        want = model(input_features=sound, decoder_input_ids=ids).logits
        found = again(input_features=sound, decoder_input_ids=ids).logits
    torch.testing.assert_close(found, want, rtol=2e-2, atol=5e-2)  # it lies in float16


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"version": 5}, "it is no Whisper in CTranslate2's layout 6"),
        ({"kind": "MarianSpec"}, "it is no Whisper in CTranslate2's layout 6"),
        ({"without": "encoder/layer_1/self_attention/layer_norm/gamma"}, "layer_1/self_attention"),
        ({"cut": 200}, "has no size or kind that is known"),
        ({"cut": 3000}, "ends too early"),
    ],
)
def test_what_is_no_such_file_is_refused(
    tmp_path: Path, cache: Path, change: dict[str, Any], why: str
) -> None:
    found = arrays(original())
    found.pop(change.pop("without", ""), None)
    cut = change.pop("cut", 0)
    file = write(tmp_path, found, **change)
    if cut:
        file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(UserError, match=why):
        shelf.converted(file, "abc", silent)
    assert not (cache / "whisper-abc").exists()
