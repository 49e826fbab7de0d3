"""Reports of dropout that goes on in evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from cases import double

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn


class Layer(nn.Module):
    """Reads itself, with dropout as its author must spell it."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Any) -> Any:
        return regard.attend(x, x, x, dropout=self.rate if self.training else 0.0)


def test_peer_pytorch_99293_sdpa_drops_in_evaluation_too() -> None:
    # Still so in torch 2.13: its rate holds always, and unlike F.dropout it has no ``training``.
    class Dropping(nn.Module):
        def forward(self, x: Any) -> Any:
            return F.scaled_dot_product_attention(x, x, x, dropout_p=0.5)

    x = torch.randn(1, 1, 16, 4)
    layer = Dropping().eval()
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(F.dropout(x, 0.5, training=False), x)
    with pytest.raises(TypeError, match="training"):
        F.scaled_dot_product_attention(x, x, x, dropout_p=0.5, training=False)


def test_pytorch_99293_dropout_is_a_number_of_the_call_and_nothing_else(formula: Any) -> None:
    rng = np.random.default_rng(0)
    q, k = (torch.tensor(rng.normal(size=(2, 64, 8))) for _ in range(2))
    v = torch.eye(64, dtype=torch.float64).expand(2, 64, 64)  # the output is the weights
    w = formula(q, k, v).weights
    state = torch.random.get_rng_state()
    plain = regard.attend(q, k, v)
    np.testing.assert_allclose(double(plain), w, atol=1e-12)
    dropped = [
        regard.attend(q, k, v, dropout=0.75, generator=torch.Generator().manual_seed(s))
        for s in (1, 1, 2)
    ]
    assert torch.equal(dropped[0], dropped[1])
    assert not torch.equal(dropped[0], dropped[2])
    ratio = double(dropped[0]) / w
    kept = ratio > 0
    np.testing.assert_allclose(ratio[kept], 4.0, rtol=1e-9)  # 1 / (1 − 0.75)
    assert abs(kept.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / kept.size)
    # The seed came from the generator that was given: torch's own state has not moved.
    assert torch.equal(state, torch.random.get_rng_state())


def test_peer_pytorch_image_models_1978_its_attention_drops_in_training_only() -> None:
    # Mended: each of its models now asks whether it is being trained.
    attention = pytest.importorskip("timm.layers.attention", exc_type=ImportError)
    layer, x = attention.Attention(8, num_heads=2, attn_drop=0.5).eval(), torch.randn(1, 6, 8)
    assert layer.fused_attn
    assert torch.equal(layer(x), layer(x))
    layer.train()
    assert not torch.equal(layer(x), layer(x))


def test_pytorch_image_models_1978_a_layer_in_evaluation_gives_the_formula(formula: Any) -> None:
    x = torch.tensor(np.random.default_rng(0).normal(size=(2, 6, 8)))
    layer = Layer(0.5)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    truth = formula(x, x, x).output
    for _ in range(2):
        np.testing.assert_allclose(double(layer(x)), truth, atol=1e-12)
