"""Models of transformers and ours: the same weights, either way."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard._errors import KindError, ShapeError
from regard.nn.conversion.families import FAMILIES, Family, How, Model


def from_transformers(theirs: Any) -> Model:
    """Ours with the weights of a model of transformers, copied.

    Args:
        theirs: a model with its head: ``LlamaForCausalLM`` (also Mistral, Qwen 2, SmolLM 2),
            ``GPT2LMHeadModel``, ``BertModel``, ``T5ForConditionalGeneration``,
            ``BartForConditionalGeneration``, ``MarianMTModel``.

    Returns:
        ``LanguageModel``, ``Encoder`` or ``Seq2Seq``, in evaluation where ``theirs`` is.

    Raises:
        KindError: a kind of model, or a setting of one, that has no counterpart here.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> theirs = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=9)).eval()
    >>> ids = torch.tensor([[1, 2, 3]])
    >>> torch.allclose(from_transformers(theirs)(ids), theirs(ids).logits, atol=1e-5)
    True
    """
    family = _family(theirs)
    ours = family.build(theirs.config)
    weights, state = dict(_weights(theirs)), {}
    for mine, name, how in family.names(theirs.config):
        if name in weights:
            state[mine] = _taken(weights[name], how)
    kept = ours.state_dict()
    for name in [name for name in state if name not in kept]:
        raise KindError(f"this {theirs.config.model_type} has {name}, for which there is no place")
    wrong = [n for n, a in state.items() if a.numel() != kept[n].numel()]
    if wrong:
        raise ShapeError(f"the shapes of {', '.join(wrong[:3])} do not fit the model's config")
    state = {name: a.reshape(kept[name].shape) for name, a in state.items()}
    tied = {name for name in kept if name not in state}
    if tied - {"output.linear.weight", "decoder.tokens.weight", "output.linear.bias"}:
        raise KindError(f"this {theirs.config.model_type} lacks weights: {sorted(tied)[:3]}")
    ours.load_state_dict(state, strict=False)
    first = next(iter(weights.values()))
    return ours.to(first.device, first.dtype).train(theirs.training)


def to_transformers(ours: Model, theirs: Any) -> None:
    """Writes the weights of ``ours`` into ``theirs``, a model of the same config, in place.

    Raises:
        KindError, ShapeError: models that are not of one kind and size; nothing is written then.
    """
    family, state = _family(theirs), ours.state_dict()
    weights = dict(_weights(theirs))
    found: dict[str, dict[int, Tensor]] = {}
    hows: dict[str, How] = {}
    for mine, name, how in family.names(theirs.config):
        if name not in weights:
            continue
        if mine not in state:
            raise KindError(f"ours has no {mine}, which the model of transformers wants")
        part = how[0] if isinstance(how, tuple) else 0
        found.setdefault(name, {})[part] = state[mine]
        hows[name] = how
    whole = {name: _given(parts, hows[name]) for name, parts in found.items()}
    for name, array in whole.items():
        if array.numel() != weights[name].numel():
            raise ShapeError(
                f"{name} is {tuple(weights[name].shape)} there, but {tuple(array.shape)} here"
            )
    with torch.no_grad():
        for name, array in whole.items():
            weights[name].copy_(array.reshape(weights[name].shape))


def _family(theirs: Any) -> Family:
    kind = getattr(getattr(theirs, "config", None), "model_type", type(theirs).__name__)
    if kind not in FAMILIES:
        raise KindError(
            f"there is no counterpart of {kind!r} here; there is one of {', '.join(FAMILIES)}"
        )
    return FAMILIES[kind]


def _weights(theirs: Any) -> list[tuple[str, Tensor]]:
    named = [*theirs.named_parameters(remove_duplicate=False), *theirs.named_buffers()]
    return [(name, a.data) for name, a in named]


def _taken(theirs: Tensor, how: How) -> Tensor:
    """Ours from theirs."""
    if how == "same":
        return theirs
    turned = theirs.T if theirs.ndim == 2 else theirs
    return turned if how == "turned" else turned.chunk(how[1])[how[0]]


def _given(parts: dict[int, Tensor], how: How) -> Tensor:
    """Theirs from ours."""
    if how == "same":
        return parts[0]
    whole = torch.cat([parts[n] for n in sorted(parts)])
    return whole.T if whole.ndim == 2 else whole
