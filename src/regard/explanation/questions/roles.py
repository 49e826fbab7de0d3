"""Questions about the parts: queries, keys and values, heads, the output matrix, two texts."""

from __future__ import annotations

import numpy as np

from regard.explanation.questions.question import Experiment
from regard.explanation.sheet import FIXED
from regard.explanation.story import VECTORS
from regard.explanation.trace import Chart, Trace, rows_named


def why_three(e: Experiment) -> Trace:
    """Let a look for b, b for c, c for a: easy with two matrices, impossible with one."""
    e.sheet.given("X", np.eye(3), operation=FIXED)
    e.setting("tries", "tries")
    e.sheet.given("W_Q", e.numbers["strength"] * np.roll(np.eye(3), 1, axis=1), rows="feature")
    e.sheet.given("W_K", np.eye(3), rows="feature")
    e.sheet.add("Q", "product", "X", "W_Q")
    e.sheet.add("K", "product", "X", "W_K")
    e.sheet.add("S", "dots", "Q", "K", rows="query", columns="key")
    e.softmax("S")
    e.step(
        "two", "A = softmax(X W_Q W_Kᵀ Xᵀ)",
        r"A = \operatorname{softmax}(X W_Q W_K^\top X^\top)", shown=("W_Q", "W_K", "S", "A"),
        text="ask.why-three-two",
        chart=Chart("A", -1, (0, 1, 2)),
        wanted=("A", 0, 1), back=("A", 1, 0),
    )  # fmt: skip
    e.sheet.add("W", "best_of", "tries", rows="feature")
    e.sheet.add("Q_1", "product", "X", "W", symbol="Q = K")
    e.sheet.add("S_1", "dots", "Q_1", "Q_1", symbol="S", rows="query", columns="key")
    e.softmax("S_1", "_1")
    e.sheet.add("worst", "worst_of_ring", "A_1", rows="", columns="")
    e.step(
        "one", "A = softmax(X W Wᵀ Xᵀ)", r"A = \operatorname{softmax}(X W W^\top X^\top)",
        shown=("W", "S_1", "A_1"), text="ask.why-three-one",
        chart=Chart("A_1", -1, (0, 1, 2)),
        tries=("tries", 0, 0), best=("worst", 0, 0),
    )  # fmt: skip
    return e.trace("A", ("a", "b", "c"))


def why_heads(e: Experiment) -> Trace:
    """Fetch two rows at once: one head can only average them; and what splitting d costs."""
    strength = e.numbers["strength"]
    v = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
    both = np.array([[strength, 0.0, strength]])
    e.sheet.given("V", v)
    e.sheet.given("S_1", both, "S", rows="", columns="key")
    e.softmax("S_1", "_1")
    e.sheet.add("O_1", "mix", "A_1", "V", symbol="O", rows="")
    two = [[[strength, 0.0, 0.0]], [[0.0, 0.0, strength]]]
    e.sheet.given("h", [[2]], rows="", columns="", operation=FIXED)
    e.sheet.add("V_h", "split", "V", "h", symbol="Vₕ")
    e.sheet.given("S_2", two, "Sₕ", rows="", columns="key")
    e.softmax("S_2", "_2", "Aₕ")
    e.sheet.add("O_h", "mix", "A_2", "V_h", symbol="Oₕ", rows="")
    e.sheet.add("O_2", "concat", "O_h", symbol="O", rows="")
    e.step(
        "two", "O = A V;  O = [A₁ V₁  A₂ V₂]", r"O = A V;\quad O = [A_1 V_1 \; A_2 V_2]",
        shown=("V", "A_1", "O_1", "A_2", "O_2"), text="ask.why-heads-two",
        a=("V", 0, 0), b=("V", 2, 1),
        one=("O_1", 0, 0), other=("O_1", 0, 1), first=("O_2", 0, 0), second=("O_2", 0, 1),
    )  # fmt: skip
    e.setting("length", "length", "n")
    e.setting("width", "width", "d")
    how = {"rows": "", "columns": "split"}
    e.sheet.add("split", "head_costs", "length", "width", symbol="d/h", **how)
    e.step(
        "split", "h · 2n²(d/h) = 2n²d;  h · 2n²d", r"h \cdot 2 n^2 \frac d h = 2 n^2 d;\quad"
        r" h \cdot 2 n^2 d", shown=("split",), text="ask.why-heads-split",
        n=("length", 0, 0), d=("width", 0, 0), chart=Chart("split", 0, (2, 3)),
        same=("split", 3, 2), more=("split", 3, 3),
    )  # fmt: skip
    return e.trace("O_2", rows_named(3))


def what_qkv(e: Experiment) -> Trace:
    """A dictionary that answers softly: keys are compared, values are given."""
    e.sheet.given("K", [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    e.sheet.given("V", [[10.0], [20.0], [60.0]], columns="")
    e.sheet.given("Q", [[0.0, 1.0]], rows="")
    e.sheet.given("strength", [[e.numbers["strength"]]], "β", rows="", columns="strength")
    e.sheet.add("D", "dots", "Q", "K", symbol="q·k", rows="", columns="key")
    e.sheet.add("S", "times", "D", "strength", symbol="β q·k", rows="", columns="key")
    e.softmax("S")
    e.sheet.add("O", "mix", "A", "V", rows="", columns="")
    e.step(
        "soft", "o = Σⱼ softmax(β q · kⱼ) vⱼ",
        r"o = \sum_j \operatorname{softmax}(\beta\, q \cdot k)_j\, v_j",
        shown=("Q", "K", "V", "S", "A", "O"), text="ask.what-qkv-soft",
        chart=Chart("A", -1, (0, 1, 2)),
        out=("O", 0, 0),
        beta=("strength", 0, 0), weight=("A", 0, 1), exact=("V", 1, 0),
    )  # fmt: skip
    return e.trace("O", ("one", "two", "three"))


def cross_or_self(e: Experiment) -> Trace:
    """Queries of one text, keys and values of another; self-attention where both are one."""
    random = np.random.default_rng(0)
    other = random.uniform(-1, 1, (e.whole("queries"), 2)).round(1)
    e.sheet.given("Y", other, rows="")
    e.sheet.given("X", VECTORS)
    e.sheet.add("S", "dots", "Y", "X", rows="", columns="key")
    e.softmax("S")
    e.sheet.add("O", "mix", "A", "X", rows="")
    e.step(
        "cross", "O = softmax(Y Xᵀ) X", r"O = \operatorname{softmax}(Y X^\top) X",
        shown=("Y", "X", "A", "O"), text="ask.cross-or-self-cross", chart=Chart("A", -1, (0, 1, 2)),
        t=len(other), s=len(VECTORS),
    )  # fmt: skip
    e.sheet.add("S_self", "dots", "X", "X", symbol="S", rows="query", columns="key")
    e.softmax("S_self", "_self")
    e.sheet.add("O_self", "mix", "A_self", "X", symbol="O", rows="query")
    e.step(
        "self", "O = softmax(X Xᵀ) X", r"O = \operatorname{softmax}(X X^\top) X",
        shown=("X", "A_self", "O_self"), text="ask.cross-or-self-self",
        chart=Chart("A_self", -1, (0, 1, 2)),
        s=len(VECTORS),
    )  # fmt: skip
    return e.trace("O", rows_named(3))


def what_wo(e: Experiment) -> Trace:
    """Change what one head says, and see which numbers of the output move."""
    random = np.random.default_rng(0)
    heads, width = e.whole("heads"), 2
    o = random.uniform(-1, 1, (1, heads * width)).round(1)
    changed = o.copy()
    changed[0, :width] += 1.0
    wo = random.uniform(-1, 1, (heads * width, heads * width)).round(1)
    e.sheet.given("O", o, rows="")
    e.sheet.given("O_1", changed, "O′", rows="")
    e.sheet.given("minus", [[-1.0]], "−1", rows="", columns="", operation=FIXED)
    e.sheet.given("W_O", wo, rows="feature")
    e.sheet.add("back", "times", "O", "minus", symbol="−O", rows="")
    e.sheet.add("moved", "plus", "O_1", "back", symbol="O′−O", rows="")
    e.sheet.add("moved_W", "product", "moved", "W_O", symbol="(O′−O) W_O", rows="")
    e.sheet.add(
        "moved_T", "turn", "moved_W", symbol="(O′−O) W_Oᵀ", rows="feature", columns="change"
    )
    still = int((np.abs(e.sheet["moved"]) < 1e-12).sum())
    moving = int((np.abs(e.sheet["moved_W"]) > 1e-12).sum())
    e.step(
        "moved", "O′ − O;  (O′ − O) W_O", r"O' - O;\quad (O' - O) W_O",
        shown=("moved", "W_O", "moved_W"), text="ask.what-wo-moved",
        chart=Chart("moved_T", -1, (0,)),
        heads=heads,
        still=still, moving=moving, count=heads * width,
    )  # fmt: skip
    return e.trace("moved_W", ())


def cost(e: Experiment) -> Trace:
    """Multiplications counted in a call, by formula for other sizes, and where both are equal."""
    n, d = e.numbers["length"], e.numbers["width"]
    for name, value, kind in (("n", n, "length"), ("d", d, "width")):
        e.sheet.given(name, [[value]], name, rows="", columns=kind)
    for name, value in (("two", 2.0), ("four", 4.0)):
        e.sheet.given(name, [[value]], str(int(value)), rows="", columns="", operation=FIXED)
    how = {"rows": "", "columns": ""}
    e.sheet.add("d_2", "power", "d", "two", symbol="d²", **how)
    e.sheet.add("n_2", "power", "n", "two", symbol="n²", **how)
    e.sheet.add("nd_2", "times", "n", "d_2", symbol="nd²", **how)
    e.sheet.add("n_2d", "times", "n_2", "d", symbol="n²d", **how)
    e.sheet.add("projections", "times", "four", "nd_2", symbol="4nd²", **how)
    e.sheet.add("attention", "times", "two", "n_2d", symbol="2n²d", **how)
    e.sheet.add("ratio", "over", "attention", "projections", symbol="n / 2d", **how)
    e.sheet.add("equal", "times", "two", "d", symbol="2d", **how)
    e.step(
        "formula", "4nd² + 2n²d", "4nd^2 + 2n^2d",
        shown=("projections", "attention", "ratio", "equal"), text="ask.cost-formula",
        n=("n", 0, 0), d=("d", 0, 0), projections=("projections", 0, 0),
        attention=("attention", 0, 0), ratio=("ratio", 0, 0), equal=("equal", 0, 0),
    )  # fmt: skip
    e.sheet.add("lengths", "lengths", "d", symbol="n", rows="", columns="lengths")
    e.step(
        "lengths", "4nd² = 2n²d  ⇔  n = 2d", r"4nd^2 = 2n^2d \iff n = 2d",
        text="ask.cost-lengths", shown=("lengths",),
        chart=Chart("lengths", 0, (1, 2), log=True), d=("d", 0, 0),
        even=("lengths", 2, 0), left=("lengths", 2, 1), right=("lengths", 2, 2),
    )  # fmt: skip
    return e.trace("attention", ())
