"""The native engine's dispatch levels, and calls large enough to be cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st

import regard
from regard.core.engines import native

if native._native is None:
    pytest.skip(f"needs the native engine: {native._missing}", allow_module_level=True)

LEVELS: list[str] = native._native.levels()
KINDS = [("numpy", d) for d in ("float16", "float32", "float64")]
KINDS += [("torch", d) for d in ("float16", "bfloat16", "float32", "float64")]
EPS = {torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8, torch.float32: 2.0**-23}


@contextmanager
def at_level(level: str) -> Iterator[None]:
    """Inside, the engine runs what was compiled for ``level``."""
    before = native._native.level()
    native._native.use_level(level)
    try:
        yield
    finally:
        native._native.use_level(before)


def check_extremes(level: str, q: torch.Tensor, alone: int) -> None:
    """An infinite, NaN or huge key does what the formula says; so do ``alone`` keys of −∞."""
    for key in (torch.inf, -torch.inf, torch.nan, 1e4, -1e4, 100.0):
        k = torch.tensor([0.5, key, 1.0, 0.25])[None, :, None].to(q.dtype)
        v = torch.tensor([1.0, 2.0, 3.0, 4.0])[None, :, None].to(q.dtype)
        for sink in (None, 0.5):
            with at_level(level):
                found = regard.attend(q, k, v, sink=sink, engine="native")
            truth = regard.attend(q, k, v, sink=sink, engine="formula")
            torch.testing.assert_close(found, truth, rtol=1e-2, atol=1e-2, equal_nan=True)
    one = torch.ones(1, alone, 1, dtype=q.dtype)
    minus = torch.full((1, alone, 1), -torch.inf, dtype=q.dtype)
    with at_level(level):
        output, lse = regard.partial(one, minus, one, engine="native")
    assert (output == 0).all()
    assert torch.isneginf(lse).all()


@st.composite
def large(draw: Any) -> dict[str, Any]:
    """A call that is cut into several tiles, strips or parts."""
    T = draw(st.sampled_from([1, 2, 13, 33, 130, 257]))
    S = draw(st.sampled_from([1, 31, 65, 300, 520, 1500]))
    G, R = draw(st.sampled_from([(1, 1), (2, 1), (1, 4), (2, 3)]))
    D, E = draw(st.sampled_from([(16, 16), (64, 64), (80, 48), (128, 128), (40, 200)]))
    masks = [
        None,
        regard.causal(),
        regard.window(7),
        regard.causal() & regard.window(100) | regard.prefix(40),
        ~regard.window(before=20, after=20),
        regard.lengths([S, S // 3]),
        regard.documents(cumulative=[0, S // 4, S // 2, S]) & regard.causal(),
        regard.where(lambda i, j: (i * 3 + j) % 5 != 0),
        regard.keep(torch.rand(2, 1, 1, S, generator=torch.Generator().manual_seed(S)) < 0.5),
    ]
    return {
        "shapes": [(2, G * R, T, D), (2, G, S, D), (2, G, S, E)],
        "mask": draw(st.sampled_from(masks)),
        "start": draw(st.sampled_from([None, 0, 5, [-3, S // 2]])),
        "size": draw(st.sampled_from([0.3, 1.0, 8.0])),
        "score": draw(st.sampled_from([None, "softcap", "sink", "bias", "alibi", "sum", "scale"])),
        "seed": draw(st.integers(0, 2**16)),
    }


def call_of(drawn: dict[str, Any], dtype: torch.dtype) -> tuple[list[torch.Tensor], dict[str, Any]]:
    g = torch.Generator().manual_seed(drawn["seed"])
    q, k, v = (torch.randn(shape, generator=g) for shape in drawn["shapes"])
    H, T, S = q.shape[1], q.shape[2], k.shape[2]
    dense = torch.randn(H, T, S, generator=g)
    options: dict[str, Any] = {
        None: {},
        "softcap": {"softcap": 5.0},
        "sink": {"sink": torch.randn(H, generator=g).to(dtype)},
        "bias": {"bias": dense.to(dtype)},
        "alibi": {"bias": regard.alibi(H)},
        "sum": {"bias": regard.alibi(H) + dense.to(dtype)[:, :1]},
        "scale": {"scale": -0.2},
    }[drawn["score"]]
    start = None if drawn["start"] is None else np.array(drawn["start"])
    return [(q * drawn["size"]).to(dtype), k.to(dtype), v.to(dtype)], {
        **options, "mask": drawn["mask"], "start": start,
    }  # fmt: skip
