"""PNG and SVG: what is drawn, in which letters, and what is refused."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from regard._errors import MissingError, UserError
from regard.pictures import Overview, save
from regard.pictures.colours import ramp
from regard.pictures.figure import LABELS, label
from regard.pictures.marks import MARKS

matplotlib = pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")

from regard.pictures import figure, fonts  # noqa: E402


@pytest.fixture
def chinese_font() -> str:
    try:
        return fonts.families(["汉字"])[1]
    except UserError:
        pytest.skip("needs a Chinese font: apt-get install fonts-noto-cjk")


def svg_of(overview: Overview, path: Path, lang="en") -> str:
    save(overview, path, lang)
    return path.read_text(encoding="utf-8")


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def has(image: np.ndarray, colour: str, count: int = 50) -> bool:
    wanted = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8)
    return int((np.abs(image.astype(int) - wanted).max(axis=2) <= 2).sum()) >= count


def test_a_grid_shows_every_role_that_occurs_and_no_other(make_overview, tmp_path):
    overview = make_overview(layers=1, heads=4)
    save(overview, tmp_path / "a.png")
    image = pixels(tmp_path / "a.png")
    roles = {view.role for view in overview.heads()}
    assert {role for role, mark in MARKS.items() if has(image, mark.colour)} == roles
    dark = "#" + bytes(ramp()[255]).hex()
    assert has(image, dark)  # the strongest entry of a thumbnail has the ramp's last colour


@pytest.mark.parametrize("size", [(1, 2), (12, 12), (40, 3), (2, 32)])
def test_grids_of_any_size_are_neither_tiny_nor_huge(make_overview, tmp_path, size):
    save(make_overview(layers=size[0], heads=size[1]), tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
        assert min(image.size) >= 300
        assert max(image.size) <= 5000


def test_one_head_is_drawn_exactly(make_overview):
    overview = make_overview(layers=(3,), heads=(6,))
    drawn = figure._matrix(overview, overview.layers[0][0], "en")
    axes = drawn.axes[0]
    assert np.array_equal(axes.images[0].get_array(), overview.layers[0][0].image)
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names == [label(token) for token in overview.tokens]
    assert [text.get_text() for text in axes.get_xticklabels()] == names
    assert len(axes.texts) == 0  # thirteen are too many for numbers


def test_up_to_twelve_tokens_have_numbers(make_overview):
    overview = make_overview(12, (3,), (6,))
    axes = figure._matrix(overview, overview.layers[0][0], "en").axes[0]
    image = overview.layers[0][0].image
    assert [text.get_text() for text in axes.texts] == [f"{w:.2f}" for w in image[image > 0]]


@pytest.mark.parametrize(("count", "named"), [(60, 60), (61, 31), (400, 50)])
def test_long_axes_name_some_tokens(make_overview, count, named):
    overview = make_overview(count, (0,), (0,))
    axes = figure._matrix(overview, overview.layers[0][0], "en").axes[0]
    assert len(axes.get_xticklabels()) == named <= LABELS


def test_a_picture_of_block_means_says_so(make_overview):
    overview = make_overview(600, (0,), (0,))
    assert overview.block == 3
    bar = figure._matrix(overview, overview.layers[0][0], "en").axes[1]
    assert bar.get_title(loc="left") == "mean weight of\n3 × 3 entries"


def test_asked_queries_are_the_rows(make_overview):
    overview = make_overview(layers=(3,), heads=(6,), queries=(9, 11))
    axes = figure._matrix(overview, overview.layers[0][0], "en").axes[0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["it", "too"]
    assert np.array_equal(axes.images[0].get_array(), overview.layers[0][0].image[[9, 11]])


def test_svg_letters_are_outlines_chinese_too(make_overview, tmp_path, chinese_font: str):
    svg = svg_of(make_overview(("汉字", "b"), (0,), (0,)), tmp_path / "a.svg", "zh")
    assert "<text" not in svg
    assert "font-family" not in svg
    outlines = set(re.findall(r'<path id="([^"]+-[0-9a-f]+)"', svg))
    assert any(name.startswith("DejaVu") for name in outlines)
    # 汉 and 字 and the Chinese words of the title; each outline is drawn by reference.
    assert sum(not name.startswith("DejaVu") for name in outlines) > 10
    assert set(re.findall(r'href="#([^"]+-[0-9a-f]+)"', svg)) == outlines


def test_the_same_overview_gives_the_same_svg(make_overview, tmp_path):
    once = svg_of(make_overview(), tmp_path / "a.svg")
    matplotlib.rcParams["font.size"] = 30
    try:
        assert svg_of(make_overview(), tmp_path / "b.svg") == once
        assert matplotlib.rcParams["font.size"] == 30
    finally:
        matplotlib.rcdefaults()


def test_a_letter_that_no_font_has_is_named(make_overview, tmp_path):
    overview = make_overview(("\U0010fffd", "b"), (0,), (0,))
    with pytest.raises(UserError, match="fonts-noto-cjk") as caught:
        save(overview, tmp_path / "a.svg")
    assert "\U0010fffd" in str(caught.value)
    assert ".html" in caught.value.say("zh")
    assert list(tmp_path.iterdir()) == []


def test_without_a_chinese_font_the_letters_and_the_remedy_are_named(
    make_overview, tmp_path, monkeypatch
):
    known = fonts._letters
    monkeypatch.setattr(
        fonts, "_letters", lambda name: known(name) if name == "DejaVu Sans" else frozenset()
    )
    with pytest.raises(UserError) as caught:
        save(make_overview(("汉字", "b"), (0,), (0,)), tmp_path / "a.png")
    assert "2 of the characters (字汉)" in str(caught.value)
    save(make_overview(("汉字", "b")), tmp_path / "grid.png")  # names no token, needs no glyph


def test_a_font_that_is_gone_is_passed_over(monkeypatch):
    from matplotlib import font_manager

    def gone(*_: object, **__: object) -> str:
        raise OSError("no such file")

    fonts._letters.cache_clear()
    monkeypatch.setattr(font_manager, "get_font", gone)
    try:
        assert fonts._letters("DejaVu Sans") == frozenset()
        assert fonts._letters("A Font That Nobody Has") == frozenset()
    finally:
        fonts._letters.cache_clear()


def test_dollars_and_controls_are_drawn_as_they_stand(make_overview, tmp_path):
    tokens = ("$x^2$", "$", "\\frac", "\n", "\x1b", "a\tb", "_{", "\ud800")
    svg_of(make_overview(tokens, (0,), (0,)), tmp_path / "a.svg")
    assert [label(token) for token in tokens[3:6]] == ["↵", "^[", "a⇥b"]


def test_a_head_of_zeros_is_drawn(make_overview, tmp_path):
    overview = make_overview(layers=1, heads=2)
    blank = replace(overview.layers[0][0], image=np.zeros_like(overview.layers[0][0].image))
    save(replace(overview, layers=((blank, overview.layers[0][1]),)), tmp_path / "a.png")
    save(replace(overview, layers=((blank,),)), tmp_path / "b.png")


def test_without_matplotlib_the_install_line_is_told(make_overview, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingError, match=r'pip install "regard\[look\]"'):
        save(make_overview(), tmp_path / "a.png")
