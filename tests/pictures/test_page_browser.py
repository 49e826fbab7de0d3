"""The page in a real browser, opened as a file, with nothing to reach but itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pictures.browsing import choose, frame, said, watch
from regard.pictures import save

pytestmark = pytest.mark.browser


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("<img src='other.png'>", "other.png"),
        ("<script>console.warn('hm')</script>", "hm"),
        ("<script>throw new Error('no')</script>", "no"),
    ],
)
def test_each_fault_is_noticed(needs, launched, tmp_path, body, fault):
    file = tmp_path / "bad.html"
    file.write_text(body)
    page = launched(needs("chromium")).new_page()
    faults: list[str] = []
    watch(page, file.as_uri(), faults)
    page.goto(file.as_uri())
    page.close()
    assert fault in " ".join(faults)


def test_a_click_chooses_a_head(opened, make_overview):
    overview = make_overview(layers=3, heads=5)
    page = opened(overview)
    assert page.locator(".cell").count() == 15
    choose(page, 7)
    assert page.locator("#place").inner_text() == "Layer 1, head 2"
    assert page.locator("#role").inner_text() == "broad"
    assert page.locator("#numbers").inner_text().startswith("score 0.9")
    assert page.locator(".cell[aria-selected=true]").count() == 1
    assert page.url.endswith("#layer=1&head=2")


def test_arrows_choose_a_head(opened, make_overview):
    page = opened(make_overview(layers=3, heads=5))
    choose(page, 7)
    for key, place in (
        ("ArrowRight", "Layer 1, head 3"),
        ("ArrowDown", "Layer 2, head 3"),
        ("ArrowDown", "Layer 2, head 3"),
        ("ArrowLeft", "Layer 2, head 2"),
        ("ArrowUp", "Layer 1, head 2"),
    ):
        page.keyboard.press(key)
        assert page.locator("#place").inner_text() == place
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("layer 1")


def test_boxes_and_chips_choose_a_head(opened, make_overview):
    page = opened(make_overview(layers=(2, 7), heads=(1, 4)))
    page.select_option("#layer", label="7")
    page.select_option("#number", index=1)
    assert page.locator("#place").inner_text() == "Layer 7, head 4"
    page.locator("#notable button").first.click()
    chip = page.locator("#notable button").first.inner_text()
    assert page.locator("#place").inner_text() == chip.strip()


def test_roles_filter_and_arrows_pass_over_what_is_hidden(opened, make_overview):
    overview = make_overview(layers=3, heads=7)
    page = opened(overview)
    page.locator("#roles [data-role=same]").click()
    dim = page.locator(".cell.dim").count()
    assert dim == sum(view.role != "same" for view in overview.heads())
    page.locator("#roles [data-role=same]").click()
    assert page.locator(".cell.dim").count() == 0


def test_the_text_tells_the_weights(opened, make_overview):
    keep: dict[Any, Any] = {}
    page = opened(make_overview(keep=keep))
    choose(page, 1)
    weights = keep[0, 1]
    page.locator("#token-9").click()
    frame(page)
    page.locator("#token-1").hover()
    pair, number, kind = said(page, "said")
    assert (pair, kind) == ("it → animal", "exact")
    assert number == pytest.approx(weights[9, 1], abs=1e-4)
    listed = [float(text.lstrip("<")) for text in page.locator("#most b").all_inner_texts()]
    assert listed == pytest.approx(np.sort(weights[9])[::-1][:8], abs=1e-4)
    page.locator("[data-way=by]").click()
    frame(page)
    page.locator("#token-12").hover()
    pair, number, _ = said(page, "said")
    assert pair == "tired → it"
    assert number == pytest.approx(weights[12, 9], abs=1e-4)
    listed = [float(text.lstrip("<")) for text in page.locator("#most b").all_inner_texts()]
    assert listed == pytest.approx([w for w in np.sort(weights[:, 9])[::-1] if w > 1e-5], abs=1e-4)


def test_tints_follow_the_weights(opened, make_overview):
    keep: dict[Any, Any] = {}
    page = opened(make_overview(keep=keep))
    choose(page, 1)
    page.locator("#token-9").hover()
    frame(page)
    colours = page.evaluate(
        "[...document.querySelectorAll('.token')].map((e) => getComputedStyle(e).backgroundColor)"
    )
    light = [sum(map(int, re.findall(r"\d+", c)[:3])) if "a(" not in c else 766 for c in colours]
    row = keep[0, 1][9]
    strong = [at for at in np.argsort(-row) if row[at] > row.max() / 100]
    assert len(strong) > 3
    assert [light[at] for at in strong] == sorted(light[at] for at in strong)
    assert all(light[at] == 766 for at in range(10, 13))


def test_arrows_walk_the_text_and_escape_lets_go(opened, make_overview):
    page = opened(make_overview())
    page.locator("#token-4").click()
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    frame(page)
    assert page.locator(".token.here").inner_text() == "the"
    assert page.locator("#text").get_attribute("aria-activedescendant") == "token-5"
    assert "held" in page.locator("#text").get_attribute("class")
    page.keyboard.press("Escape")
    frame(page)
    assert "held" not in (page.locator("#text").get_attribute("class") or "")


def test_received_is_told(opened, make_overview):
    overview = make_overview()
    page = opened(overview)
    choose(page, 2)
    box = page.locator("#received").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 1.5 / 13, box["y"] + 9)
    text = page.locator("#received-said").inner_text()
    assert text == f"“animal” receives {overview.layers[0][2].received[1]:.2f} in all"


LATIN = """() => {
  const skip = (node) => node.closest("#text, #most, #model, [lang=en], script, style, noscript");
  const texts = [];
  const walk = document.createTreeWalker(document, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    if (walk.currentNode.parentElement && !skip(walk.currentNode.parentElement)) {
      texts.push(walk.currentNode.textContent);
    }
  }
  for (const element of document.querySelectorAll("[aria-label], [title], [data-busy]")) {
    for (const name of ["aria-label", "title", "data-busy"]) {
      texts.push(element.getAttribute(name) ?? "");
    }
  }
  return texts.filter((text) => /[A-Za-z]{2}/.test(text.replaceAll(/regard|Esc/g, "")));
}"""


def test_the_language_switch_leaves_no_english(opened, make_overview, chinese):
    page = opened(make_overview(chinese, 3, 7))
    assert len(page.evaluate(LATIN)) > 20
    page.locator("[data-lang=zh]").click()
    page.locator("#token-3").hover()
    page.locator("#received").hover()
    frame(page)
    assert page.evaluate(LATIN) == ["tiny/model 的注意力"]  # the title holds the model's name
    assert page.locator("html").get_attribute("lang") == "zh-Hans"
    page.locator("[data-lang=en]").click()
    assert page.locator("#heads-title").inner_text() == "All heads"
    undone = "/\\{\\w+\\}|undefined|NaN/.test(document.body.innerText)"
    assert page.evaluate(undone) is False


def test_the_page_opens_in_the_language_asked_for(opened, make_overview):
    assert opened(make_overview(), "zh").locator("#heads-title").inner_text() == "所有的头"


def test_hostile_tokens_do_not_break_out(opened, make_overview):
    hostile = (
        "</script><script>document.title='out'</script>", "<img src=x onerror=alert(1)>",
        '"', "\\", "\n", "\u2028", "\ud800", "👩\u200d🔬", "<!--<script>", "{query}", "$&", "\x00",
    )  # fmt: skip
    page = opened(replace(make_overview(hostile, 1, 2), model="<b>x</b>"))
    assert page.title() == "Attention of <b>x</b>"
    assert page.locator("#text img, #text script, #model b").count() == 0
    assert page.locator("#token-0").inner_text() == hostile[0]
    for at in range(len(hostile)):
        page.locator("#text").focus()
        page.keyboard.press("Home")
        for _ in range(at):
            page.keyboard.press("ArrowRight")
        frame(page)
    assert page.title() == "Attention of <b>x</b>"


def test_a_link_to_a_head_and_a_token_opens_there(opened, make_overview):
    page = opened(make_overview(), place="#layer=1&head=3&token=9")
    assert page.locator("#place").inner_text() == "Layer 1, head 3"
    assert page.locator(".token.here").inner_text() == "it"
    page = opened(make_overview(), place="#layer=99&head=x&token=-7")
    assert page.locator("#place").inner_text() == "Layer 0, head 0"


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_phone_shows_it_all(opened, make_overview, lang):
    page = opened(
        make_overview(300, 4, 12), lang, viewport={"width": 360, "height": 740},
        device_scale_factor=2, has_touch=True, is_mobile=True,
    )  # fmt: skip
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("#token-3").tap()
    frame(page)
    assert page.locator(".token.here").get_attribute("id") == "token-3"
    page.locator("#matrix").scroll_into_view_if_needed()
    page.locator("#matrix").tap(position={"x": 60, "y": 200})
    assert page.locator("#cell .value").inner_text()


def test_dark_paper_has_other_colours(opened, make_overview):
    corner = """() => [...document.querySelector('.cell canvas').getContext('2d')
      .getImageData(12, 0, 1, 1).data].slice(0, 3).reduce((a, b) => a + b)"""
    page = opened(make_overview(), color_scheme="dark")
    page.wait_for_selector("html[data-grid=shown]")
    assert page.evaluate(corner) < 150
    page.emulate_media(color_scheme="light")
    frame(page)
    assert page.evaluate(corner) > 650


def test_a_browser_without_unpacking_is_told(needs, launched, make_overview, tmp_path):
    file = tmp_path / "look.html"
    save(make_overview(), file)
    page = launched(needs("chromium")).new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(file.as_uri())
    assert "newer one" in page.locator("#trouble").inner_text()
    page.close()
