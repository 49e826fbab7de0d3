"""A fact-check as it is saved: the marked note, the list of what is wrong, and all as JSON."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from pictures.browsing import watch
from regard._errors import UserError
from regard.cli import main
from regard.explanation.notes import fact_check

NOTE = """# Dots of ``<script>alert(1)</script>`` & co.

x1 = [0.1, 0.5]. Then x1 · x1 = 0.25.
The sum is 1 + 2 = 3.
So `2 · 3` | 7 = 2 · 3.

The rest: √16 = 5.
"""


def test_the_page_holds_every_line_of_the_note_and_marks_what_is_wrong(tmp_path):
    report = fact_check(NOTE)
    wrong = [verdict.line for verdict in report.of("wrong")]
    assert len(wrong) >= 2
    report.save(tmp_path / "note.html")
    page = (tmp_path / "note.html").read_text(encoding="utf-8")
    shown = re.findall(r'<span class="text">(.*?)</span>', page)
    assert [html.unescape(text) for text in shown] == NOTE.splitlines()
    assert "<script" not in page
    assert [int(line) for line in re.findall(r'<li id="line-(\d+)" class="wrong"', page)] == wrong
    for verdict in report.of("wrong"):
        assert html.escape(verdict.say("en")) in page


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_markdown_quotes_the_wrong_lines_in_ticks_that_hold(tmp_path, lang):
    report = fact_check(NOTE + "``` `` √9 = 4 `` ```\n")
    report.save(tmp_path / "note.md", lang)
    text = (tmp_path / "note.md").read_text(encoding="utf-8")
    assert report.summary(lang) in text
    for verdict in report.of("wrong"):
        assert report.line(verdict.line).strip() in text
        assert verdict.say(lang) in text
    for line in text.splitlines():  # what is quoted ends where its ticks end
        for ticks, quoted in re.findall(r"(?<!`)(`+)(?!`)(.*?)(?<!`)\1(?!`)", line):
            assert ticks not in re.findall("`+", quoted)


def test_a_program_reads_all_of_it(tmp_path):
    report = fact_check(NOTE)
    report.save(tmp_path / "note.json", "zh")
    document = json.loads((tmp_path / "note.json").read_text(encoding="utf-8"))
    assert document["wrong"] == len(report.of("wrong"))
    assert [claim["line"] for claim in document["claims"]] == [v.line for v in report.verdicts]


def test_another_format_is_refused_and_nothing_is_written(tmp_path, capsys):
    note = tmp_path / "note.md"
    note.write_text(NOTE, encoding="utf-8")
    with pytest.raises(UserError, match=r"\.html, \.md or \.json"):
        fact_check(NOTE).save(tmp_path / "note.pdf")
    args = ["explain", "--fact-check", str(note), "--lang", "zh", "--to"]
    assert main([*args, str(tmp_path / "note.pdf")]) == 2
    assert "不能保存为" in capsys.readouterr().err
    assert main([*args, str(tmp_path / "marked.html")]) == 1  # something is wrong in it
    assert {path.name for path in tmp_path.iterdir()} == {"note.md", "marked.html"}


@pytest.mark.browser
def test_the_page_is_walked_by_its_links_on_a_phone(needs, launched, tmp_path):
    file: Path = tmp_path / "note.html"
    report = fact_check(NOTE)
    report.save(file, "zh")
    faults: list[str] = []
    context = launched(needs("chromium")).new_context(viewport={"width": 360, "height": 640})
    try:
        page = context.new_page()
        watch(page, file.as_uri(), faults)
        page.goto(file.as_uri())
        wrong = [verdict.line for verdict in report.of("wrong")]
        for line in wrong:
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            assert page.url.endswith(f"#line-{line}")
            assert page.locator(f"#line-{line} .mark").get_attribute("aria-label") == "错误"
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    finally:
        context.close()
    assert faults == []
