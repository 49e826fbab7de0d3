"""Small models of every kind, and the projections that their heads' outputs go through."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from regard.recording.recording import Recording
from small import GROUPED, SMALL

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

IDS = torch.tensor([[5, 9, 3, 7, 1, 9, 3, 2], [4, 4, 8, 1, 0, 6, 2, 7]])


def llama() -> tuple[Any, Any]:
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED)).eval()
    return model, [layer.self_attn.o_proj for layer in model.model.layers]


def gpt2() -> tuple[Any, Any]:
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=99)
    model = transformers.GPT2LMHeadModel(config).eval()
    return model, [block.attn.c_proj for block in model.transformer.h]


def bert() -> tuple[Any, Any]:
    model = transformers.BertModel(transformers.BertConfig(**SMALL)).eval()
    return model, [layer.attention.output.dense for layer in model.encoder.layer]


class Torch(torch.nn.Module):
    """An encoder of torch, whose fast path computes a whole layer in one piece."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(99, 32)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2)

    def forward(self, input_ids: Any) -> Any:
        return self.layers(self.embed(input_ids))


def encoder() -> tuple[Any, Any]:
    model = Torch().eval()
    return model, [layer.self_attn.out_proj for layer in model.layers.layers]


class Ours(torch.nn.Module):
    """Attention by ``regard.attend``, called in a module of the user's own."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(99, 32)
        self.qkv, self.out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)

    def forward(self, input_ids: Any) -> Any:
        q, k, v = self.qkv(self.embed(input_ids)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        return self.out(regard.attend(q, k, v, regard.causal()).transpose(1, 2).flatten(2))


def ours() -> tuple[Any, Any]:
    model = Ours().eval()
    return model, [model.out]


MODELS = [llama, gpt2, bert, encoder, ours]


def watched(model: Any, ids: Any = IDS) -> tuple[Recording, Any]:
    with torch.no_grad(), regard.watch(model) as seen:
        output = model(ids)
    return seen, output


def vectors(output: Any) -> Any:
    found = getattr(output, "logits", None)
    return getattr(output, "last_hidden_state", output) if found is None else found
