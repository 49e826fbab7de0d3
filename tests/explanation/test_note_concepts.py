"""What a fact-check knows in words: who gives what, how things grow, what models have."""

from __future__ import annotations

import re

import pytest

from regard.explanation.notes import fact_check
from regard.explanation.notes.sizes.models import MODELS
from regard.explanation.notes.words.tendencies import ORDERS, SIGNS
from regard.explanation.numbers import written

RIGHT = [
    "In cross-attention, the queries come from the decoder, the keys and values from the encoder.",
    "In cross-attention the decoder gives the queries while the encoder gives keys and values.",
    "交叉注意力里，Q 来自解码器，K 和 V 来自编码器。",
    "The output is a weighted sum of the values, with the attention weights as factors.",
    "因果掩码遮住的是之后的位置。",
    "The mask is applied before the softmax.",
    "After the softmax, masked positions become 0.",
    "BERT is an encoder-only model, and GPT is a decoder-only one.",
    "A KV cache speeds up inference, not training.",
    "GQA 中多个查询头共享一个键头。",
    "RoPE rotates queries and keys, but not the values.",
    "Positional encodings are added to the embeddings.",
    "正弦位置编码是固定的，不含可学习的参数。",
    "FlashAttention is exact; it is not an approximation.",
    "The heads' outputs are concatenated and projected by W_O.",
    "An RNN processes the tokens one by one.",
    "If BERT were a decoder-only model, it could generate text.",
    "Some people say that RoPE rotates the values; that is wrong.",
    "The feed-forward network uses the same parameters at every position.",
    "An encoder layer has two sub-layers, a decoder layer has three.",
    "XXᵀX is cubic in X.",
    "Var(aX) = a² Var(X), and D(X + Y) = D(X) + D(Y) for independent X and Y.",
    "D(X) = E(X²) − [E(X)]²。",
    "An RNN layer costs O(n·d²) and needs O(n) sequential operations.",
    "The softmax derivative p(1 − p) is largest at p = 0.5, where it is 0.25.",
    "The attention map of a trained model is rarely symmetric.",
    "softmax 对缩放并不是不变的：分数翻倍，分布会更尖锐。",
    "自注意力的复杂度与序列长度的平方成正比，所以长文本很贵。",
    "BERT 和 GPT-2 使用可学习的位置编码，正弦编码则不需要学习。",
    "BERT uses only the encoder of the Transformer, whereas GPT uses only the decoder.",
    "Some models concatenate positional information instead of adding it.",
    "LayerNorm normalises each token on its own, so it does not depend on the batch size.",
    "With a window of 512 tokens, the cost grows linearly with the sequence length.",
    "如果 W_Q = W_K，分数矩阵就是对称的。",
    "If the entries were twice as large, the variance of q·k would be 16 times as large.",
]
WRONG = {
    "In encoder-decoder attention, keys and values are taken from the decoder.": "encoder",
    "交叉注意力的查询来自编码器，键和值来自解码器。": "decoder",
    "In the last step the attention weights are multiplied with K.": "V",
    "输出是用注意力权重对 Q 加权求和。": "V",
    "因果掩码遮住的是之前的位置。": "之后",
    "The mask is applied after the softmax.": "before",
    "BERT 是仅解码器的模型。": "仅编码器",
    "GPT is an encoder-only model.": "decoder-only",
    "The KV cache speeds up training.": "inference",
    "The KV cache stores the queries.": "K, V",
    "In GQA several key heads share one query head.": "query",
    "RoPE rotates the queries, keys and values.": "Q, K",
    "ALiBi adds a vector to the token embeddings.": "scores",
    "Positional encodings are concatenated to the embeddings.": "X + P",
    "Sinusoidal encodings are learned.": "sin, cos",
    "FlashAttention is an approximation.": "exact",
    "The outputs of the heads are averaged.": "W_O",
    "A residual connection multiplies the input with the output.": "x + f(x)",
    "At inference the decoder generates all tokens in parallel.": "one",
    "The original Transformer puts LayerNorm before each sub-layer.": "after",
    "The feed-forward network uses different parameters at each position.": "same",
    "A decoder layer has two sub-layers.": "3",
    "XXᵀX is quadratic in X.": "cubic",
    "Var(aX) = a Var(X) for a constant a.": "a²",
    "D(X) = E(X)² − E(X²)。": "E[X²]",
    "An RNN layer costs O(n²·d).": "O(nd²)",
    "循环层的顺序操作是 O(1)。": "O(n)",
    "| Layer | Sequential steps |\n|---|---|\n| Recurrent | O(1) |": "O(n)",
    "The softmax derivative p(1 − p) is largest at p = 0.5, where it is 0.5.": "0.25",
    "In the original paper the learning rate warms up for 8000 steps.": "4000",
    "头越多，每个头的维度越大。": "变小",
}  # fmt: skip


def wrong(text: str) -> list[str]:
    """The right values of the claims of ``text`` that are wrong."""
    return [verdict.values["right"] for verdict in fact_check(text).of("wrong")]


@pytest.mark.parametrize("claim", RIGHT)
def test_what_is_so_raises_no_alarm(claim):
    assert wrong(claim) == []


@pytest.mark.parametrize("claim", WRONG)
def test_what_is_not_so_is_named_with_what_is(claim):
    assert any(WRONG[claim] in right for right in wrong(claim))


GROWN = {
    "cache": "the KV cache",
    "matrix": "the attention matrix",
    "attention+cost": "the cost of attention",
    "attention+memory": "the memory of attention",
    "deviation+scores": "the standard deviation of the dot product",
    "variance+scores": "the variance of the dot product",
}
DRIVERS = {"length": "the sequence length", "width": "d_k"}
WORDS = {
    "linearly": "linearly",
    "quadratically": "quadratically",
    "as the root": "as the square root",
}


@pytest.mark.parametrize("order", [each for each in ORDERS if each[0] in GROWN])
@pytest.mark.parametrize("said", WORDS)
def test_one_order_alone_is_right(order, said):
    outcome, driver, right = order
    preposition = "of" if said == "as the root" else "with"
    claim = f"{GROWN[outcome].capitalize()} grows {WORDS[said]} {preposition} {DRIVERS[driver]}."
    assert (wrong(claim) == []) == (said == right)


SAID = {
    ("temperature", "sharp"): "A {} temperature makes the softmax more peaked.",
    ("temperature", "flat"): "A {} temperature makes the weights more uniform.",
    ("large input", "flat"): "With {} scores the softmax is flat.",
}  # fmt: skip


@pytest.mark.parametrize("tendency", [each for each in SIGNS if each[:2] in SAID])
@pytest.mark.parametrize("word", ["higher", "lower"])
def test_a_thing_rises_with_one_direction_alone(tendency, word):
    claim = SAID[tendency[:2]].format(word)
    assert (wrong(claim) == []) == ((word == "higher") == (tendency[2] > 0))


@pytest.mark.parametrize("name", ["BERT-base", "GPT-2 small", "GPT-3", "LLaMA-7B"])
def test_a_model_has_its_numbers_and_no_others(name):
    known = next(numbers for pattern, numbers in MODELS if re.search(pattern, name, re.I))
    layers = int(known["layers"])
    assert wrong(f"{name} has {layers} layers and {known['heads']} heads.") == []
    assert wrong(f"{name} has {layers + 4} layers.") == [known["layers"]]
    assert wrong(f"If {name} had {layers + 4} layers, it would be slower.") == []


SCENES = [(1.0, 1.0, 64), (4.0, 4.0, 32), (2.0, 3.0, 64), (0.25, 0.25, 64), (9.0, 1.0, 100)]


@pytest.mark.parametrize(("q", "k", "d"), SCENES)
@pytest.mark.parametrize("chinese", [False, True])
def test_every_variance_follows_from_the_components_and_the_width(q, k, d, chinese):
    dot = q * k * d
    told = (
        "q 的方差是 {}，k 的方差是 {}。"
        if chinese
        else "q has variance {}, and k has variance {}. "
    )
    whole = (
        "d_k = {} 时，点积的方差是 {}，标准差是 {}。"
        if chinese
        else "For d_k = {} the dot product has variance {} and standard deviation {}. "
    )
    after = "除以 √{} 以后方差是 {}。" if chinese else "After dividing by √{} the variance is {}."
    told = told.format(written(q), written(k))

    def note(variance: float, deviation: float, scaled: float) -> str:
        return (
            told
            + whole.format(d, written(variance), written(deviation))
            + after.format(d, written(scaled))
        )

    assert wrong(note(dot, dot**0.5, q * k)) == []
    assert any(written(dot) in right for right in wrong(note(3 * dot, dot**0.5, q * k)))
    assert any(written(dot**0.5) in right for right in wrong(note(dot, 3 * dot**0.5, q * k)))
    assert any(written(q * k) in right for right in wrong(note(dot, dot**0.5, 5 * q * k)))
