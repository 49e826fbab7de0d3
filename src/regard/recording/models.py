"""Real models, loaded so that their attention can be watched: on the CPU, in float32, by sdpa."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._errors import UserError
from regard.recording import shelf
from regard.recording.quiet import quiet
from regard.recording.shelf import Stage

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(frozen=True)
class Loaded:
    """A model that is ready to read a text."""

    name: str
    model: PreTrainedModel
    """In eval mode, without a language-model head: nobody looks at the logits, and of a long
    text they would be larger than all else."""
    tokenizer: PreTrainedTokenizerBase
    layers: int
    heads: int
    context: int | None
    """The longest text, in tokens, that it was made for; None where it has no such length."""
    extends: bool
    """Whether positions beyond ``context`` can be computed at all; a table of positions ends."""
    writer: PreTrainedModel | None = None
    """The same model with its language-model head, where it shall write."""


def load(name: str, stage: Stage, writes: bool = False) -> Loaded:
    """The model that ``name`` stands for: a short name, directory, ``.gguf`` or cached hub name.

    ``stage`` is told the catalogue key of each step that takes a while.  With ``writes`` the model
    has the head that goes on with a text, which takes one that was made to.
    """
    shelf.need("torch", "transformers")
    stage("look.loading")
    directory = shelf.find(name, stage)
    stage("look.loading")
    with quiet():
        config = _config(directory)
        tokenizer = _tokenizer(directory)
        writer = _writer(directory, name) if writes else None
        model: Any = encoder(directory) if writer is None else writer.base_model
    model.config.use_cache = False
    with _refused("look.bad-model", directory):
        text = config.get_text_config()
        layers, heads = text.num_hidden_layers, text.num_attention_heads
    lengths = (getattr(text, "max_position_embeddings", None), tokenizer.model_max_length)
    # Transformers writes "unlimited" as 10³⁰.
    known = [length for length in lengths if length and length < 10**15]
    return Loaded(
        name=name,
        model=model,
        tokenizer=tokenizer,
        layers=layers,
        heads=heads,
        context=min(known, default=None),
        extends=bool(getattr(text, "rope_parameters", None)),
        writer=writer,
    )


def _config(directory: Path) -> Any:
    from transformers import AutoConfig

    if not os.path.isfile(directory / "config.json"):
        raise UserError("look.not-a-model", directory=str(directory))
    with _refused("look.bad-model", directory):
        config = AutoConfig.from_pretrained(directory, trust_remote_code=False)
    if config.is_encoder_decoder:
        raise UserError("look.encoder-decoder", directory=str(directory))
    return config


def _tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    with _refused("look.no-tokenizer", directory):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            directory, trust_remote_code=False
        )
    # Without its files some are built all the same, and would read any text as unknown.
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise UserError("look.no-tokenizer", directory=str(directory))
    return tokenizer


def encoder(directory: Path) -> PreTrainedModel:
    """The model in ``directory`` without a head, in float32."""
    from transformers import AutoModel

    return _model(directory, AutoModel)


def _writer(directory: Path, name: str) -> PreTrainedModel:
    from transformers import AutoModelForCausalLM

    try:
        return _model(directory, AutoModelForCausalLM)
    except UserError as error:  # it has no such head, or its weights have none
        raise UserError("look.cannot-write-on", model=name) from error


def _model(directory: Path, maker: Any) -> PreTrainedModel:
    import torch

    with _refused("look.bad-model", directory):
        model, found = maker.from_pretrained(
            directory,
            dtype=torch.float32,
            attn_implementation="sdpa",
            trust_remote_code=False,
            output_loading_info=True,
        )
    # What is missing was filled with random numbers. Only the pooler, which sits on top, may be.
    if missing := sorted(key for key in found["missing_keys"] if not key.startswith("pooler.")):
        raise UserError(
            "look.incomplete", directory=str(directory), count=len(missing), first=missing[0]
        )
    loaded: PreTrainedModel = model.eval()
    return loaded


@contextlib.contextmanager
def _refused(key: str, directory: Path) -> Iterator[None]:
    """Turns whatever a library raises on a foreign directory into one sentence about it."""
    try:
        yield
    except Exception as error:
        raise UserError(key, directory=str(directory), why=shelf.reason(error)) from error
