"""Formulas of shapes: (a × b)(b × c) is (a × c), for every matrix of a batch."""

from __future__ import annotations

import re

from regard.explanation.notes.claim import Verdict

_SIGN = r"\s*(?:×|x|,|\\times|\*)\s*"
_PAIR = r"\w+\s*(?:×|x|\\times|\*)\s*\w+"
_BRACKETS = rf"[(\[]\s*(?:\w+(?:{_SIGN}\w+)+)\s*[)\]]"
_NOUN = r"\s*(?:的?(?:矩阵|张量)|matrix|matrices|array)"
_FACTOR = rf"({_BRACKETS}(?:{_NOUN})?|{_PAIR}{_NOUN})"
_RESULT = rf"({_BRACKETS}|{_PAIR}(?![\w.,]|\s*(?:×|\\times|[*/^(=·+-])))"
PRODUCT = re.compile(
    _FACTOR + r"\s*(?:·|×|@|\*|\\cdot|\\times|times|by|and|with|(?:相?乘)?以?|与|和)?\s*(?:an? )?" + _FACTOR
    + r"\s*(?:相乘)?[,，]?\s*(?:=|→|->|\\to|is|gives|yields|makes|(?:可以|就|会)?得到?的?|(?:结果)?(?:为|是)|等于)\s*(?:an? |一个|again )?\s*" + _RESULT
)  # fmt: skip


def check_shapes(line: int, text: str) -> tuple[list[Verdict], str]:
    """A verdict for each product of shapes, and ``text`` without them."""
    found = []
    for match in PRODUCT.finditer(text):
        if "." in match[0]:
            continue
        a, b, c = (_axes(shape) for shape in match.groups())
        if not len(a) == len(b) == len(c):
            continue
        said = match[0].strip()
        if a[:-2] != b[:-2] or a[-1] != b[-2]:
            why = " × ".join(a[:-2]) + " ≠ " + " × ".join(b[:-2])
            right = f"{a[-1]} ≠ {b[-2]}" if a[-1] != b[-2] else why
            found.append(Verdict(line, said, "wrong", "note.no-product", {"right": right}))
            continue
        right = " × ".join([*a[:-1], b[-1]])
        if c == [*a[:-1], b[-1]]:
            found.append(Verdict(line, said, "right", "note.right"))
        else:
            found.append(Verdict(line, said, "wrong", "note.wrong", {"right": right}))
    return found, PRODUCT.sub(" ", text)


def _axes(shape: str) -> list[str]:
    return re.split(_SIGN, re.sub(rf"{_NOUN}|[()\[\]]", " ", shape).strip())
