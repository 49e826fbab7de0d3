"""What the tests of the page do with a browser."""

from __future__ import annotations

import re
from typing import Any

QUIET = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def watch(page: Any, itself: str, faults: list[str]) -> None:
    """Notes every error, every word on the console and every request but the one for the file."""

    def heard(text: str) -> None:
        if "willReadFrequently" not in text:  # said of this test, where it reads the pixels
            faults.append(text)

    page.on("console", lambda said: heard(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request",
        lambda request: request.url.startswith(itself) or faults.append(request.url),
    )


def frame(page: Any) -> Any:
    """One frame later everything that was asked for is drawn."""
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page


def choose(page: Any, index: int) -> None:
    page.evaluate("delete document.getElementById('head').dataset.shown")
    page.locator(".cell").nth(index).click()
    page.wait_for_selector("#head[data-shown]")


def said(page: Any, name: str) -> tuple[str, float, str]:
    """A readout's pair, number and kind."""
    value = page.locator(f"#{name} .value").inner_text()
    number, kind = re.fullmatch(r"(?:≈ )?<?([\d.]+) · (.*)", value).groups()
    return page.locator(f"#{name} .tokens").inner_text(), float(number), kind


def point(page: Any, row: float, column: float, side: int) -> None:
    """Moves the mouse onto a cell of the matrix, found from its right and lower edge."""
    box = page.locator("#matrix").bounding_box()
    size = page.evaluate(
        """() => {  // the inked frame starts where the labels end
          const canvas = document.getElementById("matrix");
          const ratio = canvas.width / canvas.clientWidth;
          const row = canvas.getContext("2d").getImageData(0, canvas.height - 2, canvas.width, 1);
          let x = 0;
          while (row.data[4 * x + 3] === 0) x++;
          return canvas.clientWidth - x / ratio;
        }"""
    )
    left, top = box["x"] + box["width"] - size, box["y"] + box["height"] - size
    page.mouse.move(left + (column + 0.5) * size / side, top + (row + 0.5) * size / side)
    frame(page)
