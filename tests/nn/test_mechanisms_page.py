"""docs/mechanisms is what scripts make of the code: the table, and two figures without a flaw."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pages import ROOT
from regard._errors import UserError
from regard._words import LANGUAGES

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
DOCS = ROOT / "docs" / "mechanisms"
every_figure = pytest.mark.parametrize("name", ["attention", "heads"])
languages = pytest.mark.parametrize("lang", LANGUAGES)


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def drawn(name: str, lang: str) -> Any:
    try:
        return script("figures").FIGURES[name](lang)
    except UserError:  # no font with Chinese letters
        pytest.skip("needs a font with Chinese letters: apt-get install fonts-noto-cjk")


@languages
def test_the_page_is_what_the_script_writes(lang: Any) -> None:
    page = script("mechanisms").page(lang)
    assert (DOCS / f"{lang}.md").read_text(encoding="utf-8") == page, "say scripts/mechanisms.py"
    targets = re.findall(r"\]\(#(mechanism-[\w-]+)\)", page)
    assert len(targets) == len(set(targets)) == 10
    assert all(f"\n({target})=\n" in page for target in targets)
    examples = re.findall(r"literalinclude\} (\S+)", page)
    assert len(examples) == 10
    assert all((DOCS / example).resolve().parent == ROOT / "examples" for example in examples)
    assert all((DOCS / example).exists() for example in examples)


def structure(svg: str) -> tuple[str, list[str], Counter[str]]:
    """Its size, its words in order, and how many shapes stand outside of letters."""
    size = re.search(r'viewBox="([^"]+)"', svg)
    assert size is not None
    shapes = Counter(re.findall(r'<g id="([a-z]+)_\d+">', svg))
    return size[1], re.findall(r"<!-- (.+?) -->", svg), shapes


@every_figure
@languages
def test_the_figures_are_what_the_script_draws(name: str, lang: str) -> None:
    """In structure: letters are outlines of whatever font is installed."""
    fresh = script("figures").svg(drawn(name, lang))
    kept = (DOCS / f"{name}.{lang}.svg").read_text(encoding="utf-8")
    assert structure(kept) == structure(fresh), "say scripts/figures.py"
    assert len(structure(kept)[1]) > 30


def flaws(figure: Any) -> list[str]:
    """Texts that overlap or are cut off."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.patches import Rectangle

    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in figure.axes[0].texts]
    whole = figure.bbox
    found = [
        f"{text!r} is cut off"
        for text, box in boxes
        if box.x0 < whole.x0 or box.y0 < whole.y0 or box.x1 > whole.x1 or box.y1 > whole.y1
    ]
    found += [
        f"{a!r} overlaps {b!r}"
        for (a, one), (b, other) in combinations(boxes, 2)
        if one.overlaps(other)
    ]
    patches = [p for p in figure.axes[0].patches if isinstance(p, Rectangle) and p.get_fill()]
    cells = [p.get_window_extent(renderer) for p in patches]
    found += [
        f"{text!r} leaves its cell"
        for text, box in boxes
        for cell in cells
        if cell.overlaps(box) and not (cell.x0 <= box.x0 and box.x1 <= cell.x1)
    ]
    return found


@every_figure
@languages
def test_no_words_of_a_figure_overlap_or_are_cut_off(name: str, lang: str) -> None:
    assert flaws(drawn(name, lang)) == []


def test_a_flaw_is_found() -> None:
    figures = script("figures")
    board = figures.Board(3.0, 1.0, "en")
    for x, text in ((0.5, "one and"), (0.8, "another"), (2.95, "beyond")):
        board.text(x, 0.5, text)
    assert sorted(flaws(board.figure)) == ["'beyond' is cut off", "'one and' overlaps 'another'"]


def test_the_figures_say_what_attention_computes() -> None:
    """The numbers of the three vectors, by hand."""
    import math

    vectors = [(0.1, 0.5), (0.3, 0.4), (0.8, 0.0)]
    scores = [sum(a * b for a, b in zip(vectors[0], v, strict=True)) / 2**0.5 for v in vectors]
    weights = [math.exp(s) / sum(map(math.exp, scores)) for s in scores]
    outputs = [sum(w * v[c] for w, v in zip(weights, vectors, strict=True)) for c in (0, 1)]
    words = structure(Path(DOCS / "attention.en.svg").read_text(encoding="utf-8"))[1]
    for number in (*scores, *weights, *outputs):
        assert f"{number:.3f}" in words
