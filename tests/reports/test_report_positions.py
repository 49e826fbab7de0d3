"""Reports of causal masks: in which corner they sit with a cache, and beside another mask."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import regard
from cases import double

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn

ENGINES = ["formula", "tiles", "sdpa"]

LOWER_RIGHT = {
    (2, 5): [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]],
    (5, 2): [[0, 0], [0, 0], [0, 0], [1, 0], [1, 1]],
}
UPPER_LEFT = {
    (2, 5): [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0]],
    (5, 2): [[1, 0], [1, 1], [1, 1], [1, 1], [1, 1]],
}


def tensors(heads: int, T: int, S: int, D: int = 4) -> list[Any]:
    rng = np.random.default_rng(0)
    return [torch.tensor(rng.normal(size=(1, heads, n, D))) for n in (T, S, S)]


def read(output: Any) -> list[list[int]]:
    """Which keys each query read, where v is the identity."""
    return (output[0, 0] > 0).int().tolist()


def probe(T: int, S: int) -> Any:
    zeros = torch.zeros(1, 1, max(T, S), 4)
    return zeros[:, :, :T], zeros[:, :, :S], torch.eye(S)[None, None]


@pytest.mark.parametrize("shape", [(2, 5), (5, 2)], ids=str)
def test_peer_pytorch_108108_is_causal_sits_in_the_upper_left(shape: Any) -> None:
    # Still so in torch 2.13.  A mask object of its own sits in the other corner; it warns of NaN in
    # rows without keys, which it does not give any more.
    from torch.nn.attention.bias import causal_lower_right

    q, k, v = probe(*shape)
    assert read(F.scaled_dot_product_attention(q, k, v, is_causal=True)) == UPPER_LEFT[shape]
    with pytest.warns(UserWarning, match="NaNs") if shape == (5, 2) else nullcontext():
        aligned = causal_lower_right(*shape)
    found = F.scaled_dot_product_attention(q, k, v, attn_mask=aligned)
    assert read(found) == LOWER_RIGHT[shape]
    assert found.isfinite().all()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("shape", [(2, 5), (5, 2)], ids=str)
def test_pytorch_108108_the_last_query_sits_at_the_last_key(
    engine: str, shape: Any, formula: Any
) -> None:
    T, S = shape
    q, k, v = probe(T, S)
    for start, table in ((None, LOWER_RIGHT[shape]), (0, UPPER_LEFT[shape])):
        found = regard.attend(q, k, v, regard.causal(), start=start, engine=engine)
        assert read(found) == table
        arrays = tensors(2, T, S)
        output = regard.attend(*arrays, regard.causal(), start=start, engine=engine)
        truth = formula(*arrays, np.array(table, dtype=bool)).output
        np.testing.assert_allclose(double(output), truth, atol=1e-12)


def test_peer_pytorch_144858_with_is_causal_one_new_query_reads_the_first_key_only() -> None:
    # Still so in torch 2.13: whatever the cache holds, each new token gets the same vector.
    q, k, v = tensors(2, 1, 7)
    for n in (1, 4, 7):
        found = F.scaled_dot_product_attention(q, k[:, :, :n], v[:, :, :n], is_causal=True)
        torch.testing.assert_close(found, v[:, :, :1])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("step", [1, 3])
def test_pytorch_144858_a_cache_that_grows_gives_what_the_whole_text_gave(
    engine: str, step: int, formula: Any
) -> None:
    q, k, v = tensors(2, 9, 9)
    truth = formula(q, k, v, np.tri(9, dtype=bool)).output
    for at in range(0, 9, step):
        new, past = slice(at, at + step), slice(0, at + step)
        found = regard.attend(
            q[:, :, new], k[:, :, past], v[:, :, past], regard.causal(), engine=engine
        )
        np.testing.assert_allclose(double(found), truth[:, :, new], atol=1e-12)


def test_peer_mlx_2836_causal_sits_in_the_lower_right() -> None:
    # As its maintainers meant it to be; the report expected torch's corner.
    mx = pytest.importorskip("mlx.core", exc_type=ImportError)
    q, k, v = (mx.array(a.numpy()) for a in probe(2, 5))
    found = mx.fast.scaled_dot_product_attention(q, k, v, scale=1.0, mask="causal")
    assert read(torch.tensor(np.array(found))) == LOWER_RIGHT[2, 5]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("corner", ["lower right", "upper left"])
def test_mlx_2836_start_says_which_corner_is_meant(engine: str, corner: str, formula: Any) -> None:
    T, S = 32, 100  # as in the report, shorter
    q, k, v = tensors(3, T, S, 8)
    offset = S - T if corner == "lower right" else 0
    seen = np.tri(T, S, k=offset, dtype=bool)
    found = regard.attend(q, k, v, regard.causal(), start=offset, engine=engine)
    np.testing.assert_allclose(double(found), formula(q, k, v, seen).output, atol=1e-12)
    if corner == "lower right":  # which is what goes without saying
        default = regard.attend(q, k, v, regard.causal(), engine=engine)
        assert torch.equal(default, found)


PADDING = torch.tensor([[False, False, False, True], [False] * 4])
"""Two sentences, of three and of four tokens."""


def test_peer_pytorch_100709_causal_with_a_mask_depends_on_the_backend() -> None:
    # Still so in torch 2.13: one kernel refuses the two together, another joins them.
    q, k, v = (torch.randn(2, 1, 4, 4) for _ in range(3))
    seen = ~PADDING[:, None, None]
    backends = torch.nn.attention.SDPBackend

    def attend(backend: Any, mask: Any, **options: Any) -> Any:
        with torch.nn.attention.sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, mask, **options)

    with pytest.raises(RuntimeError, match="attn_mask should not be set when is_causal"):
        attend(backends.MATH, seen, is_causal=True)
    joined = attend(backends.FLASH_ATTENTION, seen.expand(2, 1, 4, 4), is_causal=True)
    both = attend(backends.MATH, seen & torch.ones(4, 4).tril().bool())
    torch.testing.assert_close(joined, both)
    # And the module, which the report is about, wants the causal mask spelled out beside the flag.
    layer = nn.MultiheadAttention(4, 1, batch_first=True)
    x = torch.randn(2, 4, 4)
    with pytest.raises(RuntimeError, match="Need attn_mask if specifying the is_causal hint"):
        layer(x, x, x, key_padding_mask=PADDING, is_causal=True, need_weights=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_pytorch_100709_causal_joins_any_other_mask(engine: str, formula: Any) -> None:
    rng = np.random.default_rng(0)
    q, k, v = (torch.tensor(rng.normal(size=(2, 3, 4, 4))) for _ in range(3))
    seen = np.tri(4, dtype=bool) & ~PADDING.numpy()[:, None, None]
    truth = formula(q, k, v, seen).output
    hidden = regard.keep(PADDING[:, None, None])
    for other in (~hidden, regard.lengths([3, 4])):
        for mask in (regard.causal() & other, other & regard.causal()):
            found = regard.attend(q, k, v, mask, engine=engine)
            np.testing.assert_allclose(double(found), truth, atol=1e-12)
