"""Shapes of arrays as a note tells them: in words, in formulas, in tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import NotUnderstood, Number, parsed

Shape = tuple[str, ...]
"""A number, a letter or a small expression for each axis."""

_AXES = r"\w[\w/ ]*(?:\s*(?:,|×|x|\*)\s*\w[\w/ ]*)+"
_SHAPE = rf"[(\[]\s*{_AXES}\s*[)\]]"


def split_shape(text: str) -> Shape:
    """The axes of "2, 3" or "n × d"."""
    return tuple(part.strip() for part in re.split(r"[,×x*]", text) if part.strip())


def compared(line: int, said: str, claimed: Shape, shape: Shape, names: Names) -> Verdict | None:
    """What is said of a claimed shape; None where a letter of it is not known."""
    if len(claimed) != len(shape):
        if all(each.isdigit() for each in claimed) and all(each.isdigit() for each in shape):
            return Verdict(line, said, "wrong", "note.wrong", {"right": _written(shape, said)})
        return None
    pairs = [(_number(a, names), _number(b, names)) for a, b in zip(claimed, shape, strict=True)]
    same = [
        x == y if x and y else a == b for (x, y), a, b in zip(pairs, claimed, shape, strict=True)
    ]
    if all(same):
        return Verdict(line, said, "right", "note.right")
    if not all(x and y for x, y in pairs):
        return None
    if all(each.isdigit() for each in claimed):
        shape = tuple(str(y) for _, y in pairs)
    return Verdict(line, said, "wrong", "note.wrong", {"right": _written(shape, said)})


def _written(shape: Shape, said: str = "(") -> str:
    if not re.search(r"[(\[]", said):
        return " × ".join(shape)
    return f"({', '.join(shape)}{',' if len(shape) == 1 else ''})"


def _number(text: str, names: Names) -> int:
    if text.isdigit():
        return int(text)
    node = parsed(plain(text))
    try:
        found = value(node, names) if node is not None else np.array(0)
    except NotUnderstood:
        return 0
    return int(found) if found.ndim == 0 and found == int(found) else 0


_PRODUCT = re.compile(r"\(\s*(\w+)\s*\*\s*(\w+)\s*\)\s*\*?\s*\(\s*(\w+)\s*\*\s*(\w+)\s*\)")


def check_cost_cells(line: int, cells: Sequence[str]) -> list[Verdict]:
    """A product of shapes and what it costs, both in letters: (n × d)(d × n) is n²d."""
    product = next((m for cell in cells if (m := _PRODUCT.search(plain(cell)))), None)
    if product is None or product[2] != product[3] or product[1].isdigit():
        return []
    letters = (product[1], product[2], product[4])
    random = np.random.default_rng(0)
    for cell in cells:
        node = parsed(plain(re.sub(r"^\s*[~≈]?\s*|O\((.*)\)", r"\1", cell)))
        if (
            node is None
            or isinstance(node, Number)
            or node[0] == "name"
            or _PRODUCT.search(plain(cell))
        ):
            continue
        ratios = []
        for _ in range(3):
            told = {letter: random.uniform(1, 3) for letter in letters}
            try:
                cost = value(node, Names({name: np.asarray(x) for name, x in told.items()}))
            except NotUnderstood:
                break
            ratios.append(float(cost) / np.prod([told[letter] for letter in letters]))
        if len(ratios) < 3:
            continue
        if max(ratios) - min(ratios) < 1e-6:
            return [Verdict(line, cell, "right", "note.right")]
        times = re.match(r"\d*", plain(cell).strip())
        power = "".join(
            f"{x}{'²' if letters.count(x) == 2 else '³' if letters.count(x) == 3 else ''}"
            for x in dict.fromkeys(sorted(letters, key=lambda x: (-letters.count(x), x)))
        )
        return [
            Verdict(
                line, cell, "wrong", "note.wrong", {"right": f"{times[0] if times else ''}{power}"}
            )
        ]
    return []
