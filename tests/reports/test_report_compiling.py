"""Reports of flex_attention that is compiled again for every length."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import regard
from cases import double

torch = pytest.importorskip("torch")


@pytest.fixture
def graphs() -> Iterator[Any]:
    """A backend that runs what it gets and counts it: ``frame_count``."""
    from torch._dynamo.testing import CompileCounter

    torch._dynamo.reset()
    yield CompileCounter()
    torch._dynamo.reset()


def window(b: Any, h: Any, i: Any, j: Any) -> Any:
    return (j <= i) & (i - j < 8)


@pytest.mark.campaign
def test_peer_pytorch_141486_a_block_mask_is_compiled_twice_for_all_lengths(graphs: Any) -> None:
    # Mended: torch 2.13 takes the second length as a sign that lengths vary.
    from torch.nn.attention.flex_attention import create_block_mask

    make = torch.compile(create_block_mask, backend=graphs)
    for length in (128, 256, 384):
        make(window, None, None, length, length, device="cpu")
    assert graphs.frame_count == 2


@pytest.mark.parametrize(("dynamic", "compiled"), [(None, 2), (False, 3)], ids=repr)
def test_peer_unsloth_1960_three_lengths_are_compiled(
    graphs: Any, dynamic: bool | None, compiled: int
) -> None:
    # Mended, unless torch 2.13 is told that lengths are fixed: then each is compiled still.
    from torch.nn.attention.flex_attention import flex_attention

    attend = torch.compile(flex_attention, backend=graphs, dynamic=dynamic)
    for length in (16, 24, 32):
        attend(*torch.randn(3, 1, 1, length, 4))
    assert graphs.frame_count == compiled


def test_pytorch_141486_a_window_is_compiled_twice_for_all_lengths(
    graphs: Any, formula: Any
) -> None:
    mask = regard.causal() & regard.window(8)
    attend = torch.compile(
        lambda q, k, v: regard.attend(q, k, v, mask), backend=graphs, fullgraph=True
    )
    for length in (16, 24, 40, 33):
        q, k, v = torch.randn(3, 1, 2, length, 4).double()
        i, j = np.indices((length, length))
        truth = formula(q, k, v, (j <= i) & (i - j < 8)).output
        np.testing.assert_allclose(double(attend(q, k, v)), truth, atol=1e-12)
    assert graphs.frame_count <= 2


def test_unsloth_1960_no_length_needs_padding_to_a_compiled_one(graphs: Any, formula: Any) -> None:
    attend = torch.compile(
        lambda q, k, v: regard.attend(q, k, v, regard.causal()), backend=graphs, fullgraph=True
    )
    for new, past in ((5, 5), (9, 9), (3, 12), (2, 31)):
        q, (k, v) = torch.randn(1, 2, new, 4).double(), torch.randn(2, 1, 2, past, 4).double()
        truth = formula(q, k, v, np.tri(new, past, past - new, dtype=bool)).output
        np.testing.assert_allclose(double(attend(q, k, v)), truth, atol=1e-12)
    assert graphs.frame_count <= 3  # equal lengths, then a cache: two kinds of call
