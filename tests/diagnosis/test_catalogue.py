"""Every fault has words in both languages, a line, a mend, an example and a page."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from regard._words import catalogue
from regard.diagnosis.examples import FAULTS, example
from regard.diagnosis.faulty_lines import CODE
from regard.diagnosis.lines import PATTERNS

ROOT = Path(__file__).resolve().parents[2]


def pages():
    spec = importlib.util.spec_from_file_location("faults_script", ROOT / "scripts" / "faults.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("fault", FAULTS)
def test_each_example_is_small_and_shows_a_difference(fault: str):
    shown = example(fault)
    for matrix in (shown.right, shown.came):
        assert matrix.ndim == 2
        assert max(matrix.shape) <= 3
    same = shown.right.shape == shown.came.shape
    assert not (same and np.allclose(shown.right, shown.came, equal_nan=True))


def test_each_fault_has_words_lines_and_a_page():
    keys = catalogue()
    for fault in FAULTS:
        assert {f"fault.{fault}-{name}" for name in ("says", "right", "why", "mend")} <= set(keys)
    assert set(CODE) == set(PATTERNS) == set(FAULTS)


def test_the_pages_are_what_the_catalogue_says():
    stale = [p.name for p, text in pages().files().items() if p.read_text(encoding="utf-8") != text]
    assert stale == [], "run scripts/faults.py"


def test_no_page_is_left_over():
    assert {p.stem for p in (ROOT / "docs" / "faults").glob("*.md")} == set(FAULTS)
