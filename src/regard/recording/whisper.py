"""Whisper as CTranslate2 keeps it, read back into transformers' model of it.

The file is a list of named arrays.  CTranslate2 puts the projections of queries, keys and values
into one, and a bias of zeros where Whisper's keys have none; all else is as in the original.
"""

from __future__ import annotations

import json
import struct
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from regard.recording.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DTYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2"}
"""CTranslate2's numbers for them."""
VERSION = 6
"""Of the layout of the file that is read here."""
ATTENTIONS = {"self_attention": "self_attn", "attention": "encoder_attn"}


def read_whisper(weights: Path) -> tuple[PreTrainedModel, Any]:
    """The model in ``model.bin``, and what turns sound into its input and numbers into words.

    Raises:
        ValueError: a file that is no such model, or whose arrays do not fill one.
    """
    from tokenizers import Tokenizer

    theirs = import_module("transformers")  # by name, for its lazy names carry no types

    with weights.open("rb") as file:
        arrays = _arrays(file)
    said = json.loads((weights.parent / "config.json").read_text("utf-8"))
    tokens = Tokenizer.from_file(str(weights.parent / "tokenizer.json"))
    config = _config(arrays, said, tokens)
    with quiet():
        model: Any = theirs.WhisperForConditionalGeneration(config)
        missing, foreign = model.load_state_dict(_named(arrays, config), strict=False)
        missing = [key for key in missing if key != "proj_out.weight"]  # it is the embedding
        if missing or foreign:
            raise ValueError(f"its arrays do not fill the model: {[*missing, *foreign][0]}")
        model.tie_weights()
        model.generation_config.alignment_heads = said.get("alignment_heads")
        tokenizer = theirs.WhisperTokenizerFast(tokenizer_object=tokens)
        sound = theirs.WhisperFeatureExtractor(feature_size=config.num_mel_bins)
        return model, theirs.WhisperProcessor(sound, tokenizer)


def _arrays(file: BinaryIO) -> dict[str, NDArray[Any]]:
    """Every array of the file, by name."""

    def number(form: str) -> int:
        size = struct.calcsize(form)
        if len(data := file.read(size)) < size:
            raise ValueError("it ends too early")
        return int(struct.unpack(form, data)[0])

    def text() -> str:
        return file.read(number("<H"))[:-1].decode("utf-8", "replace")  # a zero ends it

    version, kind = number("<I"), text()
    if version != VERSION or kind != "WhisperSpec":
        raise ValueError(f"it is no Whisper in CTranslate2's layout {VERSION}")
    number("<I")  # the revision of that kind
    found: dict[str, NDArray[Any]] = {}
    for _ in range(number("<I")):
        name = text()
        shape = [number("<I") for _ in range(number("<B"))]
        dtype = DTYPES.get(number("<B"))
        data = file.read(number("<I"))
        if dtype is None or len(data) != np.dtype(dtype).itemsize * int(np.prod(shape, dtype=int)):
            raise ValueError(f"its array {name!r} has no size or kind that is known")
        found[name] = np.frombuffer(data, dtype).reshape(shape)
    return found


def _config(arrays: dict[str, NDArray[Any]], said: dict[str, Any], tokens: Any) -> Any:
    """The sizes, from the arrays' own."""
    from transformers import WhisperConfig

    def layers(stack: str) -> int:
        return len({name.split("/")[1] for name in arrays if name.startswith(f"{stack}/layer_")} - {
            "layer_norm"
        })  # fmt: skip

    vocabulary, width = arrays["decoder/embeddings/weight"].shape
    end = tokens.token_to_id("<|endoftext|>")
    return WhisperConfig(
        vocab_size=vocabulary,
        d_model=width,
        num_mel_bins=arrays["encoder/conv1/weight"].shape[1],
        encoder_layers=layers("encoder"),
        decoder_layers=layers("decoder"),
        encoder_attention_heads=int(arrays["encoder/num_heads"]),
        decoder_attention_heads=int(arrays["decoder/num_heads"]),
        encoder_ffn_dim=arrays["encoder/layer_0/ffn/linear_0/bias"].shape[0],
        decoder_ffn_dim=arrays["decoder/layer_0/ffn/linear_0/bias"].shape[0],
        max_source_positions=arrays["encoder/position_encodings/encodings"].shape[0],
        max_target_positions=arrays["decoder/position_encodings/encodings"].shape[0],
        decoder_start_token_id=tokens.token_to_id("<|startoftranscript|>"),
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        suppress_tokens=said.get("suppress_ids"),
        begin_suppress_tokens=said.get("suppress_ids_begin"),
    )


def _named(arrays: dict[str, NDArray[Any]], config: Any) -> dict[str, Any]:
    """The arrays by transformers' names, in float32."""
    import torch

    out: dict[str, Any] = {}

    def put(name: str, array: NDArray[Any]) -> None:
        out[name] = torch.from_numpy(array.astype(np.float32))

    def linear(theirs: str, *ours: str) -> None:
        """One projection of CTranslate2's, for as many of ours."""
        for part in ("weight", "bias"):
            pieces = np.split(arrays[f"{theirs}/{part}"], len(ours))
            for name, piece in zip(ours, pieces, strict=True):
                if part == "weight" or not name.endswith("k_proj"):
                    put(f"{name}.{part}", piece)

    def norm(theirs: str, ours: str) -> None:
        put(f"{ours}.weight", arrays[f"{theirs}/gamma"])
        put(f"{ours}.bias", arrays[f"{theirs}/beta"])

    for stack in ("encoder", "decoder"):
        place = f"model.{stack}"
        put(f"{place}.embed_positions.weight", arrays[f"{stack}/position_encodings/encodings"])
        norm(f"{stack}/layer_norm", f"{place}.layer_norm")
        for number in range(getattr(config, f"{stack}_layers")):
            theirs, ours = f"{stack}/layer_{number}", f"{place}.layers.{number}"
            for their_kind, kind in ATTENTIONS.items():
                if f"{theirs}/{their_kind}/linear_0/weight" not in arrays:
                    continue
                at, mine = f"{theirs}/{their_kind}", f"{ours}.{kind}"
                norm(f"{at}/layer_norm", f"{mine}_layer_norm")
                q, k, v, o = (f"{mine}.{part}_proj" for part in ("q", "k", "v", "out"))
                if kind == "self_attn":
                    linear(f"{at}/linear_0", q, k, v)
                    linear(f"{at}/linear_1", o)
                else:
                    linear(f"{at}/linear_0", q)
                    linear(f"{at}/linear_1", k, v)
                    linear(f"{at}/linear_2", o)
            norm(f"{theirs}/ffn/layer_norm", f"{ours}.final_layer_norm")
            linear(f"{theirs}/ffn/linear_0", f"{ours}.fc1")
            linear(f"{theirs}/ffn/linear_1", f"{ours}.fc2")
    for conv in ("conv1", "conv2"):
        for part in ("weight", "bias"):
            put(f"model.encoder.{conv}.{part}", arrays[f"encoder/{conv}/{part}"])
    put("model.decoder.embed_tokens.weight", arrays["decoder/embeddings/weight"])
    return out
