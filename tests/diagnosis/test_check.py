"""The door: what a person calls, what comes back, and what the code cannot do to the checker."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import regard
from regard import UserError, check
from regard.cli import main
from regard.diagnosis.report import Report
from regard.testing import assert_right

RIGHT = '''
import numpy as np

def attention(q, k, v, mask=None):
    """mask: True where a query may attend."""
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    if mask is not None:
        s = np.where(mask, s, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v
'''
WRONG = RIGHT.replace("np.sqrt(q.shape[-1])", "q.shape[-1]")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mine.py"


def written(file: Path, code: str, name: str = "attention") -> str:
    file.write_text(code, encoding="utf-8")
    return f"{file}:{name}"


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def columns(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    """All are (tokens, width)."""
    s = q @ k.T / np.sqrt(q.shape[-1])
    e = np.exp(s - s.max(0, keepdims=True))
    return e / e.sum(0, keepdims=True) @ v


# Verdicts and what they hold


def test_right_is_true_and_wrong_is_false():
    assert check(attention).verdict == "right"
    assert check(attention)
    report = check(columns)
    assert not report
    assert (report.verdict, [f.id for f in report.faults]) == ("wrong", ["softmax-axis"])


def test_a_fault_says_where_and_how_to_mend_it(file: Path):
    report = check(written(file, WRONG), lang="en")
    (fault,) = report.faults
    assert fault.id == "scale-no-root"
    assert (
        fault.line
        == WRONG.splitlines().index("    s = q @ np.swapaxes(k, -1, -2) / q.shape[-1]") + 1
    )
    assert fault.mend == "s = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5"
    assert fault.error_with_fault < 1e-12
    assert fault.error_of_right > 1e-3
    assert max(fault.example.right.shape) <= 3


def test_a_function_of_a_closure_comes_along():
    factor = 4.0

    def mine(q, k, v):
        s = q @ k.swapaxes(-1, -2) * factor
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v

    assert check(mine).verdict == "unknown"


def test_the_json_is_the_promised_one(file: Path):
    data = check(written(file, WRONG)).json()
    assert set(data) == {"verdict", "faults", "risks", "undetermined", "choices", "how_called"}
    names = {
        "id",
        "says",
        "evidence",
        "error_with_fault",
        "error_of_right",
        "line",
        "mend",
        "example",
    }
    for finding in (*data["faults"], *data["risks"]):
        assert set(finding) == names
    json.dumps(data, allow_nan=False)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_notebook_shows_it_without_markup_of_the_subjects(file: Path, lang: str):
    code = WRONG.replace("attention", "f").replace("/ q.shape[-1]", "/ q.shape[-1]  # <b>&")
    page = check(written(file, code, "f"), lang=lang)._repr_html_()
    assert "scale-no-root" in page
    assert "<b>&" not in page


def test_both_languages_differ(file: Path):
    target = written(file, WRONG)
    assert str(check(target, lang="en")) != str(check(target, lang="zh"))
    assert "scale-no-root" in str(check(target, lang="zh"))


# Options


def test_the_meaning_of_a_mask_can_be_said(file: Path):
    code = RIGHT.replace("mask: True where a query may attend.", "")
    target = written(file, code)
    assert "keep" in check(target, lang="en").how_called
    assert [f.id for f in check(target, mask="drop").faults] == ["mask-inverted"]
    assert check(target, mask="keep").faults == ()


def test_causality_can_be_asked_for():
    assert [f.id for f in check(attention, causal=True).faults] == ["causal-missing"]


def test_a_window_can_be_said(file: Path):
    code = RIGHT.replace(
        "    if mask",
        "    i = np.arange(s.shape[-1])\n    gap = i[:, None] - i\n"
        "    s = np.where((gap >= 0) & (gap < 3), s, -np.inf)\n    if mask",
    )
    target = written(file, code)
    assert check(target, window=3).verdict == "right"
    assert [f.id for f in check(target, window=4).faults] == ["window-off-by-one"]


def test_a_layout_can_be_said(file: Path):
    target = written(file, RIGHT)
    assert "BTHD" not in check(target, lang="en").how_called
    report = check(target, layout="BTHD", lang="en")
    assert report.verdict in ("right", "wrong", "unknown")
    assert "layout ...TD" not in check(target, layout="...TD", lang="en").how_called


def test_init_is_given_or_asked_for(file: Path):
    code = (
        RIGHT
        + "\nclass A:\n    def __init__(self, zeal): self.z = zeal\n    def forward(self, q, k, "
        "v):\n        return attention(q, k, v)\n"
    )
    asked = check(written(file, code, "A"), lang="en")
    assert asked.verdict == "unknown"
    assert "--init" in asked.undetermined[0]
    assert check(written(file, code, "A"), init={"zeal": 3}).verdict == "right"


def test_another_implementation_is_the_law(file: Path, tmp_path: Path):
    wrong, right = written(file, WRONG), written(tmp_path / "other.py", RIGHT)
    assert check(wrong, against=wrong).verdict == "right"
    assert check(right, against=right).verdict == "right"
    report = check(right, against=wrong, lang="en")
    assert report.verdict == "wrong"
    assert any("differs from attention" in text for text in report.undetermined)
    assert check(attention, against=len, lang="en").verdict == "unknown"


TORCH = """
import torch
import torch.nn as nn

class Mine(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        w = (q @ k.mT / q.size(-1) ** 0.5).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, c))

class Other(Mine):
    def forward(self, x):
        return super().forward(x) * 2
"""


def test_a_module_is_held_against_another_with_the_same_weights(file: Path):
    pytest.importorskip("torch")
    mine, other = written(file, TORCH, "Mine"), f"{file}:Other"
    assert check(mine, against=mine).verdict == "right"
    assert check(mine, against=other).verdict == "wrong"


NUMPY_CLASS = """
import numpy as np

class Mine:
    def __init__(self, dim):
        self.w = [np.random.randn(dim, dim) for _ in range(3)]
        self.Wq, self.Wk, self.Wv = (np.random.randn(dim, dim) for _ in range(3))

    def forward(self, x):
        q, k, v = x @ self.Wq, x @ self.Wk, x @ self.Wv
        s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v
"""


def test_an_object_is_held_against_its_own_kind(file: Path):
    target = written(file, NUMPY_CLASS, "Mine")
    assert check(target, against=target).verdict in ("right", "unknown")


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"mask": "keeps"}, "check.bad-mask"),
        ({"layout": "XYZ"}, "check.bad-layout"),
        ({"window": 0}, "check.bad-window"),
        ({"window": 1.5}, "check.bad-window"),
    ],
)
def test_an_option_that_is_none_is_refused(options: dict, key: str):
    with pytest.raises(UserError) as caught:
        check(attention, **options)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("target", "key"), [("nothing", "check.not-a-target"), ("no.py:f", "check.no-file")]
)
def test_a_target_that_is_none_is_refused(target: str, key: str):
    with pytest.raises(UserError) as caught:
        check(target)
    assert caught.value.key == key


# What cannot be judged


def test_a_name_that_the_file_lacks_is_told_with_those_it_has(file: Path):
    report = check(written(file, RIGHT, "atention"), lang="en")
    assert report.verdict == "unknown"
    assert "attention" in report.undetermined[0]


def test_a_file_that_raises_is_an_error(file: Path):
    report = check(written(file, "raise KeyError('x')\ndef attention(q, k, v): pass"), lang="en")
    assert report.verdict == "error"
    assert "KeyError" in report.undetermined[0]


def test_shapes_are_explained_as_shapes(file: Path):
    code = """
import numpy as np

def self_attention(X):
    n = X.shape[1]
    W_q = np.random.rand(n * n)
    W_k = np.random.rand(n * n)
    W_v = np.random.rand(n * n)
    Q, K, V = X @ W_q, X @ W_k, X @ W_v
    return Q @ K.T @ V
"""
    report = check(written(file, code, "self_attention"), lang="en")
    assert report.verdict == "error"
    assert "W_q (64,)" in report.undetermined[0]
    assert "flat vector of 64 = 8·8" in report.undetermined[1]


def test_what_no_hypothesis_fits_is_unknown_and_no_guess():
    def odd(q, k, v):
        return np.cos(q @ k.swapaxes(-1, -2)) @ v * 3

    report = check(odd)
    assert report.verdict == "unknown"
    assert report.faults == ()
    assert report.undetermined


def test_parameters_that_say_nothing_are_asked_for():
    def odd(alpha, beta=2):
        return alpha

    def nothing():
        return 1

    assert check(nothing).verdict == "unknown"
    assert check(odd).verdict in ("unknown", "error")


# The child


HOSTILE = {
    "ends the process": "import os\ndef attention(q, k, v): os._exit(3)",
    "prints": "def attention(q, k, v):\n    print('noise')\n    return q",
    "exits": "import sys\ndef attention(q, k, v): sys.exit(4)",
    "writes": "def attention(q, k, v):\n    open('mine.txt', 'w').write('x')\n    return q",
    "crashes": "import ctypes\ndef attention(q, k, v): ctypes.string_at(0)",
    "reads": "def attention(q, k, v): return input()",
    "recurses": "def attention(q, k, v): return attention(q, k, v)",
}


@pytest.mark.parametrize("code", HOSTILE.values(), ids=HOSTILE)
def test_hostile_code_is_contained(
    file: Path,
    code: str,
    capfd: pytest.CaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
):
    monkeypatch.chdir(tmp_path)
    report = check(written(file, code), lang="en")
    assert report.verdict in ("unknown", "error")
    assert capfd.readouterr() == ("", "")
    left = {name for name in os.listdir(tmp_path) if not name.startswith(".coverage")}
    assert left <= {"mine.py", "__pycache__"}


def test_what_does_not_end_is_ended(file: Path):
    code = "def attention(q, k, v):\n    while True: pass"
    report = check(written(file, code), lang="en", seconds=1)
    assert report.verdict == "unknown"
    assert "did not end within 1 seconds" in report.undetermined[0]


def test_memory_has_a_limit(file: Path):
    code = "import numpy as np\ndef attention(q, k, v): return np.ones(2 ** 33)"
    assert check(written(file, code)).verdict in ("unknown", "error")


def test_numpy_alone_is_enough(file: Path):
    target = written(file, WRONG)
    code = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ImportError('no torch here')\n"
        "sys.meta_path.insert(0, Absent())\n"
        f"import regard\nprint([f.id for f in regard.check({target!r}).faults])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "['scale-no-root']\n", done.stderr


# For other people's tests


def test_assert_right_passes_and_fails():
    assert_right(attention)
    with pytest.raises(AssertionError, match="softmax-axis"):
        assert_right(columns)
    with pytest.raises(AssertionError, match="causal-missing"):
        assert_right(attention, causal=True)


# The command


@pytest.mark.parametrize(("code", "exit_code"), [(RIGHT, 0), (WRONG, 1), ("x = 1", 2)])
def test_exit_codes(file: Path, code: str, exit_code: int, capsys: pytest.CaptureFixture):
    assert main(["check", written(file, code)]) == exit_code


def test_the_command_prints_json_and_nothing_else(file: Path, capfdbinary: pytest.CaptureFixture):
    assert main(["check", written(file, WRONG), "--json", "--lang", "zh"]) == 1
    out = capfdbinary.readouterr()
    data = json.loads(out.out)
    assert data["faults"][0]["id"] == "scale-no-root"
    assert re.search("[\u4e00-\u9fff]", data["faults"][0]["says"])
    assert out.err == b""


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_command_teaches(file: Path, capsys: pytest.CaptureFixture, lang: str):
    main(["check", written(file, WRONG), "--lang", lang])
    out = capsys.readouterr().out
    assert "scale-no-root" in out
    assert "+ s = q @ np.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5" in " ".join(out.split())
    assert "0.67" in out


def test_the_command_takes_every_option(file: Path, capsys: pytest.CaptureFixture):
    target = written(file, RIGHT)
    options = ["--mask", "keep", "--layout", "BTD", "--init", "{}", "--against", target]
    assert main(["check", target, *options]) == 0
    assert main(["check", target, "--causal"]) == 1
    assert main(["check", target, "--window", "3"]) == 0


@pytest.mark.parametrize(
    "options", [["--init", "["], ["--init", "[1]"], ["--window", "x"], ["--mask", "no"]]
)
def test_a_bad_option_ends_in_one_sentence(
    file: Path, options: list[str], capsys: pytest.CaptureFixture
):
    assert main(["check", written(file, RIGHT), *options]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_report_is_public():
    assert isinstance(check(attention), Report)
    assert regard.check is check
