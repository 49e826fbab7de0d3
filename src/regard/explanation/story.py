"""The whole story, told on a few vectors: from dot products to what attention costs."""

from __future__ import annotations

import numpy as np

from regard.core import formula
from regard.explanation.attention import (
    Wish,
    project,
    scores,
    seen_and_bias,
    settings,
    softmax,
)
from regard.explanation.positions import sinusoids
from regard.explanation.sheet import FIXED, Floats, Sheet
from regard.explanation.trace import Chart, Steps, Trace, rows_named
from regard.rules import causal

VECTORS = np.array([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
"""The three vectors of the notes that this story follows."""
WIDTHS = (4, 16, 64, 256)
DRAWS, KEYS = 500, 8
COSTS = ((512, 64), (512, 256), (512, 512), (2048, 512))
"""(n, d) of the table of costs; in the second n = 2d."""


def story(x: Floats, tokens: tuple[str, ...] = (), note: str = "") -> Trace:
    """Every chapter, each computed from ``x``."""
    sheet = Sheet()
    steps = Steps(sheet)
    n, d = x.shape
    sheet.given("X", x)
    steps.step("input", "X", "X", n=n, d=d)
    _plain(steps, sheet)
    _root(steps, sheet, d)
    _three(steps, sheet, x)
    _mask(steps, sheet)
    _heads(steps, sheet, d)
    _positions(steps, sheet, n, d)
    _cost(steps, sheet, n, d)
    return Trace(
        sheet, tuple(steps.made), "Y", tokens or rows_named(n), title="step.story", note=note
    )


def _plain(steps: Steps, sheet: Sheet) -> None:
    """Dot products, the sum that they weigh, why that will not do, and the softmax."""
    last = len(sheet["X"]) - 1
    sheet.add("D", "dots", "X", "X", rows="query", columns="key")
    steps.step(
        "dots", "D = X Xᵀ", r"D = X X^\top", shown=("X", "D"),
        same=("D", 0, 0), other=("D", 0, last), last=last + 1,
    )  # fmt: skip
    sheet.add("R", "mix", "D", "X", rows="query")
    steps.step("raw", "R = D X = X Xᵀ X", r"R = D X = X X^\top X", shown=("D", "X", "R"))
    sheet.add("r", "sum", "D", rows="query", columns="")
    sheet.given("two", [[2.0]], "2", rows="", columns="", operation=FIXED)
    sheet.add("X_2", "times", "X", "two", symbol="2X")
    sheet.add("D_2", "dots", "X_2", "X_2", symbol="D(2X)", rows="query", columns="key")
    sheet.add("R_2", "mix", "D_2", "X_2", symbol="R(2X)", rows="query")
    steps.step(
        "rows", "rᵢ = Σⱼ D[i, j]", r"r_i = \sum_j D_{ij}", shown=("D", "r", "R", "R_2"),
        first=("r", 0, 0), final=("r", last, 0), growth=2**3,
    )  # fmt: skip
    softmax(steps, sheet, "D", "_1", "first-softmax")
    sheet.add("O_1", "mix", "A_1", "X", symbol="O", rows="query")
    sheet.add("a", "sum", "A_1", symbol="Σ", rows="query", columns="")
    steps.step(
        "average", "O = A X", "O = A X", shown=("A_1", "X", "O_1"),
        total=("a", 0, 0), one=("O_1", 0, 0),
    )  # fmt: skip


def _root(steps: Steps, sheet: Sheet, d: int) -> None:
    settings(sheet, d**-0.5)
    sheet.add("D_s", "scale", "D", "scale", "temperature", symbol="D'", rows="query",
              columns="key")  # fmt: skip
    sheet.given("wide", widths(), "√d", rows="", columns="widths", operation=FIXED)
    steps.step(
        "root", "D' = D · scale / τ,  scale = 1/√d", r"D' = \frac{D}{\sqrt{d}\,\tau}",
        shown=("D", "D_s", "wide"), d=d,
        chart=Chart("wide", 0, (1, 2), log=True),
        scale=("scale", 0, 0), heat=("temperature", 0, 0), draws=DRAWS, keys=KEYS,
        width=("wide", 2, 0), deviation=("wide", 2, 1), root=("wide", 2, 2),
        sharp=("wide", 2, 3), calm=("wide", 2, 4),
    )  # fmt: skip
    softmax(steps, sheet, "D_s", "_2", "root-softmax")


def widths() -> Floats:
    """For each width: d, the deviation of q · k, √d, the largest weight without and with √d."""
    rows = []
    for width in WIDTHS:
        random = np.random.default_rng(0)
        q = random.standard_normal((DRAWS, 1, width))
        k = random.standard_normal((DRAWS, KEYS, width))
        dots = formula.products(q, k)
        sharp, calm = (
            float(formula.normalise(formula.scores(dots, None, scale=s))[0].max(-1).mean())
            for s in (1.0, width**-0.5)
        )
        rows.append([width, float(dots.std()), width**0.5, sharp, calm])
    return np.array(rows)


def matrices_of(d: int) -> tuple[Floats, Floats, Floats, Floats]:
    """W_Q, W_K, W_V and W_O of small whole numbers, to be followed by hand."""
    one, above = np.eye(d), np.eye(d, k=1)
    return one + above, one + above.T, one[::-1].copy(), one - above.T


def _three(steps: Steps, sheet: Sheet, x: Floats) -> None:
    wq, wk, wv, _ = matrices_of(x.shape[1])
    for name, given in (("Q", wq), ("K", wk), ("V", wv)):
        project(steps, sheet, "X", name, given)
    last = len(x) - 1
    scored = scores(steps, sheet, Wish(x, ()), "Q", "K", "V")
    softmax(steps, sheet, scored)
    out = sheet.add("O", "mix", "A", "V", rows="query")
    steps.step(
        "sum", "O = A V", "O = A V", shown=("K", "A", "V", out), text="three",
        there=("S", 0, last), back=("S", last, 0), last=last + 1,
    )  # fmt: skip


def _mask(steps: Steps, sheet: Sheet) -> None:
    wish = Wish(sheet["X"], (), mask=causal())
    seen, _ = seen_and_bias(sheet, wish, "Q", "K", "V")
    assert seen is not None
    sheet.given("M", seen, rows="query", columns="key", operation=FIXED)
    sheet.add("S_masked", "hide", "S_scaled", "M", symbol="S″", rows="query", columns="key")
    steps.step(
        "masked", "S″[i, j] = −∞  (M[i, j] = 0)", r"S''_{ij} = -\infty \text{ if } M_{ij} = 0",
        shown=("M", "S_scaled", "S_masked"), rule=repr(causal()),
    )  # fmt: skip
    softmax(steps, sheet, "S_masked", "_3", "masked-softmax")


def _heads(steps: Steps, sheet: Sheet, d: int) -> None:
    heads = next((h for h in range(2, d + 1) if d % h == 0), 1)
    *_, wo = matrices_of(d)
    sheet.given("h", [[heads]], rows="", columns="", operation=FIXED)
    for name in "QKV":
        sheet.add(f"{name}_h", "split", name, "h", symbol=f"{name}ₕ")
    steps.step(
        "heads", "Qₕ, Kₕ, Vₕ = Q, K, V", r"Q_h, K_h, V_h = Q, K, V", heads=heads, width=d // heads
    )
    sheet.add("S_h", "dots", "Q_h", "K_h", symbol="Sₕ", rows="query", columns="key")
    # Each head has its own width: 1/√(d / heads) is 1/√d · √heads.
    sheet.given("root_h", [[heads**0.5]], "√h", rows="", columns="", operation=FIXED)
    sheet.add("scale_h", "times", "scale", "root_h", symbol="1/√dₕ", rows="", columns="")
    sheet.add("S_hs", "scale", "S_h", "scale_h", "temperature", symbol="Sₕ'", rows="query",
              columns="key")  # fmt: skip
    steps.step(
        "head-scores", "Sₕ = Qₕ Kₕᵀ / √dₕ", r"S_h = \frac{Q_h K_h^\top}{\sqrt{d_h}}",
        shown=("Q_h", "K_h", "S_h", "S_hs"), text="head-scores",
    )  # fmt: skip
    softmax(steps, sheet, "S_hs", "_h", "softmax")
    sheet.add("O_h", "mix", "A_h", "V_h", symbol="Oₕ")
    sheet.add("O_c", "concat", "O_h", symbol="[O₁ … Oₕ]")
    steps.step(
        "concat", "O = [O₁ … Oₕ]", r"O = [O_1 \dots O_h]", shown=("A_h", "V_h", "O_h", "O_c"),
        heads=heads,
    )  # fmt: skip
    sheet.given("W_O", wo, rows="feature")
    sheet.add("Y", "product", "O_c", "W_O")
    steps.step("output", "Y = O W_O", "Y = O W_O", shown=("O_c", "W_O", "Y"))


def _positions(steps: Steps, sheet: Sheet, n: int, d: int) -> None:
    """Rows in another order give the same rows in that order; positions change that."""
    order = np.arange(n, 0, -1.0)[:, None]
    sheet.given("order", order, "Π", columns="", operation=FIXED)
    sheet.add("X_o", "take", "X", "order", symbol="ΠX", rows="")
    for tail, x in (("_o", "X_o"), ("_p", "X_p")):
        if tail == "_p":
            sheet.given("P", sinusoids(n, d), operation=FIXED)
            sheet.add("X_p", "plus", "X", "P", symbol="X+P")
        sheet.add(f"D{tail}", "dots", x, x, symbol="S", rows="query", columns="key")
        sheet.add(f"S{tail}", "scale", f"D{tail}", "scale", "temperature", symbol="S'",
                  rows="query", columns="key")  # fmt: skip
        sheet.add(f"largest{tail}", "largest", f"S{tail}", symbol="max", rows="query", columns="")
        sheet.add(f"e{tail}", "powers", f"S{tail}", f"largest{tail}", symbol="e", rows="query",
                  columns="key")  # fmt: skip
        sheet.add(f"total{tail}", "sum", f"e{tail}", symbol="Σ", rows="query", columns="")
        sheet.add(f"A{tail}", "softmax", f"S{tail}", f"e{tail}", f"total{tail}", symbol="A",
                  rows="query", columns="key")  # fmt: skip
        sheet.add(f"O{tail}", "mix", f"A{tail}", x, symbol="O(ΠX)" if tail == "_o" else "O",
                  rows="" if tail == "_o" else "query")  # fmt: skip
        if tail == "_o":
            sheet.add("O_2", "mix", "A_2", "X", symbol="O", rows="query")
            steps.step(
                "order", "O(ΠX) = Π O(X)", r"O(\Pi X) = \Pi\, O(X)",
                shown=("X_o", "O_2", "O_o"), n=n, last=("O_2", n - 1, 0), first=("O_o", 0, 0),
            )  # fmt: skip
    steps.step(
        "positions",
        "P[i, 2m] = sin(i / 10000^(2m/d)), P[i, 2m+1] = cos(i / 10000^(2m/d))",
        r"P_{i,2m}=\sin\frac{i}{10000^{2m/d}},\; P_{i,2m+1}=\cos\frac{i}{10000^{2m/d}}",
        shown=("X", "P", "X_p", "O_p"), text="story-positions",
    )  # fmt: skip


def _cost(steps: Steps, sheet: Sheet, n: int, d: int) -> None:
    """Multiplications: four d × d products for each of n rows, and two n × n × d."""
    rows = [[n, d, *costs(n, d)], *([a, b, *costs(a, b)] for a, b in COSTS)]
    sheet.given("cost", rows, "4nd² + 2n²d", rows="", columns="costs", operation=FIXED)
    steps.step(
        "cost", "4 n d² + 2 n² d", "4 n d^2 + 2 n^2 d", n=n, d=d,
        linear=f"{costs(n, d)[0]:,}", square=f"{costs(n, d)[1]:,}",
        n_2=COSTS[1][0], d_2=COSTS[1][1],
        equal=f"{costs(*COSTS[1])[0]:,}", equal_2=f"{costs(*COSTS[1])[1]:,}",
    )  # fmt: skip


def costs(n: int, d: int) -> tuple[int, int]:
    """The multiplications of the four projections, and of scores and weighted sum."""
    return 4 * n * d * d, 2 * n * n * d
