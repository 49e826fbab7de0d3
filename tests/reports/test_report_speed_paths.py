"""Reports of calls that fall to a slow path.  No time is measured: what is done is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from cases import Case, arrays, as_library, double
from regard.core import tiles
from regard.core.call import check
from tolerance import assert_within, bounds, exact

torch = pytest.importorskip("torch")
F = torch.nn.functional

LLAMA = {
    "vocab_size": 32,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Query, key and options of every call of torch's attention."""
    calls: list[tuple[Any, Any, dict[str, Any]]] = []
    kernel = F.scaled_dot_product_attention

    def spy(q: Any, k: Any, v: Any, **options: Any) -> Any:
        calls.append((q, k, options))
        return kernel(q, k, v, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", spy)
    return calls


def half_case(mask: Any = None, allowed: Any = lambda *_: True) -> Case:
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, 1, 2, 40, 16))
    return Case(q * 2, k, v, mask, allowed, None)


def test_peer_pytorch_146508_float16_is_computed_on_a_cpu() -> None:
    # The report is of time, which is not asserted here; the numbers of torch 2.13 are good.
    case = half_case()
    (q, k, v, _), _ = arrays(case, "torch", "float16")
    output = F.scaled_dot_product_attention(q, k, v)
    assert output.dtype == torch.float16
    assert_within([output], exact(case, "float16"), bounds(case, "float16"))


@pytest.mark.parametrize("engine", ["auto", "tiles"])
@pytest.mark.parametrize("library", ["torch", "numpy"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
def test_pytorch_146508_float16_keeps_within_the_tolerance_on_every_engine(
    engine: str, library: str, causal: bool
) -> None:
    case = half_case(regard.causal(), lambda b, h, t, i, j: j <= i) if causal else half_case()
    (q, k, v, mask), _ = arrays(case, library, "float16")
    output = regard.attend(q, k, v, mask, engine=engine)
    assert str(output.dtype).endswith("float16")
    assert_within([output], exact(case, "float16"), bounds(case, "float16"))
    expected = engine if engine != "auto" else "native"
    assert regard.plan(q, k, v, mask, engine=engine).engine == expected


@pytest.mark.parametrize("library", ["torch", "numpy"])
def test_pytorch_146508_a_long_float16_sum_keeps_its_small_terms(library: str) -> None:
    # One after the other in float16, 4096 equal terms would stand still at 2048.
    n = 4096
    q = as_library(np.zeros((1, 1, 1, 8)), library, "float16")
    k = as_library(np.zeros((1, 1, n, 8)), library, "float16")
    v = as_library(np.arange(n)[:, None] % 2 * np.ones((1, 1, 1, 8)), library, "float16")
    for engine in ("auto", "tiles"):
        np.testing.assert_allclose(double(regard.attend(q, k, v, engine=engine)), 0.5, rtol=1e-3)
    np.testing.assert_allclose(double(regard.weights(q, k).lse), np.log(n), rtol=1e-6)


def test_peer_transformers_29777_a_window_is_a_dense_mask_over_all_keys(asked: Any) -> None:
    # Still so in transformers 5.24 with sdpa: the window hides, and saves nothing.
    transformers = pytest.importorskip("transformers")
    config = transformers.MistralConfig(
        **LLAMA, num_key_value_heads=1, sliding_window=4, attn_implementation="sdpa"
    )
    with torch.no_grad():
        transformers.MistralModel(config).eval()(torch.arange(16)[None])
    ((q, k, options),) = asked
    assert (q.shape[-2], k.shape[-2]) == (16, 16)
    i, j = np.indices((16, 16))
    assert np.array_equal(options["attn_mask"][0, 0], (j <= i) & (i - j < 4))


def entries(T: int, mask: regard.Mask) -> int:
    """How many weights ``tiles`` computes for each head."""
    x = np.zeros((1, T, 1), np.float32)
    frames = tiles.strips(check(x, x, x, mask))
    return sum((f.rows.stop - f.rows.start) * (f.keys.stop - f.keys.start) for f in frames)


def test_transformers_29777_what_a_window_hides_is_not_computed(formula: Any) -> None:
    n = 64
    mask = regard.causal() & regard.window(n)
    for T in (1_024, 4_096, 16_384):
        visible = T * n - n * (n - 1) // 2
        # A strip holds whole rows, so it is wider than the window by as many keys as it has rows.
        assert visible <= entries(T, mask) <= T * (n + tiles.TALLEST)
    assert entries(4_096, regard.lengths(4_096)) == 4_096**2
    q, k, v = torch.randn(3, 1, 1, 1_024, 8)
    q_in_double = q.double().requires_grad_()
    refused = regard.plan(q_in_double, k.double(), v.double(), mask).refused
    assert "the mask needs 6% of them" in refused["sdpa"]
    i, j = np.indices((1_024, 1_024))
    truth = formula(q, k, v, (j <= i) & (i - j < n)).output
    np.testing.assert_allclose(double(regard.attend(q, k, v, mask)), truth, atol=1e-5)


def test_transformers_29777_a_new_token_reads_its_window_only(formula: Any) -> None:
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 5_000, 8))
    mask = regard.causal() & regard.window(64)
    (frame,) = tiles.strips(check(q[:, -1:], k, v, mask))
    assert (frame.keys.start, frame.keys.stop) == (4_936, 5_000)
    found = regard.attend(q[:, -1:], k, v, mask)
    truth = formula(q[:, -1:], k[:, -64:], v[:, -64:]).output
    np.testing.assert_allclose(found, truth, atol=1e-12)


@pytest.mark.filterwarnings("ignore:`past_key_values` is deprecated:FutureWarning")
def test_peer_transformers_48633_decoding_asks_for_groups_whatever_the_device(
    asked: Any, operations: Any
) -> None:
    # Still so in transformers 5.24: without padding enable_gqa is set, and no one asks whether the
    # device has a kernel for it.  On a CPU torch 2.13 has.
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(**LLAMA, num_key_value_heads=1, attn_implementation="sdpa")
    model = transformers.LlamaModel(config).eval()
    with torch.no_grad():
        cache = model(torch.arange(8)[None]).past_key_values
        with operations() as done:
            model(torch.tensor([[8]]), past_key_values=cache)
    q, k, options = asked[-1]
    assert (q.shape[1:3], k.shape[1:3], options["enable_gqa"]) == ((4, 1), (1, 9), True)
    assert "_scaled_dot_product_flash_attention_for_cpu" in done.names


HEADS, GROUPS, KEYS = 32, 8, 50


def decoding() -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = ((2, HEADS, 1, 16), (2, GROUPS, KEYS, 16), (2, GROUPS, KEYS, 16))
    return [torch.tensor(rng.normal(size=shape)) for shape in shapes]


@pytest.mark.parametrize("engine", ["sdpa", "tiles"])
@pytest.mark.parametrize("padded", [False, True], ids=["plain", "padded"])
def test_transformers_48633_grouped_decoding_repeats_no_key(
    engine: str, padded: bool, operations: Any, formula: Any
) -> None:
    q, k, v = decoding()
    mask = regard.causal() & regard.lengths([KEYS, 30], [0, 10]) if padded else regard.causal()
    low, high = ([0, 10], [KEYS, 30]) if padded else ([0, 0], [KEYS, KEYS])
    at = np.arange(KEYS)
    seen = (at >= np.array(low)[:, None]) & (at < np.array(high)[:, None])
    with operations() as done:
        output = regard.attend(q, k, v, mask, engine=engine)
    assert done.largest <= k.untyped_storage().nbytes()  # repeated keys would be four times that
    truth = formula(q, k, v, seen[:, None, None]).output
    np.testing.assert_allclose(double(output), truth, atol=1e-12)


def test_transformers_48633_the_heads_of_a_group_are_rows_of_one_product(asked: Any) -> None:
    q, k, v = decoding()
    regard.attend(q, k, v, regard.causal(), engine="sdpa")
    ((rows, keys, options),) = asked
    assert rows.shape == (2, GROUPS, HEADS // GROUPS, 16)
    assert keys.data_ptr() == k.data_ptr()
    assert not options["enable_gqa"]
