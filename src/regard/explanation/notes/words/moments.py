"""Laws of means and variances, tried at random numbers, and the columns that follow a width."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import NotUnderstood, Parser, literal, parsed
from regard.explanation.notes.words.facts import NOT
from regard.explanation.numbers import written

Found = tuple[bool, str, dict[str, str]]

_OF = (
    (
        r"\(*\(*\s*q\s*\*\s*k\)?\)*\s*/\s*\(*(sqrt\(\w+\)|\w+)\)*",
        r" divided by \1, the dot product variance ",
    ),
    (r"q\s*\*\s*k|q\^T\s*k|Sum[^()]*q_?i\s*\*?\s*k_?i", " dot product variance "),
    (r"q_?i\s*\*?\s*k_?i", " each product's variance "),
    (r"([qk])_?[ij1]?", r" \1 has variance "),
)
"""What stands in Var(…), and how it is said in words."""


def in_words(text: str) -> str:
    """``text`` with Var(q · k) and D(q_i) in words."""
    text = re.sub(
        r"\b(?:Var|D|V)\(q_?[ij1]?\)\s*=\s*(?:Var|D|V)\(k_?[ij1]?\)", " component variance ", text
    )
    root = r"(?:the )?square root of (?:the )?(?:dimension|width|d)(?:_\w+)?\b"
    text = re.sub(root, "sqrt(d)", text)
    text = re.sub(r"(?:d_?k?|维度|维数)\s*的?(?:平方根|开方)", "sqrt(d)", text)
    text = re.sub(
        r"\bsum_?i?\s*(?:=\s*1)?(?:\s*\^\s*\S+)?\s*q_?i\s*\*?\s*k_?i",
        "the dot product",
        text,
        flags=re.I,
    )
    for inside, words in _OF:
        text = re.sub(rf"\b(?:Var|D|V)\s*[\[(]\s*{inside}\s*[\])]", words, text)
    return text


_POINTS = ((1.07, 0.75), (2.14, 1.5))
"""The mean and the deviation of X and of Y, at which a law is tried."""
_MOMENT = re.compile(r"(?:(?<![A-Za-z_])(?:Var|D|V|E)|\\mathbb\{?E\}?)\s*([(\[])")
_SIDE_ENDS = re.compile(
    r"[=,，;；。（]|\.\s*$|\.\s|\b(?:for|when|if|where|with|since|as|and|but|holds?|hence|so|because)\b|[一-鿿]"
)
_LAW = re.compile(r"(?:\b(?:Var|D)\s*[(\[][^=]*?[XYxy][^=]*?)=")
_DEPENDENT = re.compile(r"\bCov\b|covarian|correlat|depend(?!ently)|协方差|不独立|相关", re.I)


def check_law(text: str, names: Names) -> Iterator[Found]:
    """A law of variances of independent X and Y, such as D(XY) = …, tried at two distributions."""
    text = re.sub(r"\([^()=]*(?:独立|independ)[^()]*\)", "", text)
    for match in _LAW.finditer(text):
        sides = [match[0].rstrip("= "), _SIDE_ENDS.split(text[match.end() :])[0]]
        if NOT.search(text) or (_DEPENDENT.search(text) and "independ" not in text):
            continue
        if {*re.findall("[XY]", sides[0])} != {*re.findall("[XY]", sides[1])}:
            continue  # D(X) = D(Y) is supposed
        if not _MOMENT.search(sides[1]) or _MOMENT.match(sides[0]) is None:
            continue
        # Where means of 0 were spoken of, a formula without means may rely on them.
        zero = "zero mean" in names.said and not re.search(r"\bE\b|E\s*[(\[]", sides[1])
        try:
            left, right = (_moments(side, 0.0 if zero else 1.0) for side in sides)
        except NotUnderstood:
            continue
        if abs(left - right) <= 1e-9:
            yield True, "note.right", {}
        elif re.match(r"\w+\s*[(\[]\s*[XY]\s*\*?\s*[XY]\s*[)\]]", sides[0]):
            yield False, "note.product-variance", {"right": "D(X)D(Y) + D(X)E(Y)² + D(Y)E(X)²"}
        elif right_law := _right_law(sides[0]):
            yield False, "note.wrong", {"right": right_law}


_TOLD = re.compile(
    r"\b(?P<kind>E|D|Var)\(\s*(?P<of>[XY])\s*\)\s*=\s*(?P<worth>-?\d+(?:\.\d+)?)(?![\w.*/^+(]|\s*[*/^+(])"
)
_CLAIMED = re.compile(
    r"\b(?P<kind>E|D|Var)\((?P<of>[^()=]*[XY][^()=]*)\)\s*=\s*(?:[^=,，;；。]*=\s*)?(?P<worth>-?\d+(?:\.\d+)?)(?![\w.*/^+(]|\s*[*/^+(])"
)


def check_moments(text: str, names: Names) -> Iterator[Found]:
    """D(XY) = 36 and E(X²) = 3, from the means and variances that X and Y were told to have."""
    for match in _TOLD.finditer(text):
        names.moments[match["kind"][0].replace("V", "D") + match["of"]] = float(match["worth"])
    told = ({"EX": 0.0, "EY": 0.0} if "zero mean" in names.said else {}) | names.moments
    for match in _CLAIMED.finditer(text):
        inside = match["of"].strip()
        letters = {*re.findall("[XY]", inside)}
        if (
            inside in "XY"
            or NOT.search(text)
            or not all(f"{m}{x}" in told for m in "ED" for x in letters)
        ):
            continue
        points = [(told.get(f"E{x}", 0.0), max(told.get(f"D{x}", 1.0), 0.0) ** 0.5) for x in "XY"]
        try:
            right = _moment(inside, match["kind"] == "E", points)
        except NotUnderstood:
            continue
        digits = len(match["worth"].partition(".")[2])
        if abs(float(match["worth"]) - right) <= 10.0**-digits * (digits > 0) + 1e-9:
            yield True, "note.right", {}
        else:
            yield False, "note.wrong", {"right": written(right)}


def _right_law(left: str) -> str:
    """What a variance is, of those that every book has."""
    inside = re.sub(r"[\s*]", "", re.sub(r"^\w+\s*[(\[](.*)[)\]]\s*$", r"\1", left))
    if re.fullmatch(r"[XYx]", inside):
        return f"E[{inside}²] − E[{inside}]²"
    if found := re.fullmatch(r"([a-z\d])([XYx])", inside):
        return f"{found[1]}² · Var({found[2]})"
    return "Var(X) + Var(Y)" if re.fullmatch(r"X[+-]Y", inside) else ""


def _moments(text: str, means: float) -> float:
    """The number that a formula in D(…) and E(…) is, for X and Y of ``_POINTS``."""
    points = [(means * mean, deviation) for mean, deviation in _POINTS]
    innermost = re.compile(_MOMENT.pattern + r"([^()\[\]]*(?:\([^()EDV]*\)[^()\[\]]*)*)[)\]]")
    while found := innermost.search(text):
        worth = _moment(found[2], "E" in found[0][:9] and "V" not in found[0][:1], points)
        text = f"{text[: found.start()]}({worth:.15f}){text[found.end() :]}"
    return _worth(text, Names({"a": np.array(1.7), "b": np.array(0.6), "c": np.array(2.3)}))


def _moment(inner: str, mean: bool, points: list[tuple[float, float]]) -> float:
    """The mean or the variance of an expression in X and Y, each one of two values as likely."""
    inner = re.sub(r"([XYxyabc\d])\s*(?=[XYxyabc])", r"\1 * ", inner)
    node = Parser(inner.strip()).whole()
    values = []
    for up, right in product((-1.0, 1.0), repeat=2):
        x, y = (mid + sign * by for (mid, by), sign in zip(points, (up, right), strict=True))
        known = {"X": x, "Y": y, "x": x, "y": y, "a": 1.7, "b": 0.6, "c": 2.3}
        got = value(node, Names({name: np.array(each) for name, each in known.items()}))
        if got.ndim:
            raise NotUnderstood(inner)
        values.append(float(got))
    return float(np.mean(values)) if mean else float(np.var(values))


def _worth(text: str, names: Names) -> float:
    text = text.replace("[", "(").replace("]", ")").strip(" .$\\")
    text = re.sub(r"(?<=[)\w])(?<!sqrt)\s*\(", " * (", text)
    try:
        return float(value(Parser(text).whole(), names))
    except (RecursionError, TypeError) as error:
        raise NotUnderstood(text) from error


_OF_WIDTH = {"variance": 1.0, "deviation": 0.5, "scale": -0.5}
"""By which power of the width the numbers of a column grow."""
_HEADS = (
    ("scale", r"^(?:the )?(?:scale|scaling)(?: factor)?\b(?!d)|1 ?/ ?sqrt|缩放(?:因子|系数)"),
    ("scaled", r"after|scaled|/ ?√|/ ?sqrt|divid|缩放后|除以|之后"),
    ("deviation", r"std|deviation|σ|标准差"),
    ("variance", r"var|方差"),
    (
        "width",
        r"^d(?:_?k|_?head|_?q)?$|^(?:key |head )?(?:dimension|width)$|^(?:键)?(?:维度|维数|宽度)$",
    ),
)
"""Columns of a table of dot products, by their heads."""


def check_spreads(line: int, head: list[str], cells: list[str]) -> list[Verdict]:
    """A row of a table of widths: the variance is the width, the deviation its root."""
    kinds = [
        next((k for k, words in _HEADS if re.search(words, plain(name), re.I)), "") for name in head
    ]
    if "width" not in kinds or not {*_OF_WIDTH} & {*kinds}:
        return []
    found = []
    width = literal(parsed(plain(cells[kinds.index("width")])) or ("name", ""))
    for kind, name, cell in zip(kinds, head, cells, strict=False):
        told = literal(parsed(plain(cell)) or ("name", ""))
        if kind not in _OF_WIDTH or not told or not width or told[0].ndim:
            continue
        right = float(width[0]) ** _OF_WIDTH[kind]
        agrees = abs(float(told[0]) - right) <= float(told[1]) + 1e-9 and (
            float(told[1]) < 1 or abs(float(told[0]) - right) < 0.5
        )
        said = f"{name} = {cell}  (d = {float(width[0]):g})"
        if agrees:
            found.append(Verdict(line, said, "right", "note.right"))
        else:
            shown = written(right, len(cell.partition(".")[2]) or 2)
            found.append(Verdict(line, said, "wrong", "note.wrong", {"right": shown}))
    return found
