"""Long random runs against the C++ engine: what its every-day tests are too short for.

A case is a call of any dtype: shapes from one query and one key to several tiles, strips and parts,
heads grouped or not, E ≠ D; any mask, start, softcap, sink, bias, scale and dropout; scores from 0
to above ±1e4; up to two entries of q, k or v that are NaN, infinite, denormal or 0; four layouts in
memory.  Output, gradients and the answers of all questions are held against the formula in float64,
at every level.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from cases import LAYOUTS, double, laid_out
from levels import LEVELS, at_level, call_of, large
from regard.core.questions import ByDistance, Question, TopK

EPS = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-24,
    torch.float64: 2.0**-53,
}
ODD = (float("nan"), float("inf"), float("-inf"), 1e-40, -3e-39, 0.0)


@st.composite
def calls(draw: Any) -> dict[str, Any]:
    """A call large or small, with odd numbers in places, anywhere in memory."""
    drawn = draw(large())
    drawn["dtype"] = draw(st.sampled_from(list(EPS)))
    # In float64 the engine goes one row after another.
    if draw(st.booleans()) or drawn["dtype"] == torch.float64:
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
    drawn["size"] = draw(st.sampled_from([0.0, 0.3, 1.0, 8.0, 1e3, 1e4]))
    drawn["dropout"] = draw(st.sampled_from([0.0, 0.0, 0.0, 0.3]))
    odd = st.tuples(st.integers(0, 2), st.integers(0, 2**20), st.sampled_from(ODD))
    drawn["odd"] = draw(st.lists(odd, max_size=2))
    return drawn


def args_of(drawn: dict[str, Any], wide: bool) -> tuple[list[torch.Tensor], dict[str, Any]]:
    """The arrays, and all else; ``wide`` is in float64, where the arrays lie plainly."""
    args, options = call_of(drawn, drawn["dtype"])
    for which, place, number in drawn["odd"]:
        flat = args[which].view(-1)
        flat[place % flat.numel()] = number
    if not wide:
        return [laid_out(a, drawn["layout"]) for a in args], options
    doubles = {n: a.double() if isinstance(a, torch.Tensor) else a for n, a in options.items()}
    return [a.double() for a in args], doubles


def reach(drawn: dict[str, Any], q: torch.Tensor, k: torch.Tensor) -> float:
    """No sum of a score's terms, each without its sign, is larger than this."""
    longest = [a.double().nan_to_num(0, 0, 0).norm(dim=-1).max().item() for a in (q, k)]
    scale = 0.2 if drawn["score"] == "scale" else q.shape[-1] ** -0.5
    most = 5.0 + (q.shape[-2] + k.shape[-2]) * (drawn["score"] in ("alibi", "sum"))
    return longest[0] * longest[1] * scale + most


def moved(drawn: dict[str, Any], q: torch.Tensor, k: torch.Tensor) -> float:
    """An error of the scores moves the weights by as much, relative to 1."""
    sums = 2.0**-53 if drawn["dtype"] == torch.float64 else 2.0**-24
    return 16 * sums * (1 + reach(drawn, q, k))


def both(drawn: dict[str, Any], engine: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """What goes in, and output and gradients."""
    args, options = args_of(drawn, engine == "formula")
    leaves = [a.detach().requires_grad_() for a in args]
    dropout = {"dropout": drawn["dropout"], "generator": drawn["seed"]}
    output = regard.attend(*leaves, **options, **dropout, engine=engine)
    along = torch.randn(output.shape, generator=torch.Generator().manual_seed(drawn["seed"]))
    return args, [output.detach(), *torch.autograd.grad(output, leaves, along.to(output.dtype))]


def check(drawn: dict[str, Any]) -> None:
    """Where the true output and gradients are finite, so are the engine's, and near."""
    _, truth = both(drawn, "formula")
    for level in LEVELS:
        with at_level(level):
            args, found = both(drawn, "native")
        near(drawn, args, found, truth, level)


def near(
    drawn: dict[str, Any],
    args: list[torch.Tensor],
    found: list[torch.Tensor],
    truth: list[torch.Tensor],
    level: str,
) -> None:
    dtype = drawn["dtype"]
    q, k, v = (a.double().nan_to_num(0, 0, 0).abs().max().item() for a in args)
    T, D, E = args[0].shape[-2], args[0].shape[-1], args[2].shape[-1]
    scale = 0.2 if drawn["score"] == "scale" else D**-0.5
    share = 6 * EPS[dtype] + min(1.0, moved(drawn, *args[:2]))
    many = T * args[0].shape[1] / args[1].shape[1]
    v /= 1 - drawn["dropout"]
    ds = 8 * E**0.5 * v
    sizes = [v, scale * ds * k, scale * ds * q * many, 4 * many / (1 - drawn["dropout"])]
    odd = any(not torch.isfinite(a).all() for a in args)
    clean_BHT = torch.isfinite(truth[0]).all(-1)
    clean_BG = clean_BHT.view(*args[1].shape[:2], -1).all(-1)
    for name, got, want, size in zip(["o", "q", "k", "v"], found, truth, sizes, strict=True):
        fine = torch.isfinite(want) & (want.abs() < torch.finfo(dtype).max / 4)
        if name != "o":  # a row that has no answer has no gradients
            fine &= clean_BHT[..., None] if name == "q" else clean_BG[..., None, None]
        assert torch.isfinite(got[fine]).all(), (name, level, drawn)
        if odd and name != "o":  # a derivative beside what is infinite is a matter of rounding
            continue
        far = (got.double() - want)[fine].abs().max().item() if fine.any() else 0.0
        assert far <= share * size + torch.finfo(dtype).tiny, (
            name,
            level,
            far,
            share * size,
            drawn,
        )


def answers(drawn: dict[str, Any], engine: str) -> dict[str, np.ndarray]:
    """What is asked of the weights."""
    (q, k, _), options = args_of(drawn, engine == "formula")
    W = regard.weights(q, k, **options, engine=engine)
    T, S = q.shape[-2], k.shape[-2]
    asked: dict[str, Question] = {
        "topk": regard.topk(1 + drawn["seed"] % 12),
        "entropy": regard.entropy(),
        "received": regard.received(),
        "by distance": regard.by_distance(),
        "mass": regard.mass(range(0, S, 3)),
        "image": regard.image(16, 32, rows=slice(T // 3, None), keys=slice(S - S // 3)),
        "largest": regard.image(9, 40, reduce="max"),
    }
    found = [numbers(answer) for answer in W.ask(*asked.values())]
    return {
        **dict(zip(asked, found, strict=True)),
        "lse": double(W.lse),
        "rows": double(W[..., : T // 2 + 1, ::2]),
    }


def numbers(answer: Any) -> np.ndarray:
    if isinstance(answer, TopK):
        return double(answer.weights)
    return double(answer.weight if isinstance(answer, ByDistance) else answer)


def check_answers(drawn: dict[str, Any]) -> None:
    """Where a question's true answer is finite, so is the engine's, and near."""
    truth = answers(drawn, "formula")
    (q, k, _), _ = args_of(drawn, wide=False)
    error = moved(drawn, q, k) + 2.0**-19
    # A row that sees what is NaN or +inf has no weights.
    clean_BHT = truth["lse"] < np.inf
    of_rows = dict.fromkeys(["topk", "entropy", "mass"], clean_BHT)
    of_rows["rows"] = clean_BHT[..., : q.shape[-2] // 2 + 1]
    of_rows["lse"] = np.isfinite(truth["lse"])
    for level in LEVELS:
        with at_level(level):
            found = answers(drawn, "native")
        for name, want in truth.items():
            clean = of_rows.get(name, clean_BHT.all(-1))
            assert np.isfinite(want[clean]).all(), (name, level, drawn)
            far = np.abs(found[name][clean] - want[clean]) / (1 + np.abs(want[clean]))
            most = 8 * error if name == "entropy" else error
            assert (far <= most).all(), (name, level, far.max(), most, drawn)


@pytest.mark.campaign
@given(drawn=calls())
@settings(max_examples=20_000)
def test_nothing_is_found_in_twenty_thousand_calls(drawn: dict[str, Any]) -> None:
    check(drawn)


@pytest.mark.campaign
@given(drawn=calls())
@settings(max_examples=5_000)
def test_nothing_is_found_in_five_thousand_sets_of_questions(drawn: dict[str, Any]) -> None:
    check_answers(drawn)


@given(drawn=calls())
@settings(max_examples=40)
def test_the_campaign_in_short(drawn: dict[str, Any]) -> None:
    check(drawn)
    check_answers(drawn)
