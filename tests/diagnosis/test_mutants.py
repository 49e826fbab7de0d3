"""Seeded faults are found by name: each in three styles of two libraries, and in pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

import mutants_of_attention as mutants
from subjects import faults, judged, wrong

pytest.importorskip("torch")

EVERY = 7
"""Every so many of the single mutants run in ``make test``; all of them in ``make campaign``."""


@pytest.mark.parametrize("style", mutants.STYLES_ALL, ids=lambda s: f"{s.library}-{s.name}")
def test_each_style_is_right_without_a_fault(style: mutants.Style, tmp_path: Path):
    (outcome,) = judged([style.case()], tmp_path)
    assert wrong(style.case(), outcome) == ""


def test_some_mutants_are_named(tmp_path: Path):
    cases = list(mutants.single())[::EVERY]
    outcomes = judged(cases, tmp_path)
    assert [text for c, o in zip(cases, outcomes, strict=True) if (text := wrong(c, o))] == []


@pytest.mark.campaign
def test_nearly_every_mutant_is_named(tmp_path: Path):
    cases = list(mutants.single())
    outcomes = judged(cases, tmp_path)
    missed = [text for c, o in zip(cases, outcomes, strict=True) if (text := wrong(c, o))]
    print(f"{len(cases)} mutants, {len(missed)} missed:", *missed, sep="\n  ")
    assert len(missed) <= 0.02 * len(cases), missed


@pytest.mark.campaign
def test_most_pairs_are_named_both(tmp_path: Path):
    cases = list(mutants.pairs())
    missed, false = [], []
    for start in range(0, len(cases), 100):
        part = cases[start : start + 100]
        for case, outcome in zip(part, judged(part, tmp_path), strict=True):
            if not case.faults <= faults(outcome):
                missed.append(wrong(case, outcome) or case.name)
            if faults(outcome) - case.faults:
                false.append(wrong(case, outcome))
    print(f"{len(cases)} pairs, {len(missed)} missed, {len(false)} with a name too many:")
    print(*missed, *false, sep="\n  ")
    assert len(missed) <= 0.1 * len(cases), missed
    assert len(false) <= 0.01 * len(cases), false
