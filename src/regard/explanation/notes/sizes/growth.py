"""How one thing grows with another: k times the length is k² times the scores.

A sentence tells two factors, one of what is changed and one of what comes of it.  Which they are is
told by the words of its two parts; the power stands in a table.
"""

from __future__ import annotations

import re
from itertools import pairwise

from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.amounts import amounts
from regard.explanation.notes.words.facts import DENIED, NOT
from regard.explanation.numbers import written

Found = tuple[bool, str, dict[str, str]]

_N = r"(?:\d+(?:\.\d+)?|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen|twenty|a hundred|one hundred|a thousand|[二两三四五六七八九十百]+)"
TIMES = re.compile(
    rf"(?P<e>(?<![\d,])\d{{1,6}})(?: [A-Za-z-]+){{0,3}} (?:instead|in place) of (?P<g>\d[\d,]*)|\bfrom (?:\w+ )?(?P<a>\d[\d,]*)(?![\d.]*[BM]\b)\D{{0,12}} to (?P<b>\d[\d,]*)(?![\d.]*[BM]\b)|从\s*(?P<c>\d+)[^\d。，]{{0,8}}[到变增加至为成]+\s*(?P<d>\d+)"
    rf"|(?:by )?a factor of (?P<f>{_N})(?![\d/])|\b(?P<n>{_N})(?:[- ]?fold\b|[- ]times\b|x\b|×)(?! the number)|(?<![增多])(?<!增加)(?P<z>{_N})\s*倍"
    r"|(?P<two>\bdoubl\w+|\btwice\b|\btwo times|翻一?倍|翻一番|加倍|[长多大增高]加?一倍)|(?P<three>\btripl\w+|\bthrice\b)|(?P<four>\bquadrupl\w+)"
    r"|(?P<half>\bhalv\w+|\bhalf\b|减半|一半)|(?P<quarter>\bquarter\w*|四分之一)|(?P<ninth>九分之一|\ba ninth)|(?P<third>\ba third\b|三分之一)"
    r"|(?P<one>\bunchanged\b|\bstays? the same|\bremains? the same|\bdoes(?: not|n't) change|\bdo(?: not|n't) change|\bthe same\b|不变|没有变化|不会?改变)",
    re.I,
)
_WORDS = {
    "two": 2.0,
    "three": 3.0,
    "four": 4.0,
    "half": 0.5,
    "quarter": 0.25,
    "ninth": 1 / 9,
    "third": 1 / 3,
    "one": 1.0,
}

DRIVERS = {
    "groups": r"(?:KV|key[-/ ]?value) (?:heads|groups)|(?:KV|键值) ?头",
    "heads": r"number of (?:attention )?heads|\bheads\b|\bn(?:um)?_?heads?\b|\bh\b|头数|个?头",
    "layers": r"layers|层数|\bdeeper\b",
    "width": r"\bd(?:_?k|_?model|_?head)?\b|width|\bwide\b|\bwider\b|dimension|宽|维",
    "length": r"sequence|length|\blong|context|tokens|words\b|(?<!\^)\b[nT]\b|字数|inputs?\b|prompt|\brows\b|序列|长|上下文|词元|词数|输入",
}
"""What is changed."""
OUTCOMES = (
    ("deviation", r"deviation|\bstd\b|typical size|spread|标准差"),
    ("variance", r"variance|方差"),
    ("cache", r"KV|cache|缓存"),
    (
        "other",
        r"RNN|LSTM|recurr|conv|flash|window|sparse|linear attention|Mamba|feed|FFN|MLP|steps|循环|卷积|窗口|稀疏|前馈|步|path|路径|accuracy|quality|speed|速度|精度",
    ),
    ("parameters", r"parameter|\bweights of|参数"),
    ("projections", r"project|投影|(?<![A-Za-z])W_?[QKVO]\b"),
    ("embedding", r"embedding|嵌入"),
    ("width of a head", r"(?:each|per|every)[- ]head|head (?:width|dim|size)|每个?头"),
    (
        "matrix",
        r"score|attention (?:matri|weights|map)|weight matrix|matrix|pairs|entries|cells|memory|分数|注意力矩阵|权重矩阵|矩阵|显存|内存",
    ),
    (
        "cost",
        r"attention|cost|comput|FLOP|multiplications|\bwork\b|\btime\b|注意力|计算|代价|成本|运算|乘法|时间",
    ),
)
"""What comes of it, the narrowest first."""
POWERS = {
    ("length", "matrix"): 2.0, ("length", "cost"): 2.0, ("length", "cache"): 1.0, ("length", "projections"): 1.0,
    ("length", "parameters"): 0.0, ("width", "variance"): 1.0, ("width", "deviation"): 0.5, ("width", "projections"): 2.0,
    ("width", "parameters"): 2.0, ("width", "embedding"): 1.0, ("width", "cache"): 1.0, ("heads", "parameters"): 0.0,
    ("heads", "cost"): 0.0, ("heads", "width of a head"): -1.0, ("groups", "cache"): 1.0, ("layers", "cache"): 1.0, ("layers", "parameters"): 1.0,
}  # fmt: skip


def factor_of(match: re.Match[str]) -> float:
    """The number that a match of ``TIMES`` says."""
    for low, high in (("a", "b"), ("c", "d"), ("g", "e")):
        if match[low]:
            return float(match[high].replace(",", "")) / max(
                float(match[low].replace(",", "")), 1.0
            )
    for name, value in _WORDS.items():
        if match[name]:
            return value
    said = match["f"] or match["n"] or match["z"]
    found = next(amounts(said if said[0] not in "二两三四五六七八九十百" else f"{said}倍"), None)
    return found.value if found else 0.0


def _driver(text: str) -> str:
    found = [name for name, words in DRIVERS.items() if re.search(words, text, re.I)]
    if found[:1] in (["groups"], ["heads"]):
        return found[0]
    return found[0] if len(found) == 1 else ""


def _outcome(text: str) -> str:
    return next((name for name, words in OUTCOMES if re.search(words, text, re.I)), "")


def _several(found: list[re.Match[str]], text: str, names: Names) -> Found | None:
    """One thing that is changed, and what comes of it part by part."""
    first = found[0]
    driver = _driver(re.split(r"[,，;；]", text[: first.end() + 20])[0])
    if not driver or DENIED.search(text) or NOT.search(re.sub(TIMES, " ", text)):
        return None
    for before, last in pairwise(found):
        part = re.split(r"[,，;；]", text[before.end() : last.start()])[-1]
        power = POWERS.get((driver, _outcome(part)))
        said = factor_of(last)
        if power is not None and said and abs(said - factor_of(first) ** power) > 0.01 * said:
            return _grown(last, text, said, factor_of(first) ** power)
    return True, "note.right", {}


_SUPPOSED = re.compile(
    r"^we\b|\b(?:if|with|when|suppose|what|let)\b|[?？]|如果|假如|当|若|把|设", re.I
)


def remember(text: str, names: Names) -> None:
    """Keeps what a sentence supposes to be changed: "What if we double the context?"."""
    found = [*TIMES.finditer(text)]
    if not found or not _SUPPOSED.search(text[: found[0].end() + 40]):
        return
    first = found[0]
    near = re.split(r"[,，;；。]", text[first.end() :])[0]
    driver = _driver(f"{re.split(r'[,，;；。]', text[: first.start()])[-1]} {near}")
    if driver and not first["one"]:
        names.driven = (driver, factor_of(first), 2)


def _share(match: re.Match[str], text: str) -> bool:
    """Whether a part of a whole is told, not how something has changed: "about half of it"."""
    if re.search(r"[一三四九]", match[0]):
        return not re.search(r"(?:原来的?|[到为成])\s*$", text[: match.start()])
    part = re.fullmatch(r"half|(?:a )?(?:quarter|third|ninth)", match[0], re.I)
    after = text[match.end() :]
    return part is not None and not re.match(r" (?:as|the|of (?:what|its))", after)


def _driven(match: re.Match[str], text: str, names: Names) -> Found | None:
    """One factor, of what was supposed in the sentence before."""
    driver, times, left = names.driven
    names.driven = (driver, times, left - 1) if left > 1 else ()
    if re.match(r" ?(?:fewer|less|smaller|少)", text[match.end() :]):
        return None
    if (
        match["one"]
        or _share(match, text)
        or NOT.search(re.sub(TIMES, " ", text))
        or DENIED.search(text)
        or _driver(text)
    ):
        return None
    outcome = _outcome(re.sub(r"\b(?:also|too)\b|也", "", text[: match.start()]))
    power = POWERS.get((driver, outcome))
    said = factor_of(match)
    if power is None or not said or times == 1:
        return None
    right = times**power
    if abs(said - right) < 0.01 * right:
        return True, "note.right", {}
    return _grown(match, text, said, right)


def _grown(match: re.Match[str], text: str, said: float, right: float) -> Found:
    """The right factor, in the words of the claim, and what it comes to where that was told."""
    told = re.match(r"\D{0,8}(?:to|约|即|为|是)\s*(\d[\d,]*(?:\.\d+)?)", text[match.end() :])
    value = f" → {written(float(told[1].replace(',', '')) / said * right)}" if told else ""
    return False, "note.growth", {"right": f"{written(right)}{' 倍' * ('倍' in match[0])}{value}"}


def growing(match: re.Match[str], text: str, names: Names) -> Found | None:
    """Of two factors in a sentence, the outcome's against the power of what is changed."""
    found = list(TIMES.finditer(text))
    if len(found) == 1 and names.driven:
        return _driven(found[0], text, names)
    if len(found) < 2 or re.search(
        r"\bthan\b|\bGQA|\bMQA|\bper\b|与.{1,12}相比|\bsparse\b|稀疏", text, re.I
    ):
        return None
    if len(found) > 2:
        return _several(found, text, names)
    first, last = found
    between = text[first.end() : last.start()]
    cut = re.search(
        r",? \b(?:when|if|as(?! (?:large|much|many|big|long|wide|high)\b)|whenever|once|then|while)\b|[,，;；]",
        between,
    )
    place = first.end() + (cut.start() if cut else len(between))
    one, other = text[:place], text[place:]
    backwards = bool(cut and re.match(r",? \b(?:when|if|as|whenever|once)\b", cut[0]))
    if backwards:
        one, other, first, last = other, one, last, first
    driver, outcome = _driver(one), _outcome(other)
    if not driver and names.recent and re.search(r"\b(?:them|it|this|that|these)\b|它", one):
        driver = _driver(names.recent[-1])
    if not outcome:
        outcome = _outcome(re.sub(DRIVERS.get(driver, r"(?!)"), " ", one, flags=re.I))
        if not outcome and re.search(r"\b(?:it|they)\b|它", other) and names.recent:
            outcome = _outcome(names.recent[-1])
    power = POWERS.get((driver, outcome))
    if power is None:
        return None
    if DENIED.search(text) or NOT.search(re.sub(TIMES, " ", text)):
        return None
    said, right = factor_of(last), factor_of(first) ** power
    if not said or not right or factor_of(first) == 1:
        return None
    near = text[max(0, last.start() - 30) : last.end() + 12]
    less = re.search(r"smaller|less|fewer|shrink|reduc|缩小|减少|降", near)
    if less and said > 1 and right < 1:
        right = 1 / right
    if abs(said - right) < 0.01 * right:
        return True, "note.right", {}
    return _grown(last, text, said, right)
