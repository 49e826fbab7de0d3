"""A model that we train shows induction heads, and without them it no longer repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard

torch = pytest.importorskip("torch", reason="needs torch")

VOCABULARY, LENGTH, WIDTH, HEADS = 32, 32, 64, 2


class Block(torch.nn.Module):
    """Attention and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.qkv = torch.nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = torch.nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Two(torch.nn.Module):
    """Two layers of attention over tokens and places."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.places = torch.nn.Embedding(LENGTH, WIDTH)
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, input_ids: Any) -> Any:
        x = self.tokens(input_ids) + self.places.weight[: input_ids.shape[1]]
        return self.head(self.norm(self.blocks(x)))


def repeated(batch: int, period: int) -> Any:
    """(batch, LENGTH) random tokens, over again after ``period`` of them."""
    ids = torch.randint(0, VOCABULARY, (batch, period))
    return ids.repeat(1, -(-LENGTH // period))[:, :LENGTH]


def trained() -> Any:
    """About 1,300 steps, half a minute: what comes back comes after 5 to 16 tokens."""
    torch.manual_seed(0)
    model, mean = Two(), 4.0
    steps = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.98))
    for _ in range(4000):
        period = int(torch.randint(5, 17, ()))
        ids = repeated(64, period)
        logits = model(ids)[:, period - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, period:].flatten())
        steps.zero_grad()
        loss.backward()
        steps.step()
        mean = 0.95 * mean + 0.05 * float(loss.detach())
        if mean < 0.1:
            break
    return model.eval()


@pytest.mark.campaign
def test_heads_that_are_found_for_induction_are_those_that_repeat() -> None:
    model, period = trained(), 16
    ids = repeated(8, period)
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    heads = seen.roles()
    named = [one for one in heads if one.role == "induction"]
    before = [one for one in heads if one.role == "previous"]
    others = [one for one in heads if one.role not in ("induction", "previous")]
    assert {one.layer for one in named} == {1}
    assert {one.layer for one in before} == {0}  # what induction is built on
    assert {one.role for one in seen.find("induction", len(named))} == {"induction"}
    assert others

    def loss(some: Any, after: int = 1) -> float:
        """Of the tokens that come again, without these heads; with ``after`` 0, with them."""
        found = seen.without([(one.layer, one.head) for one in some], logits=lambda given: given)
        assert found.loss is not None
        return float(found.loss[after][:, period - 1 :].mean())

    chance = float(np.log(VOCABULARY))
    assert loss(named, after=0) < 0.3
    assert loss(named) > 0.6 * chance
    assert loss(before) > 0.6 * chance
    assert max(loss([one]) for one in others) < 0.2 * chance
