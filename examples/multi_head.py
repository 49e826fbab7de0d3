"""A beginner's multi-head attention beside ours, with the weights of theirs.

Theirs has two faults that train anyway: the heads share one small projection of (embed / heads)
numbers, and the scores are divided by √embed, not by the root of a head's own width.  Ours with a
large matrix a role and 1/√head_width differs from it; given the same faults it is the same.
"""

import torch
from torch import nn

from regard.nn import MultiHeadAttention


class Theirs(nn.Module):
    def __init__(self, embed_size, heads):
        super().__init__()
        self.embed_size, self.heads = embed_size, heads
        self.head_dim = embed_size // heads
        self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def forward(self, values, keys, query):
        N, q_len, k_len = query.shape[0], query.shape[1], keys.shape[1]
        values = self.values(values.reshape(N, k_len, self.heads, self.head_dim))
        keys = self.keys(keys.reshape(N, k_len, self.heads, self.head_dim))
        queries = self.queries(query.reshape(N, q_len, self.heads, self.head_dim))
        energy = torch.einsum("nqhd,nkhd->nhqk", queries, keys)
        attention = torch.softmax(energy / self.embed_size**0.5, dim=3)
        out = torch.einsum("nhqk,nkhd->nqhd", attention, values)
        return self.fc_out(out.reshape(N, q_len, self.heads * self.head_dim))


torch.manual_seed(0)
theirs, x = Theirs(8, 2), torch.randn(1, 3, 8)


def with_weights_of(theirs, **options):
    ours = MultiHeadAttention(8, 2, bias=False, output_bias=True, **options)
    with torch.no_grad():
        for mine, small in (
            (ours.query, theirs.queries),
            (ours.key, theirs.keys),
            (ours.value, theirs.values),
        ):
            mine.weight.copy_(torch.block_diag(small.weight, small.weight))  # shared by the heads
        ours.output.load_state_dict(theirs.fc_out.state_dict())
    return ours


right = with_weights_of(theirs)
print(right.head_width, right.weights(x).shape)  # 4 (1, 2, 3, 3)
print(torch.allclose(right(x), theirs(x, x, x), atol=1e-6))  # False
wrong = with_weights_of(theirs, scale=8**-0.5)
print(torch.allclose(wrong(x), theirs(x, x, x), atol=1e-6))  # True
