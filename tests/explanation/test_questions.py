"""Each question's experiment finds what its answer says, computed here another way."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest

import regard
from explanation.replay import replayed
from regard._words import LANGUAGES, catalogue
from regard.cli import main
from regard.explanation import experiments
from regard.explanation.draws import normals
from regard.explanation.experiments import additive, drawn
from regard.explanation.questions import QUESTIONS, ask
from regard.explanation.questions.depth import attention, convolution, path, recurrence
from regard.explanation.story import VECTORS, matrices_of

each = pytest.mark.parametrize("name", QUESTIONS)
TRACES = {name: ask(name) for name in QUESTIONS}


def softmax(s: Any) -> Any:
    e = np.exp(s)
    return e / e.sum(-1, keepdims=True)


def test_there_are_sixteen():
    assert len(QUESTIONS) == 16


@each
@pytest.mark.parametrize("lang", LANGUAGES)
def test_each_is_told_in_both_languages(name, lang):
    trace = TRACES[name]
    text = trace.text(lang)
    for step in trace.steps:
        title, words = trace.words(step, lang)
        assert "{" not in title + words
        assert bool(re.search(r"[\u4e00-\u9fff]", words)) == (lang == "zh")
        assert title in text
    assert any(step.chart for step in trace.steps)
    assert trace.markdown(lang)
    assert trace.document(lang)["steps"]


def test_every_word_is_used():
    used = {f"ask.{name}{tail}" for name in QUESTIONS for tail in ("", "-answer")}
    for trace in TRACES.values():
        used |= {f"{step.key}{tail}" for step in trace.steps for tail in ("", "-title")}
    assert {key for key in catalogue() if key.startswith("ask.")} == used
    kinds = {
        kind
        for trace in [*TRACES.values(), regard.explain()]
        for table in trace.sheet.tables.values()
        for kind in (table.rows, table.columns)
    }
    plain = {"", "token", "query", "key", "feature"}
    known = {key.partition(".")[2] for key in catalogue() if key.startswith("columns.")}
    assert kinds - plain == known


@each
def test_the_code_computes_the_numbers(name):
    names: dict[str, Any] = {}
    exec(TRACES[name].script("numpy"), names)
    for table in TRACES[name].sheet.tables.values():
        if table.name in names:
            assert np.allclose(names[table.name], table.array)


@each
def test_columns_have_names(name):
    for table in TRACES[name].sheet.tables.values():
        if (key := f"columns.{table.columns}") in catalogue():
            for lang in LANGUAGES:
                assert len(catalogue()[key][lang].split("|")) == table.array.shape[-1]


def test_numbers_drawn_are_independent_with_variance_1():
    z = normals(200_000, 7)
    assert z.mean() == pytest.approx(0, abs=0.01)
    assert z.var() == pytest.approx(1, rel=0.01)
    assert (z**4).mean() == pytest.approx(3, rel=0.05)  # as a normal distribution has
    assert np.corrcoef(z[:-1], z[1:])[0, 1] == pytest.approx(0, abs=0.01)
    assert np.corrcoef(z, normals(200_000, 8))[0, 1] == pytest.approx(0, abs=0.01)
    # A piece is a piece of the whole, so that what is drawn does not depend on how it is cut.
    assert np.array_equal(z[1000:2000], normals(1000, 7, 1000))


def test_what_is_drawn_in_chunks_is_drawn_as_a_whole(monkeypatch):
    whole = drawn(16, 4, 100)
    monkeypatch.setattr(experiments, "CHUNK", 1000)
    assert np.allclose(drawn(16, 4, 100), whole, rtol=0, atol=1e-12)


def test_why_sqrt():
    trace = ask("why-sqrt", width=256, draws=2000)
    d, variance, deviation, root, none, by_root, by_d = trace.sheet["drawn"][-1]
    assert (d, root) == (256, 16)
    assert variance == pytest.approx(256, rel=0.05)
    assert deviation == pytest.approx(variance**0.5)
    assert none > 0.9
    assert 0.5 > by_root > 0.2
    assert by_d == pytest.approx(0.125, abs=0.02)
    moved = replayed(trace, width=np.array([[4.0]]))
    assert np.allclose(moved.sheet["A_2"], trace.sheet["A_2"])
    assert not np.allclose(moved.sheet["A_1"], trace.sheet["A_1"])


def test_why_three():
    trace = ask("why-three")
    assert np.allclose(trace.sheet["A"], softmax(4 * np.roll(np.eye(3), 1, axis=1)))
    s = trace.sheet["S_1"]
    assert np.allclose(s, s.T)
    assert min(softmax(s)[i, (i + 1) % 3] for i in range(3)) < 0.5
    worst = float(trace.sheet["worst"][0, 0])
    assert worst == min(softmax(s)[i, (i + 1) % 3] for i in range(3))
    assert f"{worst:.4f}".rstrip("0") in trace.words(trace.steps[1], "en")[1]
    more = ask("why-three", tries=20_000).sheet["worst"][0, 0]
    assert worst <= more < 0.5


def test_why_heads():
    trace = ask("why-heads", strength=20, length=100, width=16)
    assert np.allclose(trace.sheet["O_1"], [[0.5, 0.5]], atol=1e-3)
    assert np.allclose(trace.sheet["O_2"], [[1, 1]], atol=1e-3)
    assert (trace.sheet["split"][:, 2] == 2 * 100 * 100 * 16).all()
    assert trace.sheet["split"][:, 3].tolist() == [h * 2 * 100 * 100 * 16 for h in (1, 2, 4, 8)]


def test_what_qkv():
    values = [float(ask("what-qkv", strength=b).output[0, 0]) for b in (0, 1, 3, 50)]
    assert values[0] == pytest.approx(30)
    assert sorted(values, reverse=True) == values
    assert values[-1] == pytest.approx(20)


def test_true_keeps():
    trace = ask("true-keeps")
    keep = np.array([True, True, False])
    for name, mask in (("A_keep", keep), ("A_drop", ~keep)):
        wanted = regard.weights(VECTORS, VECTORS, regard.keep(np.tile(mask, (3, 1))), scale=1.0)
        assert np.allclose(trace.sheet[name], wanted.dense())
    assert "keep(array)" in trace.text("en")


def test_why_add():
    trace = ask("why-add")
    assert np.allclose(trace.sheet["added"], trace.sheet["beside"])
    x, p, w = (trace.sheet[name] for name in "XPW")
    assert np.allclose(trace.sheet["added"], np.hstack([x, p]) @ np.vstack([w, w]))


def test_cost():
    trace = ask("cost", length=512, width=256)
    assert trace.sheet["projections"] == trace.sheet["attention"] == 4 * 512 * 256**2
    call = regard.explain(np.ones((5, 4)), **dict(zip(("wq", "wk", "wv", "wo"), matrices_of(4))))  # noqa: B905
    counted = {name: call[name].multiplications for name in ("Q", "K", "V", "output")}
    assert sum(counted.values()) == 4 * 5 * 4**2
    assert call["scores"].multiplications + call["sum"].multiplications == 2 * 5**2 * 4


def test_dot_or_additive():
    random = np.random.default_rng(0)
    q, k, w, u = random.standard_normal((4, 3, 3))
    v = random.standard_normal(3)
    found = additive(q, k, w, u, v)
    for i, j in itertools.product(range(3), repeat=2):
        assert found[i, j] == pytest.approx(np.tanh(w.T @ q[i] + u.T @ k[j]) @ v)
    row = ask("dot-or-additive").sheet["kinds"][-1]
    assert row[4] == pytest.approx(128**0.5, rel=0.1)
    assert row[5] == pytest.approx(1, rel=0.1)


def test_why_softmax():
    trace = ask("why-softmax")
    s = trace.sheet["S"]
    assert np.allclose(trace.sheet["A_1"], softmax(s))
    assert np.allclose(trace.sheet["C"], softmax(s.T).T)
    assert (trace.sheet["D"] < 0).any()


def test_cross_or_self():
    trace = ask("cross-or-self", queries=4)
    assert trace.sheet["A"].shape == (4, 3)
    assert np.allclose(trace.output, regard.attend(trace.sheet["Y"], VECTORS, VECTORS, scale=1.0))


def test_what_wo():
    trace = ask("what-wo", heads=3)
    assert "Before W_O 4 of the 6 output numbers stay" in trace.words(trace.steps[0], "en")[1]
    assert (np.abs(trace.sheet["moved_W"]) > 1e-12).all()


def test_why_embed_scale():
    for d, word, place, scaled, ratio in ask("why-embed-scale").sheet["sizes"]:
        assert place == pytest.approx(0.5**0.5)
        assert word == pytest.approx(d**-0.5, rel=0.05)
        assert scaled == pytest.approx(1, rel=0.05)
        assert ratio == pytest.approx(place / word)


def test_linear():
    trace = ask("linear", factor=-3)
    assert np.allclose(trace.sheet["O_V"], -3 * trace.output)
    assert not np.allclose(trace.sheet["O_c"], -3 * trace.output)
    assert np.allclose(trace.sheet["R_c"], -27 * trace.sheet["R"])


def test_parallel():
    assert path(recurrence, 9) == (1, 9)
    assert path(convolution, 9) == (8, 1)
    assert path(attention, 9) == (1, 1)
    assert path(recurrence, 65) == (1, 65)
    kinds = ask("parallel", length=16, width=8, path=9).sheet["kinds"]
    assert kinds[:, 1:].tolist() == [[9, 1, 8], [1, 8, 8], [1, 1, 1]]
    assert (kinds[:, 0] > 0).all()


def test_why_norm():
    layers = ask("why-norm", layers=10).sheet["norms"]
    assert layers[-1, 1] / layers[0, 1] == pytest.approx(2**10, rel=0.5)
    assert layers[-1, 2] == pytest.approx(layers[0, 2] + 10, rel=0.2)


def test_weights_explain():
    trace = ask("weights-explain")
    a, v = trace.sheet["A"][0], trace.sheet["V"]
    assert np.allclose(
        trace.sheet["arrives"][0], [w * np.linalg.norm(r) for w, r in zip(a, v, strict=True)]
    )
    assert a[0] > 10 * a[2]
    assert trace.sheet["arrives"][0, 0] < trace.sheet["arrives"][0, 2]


# At the command line


def test_a_question_at_the_command_line(capsys):
    assert main(["explain", "why-sqrt", "--set", "width=16", "--lang", "en"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "At d = 16 the variance" in text
    assert "█" in text


def test_the_questions_are_listed(capsys):
    assert main(["explain", "questions", "--lang", "zh"]) == 0
    text = capsys.readouterr().out
    for name in QUESTIONS:
        assert f"  {name}\n    {catalogue()[f'ask.{name}']['zh']}" in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("why-cubed",), "there is no question “why-cubed”; the questions are: why-sqrt"),
        (("why-sqrt", "--set", "depth=3"), "has no number “depth”; what may be set: width"),
        (("why-sqrt", "--set", "width=0"), "width must be from 1 to 1024, but it is 0.0"),
        (("why-sqrt", "--set", "width"), "--set takes a name and a number"),
        (("why-sqrt", "--x", "1 2"), "give --x without a question"),
    ],
)
def test_what_cannot_be_asked_is_said(capsys, args, words):
    assert main(["explain", *args, "--lang", "en"]) == 2
    assert words in capsys.readouterr().err
