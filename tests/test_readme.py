"""What the two READMEs tell a person to run, runs; and they tell the same in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pages import ROOT, blocks, commands, run_command, run_python, without_comments

ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh-CN.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("text", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_python(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert run_python(text, "README") >= 1


@pytest.mark.models
@pytest.mark.parametrize("command", commands(ENGLISH))
def test_commands(command: str, tmp_path: Path):
    run_command(command, tmp_path)


@pytest.mark.parametrize("language", ["python", "sh"])
def test_both_languages_hold_the_same_code(language: str):
    english, chinese = (
        [without_comments(block) for block in blocks(text, language)] for text in (ENGLISH, CHINESE)
    )
    assert english
    assert english == chinese


def test_the_pictures_are_there():
    for text in (ENGLISH, CHINESE):
        pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
        assert pictures
        for picture in pictures:
            assert (ROOT / picture).is_file()
