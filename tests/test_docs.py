"""Every Python block of the documentation runs, and prints what its comments say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import ROOT, blocks, commands, run_command, run_python, without_comments

PAGES = sorted((ROOT / "docs").glob("*.md"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = dict.fromkeys(c for page in PAGES for c in commands(page.read_text(encoding="utf-8")))
"""Each once, though several pages show it; what the README shows its own test runs."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    run_python(page.read_text(encoding="utf-8"), page.name)


@pytest.mark.models
@pytest.mark.parametrize("command", [c for c in COMMANDS if c not in commands(README)])
def test_each_command_runs(command: str, tmp_path: Path):
    run_command(command, tmp_path)


def test_there_are_pages():
    assert PAGES


# The helpers of pages.py can fail.

PAGE = """
```python
x = 2
```
prose
```python
print(x + 1)  # {}
```
"""


def test_blocks_share_a_namespace_and_keep_their_promise():
    assert run_python(PAGE.format(3), "page.md") == 2
    with pytest.raises(AssertionError):
        run_python(PAGE.format(4), "page.md")


def test_an_error_names_the_page_and_the_line():
    with pytest.raises(ZeroDivisionError) as caught:
        run_python("one\n```python\n1 / 0\n```\n", "page.md")
    last = caught.traceback[-1]
    assert (str(last.path), last.lineno + 1) == ("page.md", 3)


def test_comments_are_all_that_languages_may_change():
    assert without_comments("x = 1  # one\n# two\n\ny = '#3'\n") == ["x = 1", "y = '#3'"]


def test_only_the_asked_language_is_taken():
    assert [b.strip() for b in blocks("```sh\nls\n```\n```text\nno\n```\n", "sh")] == ["ls"]


def test_a_command_that_fails_is_found(tmp_path: Path):
    (command,) = commands("```sh\nmake look\nregard no-such-verb  # or so\n```\n")
    with pytest.raises(AssertionError, match="no-such-verb"):
        run_command(command, tmp_path)
