"""A trace is the definition, told: its numbers, its code and its words agree with each other."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard._words import LANGUAGES, catalogue, say
from regard.explanation.attention import POSITIONS
from regard.explanation.embedding import embed
from regard.explanation.embedding import table as learned
from regard.explanation.numbers import column, worked, written
from regard.explanation.positions import angles, sinusoids
from regard.explanation.questions import QUESTIONS, ask
from regard.explanation.sheet import FIXED, GIVEN, OPERATIONS, Sheet
from regard.explanation.story import VECTORS

DOTS = [[0.26, 0.23, 0.08], [0.23, 0.25, 0.24], [0.08, 0.24, 0.64]]


def matrix(n: int, d: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal((n, d))


def traces() -> list[regard.Trace]:
    """Every kind of trace there is."""
    x, w = matrix(5, 4), matrix(4, 4, 1)
    full = {"wq": w, "wk": w.T, "wv": matrix(4, 6, 2), "wo": matrix(6, 3, 3), "heads": 2}
    return [
        regard.explain(),
        regard.explain(x),
        regard.explain(matrix(2, 1)),
        regard.explain(matrix(1, 3)),
        regard.explain("The cat sat on the mat"),
        regard.explain("那只猫坐在垫子上", heads=2),
        regard.explain(x, mask=regard.causal() & ~regard.prefix(1)),
        *(regard.explain(x, positions=p, mask=regard.window(2), **full) for p in POSITIONS),
    ]


TRACES = traces()
every_trace = pytest.mark.parametrize("trace", TRACES, ids=range(len(TRACES)))


def test_the_story_begins_with_the_dot_products_and_ends_with_the_output():
    trace = regard.explain()
    assert trace["dots"]["D"].round(12).tolist() == DOTS
    first = VECTORS @ VECTORS.T
    assert np.allclose(trace["raw"]["R"], first @ VECTORS)
    assert np.allclose(trace["average"]["O_1"], regard.attend(VECTORS, VECTORS, VECTORS, scale=1.0))
    assert np.allclose(trace["order"]["O_2"], regard.attend(VECTORS, VECTORS, VECTORS))
    text = trace.text("en")
    for number in (0.26, 0.23, 0.08, 0.25, 0.24, 0.64):
        assert str(number) in text
    assert text.index("0.26  0.23  0.08") < text.index("0.3776") < text.index("W_O")


def attended(trace: regard.Trace, tail: str, heads: int = 1, **how: Any) -> Any:
    q, k, v = (trace.sheet[f"{name}{tail}"] for name in "QKV")
    return regard.attend(q, k, v, engine="formula", **how)


@pytest.mark.parametrize("positions", [None, *POSITIONS])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("mask", [None, regard.causal(), regard.window(1), ~regard.prefix(9)])
def test_a_trace_is_attend(positions, heads, mask):
    x = matrix(6, 4)
    trace = regard.explain(
        x, wq=matrix(4, 8, 1), wk=matrix(4, 8, 2), wv=matrix(4, 4, 3), wo=matrix(4, 2, 4),
        heads=heads, mask=mask, positions=positions,
    )  # fmt: skip
    tail = "_h" if heads > 1 else ""
    q, k = (trace.sheet[f"{name}{tail}{'_r' if positions == 'rotary' else ''}"] for name in "QK")
    bias = regard.alibi(heads) if positions == "alibi" else None
    out = regard.attend(q, k, trace.sheet[f"V{tail}"], mask, bias=bias, engine="formula")
    if heads > 1:
        out = np.concatenate(list(out), axis=-1)
    assert np.allclose(trace.output, out @ matrix(4, 2, 4), atol=1e-12)
    if mask is None:
        assert np.allclose(trace.weights.sum(-1), 1)


def test_scale_and_temperature_are_what_they_say():
    x = matrix(3, 4)
    trace = regard.explain(x, scale=0.3, temperature=2.0)
    assert np.allclose(trace.output, regard.attend(x, x, x, scale=0.15))


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99))
def test_rotary_scores_depend_on_distance_alone(n, pairs, seed):
    d = 2 * pairs
    row = matrix(1, d, seed).repeat(n, axis=0)
    scores = regard.explain(row, positions="rotary")["scores"]["S"]
    for offset in range(n):
        diagonal = np.diagonal(scores, offset)
        assert np.allclose(diagonal, diagonal[0])


def test_sinusoids_are_sines_and_cosines():
    p = sinusoids(3, 4)
    for i in range(3):
        slow = i / 10_000**0.5
        assert np.allclose(p[i], [math.sin(i), math.cos(i), math.sin(slow), math.cos(slow)])
    assert sinusoids(3, 3).shape == (3, 3)
    assert angles(3, 4).shape == (3, 2)


@every_trace
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_the_code_computes_the_numbers(trace, library):
    if library == "torch":
        pytest.importorskip("torch")
    names: dict[str, Any] = {}
    exec(trace.script(library), names)
    for table in trace.sheet.tables.values():
        if table.name in names:
            assert np.allclose(np.asarray(names[table.name]), table.array, equal_nan=True)
    assert trace.result in names


def evaluated(line: str) -> tuple[float, float]:
    """Both sides of a worked sum."""
    left, right = line.rsplit(" = ", 1)
    code = (
        left.replace("·", "*")
        .replace("÷", "/")
        .replace("^", "**")
        .replace("−∞", "-inf")
        .replace("−", "-")
    )
    known = {"exp": math.exp, "sin": math.sin, "cos": math.cos, "max": lambda *a: max(a)}
    value = eval(code, known | {"inf": math.inf})
    return value, float(right.replace("−∞", "-inf").replace("−", "-").replace("NaN", "nan"))


@every_trace
def test_each_number_worked_out_is_what_it_says(trace):
    seen = 0
    for table in trace.sheet.tables.values():
        heads, rows, cols = (1, 1, *table.array.shape)[-3:]
        for place in {(0, 0, 0), (heads - 1, rows - 1, cols - 1)}:
            line = worked(trace.sheet, table.name, *place)
            if not line or "…" in line or "÷ 0 " in line or "NaN" in line:
                continue
            left, right = evaluated(line)
            assert left == pytest.approx(right, rel=2e-2, abs=2e-2), line
            seen += 1
    assert seen > 5


def test_a_wrong_sum_would_be_noticed():
    left, right = evaluated("0.1 · (−2) + exp(0 − 1) = 0.5")
    assert left != pytest.approx(right, abs=2e-2)


def test_multiplications_are_counted():
    trace = regard.explain(matrix(5, 4), wq=matrix(4, 4), heads=2)
    assert trace["Q"].multiplications == 5 * 4 * 4
    assert trace["scores"].multiplications == 5 * 5 * 4
    assert trace["sum"].multiplications == 5 * 5 * 4
    assert trace["scores"].memory == 2 * 5 * 5 * 8
    assert trace.multiplications == sum(step.multiplications for step in trace.steps)


# Words


@every_trace
@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_face_speaks(trace, lang):
    text, marked = trace.text(lang), trace.markdown(lang)
    document = json.loads(json.dumps(trace.document(lang), allow_nan=False))
    assert [step["name"] for step in document["steps"]] == [step.name for step in trace.steps]
    for step, told in zip(trace.steps, document["steps"], strict=True):
        title, words = trace.words(step, lang)
        assert "{" not in title + words
        assert (title, words) == (told["title"], told["text"])
        assert words in marked
        assert title in text
        assert bool(re.search(r"[\u4e00-\u9fff]", title + words)) == (lang == "zh")
    assert say(trace.title, lang) in text


def test_every_word_of_the_steps_is_used():
    used = {step.key for trace in TRACES for step in trace.steps}
    used |= {f"{key}-title" for key in used}
    traces = [*TRACES, regard.explain("The cat sat"), regard.explain("The zzyzx")]
    used |= {trace.title for trace in traces} | {trace.note for trace in traces if trace.note}
    assert {key for key in catalogue() if key.startswith("step.")} == used


def test_json_holds_every_number():
    trace = regard.explain(matrix(3, 2), mask=regard.causal())
    tables = {t["name"]: t for step in trace.document("en")["steps"] for t in step["tables"]}
    for name, table in trace.sheet.tables.items():
        values = np.array(tables[name]["values"], dtype=float).reshape(tables[name]["shape"])
        assert np.array_equal(values, table.array)


def test_what_is_large_is_cut_and_counted():
    trace = regard.explain(matrix(20, 15), mask=regard.causal())
    assert trace["input"].shapes == {"X": (20, 15)}
    text = trace.text("en", 200)
    assert "…15" in text
    assert "+8" in text
    assert "8 more rows" in trace.markdown("en")


def test_a_notebook_shows_it():
    html = regard.explain([[0.1, 0.5], [0.3, 0.4]], mask=regard.causal())._repr_html_()
    assert html.count("<details") == 9
    assert "<script" not in html
    assert "0.26" in html


def test_numbers_are_written_alike():
    assert column(np.array([0.5, 0.25, -np.inf])) == ["0.50", "0.25", "−∞"]
    assert written(-0.00001) == "−1e-5"
    assert written(-0.0) == "0"
    assert written(float("nan")) == "NaN"


# What is given


def test_words_become_vectors_of_a_learned_table():
    vectors, words, spelt = embed("The king and the prince eat bananaz 猫狗")
    assert words == ("The", "king", "and", "the", "prince", "eat", "bananaz", "猫", "狗")
    assert spelt == ("bananaz",)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 2, atol=0.02)
    assert np.array_equal(vectors[0], vectors[3])
    assert (vectors.round(2) == vectors).all()

    def alike(a, b):
        return float(learned()[a] @ learned()[b] / 127**2)

    assert alike("king", "prince") > alike("king", "eat") + 0.3
    assert alike("three", "four") > alike("three", "river") + 0.3
    assert alike("cat", "dog") > alike("cat", "state") + 0.3
    assert alike("狗", "dog") > 0.9
    assert alike("三", "four") > alike("三", "river") + 0.3
    assert len(learned()) > 4400


def test_a_word_that_the_table_lacks_is_told_by_its_letters():
    (a, b, c), _, spelt = embed("bananaz bananazs qqxk")
    assert len(spelt) == 3
    assert a @ b > a @ c


def test_torch_tensors_are_taken():
    torch = pytest.importorskip("torch")
    x = torch.tensor(VECTORS, requires_grad=True)
    assert np.allclose(regard.explain(x).output, regard.explain(VECTORS).output)


@pytest.mark.parametrize(
    ("how", "kind", "words"),
    [
        ({"x": [1.0, 2.0]}, regard.ShapeError, r"x must be a matrix.*\(2,\)"),
        ({"x": [[1.0, math.nan]]}, regard.ValueRangeError, "x must hold finite numbers"),
        ({"x": [["a"]]}, regard.KindError, "x must be a matrix of numbers"),
        ({"wq": np.eye(3)}, regard.ShapeError, r"wq must have one row for each of the 2"),
        ({"wq": matrix(2, 3)}, regard.ShapeError, "one width, but they give 3 and 2"),
        ({"wo": np.eye(3)}, regard.ShapeError, "wo must have one row for each of the 2"),
        ({"heads": 3}, regard.ValueRangeError, "heads must divide the 2 numbers of the queries"),
        ({"heads": 0}, regard.ValueRangeError, "heads must be a whole number"),
        ({"positions": "rope"}, regard.ValueRangeError, "sinusoidal, rotary, alibi, but it is 'r"),
        ({"temperature": 0.0}, regard.ValueRangeError, "temperature must be a number above 0"),
        ({"positions": "rotary", "heads": 2}, regard.ShapeError, "width is 1, which is odd"),
    ],
)
def test_what_does_not_fit_is_refused(how, kind, words):
    with pytest.raises(kind, match=words):
        regard.explain(**how)


def test_an_unknown_step_is_refused():
    with pytest.raises(regard.ValueRangeError, match="step must be one of input, dots"):
        regard.explain()["nowhere"]


def test_it_needs_numpy_alone():
    code = (
        "import sys, regard\n"
        "regard.explain().markdown('zh')\n"
        "print(*(m for m in ('torch', 'rich', 'typer', 'matplotlib') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_every_operation_has_code_and_is_used():
    every = [*TRACES, *map(ask, QUESTIONS)]
    used = {table.operation for trace in every for table in trace.sheet.tables.values()}
    assert used == {*OPERATIONS, GIVEN, FIXED}
    sheet = Sheet()
    sheet.given("X", [[1.0]])
    assert sheet.tables["X"].code("numpy") == ""
    assert list(sheet) == ["X"]
