"""Additive attention (Bahdanau) on three vectors: scores by a small network, written out and ours.

W, U and v are the identity and ones here, so that every number can be checked by hand:
s_12 = tanh(0.1 + 0.3) + tanh(0.5 + 0.4) = 0.380 + 0.716 = 1.096.
"""

import torch

from regard.nn import AdditiveAttention

x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
scores = torch.tanh(x[:, None] + x[None]).sum(-1)
by_hand = scores.softmax(-1) @ x

attention = AdditiveAttention(2, 2, 2)
with torch.no_grad():
    attention.query.weight.copy_(torch.eye(2))
    attention.key.weight.copy_(torch.eye(2))
    attention.score.weight.fill_(1.0)
ours = attention(x[None], x[None])[0]

print(scores.mul(1000).round().int().tolist()[0])  # [959, 1096, 1178]
print(ours.mul(1000).round().int().tolist())  # [[425, 283], [408, 295], [367, 325]]
print(torch.allclose(ours, by_hand))  # True
