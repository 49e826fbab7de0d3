"""How one thing goes with another: by which order it grows, and whether it rises or falls.

A part of a sentence names an outcome and what drives it; a table says how the one follows the
other, and every other order or direction is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.explanation.notes.words.concepts import names, places
from regard.explanation.notes.words.facts import DENIED, NOT, UNLIKE

Found = tuple[bool, str, dict[str, str]]

ORDERS = (
    ("flash+memory", "length", "linearly"), ("flash+cost", "length", "quadratically"), ("cache", "length", "linearly"),
    ("window", "length", "linearly"), ("linear attention", "length", "linearly"), ("rnn", "length", "linearly"),
    ("network+cost", "length", "linearly"), ("projections+cost", "length", "linearly"), ("parameters+attention", "length", "constant"),
    ("parameters+head", "head count", "constant"), ("deviation+scores", "width", "as the root"), ("variance+scores", "width", "linearly"),
    ("alibi", "distance", "linearly"), ("matrix", "length", "quadratically"), ("attention+memory", "length", "quadratically"),
    ("attention+cost", "length", "quadratically"),
)  # fmt: skip
"""Outcome, what drives it, and the order; the narrowest outcome first."""
_KINDS = (
    "as the root",
    "cubically",
    "quadratically",
    "logarithmic",
    "exponentially",
    "linearly",
    "constant",
)
"""The orders, those first whose words hold those of others: the square root is no square."""
_SHOWN = {
    "constant": ("constant", "与之无关"), "linearly": ("linearly", "线性增长"), "quadratically": ("quadratically (n²)", "平方增长"),
    "as the root": ("as the square root: √d", "按平方根：√d"),
}  # fmt: skip
_PARTS = re.compile(r"[,，;；。:：(（)）]|\bso\b|\bbecause\b|\bsince\b|\bbut\b|所以|因为|因此|而")
_OTHER_SENSE = re.compile(
    r"linear[- ](?:layer|projection|transformation|map|combination|algebra|regression|function|warm|schedule)\w*|线性(?:层|变换|投影|映射|组合|代数|函数|回归)",
    re.I,
)

SIGNS = (
    ("temperature", "sharp", -1), ("temperature", "flat", 1), ("large input", "sharp", 1), ("large input", "flat", -1),
    ("large input", "gradient", -1), ("many heads", "head size", -1), ("wide", "score size", 1), ("high dimension", "frequency", -1),
    ("high dimension", "wavelength", 1), ("kv heads", "cache", 1),
)  # fmt: skip
"""What drives, what comes of it, and whether it rises (1) or falls (−1) with it."""
_THINGS = {
    "temperature": r"temperatures?|[高低]温|温度|tau\b", "large input": r"(?:softmax )?(?:inputs?|scores?|logits?|dot products?)|(?:输入|分数|点积|数值|内积)",
    "many heads": r"(?:number of )?heads(?! are| is)|头数?", "wide": r"\bd_?k\b|dimension\w*|维度|维数", "high dimension": r"dimensions?(?: index| indices)?|维度?",
    "kv heads": r"(?:KV|key[-/ ]value) (?:heads|groups)|(?:KV|键值)头数?",
    "sharp": r"sharp\w*|peak\w*|concentrat\w*|one-hot|spik\w*|greedy|determinis\w*|confiden\w*|argmax|hard max|尖锐?|集中|独热|确定(?:性|的)|更确定|越确定|贪心|自信", "flat": r"flat\w*|uniform\w*|smooth\w*|random\w*|divers\w*|diffuse|even(?:ly)?|spread out|soft(?!max)\w*|随机|多样|分散|平均(?!值)|均匀|平缓|平坦|平滑",
    "gradient": r"softmax(?:'s)? gradients?|gradients? of (?:the )?softmax|softmax ?的梯度", "head size": r"(?:each|every) head\b[^,，.]{0,20}(?:dimension\w*|width|size|dim)|(?:dimension\w*|width|size) of (?:each|every|a) head|head dim\w*|每个头的?(?:维度|维数|宽度)",
    "score size": r"(?:dot products?|scores?|variance|magnitude)|(?:点积|分数|方差)", "frequency": r"frequenc\w*|oscillat\w*|频率", "wavelength": r"wavelengths?|波长|周期",
    "cache": r"cache|缓存",
}  # fmt: skip
_UP = r"(?:(?:to|towards?|→|->|approach\w*)\s*inf\w*|趋[于近向]?\s*(?:inf|无穷)\w*|无穷大|高(?=温)|(?:above|over|>|greater than|大于|高于) 1|turn\w* up|higher|larger|greater|bigger|more|big|large|high|longer|faster|rais\w+|increas\w+|grow\w*|ris\w+|widen\w*|explod\w*|越[高大多长快]|[更很过太较]?(?<!最)[高大多长快](?![小个])|升高|增[大加]|变[大高长多快]|提高)"
_DOWN = r"(?:(?:to|towards?|→|->|approach\w*|near|close to)\s*(?:0|zero)|趋[于近向]?\s*(?:0|零)|接近\s*0|低(?=温)|(?:below|<|less than|小于|低于) 1|cold|lower\w*|smaller|less|fewer|small|low|shorter|slower|decreas\w+|reduc\w+|shrink\w*|vanish\w*|tiny|越[低小少短慢]|[更很过太较]?(?<!大)[低小少短慢]|降低|减[小少]|变[小低短少慢]|消失)"
_DIRECTION = re.compile(
    rf"(?P<up>(?<![A-Za-z]){_UP}(?![A-Za-z]))|(?P<down>(?<![A-Za-z]){_DOWN}(?![A-Za-z]))", re.I
)


_FIXED = re.compile(r"不变|固定|无关|unchanged|fixed")
_DEGREE = re.compile(
    r"(?<![\w])(?P<product>\(*X(?:\s*(?:\^\(?T\)?|X|W_?[QKV]?|[*()]))+)(?P<between>[^.。,，;；]{0,16}?)(?P<degree>linear|quadratic|cubic|线性|二次|三次)",
    re.I,
)
_DEGREES = {"linear": 1, "线性": 1, "quadratic": 2, "二次": 2, "cubic": 3, "三次": 3}


def check_degree(clause: str) -> Iterator[Found]:
    """The degree of a product in X: as many times as X stands in it."""
    clause = re.sub(
        r"without (?:the |a )?softmax|(?:去掉|没有|不用) ?softmax", "", clause, flags=re.I
    )
    for match in _DEGREE.finditer(clause):
        if (
            NOT.search(clause)
            or DENIED.search(clause)
            or re.search(
                r"(?<!without the )(?<!without )softmax(?! 时)|\bin [VWKQ]|对 ?[VWKQ]", clause
            )
        ):
            continue
        right = match["product"].count("X")
        if _DEGREES[match["degree"].lower()] == right:
            yield True, "note.right", {}
        elif right in (2, 3):
            chinese = match["degree"] in ("线性", "二次", "三次")
            shown = {2: ("quadratic", "二次"), 3: ("cubic", "三次")}[right][chinese]
            yield False, "note.so", {"right": f"{right}: {shown}"}


def check_orders(clause: str, context: str) -> Iterator[Found]:
    """By which order an outcome grows, part by part."""
    if names("supposed", clause) or UNLIKE.search(clause) or NOT.search(_FIXED.sub("", clause)):
        return
    for part in _PARTS.split(_OTHER_SENSE.sub(" ", clause)):
        if not names("grows", part) or (
            re.search(r"[nd]\s*\^|O\(", part) and not names("as the root", part)
        ):
            continue
        said = next((kind for kind in _KINDS if names(kind, part)), None)
        if said is None or (
            said == "quadratically" and names("linearly", re.sub("正比|proportional", "", part))
        ):
            continue
        for outcome, driver, right in ORDERS:
            if not names(outcome, part):
                continue
            others = [
                other
                for other in ("length", "width", "head count", "distance")
                if other != driver and _drives(other, part)
            ]
            if _drives(driver, part) and not others:
                chinese = re.search(r"[一-鿿]", part) is not None
                yield (
                    (True, "note.right", {})
                    if said == right
                    else (False, "note.so", {"right": _SHOWN[right][chinese]})
                )
            break


def _drives(driver: str, part: str) -> bool:
    """Whether the part says with, in, as the driver."""
    return any(
        re.search(
            r"(?:\b(?:with|in|to|of|on|as)(?: the)?|[与随和跟按对的是])\s*(?:the |its )?$",
            part[:start],
        )
        or re.match(r"\s*(?:的?(?:平方|线性|立方)|grows|increases|增[长大加])", part[end:])
        for start, end in places(driver, part)
    )


def check_signs(clause: str) -> Iterator[Found]:
    """Whether an outcome rises or falls with what drives it."""
    if DENIED.search(clause) or NOT.search(_FIXED.sub("", clause)):
        return
    both = all(re.search(_THINGS[each], clause, re.I) for each in ("sharp", "flat"))
    for driver, outcome, sign in SIGNS:
        if both and outcome in ("sharp", "flat"):
            continue
        found = re.search(rf"(?<![A-Za-z])(?:{_THINGS[driver]})", clause, re.I)
        after = re.compile(rf"(?<![A-Za-z])(?:{_THINGS[outcome]})", re.I)
        come = after.search(clause, found.end()) if found else None
        if not found or not come:
            continue
        directions = [*_DIRECTION.finditer(clause)]
        if outcome in ("sharp", "flat"):  # more peaked, less peaked
            degree = re.search(r"(?:\b(more|less)\s|越|更)$", clause[: come.start()], re.I)
            last = -1 if degree and degree[1] == "less" else 1
            if degree:
                directions = [each for each in directions if each.end() < come.start() - 1]
        else:
            last = _rises(directions.pop()) if len(directions) == 2 else 0
        alone = driver == "temperature" and len(directions) == 1
        if (
            len(directions) != 1
            or not last
            or not _near(directions[0], found, clause, 40 if alone else 14)
        ):
            continue
        up = _rises(directions[0])
        if up * last == sign:
            yield True, "note.right", {}
        else:
            chinese = re.search(r"[一-鿿]", clause) is not None
            yield False, "note.so", {"right": _tendency(outcome, up * sign, chinese)}


def _rises(direction: re.Match[str]) -> int:
    return 1 if direction["up"] else -1


def _near(direction: re.Match[str], thing: re.Match[str], clause: str, most: int) -> bool:
    """Whether the direction is that of the thing: "larger scores", "the scores grow"."""
    first, last = sorted([direction.span(), thing.span()])
    between = clause[first[1] : last[0]]
    return len(between) <= most and not re.search(r"[,，;；]", between)


def _tendency(outcome: str, sign: int, chinese: bool) -> str:
    """An outcome with its direction, in words."""
    if outcome not in ("sharp", "flat"):
        return (("变大", "变小") if chinese else ("larger", "smaller"))[sign < 0]
    if (outcome == "sharp") == (sign > 0):
        return f"{'更尖锐' if chinese else 'sharper, more peaked'} (τ → 0: max a = 1)"
    return f"{'更平缓' if chinese else 'flatter, more uniform'} (τ → ∞: a = 1/n)"
