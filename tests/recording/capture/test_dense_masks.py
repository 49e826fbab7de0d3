"""A model's dense masks and biases, read back as rules."""

from __future__ import annotations

from typing import Any

import pytest

import regard
from regard.recording.capture import dense_masks
from regard.rules.masks import Keep, Spans
from regard.rules.scores import Dense, Relative

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")


@pytest.mark.parametrize(("T", "S", "start"), [(4, 4, None), (3, 7, None), (5, 3, 0), (1, 6, 2)])
def test_a_bias_is_read_back_where_its_queries_stand(
    T: int, S: int, start: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense_masks, "CHUNK", 2 * S)
    table, at = torch.randn(2, 41), S - T if start is None else start
    far = torch.arange(S) - (at + torch.arange(T))[:, None]
    given = table[:, far + 20][None]
    score = dense_masks.Biases().read(given, start)
    assert isinstance(score, Relative)
    x, y = torch.randn(1, 2, T, 4), torch.randn(1, 2, S, 4)
    torch.testing.assert_close(
        regard.weights(x, y, bias=score, start=start).dense(),
        regard.weights(x, y, bias=given).dense(),
    )
    other = given.clone()
    other[0, 1, -1, -1] += 1
    kept = dense_masks.Biases().read(other, start)
    assert isinstance(kept, Relative if min(T, S) == 1 else Dense)
    assert dense_masks.Biases().read(torch.zeros_like(given), start) is None


def test_a_mask_that_is_no_run_of_keys_is_kept_as_it_is() -> None:
    from regard.recording.capture.dense_masks import Masks

    q, k = torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, 5, 4)
    seen = torch.rand(2, 1, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.5
    seen[0, 0, 0] = torch.tensor([True, False, True, False, False])
    added = torch.where(seen, 0.0, torch.finfo(torch.float32).min)
    for dense in (seen, added):
        mask, bias = Masks().read(dense, q, k)
        assert bias is None
        assert isinstance(mask, Keep)
        assert torch.equal(mask.array, seen)
    shifted = torch.where(seen, 0.5, float("-inf"))
    mask, bias = Masks().read(shifted, q, k)
    assert torch.equal(bias, shifted)
    whole = torch.ones(1, 1, 3, 5, dtype=torch.bool)
    masks = Masks()
    assert masks.read(whole, q, k) == (None, None)
    assert masks.read(whole, q, k) == (None, None)
    heads = torch.ones(1, 2, 3, 5, dtype=torch.bool)
    heads[0, 1, :, 4] = False
    assert isinstance(Masks().read(heads, q, k)[0], Keep)


@pytest.mark.parametrize("shape", [(3, 5), (4, 3, 5), (1, 3, 5), (2, 1, 3, 5), (2, 4, 3, 5)])
@pytest.mark.parametrize("kind", ["runs", "odd", "added"])
def test_a_mask_of_any_shape_means_what_it_means_to_torch(shape: tuple[int, ...], kind: str):
    from regard.recording.capture.dense_masks import Masks

    random = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 4, 3, 8, generator=random), torch.randn(2, 4, 5, 8, generator=random)
    if kind == "runs":
        dense = torch.arange(5) < torch.randint(1, 6, (*shape[:-1], 1), generator=random)
    else:
        dense = torch.rand(shape, generator=random) < 0.5
        dense[..., 0] = True
    if kind == "added":
        added = torch.randn(shape, generator=random)
        dense = torch.where(dense, added, torch.finfo(torch.float32).min)
    identity = torch.eye(5).expand(2, 4, 5, 5)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, identity, dense)
    mask, bias = Masks().read(dense, q, k)
    torch.testing.assert_close(regard.weights(q, k, mask, bias=bias).dense(), expected)
    if kind == "runs" and shape[-3:-2] in ((), (1,)):
        assert isinstance(mask, Spans)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32])
def test_a_mask_longer_than_the_keys_is_cut_to_them(dtype: Any) -> None:
    from regard.recording.capture.dense_masks import Masks

    allowed = torch.ones(2, 1, 3, 9, dtype=torch.bool).tril(2)
    dense = allowed if dtype == torch.bool else torch.where(allowed, 0.0, float("-inf"))
    masks = Masks()
    for keys in (5, 4, 5):  # one mask may meet keys of several lengths
        q, k = torch.zeros(2, 1, 3, 4), torch.zeros(2, 1, keys, 4)
        mask, bias = masks.read(dense, q, k)
        assert bias is None
        assert torch.equal(regard.weights(q, k, mask).dense() > 0, allowed[..., :keys])
