"""The steps of one call, from the input to the output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard._errors import ShapeError
from regard.core.call import check
from regard.explanation.positions import angles, sinusoids
from regard.explanation.refused import Misshapen, Outside
from regard.explanation.sheet import FIXED, Floats, Sheet
from regard.explanation.trace import Cell, Steps, Trace, rows_named, seen_as_numbers
from regard.rules import Mask, alibi

POSITIONS = ("sinusoidal", "rotary", "alibi")


@dataclass(frozen=True)
class Wish:
    """One call to be explained, checked."""

    x: Floats
    tokens: tuple[str, ...]
    wq: Floats | None = None
    wk: Floats | None = None
    wv: Floats | None = None
    wo: Floats | None = None
    heads: int = 1
    mask: Mask | None = None
    positions: str | None = None
    scale: float | None = None
    temperature: float = 1.0
    note: str = ""


def trace(wish: Wish) -> Trace:
    """Every step of the call that ``wish`` describes."""
    sheet = Sheet()
    steps = Steps(sheet)
    n, d = wish.x.shape
    x = sheet.given("X", wish.x)
    steps.step("input", "X", "X", n=n, d=d)
    if wish.positions == "sinusoidal":
        sheet.given("P", sinusoids(n, d), operation=FIXED)
        x = sheet.add("X_P", "plus", "X", "P", symbol="X+P")
        steps.step(
            "positions",
            "P[i, 2m] = sin(i / 10000^(2m/d)), P[i, 2m+1] = cos(i / 10000^(2m/d))",
            r"P_{i,2m}=\sin\frac{i}{10000^{2m/d}},\; P_{i,2m+1}=\cos\frac{i}{10000^{2m/d}}",
            shown=("X", "P", "X_P"),
            text="sinusoidal",
        )
    q, k, v = (
        project(steps, sheet, x, name, given)
        for name, given in (("Q", wish.wq), ("K", wish.wk), ("V", wish.wv))
    )
    check_widths(sheet[q], sheet[k], sheet[v], wish.heads)
    if wish.heads > 1:
        sheet.given("h", [[wish.heads]], rows="", columns="", operation=FIXED)
        q, k, v = (
            sheet.add(f"{name}_h", "split", name, "h", symbol=f"{name}ₕ") for name in (q, k, v)
        )
        steps.step(
            "heads", "Qₕ, Kₕ, Vₕ = Q, K, V", r"Q_h, K_h, V_h = Q, K, V",
            heads=wish.heads, width=sheet[q].shape[-1],
        )  # fmt: skip
    if wish.positions == "rotary":
        q, k = rotary(steps, sheet, q, k)
    scored = scores(steps, sheet, wish, q, k, v)
    softmax(steps, sheet, scored)
    out = mixed(steps, sheet, k, v, wish.heads)
    if wish.wo is not None:
        sheet.given("W_O", wish.wo, "W_O", rows="feature")
        if sheet[out].shape[1] != len(wish.wo):
            raise Misshapen("explain.wo-rows", width=sheet[out].shape[1], shape=wish.wo.shape)
        out = sheet.add("Y", "product", out, "W_O")
        steps.step(
            "output", "Y = O W_O", "Y = O W_O", shown=(sheet.tables[out].inputs[0], "W_O", "Y")
        )
    return Trace(sheet, tuple(steps.made), out, wish.tokens or rows_named(n), note=wish.note)


def check_widths(q: Floats, k: Floats, v: Floats, heads: int) -> None:
    """Refuses queries and keys of different widths, and a width that the heads do not divide."""
    if q.shape[1] != k.shape[1]:
        raise Misshapen("explain.widths", q=q.shape[1], k=k.shape[1])
    for name, array in (("queries", q), ("values", v)):
        if heads < 1 or array.shape[1] % heads:
            raise Outside(f"explain.heads-{name}", width=array.shape[1], heads=heads)


def project(steps: Steps, sheet: Sheet, x: str, name: str, given: Floats | None) -> str:
    """The step Q, K or V."""
    if given is None:
        sheet.add(name, "same", x)
        symbol = sheet.tables[x].symbol
        formula = f"{name} = {symbol}"
        steps.step(name, formula, formula, shown=(name,), text="plain", letter=name, x=symbol)
        return name
    if given.ndim != 2 or given.shape[0] != sheet[x].shape[1]:
        raise Misshapen(
            "explain.rows", name=f"w{name.lower()}", width=sheet[x].shape[1], shape=given.shape
        )
    weight = sheet.given(f"W_{name}", given, f"W_{name}", rows="feature")
    sheet.add(name, "product", x, weight)
    formula = f"{name} = {sheet.tables[x].symbol} W_{name}"
    role = {"Q": "queries", "K": "keys", "V": "values"}[name]
    steps.step(name, formula, formula, shown=(x, weight, name), text=role)
    return name


def rotary(steps: Steps, sheet: Sheet, q: str, k: str) -> tuple[str, str]:
    """Queries and keys, each pair of numbers turned by its angle."""
    n, d = sheet[q].shape[-2:]
    if d % 2:
        raise Misshapen("explain.odd-rotary", width=d)
    sheet.given("theta", angles(n, d), "θ", operation=FIXED)
    turned = [
        sheet.add(f"{name}_r", "rotate", name, "theta", symbol=f"{name[0]}ᵣ") for name in (q, k)
    ]
    steps.step(
        "positions",
        "(a, b) → (a cos θ − b sin θ, a sin θ + b cos θ),  θ = i / 10000^(2m/d)",
        r"(a, b) \mapsto (a\cos\theta - b\sin\theta,\; a\sin\theta + b\cos\theta),"
        r"\quad \theta = \frac{i}{10000^{2m/d}}",
        shown=(q, k, "theta", *turned),
        text="rotary",
    )
    return turned[0], turned[1]


def scores(steps: Steps, sheet: Sheet, wish: Wish, q: str, k: str, v: str) -> str:
    """The scores, scaled, with what is added to them, and masked; the name of the last table."""
    width = sheet[q].shape[-1]
    sheet.add("S", "dots", q, k, rows="query", columns="key")
    steps.step("scores", "S = Q Kᵀ", r"S = Q K^\top", shown=(q, k, "S"))
    settings(sheet, width**-0.5 if wish.scale is None else wish.scale, wish.temperature)
    last = sheet.add("S_scaled", "scale", "S", "scale", "temperature", symbol="S'", rows="query",
                     columns="key")  # fmt: skip
    steps.step(
        "scaled", "S' = S · scale / τ,  scale = 1/√d", r"S' = \frac{S}{\sqrt{d}\,\tau}",
        shown=("S", last),
        width=width, scale=("scale", 0, 0),
        heat=("temperature", 0, 0),
    )  # fmt: skip
    seen, bias = seen_and_bias(sheet, wish, q, k, v)
    if bias is not None:
        sheet.given("B", bias, rows="query", columns="key", operation=FIXED)
        last = sheet.add("S_biased", "plus", last, "B", symbol="S'+B", rows="query", columns="key")
        steps.step(
            "positions", "B[i, j] = −m · |i − j|", r"B_{ij} = -m\,|i-j|", shown=("B", last),
            text="alibi",
        )  # fmt: skip
    if seen is not None:
        sheet.given("M", seen, rows="query", columns="key", operation=FIXED)
        before = last
        last = sheet.add("S_masked", "hide", last, "M", symbol="S″", rows="query", columns="key")
        assert wish.mask is not None
        steps.step(
            "masked", "S″[i, j] = −∞  (M[i, j] = 0)", r"S''_{ij} = -\infty \text{ if } M_{ij} = 0",
            shown=("M", before, last), rule=repr(wish.mask),
        )  # fmt: skip
    return last


def settings(sheet: Sheet, scale: float, temperature: float = 1.0) -> None:
    """What the scores are multiplied and divided by; once in a sheet."""
    if "scale" not in sheet:
        sheet.given("scale", [[scale]], "1/√d", rows="", columns="scale")
        sheet.given("temperature", [[temperature]], "τ", rows="", columns="temperature")


def seen_and_bias(
    sheet: Sheet, wish: Wish, q: str, k: str, v: str
) -> tuple[Floats | None, Floats | None]:
    """What the core makes of the mask and of ALiBi for this call."""
    bias: Any = alibi(wish.heads) if wish.positions == "alibi" else None
    try:
        call = check(sheet[q], sheet[k], sheet[v], wish.mask, bias=bias)
    except ShapeError as error:
        sizes = {"queries": sheet[q].shape[-2], "keys": sheet[k].shape[-2]}
        raise Misshapen("explain.mask", **sizes) from error
    n, H = len(wish.x), wish.heads
    shape = (H, n, n) if H > 1 else (n, n)
    seen = call.seen(call.frame)
    if seen is None and wish.mask is not None:  # a mask that hides nothing here
        seen = np.ones((1, 1), bool)
    added = None if call.bias is None else np.asarray(call.bias.over(call.frame, np.float64))
    return (
        None
        if seen is None
        else seen_as_numbers(np.broadcast_to(seen, (1, H, n, n)).reshape(shape)),
        None if added is None else np.broadcast_to(added, (1, H, n, n)).reshape(shape).copy(),
    )


def softmax(steps: Steps, sheet: Sheet, scored: str, tail: str = "", text: str = "softmax") -> str:
    """Largest, powers, sum and weights; ``tail`` ends the tables' names in a story."""
    say_row: Cell = (f"total{tail}", 0, 0)
    S = sheet.tables[scored].symbol
    S = f"({S})" if "+" in S else S
    row = f"{{{S.replace('″', chr(39) * 2).replace('ₕ', '_h')}}}_{{ij}}"
    sheet.add(f"largest{tail}", "largest", scored, symbol="max", rows="query", columns="")
    sheet.add(
        f"e{tail}", "powers", scored, f"largest{tail}", symbol="e", rows="query", columns="key"
    )
    sheet.add(f"total{tail}", "sum", f"e{tail}", symbol="Σ", rows="query", columns="")
    sheet.add(
        f"A{tail}", "softmax", scored, f"e{tail}", f"total{tail}",
        symbol="A", rows="query", columns="key",
    )  # fmt: skip
    steps.step(
        f"softmax{tail}",
        f"A[i, j] = exp({S}[i, j] − maxᵢ) / Σⱼ exp({S}[i, j] − maxᵢ)",
        rf"A_{{ij}} = \frac{{\exp({row} - \max_j {row})}}{{\sum_j \exp({row} - \max_j {row})}}",
        shown=(scored, f"largest{tail}", f"e{tail}", f"total{tail}", f"A{tail}"),
        text=text, largest=(f"largest{tail}", 0, 0), total=say_row,
        first=(f"A{tail}", 0, 0),
    )  # fmt: skip
    return f"A{tail}"


def mixed(steps: Steps, sheet: Sheet, k: str, v: str, heads: int) -> str:
    """The weighted sum, and the heads side by side."""
    out = sheet.add("O_h" if heads > 1 else "O", "mix", "A", v, symbol="Oₕ" if heads > 1 else "O")
    steps.step("sum", "O = A V", "O = A V", shown=(k, "A", v, out))
    if heads > 1:
        out = sheet.add("O", "concat", "O_h")
        steps.step(
            "concat", "O = [O₁ … Oₕ]", r"O = [O_1 \dots O_h]", shown=("O_h", "O"), heads=heads
        )
    return out
