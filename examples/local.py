"""Local attention (Luong) on three vectors: each query sees its neighbours only.

With a reach of 1 the first query sees keys 1 and 2, the second all three.  ``predicted=True``
learns where to look instead, and weighs the keys by a bell about that place.
"""

import torch

from regard.nn import LocalAttention, MultiplicativeAttention

x = torch.tensor([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
local = LocalAttention(MultiplicativeAttention(2, "dot"), 2, reach=1, predicted=False)
ours = local(x[None], x[None])[0]
print(ours.mul(1000).round().int().tolist())  # [[199, 451], [401, 300], [599, 161]]

first = (x[:1] @ x[:2].T).softmax(-1) @ x[:2]
print(torch.allclose(ours[:1], first))  # True

looks = LocalAttention(MultiplicativeAttention(2), 2, reach=1)
print(looks.centres(x[None], 3).shape)  # torch.Size([1, 3])
