"""Each file of ``examples/`` runs, and prints what it says that it prints."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pytest

from pages import ROOT, SHOWN

FILES = sorted((ROOT / "examples").glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_example_runs(file: Path) -> None:
    pytest.importorskip("torch")
    code, shown = file.read_text(encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(shown):
        exec(compile(code, file.name, "exec"), {"__name__": file.stem})
    promised = SHOWN.findall(code)
    assert promised
    assert shown.getvalue().splitlines() == promised


def test_there_are_examples() -> None:
    assert len(FILES) >= 3
