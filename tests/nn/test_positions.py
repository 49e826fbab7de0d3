"""Positions: each against its paper's formula, written out here in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard

torch = pytest.importorskip("torch")

from regard.nn import (  # noqa: E402
    ALiBi,
    Learned,
    LinearScaling,
    Llama3Scaling,
    MultiHeadAttention,
    NTKScaling,
    RelativeBias,
    Rotary,
    Sinusoidal,
    YaRNScaling,
)


@given(width=st.integers(1, 9), length=st.integers(0, 6), start=st.integers(0, 5000))
def test_sinusoidal_is_the_formula_for_odd_widths_too(width: int, length: int, start: int) -> None:
    want = np.zeros((length, width))
    for t in range(length):
        for c in range(width):
            angle = (start + t) / 10000 ** (2 * (c // 2) / width)
            want[t, c] = math.sin(angle) if c % 2 == 0 else math.cos(angle)
    x = torch.randn(2, length, width, dtype=torch.float64)
    found = Sinusoidal(width)(x, start=start)
    torch.testing.assert_close(found, x + torch.asarray(want), rtol=0, atol=1e-10)
    halves = Sinusoidal(width, pairing="halves")(torch.zeros_like(x), start=start)[0].numpy()
    parted = np.concatenate([want[:, 0::2], want[:, 1::2]], -1)
    np.testing.assert_allclose(halves, parted, atol=1e-10)


def test_a_shift_is_a_turn() -> None:
    """Vaswani et al.: p(t + k) is a linear function of p(t), whatever t is."""
    waves = Sinusoidal(6).waves(torch.arange(50))
    turn = torch.linalg.lstsq(waves[:40], waves[7:47]).solution
    torch.testing.assert_close(waves[:43] @ turn, waves[7:], rtol=0, atol=1e-9)


def by_hand(x: np.ndarray, base: float, neighbours: bool, positions: np.ndarray) -> np.ndarray:
    width, out = x.shape[-1], x.copy()
    for t, position in enumerate(positions):
        for i in range(width // 2):
            angle = position * base ** (-2 * i / width)
            one, other = (2 * i, 2 * i + 1) if neighbours else (i, i + width // 2)
            a, b = x[..., t, one], x[..., t, other]
            out[..., t, one] = a * math.cos(angle) - b * math.sin(angle)
            out[..., t, other] = a * math.sin(angle) + b * math.cos(angle)
    return out


@pytest.mark.parametrize("pairing", ["halves", "neighbours"])
def test_rotary_is_the_formula(pairing: Any) -> None:
    x, positions = torch.randn(2, 3, 5, 8, dtype=torch.float64), torch.tensor([0, 1, 4, 9, 700])
    rotary = Rotary(6, base=500.0, pairing=pairing)
    found = rotary(x, positions)
    want = by_hand(x[..., :6].numpy(), 500.0, pairing == "neighbours", positions.numpy())
    np.testing.assert_allclose(found[..., :6].numpy(), want, atol=1e-12)
    assert torch.equal(found[..., 6:], x[..., 6:])  # what is not turned stays
    each = rotary(x, torch.stack([positions, positions + 3]))
    assert torch.equal(each[0], found[0])
    torch.testing.assert_close(each[1], rotary(x, positions + 3)[1])


@given(shift=st.integers(-1000, 1000))
def test_rotary_products_know_the_distance_alone(shift: int) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 4, 8, dtype=torch.float64)
    rotary, at = Rotary(8), torch.arange(4)
    here, there = (rotary(q, p) @ rotary(k, p).mT for p in (at, at + shift))
    torch.testing.assert_close(here, there, rtol=0, atol=1e-9)


SCALINGS: dict[str, tuple[Any, dict[str, Any]]] = {
    "linear": (LinearScaling(4.0), {"factor": 4.0}),
    "yarn": (
        YaRNScaling(8.0, 256),
        {"factor": 8.0, "original_max_position_embeddings": 256},
    ),
    "llama3": (
        Llama3Scaling(8.0, 512),
        {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
    ),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_longer_texts_are_those_of_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    scaling, options = SCALINGS[name]
    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=1,
        max_position_embeddings=2048,
        rope_parameters={"rope_type": name, "rope_theta": 10000.0, **options},
    )
    theirs, factor = ROPE_INIT_FUNCTIONS[name](config, "cpu")
    angles, grows = Rotary(64, scaling=scaling).angles(torch.tensor([1]))
    torch.testing.assert_close(angles[0].float(), theirs.float(), rtol=1e-6, atol=0)
    assert grows == pytest.approx(factor, rel=1e-6)


def test_ntk_stretches_the_base() -> None:
    """θ_i = (base · s^(d / (d − 2)))^(−2 i / d), as NTK-aware scaling has it."""
    d, s = 8, 4.0
    stretched = 10000.0 * s ** (d / (d - 2))
    want = [stretched ** (-2 * i / d) for i in range(d // 2)]
    angles, _ = Rotary(d, scaling=NTKScaling(s)).angles(torch.tensor([1]))
    assert angles[0].tolist() == pytest.approx(want, rel=1e-12)


def test_learned_vectors_are_added_and_end_in_words() -> None:
    learned = Learned(6, 4, offset=2)
    x = torch.zeros(1, 3, 4)
    assert torch.equal(learned(x, start=3)[0], learned.weight[5:8])
    assert torch.equal(learned(x, torch.tensor([5, 0, 1]))[0], learned.weight[[7, 2, 3]])
    with pytest.raises(regard.ValueRangeError, match="vectors for 6 positions, but position 6"):
        learned(x, start=4)


def test_biases_of_scores_are_the_values_that_attend_takes() -> None:
    q = torch.randn(1, 4, 5, 8)
    alibi = MultiHeadAttention(32, 4, position=ALiBi(4))
    relative = MultiHeadAttention(32, 4, position=RelativeBias(4, buckets=8, max_distance=5))
    x = torch.randn(1, 5, 32)
    for module in (alibi, relative):
        assert module.position is not None
        score, plain = module.position(), MultiHeadAttention(32, 4)
        plain.load_state_dict(module.state_dict(), strict=False)
        torch.testing.assert_close(module(x), plain(x, bias=score))
    assert "position.weight" in relative.state_dict()
    relative(x).sum().backward()
    assert relative.position.weight.grad.abs().sum() > 0  # type: ignore[union-attr]
    assert regard.attend(q, q, q, bias=ALiBi(4)()).shape == q.shape


def test_what_cannot_be_says_why() -> None:
    for make, words in (
        (lambda: Rotary(5), "must be even"),
        (lambda: Sinusoidal(4)(torch.zeros(2, 5)), "must be 4 wide"),
        (lambda: Sinusoidal(0), "width must be 1 or more"),
        (lambda: RelativeBias(2, buckets=1), "at least 4 buckets"),
    ):
        with pytest.raises(regard.RegardError, match=words):
            make()
    for module in (Rotary(4, scaling=LinearScaling(2.0)), Sinusoidal(4), Learned(3, 4), ALiBi(2)):
        assert str(module)
