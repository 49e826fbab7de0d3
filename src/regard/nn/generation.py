"""Writing: a model's own tokens come back to it until the text ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import count
from regard.nn import inputs
from regard.nn.models import LanguageModel, Seq2Seq
from regard.rules.make import lengths
from regard.rules.masks import Mask


@dataclass(frozen=True)
class Greedy:
    """Always the likeliest token."""


@dataclass(frozen=True)
class Sample:
    """A token drawn by its probability.

    Source: top-k: Fan et al. 2018, section 5.4; top-p (nucleus): Holtzman et al. 2020, section 3.1.
    """

    temperature: float = 1.0
    """Logits are divided by it: below 1 the likely grow likelier."""
    top_k: int | None = None
    """Only so many of the likeliest."""
    top_p: float | None = None
    """Only the likeliest that together have this much."""

    def __post_init__(self) -> None:
        if self.temperature <= 0:
            raise ValueRangeError(f"temperature must be above 0, but it is {self.temperature}")
        if self.top_k is not None:
            count("top_k", self.top_k, 1)
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueRangeError(f"top_p must be above 0 and at most 1, but it is {self.top_p}")

    def left(self, logits: Tensor) -> Tensor:
        """The logits (B, V) with all that may not be drawn at −∞."""
        logits = logits / self.temperature
        if self.top_k is not None:
            least = logits.topk(min(self.top_k, logits.shape[-1])).values[..., -1:]
            logits = logits.masked_fill(logits < least, float("-inf"))
        if self.top_p is not None:
            ordered, order = logits.sort(descending=True)
            share = ordered.softmax(-1)
            enough = share.cumsum(-1) - share >= self.top_p  # what comes before has it
            out = torch.zeros_like(enough).scatter(-1, order, enough)
            logits = logits.masked_fill(out, float("-inf"))
        return logits


@dataclass(frozen=True)
class Beam:
    """The best of several texts that are written side by side.

    ::

        score = Σ ln p / ((5 + length) / 6)^length_penalty

    Source: Wu et al. 2016 (GNMT), section 7.
    """

    beams: int = 4
    length_penalty: float = 0.6

    def __post_init__(self) -> None:
        count("beams", self.beams, 1)

    def score(self, total: Tensor, length: int) -> Tensor:
        """Of texts of ``length`` new tokens whose ln p sum to ``total``."""
        penalty: float = ((5 + length) / 6) ** self.length_penalty
        return total / penalty


def generate(
    model: LanguageModel | Seq2Seq,
    ids: Tensor,
    *,
    new: int,
    how: Greedy | Sample | Beam = Greedy(),
    end: int | None = None,
    begin: int | None = None,
    padding: Any = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Up to ``new`` tokens that follow ``ids``, or that a ``Seq2Seq`` writes on having read them.

    Args:
        model: on evaluation: dropout is off meanwhile.
        ids: (B, T).
        new: at most so many tokens.
        how: ``Greedy()``, ``Sample(temperature, top_k, top_p)`` or ``Beam(beams, penalty)``.
        end: the token that ends a text; what follows it is filled with it.
        begin: the first token of what a ``Seq2Seq`` writes.
        padding: (B,) how many tokens of each text are padding: on the left, as texts are written
            on at their right; those of a ``Seq2Seq``'s source, on the right.
        generator: torch's, that ``Sample`` draws from.

    Returns:
        (B, new) or fewer, the new tokens alone.

    Raises:
        KindError: a ``Seq2Seq`` without ``begin``, or a ``LanguageModel`` with it.
    """
    count("new", new)
    inputs.kind("model", model, LanguageModel, Seq2Seq)
    inputs.kind("how", how, Greedy, Sample, Beam)
    inputs.tokens("ids", ids)
    if not ids.shape[1]:
        raise ShapeError("ids must hold at least one token of each text, but there are none")
    if isinstance(model, Seq2Seq) is (begin is None):
        raise KindError("begin is the first token that a Seq2Seq writes; a LanguageModel has none")
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            text = _Text(model, ids, begin, padding)
            if isinstance(how, Beam):
                return _beam(text, new, how, end)
            return _one_by_one(text, new, how, end, generator)
    finally:
        model.train(training)


class _Text:
    """A model, its cache, and what it has read: gives the logits of the next token."""

    def __init__(
        self, model: LanguageModel | Seq2Seq, ids: Tensor, begin: int | None, padding: Any
    ) -> None:
        self.model, self.batch = model, ids.shape[0]
        self.pad = None if padding is None else torch.as_tensor(padding, device=ids.device)
        self.cache: Any = model.cache()
        self.memory: Tensor | None = None
        self.read: Tensor | None = None
        self.next = ids
        if isinstance(model, Seq2Seq):
            if self.pad is not None:
                self.read, self.pad = ids.shape[1] - self.pad, None
            self.memory = model.encoder(ids, self._mask())
            self.next = ids.new_full((self.batch, 1), begin or 0)

    def _mask(self) -> Mask | None:
        return None if self.read is None else lengths(self.read)

    def logits(self) -> Tensor:
        """(B, V) of the token after those so far."""
        if isinstance(self.model, Seq2Seq):
            assert self.memory is not None
            out = self.model.decode(
                self.next, self.memory, source_mask=self._mask(), cache=self.cache
            )
        elif self.pad is None:
            out = self.model(self.next, cache=self.cache)
        else:
            start = self.cache[0].length
            stop = start + self.next.shape[1]
            at = torch.arange(start, stop, device=self.next.device) - self.pad[:, None]
            mask = lengths(stop, start=self.pad)
            out = self.model(self.next, mask, positions=at.clamp(min=0), cache=self.cache)
        last: Tensor = out[:, -1]
        return last

    def select(self, entries: Tensor) -> None:
        """Go on with these entries of the batch."""
        for held in self.cache:
            for one in held if isinstance(held, tuple) else (held,):
                one.select(entries)
        if self.pad is not None:
            self.pad = self.pad[entries]
        if self.read is not None:
            self.read = self.read[entries]
        if self.memory is not None:
            self.memory = self.memory[entries]

    def several(self, n: int) -> None:
        """Each entry n times, one after another."""
        every = torch.arange(self.batch, device=self.next.device).repeat_interleave(n)
        self.select(every)


def _one_by_one(
    text: _Text,
    new: int,
    how: Greedy | Sample,
    end: int | None,
    generator: torch.Generator | None,
) -> Tensor:
    pick: Callable[[Tensor], Tensor] = lambda logits: logits.argmax(-1)  # noqa: E731
    if isinstance(how, Sample):
        pick = lambda logits: torch.multinomial(  # noqa: E731
            how.left(logits.float()).softmax(-1), 1, generator=generator
        )[:, 0]
    ended = torch.zeros(text.batch, dtype=torch.bool, device=text.next.device)
    found: list[Tensor] = []
    while len(found) < new and not bool(ended.all()):
        token = pick(text.logits())
        if end is not None:
            token = torch.where(ended, end, token)
            ended |= token == end
        found.append(token)
        text.next = token[:, None]
    if not found:
        return text.next.new_empty((text.batch, 0))
    return torch.stack(found, 1)


def _beam(text: _Text, new: int, how: Beam, end: int | None) -> Tensor:
    """Every entry's ``beams`` best texts are kept; one that ends is set aside with its score."""
    B, n, device = text.batch, how.beams, text.next.device
    logp = text.logits().float().log_softmax(-1)
    text.several(n)
    V = logp.shape[-1]
    total = torch.full((B, n), float("-inf"), device=device)
    total[:, 0] = 0  # at first all beams are one
    logp = logp[:, None].expand(B, n, V)
    written = torch.zeros((B, n, 0), dtype=torch.int64, device=device)
    best: list[tuple[float, Tensor]] = [(float("-inf"), written[b, 0]) for b in range(B)]
    for step in range(1, new + 1):
        # Twice as many as beams: though half of them end, enough go on.
        sums, at = (total[..., None] + logp).flatten(1).topk(min(2 * n, n * V))
        beam, token = at // V, at % V
        ends = torch.zeros_like(token, dtype=torch.bool) if end is None else token == end
        scores = how.score(sums, step)
        for b, i in ends.nonzero().tolist():
            if i < n and (score := float(scores[b, i])) > best[b][0]:
                best[b] = (score, torch.cat([written[b, beam[b, i]], token[b, i : i + 1]]))
        going = sums.masked_fill(ends, float("-inf"))
        total, order = going.topk(n)
        beam, token = beam.gather(1, order), token.gather(1, order)
        written = torch.cat(
            [written.gather(1, beam[..., None].expand(B, n, step - 1)), token[..., None]], -1
        )
        if step == new or (end is not None and _settled(best, total, how, step, new)):
            break
        first = torch.arange(B, device=device)[:, None] * n
        text.select((first + beam).flatten())
        text.next = token.reshape(B * n, 1)
        logp = text.logits().float().log_softmax(-1).reshape(B, n, V)
    for b in range(B):
        length = written.shape[-1]
        score = float(how.score(total[b, 0], max(length, 1)))
        if score > best[b][0]:
            best[b] = (score, written[b, 0])
    return _padded([text for _, text in best], end)


def _settled(
    best: list[tuple[float, Tensor]], total: Tensor, how: Beam, step: int, new: int
) -> bool:
    """Whether no text that goes on can become better than the best that has ended."""
    # ln p only falls; a positive penalty divides it by more the longer a text is.
    length = new if how.length_penalty > 0 else step
    hope = how.score(total[:, 0], length)
    return all(score >= float(h) for (score, _), h in zip(best, hope, strict=True))


def _padded(texts: list[Tensor], end: int | None) -> Tensor:
    longest = max(len(text) for text in texts)
    fill = 0 if end is None else end
    return torch.stack(
        [torch.cat([text, text.new_full((longest - len(text),), fill)]) for text in texts]
    )
