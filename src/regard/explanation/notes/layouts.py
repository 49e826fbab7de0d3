"""Shapes of arrays as a note tells them: in words, in formulas, in tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from regard.explanation.notes.algebra import Names, value
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathtext import plain
from regard.explanation.notes.parsing import NotUnderstood, parsed

Shape = tuple[str, ...]
"""A number, a letter or a small expression for each axis."""

_SHAPE = r"\(\s*\w[\w/ ]*(?:\s*(?:,|×|x|\*)\s*\w[\w/ ]*)+\s*\)"
_REAL = re.compile(
    r"(?P<name>[A-Za-z]\w*(?:\s*(?:\^T|K\^T))?|[A-Za-z]*Attention\([^)]*\)|result|output|结果|输出)\s*(?:lies|is|are|lives|again|)\s*(?:in|∈)\s*(?:mathbb\{?R\}?|R|ℝ)\s*\^\s*\(?\s*(?P<a>\w+)\s*\*\s*(?P<b>\w+)"
)
_IS = r"\s*(?:is|are|has|have|of|the|a|with|shape|size|:|=|为|是|的?形状[为是]?|,|\s)*"


def split_shape(text: str) -> Shape:
    """The axes of "2, 3" or "n × d"."""
    return tuple(part.strip() for part in re.split(r"[,×x*]", text) if part.strip())


def compared(line: int, said: str, claimed: Shape, shape: Shape, names: Names) -> Verdict | None:
    """What is said of a claimed shape; None where a letter of it is not known."""
    if len(claimed) != len(shape):
        if all(each.isdigit() for each in claimed) and all(each.isdigit() for each in shape):
            return Verdict(line, said, "wrong", "note.wrong", {"right": _written(shape)})
        return None
    pairs = [(_number(a, names), _number(b, names)) for a, b in zip(claimed, shape, strict=True)]
    same = [
        x == y if x and y else a == b for (x, y), a, b in zip(pairs, claimed, shape, strict=True)
    ]
    if all(same):
        return Verdict(line, said, "right", "note.right")
    if not all(x and y for x, y in pairs):
        return None
    return Verdict(line, said, "wrong", "note.wrong", {"right": _written(shape)})


def _written(shape: Shape) -> str:
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


_TOLD = re.compile(
    rf"(?<![\w])(?P<name>[qkvQKVX]|(?:the )?(?:quer(?:y|ies)|keys?|values?))(?![\w^]){_IS}(?P<shape>{_SHAPE})"
)
_ASKED = re.compile(
    rf"(?P<what>scores?(?: matrix)?|(?:attention )?weights?|Q\s*K\^T|output|result|分数(?:矩阵)?|注意力(?:权重|矩阵)|权重(?:矩阵)?|输出|结果)(?: (?:tensor|matrix|array))?{_IS}(?P<shape>{_SHAPE})"
)


def check_told_shapes(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict for each shape that is told of scores and outputs, where those of Q, K and V were."""
    text = re.sub(r"\s*\(T\)|\^\s*top\b|\^\s*T\b", "^T", plain(re.sub(r"[`$]", "", sentence)))
    text = re.sub(r"\\?mathbb\s*\{?\s*R\s*\}?", "R", text).replace("\\", " ")
    said = sentence.strip()
    found: list[Verdict] = []
    for match in _REAL.finditer(text):
        found += _placed_shape(line, said, match["name"], (match["a"], match["b"]), names)
    for match in _TOLD.finditer(text):
        _placed_shape(line, said, match["name"], split_shape(match["shape"][1:-1]), names)
    for match in _ASKED.finditer(text):
        found += _placed_shape(line, said, match["what"], split_shape(match["shape"][1:-1]), names)
    return found


def _placed_shape(line: int, said: str, name: str, claimed: Shape, names: Names) -> list[Verdict]:
    word = name.replace(" ", "").lower().removeprefix("the")
    if word[:1] in "qkv" and (len(word) == 1 or re.match(r"quer|key|value", word)):
        names.shapes[f"{word[0]} told"] = claimed
        return []
    q, k, v = (names.shapes.get(f"{letter} told") for letter in "qkv")
    if re.match(r"qk|score|weight|attentionweight|attentionmatr|分数|注意力|权重", word):
        right = (
            (*q[:-1], k[-2])
            if q and k and len(q) == len(k) > 1 and q[:-2] == k[:-2] and q[-1] == k[-1]
            else None
        )
    elif re.match(r"output|result|输出|结果|attention\(", word):
        right = (*q[:-1], v[-1]) if q and v and len(q) == len(v) > 1 and q[:-2] == v[:-2] else None
    else:
        right = None
    if right is None or len(right) != len(claimed):
        return []
    if right == claimed:
        return [Verdict(line, said, "right", "note.right")]
    same_kind = all(a.isdigit() == b.isdigit() for a, b in zip(right, claimed, strict=True))
    letters = {each for each in claimed if not each.isdigit()}
    if not same_kind or not letters <= {each for shape in (q, k, v) if shape for each in shape}:
        return []
    return [Verdict(line, said, "wrong", "note.wrong", {"right": " × ".join(right)})]


def check_shape_cells(
    line: int, head: Sequence[str], cells: Sequence[str], names: Names
) -> list[Verdict]:
    """A shape in letters and the same in numbers, where the table's head tells the letters."""
    told = dict(re.findall(r"\b([A-Za-z]\w*)\s*=\s*(\d+)", " ".join(head)))
    local = names.copy(**{name: np.array(float(number)) for name, number in told.items()})
    shapes = [
        split_shape(cell.strip()[1:-1])
        for cell in cells
        if re.fullmatch(r"\([\w, /×*]+\)", cell.strip())
    ]
    letters = next((shape for shape in shapes if not all(each.isdigit() for each in shape)), None)
    numbers = next((shape for shape in shapes if all(each.isdigit() for each in shape)), None)
    if not letters or not numbers or len(letters) != len(numbers):
        return []
    right = tuple(str(_number(each, local)) for each in letters)
    if "0" in right:
        return []
    said = f"{_written(letters)} = {_written(numbers)}"
    if right == numbers:
        return [Verdict(line, said, "right", "note.right")]
    return [Verdict(line, said, "wrong", "note.wrong", {"right": _written(right)})]
