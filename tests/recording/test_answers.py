"""Rollout and comparison equal what NumPy finds in the dense matrices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import regard
from regard.recording.answers.compare import compare
from regard.recording.answers.flow import flow
from regard.recording.answers.rollout import rollout
from regard.recording.recording import Layer, Recording, Run

torch = pytest.importorskip("torch", reason="needs torch")


def layers(T: int, count: int = 4, seed: int = 0, **options: Any) -> list[Layer]:
    g = torch.Generator().manual_seed(seed)

    def draw(heads: int) -> Any:
        return torch.randn(2, heads, T, 8, generator=g, dtype=torch.float64)

    return [
        Layer(f"layers.{i}", draw(4), draw(2), regard.causal(), None, options) for i in range(count)
    ]


def recording(made: list[Layer], ids: list[int] | None = None) -> Recording:
    seen = Recording()
    seen.runs.append(Run(layers=made, ids=None if ids is None else np.array([ids])))
    return seen


def dense(layer: Layer, sample: int = 0) -> np.ndarray:
    return layer.weights.dense()[sample].double().numpy()


@pytest.mark.parametrize("residual", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("sink", [None, 1.5])
def test_rollout_is_the_product_of_the_dense_matrices(residual: float, sink: float | None) -> None:
    made = layers(40, **({} if sink is None else {"sink": torch.full((4,), sink)}))
    whole = np.eye(40)
    for layer in made:
        mixed = (1 - residual) * dense(layer, 1).mean(0) + residual * np.eye(40)
        whole = mixed / mixed.sum(1, keepdims=True) @ whole
    told: list[tuple[int, int]] = []
    got = rollout(
        made, [39, 0, -20], residual=residual, sample=1, progress=lambda *at: told.append(at)
    )
    np.testing.assert_allclose(got, whole[[39, 0, 20]], atol=1e-12)
    np.testing.assert_allclose(got.sum(1), 1.0)
    assert told == [(n, 4) for n in range(5)]


def test_padding_that_attends_to_nothing_comes_from_itself() -> None:
    made = [
        Layer(layer.name, layer.q, layer.k, regard.causal() & regard.lengths([9, 9], 3), None)
        for layer in layers(9)
    ]
    got = rollout(made, [0, 8])
    assert got[0].tolist() == [1.0] + [0.0] * 8
    assert not got[1, :3].any()
    np.testing.assert_allclose(got[1].sum(), 1.0)


@pytest.mark.parametrize(
    ("targets", "options", "says"),
    [
        ([9], {}, "a target must lie in 0 … 8, but 9 came"),
        ([0], {"residual": 1.5}, "residual must lie in 0 … 1"),
    ],
)
def test_what_rollout_cannot_take(targets: list[int], options: Any, says: str) -> None:
    with pytest.raises(regard.ValueRangeError, match=says):
        rollout(layers(9), targets, **options)


def test_rollout_needs_layers_over_the_same_tokens() -> None:
    cross = Layer("cross", torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), None, None)
    with pytest.raises(regard.ShapeError, match="cross has 3 queries and 5 keys"):
        rollout([*layers(3), cross], [0])
    with pytest.raises(regard.ShapeError, match="at least one layer"):
        rollout([], [0])


def through_all_pipes(made: list[Layer], target: int, source: int) -> float:
    """The largest flow by a library that holds every pipe of the network."""
    import networkx

    network = networkx.DiGraph()
    for n, layer in enumerate(made):
        w = dense(layer).mean(0) + np.eye(layer.q.shape[-2])
        w /= w.sum(1, keepdims=True)
        for i, j in zip(*np.nonzero(w), strict=True):
            network.add_edge((n + 1, int(i)), (n, int(j)), capacity=float(w[i, j]))
    return float(networkx.maximum_flow_value(network, (len(made), target), (0, source)))


@pytest.mark.parametrize(("T", "sharp", "mask"), [(9, 1, None), (14, 3, regard.causal())])
@pytest.mark.parametrize("seed", range(3))
def test_a_flow_is_that_through_all_pipes(T: int, sharp: int, mask: Any, seed: int) -> None:
    pytest.importorskip("scipy", reason="needs SciPy")
    made = [
        Layer(a.name, sharp * a.q, a.k, mask, None, {"sink": torch.ones(4)} if seed == 2 else {})
        for a in layers(T, seed=seed)
    ]
    for target, source in ((T - 1, 0), (-1, T - 2), (T - 2, T // 2)):
        found = flow(made, target, source)
        want = through_all_pipes(made, target % T, source)
        assert found.value - 1e-12 <= want <= found.bound + 1e-12
        assert found.bound - found.value <= 1e-5


def test_nothing_flows_from_what_comes_later() -> None:
    pytest.importorskip("scipy", reason="needs SciPy")
    assert flow(layers(9), 3, 5).bound == 0.0


def test_a_recording_differs_from_itself_nowhere_and_from_another_as_its_matrices_do() -> None:
    ids = list(range(20))
    mine, other = recording(layers(20), ids), recording(layers(20, seed=1), ids)
    np.testing.assert_allclose(compare(mine, mine).distance, 0.0, atol=1e-12)
    found = compare(mine, other)
    for i, (a, b) in enumerate(zip(mine, other, strict=True)):
        change = dense(b) - dense(a)
        want = 0.5 * np.abs(change).sum(-1).mean(-1)
        np.testing.assert_allclose(found.distance[i], want, atol=1e-12)
        np.testing.assert_allclose(found.image(i, 2), change[2], atol=1e-12)
        blocks = change[2].reshape(5, 4, 5, 4).mean((1, 3))
        np.testing.assert_allclose(found.image(i, 2, 5), blocks, atol=1e-12)
    layer, head, far = found.most_changed(1)[0]
    assert far == found.distance[layer, head] == found.distance.max()


def test_a_sink_and_padding_change_nothing_where_they_are_the_same() -> None:
    made = layers(9, sink=torch.full((4,), 2.0))
    made += [
        Layer(layer.name, layer.q, layer.k, regard.causal() & regard.lengths([9, 9], 3), None)
        for layer in layers(9)
    ]
    seen = recording(made)
    np.testing.assert_allclose(compare(seen, seen).distance, 0.0, atol=1e-12)
    without = recording(layers(9) + made[4:])
    gone = 1 - np.array([dense(layer).sum(-1) for layer in seen])[:4]
    np.testing.assert_allclose(compare(seen, without).distance[:4], gone.mean(-1), atol=1e-12)


def test_only_shared_tokens_are_compared_and_the_rest_counts_as_changed() -> None:
    one, two = [5, 6, 7, 8], [5, 9, 6, 7]
    mine, other = recording(layers(4), one), recording(layers(4, seed=1), two)
    found = compare(mine, other)
    assert found.queries == ((0, 0), (1, 2), (2, 3))
    a = dense(mine[0])[:, [0, 1, 2]][:, :, [0, 1, 2]]
    b = dense(other[0])[:, [0, 2, 3]][:, :, [0, 2, 3]]
    want = 0.5 * (np.abs(a - b).sum(-1) + (1 - a.sum(-1)) + (1 - b.sum(-1))).mean(-1)
    np.testing.assert_allclose(found.distance[0], want, atol=1e-12)


def two_sided(source: list[int], text: list[int], seed: int) -> Recording:
    """An encoder, a decoder and its look at the encoder."""
    g = torch.Generator().manual_seed(seed)
    sides = {"input_ids": source, "decoder_input_ids": text}

    def layer(kind: str, queries: str, keys: str) -> Layer:
        q, k = (
            torch.randn(1, 2, len(sides[side]), 8, generator=g, dtype=torch.float64)
            for side in (queries, keys)
        )
        return Layer(kind, q, k, None, None, {}, kind, queries, keys)

    seen = Recording()
    made = [
        layer("encoder", "input_ids", "input_ids"),
        layer("decoder", "decoder_input_ids", "decoder_input_ids"),
        layer("cross", "decoder_input_ids", "input_ids"),
    ]
    texts = {name: np.array([ids]) for name, ids in sides.items()}
    seen.runs.append(Run(layers=made, ids=texts["input_ids"], texts=texts))
    return seen


def test_an_encoder_and_its_decoder_share_their_own_tokens() -> None:
    mine = two_sided([1, 2, 3, 4, 5, 6], [7, 8, 9], 0)
    other = two_sided([1, 2, 0, 4, 5, 6], [8, 9], 1)
    found = compare(mine, other)
    source, text = ([0, 1, 3, 4, 5], [0, 1, 3, 4, 5]), ([1, 2], [0, 1])
    for n, (rows, columns) in enumerate([(source, source), (text, text), (text, source)]):
        a = dense(mine[n])[:, rows[0]][:, :, columns[0]]
        b = dense(other[n])[:, rows[1]][:, :, columns[1]]
        want = 0.5 * (np.abs(a - b).sum(-1) + (1 - a.sum(-1)) + (1 - b.sum(-1))).mean(-1)
        np.testing.assert_allclose(found.distance[n], want, atol=1e-12)
        np.testing.assert_allclose(found.image(n, 1), (b - a)[1], atol=1e-12)
    unlike = compare(mine, two_sided([1, 2], [3, 4, 5], 1))
    assert np.isnan(unlike.distance).tolist() == [[False] * 2, [True] * 2, [True] * 2]
    assert [layer for layer, _, _ in unlike.most_changed()] == [0, 0]
    with pytest.raises(regard.ShapeError, match="texts of cross share no token"):
        unlike.image(2, 0)


def test_padding_is_shared_by_no_texts() -> None:
    mine, other = recording(layers(6), [1, 2, 3, 4, 0, 0]), recording(layers(5), [2, 3, 4, 0, 0])
    for seen, real in ((mine, 4), (other, 3)):
        hidden = np.arange(len(seen.tokens or [])) >= real
        seen.run.expected.padding["input_ids"] = hidden[None]
    assert compare(mine, other).queries == ((1, 0), (2, 1), (3, 2))


def test_what_cannot_be_compared() -> None:
    with pytest.raises(regard.ShapeError, match="share no token"):
        compare(recording(layers(2), [1, 2]), recording(layers(2), [3, 4]))
    with pytest.raises(regard.ShapeError, match="equal heads"):
        compare(recording(layers(2)), recording(layers(2, count=3)))
    with pytest.raises(regard.ShapeError, match="one recording has 2 and the other 3"):
        compare(recording(layers(2)), recording(layers(3)))


def test_layers_of_numpy_are_asked_as_those_of_torch_are() -> None:
    made = layers(9)
    theirs = recording(made)
    mine = recording([replace(one, q=one.q.numpy(), k=one.k.numpy()) for one in made])
    np.testing.assert_allclose(mine.rollout([3, 8]), theirs.rollout([3, 8]), atol=1e-6)
    np.testing.assert_allclose(mine.flow(8, 1).value, theirs.flow(8, 1).value, atol=1e-5)
    assert mine.compare(theirs).distance.max() < 1e-6
