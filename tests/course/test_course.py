"""The course: its numbers are computed, right answers pass, and wrong ones are named."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from regard._words import LANGUAGES, catalogue
from regard.cli import main
from regard.course import figures, judge
from regard.course.exercise import EXERCISES
from regard.course.figures import LESSONS, lesson
from regard.course.judge import judge as judged
from regard.explanation.notes import fact_check
from regard.explanation.positions import sinusoids
from regard.explanation.story import VECTORS

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "regard" / "course"
every_lesson = pytest.mark.parametrize("number", LESSONS)

# Answers as readers write them.

SOFTMAX = """
import numpy as np
def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
TWO = (
    SOFTMAX + "def attention(x, wq, wk, wv):\n    q, k, v = x @ wq, x @ wk, x @ wv\n    return {}\n"
)
THREE = SOFTMAX + (
    "def attention(x, wq, wk, wv, wo, heads):\n"
    "    n, c = x.shape\n"
    "    split = lambda a: a.{split}\n"
    "    q, k, v = split(x @ wq), split(x @ wk), split(x @ wv)\n"
    "    s = q @ k.transpose(0, 2, 1) / np.sqrt({width})\n"
    "    mask = {mask}\n"
    "    w = {weights}\n"
    "    return (w @ v).transpose(1, 0, 2).reshape(n, c){out}\n"
)
RIGHT_3 = {
    "split": "reshape(n, heads, -1).transpose(1, 0, 2)",
    "width": "c // heads",
    "mask": "np.tril(np.ones((n, n), bool))",
    "weights": "softmax(np.where(mask, s, -np.inf))",
    "out": " @ wo",
}
FOUR = (
    "import numpy as np\ndef positions(n, d):\n"
    "    p = np.zeros((n, d))\n    i = np.arange({start}, n + {start})[:, None]\n"
    "    angle = i / 10000 ** ({exponent} / d)\n"
    "    p[:, 0::2] = np.{first}(angle)\n    p[:, 1::2] = np.{second}(angle)\n    return p\n"
)
RIGHT_4 = {"start": 0, "exponent": "np.arange(0, d, 2)", "first": "sin", "second": "cos"}
FIVE = (
    "import torch\ndef attend(q, k, v):\n    n, d = q.shape[-2:]\n"
    "    s = q @ k.transpose(-1, -2) / {scale}\n"
    "    hidden = torch.ones(n, n).{triangle}.bool()\n"
    "    return {result}\n"
)
RIGHT_5 = {
    "scale": "d ** 0.5",
    "triangle": "triu(1)",
    "result": "s.masked_fill(hidden, -torch.inf).softmax(-1) @ v",
}
ONE = SOFTMAX + "def attend(x):\n    return {}\n"

RIGHT = {
    1: [ONE.format("softmax(x @ x.T) @ x")],
    2: [TWO.format("softmax(q @ k.T / np.sqrt(q.shape[1])) @ v")],
    3: [THREE.format(**RIGHT_3)],
    4: [FOUR.format(**RIGHT_4)],
    5: [
        FIVE.format(**RIGHT_5),
        "from torch.nn.functional import scaled_dot_product_attention as f\n"
        "def attend(q, k, v):\n    return f(q, k, v, is_causal=True)\n",
    ],
}
WRONG = {
    1: {
        "softmax-axis": ONE.format("softmax(x @ x.T, axis=0) @ x"),
        "softmax-missing": ONE.format("x @ x.T @ x"),
        "weights-only": ONE.format("softmax(x @ x.T)"),
        "scale-early": ONE.format("softmax(x @ x.T / np.sqrt(x.shape[1])) @ x"),
        "softmax-sum": ONE.format("(x @ x.T) / (x @ x.T).sum(1, keepdims=True) @ x"),
        "softmax-broadcast": "import numpy as np\ndef attend(x):\n    s = x @ x.T\n"
        "    e = np.exp(s - s.max())\n    return e / e.sum(axis=1) @ x\n",
        "softmax-all": "import numpy as np\ndef attend(x):\n    s = x @ x.T\n"
        "    e = np.exp(s - s.max())\n    return e / e.sum() @ x\n",
        "softmax-overflow": "import numpy as np\ndef attend(x):\n    e = np.exp(x @ x.T)\n"
        "    return e / e.sum(1, keepdims=True) @ x\n",
    },
    2: {
        "scale-missing": TWO.format("softmax(q @ k.T) @ v"),
        "scale-no-root": TWO.format("softmax(q @ k.T / q.shape[1]) @ v"),
        "scale-model-dim": TWO.format("softmax(q @ k.T / np.sqrt(x.shape[1])) @ v"),
        "scale-inverted": TWO.format("softmax(q @ k.T * np.sqrt(q.shape[1])) @ v"),
        "scale-late": TWO.format("softmax(q @ k.T) / np.sqrt(q.shape[1]) @ v"),
        "scale-value": TWO.format("softmax(q @ k.T / np.sqrt(v.shape[1])) @ v"),
        "softmax-broadcast": TWO.format(
            "(lambda e: e / e.sum(axis=1) @ v)(np.exp(q @ k.T / np.sqrt(q.shape[1])))"
        ),
        "scale-wrong-size": TWO.format("softmax(q @ k.T / np.sqrt(len(q))) @ v"),
        "query-key-swapped": TWO.format("softmax(k @ q.T / np.sqrt(q.shape[1])) @ v"),
        "value-wrong-source": TWO.format("softmax(q @ k.T / np.sqrt(q.shape[1])) @ x"),
        "softmax-axis": TWO.format("softmax(q @ k.T / np.sqrt(q.shape[1]), 0) @ v"),
        "value-is-key": TWO.format("softmax(q @ k.T / np.sqrt(q.shape[1])) @ k"),
    },
    3: {
        name: THREE.format(**{**RIGHT_3, **change})
        for name, change in {
            "causal-missing": {"mask": "np.ones((n, n), bool)"},
            "causal-transposed": {"mask": "np.triu(np.ones((n, n), bool))"},
            "causal-off-by-one": {"mask": "np.tril(np.ones((n, n), bool), 1)"},
            "mask-after-softmax": {"weights": "softmax(s) * mask"},
            "mask-multiplied": {"weights": "softmax(s * mask)"},
            "scale-model-dim": {"width": "c"},
            "output-projection-missing": {"out": ""},
        }.items()
    },
    4: {
        name: FOUR.format(**{**RIGHT_4, **change})
        for name, change in {
            "positions-half-exponent": {"exponent": "np.arange(d // 2)"},
            "positions-swapped": {"first": "cos", "second": "sin"},
            "positions-from-one": {"start": 1},
        }.items()
    },
    5: {
        name: FIVE.format(**{**RIGHT_5, **change})
        for name, change in {
            "causal-missing": {"triangle": "triu(n)"},
            "causal-transposed": {"triangle": "tril(-1)"},
            "scale-missing": {"scale": "1"},
            "scale-no-root": {"scale": "d"},
            "mask-after-softmax": {"result": "s.softmax(-1) * ~hidden @ v"},
            "mask-multiplied": {"result": "s.masked_fill(hidden, 0).softmax(-1) @ v"},
        }.items()
    },
}


def write(tmp_path: Path, number: int, code: str) -> Path:
    file = tmp_path / f"lesson{number}.py"
    file.write_text(code, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("number", "code"), [(number, code) for number in LESSONS for code in RIGHT[number]]
)
def test_a_right_answer_passes(tmp_path, number, code):
    if number == 5:
        pytest.importorskip("torch")
    assert judged(number, write(tmp_path, number, code)).right


@pytest.mark.parametrize(
    ("number", "name"), [(number, name) for number in LESSONS for name in WRONG[number]]
)
def test_a_wrong_answer_is_named(tmp_path, number, name):
    if number == 5:
        pytest.importorskip("torch")
    judgement = judged(number, write(tmp_path, number, WRONG[number][name]))
    assert (judgement.right, judgement.mistake) == (False, name)
    for lang in LANGUAGES:
        assert name in judgement.say(lang)


@every_lesson
def test_mistakes_can_be_told_apart(number):
    """No two mistakes give the same numbers, and none gives the right ones."""
    exercise = EXERCISES[number]
    with np.errstate(all="ignore"):
        found = {"": [exercise.right(*args) for args in exercise.rounds]}
        for name, mistake in exercise.mistakes.items():
            found[name] = [mistake(*args) for args in exercise.rounds]
    assert len(exercise.mistakes) >= 3
    names = list(found)
    for i, name in enumerate(names):
        for other in names[i + 1 :]:
            assert not judge._same(found[name], found[other]), (name, other)
    assert {f"learn.{name}" for name in names if name} <= set(catalogue())


@pytest.mark.parametrize(
    ("code", "mistake", "words"),
    [
        ("def other(x): pass\n", "missing", "no function attend"),
        ("def attend(x):\n    ...\n", "empty", "returns nothing yet"),
        ("def attend(x):\n    return x @ y\n", "error", "line 2: NameError"),
        ("def attend(x:\n", "error", "SyntaxError"),
        ("def attend(x):\n    return x[:1]\n", "shape", "should be (5, 3), but it is (1, 3)"),
        ("def attend(x):\n    return x * 0.5\n", "", "no known mistake"),
        ("import os\ndef attend(x):\n    os._exit(3)\n", "error", "stopped"),
    ],
)
def test_what_else_may_be_wrong_is_said(tmp_path, code, mistake, words):
    judgement = judged(1, write(tmp_path, 1, code))
    assert (judgement.right, judgement.mistake) == (False, mistake)
    assert words in judgement.say("en")
    assert judgement.say("zh")


def test_an_endless_answer_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "SECONDS", 1.5)
    judgement = judged(1, write(tmp_path, 1, "def attend(x):\n    while True: pass\n"))
    assert judgement.mistake == "slow"


def test_the_checker_names_what_the_lesson_does_not_know(tmp_path, monkeypatch):
    from regard.diagnosis import check as door

    seen = {}

    def check(subject, **options):
        seen.update(options, subject=subject)
        return SimpleNamespace(faults=[SimpleNamespace(id="odd", says="it is odd", mend="mend")])

    monkeypatch.setattr(door, "check", check)
    code = SOFTMAX + "def attention(x, wq, wk, wv, wo, heads):\n    return x\n"
    judgement = judged(3, write(tmp_path, 3, code))
    assert judgement.say("en") == "odd: it is odd Mend: mend"
    assert seen["causal"] is True
    assert seen["subject"].endswith("lesson3.py:attention")


# Texts


@every_lesson
@pytest.mark.parametrize("lang", LANGUAGES)
def test_no_number_of_a_lesson_is_typed(number, lang):
    text = (SOURCE / "lessons" / f"{number}.{lang}.md").read_text(encoding="utf-8")
    assert not re.search(r"\d\.\d", text)
    names = set(re.findall(r"@(\w+)@", text))
    assert names == set(figures.figures(number))
    assert not re.search(r"@\w+@", lesson(number, lang))


@every_lesson
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_lesson_passes_its_own_fact_check(number, lang):
    assert fact_check(lesson(number, lang)).of("wrong") == []


@every_lesson
@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_documentation_is_the_lesson(number, lang):
    page = ROOT / "docs" / "learn" / lang / f"{number}.md"
    assert page.read_text(encoding="utf-8") == lesson(number, lang), "say scripts/learn.py"


def test_the_numbers_of_the_lessons_computed_another_way():
    one, two, three, four = (figures.figures(number) for number in (1, 2, 3, 4))
    e = np.exp(VECTORS @ VECTORS.T)
    assert float(one["e_sum"]) == pytest.approx(e[0].sum(), abs=5e-5)
    assert float(one["w1"]) == pytest.approx(e[0, 0] / e[0].sum(), abs=5e-5)
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp(float(one["big"])))
        assert np.isfinite(np.exp(float(one["big"]) - 1))
    q, k = VECTORS @ [[1, 1], [0, 1]], VECTORS @ [[1, 0], [1, 1]]
    assert float(two["s13"]) == pytest.approx((q @ k.T)[0, 2])
    assert float(two["s31"]) == pytest.approx((q @ k.T)[2, 0])
    w = np.exp(q @ k.T / 2**0.5)
    assert float(three["late"]) == pytest.approx(w[0, 0] / w[0].sum(), abs=5e-5)
    shown = [float(x.replace("−", "-")) for x in four["p3"].split()]
    assert np.allclose(shown, sinusoids(4, 4)[3], atol=5e-5)


def test_the_model_of_lesson_5_is_as_it_is_told():
    torch = pytest.importorskip("torch")
    code = (SOURCE / "exercises" / "5.txt").read_text(encoding="utf-8")
    names: dict = {"__name__": "lesson5"}
    exec(code, names)
    sizes = (names["LENGTH"], names["WIDTH"], names["HEADS"], names["BLOCKS"])
    assert sizes == (figures.LENGTH, figures.WIDTH, figures.HEADS, figures.BLOCKS)
    count = sum(p.numel() for p in names["Model"]().parameters())
    assert f"{count:,}" == figures.figures(5)["parameters"]
    exec(RIGHT[5][0], names)
    torch.manual_seed(0)
    share = names["train"](seconds=2)
    assert 0 < share <= 1


@every_lesson
def test_both_languages_have_the_same_parts(number):
    shapes = []
    for lang in LANGUAGES:
        text = lesson(number, lang)
        shapes.append((text.count("```"), text.count("\n## "), text.count("`lesson")))
    assert shapes[0] == shapes[1]


# At the command line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@every_lesson
@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_lesson_opens_and_brings_its_file(capsys, folder, number, lang):
    assert main(["learn", str(number), "--lang", lang]) == 0
    said = capsys.readouterr()
    assert f"lesson{number}.py" in said.err
    code = Path(f"lesson{number}.py").read_text(encoding="utf-8")
    assert catalogue()[f"learn.task-{number}"][lang] in code
    compile(code, "lesson", "exec")
    assert main(["learn", str(number), "--lang", lang]) == 0
    assert Path(f"lesson{number}.py").read_text(encoding="utf-8") == code
    if number != 5:
        assert main(["learn", str(number), "--check", "--lang", lang]) == 1


def test_progress_is_remembered(capsys, folder):
    write(folder, 1, RIGHT[1][0])
    assert main(["learn", "--lang", "en"]) == 0
    assert "✓" not in capsys.readouterr().out
    assert main(["learn", "1", "--check", "--lang", "en"]) == 0
    assert "Right" in capsys.readouterr().out
    assert json.loads((folder / "state/regard/learn.json").read_text()) == [1]
    assert main(["learn", "--lang", "zh"]) == 0
    assert "✓ 第 1 课" in capsys.readouterr().out
    (folder / "state/regard/learn.json").write_text("{broken")
    assert main(["learn", "--lang", "en"]) == 0
    assert "✓" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("args", "words"), [(["9"], "there is no lesson 9"), (["2", "--check"], "no lesson2.py here")]
)
def test_what_cannot_be_learned_is_said(capsys, folder, args, words):
    assert main(["learn", *args, "--lang", "en"]) == 2
    assert words in capsys.readouterr().err


def test_the_script_that_writes_the_documentation_agrees():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "learn.py", "--check"], capture_output=True, check=False
    )
    assert done.returncode == 0


def test_the_runner_calls_every_round_and_says_what_went_wrong(tmp_path):
    from regard.course.runner import main as run

    given, taken = tmp_path / "given.npz", tmp_path / "taken.npz"
    np.savez(given, **{"0_0": np.eye(2), "0_1": np.array(3), "1_0": np.ones((1, 2)), "1_1": 2})
    code = "def f(x, n):\n    return x * n\n\ndef g(x, n):\n    pass\n\ndef h(x, n):\n    1 / 0\n"
    file = write(tmp_path, 1, code)

    def said(name: str, library: str = "numpy") -> dict[str, str]:
        run(str(file), name, library, str(given), str(taken))
        return json.loads(taken.with_suffix(".json").read_text())

    assert said("f") == {}
    with np.load(taken) as found:
        assert found["0"].tolist() == [[3, 0], [0, 3]]
        assert found["1"].tolist() == [[2, 2]]
    assert said("nowhere") == {"missing": "nowhere"}
    assert said("g") == {"empty": "g"}
    assert said("h") == {"error": "ZeroDivisionError: division by zero", "line": "8"}
    pytest.importorskip("torch")
    assert said("f", "torch") == {}
