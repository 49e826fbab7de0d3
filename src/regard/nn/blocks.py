"""The layers that Transformers are stacked from, and the style that says how they are built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from regard._errors import ValueRangeError
from regard.nn import inputs
from regard.nn.attention import MultiHeadAttention
from regard.nn.cache import Cache, Memory
from regard.nn.positions import ALiBi, Learned, RelativeBias, Rotary, Sinusoidal
from regard.rules.masks import Mask


@dataclass(frozen=True)
class Style:
    """What Transformers of the last ten years differ in, beside their sizes."""

    order: Literal["pre", "post"] = "pre"
    """Whether a norm stands before each part, or after its sum (2017)."""
    norm: Callable[[int], nn.Module] = nn.LayerNorm
    """Makes the norm of a width."""
    activation: Callable[[Tensor], Tensor] = nn.functional.gelu
    gated: bool = False
    """Whether the feed-forward part has a gate (GLU)."""
    bias: bool = True
    """Whether linear layers have a bias."""
    query_bias: bool | None = None
    """Whether those of q, k and v have one; as the others unless given."""
    positions: Callable[[int], Sinusoidal | Learned] | None = None
    """Makes what is added to embeddings of a width."""
    rotary: Callable[[int], Rotary] | None = None
    """Makes what turns the queries and keys of heads of a width."""
    relative: Callable[[int], ALiBi | RelativeBias] | None = None
    """Makes what is added to the scores of so many heads; all layers of a stack share it."""
    query_norm: Callable[[int], nn.Module] | None = None
    """Makes the norm that the queries and keys of heads of a width go through."""
    scale: float | None = None
    """Of the scores: 1/√head_width unless given."""
    embedding_scale: Callable[[int], float] = lambda width: 1.0
    """What embeddings of a width are multiplied by."""
    segments: int = 0
    """How many kinds of segments have a vector that is added to embeddings (BERT)."""
    embedding_norm: bool = False
    """Whether embeddings go through a norm."""
    last_norm: bool | None = None
    """Whether a stack ends with a norm: it does in the order "pre" unless given."""
    tied: bool = True
    """Whether the output's matrix is the embedding."""
    output_scale: Callable[[int], float] = lambda width: 1.0
    """What the last vectors of a width are multiplied by before the output's matrix."""
    output_bias: bool = False
    """Whether each token has a number that is added to its logit (BART, Marian)."""


def root(width: int) -> float:
    """√width."""
    return float(width**0.5)


def inverse_root(width: int) -> float:
    """1/√width."""
    return float(width**-0.5)


ORIGINAL = Style(
    order="post", activation=nn.functional.relu, positions=Sinusoidal, embedding_scale=root
)
"""Vaswani et al. 2017."""
LLAMA = Style(
    norm=partial(nn.RMSNorm, eps=1e-6),
    activation=nn.functional.silu,
    gated=True,
    bias=False,
    rotary=Rotary,
    tied=False,
)
"""Touvron et al. 2023, as most language models are built since."""
T5 = Style(
    norm=partial(nn.RMSNorm, eps=1e-6),
    activation=nn.functional.relu,
    bias=False,
    relative=RelativeBias,
    scale=1.0,
    output_scale=inverse_root,
)
"""Raffel et al. 2020."""


class FeedForward(nn.Module):
    """Two linear layers and a bend between them, for each token alone; or three, with a gate.

    ::

        f(x W_1) W_2        gated:  ( f(x W_g) ∘ x W_1 ) W_2

    Source: Vaswani et al. 2017, section 3.3; gated: Shazeer 2020.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        *,
        activation: Callable[[Tensor], Tensor] = nn.functional.gelu,
        gated: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.up = nn.Linear(width, hidden, bias=bias)
        self.gate = nn.Linear(width, hidden, bias=bias) if gated else None
        self.down = nn.Linear(hidden, width, bias=bias)
        self.activation, self.dropout = activation, nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        """Torch's own numbers of linear layers."""
        for linear in (self.up, self.gate, self.down):
            if linear is not None:
                linear.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        """(…, C) → (…, C)."""
        hidden = self.up(x)
        if self.gate is None:
            hidden = self.activation(hidden)
        else:
            hidden = self.activation(self.gate(x)) * hidden
        out: Tensor = self.down(self.dropout(hidden))
        return out


class Sizes(NamedTuple):
    """The numbers of one layer."""

    width: int
    heads: int
    hidden: int
    key_heads: int | None = None
    head_width: int | None = None

    def attention(self, style: Style, mask: Mask | None, dropout: float) -> MultiHeadAttention:
        """Self-attention, or cross attention, of these sizes."""
        D = self.head_width or self.width // self.heads
        return MultiHeadAttention(
            self.width,
            self.heads,
            key_heads=self.key_heads,
            head_width=self.head_width,
            bias=style.bias if style.query_bias is None else style.query_bias,
            output_bias=style.bias,
            norm=style.query_norm,
            position=None if style.rotary is None else style.rotary(D),
            mask=mask,
            scale=style.scale,
            dropout=dropout,
        )

    def feed_forward(self, style: Style, dropout: float) -> FeedForward:
        """The feed-forward part of these sizes."""
        return FeedForward(
            self.width,
            self.hidden,
            activation=style.activation,
            gated=style.gated,
            bias=style.bias,
            dropout=dropout,
        )


class Residual(nn.Module):
    """What a layer's parts have in common: x + part(norm(x)), or norm(x + part(x))."""

    def __init__(self, style: Style, width: int, dropout: float) -> None:
        super().__init__()
        if style.order not in ("pre", "post"):
            raise ValueRangeError(f"order must be 'pre' or 'post', but it is {style.order!r}")
        self.order, self.norm, self.dropout = style.order, style.norm(width), nn.Dropout(dropout)

    def forward(self, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
        """The sum, normed where the style says."""
        if self.order == "pre":
            x = x + self.dropout(part(self.norm(x)))
            return x
        out: Tensor = self.norm(x + self.dropout(part(x)))
        return out


class Block(nn.Module):
    """Self-attention and a feed-forward part: what the layers of encoders and decoders share."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int | None = None,
        *,
        style: Style = Style(),
        mask: Mask | None = None,
        key_heads: int | None = None,
        head_width: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        inputs.kind("style", style, Style)
        sizes = Sizes(width, heads, hidden or 4 * width, key_heads, head_width)
        self.attention = sizes.attention(style, mask, dropout)
        self.attention_residual = Residual(style, width, dropout)
        self._between(sizes, style, dropout)
        self.feed_forward = sizes.feed_forward(style, dropout)
        self.feed_forward_residual = Residual(style, width, dropout)

    def _between(self, sizes: Sizes, style: Style, dropout: float) -> None:
        """Makes the parts that stand between these two, where a kind of block has some."""

    def _attended(
        self,
        x: Tensor,
        mask: Mask | None,
        bias: Any,
        positions: Tensor | None,
        cache: Cache | None,
    ) -> Tensor:
        """(B, T, C) after the self-attention."""
        out: Tensor = self.attention_residual(
            x,
            lambda x: self.attention(x, mask=mask, bias=bias, positions=positions, cache=cache),
        )
        return out

    def _fed(self, x: Tensor) -> Tensor:
        """(B, T, C) after the feed-forward part."""
        out: Tensor = self.feed_forward_residual(x, self.feed_forward)
        return out


class EncoderBlock(Block):
    """Self-attention, then a feed-forward part, each with a residual and a norm.

    Args:
        width, heads: C and H.
        hidden: of the feed-forward part, 4 C unless given.
        style: how it is built.
        mask: joined to every call's, such as ``causal()``: a language model's block is that.
        key_heads, head_width: as in ``MultiHeadAttention``.
        dropout: of weights, hidden numbers and each part's result, while training.

    Source: Vaswani et al. 2017, section 3.1; norms first: Xiong et al. 2020.

    >>> import torch
    >>> EncoderBlock(8, 2)(torch.zeros(1, 3, 8)).shape
    torch.Size([1, 3, 8])
    """

    def forward(
        self,
        x: Tensor,
        mask: Mask | None = None,
        *,
        bias: Any = None,
        positions: Tensor | None = None,
        cache: Cache | None = None,
    ) -> Tensor:
        """(B, T, C) → (B, T, C); arguments as in ``MultiHeadAttention``."""
        return self._fed(self._attended(x, mask, bias, positions, cache))


class DecoderBlock(Block):
    """Causal self-attention, cross attention to what an encoder read, and a feed-forward part.

    Args:
        as ``EncoderBlock``; ``mask`` is that of the self-attention.

    Source: Vaswani et al. 2017, section 3.1.

    >>> import torch
    >>> from regard import causal
    >>> block = DecoderBlock(8, 2, mask=causal())
    >>> block(torch.zeros(1, 3, 8), torch.zeros(1, 5, 8)).shape
    torch.Size([1, 3, 8])
    """

    def _between(self, sizes: Sizes, style: Style, dropout: float) -> None:
        self.cross = sizes.attention(replace(style, rotary=None), None, dropout)
        self.cross_residual = Residual(style, sizes.width, dropout)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        *,
        bias: Any = None,
        positions: Tensor | None = None,
        cache: tuple[Cache, Memory] | None = None,
    ) -> Tensor:
        """``x`` (B, T, C) and ``memory`` (B, S, C) → (B, T, C)."""
        past, seen = (None, None) if cache is None else cache
        x = self._attended(x, mask, bias, positions, past)
        x = self.cross_residual(x, lambda x: self.cross(x, memory, mask=memory_mask, cache=seen))
        return self._fed(x)
