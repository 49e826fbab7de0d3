"""SVGs and PNGs read back: what stands in a picture, by structure and not by pixels."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import numpy as np

SVG = "{http://www.w3.org/2000/svg}"


@dataclass
class Drawing:
    """An SVG, parsed."""

    root: ElementTree.Element
    source: str

    @property
    def size(self) -> tuple[float, float]:
        """Width and height in inches."""
        return tuple(float(self.root.get(side)[:-2]) / 72 for side in ("width", "height"))

    @property
    def texts(self) -> list[str]:
        """All that is written, in the order of the file."""
        return ["".join(text.itertext()) for text in self.root.iter(f"{SVG}text")]

    def group(self, name: str) -> ElementTree.Element:
        """The group of that id."""
        return next(one for one in self.root.iter() if one.get("id") == name)

    def groups(self, start: str) -> dict[str, ElementTree.Element]:
        """All groups whose id begins so."""
        found = ((one.get("id") or "", one) for one in self.root.iter(f"{SVG}g"))
        return {name: one for name, one in found if name.startswith(start)}

    def fills(self, name: str) -> list[str]:
        """The colours of a group's shapes."""
        shapes = self.group(name).iter()
        found = (re.search(r"fill: (#\w+)", one.get("style") or "") for one in shapes)
        return [match[1] for match in found if match]


def drawing(picture: Any, lang: str = "en") -> Drawing:
    source = picture._file("svg", lang).decode()
    return Drawing(ElementTree.fromstring(source), source)


def style(element: ElementTree.Element, name: str) -> float:
    """A number of the first style in ``element`` that has it."""
    for one in element.iter():
        if found := re.search(rf"(?<![-\w]){name}: ([\d.]+)", one.get("style") or ""):
            return float(found[1])
    return 1.0


def luminance(colour: Any) -> float:
    """Relative luminance, 0 … 1, of "#rrggbb" or of three bytes: what grey print keeps."""
    if isinstance(colour, str):
        colour = bytes.fromhex(colour[1:])
    linear = [(c / 255 / 12.92 if c / 255 <= 0.04045 else ((c / 255 + 0.055) / 1.055) ** 2.4)
              for c in map(int, colour)]  # fmt: skip
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))
