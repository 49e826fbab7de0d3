"""A sheet of paper for matplotlib: places in inches, letters in points, no global state.

Letters of an SVG are text, which can be searched, read aloud and edited.  The glyphs that it needs
are cut out of the fonts and travel in the file, so that a browser shows the same everywhere; a
program that ignores them falls back on a font of the same name.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import MissingError
from regard._words import Language
from regard.pictures.colours import diverging, ramp
from regard.pictures.fonts import families, glyphs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from regard.pictures.picture import Picture

INK, SOFT, LINE = "#1f2933", "#5b6672", "#c9d0d6"
TITLE, TEXT, SMALL = 8.5, 7.0, 6.0
"""Points of a title, of labels, and of what is least."""
EDGE = 0.06
"""Inches of blank paper around everything."""


def drawn(picture: Picture, kind: str, lang: Language, width: float) -> bytes:
    """``picture`` as the content of a PNG or SVG file."""
    from regard.pictures.picture import DPI

    with styled(picture._words(lang)) as fonts:
        sheet = picture._draw(width, lang)
        file = io.BytesIO()
        date: dict[str, Any] = {"Date": None} if kind == "svg" else {}
        sheet.figure.savefig(file, format=kind, dpi=DPI, metadata=date, facecolor="white")
    data = file.getvalue()
    return _with_glyphs(data.decode(), fonts).encode() if kind == "svg" else data


@contextmanager
def styled(words: list[str]) -> Iterator[list[str]]:
    """The same style on every machine, whatever its matplotlibrc says; yields the fonts."""
    try:
        import matplotlib
    except ImportError as error:
        raise MissingError('PNG and SVG need matplotlib: pip install "regard[look]"') from error
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        fonts = families(words)
        matplotlib.rcParams.update({
            "svg.fonttype": "none", "svg.hashsalt": "regard", "font.family": fonts,
            "text.parse_math": False, "axes.edgecolor": LINE, "axes.linewidth": 0.6,
            "xtick.color": SOFT, "ytick.color": SOFT, "xtick.labelcolor": INK,
            "ytick.labelcolor": INK, "xtick.labelsize": SMALL, "ytick.labelsize": SMALL,
            "xtick.major.size": 2, "ytick.major.size": 2, "xtick.major.width": 0.5,
            "ytick.major.width": 0.5, "xtick.major.pad": 2, "ytick.major.pad": 2,
            "xtick.minor.size": 1, "ytick.minor.size": 1, "axes.labelpad": 2,
            "axes.labelsize": TEXT, "axes.labelcolor": SOFT, "hatch.linewidth": 0.4,
        })  # fmt: skip
        yield fonts


class Sheet:
    """A figure whose places are inches from its upper left corner."""

    def __init__(self, width: float, height: float) -> None:
        from matplotlib.figure import Figure

        self.width, self.height = width, height
        self.figure: Figure = Figure(figsize=(width, height))

    def axes(self, left: float, top: float, wide: float, high: float) -> Axes:
        """Axes of that place and size."""
        w, h = self.width, self.height
        return self.figure.add_axes((left / w, 1 - (top + high) / h, wide / w, high / h))

    def write(self, x: float, y: float, text: str, points: float = TEXT, **how: Any) -> None:
        """``text`` whose middle is ``y`` inches down."""
        self.figure.text(x / self.width, 1 - y / self.height, text,
                         **{"fontsize": points, "color": INK, "va": "center", **how})  # fmt: skip

    def plane(self) -> Axes:
        """Axes over the whole sheet whose units are inches, without a frame."""
        axes = self.figure.add_axes((0, 0, 1, 1), frameon=False)
        axes.set(xlim=(0, self.width), ylim=(self.height, 0), xticks=[], yticks=[])
        return axes

    def title(self, lines: list[str]) -> None:
        """The title at the top left."""
        for n, line in enumerate(lines):
            self.write(EDGE, EDGE + 0.08 + 0.17 * n, line, TITLE, weight="bold")

    def notes(self, lines: list[str]) -> None:
        """Small lines along the lower edge."""
        for n, line in enumerate(reversed(lines)):
            self.write(EDGE, self.height - EDGE - 0.05 - 0.115 * n, line, SMALL, color=SOFT)

    def bar(self, box: tuple[float, float, float, float], scale: Scale, words: str) -> None:
        """The scale of colours in ``box``, upright or lying as the box is."""
        left, top, wide, high = box
        upright = high > wide
        axes = self.axes(*box)
        steps = scale.colours(scale.values(np.linspace(0, 1, 256)))
        axes.imshow(steps[::-1, None] if upright else steps[None], aspect="auto")
        places = [255 * (1 - p) if upright else 255 * p for p, _ in scale.ticks()]
        labels = [text for _, text in scale.ticks()]
        axes.set(xticks=[] if upright else places, yticks=places if upright else [])
        axes.set(**{"yticklabels" if upright else "xticklabels": labels})
        axes.tick_params(labelleft=False, left=False, labelright=upright, right=upright)
        axes.spines[:].set_visible(False)
        at = (left, top - 0.1) if upright else (left + wide + 0.1, top + high / 2)
        self.write(*at, words, SMALL, color=SOFT)


class Scale:
    """Colours of numbers: 0 … most by the root (weak ones stay visible), or −most … most."""

    def __init__(self, most: float, signed: bool) -> None:
        self.most, self.signed = most or 1.0, signed
        self.table = diverging() if signed else ramp()

    @classmethod
    def of(cls, values: NDArray[Any]) -> Scale:
        """The scale that fits ``values``; with two sides where some are below 0."""
        found = np.nan_to_num(np.asarray(values, np.float64))
        return cls(float(np.abs(found).max(initial=0.0)), bool((found < 0).any()))

    def places(self, values: Any) -> NDArray[np.float64]:
        """0 … 1 along the scale."""
        found = np.clip(np.nan_to_num(np.asarray(values, np.float64)) / self.most, -1, 1)
        return found / 2 + 0.5 if self.signed else np.sqrt(np.maximum(found, 0))

    def values(self, places: Any) -> NDArray[np.float64]:
        """The numbers at ``places``."""
        found = np.asarray(places, np.float64)
        return (2 * found - 1) * self.most if self.signed else found**2 * self.most

    def colours(self, values: Any) -> NDArray[np.uint8]:
        """(…, 3) the colours of ``values``."""
        return np.asarray(self.table[np.round(self.places(values) * 255).astype(int)])

    def hexes(self, values: Any) -> list[str]:
        """The colours of a row of ``values``, as SVG writes them."""
        return ["#" + bytes(colour).hex() for colour in self.colours(values)]

    def ink(self, value: float) -> str:
        """The colour of letters that stand on ``value``'s colour."""
        r, g, b = (self.colours(value) / 255.0).tolist()
        return "white" if 0.2126 * r**2.2 + 0.7152 * g**2.2 + 0.0722 * b**2.2 < 0.3 else INK

    def ticks(self) -> list[tuple[float, str]]:
        """Some places along the scale, and their numbers."""
        shares = (-1, -0.5, 0, 0.5, 1) if self.signed else (0, 1 / 16, 1 / 4, 1)
        values = [share * self.most for share in shares]
        return [(float(self.places(v)), f"{v:.2g}".replace("-", "−")) for v in values]


def measure() -> Callable[[str, float], float]:
    """A function that tells how wide a text is, in inches, in the fonts of the style."""
    from matplotlib import rcParams
    from matplotlib.backends.backend_agg import RendererAgg
    from matplotlib.font_manager import FontProperties

    renderer: Any = RendererAgg(8, 8, 720)  # type: ignore[no-untyped-call]
    fonts = list(rcParams["font.family"])

    @lru_cache(maxsize=4096)
    def wide(text: str, points: float) -> float:
        font = FontProperties(family=fonts, size=points)
        return float(renderer.get_text_width_height_descent(text, font, ismath=False)[0]) / 720

    return wide


def wrapped(text: str, inches: float, points: float) -> list[str]:
    """``text`` in lines that fit ``inches``, broken at spaces or between Chinese letters."""
    wide, lines, line = measure(), [], ""
    words = text.split(" ") if " " in text else list(text)
    glue = " " if " " in text else ""
    for word in words:
        longer = line + glue + word if line else word
        if line and wide(longer, points) > inches:
            lines.append(line)
            longer = word
        line = longer
    return [*lines, line] if line else lines


def _with_glyphs(svg: str, fonts: list[str]) -> str:
    """``svg`` with the glyphs of its letters, cut out of ``fonts``."""
    quoted = ", ".join(f"'{name}'" for name in fonts)
    letters = _letters(svg)
    faces, names = [], []
    for family in fonts:
        if (data := glyphs(family, letters)) is not None:
            # Of another name in each file: in a notebook all files share one page.
            name = f"{family} {hashlib.sha256(data).hexdigest()[:8]}"
            source = base64.b64encode(data).decode()
            faces.append(
                f"@font-face{{font-family:'{name}';src:url(data:font/ttf;base64,{source})}}"
            )
            names.append(f"'{name}'")
    style = "<style>" + "".join(faces) + "</style>"
    svg = svg.replace(quoted, ", ".join([*names, quoted, "sans-serif"]))
    head, close, rest = svg.partition("<metadata>")
    return head + style + close + rest


def _letters(svg: str) -> str:
    from xml.etree import ElementTree

    root = ElementTree.fromstring(svg)
    texts = root.iter("{http://www.w3.org/2000/svg}text")
    return "".join(sorted({letter for text in texts for letter in "".join(text.itertext())}))
