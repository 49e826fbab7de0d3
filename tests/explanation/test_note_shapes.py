# ruff: noqa: E501
"""Shapes of attention's tensors, as notes tell them: right ones raise no alarm, a changed size is named."""

import re

import pytest

from regard.explanation.notes import fact_check

EN = "With a batch size of 4, a sequence length of 12, d_model = 512, 8 heads and d_ff = 2048:"
ZH = "设批大小为 4，序列长度为 12，d_model = 512，8 个头，d_ff = 2048："
CROSS = "The source has 20 tokens and the target 7. d_model = 64, 4 heads, a batch of 3."
STEPS = [
    (EN, "| {} | {} |", "| step | shape |\n|---|---|\n", name, shape)
    for name, shape in (
        ("embeddings", "(4, 12, 512)"), ("Q, K, V after projection", "(4, 12, 512)"),
        ("split into heads", "(4, 8, 12, 64)"), ("K transposed", "(4, 8, 64, 12)"),
        ("scores $QK^T$", "(4, 8, 12, 12)"), ("after the softmax", "(4, 8, 12, 12)"),
        ("weights times V", "(4, 8, 12, 64)"), ("heads concatenated", "(4, 12, 512)"),
        ("FFN hidden", "(4, 12, 2048)"),
    )
] + [
    (ZH, "| {} | {} |", "| 步骤 | 形状 |\n|---|---|\n", name, shape)
    for name, shape in (
        ("词嵌入", "(4, 12, 512)"), ("Q / K / V（拆成多头）", "(4, 8, 12, 64)"), ("K 的转置", "(4, 8, 64, 12)"),
        ("$QK^T$", "(4, 8, 12, 12)"), ("softmax 之后", "(4, 8, 12, 12)"), ("乘 V", "(4, 8, 12, 64)"),
        ("合并多头", "(4, 12, 512)"), ("FFN 中间层", "(4, 12, 2048)"),
    )
] + [
    (CROSS, "- {}: {}", "## Cross-attention, shape by shape\n\n", name, shape)
    for name, shape in (
        ("Queries (from the decoder)", "(3, 4, 7, 16)"), ("Keys (from the encoder)", "(3, 4, 20, 16)"),
        ("Values", "(3, 4, 20, 16)"), ("Scores", "(3, 4, 7, 20)"), ("Output per head", "(3, 4, 7, 16)"),
        ("After concatenation", "(3, 7, 64)"),
    )
] + [
    (EN, "{} {}.", "", name, shape)
    for name, shape in (
        ("The score matrix of one head is", "12 × 12"), ("The scores have the shape", "(4, 8, 12, 12)"),
        ("The first FFN matrix W_1 has the shape", "512 × 2048"), ("W_O is a matrix of size", "512 × 512"),
    )
] + [
    (ZH, "{} {}。", "", name, shape)
    for name, shape in (
        ("分数矩阵 $QK^T$ 的形状为", "12×12"), ("注意力分数的形状是", "(4, 8, 12, 12)"), ("每个头的 Q 是", "12×64"),
    )
]  # fmt: skip


def note(head, form, table, name, shape):
    return f"# Shapes\n\n{head}\n\n{table}{form.format(name, shape)}\n"


@pytest.mark.parametrize("place", range(len(STEPS)))
def test_a_right_shape_raises_no_alarm_and_a_changed_size_is_named(place):
    *where, shape = STEPS[place]
    assert not fact_check(note(*where, shape)).of("wrong")
    sizes = [*re.finditer(r"\d+", shape)]
    size = sizes[place % len(sizes)]
    other = "9" if size[0] in "34" else str(int(size[0]) * 3)
    (verdict,) = fact_check(note(*where, shape[: size.start()] + other + shape[size.end() :])).of(
        "wrong"
    )
    assert re.findall(r"\d+", verdict.values["right"]) == [each[0] for each in sizes]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("$Q$ is $n \\times d_k$, $K$ is $n \\times d_k$ and $QK^\\top$ is $d_k \\times d_k$.", "n × n"),
        ("# Cross\n\nQ: m × d_k\n\nK: n × d_k\n\nV: n × d_v\n\noutput: n × d_v", "m × d_v"),
        ("$Q\\in\\mathbb{R}^{n\\times d_k}$，$V\\in\\mathbb{R}^{n\\times d_v}$，输出 $\\in\\mathbb{R}^{d_k\\times d_v}$。", "n × d_v"),
        ("A 10×10 matrix times a 10×64 matrix is a 10×10 matrix.", "10 × 64"),
        ("10×10 的矩阵乘以 10×64 的矩阵，得到 10×10 的矩阵。", "10 × 64"),
        ("$$\\begin{bmatrix} 1 & 2 & 3 \\\\ 0 & 1 & 1 \\end{bmatrix}$$\n\nwith shape $3 \\times 2$.", "2 × 3"),
        ("解码器长 15、编码器长 40 时，交叉注意力的分数矩阵是 $40\\times15$。", "15 × 40"),
    ],
)  # fmt: skip
def test_letters_products_and_sides_are_told_apart(text, right):
    (verdict,) = fact_check(text).of("wrong")
    assert verdict.values["right"] == right


@pytest.mark.parametrize(
    "text",
    [
        "Let X be 3 × 2 and Q 3 × 4. In another example X is 5 × 7.",
        "The scores are [1, 2, 3] and softmax([1, 3, 2]) comes next. There are 4 tokens and 2 heads.",
        "With the cache, 8 heads and 100 tokens, the new query has the scores (1, 8, 1, 101).",
        "d_model = 64. In the toy section, the output is 4 × 2.",
        "X ∈ R^{d×n} has the tokens as its columns, Q = W X ∈ R^{d_k×n}, K^T Q ∈ R^{n×n}.",
        "批大小为 16，d = 512，8 个头。卷积的输出是 (16, 64, 28, 28)。",
    ],
)
def test_what_may_be_another_example_is_left_alone(text):
    assert not fact_check(text).of("wrong")


CODE = """```python
import torch
from torch import nn
{}
```
"""


@pytest.mark.parametrize(
    ("code", "right"),
    [
        ("q = torch.randn(1, 32, 100, 128)\nq = torch.cat([q, q[:, :, :1]], dim=2)\nprint(q.shape)  # torch.Size([{}, 101, 128])", ("1, 32", "1, 33")),
        ("m = nn.Linear(128, 384)\nprint(m.weight.shape)  # torch.Size([{}])", ("384, 128", "128, 384")),
        ("m = nn.MultiheadAttention(256, 8)\nprint(sum(p.numel() for p in m.parameters()))  # {}", ("263168", "262144")),
        ("m = nn.TransformerEncoderLayer(512, 8)\nprint(sum(p.numel() for p in m.parameters()))  # {}", ("3152384", "3150000")),
        ("w = torch.softmax(torch.randn(2, 3), dim=-1)\nprint(w.sum(dim=-1))  # tensor([1., {}])", ("1.", "2.")),
        ("S = torch.tensor([[2., 1.], [0., 1.]])\nm = torch.triu(torch.ones(2, 2), diagonal=1).to(torch.bool)\nS[m] = 0\nprint(S.sum())  # tensor({})", ("3.", "4.")),
        ("q, k = torch.randn(2, 10, 64).chunk(2, dim=-1)  # each (2, 10, {})", ("32", "64")),
        ("for name, p in nn.LayerNorm(128).named_parameters():\n    print(name, tuple(p.shape))\n# weight ({},)\n# bias (128,)", ("128", "129")),
        ("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.g = nn.Parameter(torch.ones(8))\n        self.l = nn.Linear(8, 2)\nprint(sum(p.numel() for p in M().parameters()))  # {}", ("26", "18")),
    ],
)  # fmt: skip
def test_what_a_program_prints_is_followed(code, right):
    good, bad = right
    assert [v.status for v in fact_check(CODE.format(code.format(good))).verdicts if v.line > 3][
        -1
    ] == "right"
    (verdict,) = fact_check(CODE.format(code.format(bad))).of("wrong")
    assert re.sub(r"\D", "", good) in re.sub(r"\D", "", verdict.values["right"])
