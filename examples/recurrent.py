"""A recurrent layer beside attention: the first token reaches the last in n − 1 steps, one by one.

Attention reaches it in one, and computes all places at once.
"""

import torch

from regard.nn import ScaledDotProductAttention

torch.manual_seed(0)
n, width = 12, 4
text = torch.randn(1, n, width)
cell = torch.nn.RNNCell(width, width)


def last(text):
    h, steps = torch.zeros(1, width), 0
    for x in text.unbind(1):  # h_t needs h_{t−1}: nothing can be computed ahead
        h, steps = cell(x, h), steps + 1
    return h, steps


def reach(answer, x):
    """How much the last place's answer changes with the first token."""
    (gradient,) = torch.autograd.grad(answer.sum(), x)
    return gradient[0, 0].abs().sum().item()


x = text.clone().requires_grad_()
h, steps = last(x)
through_steps = reach(h, x)
x = text.clone().requires_grad_()
at_once = reach(ScaledDotProductAttention()(x, x, x)[:, -1], x)
print(steps)  # 12
print(at_once > 10 * through_steps)  # True
