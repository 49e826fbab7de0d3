"""Questions about what comes in: positions, embeddings, and whether the outputs are linear."""

from __future__ import annotations

import numpy as np

from regard.explanation.positions import sinusoids
from regard.explanation.questions.question import Experiment
from regard.explanation.sheet import FIXED
from regard.explanation.story import VECTORS
from regard.explanation.trace import Chart, Trace, rows_named


def why_add(e: Experiment) -> Trace:
    """Adding positions is laying them beside the words, with one matrix for both."""
    random = np.random.default_rng(0)
    n, d = VECTORS.shape
    e.sheet.given("X", VECTORS)
    e.sheet.given("P", sinusoids(n, d), operation=FIXED)
    e.sheet.given("W", random.uniform(-1, 1, (d, 3)).round(1), rows="feature")
    e.sheet.add("X_P", "plus", "X", "P", symbol="X+P")
    e.sheet.add("added", "product", "X_P", "W", symbol="(X+P) W")
    e.sheet.add("XW", "product", "X", "W", symbol="X W")
    e.sheet.add("PW", "product", "P", "W", symbol="P W")
    e.sheet.add("beside", "plus", "XW", "PW", symbol="X W + P W")
    e.step(
        "beside", "(X + P) W = X W + P W = [X P] [W; W]",
        r"(X + P) W = X W + P W = [X \; P] \begin{bmatrix} W \\ W \end{bmatrix}",
        shown=("X", "P", "W", "added", "XW", "PW", "beside"), text="ask.why-add-beside",
        one=("added", 0, 0), two=("beside", 0, 0),
    )  # fmt: skip
    e.setting("width", "width", "d")
    e.sheet.add("sizes", "sizes", "width", symbol="W", rows="sizes", columns="sizes-of")
    # Directions of words and of positions hardly meet in a wide space.
    e.sheet.add("cosine", "cosine", "width", symbol="|cos|", rows="", columns="")
    e.step(
        "sizes", "cos(x, p) ≈ 0", r"\cos(x, p) \approx 0", text="ask.why-add-sizes",
        shown=("sizes", "cosine"), chart=Chart("sizes", -1, (1,)), width=("width", 0, 0),
        once=("sizes", 0, 1), twice=("sizes", 1, 1), cosine=("cosine", 0, 0),
    )  # fmt: skip
    return e.trace("added", rows_named(n))


def why_embed_scale(e: Experiment) -> Trace:
    """How large an embedding of deviation 1/√d is beside its position, without and with √d."""
    e.setting("width", "width", "d")
    how = {"rows": "", "columns": "embeddings"}
    e.sheet.add("sizes", "embeddings", "width", symbol="RMS", **how)
    e.step(
        "sizes", "x + p;  √d · x + p", r"x + p;\quad \sqrt d \, x + p", shown=("sizes",),
        text="ask.why-embed-scale-sizes", chart=Chart("sizes", 0, (1, 2, 3)),
        d=("sizes", 3, 0), word=("sizes", 3, 1), place=("sizes", 3, 2),
        scaled=("sizes", 3, 3), ratio=("sizes", 3, 4),
    )  # fmt: skip
    return e.trace("sizes", ())


def linear(e: Experiment) -> Trace:
    """Multiply V, or X, or both scores and V without a softmax, and see what comes out."""
    how = {"rows": "query", "columns": "key"}
    e.sheet.given("X", VECTORS)
    e.sheet.given("c", [[e.numbers["factor"]]], "c", rows="", columns="factor")
    e.sheet.given("three", [[3.0]], "3", rows="", columns="", operation=FIXED)
    e.sheet.add("S", "dots", "X", "X", **how)
    e.softmax("S")
    e.sheet.add("O", "mix", "A", "X", rows="query")
    e.sheet.add("cX", "times", "X", "c", symbol="c X")
    e.sheet.add("O_V", "mix", "A", "cX", symbol="A (cX)", rows="query")
    e.sheet.add("cO", "times", "O", "c", symbol="c (A X)", rows="query")
    e.step(
        "value", "A (cV) = c (A V)", r"A (cV) = c (A V)", shown=("A", "O", "O_V", "cO"),
        text="ask.linear-value",
        chart=Chart("O_V", -1, (0, 1)),
        c=("c", 0, 0), one=("O_V", 0, 0), two=("cO", 0, 0),
    )  # fmt: skip
    e.sheet.add("S_c", "dots", "cX", "cX", symbol="S(cX)", **how)
    e.softmax("S_c", "_c", "A(cX)")
    e.sheet.add("O_c", "mix", "A_c", "cX", symbol="O(cX)", rows="query")
    e.step(
        "input", "softmax(cX · cXᵀ) cX ≠ c softmax(X Xᵀ) X",
        r"\operatorname{softmax}(cX \, cX^\top)\, cX \ne c \operatorname{softmax}(X X^\top) X",
        shown=("A", "A_c", "O_c", "cO"), text="ask.linear-input",
        chart=Chart("O_c", -1, (0, 1)),
        c=("c", 0, 0),
        one=("O_c", 0, 0), two=("cO", 0, 0),
    )  # fmt: skip
    e.sheet.add("R", "mix", "S", "X", symbol="X Xᵀ X", rows="query")
    e.sheet.add("R_c", "mix", "S_c", "cX", symbol="cX (cX)ᵀ cX", rows="query")
    e.sheet.add("c_3", "power", "c", "three", symbol="c³", rows="", columns="")
    e.sheet.add("cubed", "times", "R", "c_3", symbol="c³ X Xᵀ X", rows="query")
    e.step(
        "cubic", "cX (cX)ᵀ cX = c³ X Xᵀ X", r"cX (cX)^\top cX = c^3 X X^\top X",
        shown=("R", "R_c", "cubed"), text="ask.linear-cubic", c=("c", 0, 0),
        cube=("c_3", 0, 0), one=("R_c", 0, 0), two=("cubed", 0, 0),
    )  # fmt: skip
    return e.trace("O", rows_named(3))


def weights_explain(e: Experiment) -> Trace:
    """A weight is not what arrives: a sink with a small value, and a head switched off."""
    e.sheet.given("S", [[e.numbers["sink"], 0.5, 1.0]], rows="", columns="key")
    e.sheet.given("V", [[0.02, 0.01], [0.8, -0.4], [-0.3, 0.9]])
    e.softmax("S")
    e.sheet.add("O", "mix", "A", "V", rows="")
    e.sheet.given("two", [[2.0]], "2", rows="", columns="", operation=FIXED)
    e.sheet.given("half", [[0.5]], "½", rows="", columns="", operation=FIXED)
    e.sheet.add("V_2", "power", "V", "two", symbol="V²")
    e.sheet.add("length_2", "sum", "V_2", symbol="|v|²", columns="")
    e.sheet.add("length", "power", "length_2", "half", symbol="|v|", columns="")
    e.sheet.add("lengths", "turn", "length", symbol="|v|ᵀ", rows="", columns="key")
    e.sheet.add("arrives", "times", "A", "lengths", symbol="a |v|", rows="", columns="key")
    e.step(
        "sink", "|aⱼ vⱼ| = aⱼ |vⱼ|", r"\lvert a_j v_j \rvert = a_j \lvert v_j \rvert",
        shown=("A", "V", "length", "arrives", "O"), text="ask.weights-explain-sink",
        weight=("A", 0, 0), size=("length", 0, 0), arrives=("arrives", 0, 0),
        other=("arrives", 0, 2), small=("A", 0, 2),
    )  # fmt: skip
    random = np.random.default_rng(0)
    heads, width = 4, 4
    o = random.standard_normal((heads, 1, width)) * np.array([0.1, 1.0, 0.5, 1.5])[:, None, None]
    wo = random.standard_normal((heads, width, 8)) / (heads * width) ** 0.5
    parts = o @ wo
    whole = parts.sum(0)
    rows = [
        [h + 1, float(np.linalg.norm(part)), float(np.linalg.norm(whole - part)),
         float(np.linalg.norm(part) / np.linalg.norm(whole))]
        for h, part in enumerate(parts)
    ]  # fmt: skip
    e.sheet.given("off", rows, "y", rows="", columns="heads-off", operation=FIXED)
    e.step(
        "off", "y = Σₕ oₕ W_O[h]", r"y = \sum_h o_h W_O^{(h)}", text="ask.weights-explain-off",
        chart=Chart("off", 0, (1,)), heads=heads, least=("off", 0, 1), most=("off", 3, 1),
        whole=f"{float(np.linalg.norm(whole)):.4f}",
    )  # fmt: skip
    return e.trace("O", ("⟨s⟩", "x₂", "x₃"))
