"""A note's programs: what is followed without running it is what Python makes of them."""

from __future__ import annotations

import ast

import numpy as np
import pytest

from regard.explanation.notes import fact_check
from regard.explanation.notes.programs.arrays import Ghost
from regard.explanation.notes.programs.blocks import expected
from regard.explanation.notes.programs.statements import Program

NUMPY = """
import numpy as np
from math import sqrt
x = np.array([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
def softmax(s, axis=-1):
    \"\"\"Each row sums to 1.\"\"\"
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
scores = x @ x.T / sqrt(x.shape[1])
w = softmax(scores)
print(scores, w.sum(axis=1), w[0, 1], w[:, 0], (w @ x).T)
print(
    np.dot(x[0], x[1]), np.outer(x[0], x[1]), np.linalg.norm(x, axis=1),
    np.einsum("id,jd->ij", x, x),
)
mask = np.tril(np.ones((3, 3), dtype=bool))
hidden = np.where(mask, scores, -np.inf)
print(softmax(hidden), mask.sum(), np.triu(np.ones((3, 3)), k=1).sum())
pe = np.zeros((4, 6))
for pos in range(4):
    for i in range(0, 6, 2):
        pe[pos, i] = np.sin(pos / 10000 ** (i / 6))
        pe[pos, i + 1] = np.cos(pos / 10000 ** (i / 6))
print(pe)
total = 0
for a, b in zip([1, 2, 3], [4, 5, 6]):
    if a > 1 and not b == 5:
        total += a * b
    else:
        total -= 1
print(total, sum(v ** 2 for v in x[0]), [float(v) for v in x[2]], max(3, 1), len(x), abs(-2))
print(
    np.concatenate([x, x], axis=1).shape, np.stack([x, x]).shape, x.reshape(2, 3),
    x.reshape(-1), x.transpose(1, 0),
)
print(
    np.var(x), np.std(x, axis=0), x.mean(), np.argmax(w, axis=1), np.cumsum(x[0]),
    np.arange(0, 1, 0.25), np.linspace(0, 1, 3),
)
f = lambda d: 4 * d * d
print(
    f(8), {"a": 1, "b": [2, 3]}, (1, 2)[0], 7 // 2, 7 % 4, 2 ** 5, -x[0], np.eye(2), x.T.shape,
    np.full((2, 2), 0.5),
)
"""
TORCH = """
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
q = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
k = torch.tensor([[1.0, 1.0], [0.5, 0.0]])
v = torch.eye(2)
s = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
print(s, s.softmax(dim=-1), F.softmax(s, dim=0), torch.softmax(s, -1) @ v)
causal = torch.triu(torch.ones(2, 2), diagonal=1).bool()
print(s.masked_fill(causal, float("-inf")).softmax(-1), causal.sum().item(), (~causal).sum())
print(
    F.scaled_dot_product_attention(q, k, v),
    F.scaled_dot_product_attention(q, k, v, is_causal=True),
)
print(
    s.var(), s.std(unbiased=False), s.max(), s.max(dim=1)[0], s.sum(dim=1, keepdim=True),
    F.relu(s - 0.5),
)
print(
    q.unsqueeze(0).shape, q.view(4).shape, q.flatten(), torch.cat([q, k], dim=1),
    torch.stack([q, k]).shape,
)
print(
    q.T, q.permute(1, 0), q.chunk(2, dim=1)[0], q[:, 1], q[None].shape, torch.arange(3),
    torch.zeros(2, 3),
)
print(
    nn.LayerNorm(2)(k).detach(), q.numel(), q.dim(), torch.matmul(q, k),
    torch.bmm(q[None], k[None]),
)
"""
SHAPES = """
import torch
import torch.nn as nn
B, T, d, h = 2, 5, 16, 4
class Heads(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h, self.d_k = h, d // h
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.out = nn.Linear(d, d)
    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q, k, v = (t.view(B, T, self.h, self.d_k).transpose(1, 2) for t in (q, k, v))
        w = (q @ k.transpose(-2, -1) / self.d_k ** 0.5).softmax(dim=-1)
        return self.out((w @ v).transpose(1, 2).contiguous().view(B, T, C)), w
layer = Heads(d, h)
x = torch.randn(B, T, d)
y, w = layer(x)
print(y.shape, w.shape, w.mean(dim=1).shape, sum(p.numel() for p in layer.parameters()))
mha = nn.MultiheadAttention(embed_dim=d, num_heads=h, batch_first=True)
out, weights = mha(x, x, x)
print(out.shape, weights.shape, sum(p.numel() for p in mha.parameters()))
e = nn.Embedding(100, d)
print(e(torch.zeros(B, T).long()).shape, sum(p.numel() for p in e.parameters()), e.weight.shape)
ffn = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
print(
    ffn(x).shape, sum(p.numel() for p in ffn.parameters()),
    torch.einsum("btd,bsd->bts", x, x).shape,
)
print(
    (x * 2 + 1).shape, x.mean(-1, keepdim=True).shape, x[:, 0].shape,
    x.reshape(B, T, h, -1).permute(0, 2, 1, 3).shape, x.sum(dim=(0, 1)).shape,
)
"""


def numbers(shown: tuple) -> list[float]:
    """What Python has printed, number by number."""
    found: list[float] = []
    for value in shown:
        if hasattr(value, "detach"):
            found += numbers((value.detach().numpy(),))
        elif isinstance(value, dict):
            found += numbers(tuple(value.items()))
        elif isinstance(value, list | tuple):
            found += numbers(tuple(value))
        elif not isinstance(value, str):
            found += [float(each) for each in np.asarray(value).reshape(-1)]
    return found


@pytest.mark.parametrize("code", [NUMPY, TORCH, SHAPES], ids=["numpy", "torch", "shapes"])
def test_what_is_followed_is_what_python_prints(code):
    if "torch" in code:
        pytest.importorskip("torch")
    shown: list[tuple] = []
    exec(code, {"print": lambda *values: shown.append(values)})
    made = [each for each in Program().read(ast.parse(code).body, code, 1, {}) if each.printed]
    assert len(made) == len(shown)
    for values, each in zip(shown, made, strict=True):
        assert np.allclose(expected(each.value), numbers(values), atol=1e-5), each.text


def test_what_is_not_known_says_nothing():
    code = "import numpy as np\na = np.random.randn(3, 4)\nb = a @ a.T\nc = other(b)\nd = c + 1\n"
    program = Program()
    program.read(ast.parse(code).body, code, 1, {})
    assert program.env["b"] == Ghost((3, 3))
    note = f"```python\n{code}print(b)\nprint(d)\nprint(open('x').read())\n```\n```\n[[1 2 3]]\n```"
    assert not fact_check(note).of("wrong")


@pytest.mark.parametrize(
    "code",
    ["while True: pass", "x = [0] * 10**9", "x = 10 ** 10 ** 9", "f = lambda n: f(n)\nf(1)",
     "import numpy as np\nx = np.ones((10**6, 10**6))", "for i in range(10**9): x = i"],
)  # fmt: skip
def test_a_program_that_would_not_end_does(code):
    assert fact_check(f"```python\n{code}\n```").of("wrong") == []
