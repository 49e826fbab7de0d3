"""Attention as torch modules: mechanisms, positions, blocks, whole Transformers, conversion."""

from __future__ import annotations

from regard._errors import MissingError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:  # pragma: no cover - tested in a process of its own
    raise MissingError("regard.nn needs torch: pip install 'regard[torch]'") from error

from regard.nn.attention import MultiHeadAttention, ScaledDotProductAttention
from regard.nn.blocks import (
    LLAMA,
    ORIGINAL,
    T5,
    DecoderBlock,
    EncoderBlock,
    FeedForward,
    Style,
)
from regard.nn.cache import Cache, Memory, StaticCache
from regard.nn.conversion.keras import from_keras, to_keras
from regard.nn.conversion.multihead import from_multihead, replace, to_multihead
from regard.nn.conversion.transformers import from_transformers, to_transformers
from regard.nn.generation import Beam, Greedy, Sample, generate
from regard.nn.linear import LinearAttention
from regard.nn.models import Decoder, Encoder, LanguageModel, Seq2Seq
from regard.nn.positions import (
    ALiBi,
    Learned,
    LinearScaling,
    Llama3Scaling,
    NTKScaling,
    RelativeBias,
    Rotary,
    Sinusoidal,
    YaRNScaling,
)
from regard.nn.scored import (
    AdditiveAttention,
    HardAttention,
    LocalAttention,
    MultiplicativeAttention,
    TopKAttention,
)

__all__ = [
    "LLAMA",
    "ORIGINAL",
    "T5",
    "ALiBi",
    "AdditiveAttention",
    "Beam",
    "Cache",
    "Decoder",
    "DecoderBlock",
    "Encoder",
    "EncoderBlock",
    "FeedForward",
    "Greedy",
    "HardAttention",
    "LanguageModel",
    "Learned",
    "LinearAttention",
    "LinearScaling",
    "Llama3Scaling",
    "LocalAttention",
    "Memory",
    "MultiHeadAttention",
    "MultiplicativeAttention",
    "NTKScaling",
    "RelativeBias",
    "Rotary",
    "Sample",
    "ScaledDotProductAttention",
    "Seq2Seq",
    "Sinusoidal",
    "StaticCache",
    "Style",
    "TopKAttention",
    "YaRNScaling",
    "from_keras",
    "from_multihead",
    "from_transformers",
    "generate",
    "replace",
    "to_keras",
    "to_multihead",
    "to_transformers",
]
