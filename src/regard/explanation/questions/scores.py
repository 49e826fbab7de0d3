"""Questions about scores: the scale, the softmax, the kind of product, what a mask says."""

from __future__ import annotations

from functools import partial

import numpy as np

from regard._errors import KindError
from regard.core.attention import attend
from regard.explanation.draws import normals
from regard.explanation.experiments import additive, pairs
from regard.explanation.questions.question import Experiment, best_time
from regard.explanation.sheet import FIXED
from regard.explanation.story import VECTORS
from regard.explanation.trace import Chart, Trace, rows_named


def why_sqrt(e: Experiment) -> Trace:
    """Dot products of d products deviate by √d; the weights with no scale, 1/√d and 1/d."""
    keys = e.whole("keys")
    e.setting("width", "width", "d")
    e.setting("keys", "keys")
    e.setting("draws", "draws")
    for name, value in (("half", 0.5), ("minus_half", -0.5), ("minus_one", -1.0)):
        e.sheet.given(name, [[value]], rows="", columns="", operation=FIXED)
    how = {"rows": "", "columns": "drawn"}
    e.sheet.add("drawn", "drawn", "width", "keys", "draws", symbol="q · k", **how)
    e.sheet.add("even", "power", "keys", "minus_one", symbol="1/keys", rows="", columns="")
    e.step(
        "drawn", "Var(q · k) = d,  σ(q · k) = √d",
        r"\operatorname{Var}(q \cdot k) = d,\quad \sigma(q \cdot k) = \sqrt d",
        shown=("drawn",), text="ask.why-sqrt-drawn", chart=Chart("drawn", 0, (4, 5, 6)),
        draws=("draws", 0, 0), keys=("keys", 0, 0), d=("drawn", 2, 0),
        variance=("drawn", 2, 1), deviation=("drawn", 2, 2), root=("drawn", 2, 3),
        none=("drawn", 2, 4), by_root=("drawn", 2, 5), by_d=("drawn", 2, 6), even=("even", 0, 0),
    )  # fmt: skip
    # The same with numbers that can be moved: eight dots of deviation 1, widened to √d.
    z = normals(keys, 6)[None].round(1)
    e.sheet.given("z", z, rows="", columns="key", operation=FIXED)
    e.sheet.add("root", "power", "width", "half", symbol="√d", rows="", columns="")
    e.sheet.add("S", "times", "z", "root", symbol="z √d", rows="", columns="key")
    e.softmax("S", "_1", "softmax(S)")
    e.sheet.add("by_root", "power", "width", "minus_half", symbol="1/√d", rows="", columns="")
    e.sheet.add("S_root", "times", "S", "by_root", symbol="S/√d", rows="", columns="key")
    e.softmax("S_root", "_2", "softmax(S/√d)")
    e.sheet.add("by_d", "power", "width", "minus_one", symbol="1/d", rows="", columns="")
    e.sheet.add("S_d", "times", "S", "by_d", symbol="S/d", rows="", columns="key")
    e.softmax("S_d", "_3", "softmax(S/d)")
    e.step(
        "one", "softmax(S), softmax(S / √d), softmax(S / d)",
        r"\operatorname{softmax}(S),\ \operatorname{softmax}(S/\sqrt d),"
        r"\ \operatorname{softmax}(S/d)",
        shown=("S", "A_1", "A_2", "A_3"), text="ask.why-sqrt-one", d=("width", 0, 0),
    )  # fmt: skip
    return e.trace("A_2", rows_named(keys))


def why_softmax(e: Experiment) -> Trace:
    """The same scores divided by their sum, and by softmax along rows and along columns."""
    first = e.numbers["first"]
    e.sheet.given("S", [[first, -0.9, 0.1], [0.4, 0.3, -0.2], [-0.5, 1.0, 0.8]], rows="query",
                  columns="key")  # fmt: skip
    e.sheet.add("r", "sum", "S", rows="query", columns="")
    e.sheet.add("D", "over", "S", "r", symbol="S ÷ r", rows="query", columns="key")
    e.softmax("S", "_1", "softmax(S)")
    e.step(
        "sum", "S[i, j] / rᵢ,  exp S[i, j] / Σⱼ exp S[i, j]",
        r"\frac{S_{ij}}{\sum_j S_{ij}},\quad \frac{\exp S_{ij}}{\sum_j \exp S_{ij}}",
        shown=("S", "r", "D", "A_1"), text="ask.why-softmax-sum", chart=Chart("A_1", -1, (0, 1, 2)),
        share=("D", 0, 0), second=("D", 0, 1), total=("r", 0, 0), soft=("A_1", 0, 0),
    )  # fmt: skip
    e.sheet.add("S_T", "turn", "S", symbol="Sᵀ", rows="key", columns="query")
    e.softmax("S_T", "_2", "softmax(Sᵀ)")
    e.sheet.add("C", "turn", "A_2", symbol="C", rows="query", columns="key")
    e.sheet.add("rows_C", "sum", "C", symbol="Σⱼ C", rows="query", columns="")
    e.sheet.add("rows_A", "sum", "A_1", symbol="Σⱼ A", rows="query", columns="")
    e.step(
        "axis", "Σⱼ A[i, j] = 1;  Σᵢ C[i, j] = 1",
        r"\sum_j A_{ij} = 1;\quad \sum_i C_{ij} = 1",
        shown=("A_1", "rows_A", "C", "rows_C"), text="ask.why-softmax-axis",
        chart=Chart("C", -1, (0, 1, 2)),
        one=("rows_A", 0, 0), row_1=("rows_C", 0, 0), row_2=("rows_C", 1, 0),
    )  # fmt: skip
    return e.trace("A_1", rows_named(3))


def dot_or_additive(e: Experiment) -> Trace:
    """Multiplications and time of both, and how their scores grow with the width."""
    e.setting("length", "length", "n")
    e.setting("width", "width", "d")
    e.sheet.add("kinds", "kinds", "length", "width", symbol="q, k", rows="", columns="kinds")
    q, k, w, u, v = pairs(e.whole("length"), e.whole("width"))
    ratio = best_time(partial(additive, q, k, w, u, v)) / best_time(partial(np.matmul, q, k.T))
    e.step(
        "kinds", "q · k / √d;  v · tanh(W q + U k)",
        r"\frac{q \cdot k}{\sqrt d};\quad v \cdot \tanh(W q + U k)",
        shown=("kinds",), text="ask.dot-or-additive-kinds",
        chart=Chart("kinds", 0, (4, 5, 6)), n=("length", 0, 0), d=("kinds", 2, 0),
        ratio=f"{ratio:.3g}", first_n=e.whole("length"), first_d=e.whole("width"),
        grown=("kinds", 2, 4), scaled=("kinds", 2, 5), added=("kinds", 2, 6),
    )  # fmt: skip
    return e.trace("kinds", ())


def true_keeps(e: Experiment) -> Trace:
    """One array of True and False, read both ways, and what this library says to it."""
    e.setting("hidden", "hidden")
    e.sheet.given("X", VECTORS)
    e.sheet.add("S", "dots", "X", "X", rows="query", columns="key")
    e.sheet.add("M", "hides", "hidden", rows="query", columns="key")
    e.sheet.add("N", "opposite", "M", symbol="1−M", rows="query", columns="key")
    e.sheet.add("S_keep", "hide", "S", "M", rows="query", columns="key")
    e.softmax("S_keep", "_keep", "A[M]")
    e.sheet.add("S_drop", "hide", "S", "N", rows="query", columns="key")
    e.softmax("S_drop", "_drop", "A[1−M]")
    try:
        attend(VECTORS, VECTORS, VECTORS, e.sheet["M"] > 0)  # type: ignore[arg-type]
        refusal = ""
    except KindError as error:
        refusal = str(error)
    e.step(
        "both", "S[i, j] = −∞  (M[i, j] = 0);  S[i, j] = −∞  (M[i, j] = 1)",
        r"S_{ij} = -\infty \text{ if } M_{ij} = 0;\quad S_{ij} = -\infty \text{ if } M_{ij} = 1",
        shown=("M", "A_keep", "A_drop"), text="ask.true-keeps-both",
        chart=Chart("A_keep", -1, (0, 1, 2)),
        refusal=refusal,
        keep=("A_keep", 0, 0), drop=("A_drop", 0, 0),
    )  # fmt: skip
    return e.trace("A_keep", rows_named(3))
