"""The pictures of the documentation: all there, small, and drawn by the script that says so."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"!\[[^]]+\]\(pictures/([^)]+)\)", PAGE)
LARGE = 150_000
"""Bytes that a picture of the documentation may have."""


def test_the_page_shows_pictures_that_are_there_and_small():
    assert len(SHOWN) >= 10
    for name in SHOWN:
        assert 0 < (ROOT / "docs" / "pictures" / name).stat().st_size < LARGE, name


@pytest.mark.models
@pytest.mark.campaign
def test_the_script_draws_what_the_page_shows(tmp_path: Path):
    command = [sys.executable, ROOT / "scripts" / "pictures.py", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    drawn = {path.name for path in tmp_path.iterdir()}
    # A sound takes a file; the page on answers shows the last two.
    assert drawn == set(SHOWN) - {"sound.png"} | {"roles.png", "induction.png"}
    assert all(path.stat().st_size < LARGE for path in tmp_path.iterdir())
