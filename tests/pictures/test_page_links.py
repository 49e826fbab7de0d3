"""The page's search, its lines between tokens, and what it tells of a long text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from pictures.browsing import choose, frame, said
from regard.pictures.packing import Grain

pytestmark = pytest.mark.browser


def search(page: Any, word: str, *keys: str) -> str:
    page.keyboard.press("Escape")  # leaves the search, where "/" is a letter like others
    page.keyboard.press("/")
    page.keyboard.type(word)
    for key in keys:
        page.keyboard.press(key)
    frame(page)
    return page.locator("#found").inner_text()


def test_search_finds_words_across_tokens(opened, make_overview):
    tokens = ("An", "imal", " farm", "\n", "the", " ANIMAL", ",", "那", "只", "动物", " animals")
    page = opened(make_overview(tokens, 2, 2))
    assert search(page, "animal") == "3 found"
    found = page.locator(".token.found").evaluate_all("all => all.map((one) => one.id)")
    assert found == ["token-0", "token-1", "token-5", "token-10"]
    here = page.locator(".token.here")
    page.locator("#token-2").click()
    page.locator("#search").focus()
    for key, place in (("Enter", 5), ("Enter", 10), ("Enter", 1), ("Shift+Enter", 10)):
        page.keyboard.press(key)
        frame(page)
        assert here.get_attribute("id") == f"token-{place}"
    page.locator("[data-found='-1']").click()
    assert page.locator("#found").inner_text() == "2 of 3"
    assert search(page, "只动") == "1 found"
    assert search(page, "farm the", "Enter") == "1 of 1"
    assert search(page, "#7", "Enter") == "1 of 1"
    assert here.inner_text() == "那"
    assert search(page, "#11") == search(page, "cow") == "not in the text"
    assert page.locator("[data-found='1']").is_disabled()
    page.keyboard.press("Escape")
    assert page.locator(".token.found").count() == 0
    assert page.evaluate("document.activeElement.id") == "text"


def told_links(page: Any) -> int:
    frame(page)
    said = page.locator("#links-said").inner_text()
    return int(re.match(r"(\d+) links between", said)[1])


def test_lines_are_the_links_of_at_least_the_weight_chosen(opened, make_overview):
    keep: dict[Any, Any] = {}
    page = opened(make_overview(keep=keep))
    choose(page, 1)
    weights = keep[0, 1]
    assert told_links(page) == (weights >= 0.1).sum()
    page.locator("#least").fill("30")
    assert told_links(page) == (weights >= 0.3).sum()
    page.locator("#sinkless").check()
    assert told_links(page) == (weights[:, 1:] >= 0.3).sum()
    page.locator("#least").fill("0")
    assert told_links(page) == (weights[:, 1:] > 0.5 / 65535).sum()


def test_lines_are_chosen_by_pointer_and_by_keys(opened, make_overview):
    page = opened(make_overview())
    lines = page.locator("#links")
    box = lines.bounding_box()
    high = (box["height"] - 4) / 13
    lines.click(position={"x": 20, "y": 2 + 9.5 * high})
    frame(page)
    assert page.locator(".token.here").inner_text() == "it"
    lines.click(position={"x": box["width"] - 20, "y": 2 + 1.5 * high})
    frame(page)
    assert page.locator(".token.here").inner_text() == "animal"
    assert page.locator("[data-way=by]").get_attribute("aria-pressed") == "true"
    for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowLeft"):
        page.keyboard.press(key)
    frame(page)
    assert page.locator(".token.here").inner_text() == "did"
    assert page.locator("[data-way=at]").get_attribute("aria-pressed") == "true"


@pytest.fixture
def coarse(make_overview, monkeypatch) -> Any:
    """A long text of which the file keeps little, and the whole matrices."""
    keep: dict[Any, Any] = {}
    grain = Grain(fine=False, floor=0.3, image=64)
    monkeypatch.setattr("regard.pictures.packing.LADDER", (grain,))
    monkeypatch.setattr("regard.pictures.packing.BINS", 100)
    return make_overview(1000, 2, 2, side=125, keep=keep), keep


def test_a_long_text_tells_what_it_keeps_and_no_more(opened, coarse):
    overview, keep = coarse
    page = opened(overview)
    choose(page, 1)
    whole = keep[0, 1]
    chosen = set(overview.chosen.tolist())
    assert page.locator(".token.kept").count() == 200
    kept = page.locator("#kept").inner_text()
    for words in (
        "mean of 16×16",
        "at least 0.3",
        "200 chosen tokens",
        "each 10 in a row",
        "0.004",
    ):
        assert words in kept
    # A weak link of a token that was not chosen is a block's mean, a strong one is itself.
    token = next(t for t in range(900, 1000) if t not in chosen and whole[t].max() > 0.35)
    strong, weak, rows = int(whole[token].argmax()), 420, token // 16 * 16
    page.goto(page.url.split("#")[0] + f"#layer=0&head=1&token={token}")
    page.reload()
    page.wait_for_selector("#text[data-filled]")
    for key, value, kind in (
        (strong, whole[token, strong], "exact to ±0.004"),
        (weak, whole[rows : rows + 16, 416:432].mean(), "block mean of 16×16"),
    ):
        page.locator(f"#token-{key}").scroll_into_view_if_needed()
        page.locator(f"#token-{key}").hover()
        frame(page)
        _, number, said_kind = said(page, "said")
        assert said_kind == kind
        assert number == pytest.approx(value, abs=0.0041)
    page.locator("#received").scroll_into_view_if_needed()
    box = page.locator("#received").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5005, box["y"] + 9)
    text = page.locator("#received-said").inner_text()
    received = overview.layers[0][1].received
    found = re.fullmatch(r"tokens 500 to 509 receive at most ([\d.]+) each", text)
    most = received[500:510].max()
    assert abs(float(found[1]) - most) <= 0.005 + np.log1p(received.max()) / 255 * (1 + most)


def test_lines_of_a_long_text_are_between_the_tokens_asked_for(opened, coarse):
    overview, keep = coarse
    page = opened(overview)
    choose(page, 1)
    chosen = overview.chosen
    levels = np.round(np.sqrt(keep[0, 1][np.ix_(chosen, chosen)]) * 255)
    assert told_links(page) == ((levels[:, 1:] / 255) ** 2 >= 0.1).sum()  # token 0 is left out
    page.locator("#sinkless").uncheck()
    assert told_links(page) == ((levels / 255) ** 2 >= 0.1).sum()
    page.locator("[data-linked=found]").click()
    frame(page)
    assert page.locator("#links-none").is_visible()
    search(page, "animal")
    assert "77 tokens" in page.locator("#links-said").inner_text()
    page.locator("[data-linked=near]").click()
    page.locator("#text").focus()
    page.keyboard.press("Home")
    frame(page)
    assert "200 tokens" in page.locator("#links-said").inner_text()


def test_every_control_has_a_name_in_both_languages(opened, make_overview):
    page = opened(make_overview(300, 2, 3))
    nameless = """() => [...document.querySelectorAll(
      "button, select, input, canvas[role], [role=grid], [role=gridcell], [role=listbox]")]
      .filter((one) => one.offsetParent && !(one.getAttribute("aria-label")
        || one.textContent.trim() || one.labels?.length)).map((one) => one.outerHTML)"""
    for lang in ("en", "zh"):
        page.locator(f"[data-lang={lang}]").click()
        assert page.evaluate(nameless) == []
