"""Long random runs against the C++ engine: what its every-day tests are too short for."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import LAYOUTS, laid_out
from levels import LEVELS, at_level, call_of, large

EPS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-24}
ODD = (float("nan"), float("inf"), float("-inf"), 1e-40, -3e-39, 0.0)


@st.composite
def calls(draw: Any) -> dict[str, Any]:
    """A call large or small, with odd numbers in places, anywhere in memory."""
    drawn = draw(large())
    if draw(st.booleans()):
        (B, H, T, D), (_, G, S, _), (*_, E) = drawn["shapes"]
        T, S = draw(st.integers(1, 40)), draw(st.sampled_from([S, draw(st.integers(1, 40))]))
        D, E = draw(st.integers(1, 36)), draw(st.integers(1, 36))
        drawn["shapes"] = [(B, H, T, D), (B, G, S, D), (B, G, S, E)]
        masks = [
            None,
            regard.causal(),
            regard.window(5),
            regard.causal() | regard.prefix(3),
            ~regard.window(before=1, after=2),
            regard.lengths([S // 2, S], [0, S // 3]),
            regard.where(lambda i, j: (i + j) % 3 > 0),
        ]
        drawn["mask"] = draw(st.sampled_from(masks))
    drawn["layout"] = draw(st.sampled_from(LAYOUTS))
    drawn["size"] = draw(st.sampled_from([0.0, 0.3, 1.0, 8.0, 1e3]))
    odd = st.tuples(st.integers(0, 2), st.integers(0, 2**20), st.sampled_from(ODD))
    drawn["odd"] = draw(st.lists(odd, max_size=2))
    return drawn


def both(
    drawn: dict[str, Any], dtype: torch.dtype, engine: str
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What goes in, and output and gradients."""
    args, options = call_of(drawn, dtype)
    for which, place, number in drawn["odd"]:
        flat = args[which].view(-1)
        flat[place % flat.numel()] = number
    wide = engine == "formula"
    args = [a.double() if wide else laid_out(a, drawn["layout"]) for a in args]
    options = {
        n: a.double() if wide and isinstance(a, torch.Tensor) else a for n, a in options.items()
    }
    leaves = [a.detach().requires_grad_() for a in args]
    output = regard.attend(*leaves, **options, engine=engine)
    along = torch.randn(output.shape, generator=torch.Generator().manual_seed(drawn["seed"]))
    return args, [output.detach(), *torch.autograd.grad(output, leaves, along.to(output.dtype))]


def check(drawn: dict[str, Any], dtype: torch.dtype) -> None:
    """Where the truth is finite, so is the answer, and near it."""
    args, found = both(drawn, dtype, "native")
    _, truth = both(drawn, dtype, "formula")
    q, k, v = (a.double().nan_to_num(0, 0, 0).abs().max().item() for a in args)
    T, D, E = args[0].shape[-2], args[0].shape[-1], args[2].shape[-1]
    scale = 0.2 if drawn["score"] == "scale" else D**-0.5
    # An error of the scores moves the weights by as much, up to all of them.
    moved = min(1.0, 8 * 2.0**-23 * (1 + q * k * D * scale))
    share = 6 * EPS[dtype] + moved
    many = T * args[0].shape[1] / args[1].shape[1]
    ds = 8 * E**0.5 * v
    sizes = [v, scale * ds * k, scale * ds * q * many, 4 * many]
    odd = any(not torch.isfinite(a).all() for a in args)
    for name, got, want, size in zip(["o", "q", "k", "v"], found, truth, sizes, strict=True):
        fine = torch.isfinite(want) & (want.abs() < torch.finfo(dtype).max / 4)
        assert torch.isfinite(got[fine]).all(), (name, drawn)
        if odd:  # a derivative beside what is infinite is a matter of rounding
            continue
        far = (got.double() - want)[fine].abs().max().item() if fine.any() else 0.0
        assert far <= share * size + torch.finfo(dtype).tiny, (name, far, share * size, drawn)


@pytest.mark.campaign
@pytest.mark.parametrize("level", LEVELS)
@given(drawn=calls(), dtype=st.sampled_from(list(EPS)))
@settings(max_examples=4000)
def test_nothing_is_found_in_twenty_thousand_calls(
    level: str, drawn: dict[str, Any], dtype: torch.dtype
) -> None:
    with at_level(level):
        check(drawn, dtype)


@given(drawn=calls(), dtype=st.sampled_from(list(EPS)))
@settings(max_examples=40)
def test_the_campaign_in_short(drawn: dict[str, Any], dtype: torch.dtype) -> None:
    check(drawn, dtype)
