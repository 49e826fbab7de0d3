"""Linear attention on three vectors: features for the softmax, and a state for the cache.

The causal one read token by token keeps D × E + D numbers, however long the text becomes.
"""

import torch

from regard.nn import LinearAttention

x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])[None]  # one head
ours = LinearAttention()(x, x, x)[0]
print(ours.mul(1000).round().int().tolist())  # [[400, 300], [407, 295], [424, 282]]

features = torch.nn.functional.elu(x[0]) + 1
scores = features @ features.T
print(torch.allclose(ours, scores / scores.sum(-1, keepdim=True) @ x[0]))  # True

causal, state, found = LinearAttention(causal=True), None, []
for token in x.unbind(-2):
    state, out = causal.step(state, token, token, token)
    found.append(out)
print(torch.allclose(torch.stack(found, -2), causal(x, x, x)))  # True
print(state.values.numel() + state.keys.numel())  # 6
