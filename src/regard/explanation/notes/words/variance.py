"""Variances and deviations of random numbers: of components, terms, dot products, sums and means.

A note tells the variance of the components, the width, and what the dot products are divided by.
From these every other variance and deviation follows that it goes on to speak of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.parsing import NotUnderstood, Parser
from regard.explanation.notes.words.facts import DENIED, NOT
from regard.explanation.notes.words.moments import in_words
from regard.explanation.numbers import written

Found = tuple[bool, str, dict[str, str]]

_SUBJECTS = (
    ("mean", r"\b(?:mean|average)(?= of (?:the |these |those |all )?(?:n|\d+|many|independent|values) |,? (?:has|have) )|求平均|取平均|均值(?=的(?:方差|标准差)|[，,])"),
    ("term", r"\b(?:each|every|one|single|individual) (?:of (?:the|these) )?(?:products?|terms?|summands?)\b|\bterms(?= (?:of|with|having) (?:a )?variance)|\bq_?i\s*\*?\s*k_?i\b|每一?[项个](?!分量|数|元素|变量|方差为)(?:乘积)?|每个乘积|各项|乘积项"),
    ("part", r"\bq\s*(?:and|和|与|、|,)\s*k(?= have|\s*的(?:方差|标准差))|\bq_?i\s*(?:and|和|与|、|,)\s*k_?i\b|\b(?:components?|entries|coordinates?|elements|numbers|variables?)\b(?: of (?:both |the )?(?:vectors )?q and k\b)?|分量|元素|每一?维|个数(?!量)|变量"),
    ("dot", r"dot[- ]products?|inner products?|\bq\s*\*\s*k\b|\bq\^T\s*k\b|\b(?:scores?|logits?)\b|QK\^?T|Q K\^T|点积|内积|分数|得分"),
    ("sum", r"\bsum\b|之和|总和|求和"),
    ("q", r"(?<![*/(])(?<![*/(] )\bq(?= (?:has|have|is|are)\b|\s*的(?:方差|标准差))"),
    ("k", r"(?<![*/(])(?<![*/(] )\bk(?= (?:has|have|is|are)\b|\s*的(?:方差|标准差))"),
    ("other", r"\b(?:outputs?|weights?|residuals?|stream|sub-?layers?|layers?|gradients?|activations?|\w*norm|noise|posterior|prior|loss|batch|estimat\w+|embeddings?|rows?|inputs?|encodings?)\b|(?-i:\bW)|权重|输出|残差|梯度|激活|层|噪声|样本|输入|嵌入"),
)  # fmt: skip
"""What a variance may be of."""
_SUBJECT = re.compile("|".join(f"(?P<{kind}>{words})" for kind, words in _SUBJECTS), re.I)
_WHOLE = ("mean", "sum", "dot")
_MENTION = re.compile(
    r"(?P<what>variances?|standard deviations?|\bstd(?:dev|s)?\b|\bdeviations?\b|方差|标准差)"
    r"(?:\s+(?:of\s+)?(?:about |roughly |around )?(?=sqrt|d_|d\b|\d)|\s*(?:约|大约)?\s*[(（]?(?=\(?\d)"
    r"|(?:(?!standard deviation|(?<!of )variance|标准差|(?<!项)方差)[^.。;；:：]){0,70}?(?:\bis|\bare|\bwas|\bbe|becomes?|stays?(?: at)?|remains?|\bat|(?:back|down|up|falls|drops|grows) to|equals?|[=:：]|of about|为|是|等于|约为|变成|变为|变回|只?剩|只有|降到|拉?回到?)\s*(?:about |roughly |around |only |just |still |again |约|大约|仍|还)*(?:a |the )?)\s*(?P<amount>(?:sqrt|d(?:_\w+)?\b|\(?\d|one\b|unity\b)(?:(?! and | with |varian|deviat|标准差|方差)[^,，。;；、])*)",
    re.I,
)
_WIDTH = re.compile(
    r"(?<!/ )(?<!/)\bd(?:_?k|_?q|_?head|_?model)?\s*=\s*(\d+)|(\d+)\s*-?\s*(?:dimension\w*|wide\b|dim\b|dims\b|d\b|维)"
    r"|(?:width|dimension|维度|宽度|维数)\s*(?:of|is|为|是|=)?\s*(\d+)"
    r"|(\d+)\s*(?:(?:such|independent|random) )*(?:terms|numbers|components|products|variables|项|个(?=分量|独立|数|变量|方差|随机))"
)
_DIVIDED = re.compile(
    r"(?:divid\w*|scal\w*|division)[^.。,，=]{0,20}? (?:by|with) (?P<by>[^.。,，;]+?)(?=\s+(?:the|gives|makes|keeps|it|its|we|would|leaves|brings|and|then|to|so|instead|rather|itself)\b|[.。,，;:]|$)"
    r"|(?:\bus\w+|用)\s*(?P<used>d_?k?)\s*(?=instead of|rather than|而不是|而非)"
    r"|(?:除以(?:的是)?|乘以(?=\s*1/))\s*(?P<zh>[^。，,;；是因方标]+?)\s*(?=[之以]?后|而不是|而非|时|，|,|。|$|得|就|则|可|能|会|使|让|的话)",
    re.I,
)
_SCALED = re.compile(
    r"after (?:the )?(?:dividing|scaling|division)\b(?! by)|\bscaled|缩放[之以]?后", re.I
)
_UNSCALED = re.compile(
    r"without (?:the )?(?:scal|divi)\w*|不(?:做|加|用)?(?:缩放|除以)|没有(?:做)?(?:缩放|除以)", re.I
)
"""A condition, and no denial."""
_STANDARD = re.compile(r"standard normal|unit variance|N\(0, ?1\)|randn|标准正态|单位方差", re.I)
_CORRECTED = re.compile(r"(?:\bit is|\bit's|应为|应是|而是|实际上?是)\s*([^,，.。;；]+)")
_FURTHER = re.compile(r"\b(?:again|another|further|once more)\b|[再又]")
_UNTOLD = re.compile(r"(?:varianc\w+|deviations?|方差|标准差)[^.。;；,，\d]{0,16}(?:sigma|\bs\^2)")
"""A variance that is a letter."""
_VECTORS = re.compile(r"vectors?\b|components?|entries|dot product|向量|分量|点积")
_NORMED = re.compile(r"\bnorm\b|(?:layer|batch|rms) ?norm|normali[sz]|归一化", re.I)
SYMBOLIC = 64.0
"""The width that stands for d where a claim gives it no number."""


@dataclass(frozen=True)
class Scene:
    """The random numbers that a note speaks of; None is a variance that no number was told of."""

    heading: str = ""
    q: float | None = 1.0
    k: float | None = 1.0
    term: float | None = None
    """The variance of one term, where it was told itself."""
    widths: tuple[float, ...] = ()
    """Those that were told, the last one first."""
    now: float = 0.0
    """The variance of the dot products, after what was done to them."""
    by: str = ""
    """What they were divided by last."""
    last: str = ""
    """What was spoken of last: a variance or a deviation."""
    left: int = 0
    """For how many more sentences "the variance" is theirs."""

    @property
    def each(self) -> float | None:
        """The variance of one term of the dot product."""
        if self.term is not None or self.q is None or self.k is None:
            return self.term
        return self.q * self.k


@dataclass(frozen=True)
class Mention:
    """A variance or a deviation that is given an amount."""

    deviation: bool
    subject: str
    start: int
    end: int
    amount: str

    def of(self, variance: float) -> float:
        """The variance, or its root where it speaks of the deviation."""
        return variance**0.5 if self.deviation else variance


def _mentions(text: str) -> Iterator[Mention]:
    """What variances and deviations are said to be, and of what: what was named last."""
    text = re.sub(r"(\bd(?:_\w+)?\s*)=(?=\s*\d)", r"\1~", text)  # "for d_k = 64 is 8"
    tokens = [*_SUBJECT.finditer(text)]
    subject, free = "", 0
    for match in _MENTION.finditer(text):
        place = match.start("amount")
        between = [each for each in tokens if match.end("what") <= each.start() < place]
        before = [each for each in tokens if free <= each.start() < match.start()]
        named = between[:1] or before[-1:]
        if re.match(r"\d\s*的(?:随机)?(?:数|变量|分量)", text[place:]):
            subject = "part"
        elif named:
            subject = named[0].lastgroup or ""
        elif subject in ("part", "term", "q", "k"):  # "the sum of 9 terms of variance 1 has …"
            whole = [each.lastgroup for each in tokens if each.start() < free]
            subject = next((kind or "" for kind in reversed(whole) if kind in _WHOLE), subject)
        deviation = "var" not in match["what"].lower() and match["what"] != "方差"
        yield Mention(deviation, subject, match.start(), place, match["amount"])
        free = place


def _amount(text: str, d: float | None) -> tuple[float, str] | None:
    """The value that a claim begins with: a number, √64, d_k, √d_k = 8."""
    width = np.array(SYMBOLIC if d is None else d)
    local = Names(dict.fromkeys(("d", "d_k", "dk", "d_q", "d_head", "n"), width))
    for part in (side.strip(" ,.;:") for side in text.split("=")[:3]):
        for end in range(len(part), 0, -1):
            if end < len(part) and (part[end - 1].isalnum() and part[end].isalnum()):
                continue
            said = part[:end].strip(" ,.;:")
            try:
                result = value(Parser(said).whole(), local)
            except (NotUnderstood, RecursionError):
                continue
            if result.ndim == 0:
                return float(result), said
            break
    return None


def _width(text: str, place: int) -> float | None:
    """The width that a sentence speaks of at ``place``: what it named last, or else first."""
    found = [*_WIDTH.finditer(text)]
    last = next((m for m in reversed(found) if m.start() < place), found[0] if found else None)
    return float(next(filter(None, last.groups()))) if last else None


def _told(names: Names, scene: Scene) -> list[float]:
    """The widths that were said before of the vectors that are spoken of, the last one first."""
    found = [*scene.widths]
    for before in reversed(names.recent):
        told = set(re.findall(r"(\d+)[- ]*(?:dimension\w*|wide\b|维)", before))
        found += [float(each) for each in told]
    numbers = [names.values[name] for name in ("d_k", "dk", "d") if name in names.values]
    return [*dict.fromkeys([*found, *(float(each) for each in numbers if each.ndim == 0)])]


def _divisors(text: str, mention: Mention, width: float | None) -> list[tuple[float, str]]:
    """What the dot products of a mention were divided by, one after another."""
    found = []
    for match in _DIVIDED.finditer(text):
        between = text[mention.end : match.start()]
        if match.start() > mention.start and (
            match["zh"]
            or re.search(r"[,，]", between)
            or _MENTION.match(text[match.end() :].lstrip(" the"))
            or not re.search(r"(?:after|once|if|when|by) (?:\w+ )*$", between, re.I)
        ):
            continue
        said = next(filter(None, match.groups())).strip()
        said = re.sub(r"^(?:the |their |its )*(?:square root of|sqrt of) (\S+)", r"sqrt(\1)", said)
        said = re.sub(r"^\(*1\)*\s*/\s*\(*(?=sqrt|d)", "", said)  # scaled by 1/√d
        if amount := _amount(said, width):
            found.append(amount)
    return found


_GOES_ON = re.compile(
    r"\b(?P<d>d(?:_?k)?\s*=\s*\d+)\s*[,，]?\s*(?:时|(?:this|it|that)(?= ))?\s*(?:\bis|gives|约?为|是|约)\s*(?:about |约)?(?P<amount>\d)"
)
"""What is said of another width: "for d_k = 64 it is 8"."""


def _in_full(text: str, scene: Scene) -> str:
    """``text`` with what is said of another width in full."""

    def full(found: re.Match[str]) -> str:
        before = [*_MENTION.finditer(text, 0, found.start())]
        last = before[-1]["what"] if before else scene.last if scene.left > 0 else ""
        over = f"divided by {scene.by}, " if scene.by and not before else ""
        return f"{over}{found['d']} {last} is {found['amount']}" if last else found[0]

    return _GOES_ON.sub(full, text)


def _set(text: str, names: Names) -> Scene:
    """The scene with what a sentence tells beside its variances: widths and divisors."""
    scene: Scene | None = names.spread
    if scene is None or scene.heading != names.heading:
        scene = Scene(names.heading)
    if _STANDARD.search(text) and not NOT.search(text):
        scene = replace(scene, q=1.0, k=1.0, term=None)
    if _UNTOLD.search(text):
        scene = replace(scene, q=None, k=None, term=None)
    scene = replace(scene, left=scene.left - 1)
    if (width := _width(text, len(text))) and _VECTORS.search(text):
        scene = replace(scene, widths=(width, *scene.widths))
    if told := _DIVIDED.search(text):
        by = next(filter(None, told.groups())).strip()
        scene = replace(scene, by=by, left=max(scene.left, 2))
    return scene


def check_spread(text: str, names: Names) -> Iterator[Found]:
    """What a sentence says of variances and deviations, against what follows from the others."""
    scene = _set(text, names)
    text = _in_full(in_words(text), scene)
    silent = DENIED.search(text) or _NORMED.search(text) or "D(XY" in text
    before: Mention | None = None
    for mention in [] if silent else _mentions(text):
        width = _width(text, mention.end)
        start = max(text.rfind(comma, 0, mention.start) for comma in ",，;；") + 1
        part = re.split(r"[,，;；]", text[mention.end :])[0]
        if NOT.search(_UNSCALED.sub("", text[start : mention.end] + part)):
            continue
        root = before and _root(before, mention)
        before = mention
        scene = replace(scene, last="deviation" if mention.deviation else "variance")
        if _FURTHER.search(text) and (found := _goal(mention, text, scene)):
            pass
        elif root is not None and (
            not (mention.subject or _DIVIDED.search(text))
            or re.search(r"\d\s*[(（]\s*$", text[: mention.start])
        ):
            found = (False, "note.wrong", {"right": root}) if root else None
        elif mention.subject in ("part", "q", "k", "term"):
            found, scene = _of_parts(mention, text, scene)
        elif mention.subject == "other":
            continue
        else:
            found, scene = _of_dot(mention, text, width, scene, names)
        if found:
            yield found
    names.spread = scene


def _root(before: Mention, mention: Mention) -> str | None:
    """A deviation beside its variance, or the other way; "" where it is said rightly."""
    told = _amount(before.amount, None), _amount(mention.amount, None)
    if before.deviation == mention.deviation or before.subject != mention.subject:
        return None
    if told[0] is None or told[1] is None or re.search(r"\b[dn]", told[0][1] + told[1][1]):
        return None
    right = told[0][0] ** (0.5 if mention.deviation else 2)
    return "" if abs(told[1][0] - right) <= 0.02 * right else written(right)


def _goal(mention: Mention, text: str, scene: Scene) -> Found | None:
    """What divides once more, so that the variance becomes 1: the deviation that is left."""
    found = _DIVIDED.search(text, mention.end)
    by = _amount(next(filter(None, found.groups())).strip(), None) if found else None
    if by is None or scene.now <= 1 or mention.amount[:1] not in ("1", "o", "u"):
        return None
    right = scene.now**0.5
    agrees = abs(by[0] - right) <= 0.01 * right
    return agrees, "note.wrong", {} if agrees else {"right": written(right)}


def _of_parts(mention: Mention, text: str, scene: Scene) -> tuple[Found | None, Scene]:
    """What is told of the components' variances, or of those of the terms."""
    amount = _amount(mention.amount, None)
    letters = amount is None or re.search(r"[a-z]", amount[1].replace("sqrt", ""))
    told = None if not amount or letters else amount[0] ** (2 if mention.deviation else 1)
    if mention.subject == "term":
        right = scene.q * scene.k if scene.q and scene.k else None
        if told and right and right != 1 and abs(told - right) > 0.01 * right:
            return (False, "note.wrong", {"right": written(mention.of(right))}), scene
        return None, replace(scene, term=told)
    if mention.subject == "part":
        return None, replace(scene, term=None, q=told, k=told)
    if mention.subject == "q":
        return None, replace(scene, term=None, q=told)
    return None, replace(scene, term=None, k=told)


def _of_dot(
    mention: Mention, text: str, width: float | None, scene: Scene, names: Names
) -> tuple[Found | None, Scene]:
    """What is told of a dot product: d times the variance of a term, over what it is divided by²."""
    each = scene.each
    spoken_of = (
        mention.subject
        or re.search(r"\bd(?:_?k)?\b|\d-dimensional|\d dimensions|\d\s*维", text)
        or _DIVIDED.search(text)
        or scene.left > 0
    )
    if mention.subject == "mean" and (many := re.search(r"\bn\s*=\s*(\d+)", text)):
        width = float(many[1])
    d, divisors = _divided(mention, text, width, scene, names)
    amount = _amount(re.sub(r"^(?:one|unity)\b", "1", mention.amount), d)
    if not spoken_of or amount is None or each is None:
        return None, scene
    symbolic = re.search(r"\bd", amount[1]) is not None
    if d is None and not divisors and (of := re.match(r"sqrt\((\d+)\)", amount[1])):
        d = float(of[1])  # whose root is spoken of
    by, formula = divisors[-1][0] if divisors else 1.0, "d"
    if d is None and not symbolic and scene.now > 1 and divisors:
        variances, formula = [scene.now], written(scene.now)
    elif d is None and not symbolic and not any("d" in said for _, said in divisors):
        told = amount[0] ** (2 if mention.deviation else 1)
        return None, scene if divisors else replace(scene, now=told, left=2)
    else:
        variances = _readings(mention.subject, d or SYMBOLIC, each, scene.term or scene.q or 1.0)
    rights = [mention.of(variance / by**2) for variance in variances]
    if not divisors and scene.left > 0 and (again := _amount(scene.by, d)):
        rights += [mention.of(variance / again[0] ** 2) for variance in variances]
    scene = replace(scene, left=2, now=variances[0] / by**2, by=divisors[-1][1] if divisors else "")
    if width:
        scene = replace(scene, widths=(width, *scene.widths))
    corrected = _CORRECTED.search(text, mention.end)
    for said in (amount, _amount(corrected[1], d) if corrected else None):
        if said and any(abs(said[0] - right) <= 0.01 * right for right in rights):
            return (True, "note.right", {}), scene
    if not divisors and (amount[0] in (0, 1) or amount[0] == scene.q):
        return None, scene  # of the components, or of what has been scaled
    if symbolic and not divisors and each != 1:
        return (False, "note.wrong", {"right": f"{written(mention.of(each))}d"}), scene
    return _wrong(mention, rights[0], formula, divisors, each == 1, d), scene


def _readings(subject: str, d: float, each: float, one: float) -> list[float]:
    """What the variance may be: of a dot product, of a sum of numbers, of their mean."""
    if subject == "mean":
        return [one / d]
    return [d * each, *([d * one] if subject == "sum" else [])]


def _divided(
    mention: Mention, text: str, width: float | None, scene: Scene, names: Names
) -> tuple[float | None, list[tuple[float, str]]]:
    """The width that is spoken of, and what the dot products are divided by."""
    widths = [width] if width else _told(names, scene)
    d = widths[0] if widths else None
    divisors = _divisors(text, mention, d)
    if not divisors and re.search(r"1\s*/\s*\(*\s*d", text):  # what a division by d leaves
        divisors = [(d or SYMBOLIC, "d_k")]
    if divisors and not width:  # by their root, or by the width itself
        fits = [d for d in widths if divisors[-1][0] in (d, d**0.5)]
        of_root = re.search(r"sqrt\((\d+)\)", divisors[-1][1])
        d = fits[0] if fits else float(of_root[1]) if of_root else d
    if _SCALED.search(text) and not divisors:
        divisors = [((d or SYMBOLIC) ** 0.5, "sqrt(d)")]
    return d, divisors


def _wrong(
    mention: Mention,
    right: float,
    formula: str,
    divisors: list[tuple[float, str]],
    usual: bool,
    width: float | None,
) -> Found:
    root = "√" if mention.deviation else ""
    if divisors:
        over = divisors[-1][1].replace("sqrt", "√") + ("" if mention.deviation else "²")
        return False, "note.wrong", {"right": f"{root}{formula}/({over}) = {written(right)}"}
    if formula != "d" or not usual:
        return False, "note.wrong", {"right": written(right)}
    shown = f"{root}d" if width is None else f"{root}d = {written(right)}"
    return False, "note.deviation" if mention.deviation else "note.variance", {"right": shown}
