"""Keras' layers and ours, both ways."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")

import regard

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")

from regard.nn import MultiHeadAttention, Rotary  # noqa: E402
from regard.nn.conversion.keras import from_keras, to_keras  # noqa: E402

# Keras' own variables do not know NumPy 2's __array__.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
B, T, S = 2, 4, 5


def numbers(*shape: int) -> Any:
    return torch.randn(*shape)


def shaken(layer: Any) -> Any:
    layer.set_weights([np.random.default_rng(0).normal(size=w.shape) for w in layer.get_weights()])
    return layer


def plain(x: Any) -> Any:
    return torch.as_tensor(keras.ops.convert_to_numpy(x))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("value_dim", [None, 6])
@pytest.mark.parametrize("widths", [(8, 8, 8), (8, 5, 7)])
@pytest.mark.parametrize("masked", [None, "causal", "array", "padding"])
def test_multi_head_attention(
    bias: bool, value_dim: int | None, widths: tuple[int, ...], masked: str | None
) -> None:
    theirs = keras.layers.MultiHeadAttention(3, 4, value_dim, use_bias=bias)
    q, k, v = (numbers(B, n, c) for n, c in zip((T, S, S), widths, strict=True))
    if masked == "causal":
        k, v = k[:, :T], v[:, :T]
    theirs(q, v, k)
    shaken(theirs)
    seen = torch.ones(B, T, S, dtype=torch.bool).tril()
    there = torch.arange(S) < torch.tensor([[5], [3]])
    options: dict[str, Any] = {
        None: {},
        "causal": {"use_causal_mask": True},
        "array": {"attention_mask": seen},
        "padding": {"value_mask": there},
    }[masked]
    mask = {
        None: None,
        "causal": regard.causal(),
        "array": regard.keep(seen[:, None]),
        "padding": regard.lengths([5, 3]),
    }[masked]
    want, weights = theirs(q, v, k, return_attention_scores=True, **options)
    ours = from_keras(theirs)
    assert isinstance(ours, MultiHeadAttention)
    torch.testing.assert_close(ours(q, k, v, mask), plain(want), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        ours.weights(q, k, mask).dense(), plain(weights), rtol=1e-4, atol=1e-6
    )
    again = to_keras(ours)
    for one, other in zip(again.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_grouped_heads() -> None:
    theirs = keras.layers.GroupQueryAttention(4, 6, 2)
    q, k = numbers(B, T, 8), numbers(B, S, 8)
    theirs(q, k)
    shaken(theirs)
    ours = from_keras(theirs)
    assert isinstance(ours, MultiHeadAttention)
    assert (ours.heads, ours.key_heads) == (6, 2)
    torch.testing.assert_close(ours(q, k), plain(theirs(q, k)), rtol=1e-4, atol=1e-5)
    again = to_keras(ours)
    for one, other in zip(again.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("use_scale", [True, False])
@pytest.mark.parametrize("mode", ["dot", "concat", "additive"])
def test_attention_without_projections(mode: str, use_scale: bool) -> None:
    kind = keras.layers.AdditiveAttention if mode == "additive" else keras.layers.Attention
    options = {} if mode == "additive" else {"score_mode": mode}
    theirs = kind(use_scale=use_scale, **options)
    q, k, v = numbers(B, T, 8), numbers(B, S, 8), numbers(B, S, 3)
    theirs([q, v, k])
    shaken(theirs)
    ours = from_keras(theirs, width=8)
    torch.testing.assert_close(ours(q, k, v), plain(theirs([q, v, k])), rtol=1e-4, atol=1e-5)
    there = torch.arange(S) < torch.tensor([[5], [3]])
    want = theirs([q, v, k], mask=[None, there])
    torch.testing.assert_close(
        ours(q, k, v, regard.lengths([5, 3])), plain(want), rtol=1e-4, atol=1e-5
    )


def test_what_one_of_them_has_not_is_refused() -> None:
    layers = keras.layers
    other = layers.MultiHeadAttention(2, 4, output_shape=5)
    axes = layers.MultiHeadAttention(2, 4, attention_axes=(1, 2))
    other(numbers(1, 3, 8), numbers(1, 3, 8))
    axes(numbers(1, 3, 3, 8), numbers(1, 3, 3, 8))
    dot = layers.Attention()
    dot([numbers(1, 3, 8), numbers(1, 3, 8)])
    dense = layers.Dense(3)
    dense(numbers(1, 3))
    for call, words in (
        (lambda: from_keras(layers.MultiHeadAttention(2, 4)), "is not built"),
        (lambda: from_keras(other), "output_shape is another"),
        (lambda: from_keras(axes), "attention_axes has no counterpart"),
        (lambda: from_keras(dot), "does not know its width"),
        (lambda: from_keras(dense), "no counterpart of Keras' Dense"),
        (lambda: to_keras(MultiHeadAttention(8, 2, position=Rotary(4))), "no position of its own"),
        (lambda: to_keras(MultiHeadAttention(8, 2, sink=True)), "no sink of its own"),
    ):
        with pytest.raises(regard.KindError, match=words):
            call()
