"""Multiplicative attention (Luong) on three vectors: dot, general, concat.

``dot`` has no 1/√D; ``general`` with the identity between is ``dot``, and it may change the width.
"""

import torch

from regard.nn import MultiplicativeAttention

x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
dot = MultiplicativeAttention(2, "dot")
print(dot.scores(x, x).mul(100).round().int().tolist())  # [[26, 23, 8], [23, 25, 24], [8, 24, 64]]
out = dot(x[None], x[None])[0]
print(out.mul(1000).round().int().tolist())  # [[378, 317], [401, 300], [472, 247]]
print(torch.allclose(out, (x @ x.T).softmax(-1) @ x))  # True

general = MultiplicativeAttention(2, "general", key_width=5)
concat = MultiplicativeAttention(2, "concat", key_width=5)
keys = torch.randn(1, 4, 5)
for attention in (general, concat):
    assert attention(x[None], keys).shape == (1, 3, 5)
