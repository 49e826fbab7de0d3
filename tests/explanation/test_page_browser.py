"""The page of a trace in a real browser: it computes what Python computes, and it can be used."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from explanation.replay import replayed
from regard.explanation.questions import QUESTIONS, ask
from regard.explanation.sheet import GIVEN

pytestmark = pytest.mark.browser


def numbers(page: Any) -> dict[str, list[float]]:
    """Every number of the step that is shown, exactly."""
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll("[data-table]")].map((table) => [
          table.dataset.table + table.querySelector("caption").textContent,
          [...table.querySelectorAll("[data-value]")].map((cell) => cell.dataset.value),
        ]))"""
    )


def move(page: Any, name: str, value: float) -> None:
    page.locator(f"#slide-{name}").evaluate(
        "(input, value) => { input.value = value; input.dispatchEvent(new Event('input')); }", value
    )


def assert_equal(page: Any, trace: regard.Trace) -> int:
    """Every table of every step in the page is Python's, to 1e-6."""
    compared = 0
    for step in trace.steps:
        page.locator(f"#steps [data-step={step.name}]").click()
        shown = numbers(page)
        flat = [float(v.replace("Infinity", "inf")) for values in shown.values() for v in values]
        wanted = np.concatenate([trace.sheet[name].reshape(-1) for name in step.shown])
        assert np.allclose(flat, wanted, rtol=0, atol=1e-6, equal_nan=True), step.name
        compared += len(flat)
    return compared


def full(x: Any, **how: Any) -> regard.Trace:
    random = np.random.default_rng(1)
    w = random.standard_normal((4, 4, 4))
    return regard.explain(x, wq=w[0], wk=w[1], wv=w[2], wo=w[3], heads=2, **how)


def test_the_story_is_pythons_and_stays_so_when_it_is_moved(opened):
    page = opened(regard.explain())
    assert assert_equal(page, regard.explain()) > 300
    page.select_option("#row", "X/2")
    move(page, "X-4", -1.25)
    page.select_option("#row", "X/0")
    move(page, "X-1", 1.5)
    moved = [[0.1, 1.5], [0.3, 0.4], [-1.25, 0.0]]
    assert assert_equal(page, regard.explain(moved)) > 300
    page.locator("#reset").click()
    assert_equal(page, regard.explain())


@pytest.mark.parametrize("positions", [None, "sinusoidal", "rotary", "alibi"])
def test_a_call_is_pythons_and_stays_so_when_it_is_moved(opened, positions):
    x = np.random.default_rng(0).standard_normal((5, 4))
    how = {"positions": positions, "mask": regard.window(2) & ~regard.prefix(1)}
    page = opened(full(x, **how))
    assert_equal(page, full(x, **how))
    move(page, "X-2", 0.75)
    move(page, "scale-0", 1.25)
    move(page, "temperature-0", 2.5)
    x[0, 2] = 0.75
    assert_equal(page, full(x, scale=1.25, temperature=2.5, **how))


SETTINGS = {
    "width": 24, "length": 20, "keys": 5, "draws": 60, "tries": 700, "hidden": 2, "layer-count": 5,
}  # fmt: skip
"""What counts is moved to another whole number, and drawn again."""


@pytest.mark.parametrize("name", QUESTIONS)
def test_each_question_is_pythons_and_stays_so_when_it_is_moved(opened, name):
    trace = ask(name)
    page = opened(trace)
    assert_equal(page, trace)
    moved = {}
    for table in trace.sheet.tables.values():
        if table.operation != GIVEN:
            continue
        array = table.array.copy()
        counts = SETTINGS.get(table.columns)
        array.reshape(-1)[0] = counts or array.reshape(-1)[0] + 0.25
        moved[table.name] = array
        if array.size > 1:
            page.select_option("#row", f"{table.name}/0")
        move(page, f"{table.name}-0", array.reshape(-1)[0])
    assert_equal(page, replayed(trace, **moved))
    page.locator("[data-lang=zh]").click()
    for step in trace.steps:
        page.locator(f"#steps [data-step={step.name}]").click()
        assert page.locator("figure svg").count() == bool(step.chart)
        assert "{" not in page.locator("main").inner_text()


@given(
    width=st.integers(2, 64), keys=st.integers(2, 12), draws=st.integers(10, 80),
    layers=st.integers(1, 9), tries=st.integers(1, 400),
)  # fmt: skip
@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_experiments_draw_in_the_page_what_python_draws(opened, width, keys, draws, layers, tries):
    for name, moved in (
        ("why-sqrt", {"width": width, "keys": keys, "draws": draws}),
        ("why-norm", {"layers": layers, "width": width}),
        ("why-three", {"tries": tries}),
        ("dot-or-additive", {"length": keys, "width": width}),
    ):
        trace = ask(name)
        page = opened(trace)
        for setting, number in moved.items():
            move(page, f"{setting}-0", number)
        arrays = {setting: np.array([[float(number)]]) for setting, number in moved.items()}
        assert_equal(page, replayed(trace, **arrays))
        page.context.close()


def test_a_number_shows_where_it_comes_from(opened):
    page = opened(regard.explain(), place="#average")
    page.locator("[data-cell='O_1/0/0/1']").hover()
    said = page.locator("#said").inner_text()
    assert (
        said
        == "O[1, 2] = 0.3564 · 0.5 + 0.3459 · 0.4 + 0.2977 · 0 = 0.3166 · Most from key x₁: 0.3564."
    )
    marked = page.evaluate(
        "[...document.querySelectorAll('td.from')].map((cell) => cell.dataset.cell).sort()"
    )
    row, column = [f"A_1/0/0/{j}" for j in range(3)], [f"X/0/{i}/1" for i in range(3)]
    assert marked == row + column
    arrows = page.evaluate(
        "[...document.querySelectorAll('#arrows [data-from]')].map((a) => a.dataset.from).sort()"
    )
    assert arrows == marked
    assert page.locator("td.far").count() == 3


def test_the_texts_follow_the_numbers(opened):
    page = opened(regard.explain(), place="#dots")
    assert "x₁ with itself gives 0.26" in page.locator("#step-text").inner_text()
    move(page, "X-0", 1.0)
    assert "x₁ with itself gives 1.25" in page.locator("#step-text").inner_text()


def test_it_can_be_used_by_keyboard(opened):
    page = opened(regard.explain())
    page.locator("#steps button").first.focus()
    page.keyboard.press("ArrowDown")
    assert page.locator("[aria-current=step]").get_attribute("data-step") == "dots"
    page.locator("#tables [tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.cell") == "D/0/1/1"
    assert page.locator("#said").inner_text() == "D[2, 2] = 0.3 · 0.3 + 0.4 · 0.4 = 0.25"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.cell").startswith("X/")
    page.locator("#slide-X-0").focus()
    before = page.locator("#slide-X-0").input_value()
    page.keyboard.press("ArrowRight")
    assert page.locator("#slide-X-0").input_value() != before
    page.locator("#after").press("Enter")
    assert page.locator("[aria-current=step]").get_attribute("data-step") == "raw"


def test_languages_switch_and_nothing_stays_behind(opened):
    page = opened(regard.explain("The cat sat"))
    page.locator("[data-lang=zh]").click()
    assert page.evaluate("document.documentElement.lang") == "zh-Hans"
    for step in regard.explain("The cat sat").steps:
        page.locator(f"#steps [data-step={step.name}]").click()
        said = page.locator("body").inner_text()
        said = re.sub(r"(?s)NumPy.*?(?=字节|←)", "", said)
        words = set(re.findall(r"[A-Za-z]{3,}", said))
        known = {"English", "MiniLM", "Tab", "The", "cat", "sat"}
        known |= {"max", "exp", "cos", "sin", "scale", "softmax", "causal"}
        assert words <= known, step.name
    page.locator("[data-lang=en]").click()
    assert not re.search(r"[\u4e00-\u9fff]", page.locator("main").inner_text())


def test_everything_that_can_be_touched_has_a_name(opened):
    page = opened(regard.explain())
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, td[data-cell], nav")]
          .filter((e) => !(e.getAttribute("aria-label") || e.textContent.trim()
            || (e.labels && e.labels.length && e.labels[0].textContent.trim())))
          .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    cell = page.locator("[data-cell='X/0/0/1']")
    assert cell.get_attribute("aria-label") == "X, row x₁, column 2: 0.5"
    assert page.locator("#said").get_attribute("aria-live") == "polite"
    page.locator("#steps [data-step=root]").click()
    assert "√d: 2, 4, 8, 16" in page.locator("#chart svg").get_attribute("aria-label")


def test_a_figure_names_its_axis_and_marks_its_decades(opened):
    page = opened(ask("why-norm"), "zh")
    written = page.locator("#chart svg text").all_text_contents()
    assert "层" in written
    assert {"10", "100", "1,000", "10,000"} <= set(written)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_fits_a_phone(opened, lang):
    page = opened(regard.explain(), lang, viewport={"width": 360, "height": 740}, has_touch=True)
    for step in ("input", "rows", "root", "head-scores", "cost"):
        page.locator(f"#steps [data-step={step}]").click()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        """() => [...document.querySelectorAll("main button, nav button, select")]
          .filter((e) => e.getBoundingClientRect().height < 34).length"""
    )
    assert small == 0
    page.locator("#steps [data-step=dots]").click()
    page.locator("[data-cell='D/0/0/2']").tap()
    assert page.locator("#said").inner_text().endswith("= 0.08")


def test_a_token_is_only_a_token(opened):
    page = opened(regard.explain("</script><b>@style@ cat"))
    assert page.locator("main b").count() == 0


def test_what_has_no_weight_gets_no_arrow(opened):
    page = opened(regard.explain(mask=regard.causal()), place="#sum")
    page.locator("[data-cell='O/0/0/0']").hover()
    arrows = page.evaluate(
        "[...document.querySelectorAll('#arrows [data-from]')].map((a) => a.dataset.from).sort()"
    )
    assert arrows == ["A/0/0/0", "V/0/0/0"]
    assert page.locator("#said").inner_text().endswith("Most from key x₁: 1.")
