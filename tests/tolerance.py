"""The contract's tolerance: how far an engine may be from the formula in float64.

For each output, in the maximum norm: at most 2 × (gradients 3 ×) the float64 error of the formula
whose weights P are rounded to the dtype and whose scores and sums are float32, plus
4 · eps · max |visible v|.  float64 has an explicit bound, n · eps.

A gradient has no visible v for its floor.  What stands there is the largest that the terms of its
sum can be, since these cancel: a softmax over one key has gradient 0 as a difference of two
numbers of that size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from cases import Case, arrays, by_hand, double

EPS = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float64": 2.0**-53}


def plainly(case: Case, dtype: str, sums: str, wanted: bool) -> list[np.ndarray]:
    """Output (and gradients of its loss) in torch's own words: no rule and no engine of ours.

    The inputs are rounded to ``dtype``, scores and sums are made in ``sums``, and what is between
    them, P, is rounded to ``dtype`` unless ``sums`` is float64.
    """
    (q, k, v, _), options = arrays(case, "torch", dtype)
    wide, narrow = getattr(torch, sums), getattr(torch, dtype)
    leaves = [a.clone().to(wide if sums == "float64" else narrow) for a in (q, k, v)]
    leaves = [a.requires_grad_(wanted) for a in leaves]
    q, k, v = (a.to(wide) for a in leaves)
    group = q.shape[-3] // k.shape[-3]
    k, v = (a.repeat_interleave(group, -3) for a in (k, v))
    s = q @ k.mT * options.get("scale", q.shape[-1] ** -0.5)
    if cap := options.get("softcap"):
        s = cap * torch.tanh(s / cap)
    if (bias := options.get("bias")) is not None:
        s = s + bias.to(wide)
    p = softmax(s, torch.tensor(case.seen()), options.get("sink"))
    output = p @ v if sums == "float64" else (p.to(narrow).to(wide) @ v).to(narrow)
    if not wanted:
        return [double(output)]
    return [double(output), *map(double, torch.autograd.grad(loss(output), leaves))]


def softmax(s: Any, seen: Any, sink: Any = None) -> Any:
    """The weights of scores (…, H, T, S) where ``seen``; a sink (H,) has the rest of them."""
    S = s.shape[-1]
    s = s.masked_fill(~seen, float("-inf"))
    if sink is not None:
        s = torch.cat([s, sink.to(s.dtype)[:, None, None].expand(*s.shape[:-1], 1)], -1)
    top = s.amax(-1, keepdim=True).detach()
    p = torch.exp(s - torch.where(torch.isfinite(top), top, 0.0))
    return (p / p.sum(-1, keepdim=True).clamp_min(torch.finfo(s.dtype).tiny))[..., :S]


def loss(output: Any) -> Any:
    """A number that every entry of the output moves, each differently."""
    return (output.to(torch.float64).sin() * 0.5 + output.to(torch.float64)).sum()


def exact(case: Case, dtype: str, wanted: bool = False) -> list[np.ndarray]:
    """The truth: float64 throughout, of the inputs rounded to ``dtype``."""
    return plainly(case, dtype, "float64", wanted)


def visible_v(case: Case) -> float:
    """The largest |v| that any query may attend to."""
    lead, H, G, T, S = case.sizes
    by_key = case.seen().reshape(*lead, G, H // G * T, S).any(-2)[..., None]
    return float(np.abs(np.where(by_key, case.v, 0)).max(initial=0))


def gradient_sizes(case: Case) -> tuple[float, float, float]:
    """The largest that |dq|, |dk| and |dv| of ``loss`` can be, by their formulas.

    dq_i = scale · Σ_j dS_ij k_j,  dk_j = scale · Σ_i dS_ij q_i,  dv_j = Σ_i P_ij do_i,  with
    dS_ij = P_ij (do_i · v_j − do_i · o_i)  and  |do| ≤ 1.5.
    """
    lead, H, G, T, S = case.sizes
    _, w, _ = by_hand(case)
    received = w.reshape(*lead, G, H // G * T, S).sum(-2).max(initial=0)
    scale = abs(case.options.get("scale", case.q.shape[-1] ** -0.5))
    ds = scale * 1.5 * case.v.shape[-1] * visible_v(case)
    q, k = (float(np.abs(a).max(initial=0)) for a in (case.q, case.k))
    return ds * k, ds * q * received, 1.5 * received


def bounds(case: Case, dtype: str, gradients: bool = False) -> list[float]:
    """How far each output may be from ``exact``."""
    if dtype == "float64":
        n = case.k.shape[-2] + case.q.shape[-1] + 8
        size = 1 + max(float(np.abs(a).max(initial=0)) for a in (case.q, case.k, case.v)) ** 4
        return [32 * n * EPS[dtype] * size] * (4 if gradients else 1)
    found = plainly(case, dtype, "float32", gradients)
    truth = exact(case, dtype, gradients)
    errors = [float(np.abs(f - t).max(initial=0)) for f, t in zip(found, truth, strict=True)]
    sizes = [visible_v(case), *gradient_sizes(case)]
    factors = [2, 3, 3, 3]
    return [
        factor * e + 4 * EPS[dtype] * size
        for factor, e, size in zip(factors, errors, sizes, strict=False)
    ]


def assert_within(
    found: Sequence[Any], truth: Sequence[np.ndarray], allowed: Sequence[float], what: Any = ""
) -> None:
    """Each array of ``found`` is as near to the truth as allowed, and has its shape."""
    for array, want, bound in zip(found, truth, allowed, strict=True):
        got = double(array)
        assert got.shape == want.shape, f"shape {got.shape}, not {want.shape} {what}"
        far = float(np.abs(got - want).max(initial=0))
        assert far <= bound, f"off by {far:.3g}, allowed {bound:.3g} {what}"
