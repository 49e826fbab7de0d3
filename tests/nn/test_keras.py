"""Keras' layers and ours, both ways."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "torch")

import regard

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")

from regard.nn import (  # noqa: E402
    AdditiveAttention,
    HardAttention,
    LocalAttention,
    MultiHeadAttention,
    MultiplicativeAttention,
    Rotary,
)
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


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("masked", [None, "causal", "array", "padding"])
def test_grouped_heads(bias: bool, masked: str | None) -> None:
    theirs = keras.layers.GroupQueryAttention(4, 6, 2, use_bias=bias, dropout=0.3)
    q, k = numbers(B, T, 8), numbers(B, T if masked == "causal" else S, 8)
    theirs(q, k)
    shaken(theirs)
    ours = from_keras(theirs).eval()
    assert isinstance(ours, MultiHeadAttention)
    assert (ours.heads, ours.key_heads, ours.dropout) == (6, 2, 0.3)
    seen, there = array_and_padding()
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
    want = plain(theirs(q, k, **options))
    torch.testing.assert_close(ours(q, k, mask=mask), want, rtol=1e-4, atol=1e-5)
    same_weights(to_keras(ours), theirs)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("output", [None, 5])
def test_gates_and_widths_of_the_output(bias: bool, output: int | None) -> None:
    options = {"use_gate": True, "use_bias": bias}
    multi = keras.layers.MultiHeadAttention(3, 4, 6, output_shape=output, **options)
    grouped = keras.layers.GroupQueryAttention(4, 6, 2, **options)
    q, k = numbers(B, T, 8), numbers(B, S, 8)
    for theirs in (multi, grouped):
        theirs(q, k)
        shaken(theirs)
        ours = from_keras(theirs)
        torch.testing.assert_close(ours(q, k), plain(theirs(q, k)), rtol=1e-4, atol=1e-5)
        assert isinstance(ours, MultiHeadAttention)
        same_weights(to_keras(ours), theirs)
        torch.testing.assert_close(
            plain(to_keras(ours)(q, k)), plain(theirs(q, k)), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["MultiHeadAttention", "GroupQueryAttention"])
@pytest.mark.parametrize("causal", [True, False])
def test_a_sliding_window_is_a_mask(kind: str, causal: bool) -> None:
    sizes = (2, 4) if kind == "MultiHeadAttention" else (4, 2, 1)
    theirs = getattr(keras.layers, kind)(*sizes, sliding_window=2)
    x = numbers(B, 6, 8)
    want, weights = theirs(x, x, use_causal_mask=causal, return_attention_scores=True)
    ours, mask = from_keras(theirs), regard.causal() if causal else None
    assert isinstance(ours, MultiHeadAttention)
    torch.testing.assert_close(ours(x, mask=mask), plain(want), rtol=1e-4, atol=1e-5)
    found = ours.weights(x, mask=mask).dense()
    torch.testing.assert_close(found, plain(weights), rtol=1e-4, atol=1e-6)
    assert to_keras(ours).get_config()["sliding_window"] == 2
    same_weights(to_keras(ours), theirs)


KINDS: dict[str, Any] = {
    "dot": partial(keras.layers.Attention, score_mode="dot"),
    "concat": partial(keras.layers.Attention, score_mode="concat"),
    "additive": keras.layers.AdditiveAttention,
}


@pytest.mark.parametrize("use_scale", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("masked", [None, "causal", "padding", "both", "queries"])
@pytest.mark.parametrize("own_keys", [True, False])
def test_attention_without_projections_both_ways(
    kind: str, use_scale: bool, dropout: float, masked: str | None, own_keys: bool
) -> None:
    theirs = KINDS[kind](use_scale=use_scale, dropout=dropout)
    q, k = numbers(B, T, 8), numbers(B, S, 8)
    v = numbers(B, S, 3) if own_keys else k
    inputs = [q, v, k] if own_keys else [q, v]
    theirs(inputs)
    shaken(theirs)
    ours = from_keras(theirs, width=8).eval()
    assert ours.dropout == dropout
    there = torch.arange(S) < torch.tensor([[5], [3]])
    asked = torch.arange(T) < torch.tensor([[4], [2]])
    options: dict[str, Any] = {
        None: {},
        "causal": {"use_causal_mask": True},
        "padding": {"mask": [None, there]},
        "both": {"use_causal_mask": True, "mask": [None, there]},
        "queries": {"mask": [asked, None]},
    }[masked]
    first = regard.keep(torch.ones(T, S, dtype=torch.bool).tril())  # they count from the first key
    mask = {
        None: None,
        "causal": first,
        "padding": regard.lengths([5, 3]),
        "both": first & regard.lengths([5, 3]),
        "queries": regard.keep(asked[:, None, :, None]),
    }[masked]
    want, weights = theirs(inputs, return_attention_scores=True, **options)
    torch.testing.assert_close(ours(q, k, v, mask), plain(want), rtol=1e-4, atol=1e-5)
    found, weights = ours.weights(q, k, mask).dense()[:, 0], plain(weights)
    if masked == "queries":  # they hide the output of such a query, and leave its weights
        found, weights = found[asked], weights[asked]
    torch.testing.assert_close(found, weights, rtol=1e-4, atol=1e-6)
    assert isinstance(ours, AdditiveAttention | MultiplicativeAttention)
    again = to_keras(ours)
    assert type(again) is type(theirs)
    assert again.dropout == dropout
    torch.testing.assert_close(plain(again(inputs, **options)), plain(want), rtol=1e-4, atol=1e-5)
    if use_scale:
        same_weights(again, theirs)


def array_and_padding() -> tuple[Any, Any]:
    return (
        torch.ones(B, T, S, dtype=torch.bool).tril(),
        torch.arange(S) < torch.tensor([[5], [3]]),
    )


def same_weights(one: Any, other: Any) -> None:
    assert len(one.get_weights()) == len(other.get_weights())
    for mine, theirs in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_dropout_of_scored_attention_is_for_training_alone() -> None:
    q, k = torch.randn(1, 6, 8), torch.randn(1, 9, 8)
    for m in (
        AdditiveAttention(8, 8, 8, dropout=0.5),
        MultiplicativeAttention(8, dropout=0.5),
        LocalAttention(MultiplicativeAttention(8, dropout=0.5), 8, 4),
        LocalAttention(MultiplicativeAttention(8, dropout=0.5), 8, 4, predicted=False),
    ):
        assert not torch.equal(m(q, k), m(q, k))
        m.eval()
        assert torch.equal(m(q, k), m(q, k))


def test_what_one_of_them_has_not_is_refused() -> None:
    layers = keras.layers
    other = layers.MultiHeadAttention(2, 4, output_shape=(2, 3))
    axes = layers.MultiHeadAttention(2, 4, attention_axes=(1, 2))
    other(numbers(1, 3, 8), numbers(1, 3, 8))
    axes(numbers(1, 3, 3, 8), numbers(1, 3, 3, 8))
    one_axis = layers.MultiHeadAttention(2, 4, attention_axes=1)
    one_axis(numbers(1, 3, 3, 8), numbers(1, 3, 3, 8))
    both = MultiHeadAttention(8, 2, key_heads=1, output_width=6)
    quantized = layers.MultiHeadAttention(2, 4)
    quantized(numbers(1, 3, 8), numbers(1, 3, 8))
    quantized.query_dense.quantize("int8")
    dot = layers.Attention()
    dot([numbers(1, 3, 8), numbers(1, 3, 8)])
    dense = layers.Dense(3)
    dense(numbers(1, 3))
    stretched, biased = AdditiveAttention(8, 8, 8), AdditiveAttention(8, 8, 8, bias=True)
    for module, factor in ((stretched, 2.0), (biased, 1.0)):
        for linear in (module.query, module.key):
            linear.weight.data = torch.eye(8) * factor
    for call, words in (
        (lambda: from_keras(layers.MultiHeadAttention(2, 4)), "is not built"),
        (lambda: from_keras(other), "output_shape of several axes"),
        (lambda: from_keras(axes), "attention_axes has no counterpart"),
        (lambda: from_keras(one_axis), "attention_axes has no counterpart"),
        (lambda: to_keras(both), "no output_width with key_heads"),
        (lambda: from_keras(quantized), "quantization has no counterpart"),
        (lambda: to_keras(MultiHeadAttention(8, 2, mask=regard.causal())), "no mask but a window"),
        (lambda: from_keras(dot), "does not know its width"),
        (lambda: from_keras(dense), "no counterpart of Keras' Dense"),
        (lambda: to_keras(MultiHeadAttention(8, 2, position=Rotary(4))), "no position of its own"),
        (lambda: to_keras(MultiHeadAttention(8, 2, sink=True)), "no sink of its own"),
        (lambda: to_keras(MultiplicativeAttention(8)), "no multiple of the identity"),
        (lambda: to_keras(MultiplicativeAttention(8, "concat")), "one weight of its concat"),
        (lambda: to_keras(AdditiveAttention(8, 8, 8)), "no multiple of the identity"),
        (lambda: to_keras(stretched), "W = U = I"),
        (lambda: to_keras(biased), "without a matrix of either or a bias"),
        (lambda: to_keras(HardAttention()), "no counterpart of HardAttention"),  # type: ignore[arg-type]
    ):
        with pytest.raises(regard.KindError, match=words):
            call()
