"""Shapes that stand together are wrong only where they cannot all be so."""

from __future__ import annotations

import pytest

from regard.explanation.notes.tensors.agreement import agree, contradicted
from regard.explanation.notes.tensors.forms import Told

Q, K, V = (
    Told(1, "Q", "q", ("6", "64")),
    Told(2, "K", "k", ("9", "64")),
    Told(3, "V", "v", ("9", "32")),
)


def scores(*axes: str, side: str = "") -> Told:
    return Told(4, "scores", "scores", axes, side)


def out(*axes: str) -> Told:
    return Told(5, "output", "out", axes)


@pytest.mark.parametrize(
    ("told", "wrong"),
    [
        (scores("6", "9"), False), (scores("9", "6"), True), (scores("6", "64"), True),
        (out("6", "32"), False), (out("6", "64"), True), (out("9", "32"), True),
    ],
)  # fmt: skip
def test_a_shape_is_held_against_what_stands_beside_it(told, wrong):
    assert contradicted(told, [Q, K, V, told], {}) == wrong


def test_alone_it_is_wrong_only_against_what_is_told_in_words():
    alone = scores("7", "7")
    assert not contradicted(alone, [alone], {})
    assert contradicted(alone, [alone], {0: {"n": {"5"}}})
    assert not contradicted(alone, [alone], {0: {"n": {"5", "7"}}})


def test_nothing_is_said_where_the_others_do_not_agree_either():
    other = Told(6, "K", "k", ("9", "16"))
    assert not contradicted(scores("9", "6"), [Q, K, V, other, scores("9", "6")], {})


def test_heads_times_their_width_make_the_width():
    heads = Told(1, "Q", "q", ("2", "4", "10", "16"))
    assert agree([heads, Told(2, "x", "x", ("2", "10", "64"))], {})
    assert not agree([heads, Told(2, "x", "x", ("2", "10", "128"))], {})
