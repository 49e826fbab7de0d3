"""Roles and the other figures of a head are what NumPy finds in its dense weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.recording import roles as rules
from regard.recording.answers.heads import ROLES, Heads
from regard.recording.answers.written import dead_scores
from regard.recording.recording import Layer, Recording, Run
from regard.recording.roles import patterns_of, role_of, sampled
from regard.recording.summary import summarise

torch = pytest.importorskip("torch", reason="needs torch")


def layer(T: int, mask: Any = None, seed: int = 0, **options: Any) -> Layer:
    g = torch.Generator().manual_seed(seed)
    q, k = (2 * torch.randn(2, 3, T, 8, generator=g, dtype=torch.float64) for _ in range(2))
    return Layer(f"layers.{seed}", q, k, mask, None, options, kind="decoder")


def recording(*layers: Layer, ids: Any = None) -> Recording:
    seen = Recording()
    texts = {} if ids is None else {"input_ids": np.asarray(ids)}
    seen.runs.append(Run(layers=list(layers), ids=texts.get("input_ids"), texts=texts))
    return seen


def drawn(T: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, max(2, T // 3), (2, T))


def by_hand(w: np.ndarray, seen: np.ndarray, ids: np.ndarray) -> dict[str, float]:
    """The scores of one head by their words, one weight after another."""
    T = len(w)
    on_same, on_after, groups = [], [], {}
    for i in range(1, T):
        earlier = [j for j in range(i) if ids[j] == ids[i]]
        after = [j + 1 for j in earlier if j + 1 < i]
        if earlier:
            on_same.append(w[i, earlier].sum())
        if after:
            on_after.append(w[i, after].sum())
        for j in np.flatnonzero(seen[i]):
            groups.setdefault(i - j, []).append(w[i, j])
    every = np.concatenate([*groups.values()])
    rest = sum(((np.array(g) - np.mean(g)) ** 2).sum() for g in groups.values())
    n, d = len(every), len(groups)
    explained = 1 - rest / (n - d) / (every.var() * n / (n - 1)) if n > d else 0.0
    return {
        "duplicate": float(np.mean(on_same)) if len(on_same) >= rules.FEW else 0.0,
        "induction": float(np.mean(on_after)) if len(on_after) >= rules.FEW else 0.0,
        "positional": float(np.clip(explained, 0, 1)),
    }


@pytest.mark.parametrize("T", [9, 30, 64])
@pytest.mark.parametrize("mask", [None, regard.causal(), regard.causal() & regard.window(5)])
def test_scores_taken_query_by_query_are_those_of_the_dense_weights(T: int, mask: Any) -> None:
    one, ids = layer(T, mask), drawn(T)
    found = patterns_of(one.weights, ids)
    w = one.weights.dense().numpy()
    for b in range(2):
        for h in range(3):
            want = by_hand(w[b, h], w[b, h] > 0, ids[b])
            for role, score in want.items():
                np.testing.assert_allclose(found[role][b, h], score, atol=1e-9, err_msg=role)


def test_a_long_text_is_sampled_evenly_and_in_strips(monkeypatch: Any) -> None:
    assert len(sampled(1_000)) == rules.SAMPLED
    assert len(sampled(10_000)) == rules.SAMPLED_OF_MANY
    assert sampled(rules.SAMPLED + 1).tolist() == list(range(1, rules.SAMPLED + 1))
    assert sampled(1).tolist() == sampled(0).tolist() == []
    one, ids = layer(50, regard.causal()), drawn(50)
    whole = patterns_of(one.weights, ids)
    monkeypatch.setattr(rules, "STRIP", 700)
    for role, found in patterns_of(one.weights, ids).items():
        np.testing.assert_allclose(found, whole[role], atol=1e-12)


def test_a_head_that_sees_distances_only_is_positional_and_a_shuffled_one_is_not() -> None:
    bias = regard.relative(torch.randn(3, 79, dtype=torch.float64))
    flat = Layer("flat", torch.zeros(1, 3, 40, 8), torch.zeros(1, 3, 40, 8), None, None,
                 {"bias": bias})  # fmt: skip
    near = patterns_of(flat.weights)["positional"]
    scattered = patterns_of(layer(40, seed=3).weights)["positional"]
    assert near.min() > 0.6
    assert scattered.max() < 0.2


def test_a_padded_sample_has_no_positions_beyond_its_own() -> None:
    mask = regard.causal() & regard.lengths([30, 17])
    one = layer(30, mask)
    alone = Layer("", one.q[1:, :, :17], one.k[1:, :, :17], regard.causal(), None)
    got = summarise(one)
    w = one.weights.dense().numpy()
    assert got.seers[1].tolist() == [*range(30, 13, -1), *[0] * 13]
    np.testing.assert_allclose((w[1] > 0).sum(1)[0], got.seers[1])
    assert alone.weights.shape[-1] == 17


def test_distance_local_share_and_sinks_are_those_of_the_dense_weights() -> None:
    one = layer(40, regard.causal())
    one.k[:, :, 0] *= 0
    one.q[:, 1] = one.k[:, 1, :1] = torch.ones(8, dtype=torch.float64)  # its first key takes most
    one.k[:, 1, 1:] = 0
    got, w = summarise(one), one.weights.dense().numpy()
    away = np.abs(np.arange(40)[:, None] - np.arange(40))
    np.testing.assert_allclose(got.distance, (w * away).sum((2, 3)) / 40, rtol=1e-6)
    np.testing.assert_allclose(got.local, (w * (away <= 8)).sum((2, 3)) / 40, rtol=1e-6)
    for b in range(2):
        for h in range(3):
            mean = w[b, h].sum(0) / np.arange(40, 0, -1)
            want = tuple(j for j in range(21) if mean[j] > 0.3)
            assert got.sinks(h, b) == want
    assert got.sinks(1) == (0,)


def test_the_rules_name_one_role() -> None:
    plain = dict.fromkeys(ROLES, 0.0)
    assert role_of(plain) == "none"
    assert role_of({**plain, "induction": 0.5, "first": 0.45, "positional": 0.9}) == "induction"
    assert role_of({**plain, "positional": 0.7, "broad": 0.9}) == "positional"
    assert role_of({**plain, "dead": 0.95, "first": 0.9}) == "dead"
    assert role_of({"broad": 0.9}) == "broad"
    np.testing.assert_allclose(dead_scores(np.array([[0.0, 1.0, 1.0, 2.0]])), [[1, 0, 0, 0]])
    assert dead_scores(np.zeros((1, 2))).tolist() == [[1.0, 1.0]]


def test_heads_are_found_by_their_score() -> None:
    ids = np.tile(np.arange(20), (2, 2))
    seen = recording(layer(40, regard.causal()), layer(40, regard.causal(), 1), ids=ids)
    told: list[tuple[int, int]] = []
    heads = seen.roles(sample=1, progress=lambda *at: told.append(at))
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert [(one.layer, one.head) for one in heads] == [(a, b) for a in range(2) for b in range(3)]
    found = heads.find("induction", 3)
    scores = [one.scores["induction"] for one in found]
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == max(one.scores["induction"] for one in heads)
    assert seen.find("first", 2, sample=1) == heads.find("first", 2)


def test_what_cannot_be_found_says_why() -> None:
    seen = recording(layer(12, regard.causal()), ids=np.tile(np.arange(12), (2, 1)))
    with pytest.raises(regard.ValueRangeError, match="role must be one of previous"):
        seen.find("clever")
    with pytest.raises(regard.ValueRangeError, match="a text that repeats itself"):
        seen.find("induction")
    with pytest.raises(regard.KindError, match="as long as its model can be run again"):
        seen.find("dead")
    cross = Layer(
        "cross", torch.randn(1, 2, 3, 4), torch.randn(1, 2, 5, 4), None, None, {}, "cross"
    )
    with pytest.raises(regard.ShapeError, match="this recording has none"):
        recording(cross).roles()


class Marks:
    """A tokenizer whose token 0 is a full stop."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return ["." if i == 0 else f"w{i}" for i in ids]


def test_separators_are_those_of_the_sample() -> None:
    ids = np.tile(np.arange(1, 13), (2, 1))
    ids[0, [0, 5]] = ids[1, [3, 9]] = 0
    one = layer(12, regard.causal())
    seen = recording(one, ids=ids)
    with pytest.raises(regard.ValueRangeError, match=r"watch\(model, tokenizer\) finds them"):
        seen.find("separator")
    assert seen.find("separator", 1, separators=[4])[0].scores["separator"] > 0
    seen.tokenizer = Marks()
    w = one.weights.dense().numpy()
    for sample, marks in ((0, [5]), (1, [3, 9])):
        got = [head.scores["separator"] for head in seen.roles(sample=sample)]
        want = w[sample][:, 1:][..., marks].sum(-1).mean(-1)
        np.testing.assert_allclose(got, want, atol=1e-9)


def test_without_token_numbers_nothing_is_said_of_repetition() -> None:
    seen = recording(layer(12, regard.causal()))
    with pytest.raises(regard.ValueRangeError, match="no token numbers of this recording"):
        seen.find("duplicate")
    summed = Recording()
    summed.runs.append(Run(statistics=[summarise(layer(12, regard.causal()))]))
    with pytest.raises(regard.ValueRangeError, match="no token numbers of this recording"):
        summed.find("induction")


def test_a_pass_that_is_cancelled_leaves_the_recording_whole() -> None:
    seen = recording(layer(12), layer(12, seed=1))

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seen.roles(progress=stop)
    assert isinstance(seen.roles(), Heads)


def test_statistics_know_the_same_roles() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=4, vocab_size=50)
    model = transformers.GPT2LMHeadModel(config).eval()
    ids = torch.randint(0, 50, (1, 20)).repeat(1, 2)
    with torch.no_grad():
        with regard.watch(model) as seen:
            model(ids)
        with regard.watch(model, keep=regard.Statistics()) as summed:
            model(ids)
    for one, other in zip(seen.roles(), summed.roles(), strict=True):
        assert set(one.scores) - set(other.scores) == {"dead"}
        for role, score in other.scores.items():
            np.testing.assert_allclose(one.scores[role], score, atol=1e-5)
        assert one.sinks == other.sinks
        np.testing.assert_allclose(one.distance, other.distance, rtol=1e-5)
