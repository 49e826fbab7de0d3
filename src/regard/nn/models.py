"""Whole Transformers: an encoder, a decoder, both together, and a language model."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from regard._errors import ValueRangeError
from regard._shapes import count
from regard.nn import inputs
from regard.nn.blocks import ORIGINAL, DecoderBlock, EncoderBlock, Style
from regard.nn.cache import Cache, Memory, StaticCache
from regard.rules.make import causal
from regard.rules.masks import Mask


class Stack(nn.Module):
    """Embeddings, blocks, and a last norm: what encoders and decoders share.

    Args:
        vocabulary: how many tokens there are.
        width, heads, layers, hidden: the sizes; hidden is 4 · width unless given.
        style: how it is built.
        mask: of every layer's self-attention, such as ``window(before=64, after=64)``.
        key_heads, head_width, dropout: as in ``EncoderBlock``.
        tokens: an embedding to share with another stack.
    """

    kind: ClassVar[type[EncoderBlock] | type[DecoderBlock]]
    """What it is stacked from."""
    always: ClassVar[Mask | None] = None
    """Joined to the mask of every self-attention."""

    def __init__(
        self,
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 6,
        hidden: int | None = None,
        *,
        style: Style = Style(),  # noqa: B008 - it is frozen
        mask: Mask | None = None,
        key_heads: int | None = None,
        head_width: int | None = None,
        dropout: float = 0.0,
        tokens: nn.Embedding | None = None,
    ) -> None:
        super().__init__()
        for name, size in (("vocabulary", vocabulary), ("layers", layers)):
            count(name, size, 1)
        inputs.kind("style", style, Style)
        if self.always is not None:
            mask = self.always if mask is None else self.always & mask
        blocks = [
            self.kind(
                width,
                heads,
                hidden,
                style=style,
                mask=mask,
                key_heads=key_heads,
                head_width=head_width,
                dropout=dropout,
            )
            for _ in range(layers)
        ]
        self.tokens = tokens or nn.Embedding(vocabulary, width)
        if tokens is None:
            nn.init.normal_(self.tokens.weight, std=width**-0.5)
        self.positions = None if style.positions is None else style.positions(width)
        self.segments = nn.Embedding(style.segments, width) if style.segments else None
        self.embedding_norm = style.norm(width) if style.embedding_norm else nn.Identity()
        self.relative = None if style.relative is None else style.relative(heads)
        self.blocks = nn.ModuleList(blocks)
        ends = style.order == "pre" if style.last_norm is None else style.last_norm
        self.norm = style.norm(width) if ends else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.scale = style.embedding_scale(width)

    def embed(
        self, ids: Tensor, positions: Tensor | None, start: int, segments: Tensor | None = None
    ) -> Tensor:
        """(B, T) → (B, T, C)."""
        inputs.tokens("ids", ids)
        x: Tensor = self.tokens(ids)
        if self.scale != 1:
            x = x * torch.tensor(self.scale, dtype=x.dtype)
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids) if segments is None else segments)
        if self.positions is not None:
            x = self.positions(x, positions, start)
        out: Tensor = self.dropout(self.embedding_norm(x))
        return out

    def bias(self) -> Any:
        """What is added to the scores of every layer."""
        return None if self.relative is None else self.relative()


class Encoder(Stack):
    """Reads a whole text: each token's vector, knowing all the others.

    Arguments as ``Stack``.

    Shapes: ids (B, T) → (B, T, C); ``mask=lengths(n)`` where texts are padded.

    Source: Vaswani et al. 2017, section 3.1; Devlin et al. 2019 (BERT).
    """

    kind = EncoderBlock

    def forward(
        self,
        ids: Tensor,
        mask: Mask | None = None,
        *,
        positions: Tensor | None = None,
        cache: list[Cache] | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """The last vectors; ``segments`` (B, T) are the kinds of segments, 0 unless given."""
        start = 0 if cache is None else cache[0].length
        x, bias = self.embed(ids, positions, start, segments), self.bias()
        for i, block in enumerate(self.blocks):
            past = None if cache is None else cache[i]
            x = block(x, mask, bias=bias, positions=positions, cache=past)
        out: Tensor = self.norm(x)
        return out


class Decoder(Stack):
    """Writes a text, token by token, with an eye on another that an encoder has read.

    Arguments as ``Stack``; the self-attention is causal.

    Source: Vaswani et al. 2017, section 3.1.
    """

    kind = DecoderBlock
    always = causal()

    def forward(
        self,
        ids: Tensor,
        memory: Tensor,
        mask: Mask | None = None,
        memory_mask: Mask | None = None,
        *,
        positions: Tensor | None = None,
        cache: list[tuple[Cache, Memory]] | None = None,
    ) -> Tensor:
        """The last vectors, from ids (B, T) and what was read, (B, S, C)."""
        start = 0 if cache is None else cache[0][0].length
        x, bias = self.embed(ids, positions, start), self.bias()
        for i, block in enumerate(self.blocks):
            past = None if cache is None else cache[i]
            x = block(x, memory, mask, memory_mask, bias=bias, positions=positions, cache=past)
        out: Tensor = self.norm(x)
        return out


class Output(nn.Module):
    """Vectors to logits: the embedding again where it is tied, else a matrix of its own."""

    def __init__(self, tokens: nn.Embedding, style: Style) -> None:
        super().__init__()
        vocabulary, width = tokens.weight.shape
        self.linear = nn.Linear(width, vocabulary, bias=style.output_bias)
        if style.tied:
            self.linear.weight = tokens.weight
        else:
            nn.init.normal_(self.linear.weight, std=width**-0.5)
        self.scale = style.output_scale(width)

    def forward(self, x: Tensor) -> Tensor:
        """(…, C) → (…, vocabulary)."""
        logits: Tensor = self.linear(x if self.scale == 1 else x * self.scale)
        return logits


class LanguageModel(nn.Module):
    """Says for each place of a text how likely each token is to come next.

    Arguments as ``Stack``; its blocks are causal.

    Shapes: ids (B, T) → logits (B, T, vocabulary).

    Source: Radford et al. 2018 (GPT); Touvron et al. 2023 (``style=LLAMA``).

    >>> import torch
    >>> model = LanguageModel(100, 16, 2, 1)
    >>> model(torch.zeros(1, 5, dtype=torch.int64)).shape
    torch.Size([1, 5, 100])
    """

    def __init__(
        self,
        vocabulary: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 6,
        hidden: int | None = None,
        *,
        style: Style = Style(),  # noqa: B008 - it is frozen
        mask: Mask | None = None,
        key_heads: int | None = None,
        head_width: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.stack = Encoder(
            vocabulary,
            width,
            heads,
            layers,
            hidden,
            style=style,
            mask=causal() if mask is None else causal() & mask,
            key_heads=key_heads,
            head_width=head_width,
            dropout=dropout,
        )
        self.output = Output(self.stack.tokens, style)

    def cache(self, slots: int | None = None) -> list[Cache]:
        """An empty cache for each layer: one that grows, or one of ``slots`` places."""
        return [Cache() if slots is None else StaticCache(slots) for _ in self.stack.blocks]

    def forward(
        self,
        ids: Tensor,
        mask: Mask | None = None,
        *,
        positions: Tensor | None = None,
        cache: list[Cache] | None = None,
    ) -> Tensor:
        """The logits."""
        logits: Tensor = self.output(self.stack(ids, mask, positions=positions, cache=cache))
        return logits


class Seq2Seq(nn.Module):
    """An encoder and a decoder: the Transformer of 2017, as it stands, unless told otherwise.

    Args:
        source, target: how many tokens the two languages have; one number and ``shared=True`` for
            one vocabulary, whose embedding both use.
        width, heads, layers, hidden: the sizes, of both.
        style: how it is built; ``ORIGINAL`` is the paper's.
        dropout: while training.

    Shapes: source ids (B, S) and target ids (B, T) → logits (B, T, target).

    Source: Vaswani et al. 2017.

    >>> import torch
    >>> model = Seq2Seq(20, 30, width=16, heads=2, layers=1)
    >>> model(torch.zeros(1, 4, dtype=torch.int64), torch.zeros(1, 3, dtype=torch.int64)).shape
    torch.Size([1, 3, 30])
    """

    def __init__(
        self,
        source: int,
        target: int,
        width: int = 512,
        heads: int = 8,
        layers: int = 6,
        hidden: int | None = None,
        *,
        style: Style = ORIGINAL,
        decoder_style: Style | None = None,
        shared: bool = False,
        key_heads: int | None = None,
        head_width: int | None = None,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if shared and source != target:
            raise ValueRangeError(
                f"shared=True needs one vocabulary, but source is {source} and target is {target}"
            )
        sizes = (width, heads, layers, hidden)
        more: Any = {"key_heads": key_heads, "head_width": head_width, "dropout": dropout}
        self.encoder = Encoder(source, *sizes, style=style, **more)
        tokens = self.encoder.tokens if shared else None
        writes = style if decoder_style is None else decoder_style
        self.decoder = Decoder(target, *sizes, style=writes, tokens=tokens, **more)
        self.output = Output(self.decoder.tokens, writes)

    def cache(self, slots: int | None = None) -> list[tuple[Cache, Memory]]:
        """An empty cache for each layer of the decoder."""
        made = [Cache() if slots is None else StaticCache(slots) for _ in self.decoder.blocks]
        return [(cache, Memory()) for cache in made]

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        source_mask: Mask | None = None,
        target_mask: Mask | None = None,
    ) -> Tensor:
        """The logits; ``source_mask=lengths(n)`` where sources are padded."""
        memory = self.encoder(source, source_mask)
        return self.decode(target, memory, target_mask, source_mask)

    def decode(
        self,
        target: Tensor,
        memory: Tensor,
        target_mask: Mask | None = None,
        source_mask: Mask | None = None,
        *,
        cache: list[tuple[Cache, Memory]] | None = None,
    ) -> Tensor:
        """The logits, from what ``encoder`` has read."""
        x = self.decoder(target, memory, target_mask, source_mask, cache=cache)
        logits: Tensor = self.output(x)
        return logits
