"""The page as a file: what it holds, what it may load, and that no token can break out of it."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from regard._words import LANGUAGES
from regard.pictures import Overview, save
from regard.pictures.marks import MARKS
from regard.pictures.packing import LADDER, Grain, Layout, fitting, packed
from regard.pictures.packing import _planes as planes
from regard.pictures.page import KEYS, SCRIPTS, _asset

HOSTILE = (
    "</script>", "<!--<script>", '"', "'", "\\", "\n", "\u2028", "\ud800", "\ufffd", "👩\u200d🔬",
    "<img src=x onerror=alert(1)>", "&lt;", "{model}", "]]>", "汉字", "@style@", "\x00",
)  # fmt: skip


def written(overview: Overview, path: Path, lang="en") -> str:
    save(overview, path, lang)
    return path.read_text(encoding="utf-8")


def block(page: str, name: str) -> str:
    (text,) = re.findall(rf'<script type="[^"]+" id="{name}">([^<]*)</script>', page)
    return text


def unpacked(page: str, name: str) -> bytes:
    return zlib.decompress(base64.b64decode(block(page, name)), -15)


def meta(page: str) -> dict[str, Any]:
    return json.loads(block(page, "meta"))


class Reader:
    """Reads a layer's block as data.js does."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, kind: str, *shape: int) -> Any:
        size = np.dtype(kind).itemsize
        count = int(np.prod(shape))
        part, self.data = self.data[: count * size], self.data[count * size :]
        flat = np.frombuffer(part, np.uint8).reshape(size, count).T.copy()
        return flat.reshape(-1).view(kind).reshape(shape)


@pytest.mark.parametrize("count", [1, 13, 200, 256, 257, 600, 1100])
def test_the_numbers_in_the_file_are_the_overviews(make_overview, tmp_path, count):
    overview = make_overview(count, 2, 2, side=512)
    page = written(overview, tmp_path / "a.html")
    told = meta(page)
    assert told["dense"] == (count <= 256)
    for number, layer in enumerate(overview.layers):
        reader = Reader(unpacked(page, f"layer-{number}"))
        for view, head in zip(layer, told["layers"][number], strict=True):
            received = reader.take("<f4", count)
            assert np.allclose(received, view.received, rtol=2**-12)
            ahead = reader.take("<u2", 8, count).astype(int)
            keys = (np.arange(count) - ahead + 1) % (1 << 16) - 1
            assert np.array_equal(keys.T, view.top_keys)
            top = reader.take("<u2", 8, count).T / 65535
            assert np.abs(top - view.top_weights).max() <= 0.51 / 65535
            if not told["dense"]:
                image = reader.take("u1", *told["image"]) / 255
                wanted = Layout(overview, LADDER[0]).image(view)
                assert np.abs(image - np.sqrt(wanted / head["most"])).max() <= 0.501 / 255
            side = count if told["dense"] else len(overview.chosen)
            exact = reader.take("<u2", side, side) / 65535
            wanted = view.image if told["dense"] else view.exact
            assert np.abs(exact - wanted).max() <= 0.51 / 65535
        assert reader.data == b""  # and nothing is stored twice


@pytest.mark.parametrize("kept", [8, 1])
@pytest.mark.parametrize("floor", [0, 0.3, 2])
def test_a_coarse_page_keeps_what_it_says(make_overview, monkeypatch, tmp_path, floor, kept):
    overview = make_overview(600, 1, 7)
    heads = tuple(
        replace(view, top_keys=view.top_keys[:, :kept], top_weights=view.top_weights[:, :kept])
        for view in overview.layers[0]
    )
    overview = replace(overview, layers=(heads,))
    grain = Grain(fine=False, floor=floor, image=100)
    monkeypatch.setattr("regard.pictures.packing.LADDER", (grain,))
    page = written(overview, tmp_path / "a.html")
    told = meta(page)
    assert (told["fine"], told["floor"], told["strongest"]) == (False, floor, kept)
    assert (told["bin"], told["block"], told["image"]) == (1, 6, [100, 100])
    reader = Reader(unpacked(page, "layer-0"))
    for view, head in zip(heads, told["layers"][0], strict=True):
        received = np.expm1(reader.take("u1", 600) / 255 * np.log1p(head["received"]))
        step = np.log1p(head["received"]) / 255
        assert (np.abs(received - view.received) <= step * (1 + view.received)).all()
        ahead = reader.take("<u2", kept, 600).T.astype(int)
        top = (reader.take("u1", kept, 600).T / 255) ** 2
        is_told = (view.top_weights >= floor) | (view.top_keys < 0)
        is_told[overview.chosen] = True
        keys = (np.arange(600)[:, None] - ahead + 1) % (1 << 16) - 1
        assert np.array_equal(keys[is_told], view.top_keys[is_told])
        assert np.abs(top - view.top_weights)[is_told].max() <= 0.004
        assert not ahead[~is_told].any()
        assert not top[~is_told].any()
        reader.take("u1", 100, 100)
        exact = (reader.take("u1", 200, 200) / 255) ** 2
        assert np.abs(exact - view.exact).max() <= 0.004
    assert reader.data == b""


def test_a_page_gives_up_as_little_as_it_must(make_overview):
    overview = make_overview(600, 2, 7)

    def size(grain: Grain) -> int:
        layout = Layout(overview, grain)
        return sum(len(packed(b"".join(map(layout.packed, layer)))) for layer in overview.layers)

    sizes = [size(grain) for grain in LADDER]
    assert sizes == sorted(sizes, reverse=True)
    for most in (*sizes, sizes[0] + 1, 0):
        layout, blocks = fitting(overview, most)
        rung = next((rung for rung, size in enumerate(sizes) if size <= most), len(LADDER) - 1)
        assert sum(map(len, blocks)) == sizes[rung]
        assert (layout.fine, layout.floor) == (LADDER[rung].fine, LADDER[rung].floor)


def test_block_means_are_means_of_all_their_entries(make_overview):
    keep: dict[Any, Any] = {}
    overview = make_overview(1100, 1, 1, side=512, keep=keep)
    layout = Layout(overview, LADDER[0])
    assert (overview.block, layout.step, layout.block) == (3, 2, 6)
    whole = keep[0, 0]
    image = layout.image(overview.layers[0][0])
    assert image.shape == (184, 184)
    assert image[1, 0] == pytest.approx(whole[6:12, :6].mean(), rel=1e-5)
    assert image[183, 183] == pytest.approx(whole[1098:, 1098:].mean(), rel=1e-5)


def test_a_text_of_more_than_65535_tokens_gets_wider_numbers(make_overview):
    overview = make_overview(13, 1, 1)
    for count, bytes_each in ((13, 2), (65535, 2), (65536, 4)):
        layout = Layout(replace(overview, tokens=("a",) * count), LADDER[0])
        assert layout.index.itemsize == bytes_each


def test_planes():
    assert planes(np.array([0x0201, 0x0403], "<u2")) == b"\x01\x03\x02\x04"


def test_thumbnails_are_small_and_separate(make_overview, tmp_path):
    overview = make_overview(600, 3, 4)
    page = written(overview, tmp_path / "a.html")
    high, wide = meta(page)["thumbnail"]
    assert max(high, wide) <= 40
    assert len(unpacked(page, "thumbnails")) == 12 * high * wide
    assert page.index('id="thumbnails"') < page.index('"use strict"') < page.index('id="layer-0"')


def test_nothing_may_be_loaded_and_only_this_script_runs(make_overview, tmp_path):
    page = written(make_overview(), tmp_path / "a.html")
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1])
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "http" not in policy
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    for text, kind in ((script, "script"), (style, "style")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert not re.search(r"\b(src|href)\s*=\s*[\"'](?!data:)", page.split("</title>")[0])
    assert "http://" not in page
    assert "https://" not in page


@pytest.mark.parametrize("lang", LANGUAGES)
def test_hostile_tokens_and_names_stay_text(make_overview, tmp_path, lang):
    overview = make_overview(HOSTILE, 1, 2)
    plain = written(replace(overview, tokens=("a",) * len(HOSTILE)), tmp_path / "a.html", lang)
    for model in HOSTILE:
        page = written(replace(overview, model=model), tmp_path / "b.html", lang)
        for tag in ("<script", "</script", "<img", "<style", "<!--"):
            assert page.lower().count(tag) == plain.lower().count(tag)
        assert meta(page)["model"] == model.replace("\ud800", "?")
    tokens = meta(page)["tokens"]
    assert tokens[0] == "</script>"
    assert tokens[7] == "\ufffd"
    assert tokens[-2:] == ["@style@", "^@"]


def test_spaces_and_lines_of_the_text_are_known(make_overview, tmp_path):
    page = written(make_overview(("a", " b", "\n", "c"), 1, 1), tmp_path / "a.html")
    assert meta(page)["gaps"] == [0, 1, 2, 0]


def test_the_page_opens_on_what_was_asked(make_overview, tmp_path):
    told = meta(written(make_overview(queries=(9, 11)), tmp_path / "a.html"))
    assert (told["token"], told["held"]) == (9, True)
    overview = make_overview()
    told = meta(written(overview, tmp_path / "a.html"))
    assert told["held"] is False
    layer, head = told["notable"][0]
    assert overview.layers[layer][head].role == "none"


def test_the_page_holds_both_languages_and_asks_for_no_more(make_overview, tmp_path):
    words = meta(written(make_overview(), tmp_path / "a.html", "zh"))["words"]
    assert list(words) == list(LANGUAGES)
    told = {key for mark in MARKS.values() for key in (mark.name, mark.about)}
    assert set(words["en"]) == set(words["zh"]) == {*KEYS, *told}
    code = "".join(_asset(name) for name in (*SCRIPTS, "page.html"))
    assert set(re.findall(r'"(page\.[a-z-]+)"', code)) == set(KEYS)


def test_the_script_uses_every_placeholder_that_the_words_have(make_overview, tmp_path):
    words = meta(written(make_overview(), tmp_path / "a.html"))["words"]["en"]
    code = "".join(_asset(name) for name in SCRIPTS)
    names = {name for text in words.values() for name in re.findall(r"\{(\w+)\}", text)}
    assert {name for name in names if not re.search(rf"\b{name}\b[:, ]", code)} == set()
