"""Digits worked out on paper: what comes next is right, a slip in it is named with what is so."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.explanation.notes import fact_check

STORY = """# Three words

| word | embedding |
|---|---|
| dogs | [1, 0] |
| chase | [0, 2] |
| cats | [1, 1] |

Scores of *dogs*: {score}. For *cats* we get [1, 2, 2].

Dividing by √2, *dogs* has {scaled} and *cats* has [0.707, 1.414, 1.414].

Their weights: *dogs* {weight}, *cats* [0.198, 0.401, 0.401].

The new vector of *dogs* is {output}, that of *cats* is [0.599, 1.203].
"""
STEPS = {
    "score": "[1, 0, 1]",
    "scaled": "[0.707, 0, 0.707]",
    "weight": "[0.401, 0.198, 0.401]",
    "output": "[0.802, 0.797]",
}
SLIPS = {
    "scaled": "[0.767, 0, 0.707]",
    "weight": "[0.401, 0.298, 0.401]",
    "output": "[0.802, 0.897]",
}
FIGURES = [
    ("The exponentials are 3.490, 1.000 and 1.284; their sum is {}.", "5.774", "5.174"),
    ("The list [4, -2, 1, 1] is given. Its variance is {}.", "4.5", "4.9"),
    ("For the weights [0.5, 0.25, 0.25] the entropy is {} bits.", "1.5", "1.25"),
    ("a = [1, 2, 2], b = [2, 1, 2]. Their cosine is {}.", "0.889", "0.839"),
    ("A loss of 3.0 is a perplexity of {}.", "20.09", "22.09"),
    ("正确词的概率是 0.1 时，损失是 {}。", "2.303", "2.803"),
    ("p = [0.99, 0.01] 时导数为 {}。", "0.0099", "0.099"),
    ("权重 [0.5, 0.25, 0.25] 的熵为 {} 比特。", "1.5", "1.25"),
    ("For [1, 3, 5, 3] the mean is 3, and the normalised vector is {}.",
     "[-1.414, 0, 1.414, 0]", "[-1, 0, 1, 0]"),
    ("ReLU 之前是 [1, 1, -3, 3]。\n\nReLU 之后得到 {}。", "[1, 1, 0, 3]", "[1, 1, 3, 3]"),
    ("RoPE rotates q = [2, 1] by the angle 0.5 to {}.", "[1.276, 1.836]", "[1.276, 1.806]"),
    ("padding 之前的分数是 s = [1.2, 0.4, 0.9, 2.0]。\n\n最后一个词遮住之后，权重变成 {}。",
     "[0.457, 0.205, 0.338, 0]", "[0.457, 0.205, 0.438, 0]"),
]  # fmt: skip


def wrong(note: str) -> list[tuple[str, str]]:
    return [(v.claim, v.values.get("right", "")) for v in fact_check(note).of("wrong")]


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"-?\d+(?:\.\d+)?", text.replace("−", "-"))]


def test_steps_that_follow_from_the_words_are_right():
    assert wrong(STORY.format(**STEPS)) == []


@pytest.mark.parametrize("step", SLIPS)
def test_a_slip_in_one_step_is_named_with_what_is_so(step):
    ((claim, right),) = wrong(STORY.format(**{**STEPS, step: SLIPS[step]}))
    assert SLIPS[step] in claim
    so = numbers(STEPS[step])
    assert numbers(right)[-len(so) :] == pytest.approx(so, abs=6e-4)


@pytest.mark.parametrize(("text", "right", "slip"), FIGURES)
def test_a_number_is_bound_by_its_words(text, right, slip):
    assert wrong(text.format(right)) == []
    told = numbers(" ".join(value for _, value in wrong(text.format(slip))))
    assert all(any(abs(one - other) < 6e-4 for other in told) for one in numbers(right))


@given(st.lists(st.integers(-3, 3), min_size=3, max_size=5, unique=True), st.data())
@settings(max_examples=15, deadline=None)
def test_weights_right_after_their_scores(scores, data):
    weights = np.exp(scores) / np.exp(scores).sum()
    shown = [f"{weight:.3f}" for weight in weights]
    note = "The scores are {}, so the weights after the softmax are [{}]."
    assert wrong(note.format(scores, ", ".join(shown))) == []
    place = data.draw(st.integers(0, len(scores) - 1))
    said = shown.copy()
    said[place] = f"{(weights[place] + 0.3) % 1:.3f}"
    found = wrong(note.format(scores, ", ".join(said)))
    assert len(found) == 1


def test_a_row_of_a_table_is_bound_by_the_others():
    head = "Attention weights after the softmax:\n\n| | k1 | k2 | k3 |\n|---|---|---|---|\n"
    rows = ["| q1 | 0.401 | 0.198 | 0.401 |", "| q2 | 0.045 | 0.768 | 0.187 |"]
    note = "x1 = [1, 0], x2 = [0, 2], x3 = [1, 1]\n\n" + head
    good = "| q3 | 0.198 | 0.401 | 0.401 |"
    assert wrong(note + "\n".join([*rows, good])) == []
    ((_, right),) = wrong(note + "\n".join([*rows, "| q3 | 0.198 | 0.451 | 0.401 |"]))
    assert "0.401" in right


@pytest.mark.parametrize(
    "note",
    [
        "X = [[1, 0], [0, 1]]. A second input is [1, 2], a third [3, 0].",
        "If the second score were 1.7 instead, the scores would be [2.0, 1.7, 0.5].",
        "The network has [3 × 4] + [4 × 1] = 12 + 4 = 16 weights, for a total of 21 numbers.",
        "The ratios are 0.2, 0.3 and 0.7; the largest version has 12 layers.",
    ],
)
def test_what_the_words_do_not_bind_is_no_claim(note):
    assert wrong(note) == []
