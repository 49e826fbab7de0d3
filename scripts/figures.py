"""Draws the figures of docs/mechanisms, in both languages, from computed numbers.

    .venv/bin/python scripts/figures.py

How one attention is computed, and how heads are split, attended and joined: three vectors,
[0.1, 0.5], [0.3, 0.4] and [0.8, 0.0], small enough to be checked by hand.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle
from numpy.typing import NDArray

from regard._words import LANGUAGES, Language
from regard.nn import MultiHeadAttention, ScaledDotProductAttention
from regard.pictures.fonts import families

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "mechanisms"
VECTORS = ((0.1, 0.5), (0.3, 0.4), (0.8, 0.0))
W_O = ((1.0, 1.0), (1.0, -1.0))
WIDE, HIGH = 0.5, 0.32
"""A cell, in inches."""
INK, SOFT, ROW = "#1f2933", "#5b6670", "#b3261e"
HEADS = ("#d5e8d4", "#fde3c0")
BLUE = np.array([0.62, 0.77, 0.93])

WORDS: dict[str, dict[Language, str]] = {
    "queries": {"en": "queries Q", "zh": "查询 Q"},
    "keys": {"en": "keys Kᵀ", "zh": "键 Kᵀ"},
    "products": {"en": "products QKᵀ", "zh": "内积 QKᵀ"},
    "scores": {"en": "scores", "zh": "分数"},
    "weights": {"en": "weights", "zh": "权重"},
    "values": {"en": "values V", "zh": "值 V"},
    "output": {"en": "output", "zh": "输出"},
    "root": {"en": "÷ √2", "zh": "÷ √2"},
    "softmax": {"en": "softmax\nof each row", "zh": "逐行\nsoftmax"},
    "sum": {"en": "each row sums to 1", "zh": "每行之和为 1"},
    "vectors": {"en": "vectors x", "zh": "向量 x"},
    "split": {"en": "split", "zh": "拆分"},
    "head": {"en": "head {}", "zh": "第 {} 个头"},
    "each": {"en": "softmax(q kᵀ)", "zh": "softmax(q kᵀ)"},
    "value": {"en": "v", "zh": "v"},
    "found": {"en": "found", "zh": "结果"},
    "join": {"en": "join", "zh": "拼接"},
    "joined": {"en": "joined", "zh": "拼接后"},
    "identity": {
        "en": "The matrices of q, k and v are the identity here; that of the output adds and "
        "subtracts the heads.",
        "zh": "此处 q、k、v 的矩阵为单位矩阵；输出矩阵把两个头相加、相减。",
    },
}  # fmt: skip


class Board:
    """A sheet of paper in inches, from its top left corner."""

    def __init__(self, width: float, height: float, lang: Language) -> None:
        self.lang, self.height = lang, height
        self.figure = Figure(figsize=(width, height))
        self.axes = self.figure.add_axes((0.0, 0.0, 1.0, 1.0), frameon=False)
        self.axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])
        words = [text[lang] for text in WORDS.values()]
        self.fonts = families([*words, "0123456789.−√ᵀ₁₂₃·=+[]()÷e"])

    def say(self, key: str) -> str:
        return WORDS[key][self.lang]

    def text(self, x: float, y: float, text: str, size: float = 9.0, **how: Any) -> None:
        how = {"ha": "center", "va": "center", "color": INK, "linespacing": 1.25} | how
        self.axes.text(x, y, text, family=self.fonts, fontsize=size, parse_math=False, **how)

    def matrix(
        self,
        x: float,
        y: float,
        numbers: NDArray[Any],
        name: str,
        *,
        digits: int = 2,
        colours: Sequence[str] = (),
        shaded: bool = False,
        below: str = "",
    ) -> None:
        """Numbers in cells, under their name; columns in ``colours``, or cells by their size."""
        rows, columns = numbers.shape
        for (i, j), number in np.ndenumerate(numbers):
            face: Any = colours[j] if colours else "white"
            if shaded:
                face = 1 - (1 - BLUE) * number
            box = (x + j * WIDE, y + i * HIGH)
            self.axes.add_patch(Rectangle(box, WIDE, HIGH, facecolor=face, edgecolor=SOFT, lw=0.6))
            shown = f"{number:.{digits}f}".replace("-", "−")
            self.text(box[0] + WIDE / 2, box[1] + HIGH / 2, shown)
        self.text(x + columns * WIDE / 2, y - 0.17, name)
        if below:
            self.text(x + columns * WIDE / 2, y + rows * HIGH + 0.15, below, 8, color=SOFT)

    def frame(self, x: float, y: float, rows: int, columns: int) -> None:
        """A frame around cells that are followed from matrix to matrix."""
        size = (columns * WIDE, rows * HIGH)
        self.axes.add_patch(Rectangle((x, y), *size, fill=False, edgecolor=ROW, lw=1.8, zorder=3))

    def arrow(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        style = {"arrowstyle": "-|>", "mutation_scale": 9, "color": SOFT, "lw": 1.0}
        self.axes.add_patch(FancyArrowPatch(start, end, shrinkA=0, shrinkB=0, **style))


def attention(lang: Language) -> Figure:
    """How one attention is computed; the first query is followed in red."""
    x = torch.tensor(VECTORS, dtype=torch.float64)
    products = (x @ x.T).numpy()
    scores = products / 2**0.5
    module = ScaledDotProductAttention()
    weights, output = module.weights(x, x).dense().numpy(), module(x, x, x).numpy()
    board, top, low, high = Board(7.4, 4.25, lang), 0.5, 2.15, 3 * HIGH
    said = board.say

    board.matrix(0.15, top, x.numpy(), said("queries"), digits=1, below="T × D")
    board.text(1.3, top + high / 2, "·", 14)
    board.matrix(1.45, top + HIGH / 2, x.T.numpy(), said("keys"), digits=1, below="D × S")
    board.text(3.1, top + high / 2, "=", 12)
    board.matrix(3.25, top, products, said("products"), below="T × S")
    board.arrow((4.85, top + high / 2), (5.6, top + high / 2))
    board.text(5.22, top + high / 2 - 0.16, said("root"))
    board.matrix(5.7, top, scores, said("scores"), digits=3, below="T × S")

    board.arrow((0.3, low + high / 2), (1.35, low + high / 2))
    board.text(0.8, low + high / 2 - 0.27, said("softmax"), 8.5)
    board.matrix(1.45, low, weights, said("weights"), digits=3, shaded=True, below=said("sum"))
    board.text(3.1, low + high / 2, "·", 14)
    board.matrix(3.25, low, x.numpy(), said("values"), digits=1, below="S × E")
    board.text(4.4, low + high / 2, "=", 12)
    board.matrix(4.55, low, output, said("output"), digits=3, below="T × E")

    for left, above, columns in (
        (0.15, top, 2), (3.25, top, 3), (5.7, top, 3), (1.45, low, 3), (4.55, low, 2),
    ):  # fmt: skip
        board.frame(left, above, 1, columns)
    (a, b), (c, d) = VECTORS[:2]
    e = np.exp(scores[0])
    lines = (
        f"({a} · {c} + {b} · {d}) ÷ √2 = {scores[0, 1]:.3f}",
        f"e^{scores[0, 1]:.3f} ÷ (e^{scores[0, 0]:.3f} + e^{scores[0, 1]:.3f} + "
        f"e^{scores[0, 2]:.3f}) = {e[1] / e.sum():.3f}",
        " + ".join(f"{w:.3f} · {v[0]}" for w, v in zip(weights[0], VECTORS, strict=True))
        + f" = {output[0, 0]:.3f}",
    )
    for n, line in enumerate(lines):
        board.text(0.15, 3.6 + 0.22 * n, line, 8.5, ha="left", color=ROW)
    return board.figure


def heads(lang: Language) -> Figure:
    """How heads are split, attended and joined: two heads, each one number wide."""
    module = MultiHeadAttention(2, 2, bias=False).double()
    with torch.no_grad():
        for linear in (module.query, module.key, module.value):
            linear.weight.copy_(torch.eye(2))
        module.output.weight.copy_(torch.tensor(W_O).T)
        x = torch.tensor(VECTORS, dtype=torch.float64)[None]
        weights, output = module.weights(x).dense()[0].numpy(), module(x)[0].numpy()
    plain = x[0].numpy()
    found = np.stack([weights[h] @ plain[:, h] for h in (0, 1)], -1)
    board, high = Board(7.4, 3.95, lang), 3 * HIGH
    said, tops = board.say, (0.62, 2.32)
    middle = (tops[0] + tops[1] + high) / 2

    board.matrix(0.12, middle - high / 2, plain, said("vectors"), digits=1, colours=HEADS,
                 below="T × C")  # fmt: skip
    for h, top in enumerate(tops):
        at, colour = top + high / 2, (HEADS[h],)
        board.arrow((1.18, middle + (at - middle) * 0.2), (1.72, at))
        board.matrix(1.78, top, plain[:, h : h + 1], "q, k, v", digits=1, colours=colour)
        board.text(2.03, top - 0.42, said("head").format(h + 1), 9, weight="bold")
        board.arrow((2.34, at), (2.62, at))
        board.matrix(2.68, top, weights[h], said("each"), digits=3, shaded=True, below="T × T")
        board.text(4.28, at, "·", 14)
        board.matrix(4.38, top, plain[:, h : h + 1], said("value"), digits=1, colours=colour)
        board.text(4.99, at, "=", 12)
        board.matrix(5.1, top, found[:, h : h + 1], said("found"), digits=3, colours=colour)
        board.arrow((5.66, at), (6.2, tops[0] + high * (0.35 if h == 0 else 0.75)))
    board.text(1.3, middle, said("split"), 8.5, color=SOFT, ha="left")
    board.text(5.72, middle, said("join"), 8.5, color=SOFT)
    board.matrix(6.27, tops[0], found, said("joined"), digits=3, colours=HEADS)
    board.arrow((6.77, tops[0] + high + 0.06), (6.77, tops[1] - 0.3))
    board.text(6.86, (tops[0] + high + tops[1]) / 2 - 0.12, "· W_o", 9, ha="left")
    board.matrix(6.27, tops[1], output, said("output"), digits=3, below="T × C")
    board.text(0.12, 3.75, said("identity"), 8.5, ha="left", color=SOFT)
    return board.figure


FIGURES = {"attention": attention, "heads": heads}


def svg(figure: Figure) -> str:
    """As a file; letters are outlines, so no reader needs the fonts."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({"svg.fonttype": "path", "svg.hashsalt": "regard"})
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None}, facecolor="white")
    return file.getvalue()


def main() -> None:
    for name, draw in FIGURES.items():
        for lang in LANGUAGES:
            (PICTURES / f"{name}.{lang}.svg").write_text(svg(draw(lang)), encoding="utf-8")


if __name__ == "__main__":
    main()
