"""Where no hypothesis fits, the first step that departs is named; and what a subject holds."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from regard.diagnosis.building import build, load_file
from regard.diagnosis.check import check
from regard.diagnosis.subject import Sizes
from regard.diagnosis.watching import held_while, slopes_in

START = (
    "import numpy as np\n\ndef attention(x, wq, wk, wv):\n    q, k, v = x @ wq, x @ wk, x @ wv\n"
)
REST = "    e = np.exp(s - s.max(-1, keepdims=True))\n    w = e / e.sum(-1, keepdims=True)\n"
BODIES = {
    "scores": "    s = -np.abs(q[:, None] - k[None]).sum(-1)\n" + REST + "    return w @ v\n",
    "weights": "    s = q @ k.T / np.sqrt(k.shape[-1])\n    w = s * s / (s * s).sum(-1)[:, None]\n"
    "    return w @ v\n",
    "values": "    s = q @ k.T / np.sqrt(k.shape[-1])\n" + REST + "    return np.sqrt(w) @ v\n",
}


@pytest.mark.parametrize("step", BODIES)
def test_the_first_step_that_departs_is_named(step: str, tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text(START + BODIES[step])
    report = check(f"{file}:attention", lang="en")
    told = {
        "scores": "the scores q·kᵀ/√d do not",
        "weights": "the weights made of them do not",
        "values": "their product with the values does not",
    }
    assert report.verdict == "unknown"
    assert told[step] in report.undetermined[-1]


def test_nothing_is_named_where_nothing_of_the_inside_is_seen(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("import numpy as np\n\ndef attention(q, k, v):\n    return np.tanh(v)\n")
    assert len(check(f"{file}:attention", lang="en").undetermined) == 1


def test_what_a_subject_holds_is_seen_by_name_and_in_order(tmp_path: Path):
    file = tmp_path / "mine.py"
    file.write_text("def attention(x):\n    y = x + 1\n    y = y * 2\n    return y - 1\n")
    subject = build(*load_file(file, "attention"), None, Sizes())
    x = np.arange(3.0)
    before = sys.gettrace()
    held = held_while(subject, {"x": x})
    assert sys.gettrace() is before
    assert [name for name, _ in held] == ["x", "y", "y", "return"]
    np.testing.assert_array_equal(held[2][1], 2 * x + 2)
    np.testing.assert_array_equal(held[3][1], 2 * x + 1)


def test_slopes_are_read_from_a_vector_or_from_biases():
    slopes = np.array([0.5, 0.25, 0.125])
    gap = np.arange(4)[None, :] - np.arange(4)[:, None]
    for held in (slopes.reshape(3, 1, 1), slopes[:, None, None] * gap):
        np.testing.assert_allclose(slopes_in([("x", gap), ("alibi_bias", held)], 3), slopes)
    assert slopes_in([("bias", np.ones((3, 4, 4)) * gap**2), ("weights", slopes)], 3) is None
