"""Top-k attention on three vectors: softmax over each query's two best keys."""

import torch

from regard.nn import TopKAttention

x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
attention = TopKAttention(2)
weights = attention.weights(x, x).dense()
print(weights.mul(1000).round().int().tolist())  # [[505, 495, 0], [0, 502, 498], [0, 430, 570]]
print(attention(x, x, x).mul(1000).round().int().tolist())  # [[199, 451], [549, 201], [585, 172]]

scores = x @ x.T / 2**0.5
best = scores.topk(2).values[:, -1:]
by_hand = scores.masked_fill(scores < best, float("-inf")).softmax(-1) @ x
print(torch.allclose(attention(x, x, x), by_hand))  # True
