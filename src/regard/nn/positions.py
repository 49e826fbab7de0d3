"""Where a token stands: added to its vector, turned into queries and keys, or added to scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from regard._errors import ShapeError, ValueRangeError
from regard._shapes import count
from regard.rules.scores import Score
from regard.rules.shape import alibi, t5_relative

Pairing = Literal["halves", "neighbours"]


def standing(positions: Tensor | None, start: Any, length: int, device: Any) -> Tensor:
    """(T,) or (…, T) the positions of ``length`` tokens: as given, or counted from ``start``."""
    if positions is not None:
        return positions
    first = torch.as_tensor(0 if start is None else start, device=device)
    return first[..., None] + torch.arange(length, device=device)


class Sinusoidal(nn.Module):
    """Waves of growing length, added to each token's vector.

    ::

        p[t, 2i] = sin(t / base^(2i / C)),    p[t, 2i + 1] = cos(t / base^(2i / C))

    Args:
        width: C; an odd one ends with a sine.
        base: of the longest wave.
        pairing: a sine and its cosine are ``"neighbours"``, as in the formula, or lie in two
            ``"halves"``, as in Marian and in the paper's own code.

    Shapes: forward takes x (…, T, C), and positions (T,) or (…, T) unless they count from
    ``start``, and returns x plus the waves.

    Source: Vaswani et al. 2017, section 3.5.

    >>> Sinusoidal(4)(torch.zeros(2, 4)).round(decimals=3).tolist()
    [[0.0, 1.0, 0.0, 1.0], [0.8410000205039978, 0.5400000214576721, 0.009999999776482582, 1.0]]
    """

    def __init__(
        self, width: int, *, base: float = 10000.0, pairing: Pairing = "neighbours"
    ) -> None:
        super().__init__()
        self.width, self.base, self.pairing = count("width", width, 1), base, pairing

    def waves(self, positions: Tensor) -> Tensor:
        """(…, T, C) in float64, for positions (…, T)."""
        C, sines = self.width, (self.width + 1) // 2
        powers = torch.arange(sines, device=positions.device, dtype=torch.float64) * 2 / C
        angle = positions.double()[..., None] * self.base**-powers
        sine, cosine = angle.sin(), angle.cos()[..., : C // 2]
        if self.pairing == "halves":
            return torch.cat([sine, cosine], -1)
        out = positions.new_empty((*positions.shape, C), dtype=torch.float64)
        out[..., 0::2], out[..., 1::2] = sine, cosine
        return out

    def forward(self, x: Tensor, positions: Tensor | None = None, start: Any = None) -> Tensor:
        """``x`` plus the waves of its positions."""
        if x.shape[-1] != self.width:
            raise ShapeError(f"x must be {self.width} wide, but its shape is {tuple(x.shape)}")
        at = standing(positions, start, x.shape[-2], x.device)
        return x + self.waves(at).to(x.dtype)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"{self.width}, base={self.base:g}, pairing={self.pairing!r}"


class Learned(nn.Module):
    """A learned vector for each position, added to the token's.

    ::

        x[t] + weight[t + offset]

    Args:
        length: how many positions there are.
        width: C.
        offset: BART counts from 2.

    Raises:
        ValueRangeError: in the call, a position that has no vector.

    Source: Gehring et al. 2017 (ConvS2S), section 3.1; Devlin et al. 2019 (BERT), section 3.
    """

    def __init__(self, length: int, width: int, *, offset: int = 0) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(length + offset, width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Small normal numbers."""
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor, positions: Tensor | None = None, start: Any = None) -> Tensor:
        """``x`` plus the vectors of its positions."""
        at = standing(positions, start, x.shape[-2], x.device)
        known = len(self.weight) - self.offset
        if at.numel() and not torch.compiler.is_compiling() and int(at.max()) >= known:
            raise ValueRangeError(
                f"there are vectors for {known} positions, but position {int(at.max())} came; "
                "make Learned(length, …) longer, or take Sinusoidal or Rotary, which have no end"
            )
        return x + self.weight[at + self.offset].to(x.dtype)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        length, width = self.weight.shape
        return f"{length - self.offset}, {width}, offset={self.offset}"


@dataclass(frozen=True)
class LinearScaling:
    """Positions divided by ``factor``.  Source: Chen et al. 2023, section 2.3."""

    factor: float

    def frequencies(self, plain: Tensor, base: float) -> tuple[Tensor, float]:
        """The angles a position turns by, and what q · k is multiplied by, √ each side."""
        return plain / self.factor, 1.0


@dataclass(frozen=True)
class NTKScaling:
    """A larger base, so that slow pairs stretch and fast ones stay.

    Source: bloc97 2023 ("NTK-aware scaled RoPE"); Peng et al. 2023 (YaRN), section 3.1.
    """

    factor: float

    def frequencies(self, plain: Tensor, base: float) -> tuple[Tensor, float]:
        """See :class:`LinearScaling`."""
        n = len(plain)
        share = torch.arange(n, dtype=plain.dtype, device=plain.device) / max(n - 1, 1)
        return plain * self.factor**-share, 1.0


@dataclass(frozen=True)
class YaRNScaling:
    """Fast pairs stay, slow ones stretch, those between in proportion; scores grow a little.

    Source: Peng et al. 2023 (YaRN), sections 3.2 and 3.4.
    """

    factor: float
    length: int
    """The positions that the model was trained on."""
    fast: float = 32.0
    """Pairs that turn more often than this in ``length`` stay."""
    slow: float = 1.0
    """Pairs that turn less often stretch whole."""

    def frequencies(self, plain: Tensor, base: float) -> tuple[Tensor, float]:
        """See :class:`LinearScaling`."""
        n = len(plain)

        def pair(turns: float) -> float:
            return n * math.log(self.length / (turns * 2 * math.pi)) / math.log(base)

        low, high = max(math.floor(pair(self.fast)), 0), min(math.ceil(pair(self.slow)), 2 * n - 1)
        at = torch.arange(n, dtype=plain.dtype, device=plain.device)
        stretch = ((at - low) / max(high - low, 0.001)).clamp(0, 1)
        grows = 0.1 * math.log(self.factor) + 1 if self.factor > 1 else 1.0
        return plain / self.factor * stretch + plain * (1 - stretch), grows


@dataclass(frozen=True)
class Llama3Scaling:
    """Waves longer than ``length / slow`` stretch, shorter than ``length / fast`` stay.

    Source: Llama team 2024 (Llama 3), section 3.4.2, in the form that its code has.
    """

    factor: float = 8.0
    length: int = 8192
    slow: float = 1.0
    fast: float = 4.0

    def frequencies(self, plain: Tensor, base: float) -> tuple[Tensor, float]:
        """See :class:`LinearScaling`."""
        turns = self.length * plain / (2 * math.pi)
        stay = ((turns - self.slow) / (self.fast - self.slow)).clamp(0, 1)
        return (1 - stay) * plain / self.factor + stay * plain, 1.0


Scaling = LinearScaling | NTKScaling | YaRNScaling | Llama3Scaling


class Rotary(nn.Module):
    """Pairs of numbers in queries and keys turned by an angle that grows with the position.

    ::

        (a, b) → (a cos tθ_i − b sin tθ_i,  a sin tθ_i + b cos tθ_i),    θ_i = base^(−2i / width)

    So q_i · k_j depends on i − j alone.

    Args:
        width: how many of a head's numbers are turned, an even number; the rest stay.
        base: of the slowest pair.
        pairing: numbers i and i + width/2 make a pair (``"halves"``: Llama, GPT-NeoX), or 2i and
            2i + 1 (``"neighbours"``: the paper, GPT-J).
        scaling: for texts longer than the model was trained on: ``LinearScaling``, ``NTKScaling``,
            ``YaRNScaling`` or ``Llama3Scaling``.

    Shapes: forward takes x (…, H, T, D) with D ≥ width and positions (T,) or (…, T).

    Raises:
        ValueRangeError: an odd width.

    Source: Su et al. 2021 (RoFormer), section 3.2.2.

    >>> rotary = Rotary(2)
    >>> rotary(torch.tensor([[[1.0, 0.0]]]), torch.tensor([0])).tolist()
    [[[1.0, 0.0]]]
    """

    def __init__(
        self,
        width: int,
        *,
        base: float = 10000.0,
        pairing: Pairing = "halves",
        scaling: Scaling | None = None,
    ) -> None:
        super().__init__()
        if count("width", width, 2) % 2:
            raise ValueRangeError(f"width must be even, as numbers are turned in pairs; {width}")
        self.width, self.base, self.pairing, self.scaling = width, base, pairing, scaling

    def angles(self, positions: Tensor) -> tuple[Tensor, float]:
        """(…, T, width / 2) in float64, and what each side is multiplied by."""
        i = torch.arange(0, self.width, 2, dtype=torch.float64, device=positions.device)
        plain = self.base ** (-i / self.width)
        turns, grows = plain, 1.0
        if self.scaling is not None:
            turns, grows = self.scaling.frequencies(plain, self.base)
        return positions.double()[..., None] * turns, grows

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        """``x`` turned."""
        if positions.shape[-1] != x.shape[-2]:
            raise ShapeError(
                f"positions must be one a token, (…, {x.shape[-2]}), but their shape is "
                f"{tuple(positions.shape)}"
            )
        angle, grows = self.angles(positions)
        if positions.ndim > 1:  # one row per batch entry: make room for the heads
            angle = angle[..., None, :, :]
        wide = torch.float64 if x.dtype == torch.float64 else torch.float32
        cos, sin = (angle.cos() * grows).to(wide), (angle.sin() * grows).to(wide)
        turned, rest = x[..., : self.width].to(wide), x[..., self.width :]
        if self.pairing == "halves":
            a, b = turned.chunk(2, -1)
            pairs = [a * cos - b * sin, a * sin + b * cos]
            out = torch.cat(pairs, -1)
        else:
            a, b = turned[..., 0::2], turned[..., 1::2]
            out = torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)
        return torch.cat([out.to(x.dtype), rest], -1)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        more = "" if self.scaling is None else f", scaling={self.scaling}"
        return f"{self.width}, base={self.base:g}, pairing={self.pairing!r}{more}"


class ALiBi(nn.Module):
    """Scores that fall with the distance, by the paper's slopes.

    ::

        score − m_h · |i − j|

    Source: Press et al. 2022, section 3.
    """

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = count("heads", heads, 1)

    def forward(self) -> Score:
        """The score, as ``attend`` takes it."""
        return alibi(self.heads)

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        return f"{self.heads}"


class RelativeBias(nn.Module):
    """T5's learned bias of the distance, in buckets.

    ::

        score + weight[bucket(j − i), h]

    Args:
        heads: H.
        buckets, max_distance, bidirectional: as in :func:`regard.t5_relative`.

    Source: Raffel et al. 2020 (T5), section 2.1.
    """

    def __init__(
        self,
        heads: int,
        *,
        buckets: int = 32,
        max_distance: int = 128,
        bidirectional: bool = True,
    ) -> None:
        super().__init__()
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()
        self()  # says now what does not fit

    def reset_parameters(self) -> None:
        """Small normal numbers."""
        nn.init.normal_(self.weight, std=0.02)

    def forward(self) -> Score:
        """The score, as ``attend`` takes it."""
        return t5_relative(
            self.weight, bidirectional=self.bidirectional, max_distance=self.max_distance
        )

    def extra_repr(self) -> str:
        """What ``print`` shows."""
        buckets, heads = self.weight.shape
        return f"{heads}, buckets={buckets}, max_distance={self.max_distance}"
