"""Formulas of shapes: (a × b)(b × c) is (a × c), for every matrix of a batch."""

from __future__ import annotations

import re

from regard.explanation.notes.claim import Verdict

_SIGN = r"\s*(?:×|x|,|\\times|\*)\s*"
_SHAPE = rf"[(\[]\s*(\w+(?:{_SIGN}\w+)+)\s*[)\]]"
PRODUCT = re.compile(
    _SHAPE + r"\s*(?:·|×|@|\*|\\cdot|\\times|times|by|and|乘以?|与|和)?\s*" + _SHAPE
    + r"\s*(?:相乘)?\s*(?:=|→|->|\\to|is|gives|yields|makes|得到?|为|是|等于)\s*(?:an? )?" + _SHAPE
)  # fmt: skip


def check_shapes(line: int, text: str) -> tuple[list[Verdict], str]:
    """A verdict for each product of shapes, and ``text`` without them."""
    found = []
    for match in PRODUCT.finditer(text):
        if "." in match[0]:
            continue
        a, b, c = (re.split(_SIGN, shape.strip()) for shape in match.groups())
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
