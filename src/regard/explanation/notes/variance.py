"""Claims about the variance of a dot product, and of a product of random numbers."""

from __future__ import annotations

import re

import numpy as np

from regard.explanation.notes.algebra import Names, value
from regard.explanation.notes.facts import NOT
from regard.explanation.notes.parsing import NotUnderstood, Parser
from regard.explanation.numbers import written

Found = tuple[bool, str, dict[str, str]]

DOT = re.compile(
    r"dot products?|inner products?|q\s*\*\s*k|q\^?T\s*k|scores?\b|logits?\b|sum of (?:d|\d+)\b|terms\b|QK\^?T|Q K\^T|点积|内积|分数|得分",
    re.I,
)
DIVIDED = re.compile(
    r"(?:divid\w*|scal\w*|division)[^.。,，=]{0,20}? by (?P<by>[^.。,，;]+?)(?=\s+(?:the|gives|makes|keeps|it|its|we|would|leaves|brings|and|then|to|so)\b|[.。,，;]|$)"
    r"|除以\s*(?P<zh>[^。，,;；]+?)\s*(?=之?后|时|，|,|得|就|则|可|能|会|使|让|的话)",
    re.I,
)
SCALED = re.compile(
    r"after (?:dividing|scaling|division)|\bscaled|缩放之?后|归一化后|normali[sz]ed", re.I
)
UNSCALED = re.compile(
    r"without (?:the )?(?:scal|divi)\w*|不(?:做|加|用)?(?:缩放|除以)|没有(?:做)?(?:缩放|除以)", re.I
)
"""A condition, and no denial."""
OF_TERMS = re.compile(
    r"(?:each|every|one) (?:product|term)[^.。,]{0,12} variance(?! (?:of )?1\b)|(?:每一?[项个]|各)(?:乘积|项)?的?方差(?!\s*[为是]\s*1\b)",
    re.I,
)
"""Terms whose variance is another than 1."""
OF_PARTS = re.compile(r"(?:\bD|Var)\s*\(\s*[qk]_?i?\s*\)\s*=\s*(?!1\b)\d")
SYMBOLIC = 64.0
"""The width that stands for d where a claim gives it no number."""


def _width(text: str, place: int, names: Names) -> float | None:
    """The width d that a sentence speaks of at ``place``: what it named last, or else first."""
    patterns = (
        r"(\d+)\s*-?\s*(?:dimension\w*|wide|dim\b|dims\b|d\b|维)", r"\bd(?:_?k|_?q|_?head|_model)?\s*=\s*(\d+)",
        r"(?:width|dimension|size|length|维度|宽度|宽|维数)\s*(?:of|is|为|是|=)?\s*(\d+)", r"(\d+)\s*(?:terms|numbers|components|products|项|个分量)",
    )  # fmt: skip
    for pattern in patterns:
        found = list(re.finditer(pattern, text, re.I))
        if found:
            return float(next((m for m in reversed(found) if m.start() < place), found[0])[1])
    if told := _told(names):
        return told
    for name in ("d_k", "dk", "d"):
        if name in names.values and names.values[name].ndim == 0:
            return float(names.values[name])
    return None


def _told(names: Names) -> float | None:
    """The one width that was said last of the vectors that are spoken of."""
    for before in reversed(names.recent):
        told = set(re.findall(r"(\d+)[- ]*(?:dimension\w*|wide\b|维)", before))
        if told:
            return float(told.pop()) if len(told) == 1 else None
    return None


def _of_one(text: str) -> float:
    """The variance of one component, 1 unless the sentence says another."""
    found = re.search(
        r"(?:components?|entries|numbers|分量|元素)[^.。]{0,24}?(?:variance|方差)\s*(?:of|is|为|是|=)?\s*(\d+(?:\.\d+)?)",
        text, re.I,
    )  # fmt: skip
    return float(found[1]) if found else 1.0


def _amount(text: str, names: Names, d: float | None) -> tuple[float, str] | None:
    """The value that a claim begins with: a number, √64, d_k, √d_k = 8."""
    local = names.copy()
    for name in ("d", "d_k", "dk", "d_q"):
        if d is not None:
            local.values[name] = np.array(d)
        else:
            local.values.setdefault(name, np.array(SYMBOLIC))
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


def _divisor(
    match: re.Match[str], text: str, names: Names, width: float | None
) -> tuple[float, str] | None:
    """What the dot products of this claim were divided by, where its clause says that they were."""
    start = max(text.rfind(mark, 0, match.start()) for mark in ",，;；.。") + 1
    before = max(text.rfind(mark, 0, max(start - 1, 0)) for mark in ",，;；.。") + 1
    if not re.search(r"variance|deviation|std\b|方差|标准差", text[before:start], re.I):
        start = before
    if not re.search(r"variance|deviation|std\b|方差|标准差", text[:start], re.I):
        start = 0
    found = DIVIDED.search(text, start)
    if not found or (
        found.start() > match.start()
        and (
            found["zh"]
            or not re.search(r"(?:after|once|if|when|by) (?:\w+ )*$", text[: found.start()], re.I)
        )
    ):
        return None
    said = (found["by"] or found["zh"]).strip()
    said = re.sub(r"^(?:the |their |its )*(?:square root of|sqrt of) (\S+)", r"sqrt(\1)", said)
    return _amount(said, names, width)


def _of_told(
    match: re.Match[str], divisor: tuple[float, str], names: Names, width: float | None
) -> Found | None:
    """The variance after a division, of one that was told before; None where none was."""
    told = names.sizes.get("variance right", 0.0)
    claim = _amount(match["amount"], names, width)
    if told <= 1 or match["what"] not in ("variance", "方差") or claim is None:
        return None
    right = told / divisor[0] ** 2
    if abs(claim[0] - right) <= 0.01 * right:
        return True, "note.right", {}
    if claim[0] not in (told, told / divisor[0]):
        return None
    return False, "note.wrong", {"right": f"{written(told)}/({divisor[1]}²) = {written(right)}"}


def variance(  # noqa: PLR0912
    match: re.Match[str], text: str, names: Names
) -> Found | None:
    """The variance of a dot product of d independent terms is d, its deviation √d."""
    if NOT.search(UNSCALED.sub("", text)) or "D(XY" in text:
        return None
    spoken_of = " ".join([*names.recent[-2:], text])
    if (
        OF_TERMS.search(spoken_of)
        or OF_PARTS.search(spoken_of)
        or re.search(r"1\s*/\s*\(*\s*d", text)
    ):
        return None
    width = _width(text, match.start("amount"), names)
    divisor = _divisor(match, text, names, width)
    if (
        divisor
        and not _told(names)
        and not re.search(
            r"\d\s*-?\s*(?:dim|维|wide)|\bd(?:_?[kq]|_head|_model)?\b", f"{text[: match.end()]}"
        )
    ):
        return _of_told(match, divisor, names, width)
    if divisor is None and SCALED.search(text):
        return None
    spoken = DOT.search(text) or re.search(r"\bd_?k\b", text) or divisor or (
        re.search(r"\b(?:its|their)\b|其|\d-dimensional|\d dimensions|\d\s*维", text)
        and DOT.search(" ".join(names.recent))
    )  # fmt: skip
    if not spoken or re.search(r"\bnorm\b|layer ?norm|batch ?norm|normali[sz]|归一化", text, re.I):
        return None
    amount = _amount(re.sub(r"^(?:one|unity)\b", "1", match["amount"]), names, width)
    if amount is None:
        return None
    if width is None and (of := re.match(r"sqrt\((\d+)\)", amount[1])):
        width = float(of[1])  # whose root is spoken of
    d = SYMBOLIC if width is None else width
    by = 1.0 if divisor is None else divisor[0]
    deviation = bool(re.search(r"deviation|标准差|std|spread|sigma", match["what"], re.I))
    one = _of_one(text)
    right = d**0.5 * one / by if deviation else d * one**2 / by**2
    if divisor is None and (
        amount[0] in (0, 1) or amount[0] == one != right
    ):  # of the components, or of what has been scaled
        return None
    if abs(amount[0] - right) <= 0.01 * right:
        if divisor is None and not deviation:
            names.sizes["variance right"] = right
        return True, "note.right", {}
    if divisor is not None:
        name = "√d" if deviation else "d"
        over = divisor[1].replace("sqrt", "√") + ("" if deviation else "²")
        return False, "note.wrong", {"right": f"{name}/({over}) = {written(right)}"}
    corrected = re.search(
        r"(?:\bit is|\bit's|应为|应是|而是|实际上?是)\s*([^,，.。;；]+)",
        text[match.end("amount") :],
    )
    said = corrected and _amount(corrected[1], names, width)
    if said and abs(said[0] - right) <= 0.01 * right:
        return True, "note.right", {}
    if re.search(r"\bd", amount[1]) or width is not None:
        word = "√d" if deviation else "d"
        shown = word if width is None else f"{word} = {written(right)}"
        return False, "note.deviation" if deviation else "note.variance", {"right": shown}
    return None


def product_variance(match: re.Match[str], text: str, names: Names) -> Found | None:
    """D(XY) for independent X and Y, at random numbers, against what is written."""
    side = match["right"]
    if NOT.search(text) or not re.search(r"(?:Var|D|V|E)\s*[\[(]", side):
        return None
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
