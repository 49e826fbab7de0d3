"""A convolution beside attention: a kernel of c sees c neighbours; far tokens need many layers."""

import torch

from regard.nn import ScaledDotProductAttention

n, c = 9, 3
text = torch.zeros(1, n, 1)
other = text.clone()
other[0, -1] = 1.0  # only the last token is another
sums = torch.nn.Conv1d(1, 1, c, padding=1, bias=False)
torch.nn.init.ones_(sums.weight)


def layers_until_the_first_place_knows():
    one, two = text.mT, other.mT
    for layer in range(1, n + 1):
        one, two = sums(one), sums(two)
        if not torch.equal(one[..., 0], two[..., 0]):
            return layer
    return None


attention = ScaledDotProductAttention()
print(layers_until_the_first_place_knows())  # 8
print(torch.equal(attention(text, text, text)[0, 0], attention(other, other, other)[0, 0]))  # False
