"""What is so: the judges of claims in words that hold numbers, by the definition or an experiment.

A judge takes what a pattern has matched, its sentence and the names known, and returns whether
the claim is right, the catalogue's name of what is said of it, and the values that fill it; None
where the sentence says nothing after all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import numpy as np

from regard.core import formula
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.words.facts import DENIED, NOT
from regard.explanation.numbers import written

Found = tuple[bool, str, dict[str, str]]
Judge = Callable[[re.Match[str], str, Names], Found | None]

WORDS = {
    "doubl": 2, "twice": 2, "two": 2, "tripl": 3, "three": 3, "quadrupl": 4, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16, "halv": 0.5, "half": 0.5,
    "翻倍": 2, "加倍": 2, "增加一倍": 2, "翻一番": 2, "减半": 0.5, "一": 1, "两": 2, "二": 2, "三": 3, "四": 4, "五": 5, "六": 6, "八": 8, "九": 9, "十六": 16, "十": 10,
}  # fmt: skip
FACTOR = re.compile(
    r"\bfrom (?:\w+ )?\d+ to \d+\b|从\s*\d+[^\d。，]{0,6}到\s*\d+"
    r"|\b(?:doubl|tripl|quadrupl|halv)\w*|\bfactor of \d+|\btwice\b|\bhalf (?:as|the)\b"
    r"|\b(?:\d+(?:\.\d+)?|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen)(?:[- ]?fold| times|x\b| \* (?=as|more|the|that))"
    r"|增加一倍|翻倍|翻一番|加倍|减半|(?:\d+(?:\.\d+)?|十六|[两二三四五六八九十])\s*倍",
    re.I,
)
LENGTH = r"sequence|number of rows|行数|length|\blong|context|tokens|\bn\b|input|序列|长度|上下文|词元|词数|\bX\b"


def factor(text: str) -> float:
    """The number that a match of ``FACTOR`` says."""
    if between := re.search(r"(\d+)\D+(\d+)$", text):
        return float(between[2]) / max(float(between[1]), 1.0)
    digits = re.match(r"\d+(?:\.\d+)?", text.lower().removeprefix("factor of "))
    if digits:
        return float(digits[0])
    known = sorted(WORDS, key=len, reverse=True)  # sixteen before six
    return next(float(WORDS[word]) for word in known if text.lower().startswith(word))


def growth(match: re.Match[str], text: str, names: Names) -> Found | None:
    """Of k times the length: k² times the weights, k times the projections; X Xᵀ X grows as k³."""
    start = max(text.rfind(end, 0, match.start()) for end in ";；") + 1
    text = re.split("[;；]", text[start:])[0]
    factors = list(FACTOR.finditer(text))
    if len(factors) < 2 or re.search(r"\bheads?\b|头|\bspeed\b|速度|sparse|稀疏", text, re.I):
        return None
    if re.search("[;；]", text[factors[0].end() : factors[-1].start()]):
        return None  # each half tells its own two
    first, last = factors[0], factors[-1]
    near = text[max(0, first.start() - 24) : first.end() + 24]
    between = text[first.end() :]
    spoken = near if not re.search(r"\b(?:it|them)\b|它", near) else near + " ".join(names.recent)
    if not re.search(LENGTH, spoken, re.I) and not re.match(r"from|从", first[0], re.I):
        return None
    if re.search(r"width|d_model|dimension|宽|维", near, re.I):
        return None
    cubic = re.search(r"X\s*\*?\s*X\^T\s*\*?\s*X\b", text)
    if cubic:
        power = _degree()
    elif re.search(
        r"project|投影|feed-?forward|前馈|FFN|KV|cache|缓存|flash|linear|线性|RNN|循环", text, re.I
    ):
        power = 1
    elif re.search(
        r"attention|scores?|weight|matrix|cost|memory|comput|注意力|分数|权重|矩阵|计算|代价|显存|内存",
        between + spoken,
        re.I,
    ):
        power = 2
    else:
        return None
    a, b = factor(first[0]), factor(last[0])
    right = a**power
    if abs(b - right) < 1e-9:
        return True, "note.right", {}
    if NOT.search(text) or power == 1:
        return None
    return False, "note.growth", {"right": written(right)}


def _degree() -> int:
    """By which power X Xᵀ X grows when X is doubled, measured."""
    x = np.random.default_rng(0).standard_normal((1, 3, 2))
    once, twice = (formula.mix(formula.products(a, a), a) for a in (x, 2 * x))
    return round(float(np.log2(np.abs(twice / once).mean())))


def always(match: re.Match[str], text: str, names: Names) -> Found | None:
    """A claim that is right as it stands."""
    return None if NOT.search(text) else (True, "note.right", {})


def linear(match: re.Match[str], text: str, names: Names) -> Found | None:
    """In V attention is linear, given the weights; in X it is not, with or without softmax."""
    if re.search(
        r"(?:people|many|some) (?:say|think|claim|believe)\b.*\bbut\b|有人.*但", text, re.I
    ):
        return None
    part = re.split(r"[,，;；]", text[match.start() :])[0]
    negated = NOT.search(f"{text[: match.start()]} {part}") is not None
    denied = negated or DENIED.search(text) is not None or bool(
        re.search(
            r"cubic|quadratic|bilinear|is non-?linear|三次|二次|双线性|是非线性", part, re.I
        )
    )  # fmt: skip
    in_values = re.search(
        r"in (?:the )?(?:V\b|values?)|(?:对|关于)\s*(?:V|值)|given the weights|权重固定|给定权重|W_?[QKVO](?!.*\bin X)",
        text,
    )
    if in_values:
        return None if denied else (True, "note.right", {})
    if re.search(
        r"linear attention|线性注意力|序列长度|piecewise|linear (?:layer|projection|transformation|map|combination|algebra)|线性(?:层|投影|变换|组合|代数|映射)|linear (?:time|in (?:the )?(?:length|sequence|n\b))|线性(?:时间|复杂度|增长)|complexity|cost|\btime\b|memory|tokens|复杂度|代价|时间|显存|长度",
        text,
        re.I,
    ):
        return None
    factors = len(re.findall(r"X", re.split(r"linear|线性", text)[0])) if "W" in text else 3
    if factors == 2:
        return denied, "note.wrong", {"right": "X W_Q W_Kᵀ Xᵀ: 2"}
    return denied, "note.linear", {"right": str(_degree())}


def heads(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The width of one head: what was said last of the whole width, over the number of heads."""
    counts = list(
        re.finditer(r"(\d+)\s*(?:attention |query )?(?:heads\b|个?头)|\bh\s*=\s*(\d+)", text, re.I)
    )
    widths = list(
        re.finditer(
            r"(?:\bwidth|\bd(?:_?model)?\b|embed_dim|hidden_size|n_embd|dimension\w*|宽度?|维度)\s*(?:=|of|is|为|是)?\s*(\d+)|(\d+)[- ](?:wide|dimensional|dim\b)|(\d+)\s*(?:维|dimensions)(?=[^，。,.]{0,12}(?:[分拆切]|split|divided))",
            text, re.I,
        )
    )  # fmt: skip
    said = next(i for i, group in enumerate(match.groups(), 1) if group)
    widths = [each for each in widths if not each.start() <= match.start(said) < each.end()]
    names.whole = widths[-1] if widths else names.whole
    widths = widths or ([names.whole] if names.whole else [])
    before = [
        [m for m in each if m.string is not text or m.end() <= match.start()] or each[:1]
        for each in (counts, widths)
    ]
    if re.match(r"\s*(?:倍|times)", text[match.end() :]):
        return None
    if not all(before) or re.search(r"GQA|MQA|KV|键值", text):
        return None
    h, d = (float(next(filter(None, each[-1].groups()))) for each in before)
    if not h or d < h:
        return None
    right = d / h
    return (
        abs(right - float(next(filter(None, match.groups())))) < 1e-9,
        "note.wrong",
        {"right": written(right)},
    )


def equal_at(match: re.Match[str], text: str, names: Names) -> Found | None:
    """4nd² = 2n²d at n = 2d: of both, and of nothing else that a note compares."""
    if not re.search(
        r"cost|multipl|FLOP|projection|4nd|代价|计算量|乘法|投影|相等",
        " ".join([*names.recent[-1:], text]),
        re.I,
    ):
        return None
    whole = " ".join([*names.recent[-1:], text])
    if re.search(r"n\s*/\s*d\s*=\s*\d", " ".join(names.recent)):
        return None
    solved = re.search(
        r"(\d*)n\^2\s*\*?\s*d\s*=\s*(\d+)nd\^2|(\d+)nd\^2\s*=\s*(\d*)n\^2\s*\*?\s*d", whole
    )
    if re.search(r"FFN|feed|前馈", whole) or (solved and _coefficients(solved) != 2):
        return None
    said = match["factor"].replace(" ", "").replace("*", "")
    if not said.isdigit():
        right = said in ("2d", "2d_model")
        return right, "note.equal-at", {} if right else {"right": "n = 2d"}
    width = re.search(r"\bd(?:_model)?\s*=\s*(\d+)", text)
    if not width:
        return None
    if said == width[1] and str(int(said) ** 3) in text.replace(",", ""):
        return None  # n²d and nd², which are so many at n = d
    n = 2 * int(width[1])
    return int(said) == n, "note.equal-at", {} if int(said) == n else {"right": f"n = 2d = {n:,}"}


def _coefficients(solved: re.Match[str]) -> float:
    """How many d are n where the two sides are equal."""
    square, line = (solved[1], solved[2]) if solved[2] else (solved[4], solved[3])
    return float(line) / float(square or 1)


def score_shape(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The weights of n tokens are n × n; of t queries over s keys they are t × s."""
    found = re.finditer(
        r"([^,，、]*?)(\d+)\s*((?:\w+ )?(?:tokens|words|vectors|quer(?:ies|y)|keys|positions|个))",
        text[: match.start("a")],
    )
    counts = [
        (each[2], each[1][-16:] + each[3] + re.split(r"[,，、\d]", text[each.end() :])[0][:12])
        for each in found
    ]
    if not 1 <= len(counts) <= 2:
        return None
    t = s = counts[0][0]
    if len(counts) == 2:
        asks = [
            bool(re.search(r"decoder|quer|target|output|解码器|查询|目标", label, re.I))
            for _, label in counts
        ]
        if asks[0] == asks[1]:
            return None
        t, s = (counts[0][0], counts[1][0]) if asks[0] else (counts[1][0], counts[0][0])
    right = (match["a"], match["b"]) == (t, s)
    return right, "note.wrong", {} if right else {"right": f"{t} × {s}"}


def shared(match: re.Match[str], text: str, names: Names) -> Found | None:
    """H query heads over G key heads: H / G of them share one, and the cache is as much smaller."""
    queries = re.search(
        r"(?<!every )(?<!each )(?<!每)(?<!每 )(?<!per )\b(\d+)\s*(?:query[- ]heads|quer(?:y|ies)|个?\s*(?:查询|query) ?头|个?头|heads)",
        text,
        re.I,
    )
    keys = re.search(
        r"(\d+)\s*(?:key(?:[-/ ](?:and )?value)?|KV)[- ]?(?:head|group)s?|(?:into|成|为)\s*(\d+)\s*(?:groups|组)|(\d+)\s*个?\s*(?:键值|KV|键)\s*头",
        text,
        re.I,
    )
    one = re.search(r"multi-?query|MQA|一个键|one key", text, re.I)
    if not queries or not (keys or one) or NOT.search(text):
        return None
    g = float(next(filter(None, keys.groups())) if keys else 1)
    said = float(next(group for group in match.groups() if group))
    if not g:
        return None
    ratio = float(queries[1]) / g
    return abs(said - ratio) < 1e-9, "note.wrong", {"right": written(ratio)}


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
    if re.search(r"not the only|isn't the only|不是唯一|并非唯一|不止|不只", text, re.I):
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


def direction(match: re.Match[str], text: str, names: Names) -> Found | None:
    """What rises from a to b ends higher."""
    words = text[max(0, match.start() - 24) : match.end() + 4]
    up = (
        re.search(r"\b(?:ris|rose|increas|grow|grew|climb)|\bup\b|升|增|提高|变大", words)
        is not None
    )
    down = (
        re.search(r"\b(?:fall|fell|drop|decreas|shrink|sink|sank)|\bdown\b|降|减|变小", words)
        is not None
    )
    a, b = float(match["a"]), float(match["b"])
    if up == down or a == b or NOT.search(words):
        return None
    right = (b > a) == up
    return (
        right,
        "note.wrong",
        {} if right else {"right": f"{match['b']} {'<' if b < a else '>'} {match['a']}"},
    )


def letters(match: re.Match[str], text: str, names: Names) -> Found | None:
    """The weights' shape in letters: a query by a key, never by the width."""
    if NOT.search(text):
        return None
    right = not match["b"].startswith("d")
    return right, "note.wrong", {} if right else {"right": f"{match['a']} × {match['a']}"}


_AT = re.compile(r"\bp(?:_?i)?\s*=\s*\[?\s*(?P<p>0?\.\d+)(?:\s*,\s*0?\.\d+\s*\])?")
_DECIMAL = re.compile(r"(?<![\w.])0?\.\d+(?![\w.]*\s*\*)")


def slope(text: str, names: Names) -> Iterator[Found]:
    """The derivative of softmax, p(1 − p), at the p that a part of a sentence names."""
    told = re.compile(r"p(?:_?i)?\s*\*?\s*\(\s*1\s*-\s*p(?:_?i)?\s*\)")
    if not told.search(" ".join([*names.recent, text])) or NOT.search(text):
        return
    for part in re.split(r"[。;；]|[,，](?=[^,，]*\bp(?:_?i)?\s*=)(?![^,，]*$)", text):
        at, others = [*_AT.finditer(part)], _DECIMAL.findall(_AT.sub(" ", part))
        if (
            len(at) != 1
            or len(others) != 1
            or not re.search(r"deriv|slope|gradient|p\)|导数|梯度", part)
        ):
            continue
        p, said = float(at[0]["p"]), float(others[0])
        if said != 1 - p or p == 0.5:
            yield _number(p * (1 - p), others[0])


_SHARES = (
    (r"two[- ]thirds|三分之二|2/3", 2 / 3), (r"(?:one|a)[- ]third|三分之一|1/3", 1 / 3), (r"\bhalf as|一半", 0.5),
    (r"\btwice|two times|double|[两2] ?倍", 2.0), (r"three times|[三3] ?倍", 3.0), (r"four times|[四4] ?倍", 4.0),
)  # fmt: skip
_FFN = re.compile(r"\bFFN\b|feed-?forward|\bMLP\b|前馈\w*", re.I)
_HEADS = re.compile(r"attention|注意力", re.I)


def share(text: str) -> Iterator[Found]:
    """An FFN of four times the width has twice the weights of the attention: two thirds of a layer."""
    ffn, attention = _FFN.search(text), _HEADS.search(text)
    said = next((value for words, value in _SHARES if re.search(words, text, re.I)), None)
    weights = re.search(r"weights|param|参数|权重", text)
    if (
        said is None
        or not weights
        or NOT.search(text)
        or re.search(r"SwiGLU|gated|\bif\b|如果|cost|FLOP|计算", text)
    ):
        return
    if said < 1 and said != 0.5 and bool(ffn) != bool(attention):  # of a layer
        right, shown = (2 / 3, "2/3") if ffn else (1 / 3, "1/3")
    elif ffn and attention and re.search(r"\bas (?:many|much)|倍|一半", text):
        right, shown = (
            (2.0, "twice (8d² : 4d²)")
            if ffn.start() < attention.start()
            else (0.5, "half (4d² : 8d²)")
        )
    else:
        return
    yield (True, "note.right", {}) if said == right else (False, "note.wrong", {"right": shown})
