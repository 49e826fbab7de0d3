"""The page of a trace in a browser, with nothing to reach but itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pictures.browsing import watch
from pictures.conftest import launched
from regard.explanation.trace import Trace

__all__ = ["launched", "opened"]


@pytest.fixture
def opened(needs, launched, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Opens a trace's page; afterwards: no error was told and no request has left."""
    browser = launched(needs("chromium"))
    faults: list[str] = []
    contexts = []

    def open_page(trace: Trace, lang="en", place: str = "", **how: Any) -> Any:
        file = tmp_path / "page.html"
        trace.save(file, lang)
        contexts.append(browser.new_context(**{"viewport": {"width": 1300, "height": 900}, **how}))
        page = contexts[-1].new_page()
        watch(page, file.as_uri(), faults)
        page.goto(file.as_uri() + place)
        page.wait_for_selector("html[data-step]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []
