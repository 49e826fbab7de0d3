"""Hard attention on three vectors: each query takes the value of its best key, whole.

An argmax has no gradient; ours gives q and k that of soft attention.
"""

import torch

from regard import attend
from regard.nn import HardAttention

x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
q, k = x.clone().requires_grad_(), x.clone().requires_grad_()
hard, soft = HardAttention()(q, k, x), attend(q, k, x)
print(hard.mul(10).round().int().tolist())  # [[1, 5], [3, 4], [8, 0]]
print((x @ x.T).argmax(-1).tolist())  # [0, 1, 2]

(from_hard,) = torch.autograd.grad(hard[0, 0], q)
(from_soft,) = torch.autograd.grad(soft[0, 0], q)
print(torch.allclose(from_hard, from_soft))  # True
