"""A beginner's ScaledDotProductAttention beside ours, on three vectors.

Their layer is told d_k, divides by its root, fills hidden scores with −1e9 and returns (output,
weights).  It is right; in half precision −1e9 is no number, and a row that may attend to nothing
averages what it may not see.
"""

import torch
from torch import nn

import regard
from regard.nn import ScaledDotProductAttention


class Theirs(nn.Module):
    def __init__(self, d_k):
        super().__init__()
        self.d_k = d_k

    def forward(self, Q, K, V, mask=None):
        scores = torch.matmul(Q, K.transpose(-2, -1)) / self.d_k**0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = torch.softmax(scores, dim=-1)
        return torch.matmul(weights, V), weights


x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
output, weights = Theirs(d_k=2)(x, x, x)
ours = ScaledDotProductAttention()

print((x @ x.T).mul(100).round().int().tolist())  # [[26, 23, 8], [23, 25, 24], [8, 24, 64]]
print(output.mul(1000).round().int().tolist())  # [[384, 312], [400, 300], [451, 263]]
print(ours(x, x, x).mul(1000).round().int().tolist())  # [[384, 312], [400, 300], [451, 263]]
print(torch.allclose(ours.weights(x, x).dense(), weights))  # True

# A row that may attend to nothing: their answer is the mean of what is hidden, ours is 0.
hidden = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 1]])
print(Theirs(2)(x, x, x, hidden)[0][1].mul(1000).round().int().tolist())  # [400, 300]
print(ours(x, x, x, regard.keep(hidden == 1))[1].tolist())  # [0.0, 0.0]
