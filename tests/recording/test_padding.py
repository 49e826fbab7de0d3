"""Of a padded batch every answer is that of the text alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.recording import roles as rules
from regard.recording.reading import plain
from regard.recording.recording import Layer, Recording, Run
from regard.recording.roles import sampled
from regard.recording.subjects import Subject
from regard.recording.summary import summarise
from small import GROUPED

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

TEXT, PADS = 20, 12


class Marks:
    """A tokenizer whose first three tokens are full stops."""

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return ["." if i < 3 else f"w{i}" for i in ids]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**GROUPED, initializer_range=0.3)
    return transformers.LlamaForCausalLM(config).eval()


def padded(left: bool) -> tuple[dict[str, Any], slice]:
    """A text of many repetitions beside a longer one, and where it stands."""
    g = torch.Generator().manual_seed(1)
    text = torch.randint(1, 9, (1, TEXT), generator=g)
    text[0, 0] = 1  # a mark that comes first is none
    pads = torch.zeros(1, PADS, dtype=torch.long)
    ids = torch.cat([pads, text] if left else [text, pads], 1)
    ids = torch.cat([torch.randint(1, 99, (1, TEXT + PADS), generator=g), ids])
    mask = (ids != 0).long()
    given = {"input_ids": ids, "attention_mask": mask}
    given["position_ids"] = (mask.cumsum(1) - 1).clamp(min=0)
    return given, slice(PADS, None) if left else slice(TEXT)


def watched(model: Any, given: dict[str, Any], **options: Any) -> Recording:
    with torch.no_grad(), regard.watch(model, Marks(), **options) as seen:
        model(**given)
    return seen


@pytest.mark.parametrize("left", [True, False])
def test_answers_are_those_of_the_text_alone(model: Any, left: bool) -> None:
    given, at = padded(left)
    both = watched(model, given)
    alone = watched(model, {"input_ids": given["input_ids"][1:, at]})
    marks = [at.start or 0, (at.start or 0) + 3]
    same(both.roles(sample=1, separators=marks), alone.roles(separators=[0, 3]), at.start or 0)
    for got, by in zip(both.importance(sample=1), alone.importance(), strict=True):
        np.testing.assert_allclose(got.received[:, at], by.received, rtol=1e-4)
        assert got.received.sum() == pytest.approx(by.received.sum(), rel=1e-4)
    found, want = both.attribution(sample=1), alone.attribution()
    assert found.value == pytest.approx(want.value, rel=1e-4)
    for mine, own in zip(found.layers, want.layers, strict=True):
        np.testing.assert_allclose(mine.received[:, at], own.received, rtol=1e-3, atol=1e-4)
    changed, whole = both.without(layer=0, head=1), alone.without(layer=0, head=1)
    np.testing.assert_allclose(changed.change[1, at], whole.change[0], rtol=1e-3)
    assert np.isfinite(changed.change[1]).sum() == TEXT
    for side, other in zip(changed.loss or (), whole.loss or (), strict=True):
        np.testing.assert_allclose(side[1][np.isfinite(side[1])], other[0], rtol=1e-3)
    np.testing.assert_allclose(changed.likeliest(3, sample=1), whole.likeliest(3), rtol=1e-3)
    assert "nan" not in repr(changed)


@pytest.mark.parametrize("left", [True, False])
def test_statistics_are_those_of_the_text_alone(model: Any, left: bool, tmp_path: Any) -> None:
    given, at = padded(left)
    kept = watched(model, given, keep=regard.Statistics(separators=((at.start or 0) + 3,)))
    kept.save(tmp_path / "padded.regard")
    kept = regard.load(tmp_path / "padded.regard")
    ids = {"input_ids": given["input_ids"][1:, at]}
    alone = watched(model, ids, keep=regard.Statistics(separators=(3,)))
    for mine, own in zip(kept.statistics, alone.statistics, strict=True):
        np.testing.assert_allclose(mine.received[1][:, at], own.received[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(mine.entropy[1][:, at], own.entropy[0], rtol=1e-4, atol=1e-6)
        np.testing.assert_array_equal(mine.seers[1][at], own.seers[0])
        assert not mine.seers[1].sum() - own.seers.sum()
        np.testing.assert_allclose(mine.local[1], own.local[0], rtol=1e-5)
    same(kept.roles(sample=1), alone.roles(), at.start or 0)


def same(found: Any, want: Any, shift: int) -> None:
    for mine, own in zip(found, want, strict=True):
        assert mine.role == own.role
        for role in own.scores:
            assert mine.scores[role] == pytest.approx(own.scores[role], abs=1e-5), role
        assert mine.entropy == pytest.approx(own.entropy, rel=1e-4)
        assert mine.distance == pytest.approx(own.distance, rel=1e-4)
        assert mine.sinks == tuple(key + shift for key in own.sinks)


def test_each_padded_text_is_sampled_by_itself(monkeypatch: Any) -> None:
    monkeypatch.setattr(rules, "SAMPLED", 7)
    g = torch.Generator().manual_seed(0)
    q, k = (2 * torch.randn(2, 3, 40, 8, generator=g, dtype=torch.float64) for _ in range(2))
    ids = np.random.default_rng(0).integers(0, 4, (2, 40))
    real = np.ones((2, 40), np.bool_)
    real[1, :9] = False
    monkeypatch.setattr(rules, "FEW", 2)
    both = summarise(
        Layer("", q, k, regard.causal() & regard.lengths([40, 40], [0, 9]), None),
        ids=ids, real=real,
    )  # fmt: skip
    one = Layer("", q[1:, :, 9:], k[1:, :, 9:], regard.causal(), None)
    alone = summarise(one, ids=ids[1:, 9:])
    assert len(sampled(31)) == 7
    for role, score in alone.scores.items():
        np.testing.assert_allclose(both.scores[role][1], score[0], atol=1e-9, err_msg=role)
    assert (alone.scores["duplicate"] > 0).all()


def test_what_can_be_looked_at_knows_its_padding(model: Any) -> None:
    given, _ = padded(left=True)
    seen = watched(model, given)
    subject = Subject.__new__(Subject)
    object.__setattr__(subject, "reading", plain(seen.tokens or []))
    assert subject.square(seen).run.expected is seen.run.expected


def test_without_padding_nothing_is_known_of_it() -> None:
    layer = Layer("", torch.randn(1, 2, 5, 4), torch.randn(1, 2, 5, 4), None, None)
    assert rules.real_of(layer, Run(layers=[layer])) is None
    assert summarise(layer).real is None
