"""Entries of one head cost one head, and are those of the whole matrix."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

import regard
from regard.core import weights as module

B, H, G, T, S = 2, 4, 2, 5, 6
KEEP = torch.rand(B, H, T, S, generator=torch.Generator().manual_seed(0)) < 0.6
RULES: list[dict[str, Any]] = [
    {},
    {"mask": regard.causal()},
    {"mask": regard.lengths([3, 6])},
    {"mask": regard.keep(KEEP)},
    {"bias": regard.alibi(H)},
    {"sink": torch.arange(H) / 2.0},
    {"softcap": 2.0, "start": [0, 1]},
]
rows = st.sampled_from([0, -1, slice(None), slice(1, 3), [0, 3], []])


def entries(
    lead: Any, head: Any, row: Any, rules: dict[str, Any]
) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    q, k = (
        torch.randn(B, H, T, 8, generator=generator),
        torch.randn(B, G, S, 8, generator=generator),
    )
    W = regard.weights(q, k, **rules)
    return W[lead, head, row, 1:5], W.dense()[lead, head][..., row, 1:5]


@given(
    rules=st.sampled_from(RULES),
    lead=st.sampled_from([0, -1, slice(None), [0, 1]]),
    head=st.sampled_from([*range(-H, H), np.int64(2), slice(1, 3), [1, 2]]),
    row=rows,
)
def test_they_are_those_of_the_whole_matrix(rules: dict[str, Any], lead: Any, head: Any, row: Any):
    part, whole = entries(lead, head, row, rules)
    assert part.shape == whole.shape
    assert torch.allclose(part, whole, atol=1e-6)


def test_two_axes_have_no_head():
    x = torch.eye(4)
    W = regard.weights(x, x)
    assert torch.allclose(W[2, 1], W.dense()[2, 1])


@pytest.mark.parametrize("rules", RULES[:3])
def test_no_other_head_is_computed(rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    run = module.run
    monkeypatch.setattr(module, "run", lambda c, *a: (asked.append(c.sizes.H), run(c, *a))[1])
    entries(0, 3, 2, rules)
    assert asked[0] == 1
