"""What is so: the judges of claims in words, by the definition or a small experiment.

A judge takes what a pattern has matched, its sentence and the names known, and returns whether
the claim is right, the catalogue's name of what is said of it, and the values that fill it; None
where the sentence says nothing after all.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from regard.core import formula
from regard.explanation.notes.algebra import Names, NotUnderstood, Parser, value
from regard.explanation.numbers import written

Found = tuple[bool, str, dict[str, str]]
Judge = Callable[[re.Match[str], str, Names], Found | None]

NOT = re.compile(
    r"\bnot\b|n't\b|\bnon-?|\bnever\b|\bno longer\b|\bwrong\b|\bmyth\b|\bneither\b|\bcannot\b|\brather than\b"
    r"|\binstead of\b|\bmistake|\bincorrect|\bfalse\b|\bmisread|不|非|没有|并非|错误|错的|误解|误以为|而非|别"
)
DOT = r"dot products?|inner products?|q\s*\*\s*k|q\^?T\s*k|scores?\b|QK\^?T|Q K\^T|点积|内积|分数|得分"
AFTER = re.compile(
    r"after (?:dividing|scaling|division)|scaled|除以[^，,]*后|缩放后|归一化后|normali[sz]ed", re.I
)
OTHERS = re.compile(
    r"RNN|recurren|conv|CNN|linear attention|flash|window|sparse|local|KV|cache|循环|卷积|线性注意力|稀疏|窗口|缓存|per token|每个词元|parallel|sequential|path|路径|project|投影|feed-?forward|FFN|前馈",
    re.I,
)
"""What else a cost may be of."""
HIDES = re.compile(
    r"prevent|stop|hide|block|forbid|keep.{0,20}from|only|防止|避免|禁止|看不到|阻止|遮|屏蔽|只能"
)


def _width(text: str, names: Names) -> float | None:
    """The width d that a sentence speaks of."""
    patterns = (
        r"(\d+)\s*-?\s*(?:dimension\w*|wide|dim\b|dims\b|d\b|维)", r"\bd(?:_?k|_?q|_?head|_model)?\s*=\s*(\d+)",
        r"(?:width|dimension|size|length|维度|宽度|宽|维数)\s*(?:of|is|为|是|=)?\s*(\d+)", r"(\d+)\s*(?:terms|numbers|components|项|个分量)",
    )  # fmt: skip
    for pattern in patterns:
        if found := re.search(pattern, text, re.I):
            return float(found[1])
    for name in ("d_k", "dk", "d"):
        if name in names.values and names.values[name].ndim == 0:
            return float(names.values[name])
    return None


def _amount(text: str, names: Names, d: float | None) -> tuple[float, str] | None:
    """The value that a claim begins with: a number, √64, d_k, √d_k = 8."""
    best: tuple[float, str] | None = None
    for part in (side.strip(" ,.;:") for side in text.split("=")[:3]):
        for end in range(len(part), 0, -1):
            if end < len(part) and (part[end - 1].isalnum() and part[end].isalnum()):
                continue
            try:
                node = Parser(part[:end].strip(" ,.;:")).whole()
            except (NotUnderstood, RecursionError):
                continue
            local = Names(dict(names.values), dict(names.units))
            if d is not None:
                for name in ("d", "d_k", "dk", "d_q", "n"):
                    if name != "n":
                        local.values[name] = np.array(d)
            else:
                for name in ("d", "d_k", "dk"):
                    local.values.setdefault(name, np.array(64.0))
            try:
                result = value(node, local)
            except NotUnderstood:
                continue
            if result.ndim == 0:
                best = (float(result), part[:end].strip())
            break
        if best:
            return best
    return best


def variance(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The variance of a dot product of d independent terms is d, its deviation √d."""
    if NOT.search(text) or "D(XY" in text or not re.search(DOT, text, re.I) or AFTER.search(text):
        return None
    found_width = _width(text, names)
    amount = _amount(match["amount"], names, found_width)
    if amount is None:
        return None
    if found_width is None and (of := re.match(r"sqrt\((\d+)\)", amount[1])):
        found_width = float(of[1])  # whose root is spoken of
    d = 64.0 if found_width is None else found_width
    deviation = bool(re.search(r"deviation|标准差|std|spread|sigma", match["what"], re.I))
    right = d**0.5 if deviation else d
    if amount[0] in (0, 1):  # of the components, or of what has been scaled
        return None
    if abs(amount[0] - right) <= 0.01 * right:
        return True, "note.right", {}
    if re.search(r"\bd", amount[1]) or found_width is not None:
        word = "√d" if deviation else "d"
        shown = word if found_width is None else f"{word} = {written(right)}"
        return False, "note.deviation" if deviation else "note.variance", {"right": shown}
    return None


def product_variance(match: re.Match[str], text: str, names: Names) -> Found | None:
    """D(XY) for independent X and Y, at random numbers, against what is written."""
    if NOT.search(text):
        return None
    side = match["right"]
    random = np.random.default_rng(0)
    # Where means of 0 were spoken of, a formula without means may rely on them.
    zero = "zero mean" in names.said and not re.search(r"\bE\b|E\s*[(\[]", side)
    for _ in range(3):
        dx, dy, ex, ey = random.uniform(0.5, 2, 4)
        if zero:
            ex = ey = 0.0
        known = {"DX": dx, "DY": dy, "EX": ex, "EY": ey}
        code = re.sub(r"(?:Var|D|V)\s*[\[(]\s*([XY])\s*[\])]", r"(D\1)", side)
        code = re.sub(r"(?:E)\s*[\[(]\s*([XY])\s*[\])]", r"(E\1)", code)
        code = re.sub(r"(?:E)\s*[\[(]\s*([XY])\s*\^2\s*[\])]", r"(D\1 + E\1^2)", code)
        code = re.sub(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\s*\^2", r"(\1)^2", code)
        local = Names({name: np.array(v) for name, v in known.items()})
        try:
            got = _longest_value(code, local)
        except NotUnderstood:
            return None
        truth = dx * dy + dx * ey**2 + dy * ex**2
        if abs(got - truth) > 1e-9:
            return False, "note.product-variance", {"right": "D(X)D(Y) + D(X)E(Y)² + D(Y)E(X)²"}
    return True, "note.right", {}


def _longest_value(text: str, names: Names) -> float:
    for end in range(len(text), 0, -1):
        try:
            return float(value(Parser(text[:end].strip(" ,.;")).whole(), names))
        except (NotUnderstood, RecursionError, TypeError):
            continue
    raise NotUnderstood(text)


def _degree() -> int:
    """By which power X Xᵀ X grows when X is doubled, measured."""
    x = np.random.default_rng(0).standard_normal((1, 3, 2))
    once, twice = (formula.mix(formula.products(a, a), a) for a in (x, 2 * x))
    return round(float(np.log2(np.abs(twice / once).mean())))


def denied(wrong: str, **values: str) -> Judge:
    """A claim that is wrong, and right where it is denied."""

    def judge(match: re.Match[str], text: str, names: Names) -> Found:
        denied = bool(NOT.search(text))
        return denied, wrong, {} if denied else dict(values)

    return judge


def always(match: re.Match[str], text: str, names: Names) -> Found | None:
    """A claim that is right as it stands."""
    return None if NOT.search(text) else (True, "note.right", {})


def linear(match: re.Match[str], text: str, names: Names) -> Found | None:
    """In V attention is linear, given the weights; in X it is not, with or without softmax."""
    denied = bool(NOT.search(text)) or bool(
        re.search(r"cubic|quadratic|bilinear|三次|二次|双线性", text, re.I)
    )
    in_values = re.search(
        r"in (?:the )?(?:V\b|values?)|(?:对|关于)\s*(?:V|值)|given the weights|权重固定|给定权重|W_?[QKVO]",
        text,
    )
    if in_values:
        return None if denied else (True, "note.right", {})
    if re.search(
        r"linear attention|线性注意力|序列长度|piecewise|linear (?:layer|projection|transformation|map|combination|algebra)|线性(?:层|投影|变换|组合|代数|映射)|linear (?:time|in (?:the )?(?:length|sequence|n\b))|线性(?:时间|复杂度|增长)",
        text,
        re.I,
    ):
        return None
    return denied, "note.linear", {"right": str(_degree())}


def heads(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The width of one head."""
    numbers = {name: float(number) for name, number in match.groupdict().items() if number}
    width, heads, each = numbers["d"], numbers["h"], numbers["each"]
    if not heads:
        return None
    right = width / heads
    return abs(right - each) < 1e-9, "note.wrong", {"right": written(right)}


def doubling(match: re.Match[str], text: str, names: Names) -> Found | None:
    """Twice the length costs four times the weights."""
    if NOT.search(text) or re.search(r"project|投影|feed-?forward|前馈", text, re.I):
        return None
    four = bool(
        re.search(r"quadrupl|four|\b4\b|四倍|4 ?倍", "".join(filter(None, match.groups())), re.I)
    )
    return four, "note.doubling", {} if four else {"right": "4"}


def equal_at(match: re.Match[str], text: str, names: Names) -> Found | None:
    """4nd² = 2n²d at n = 2d."""
    if not re.search(r"cost|multipl|FLOP|projection|代价|计算量|乘法|投影|相等", text, re.I):
        return None
    right = match["factor"].replace(" ", "").replace("*", "") in ("2d", "2d_model")
    return right, "note.equal-at", {} if right else {"right": "n = 2d"}


def linear_cost(match: re.Match[str], text: str, names: Names) -> Found | None:
    """Against linear cost in the length."""
    if OTHERS.search(text):
        return None
    denied_ = bool(NOT.search(text))
    return denied_, "note.order", {} if denied_ else {"right": "O(n²d)"}


def order(match: re.Match[str], text: str, names: Names) -> Found | None:
    """O(…) of self-attention: in time n²d, in memory n²; projections nd²."""
    if NOT.search(text) or OTHERS.search(text):
        return None
    inside = re.sub(r"[\s*·]", "", match["inside"]).lower().replace("_model", "")
    inside = re.sub(r"(?<![a-z])[lts](?![a-z])", "n", inside.replace("s^2", "n^2"))
    memory = bool(
        re.search(r"memory|space|storage|内存|显存|空间|weights matrix|matrix|矩阵", text, re.I)
    )
    good = {"n^2", "n^2d", "dn^2", "n^2d+nd^2", "nd^2+n^2d", "n^2d_k", "n^2*d"} | (
        {"n^2h", "hn^2", "n^2+nd"} if memory else set()
    )
    if inside in good:
        return True, "note.right", {}
    if inside in {"n", "nd", "nlogn", "n^3", "dn", "nd^2", "n^2d^2", "d^2"}:
        return False, "note.order", {"right": "O(n²)" if memory else "O(n²d)"}
    return None


def score_shape(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The weights of n tokens are n × n."""
    n, a, b = match["n"], match["a"], match["b"]
    right = (a, b) == (n, n)
    return right, "note.wrong", {} if right else {"right": f"{n} × {n}"}


def dot(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The dot product of two named vectors, in words."""
    second = match["a"] if match["b"] == "itself" else match["b"]
    a, b = names.values.get(match["a"]), names.values.get(second)
    if a is None or b is None or a.shape != b.shape or a.ndim != 1:
        return None
    return _number(float(a @ b), match["number"])


def _number(exact: float, text: str) -> Found:
    digits = len(text.partition(".")[2])
    right = abs(float(text) - exact) <= 0.5 * 10.0**-digits + 1e-9
    return right, "note.wrong", {} if right else {"right": written(exact, min(digits + 1, 6))}


def only_softmax(match: re.Match[str], text: str, names: Names) -> Found | None:
    """Softmax as the only non-linearity: X Xᵀ X is cubic before it."""
    if re.search(r"not the only|isn't the only|不是唯一|并非唯一", text, re.I):
        return True, "note.right", {}
    return False, "note.linear", {"right": str(_degree())}


def unsoftened(match: re.Match[str], text: str, names: Names) -> Found | None:
    """Attention without its softmax: linear in V, cubic in X."""
    if re.search(r"in (?:the )?(?:V\b|values?)|对\s*V", text):
        return None
    right = re.search(
        r"not linear|isn't linear|not be linear|non-?linear|cubic|三次|不是线性|并非线性|非线性",
        text,
        re.I,
    )
    return bool(right), "note.linear", {} if right else {"right": str(_degree())}


def letters(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The weights' shape in letters: a query by a key, never by the width."""
    if NOT.search(text):
        return None
    right = not match["b"].startswith("d")
    return right, "note.wrong", {} if right else {"right": f"{match['a']} × {match['a']}"}


def future(match: re.Match[str], text: str, names: Names) -> Found | None:
    """A causal mask hides what comes later."""
    if NOT.search(text) or HIDES.search(text):
        return True, "note.right", {}
    return False, "note.future", {"right": "j ≤ i"}


def path(match: re.Match[str], text: str, names: Names) -> Found | None:
    """Any two positions are one layer apart."""
    if NOT.search(text) or re.search(r"RNN|recurren|conv|循环|卷积", text, re.I):
        return None
    right = (match["inside"] or match["inside2"]).strip() == "1"
    return right, "note.wrong", {} if right else {"right": "O(1)"}


def unlike(wrong: str, **values: str) -> Judge:
    """``denied``, but a comparison with something else says nothing."""

    def judge(match: re.Match[str], text: str, names: Names) -> Found | None:
        if re.search(r"unlike|than\b|compared|contrast|不像|相比|不同于|与.*不同", text, re.I):
            return None
        return denied(wrong, **values)(match, text, names)

    return judge
