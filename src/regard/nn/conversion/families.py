"""How models of transformers are built, and what their weights are called there and here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

from torch import nn

from regard._errors import KindError
from regard.nn.blocks import LLAMA, T5, Style, inverse_root, root
from regard.nn.models import Encoder, LanguageModel, Seq2Seq
from regard.nn.positions import (
    Learned,
    LinearScaling,
    Llama3Scaling,
    RelativeBias,
    Rotary,
    Scaling,
    Sinusoidal,
    YaRNScaling,
)
from regard.rules.make import window

Model: TypeAlias = Encoder | LanguageModel | Seq2Seq
How: TypeAlias = Literal["same", "turned"] | tuple[int, int]
"""The same array, its transpose, or part i of n of a fused and transposed one."""
Name: TypeAlias = tuple[str, str, How]
"""Ours, theirs, and how one is made of the other."""

ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": nn.functional.gelu,
    "gelu_new": partial(nn.functional.gelu, approximate="tanh"),
    "gelu_pytorch_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "relu": nn.functional.relu,
    "silu": nn.functional.silu,
    "swish": nn.functional.silu,
}


@dataclass(frozen=True)
class Family:
    """One kind of model."""

    build: Callable[[Any], Model]
    """Ours, with weights of no meaning, from their config."""
    names: Callable[[Any], Iterator[Name]]
    """Every weight."""


def activation(name: str) -> Callable[[Any], Any]:
    """The bend of that name."""
    if name not in ACTIVATIONS:
        raise KindError(f"hidden_act={name!r} has no counterpart here; there are {[*ACTIVATIONS]}")
    return ACTIVATIONS[name]


def linear(ours: str, theirs: str, bias: bool = True) -> Iterator[Name]:
    """A linear layer, or a norm."""
    yield f"{ours}.weight", f"{theirs}.weight", "same"
    if bias:
        yield f"{ours}.bias", f"{theirs}.bias", "same"


def rotary(config: Any) -> Callable[[int], Rotary]:
    """What turns the heads of a config."""
    said = dict(config.rope_parameters or {})
    kind, base = said.get("rope_type", "default"), said.get("rope_theta", 10000.0)
    if said.get("partial_rotary_factor", 1.0) != 1.0:
        raise KindError("heads that are turned in part have no counterpart here")
    scaling: Scaling | None = None
    if kind == "linear":
        scaling = LinearScaling(said["factor"])
    elif kind == "yarn":
        scaling = YaRNScaling(said["factor"], said["original_max_position_embeddings"])
    elif kind == "llama3":
        scaling = Llama3Scaling(
            said["factor"],
            said["original_max_position_embeddings"],
            said["low_freq_factor"],
            said["high_freq_factor"],
        )
    elif kind != "default":
        raise KindError(f"rope_type={kind!r} has no counterpart here")
    return partial(Rotary, base=base, scaling=scaling)


def build_llama(config: Any) -> LanguageModel:
    """Llama, Mistral, Qwen 2 and SmolLM."""
    qwen = config.model_type == "qwen2"
    biased = bool(getattr(config, "attention_bias", False))
    style = Style(
        **{
            **vars(LLAMA),
            "norm": partial(nn.RMSNorm, eps=config.rms_norm_eps),
            "activation": activation(config.hidden_act),
            "query_bias": qwen or biased,
            "rotary": rotary(config),
            "tied": config.tie_word_embeddings,
        }
    )
    if getattr(config, "mlp_bias", False) or biased:
        raise KindError("a Llama with biases in its output or MLP has no counterpart here")
    near = getattr(config, "sliding_window", None)
    if qwen and not config.use_sliding_window:
        near = None
    return LanguageModel(
        config.vocab_size,
        config.hidden_size,
        config.num_attention_heads,
        config.num_hidden_layers,
        config.intermediate_size,
        style=style,
        mask=None if near is None else window(near),
        key_heads=config.num_key_value_heads,
        head_width=getattr(config, "head_dim", None),
    )


def names_llama(config: Any) -> Iterator[Name]:
    """See :func:`build_llama`."""
    yield "stack.tokens.weight", "model.embed_tokens.weight", "same"
    for i in range(config.num_hidden_layers):
        ours, theirs = f"stack.blocks.{i}", f"model.layers.{i}"
        yield from linear(f"{ours}.attention_residual.norm", f"{theirs}.input_layernorm", False)
        for one, other in (("query", "q"), ("key", "k"), ("value", "v")):
            yield from linear(
                f"{ours}.attention.{one}",
                f"{theirs}.self_attn.{other}_proj",
                config.model_type == "qwen2",
            )
        yield from linear(f"{ours}.attention.output", f"{theirs}.self_attn.o_proj", False)
        yield from linear(
            f"{ours}.feed_forward_residual.norm", f"{theirs}.post_attention_layernorm", False
        )
        for part in ("gate", "up", "down"):
            yield from linear(f"{ours}.feed_forward.{part}", f"{theirs}.mlp.{part}_proj", False)
    yield from linear("stack.norm", "model.norm", False)
    yield "output.linear.weight", "lm_head.weight", "same"


def build_gpt2(config: Any) -> LanguageModel:
    """GPT-2."""
    if config.scale_attn_by_inverse_layer_idx or not config.scale_attn_weights:
        raise KindError("a GPT-2 with other scales than 1/√D has no counterpart here")
    style = Style(
        norm=partial(nn.LayerNorm, eps=config.layer_norm_epsilon),
        activation=activation(config.activation_function),
        positions=partial(Learned, config.n_positions),
        tied=config.tie_word_embeddings,
    )
    sizes = (config.n_embd, config.n_head, config.n_layer, config.n_inner or 4 * config.n_embd)
    return LanguageModel(config.vocab_size, *sizes, style=style)


def names_gpt2(config: Any) -> Iterator[Name]:
    """See :func:`build_gpt2`."""
    yield "stack.tokens.weight", "transformer.wte.weight", "same"
    yield "stack.positions.weight", "transformer.wpe.weight", "same"
    for i in range(config.n_layer):
        ours, theirs = f"stack.blocks.{i}", f"transformer.h.{i}"
        yield from linear(f"{ours}.attention_residual.norm", f"{theirs}.ln_1")
        for n, part in enumerate(("query", "key", "value")):
            yield f"{ours}.attention.{part}.weight", f"{theirs}.attn.c_attn.weight", (n, 3)
            yield f"{ours}.attention.{part}.bias", f"{theirs}.attn.c_attn.bias", (n, 3)
        for one, other in (
            ("attention.output", "attn.c_proj"),
            ("feed_forward.up", "mlp.c_fc"),
            ("feed_forward.down", "mlp.c_proj"),
        ):
            yield f"{ours}.{one}.weight", f"{theirs}.{other}.weight", "turned"
            yield f"{ours}.{one}.bias", f"{theirs}.{other}.bias", "same"
        yield from linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.ln_2")
    yield from linear("stack.norm", "transformer.ln_f")
    yield "output.linear.weight", "lm_head.weight", "same"


def build_bert(config: Any) -> Encoder:
    """BERT and MiniLM, without what is made of the first token (the pooler)."""
    style = Style(
        order="post",
        norm=partial(nn.LayerNorm, eps=config.layer_norm_eps),
        activation=activation(config.hidden_act),
        positions=partial(Learned, config.max_position_embeddings),
        segments=config.type_vocab_size,
        embedding_norm=True,
    )
    return Encoder(
        config.vocab_size,
        config.hidden_size,
        config.num_attention_heads,
        config.num_hidden_layers,
        config.intermediate_size,
        style=style,
    )


def names_bert(config: Any) -> Iterator[Name]:
    """See :func:`build_bert`."""
    for one, other in (("tokens", "word"), ("positions", "position"), ("segments", "token_type")):
        yield f"{one}.weight", f"embeddings.{other}_embeddings.weight", "same"
    yield from linear("embedding_norm", "embeddings.LayerNorm")
    for i in range(config.num_hidden_layers):
        ours, theirs = f"blocks.{i}", f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            yield from linear(f"{ours}.attention.{part}", f"{theirs}.attention.self.{part}")
        yield from linear(f"{ours}.attention.output", f"{theirs}.attention.output.dense")
        norm = f"{theirs}.attention.output.LayerNorm"
        yield from linear(f"{ours}.attention_residual.norm", norm)
        yield from linear(f"{ours}.feed_forward.up", f"{theirs}.intermediate.dense")
        yield from linear(f"{ours}.feed_forward.down", f"{theirs}.output.dense")
        yield from linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.output.LayerNorm")


def build_t5(config: Any) -> Seq2Seq:
    """T5, and its gated kinds (1.1, Flan)."""
    gated = config.is_gated_act
    far = config.relative_attention_max_distance
    bias = partial(RelativeBias, buckets=config.relative_attention_num_buckets, max_distance=far)
    style = Style(
        **{
            **vars(T5),
            "norm": partial(nn.RMSNorm, eps=config.layer_norm_epsilon),
            "activation": activation(config.dense_act_fn),
            "gated": gated,
            "relative": bias,
            "tied": config.tie_word_embeddings,
            "output_scale": inverse_root if config.scale_decoder_outputs else float_one,
        }
    )
    if config.num_layers != config.num_decoder_layers:
        raise KindError("a T5 whose two stacks differ in depth has no counterpart here")
    return Seq2Seq(
        config.vocab_size,
        config.vocab_size,
        config.d_model,
        config.num_heads,
        config.num_layers,
        config.d_ff,
        style=style,
        decoder_style=Style(**{**vars(style), "relative": partial(bias, bidirectional=False)}),
        shared=True,
        head_width=config.d_kv,
        dropout=config.dropout_rate,
    )


def float_one(width: int) -> float:
    """No scale."""
    return 1.0


def names_t5(config: Any) -> Iterator[Name]:
    """See :func:`build_t5`."""
    yield "encoder.tokens.weight", "shared.weight", "same"
    ups = (("gate", "wi_0"), ("up", "wi_1")) if config.is_gated_act else (("up", "wi"),)
    for stack, parts in (
        ("encoder", ("SelfAttention", "DenseReluDense")),
        ("decoder", ("SelfAttention", "EncDecAttention", "DenseReluDense")),
    ):
        bias = f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        yield f"{stack}.relative.weight", bias, "same"
        for i in range(config.num_layers):
            for n, part in enumerate(parts):
                theirs = f"{stack}.block.{i}.layer.{n}"
                name = {"SelfAttention": "attention", "EncDecAttention": "cross"}.get(
                    part, "feed_forward"
                )
                ours = f"{stack}.blocks.{i}.{name}"
                yield f"{ours}_residual.norm.weight", f"{theirs}.layer_norm.weight", "same"
                pairs: tuple[tuple[str, str], ...] = (*ups, ("down", "wo"))
                if name != "feed_forward":
                    pairs = (("query", "q"), ("key", "k"), ("value", "v"), ("output", "o"))
                for one, other in pairs:
                    yield f"{ours}.{one}.weight", f"{theirs}.{part}.{other}.weight", "same"
        yield f"{stack}.norm.weight", f"{stack}.final_layer_norm.weight", "same"
    yield "output.linear.weight", "lm_head.weight", "same"


def build_bart(config: Any) -> Seq2Seq:
    """BART and Marian."""
    marian = config.model_type == "marian"
    if config.encoder_layers != config.decoder_layers:
        raise KindError("a BART whose two stacks differ in depth has no counterpart here")
    style = Style(
        order="post",
        activation=activation(config.activation_function),
        positions=(
            partial(Sinusoidal, pairing="halves")
            if marian
            else partial(Learned, config.max_position_embeddings, offset=2)
        ),
        embedding_scale=root if config.scale_embedding else float_one,
        embedding_norm=not marian,
        output_bias=True,
        tied=config.tie_word_embeddings,
    )
    sizes = (
        config.d_model,
        config.encoder_attention_heads,
        config.encoder_layers,
        config.encoder_ffn_dim,
    )
    vocabularies = (config.vocab_size, config.vocab_size)
    return Seq2Seq(*vocabularies, *sizes, style=style, shared=True, dropout=config.dropout)


def names_bart(config: Any) -> Iterator[Name]:
    """See :func:`build_bart`."""
    yield "encoder.tokens.weight", "model.shared.weight", "same"
    for stack in ("encoder", "decoder"):
        if config.model_type != "marian":
            theirs = f"model.{stack}.embed_positions.weight"
            yield f"{stack}.positions.weight", theirs, "same"
            yield from linear(f"{stack}.embedding_norm", f"model.{stack}.layernorm_embedding")
        for i in range(config.encoder_layers):
            ours, theirs = f"{stack}.blocks.{i}", f"model.{stack}.layers.{i}"
            kinds = [("attention", "self_attn")]
            kinds += [("cross", "encoder_attn")] if stack == "decoder" else []
            for one, other in kinds:
                for part, short in (("query", "q"), ("key", "k"), ("value", "v")):
                    yield from linear(f"{ours}.{one}.{part}", f"{theirs}.{other}.{short}_proj")
                yield from linear(f"{ours}.{one}.output", f"{theirs}.{other}.out_proj")
                yield from linear(f"{ours}.{one}_residual.norm", f"{theirs}.{other}_layer_norm")
            yield from linear(f"{ours}.feed_forward.up", f"{theirs}.fc1")
            yield from linear(f"{ours}.feed_forward.down", f"{theirs}.fc2")
            yield from linear(f"{ours}.feed_forward_residual.norm", f"{theirs}.final_layer_norm")
    yield "output.linear.weight", "lm_head.weight", "same"
    yield "output.linear.bias", "final_logits_bias", "same"


FAMILIES: dict[str, Family] = {
    "llama": Family(build_llama, names_llama),
    "mistral": Family(build_llama, names_llama),
    "qwen2": Family(build_llama, names_llama),
    "gpt2": Family(build_gpt2, names_gpt2),
    "bert": Family(build_bert, names_bert),
    "t5": Family(build_t5, names_t5),
    "bart": Family(build_bart, names_bart),
    "marian": Family(build_bart, names_bart),
}
