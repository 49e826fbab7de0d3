"""A beginner's PositionalEncoding beside ours.

Theirs builds a table of 5,000 rows, and an odd width does not fit its cosines; ours computes the
rows that it needs, of any width.
"""

import math

import torch
from torch import nn

from regard.nn import Sinusoidal


class Theirs(nn.Module):
    def __init__(self, d_model, max_len=5000):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1).float()
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)]


x = torch.zeros(1, 3, 4)
print(torch.allclose(Theirs(4)(x), Sinusoidal(4)(x), atol=1e-6))  # True
print(Sinusoidal(4)(x)[0, 1].mul(1000).round().int().tolist())  # [841, 540, 10, 1000]

try:
    Theirs(5)
except RuntimeError as error:
    print(str(error).split(":")[0][:38])  # The expanded size of the tensor (2) mu
print(Sinusoidal(5)(torch.zeros(1, 3, 5)).shape)  # torch.Size([1, 3, 5])
