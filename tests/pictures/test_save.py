"""The format follows the suffix; files are whole or absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from regard._errors import UserError
from regard.pictures import save
from regard.pictures.atomic import write_whole


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("a.png", b"\x89PNG"),
        ("a.SVG", b"<?xml"),
        ("a.html", b"<!doctype html>"),
        ("a.htm", b"<!doctype html>"),
        ("a.json", b'{"model"'),
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_suffix_names_the_format(make_overview, tmp_path: Path, name, start, lang):
    if lang == "zh" and name[2:].lower() in {"png", "svg"}:
        pytest.importorskip("matplotlib")
        from regard.pictures.fonts import families

        try:
            families(["汉"])
        except UserError:
            pytest.skip("needs a Chinese font: apt-get install fonts-noto-cjk")
    save(make_overview(layers=1, heads=1), str(tmp_path / name), lang)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["look.pdf", "look", ".png"])
def test_another_suffix_is_refused_with_the_four_formats(make_overview, tmp_path, name):
    with pytest.raises(UserError) as caught:
        save(make_overview(), tmp_path / name)
    for lang in ("en", "zh"):
        text = caught.value.say(lang)
        assert name in text
        assert all(suffix in text for suffix in (".html", ".png", ".svg", ".json"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(make_overview, tmp_path):
    with pytest.raises(UserError, match=r"cannot write .*look\.json: No such file or directory"):
        save(make_overview(), tmp_path / "nowhere" / "look.json")


def test_what_fails_midway_leaves_the_old_file(tmp_path):
    def parts():
        yield b"half"
        raise RuntimeError("in the middle")

    file = tmp_path / "look.html"
    file.write_text("old")
    with pytest.raises(RuntimeError):
        write_whole(file, parts())
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_a_link_stays_a_link_and_permissions_are_usual(tmp_path):
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    link.symlink_to(target)
    write_whole(link, [b"new"])
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert target.stat().st_mode == plain.stat().st_mode
    assert os.access(target, os.R_OK)


def test_a_page_tells_its_progress(make_overview, tmp_path):
    seen = []
    save(make_overview(layers=3), tmp_path / "a.html", progress=lambda *now: seen.append(now))
    assert seen == [(1, 3), (2, 3), (3, 3)]
