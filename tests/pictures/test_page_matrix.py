"""The page's matrix in a real browser: numbers, block means, zoom."""

from __future__ import annotations

from typing import Any

import pytest

from pictures.browsing import choose, frame, point, said
from regard.pictures import Overview

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("count", [13, 200])
def test_the_matrix_tells_the_weights(opened, make_overview, count):
    keep: dict[Any, Any] = {}
    overview = make_overview(count, 2, 4, keep=keep)
    page = opened(overview)
    choose(page, 7)
    for row, column in ((3, 1), (count - 1, 0), (9, 9), (2, 8)):
        point(page, row, column, count)
        pair, number, kind = said(page, "cell")
        query, key = (overview.tokens[at].strip() for at in (row, column))
        assert pair == f"{query} → {key}"
        assert number == pytest.approx(keep[1, 3][row, column], abs=1e-4)
        assert kind == "exact"


def test_arrows_walk_the_matrix(opened, make_overview):
    keep: dict[Any, Any] = {}
    page = opened(make_overview(keep=keep))
    choose(page, 3)
    page.locator("#matrix").focus()
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    pair, number, _ = said(page, "cell")
    assert pair == "not → animal"
    assert number == pytest.approx(keep[0, 3][3, 1], abs=1e-4)


@pytest.fixture
def long_text(make_overview) -> tuple[Overview, Any]:
    keep: dict[Any, Any] = {}
    return make_overview(1000, 2, 2, side=125, keep=keep), keep


def test_block_means_are_labelled_as_such(opened, long_text):
    overview, keep = long_text
    page = opened(overview)
    choose(page, 3)
    view, whole = overview.layers[1][1], keep[1, 1]
    token = 804
    assert token not in overview.chosen
    page.evaluate(f"document.getElementById('token-{token}').scrollIntoView()")
    page.locator(f"#token-{token}").click()
    frame(page)
    strongest, weak = int(view.top_keys[token, 0]), 420
    assert weak not in view.top_keys[token]
    for key, wanted, kind in (
        (strongest, whole[token, strongest], "exact"),
        (weak, whole[800:808, 416:424].mean(), "block mean of 8×8"),
    ):
        page.locator(f"#token-{key}").hover()
        _, number, told = said(page, "said")
        assert told == kind
        assert number == pytest.approx(wanted, abs=1e-4, rel=0.02)
    assert "pooled: mean of 8×8" in page.locator("#scale-says").inner_text()


def test_the_chosen_tokens_are_exact(opened, long_text):
    overview, keep = long_text
    page = opened(overview)
    choose(page, 3)
    page.locator("[data-part=chosen]").click()
    assert page.locator("#chosen").inner_text() == "200 tokens, exact"
    frame(page)
    point(page, 150, 20, 200)
    _, number, kind = said(page, "cell")
    query, key = overview.chosen[[150, 20]]
    assert kind == "exact"
    assert number == pytest.approx(keep[1, 1][query, key], abs=1e-4)


def test_zoomed_in_cells_are_told_one_by_one(opened, long_text):
    overview, _ = long_text
    page = opened(overview, place="#layer=1&head=1&token=804")
    view = overview.layers[1][1]
    page.locator("#matrix").focus()
    for _ in range(9):
        page.keyboard.press("+")
    frame(page)
    assert "not in the file, the mean of" in page.locator("#scale-says").inner_text()
    page.keyboard.press("0")
    frame(page)
    assert "zoom in" in page.locator("#scale-says").inner_text()
    page.locator("[data-zoom='0.5']").click(click_count=5)
    frame(page)
    # The zoom closes in on the strongest link of the token held.
    row, column = page.evaluate("""() => {
      const canvas = document.getElementById("matrix");
      const box = canvas.getBoundingClientRect();
      const told = [];
      for (let x = 2; x < box.width; x += 9) for (let y = 2; y < box.height; y += 9) {
        canvas.dispatchEvent(new PointerEvent("pointermove",
          { clientX: box.x + x, clientY: box.y + y, pointerType: "mouse" }));
        const value = document.querySelector("#cell .value")?.textContent ?? "";
        if (value.includes("exact")) told.push(parseFloat(value.replace("<", "")));
      }
      return [Math.max(...told), told.length];
    }""")
    assert column > 0
    assert row >= view.top_weights[804, 0] - 1e-4


def test_dragging_moves_and_ctrl_wheel_zooms(opened, make_overview):
    page = opened(make_overview(200, 1, 1))
    choose(page, 0)
    box = page.locator("#matrix").bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(*middle)
    page.keyboard.down("Control")
    for _ in range(4):
        page.mouse.wheel(0, -200)
    page.keyboard.up("Control")
    frame(page)
    page.mouse.move(middle[0] + 1, middle[1])
    before = page.locator("#cell .tokens").inner_text()
    page.mouse.down()
    page.mouse.move(middle[0] + 60, middle[1] + 60, steps=5)
    page.mouse.up()
    frame(page)
    page.mouse.move(middle[0] + 61, middle[1] + 60)
    assert page.locator("#cell .tokens").inner_text() == before  # the cell came along
    page.mouse.move(*middle)
    assert page.locator("#cell .tokens").inner_text() != before
