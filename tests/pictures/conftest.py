"""Overviews with real softmax weights from random vectors, so sums and maxima fit together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pictures.browsing import QUIET, watch
from regard.pictures import ROLES, HeadView, Overview, save

SENTENCE = (
    "The", " animal", " did", " not", " cross", " the", " street", ",", " because", " it",
    " was", " too", " tired",
)  # fmt: skip
CHINESE = ("那", "只", "动物", "没有", "过", "马路", "，", "因为", "它", "太", "累", "了", "。")


def weights(role: str, count: int, causal: bool, random: np.random.Generator) -> Any:
    """(count, count) rows that sum to 1; the role's keys get the higher scores."""
    size = 16
    q, k = (random.standard_normal((count, size), dtype=np.float32) for _ in range(2))
    sharp = {"broad": 0.05, "none": 1.4}.get(role, 0.4)
    scores = (q @ k.T) * np.float32(sharp / 2)
    here = np.arange(count)
    if role == "first":
        scores[:, 0] += 7
    elif role == "separator":
        scores[:, 7 % count :: 11] += 6
    elif role in ("previous", "next", "same"):
        there = here + {"previous": -1, "next": 1, "same": 0}[role]
        fits = (there >= 0) & (there < count)
        scores[here[fits], there[fits]] += 9
    if causal:
        scores[here[:, None] < here] = -np.inf
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores


def view_of(p: Any, layer: int, head: int, role: str, block: int, chosen: Any) -> HeadView:
    """One head's view, by definition from its whole matrix ``p``."""
    count = len(p)
    best = min(8, count)
    top = np.argpartition(-p, best - 1, axis=1)[:, :best]
    top = np.take_along_axis(top, np.argsort(-np.take_along_axis(p, top, 1), axis=1), 1)
    top_weights = np.zeros((count, 8), np.float32)
    top_weights[:, :best] = np.take_along_axis(p, top, 1)
    top_keys = np.full((count, 8), -1, np.int32)
    top_keys[:, :best] = top
    top_keys[top_weights == 0] = -1
    starts = np.arange(0, count, block)
    sums = np.add.reduceat(np.add.reduceat(p, starts, 0), starts, 1)
    sizes = np.diff([*starts, count])
    row_entropy = -(p * np.log(np.where(p > 0, p, 1))).sum(1)
    most = np.log(np.maximum((p > 0).sum(1), 2))
    scores = {name: 0.02 for name in ROLES if name != "none"}
    scores["broad"] = float((row_entropy / most).mean())
    scores["first"] = float(p[:, 0].mean())
    scores["same"] = float(np.diagonal(p).mean())
    scores["previous"] = float(np.diagonal(p, -1).mean()) if count > 1 else 0.0
    scores["next"] = float(np.diagonal(p, 1).mean()) if count > 1 else 0.0
    scores["separator"] = float(p[:, 7 % count :: 11].sum(1).mean())
    return HeadView(
        layer=layer, head=head, role=role, scores=scores, entropy=float(row_entropy.mean()),
        received=p.sum(0).astype(np.float32), top_keys=top_keys, top_weights=top_weights,
        image=(sums / np.outer(sizes, sizes)).astype(np.float32),
        exact=p[np.ix_(chosen, chosen)].astype(np.float32),
    )  # fmt: skip


SHOWN = ("previous", "next", "first", "same", "separator", "broad", "none")
"""The roles that the heads take in turn."""


def make(
    tokens: tuple[str, ...] | int = SENTENCE,
    layers: int | tuple[int, ...] = 2,
    heads: int | tuple[int, ...] = 4,
    *,
    causal: bool = True,
    side: int = 256,
    queries: tuple[int, ...] | None = None,
    seed: int = 0,
    keep: dict[tuple[int, int], Any] | None = None,
) -> Overview:
    """An overview; ``keep`` collects each head's whole matrix under (layer, head)."""
    if isinstance(tokens, int):
        tokens = tuple((SENTENCE * (tokens // 13 + 1))[:tokens])
    random = np.random.default_rng(seed)
    count = len(tokens)
    block = -(-count // side)
    chosen = np.unique(np.linspace(0, count - 1, min(count, 200)).astype(np.int32))
    shown = []
    for layer in range(layers) if isinstance(layers, int) else layers:
        row = []
        for head in range(heads) if isinstance(heads, int) else heads:
            role = SHOWN[(3 * layer + head) % 7]
            if role == "next" and causal:
                role = "none"
            p = weights(role, count, causal, random)
            if keep is not None:
                keep[layer, head] = p
            row.append(view_of(p, layer, head, role, block, chosen))
        shown.append(tuple(row))
    asked = tuple(range(count)) if queries is None else queries
    return Overview("tiny/model", tokens, block, chosen, asked, tuple(shown))


@pytest.fixture(scope="session")
def make_overview() -> Callable[..., Overview]:
    """``make``, as a fixture: test files cannot import each other."""
    return make


@pytest.fixture(scope="session")
def sentence() -> tuple[str, ...]:
    """Thirteen English tokens."""
    return SENTENCE


@pytest.fixture(scope="session")
def chinese() -> tuple[str, ...]:
    """Thirteen Chinese tokens."""
    return CHINESE


@pytest.fixture(scope="module")
def launched() -> Iterator[Callable[[Path], Any]]:
    """Starts the browser once, for the first test that has one."""
    api = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    started: list[Any] = []

    def launch(path: Path) -> Any:
        if not started:
            driver = api.sync_playwright().start()
            started.extend([driver.chromium.launch(executable_path=path, args=QUIET), driver])
        return started[0]

    yield launch
    for thing, end in zip(started, ("close", "stop"), strict=False):
        getattr(thing, end)()


@pytest.fixture
def opened(needs, launched, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens an overview's page; afterwards: no error was told and no request has left."""
    browser = launched(needs("chromium"))
    file = tmp_path / "look.html"
    faults: list[str] = []
    contexts = []

    def open_page(overview: Overview, lang="en", place: str = "", **how: Any) -> Any:
        save(overview, file, lang)
        contexts.append(browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **how}))
        page = contexts[-1].new_page()
        watch(page, file.as_uri(), faults)
        page.goto(file.as_uri() + place)
        page.wait_for_selector("#head[data-shown]")
        page.wait_for_selector("#text[data-filled]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
