"""An overview says of each head what its dense weights say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.pictures.overview import ROLES, HeadView
from regard.recording.overview import CHOSEN, overview_of
from regard.recording.recording import Layer, Recording, Run
from regard.recording.roles import role_of, scores_of

torch = pytest.importorskip("torch", reason="needs torch")


def recording(*layers: Layer) -> Recording:
    made = Recording()
    made.runs.append(Run(layers=list(layers)))
    return made


def layer(T: int, mask: Any = None, seed: int = 0, heads: int = 3, **options: Any) -> Layer:
    g = torch.Generator().manual_seed(seed)
    q, k = (2 * torch.randn(1, heads, T, 8, generator=g) for _ in range(2))
    return Layer(f"layers.{seed}", q, k, mask, None, options)


def words(T: int) -> list[str]:
    return [f"w{i}" for i in range(T)]


@pytest.mark.parametrize("mask", [None, regard.causal()], ids=repr)
@pytest.mark.parametrize("T", [1, 2, 13, 300])
def test_every_number_of_a_head_is_that_of_its_dense_weights(mask: Any, T: int) -> None:
    layers = [layer(T, mask, seed) for seed in range(2)]
    told: list[tuple[int, int]] = []
    view = overview_of(
        recording(*layers), model="made", tokens=words(T), separators=[0, 2, 5][: (T + 2) // 3],
        progress=lambda done, total: told.append((done, total)),
    )  # fmt: skip
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert view.block == (2 if T == 300 else 1)
    assert len(view.chosen) == min(T, CHOSEN)
    for number, heads in enumerate(view.layers):
        w = layers[number].weights.dense()[0].double().numpy()
        for h, head in enumerate(heads):
            check_head(head, w[h], view.chosen)
            assert (head.layer, head.head) == (number, h)


def check_head(head: HeadView, w: np.ndarray, chosen: np.ndarray) -> None:
    T, close = len(w), {"rtol": 1e-4, "atol": 1e-5}
    np.testing.assert_allclose(head.received, w.sum(0), **close)
    entropy = -(w * np.log(np.where(w > 0, w, 1))).sum(1)
    np.testing.assert_allclose(head.entropy, entropy.mean(), **close)
    want = -np.sort(-w, axis=1)[:, :8]
    np.testing.assert_allclose(head.top_weights[:, : want.shape[1]], want, **close)
    rows = np.arange(T)[:, None]
    there = head.top_keys >= 0
    np.testing.assert_allclose((w[rows, head.top_keys] - head.top_weights)[there], 0, **close)
    np.testing.assert_allclose(head.exact, w[np.ix_(chosen, chosen)], **close)
    if len(head.image) == T:
        np.testing.assert_allclose(head.image, w, **close)
    assert head.role in ROLES
    if T > 1:
        later = slice(1, None)
        scores = {
            "previous": np.diagonal(w, -1).sum() / (T - 1),
            "next": np.diagonal(w, 1).sum() / (T - 1),
            "same": np.diagonal(w)[later].mean(),
            "first": w[later, 0].mean(),
        }
        for role, score in scores.items():
            np.testing.assert_allclose(head.scores[role], score, **close)
        assert 0 <= head.scores["broad"] <= 1 + 1e-6


def test_the_role_is_read_off_the_weights() -> None:
    T = 12
    eye, ones = torch.eye(T), torch.ones(T, T)
    shifted = eye.roll(1, 0)
    patterns = {  # (queries, keys): each query's scores are its row of queries @ keys.T
        "previous": (eye, shifted.T),
        "next": (eye, shifted),
        "same": (eye, eye),
        "first": (ones, ones * eye[0][:, None]),
        "separator": (ones, ones * eye[3][:, None]),
        "broad": (0 * eye, eye),
    }
    for role, (q, k) in patterns.items():
        found = overview_of(
            recording(Layer(role, 30 * q[None, None], k[None, None], None, None, {"scale": 1.0})),
            model="made", tokens=words(T), separators=[3],
        )  # fmt: skip
        (head,) = found.heads()
        assert head.role == role, (role, head.scores)
    scattered = dict.fromkeys(("previous", "next", "first", "same", "separator"), 0.2)
    assert role_of({**scattered, "broad": 0.5}) == "none"
    assert role_of({**scattered, "broad": 0.9}) == "broad"
    assert role_of({**scattered, "first": 0.4, "broad": 0.9}) == "first"


def test_a_text_of_one_token_has_no_role() -> None:
    one = np.ones(1)
    scores = scores_of(one, one, one, {1: 0.0, 0: 1.0, -1: 0.0}, np.ones(1, int))
    assert set(scores.values()) == {0.0}
    assert role_of(scores) == "none"


def test_layers_heads_and_queries_narrow_it() -> None:
    seen = recording(*(layer(9, seed=s) for s in range(3)))
    view = overview_of(seen, model="m", tokens=words(9), layers=[2], heads=[1], queries=[4])
    assert [(h.layer, h.head) for h in view.heads()] == [(2, 1)]
    assert view.queries == (4,)
    whole = overview_of(seen, model="m", tokens=words(9))
    assert whole.queries == tuple(range(9))
    np.testing.assert_array_equal(whole.layers[2][1].received, next(view.heads()).received)


def test_something_other_than_self_attention_over_the_text_is_refused() -> None:
    with pytest.raises(regard.ShapeError, match=r"over its 7 tokens, but layers.0 has 9 queries"):
        overview_of(recording(layer(9)), model="m", tokens=words(7))
