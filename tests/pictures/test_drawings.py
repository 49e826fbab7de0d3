"""The pictures for papers: what stands in them, where, and in which colours."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pictures.drawn import drawing, luminance, style
from regard._errors import MissingError, ShapeError, UserError, ValueRangeError
from regard.pictures import (
    Change,
    Distances,
    Head,
    Heads,
    Links,
    Matrix,
    Numbers,
    Patches,
    Picture,
    Seconds,
    Strip,
    Words,
    picture_of,
    save,
)  # fmt: skip
from regard.pictures.canvas import styled
from regard.pictures.colours import diverging, ramp
from regard.pictures.strip import pieces

matplotlib = pytest.importorskip("matplotlib")
Image = pytest.importorskip("PIL.Image")

from regard.pictures import fonts  # noqa: E402

WORDS = ["The", " cat", " sat", "\n"]
RISING = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]])


@pytest.fixture(scope="session")
def chinese_font() -> str:
    try:
        return fonts.families(["汉字"])[1]
    except UserError:
        pytest.skip("needs a Chinese font: apt-get install fonts-noto-cjk")


def printed(picture: Picture, width: int = 80, lang="en") -> list[str]:
    file = io.StringIO()
    picture.show(Console(file=file, width=width), lang)
    return file.getvalue().splitlines()


def every(count: int = 4) -> list[Picture]:
    """One of each kind."""
    tokens = (WORDS * count)[:count]
    weights = np.tril(np.random.default_rng(0).random((count, count)))
    return [
        Matrix(weights, tokens, tokens, "A matrix"),
        Change(weights - 0.3, tokens, tokens, "A change"),
        Links([(1, 0, 0.7), (2, 1, 0.2)], tokens, tokens, "Links"),
        Strip(tokens, weights.sum(0), "A strip"),
        Patches(np.zeros((8, 12, 3), np.uint8), weights, (1, 1), "Patches"),
        Distances(np.arange(count), {"one": weights[-1]}, "Distances"),
        Heads([Head(0, 0, weights, "first"), Head(1, 2, weights)], "Heads"),
    ]


@pytest.mark.parametrize("picture", every(), ids=lambda picture: type(picture).__name__)
def test_each_picture_is_drawn_written_and_shown(picture: Picture, tmp_path: Path):
    picture.save(tmp_path / "a.png", "en")
    with Image.open(tmp_path / "a.png") as image:
        assert image.format == "PNG"
        assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
        assert image.width == pytest.approx(3.3 * 300, abs=1)
        assert np.asarray(image.convert("RGB")).std() > 5
    found = drawing(picture)
    assert found.size[0] == pytest.approx(3.3)
    assert picture.title in found.texts
    assert picture.title in printed(picture)
    assert repr(picture) == f"{type(picture).__name__}({picture.title!r})"
    outside, small = misplaced(picture, found.texts)
    assert (outside, small) == ([], [])


def misplaced(picture: Picture, drawn: list[str]) -> tuple[list[str], list[str]]:
    """What is written beyond the paper, and what is written in less than 6 points."""
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.text import Text

    with styled(picture._words("en")):
        sheet = picture._draw(picture._width, "en")
        width, height = sheet.figure.bbox.size
        renderer = RendererAgg(width, height, 100)
        sheet.figure.draw_without_rendering()
        outside, small = [], []
        for text in sheet.figure.findobj(Text):
            if text.get_visible() and text.get_text() in drawn:
                box = text.get_window_extent(renderer)
                if not (box.x0 >= -1 and box.x1 <= width + 1 and box.y0 >= -1):
                    outside.append(text.get_text())
                if box.y1 > height + 1:
                    outside.append(text.get_text())
                if text.get_fontsize() < 6:
                    small.append(text.get_text())
    return outside, small


def test_what_is_misplaced_is_found():
    matrix = Matrix(np.eye(2), ["a", "b"], ["a", "b"], "W" * 10)
    bad = replace(matrix, columns=Words(["a", "b"], "W" * 120))
    assert misplaced(bad, ["W" * 120])[0]


def test_a_notebook_shows_both_kinds():
    picture = every()[3]
    assert picture._repr_svg_().startswith("<?xml")
    assert picture._repr_png_().startswith(b"\x89PNG")


def test_another_width_another_suffix(tmp_path: Path):
    picture = every()[0]
    picture.save(tmp_path / "a.svg", "en", width=6.9)
    assert 'width="496.8pt"' in (tmp_path / "a.svg").read_text()
    with pytest.raises(UserError, match=r"“a.jpg”: end it in .png or .svg"):
        picture.save(tmp_path / "a.jpg")
    with pytest.raises(ValueRangeError, match="width must lie in 2 … 40 inches, but it is 1"):
        picture.save(tmp_path / "a.png", width=1)
    with pytest.raises(UserError, match="cannot write"):
        picture.save(tmp_path / "no" / "a.png")


# Colours


@pytest.mark.parametrize("dark", [False, True])
def test_the_colours_of_weights_go_one_way_in_grey_print(dark: bool):
    steps = [luminance(colour) for colour in ramp(dark)]
    assert all(np.diff(steps) * (1 if dark else -1) > -2e-3)
    assert abs(steps[-1] - steps[0]) > 0.6
    # 32 steps of weight are 32 steps of grey.
    assert all(np.diff(steps[::8]) * (1 if dark else -1) > 0)


def test_the_colours_of_differences_are_told_apart_by_colour_blind_readers():
    table = diverging() / 255.0
    steps = np.array([luminance(colour) for colour in diverging()])
    assert all(np.diff(steps[128::4]) < 0)
    assert all(np.diff(steps[:128:4]) > 0)
    assert steps[127] > 0.9
    # Machado, Oliveira and Fernandes 2009, full deuteranopia and protanopia.
    for blind in (
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.01182, 0.04294, 0.968881]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]],
    ):  # fmt: skip
        seen = np.clip(table @ np.array(blind).T, 0, 1)
        assert (np.abs(seen - seen[::-1]).max(axis=1)[:64] > 0.2).all()


# The matrix


def test_every_cell_has_the_colour_of_its_weight():
    found = drawing(Matrix(RISING, ["a", "b"], WORDS, "Mine"))
    fills = found.fills("weights")
    assert len(fills) == 8
    assert all(np.diff([luminance(fill) for fill in fills]) < 0)
    assert fills[-1] == "#" + bytes(ramp()[255]).hex()
    assert [text for text in found.texts if text in ("a", "b", "The", "cat", "sat", "↵")] == [
        "The", "cat", "sat", "↵", "a", "b",
    ]  # fmt: skip
    assert "0.80" in found.texts  # few cells have their numbers too
    assert "Exact; colours go by the square root." in found.texts


def test_as_many_tokens_as_fit_are_named_and_else_places_are_numbered():
    few, many = ([f"t{n}" for n in range(count)] for count in (20, 90))
    named = drawing(Matrix(np.eye(20), few, few))
    assert [text for text in named.texts if text in few] == few * 2
    assert named.size[0] == pytest.approx(6.9)
    numbered = drawing(Matrix(np.eye(90), many, many))
    assert not set(many) & set(numbered.texts)
    assert {"0", "20", "80", "query", "key"} <= set(numbered.texts)
    assert "<image" in numbered.source


def test_block_means_say_so_and_stand_at_their_places():
    tokens = [str(n) for n in range(600)]
    picture = Matrix(np.eye(200), tokens, tokens, entries=(3, 3))
    texts = drawing(picture).texts
    assert "Each place is the mean of 3 × 3 weights; colours go by the square root." in texts
    assert {"0", "100", "500"} <= set(texts)
    assert printed(picture)[-1].startswith("weight · Each place is the mean of 15 × ")


def test_words_to_sound_has_seconds_along_one_side():
    picture = Matrix(np.eye(3, 100), ["a", "b", "c"], Seconds(300, 0.02), entries=(1, 3))
    texts = drawing(picture).texts
    assert {"a", "b", "c", "0", "1", "5", "seconds"} <= set(texts)
    part = Seconds(300, 0.02).part(slice(100, 200))
    assert part.ticks(2) == [(0.0, "2"), (50.0, "3")]
    assert part.name(0) == "2.00 s"


def test_parts_of_a_side_keep_their_names():
    assert Words(WORDS).part(slice(1, 3)).names == (" cat", " sat")
    assert Numbers(100).part(slice(95, None)).ticks(5) == [
        (float(n), str(95 + n)) for n in range(5)
    ]


@pytest.mark.parametrize("shape", [(2, 3), (0, 4), (4,)])
def test_weights_that_do_not_fit_the_sides_are_refused(shape: tuple[int, ...]):
    with pytest.raises(ShapeError, match="weights must be 2 × 4, for 2 rows and 4 columns"):
        Matrix(np.zeros(shape), ["a", "b"], WORDS)


def test_a_difference_goes_both_ways_and_keeps_its_sign_in_grey():
    found = drawing(Change(np.array([[-0.5, 0.0, 0.5, 0.1]]), ["q"], WORDS, "Mine"))
    assert found.fills("weights")[0] == "#" + bytes(diverging()[0]).hex()
    assert found.fills("weights")[2] == "#" + bytes(diverging()[255]).hex()
    assert "−0.50" in found.texts
    assert "Exact differences; white is none." in found.texts
    small = np.where(np.eye(9, 36), -0.5, 0.1)
    assert drawing(Change(small, list("a" * 9), list("a" * 36))).texts.count("−") == 9


def test_a_matrix_of_zeros_is_drawn():
    assert set(drawing(Matrix(np.zeros((2, 2)), ["a", "b"], ["a", "b"])).fills("weights")) == {
        "#" + bytes(ramp()[0]).hex()
    }


def test_a_matrix_in_the_terminal_has_a_line_a_row():
    lines = printed(Matrix(RISING, ["a", "b"], WORDS, "Mine"))
    assert lines[1:3] == ["Mine", ""]
    (first, second) = lines[-3:-1]
    assert first.startswith("a  ")
    assert second.startswith("b  ")
    assert second.endswith("██")
    assert not first.endswith("██")


# Links


def test_links_join_their_tokens_the_more_opaque_the_more_weight():
    links = [(1, 0, 0.9), (2, 1, 0.3), (3, 3, 0.1), (3, 0, 0.6)]
    found = drawing(Links(links, WORDS, WORDS, "Mine"))
    lines = found.groups("link-")
    assert set(lines) == {"link-0-3-3", "link-1-2-1", "link-2-3-0", "link-3-1-0"}
    opacity = [style(lines[name], "stroke-opacity") for name in sorted(lines)]
    assert all(np.diff(opacity) > 0)
    assert opacity[-1] == 1
    assert [text for text in found.texts if text in ("The", "cat", "sat", "↵")] == [
        "The", "cat", "sat", "↵"] * 2  # fmt: skip
    path = next(p for p in lines["link-3-1-0"].iter() if p.get("d")).get("d").split()
    assert float(path[5]) < float(path[2])  # from the second token up to the first


def test_of_a_long_text_only_linked_tokens_have_a_line():
    tokens = [f"t{n}" for n in range(300)]
    links = [(n, n // 2, 1 / (n + 1)) for n in range(300)]
    found = drawing(Links(links, tokens, tokens))
    assert len(found.groups("link-")) == 28
    assert "t27 · 27" in found.texts
    assert "t28 · 28" not in found.texts
    assert any("The strongest 28 of 300 links" in text for text in found.texts)
    lines = printed(Links(links, tokens, tokens))
    assert "t0 · 0 → t0 · 0" in lines[0]


def test_links_that_are_none_or_lead_nowhere_are_refused():
    with pytest.raises(ValueRangeError, match="there is none"):
        Links([], WORDS, WORDS)
    with pytest.raises(ShapeError, match=r"one of 4 keys, but \(0, 4\) came"):
        Links([(0, 4, 0.5)], WORDS, WORDS)


# The strip


def test_a_strip_flows_like_its_text_and_colours_go_by_weight():
    found = drawing(Strip(["The", " cat", "s", " sat"], [0.1, 0.2, 0.4, 0.8], marked=[3]))
    boxes = found.groups("token-")
    assert len(boxes) == 4
    light = [luminance(found.fills(f"token-{n}")[0]) for n in range(4)]
    assert all(np.diff(light) < 0)
    assert {"The", "cat", "s", "sat"} <= set(found.texts)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (["The", " cat", "s", ",", " it"], "The cats, it"),
        (["[CLS]", "un", "##til", "now", ".", "[SEP]"], "[CLS] until now. [SEP]"),
        (["那", "只", "动物", "，", "因为"], "那只动物，因为"),
        (["用", "GPU", "算"], "用GPU算"),
        (["12", "7"], "12 7"),
        (["a", "\n", "b", " c"], "a↵b c"),
    ],
)
def test_tokens_are_joined_as_people_write(tokens: list[str], text: str):
    assert "".join(" " * piece.space + piece.text for piece in pieces(tokens)) == text


def test_words_are_not_broken_and_punctuation_begins_no_line():
    tokens = [" some", "thing", ","] * 40
    lines = printed(Strip(tokens, np.ones(120)), width=50)
    body = [line for line in lines if "some" in line]
    assert len(body) > 10
    assert all(line.lstrip().startswith("some") and line.endswith(",█") for line in body)


def test_a_text_too_long_to_be_written_is_bars():
    found = drawing(Strip(["x"] * 2000, np.linspace(0, 1, 2000)))
    assert len(found.groups("bar-")) == 0  # bars are images
    assert found.source.count('id="bar-') == 2
    assert (
        "2000 tokens in the order of the text, numbered from 0; several of them may share a dot."
        in (found.texts)
    )
    assert {"0", "1000"} <= set(found.texts)
    assert printed(Strip(["x"] * 9000, np.ones(9000)))[-2].startswith("… and ")
    with pytest.raises(ShapeError, match=r"weights must be \(2,\)"):
        Strip(["a", "b"], [1.0])


# Patches


def test_the_weight_of_a_patch_colours_its_part_of_the_image():
    image = np.full((40, 60, 3), 255, np.uint8)
    picture = Patches(image, np.array([[0.0, 0.0, 1.0], [0.0, 0.25, 0.0]]), (1, 2))
    laid = picture.laid
    assert laid.shape == (40, 60, 3)
    assert (laid[:20, :40] == 255).all()
    grey = laid @ [0.299, 0.587, 0.114]
    assert grey[0, 59] < grey[39, 30] < grey[39, 0]
    assert drawing(picture).source.count("<image") >= 2


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((8, 8, 3)),
        np.zeros((8, 8, 3), np.uint8),
        np.stack([np.full((8, 9), n) for n in (-1.0, 0.0, 1.0)]),
        np.zeros((1, 3, 8, 9)),
        Image.new("L", (8, 9)),
    ],
    ids=["floats", "bytes", "channels first", "a batch", "PIL"],
)
def test_images_of_many_kinds_are_taken(image, tmp_path: Path):
    assert Patches(image, np.eye(2)).image.dtype == np.uint8


def test_files_are_taken_and_no_images_refused(tmp_path: Path):
    Image.new("RGB", (2000, 10), (200, 0, 0)).save(tmp_path / "a.png")
    taken = Patches(str(tmp_path / "a.png"), np.eye(2)).image
    assert max(taken.shape) <= 640
    assert tuple(taken[0, 0]) == (200, 0, 0)
    (tmp_path / "b.png").write_text("no image")
    with pytest.raises(UserError, match=r"b\.png is no image that can be read"):
        Patches(tmp_path / "b.png", np.eye(2))
    with pytest.raises(ShapeError, match="image must be"):
        Patches(np.zeros((4, 4)), np.eye(2))
    with pytest.raises(ShapeError, match="weights must be"):
        Patches(np.zeros((4, 4, 3)), np.ones(3))


def test_patches_in_the_terminal_show_the_query():
    lines = printed(Patches(np.zeros((4, 4, 3)), np.eye(2), (0, 1)))
    assert lines[:2] == ["██▣▣", "  ██"]


# Distances


def test_each_head_has_a_line_with_a_stroke_of_its_own():
    shares = {name: np.array([0.5, 0.3, 0.2]) for name in ("head 0", "head 1")}
    found = drawing(Distances(np.arange(3), shares))
    assert len(found.groups("profile-")) == 2
    assert {"head 0", "head 1", "Exact shares."} <= set(found.texts)
    assert found.source.count("stroke-dasharray") >= 2
    assert any("█" in line for line in printed(Distances(np.arange(3), shares)))


def test_far_distances_stand_on_logarithmic_axes_in_bins():
    distance = np.arange(-500, 501)
    share = 1 / (1 + np.abs(distance))
    found = drawing(Distances(distance, {"a": share}))
    assert {"−100", "−10", "0", "10", "100"} <= set(found.texts)
    assert any("means over bins" in text for text in found.texts)
    assert len(Distances(distance, {"a": share})._curve(share)[0]) < 120


def test_profiles_that_do_not_fit_are_refused():
    with pytest.raises(ShapeError, match="one for each distance"):
        Distances(np.arange(3), {"a": np.ones(2)})
    with pytest.raises(ValueRangeError, match="1 … 7 profiles, but it holds 8"):
        Distances(np.arange(3), {str(n): np.ones(3) for n in range(8)})


# The grid


def test_each_head_has_its_place_and_the_frame_of_its_role(make_overview):
    overview = make_overview(layers=2, heads=4)
    found = drawing(Heads.of(overview))
    frames = found.groups("head-")
    assert set(frames) == {f"head-{n}-{m}" for n in range(2) for m in range(4)}
    roles = {view.role for view in overview.heads()}
    from regard.pictures.marks import MARKS, role_name

    assert {role_name(role, "en") for role in MARKS} & set(found.texts) == {
        role_name(role, "en") for role in roles
    }
    for view in overview.heads():
        frame = frames[f"head-{view.layer}-{view.head}"]
        assert MARKS[view.role].colour.lower() in "".join(
            one.get("style") or "" for one in frame.iter()
        )
    lines = printed(Heads.of(overview))
    assert [line[:4].strip() for line in lines[4:6]] == ["0", "1"]


@pytest.mark.parametrize("size", [(1, 2), (12, 12), (40, 3), (2, 32)])
def test_grids_of_any_size_fit_a_page(make_overview, size):
    picture = Heads.of(make_overview(2, layers=size[0], heads=size[1]))
    with styled(picture._words("en")):
        sheet = picture._draw(picture._width, "en")
    assert sheet.width in (3.3, 6.9)
    assert 1 < sheet.height <= 9


def test_a_narrow_terminal_says_what_it_leaves_out(make_overview):
    lines = printed(Heads.of(make_overview(layers=1, heads=32)), width=40)
    assert any("21" in line for line in lines[4:])
    with pytest.raises(ValueRangeError, match="there is none"):
        Heads([])


# An overview


def test_an_overview_of_one_head_is_its_matrix(make_overview):
    overview = make_overview(layers=(3,), heads=(6,), queries=(9, 11))
    picture = picture_of(overview)
    assert isinstance(picture, Matrix)
    assert np.array_equal(picture.weights, overview.layers[0][0].image[[9, 11]])
    assert picture.rows.names == (" it", " too")
    assert isinstance(picture_of(make_overview()), Heads)


def test_the_same_overview_gives_the_same_svg(make_overview, tmp_path):
    matplotlib.rcParams["font.size"] = 30
    once, again = (tmp_path / name for name in ("a.svg", "b.svg"))
    try:
        save(make_overview(), once)
        matplotlib.rcdefaults()
        save(make_overview(), again)
    finally:
        matplotlib.rcdefaults()
    assert once.read_text() == again.read_text()


# Letters


def test_letters_are_text_whose_glyphs_travel_along(chinese_font: str):
    found = drawing(Matrix(np.eye(2), ["汉字", "b"], ["汉字", "b"], "标题"), "zh")
    assert {"汉字", "标题", "查询", "键"} <= set(found.texts)
    assert found.source.count("@font-face") == 2
    assert f"'{chinese_font} " in found.source
    assert "sans-serif" in found.source
    assert len(found.source) < 60_000


def test_the_glyphs_of_a_file_are_those_of_its_letters(chinese_font: str):
    from fontTools.ttLib import TTFont

    cut = fonts.glyphs(chinese_font, "汉字x")
    assert {ord("汉"), ord("字")} <= set(TTFont(io.BytesIO(cut)).getBestCmap())
    assert len(TTFont(io.BytesIO(fonts.glyphs("DejaVu Sans", "ab"))).getBestCmap()) == 2
    assert fonts.glyphs("DejaVu Sans", "汉") is None


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


def test_dollars_and_controls_are_drawn_as_they_stand():
    tokens = ["$x^2$", "$", "\\frac", "\n", "\x1b", "a\tb", "_{", "\ud800"]
    texts = drawing(Matrix(np.eye(8), tokens, tokens)).texts
    assert {"$x^2$", "$", "\\frac", "↵", "^[", "a⇥b", "_{"} <= set(texts)


def test_without_matplotlib_the_install_line_is_told(make_overview, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingError, match=r'pip install "regard\[look\]"'):
        save(make_overview(), tmp_path / "a.png")


def test_without_pillow_the_install_line_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingError, match=r'pip install "regard\[look\]"'):
        Patches("a.png", np.eye(2))


def test_a_title_may_be_changed():
    picture = replace(every()[0], title="")
    assert "A matrix" not in drawing(picture).texts
    assert printed(picture)[0] != ""
