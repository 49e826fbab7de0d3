"""Formulas of shapes: (a × b)(b × c) is (a × c)."""

from __future__ import annotations

import re

from regard.explanation.notes.claim import Verdict

_PAIR = r"[(\[]\s*(\w+)\s*(?:×|x|,|\\times|\*)\s*(\w+)\s*[)\]]"
PRODUCT = re.compile(
    _PAIR + r"\s*(?:·|×|@|\*|\\cdot|\\times|times|by|and|乘以?|与|和)?\s*" + _PAIR
    + r"\s*(?:=|→|->|\\to|is|gives|yields|makes|得到?|为|是|等于)\s*(?:an? )?" + _PAIR
)  # fmt: skip


def check_shapes(line: int, text: str) -> tuple[list[Verdict], str]:
    """A verdict for each product of shapes, and ``text`` without them."""
    found = []
    for match in PRODUCT.finditer(text):
        if "." in match[0]:
            continue
        a, b, c, d, e, f = match.groups()
        said = match[0].strip()
        if b != c:
            found.append(Verdict(line, said, "wrong", "note.no-product", {"right": f"{b} ≠ {c}"}))
        elif (a, d) == (e, f):
            found.append(Verdict(line, said, "right", "note.right"))
        else:
            found.append(Verdict(line, said, "wrong", "note.wrong", {"right": f"{a} × {d}"}))
    return found, PRODUCT.sub(" ", text)
