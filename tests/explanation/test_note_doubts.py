"""Who finds fault with most of a block has misread it."""

from __future__ import annotations

from regard.explanation.notes import fact_check
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.doubts import without_doubtful

BLOCK = ["", "| Q | 3 × 2 |", "| K | 3 × 2 |", "| V | 3 × 2 |", "| O | 3 × 2 |", "", "3 × 2"]


def verdicts(**lines: str) -> list[Verdict]:
    return [
        Verdict(int(line[1:]), "Q = 3 × 2", status, f"note.{status}")
        for line, status in lines.items()
    ]


def test_two_wrong_lines_stand():
    said = verdicts(l2="wrong", l3="wrong")
    assert without_doubtful(said, BLOCK) == said


def test_three_wrong_lines_are_doubtful_and_another_block_is_not():
    said = verdicts(l2="wrong", l3="wrong", l4="wrong", l7="wrong")
    assert without_doubtful(said, BLOCK) == verdicts(l7="wrong")


def test_as_many_right_lines_make_them_certain():
    long = [*BLOCK[:5], *BLOCK[1:5], ""]
    said = verdicts(l2="wrong", l3="wrong", l4="wrong", l5="right", l6="right", l7="right")
    assert without_doubtful(said, long) == said


def test_arithmetic_is_never_doubtful():
    note = "\n".join(f"- {a} × 2 = {2 * a + 1}" for a in range(3, 8))
    assert len(fact_check(note).of("wrong")) == 5
