"""``regard look`` asked of all heads at once: --find, --rollout, --compare, --without."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard.cli import main
from regard.recording import subjects
from regard.recording.keeping import QueriesAndKeys
from small import need_package, silent

torch = pytest.importorskip("torch", reason="needs torch")
pytest.importorskip("transformers", reason="needs transformers")

Looked = Callable[..., SimpleNamespace]
TEXT = "the it the it, then the it the it the it, the it the it the"


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")


@pytest.fixture
def look(tiny: Path, capsys: pytest.CaptureFixture[str]) -> Looked:
    def run(*args: str | Path) -> SimpleNamespace:
        model = [] if "--load" in args or "--model" in args else ["--model", str(tiny)]
        code = main(["look", *model, *map(str, args)])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run


@pytest.fixture
def seen(tiny: Path) -> Any:
    subject = subjects.text(str(tiny), TEXT, silent, logits=True)
    return subject, subject.record(QueriesAndKeys(), silent, lambda done, total: None)


def document(looked: SimpleNamespace) -> dict[str, Any]:
    assert looked.code == 0, looked.err
    found: dict[str, Any] = json.loads(looked.out)
    return found


def test_heads_are_found_by_role(look: Looked, seen: Any) -> None:
    found = document(look(TEXT, "--find", "induction", "--json"))
    subject, recording = seen
    want = recording.find("induction", separators=subject.reading.separators)
    assert found["role"] == "induction"
    assert [(one["layer"], one["head"]) for one in found["heads"]] == [
        (one.layer, one.head) for one in want
    ]
    np.testing.assert_allclose(found["heads"][0]["score"], want[0].scores["induction"], rtol=1e-4)
    shown = look(TEXT, "--find", "dead")
    assert shown.code == 0
    assert "by the role “dead”, highest first" in shown.out
    assert "角色" in look(TEXT, "--find", "previous", "--lang", "zh").out


def test_a_word_is_traced_back(look: Looked, seen: Any) -> None:
    found = document(look(TEXT, "--target", "-1", "--target", "then", "--rollout", "--json"))
    subject, recording = seen
    places = [one["position"] for one in found["targets"]]
    assert places == sorted({*subject.reading.find("then"), len(subject.reading.ids) - 1})
    for one, row in zip(found["targets"], recording.rollout(places), strict=True):
        np.testing.assert_allclose(one["shares"], row, rtol=1e-4)
    shown = look(TEXT, "--target", "1", "--rollout")
    assert "(position 1) comes from" in shown.out


def test_two_texts_are_compared(look: Looked, seen: Any, tiny: Path) -> None:
    other = TEXT.replace("then", "thin")
    found = document(look(TEXT, "--compare", other, "--json"))
    subject = subjects.text(str(tiny), other, silent)
    theirs = subject.record(QueriesAndKeys(), silent, lambda done, total: None)
    want = seen[1].compare(theirs)
    far = {(one["layer"], one["head"]): one["distance"] for one in found["heads"]}
    assert len(far) == 8
    for (layer, head), distance in far.items():
        np.testing.assert_allclose(distance, want.distance[layer, head], rtol=1e-3, atol=1e-6)
    assert len(found["shared"]) == len(want.queries)
    assert "How far apart the heads are" in look(TEXT, "--compare", other).out
    refused = look("t", "--compare", "i")
    assert (refused.code, "share no token" in refused.err) == (2, True)


def test_what_changed_between_two_texts_is_drawn(look: Looked, tmp_path: Path) -> None:
    """The picture shows the difference, of all heads or of the one that is named."""
    other, every, one = TEXT.replace("then", "thin"), tmp_path / "all.svg", tmp_path / "one.svg"
    assert look(TEXT, "--compare", other, "--to", every).code == 0
    assert "total variation" in every.read_text(encoding="utf-8")
    asked = ("--compare", other, "--layer", "1", "--head", "2", "--to", one)
    assert look(TEXT, *asked).code == 0
    drawn = one.read_text(encoding="utf-8")
    assert "Layer 1, head 2" in drawn
    assert "change of weight" in drawn


def test_a_head_is_taken_away(look: Looked, seen: Any) -> None:
    found = document(look(TEXT, "--without", "1.2", "--without", "0.-1", "--json"))
    want = seen[1].without([(1, 2), (0, 3)])
    assert [(one["layer"], one["head"]) for one in found["heads"]] == [(0, 3), (1, 2)]
    np.testing.assert_allclose(found["divergence"], want.divergence[0], rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(found["change"], want.change[0], rtol=1e-3)
    np.testing.assert_allclose([one["before"] for one in found["next"]],
                               [one.before for one in want.likeliest()], rtol=1e-3)  # fmt: skip
    w = seen[1][1].weights.dense()[0, 2]
    link = found["heads"][1]["links"][0]
    np.testing.assert_allclose(link["weight"], float(w[link["query"], link["key"]]), rtol=1e-4)
    others = w.clone()
    others[:, 0] = 0
    others.fill_diagonal_(0)
    np.testing.assert_allclose(link["weight"], float(others.max()), rtol=1e-4)
    shown = look(TEXT, "--without", "1.2")
    assert "What head 1.2 looked at most" in shown.out
    assert "What comes next, with it and without it" in shown.out


def test_a_picture_is_saved_beside_the_answer(look: Looked, tmp_path: Path) -> None:
    shown = look(TEXT, "--find", "first", "--to", tmp_path / "all.json")
    assert shown.code == 0
    assert "by the role “first token”" in shown.out
    assert len(json.loads((tmp_path / "all.json").read_text())["layers"]) == 2


def test_a_recording_is_asked_as_far_as_it_can(look: Looked, tmp_path: Path) -> None:
    file = tmp_path / "x.regard"
    assert look(TEXT, "--save", file).code == 0
    assert document(look("--load", file, "--find", "first", "--json"))["heads"]
    assert document(look("--load", file, "--target", "0", "--rollout", "--json"))["targets"]
    for wrong, says in [
        (("--find", "dead"), "leave --load and --statistics out"),
        (("--without", "0.0"), "--without runs the model again, and --load"),
        (("--compare", "the"), "--compare runs the model again, and --load"),
    ]:
        refused = look("--load", file, *wrong)
        assert (refused.code, says in refused.err) == (2, True), refused.err
    assert look(TEXT, "--statistics", "--save", file).code == 0
    refused = look("--load", file, "--target", "0", "--rollout")
    assert (refused.code, "holds statistics only" in refused.err) == (2, True), refused.err


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--find", "clever"], "there is no role “clever”: --find takes previous, next"),
        (["--rollout"], "say which with --target"),
        (["--target", "it"], "add --rollout"),
        (["--target", "zebra", "--rollout"], "no tokens spell “zebra”"),
        (["--without", "13"], "as in 13.8, not “13”"),
        (["--without", "9.0"], "has no layer 9"),
        (["--without", "0.9"], "has no head 9"),
        (["--find", "first", "--without", "0.0"], "--find and --without ask two things"),
        (["--statistics", "--compare", "it"], "--statistics keeps none"),
        (["--compare", "it", "--generate", "2"], "not beside --generate"),
        (["--find", "first", "--layer", "1"], "leave out --layer, or say what to draw with --to"),
    ],
)
def test_what_cannot_be_asked_names_the_remedy(look: Looked, args: list[str], says: str) -> None:
    refused = look(TEXT, *args)
    assert (refused.code, refused.out) == (2, "")
    assert says in refused.err
    assert any("\u4e00" <= letter <= "\u9fff" for letter in look(TEXT, *args, "--lang", "zh").err)


def test_layers_without_attention_are_not_counted(look: Looked, monkeypatch: Any) -> None:
    from regard.recording.subjects import Subject

    whole = Subject.as_seen

    def of_four(self: Subject, recording: Any) -> Subject:
        return whole(replace(self, layers=4), recording)

    monkeypatch.setattr(Subject, "as_seen", of_four)
    refused = look(TEXT, "--without", "2.0")
    assert (refused.code, "has no layer 2: its layers are 0 to 1" in refused.err) == (2, True)
    seen = look(TEXT, "--layer", "1")
    assert "attention was seen in 2 of 4 layers, which are counted: 0 = " in seen.err


def test_roles_of_repeated_tokens_need_some(look: Looked) -> None:
    refused = look("abcdef", "--find", "induction")
    assert (refused.code, "give a text that repeats itself" in refused.err) == (2, True)
    assert document(look(TEXT, "--statistics", "--find", "first", "--json"))["heads"]


@pytest.mark.models
def test_an_encoder_shows_how_its_vectors_move(look: Looked) -> None:
    need_package("minilm")
    found = document(look("The cat sat.", "--model", "minilm", "--without", "5.3", "--json"))
    assert found["divergence"] is None
    assert found["next"] == []
    assert min(found["change"]) > 0
