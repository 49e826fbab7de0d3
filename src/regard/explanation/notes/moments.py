"""Laws of means and variances, D(aX) = a²D(X), tried at random numbers of a few values."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import numpy as np

from regard.explanation.notes.algebra import Names, value
from regard.explanation.notes.facts import NOT
from regard.explanation.notes.parsing import NotUnderstood, Parser

Found = tuple[bool, str, dict[str, str]]

_POINTS = ((0.2, 0.3), (1.1, 0.5), (2.3, 0.2))
"""The values of a random number with their probabilities, by which a law of moments is tried."""
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
            left, right = (_moments(side, 1.07 if zero else 0.0) for side in sides)
        except NotUnderstood:
            continue
        if abs(left - right) <= 1e-9:
            yield True, "note.right", {}
        elif re.match(r"\w+\s*[(\[]\s*[XY]\s*\*?\s*[XY]\s*[)\]]", sides[0]):
            yield False, "note.product-variance", {"right": "D(X)D(Y) + D(X)E(Y)² + D(Y)E(X)²"}
        elif right_law := _right_law(sides[0]):
            yield False, "note.wrong", {"right": right_law}


def _right_law(left: str) -> str:
    """What a variance is, of those that every book has."""
    inside = re.sub(r"[\s*]", "", re.sub(r"^\w+\s*[(\[](.*)[)\]]\s*$", r"\1", left))
    if re.fullmatch(r"[XYx]", inside):
        return f"E[{inside}²] − E[{inside}]²"
    if found := re.fullmatch(r"([a-z\d])([XYx])", inside):
        return f"{found[1]}² · Var({found[2]})"
    return "Var(X) + Var(Y)" if re.fullmatch(r"X[+-]Y", inside) else ""


def _moments(text: str, shift: float) -> float:
    """The number that a formula in D(…) and E(…) is, for X and Y of ``_POINTS``."""
    while found := _MOMENT.search(text):
        depth, end = 0, found.end() - 1
        for end in range(found.end() - 1, len(text)):
            depth += (text[end] in "([") - (text[end] in ")]")
            if depth == 0:
                break
        inner = text[found.end() : end]
        if nested := _MOMENT.search(inner):  # from the inside out
            place = found.end() + nested.start()
            text = text[:place] + _outer(text[place:], shift)
            continue
        text = f"{text[: found.start()]}({_moment(inner, 'E' in found[0], shift):.15f}){text[end + 1 :]}"
    return _worth(text, Names({"a": np.array(1.7), "b": np.array(0.6), "c": np.array(2.3)}))


def _outer(text: str, shift: float) -> str:
    """``text`` with the moment at its beginning worked out."""
    found = _MOMENT.match(text)
    end = re.search(r"[)\]]", text)
    if not found or not end or _MOMENT.search(text[found.end() : end.start()]):
        raise NotUnderstood(text)
    inner = text[found.end() : end.start()]
    return f"({_moment(inner, 'E' in found[0], shift):.15f}){text[end.end() :]}"


def _moment(inner: str, mean: bool, shift: float) -> float:
    """The mean or the variance of an expression in X and Y."""
    inner = re.sub(r"([XYxyabc])\s*(?=[XYxyabc])", r"\1 * ", inner)
    node = Parser(inner.strip()).whole()
    values, weights = [], []
    for (x, p), (y, q) in product(_POINTS, _POINTS):
        point = {"X": x - shift, "Y": 2.0 * (y - shift), "a": 1.7, "b": 0.6, "c": 2.3}
        point |= {"x": point["X"], "y": point["Y"]}
        got = value(node, Names({name: np.array(each) for name, each in point.items()}))
        if got.ndim:
            raise NotUnderstood(inner)
        values.append(float(got))
        weights.append(p * q)
    average = float(np.average(values, weights=weights))
    if mean:
        return average
    return float(np.average((np.array(values) - average) ** 2, weights=weights))


def _worth(text: str, names: Names) -> float:
    text = text.replace("[", "(").replace("]", ")").strip(" .$\\")
    text = re.sub(r"(?<=[)\w])(?<!sqrt)\s*\(", " * (", text)
    try:
        return float(value(Parser(text).whole(), names))
    except (RecursionError, TypeError) as error:
        raise NotUnderstood(text) from error
