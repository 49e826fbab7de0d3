"""Equations cut out of the words around them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from regard.explanation.notes.mathematics.mathtext import FUNCTIONS, plain
from regard.explanation.notes.mathematics.parsing import parsed

SHORT = frozenset("a A I is so we of to in or if as by at it be an on do".split())  # noqa: SIM905
"""Words of prose that are as short as names."""


UNITS = re.compile(
    rf"(\d)\s*(?!(?:{'|'.join(FUNCTIONS)})\b)(?:[a-z]{{3,}}(?:[- ][a-z]{{3,}})?|个?[\u4e00-\u9fff]{{1,4}})\s*(?=\*\s*\d)"
)
"""What is counted, in "32 layers × 8 heads × 2"."""


def plain_code(text: str) -> str:
    """A line of NumPy or torch in the plain spelling: methods as functions, views as they are."""
    text = re.sub(r"^(\W*)(?:int|float)\((.*)\)(\W*(?:=.*)?)$", r"\1(\2)\3", plain(text))
    text = re.sub(
        r"\.(?:transpose|swapaxes)\(\s*(?:-2, -1|-1, -2|0, 1|1, 0)?\s*\)|\.t\(\)|\.mT\b", ".T", text
    )
    text = re.sub(r"\.(?:round|tolist|item|numpy|float|double|astype|clone|copy)\(\w*\)", "", text)
    text = re.sub(r"(\w+)\.(sum|mean|max|min|var|std|softmax|exp|dot)\(\)", r"\2(\1)", text)
    return re.sub(r"(\w+)\.(sum|mean|max|min|var|std|softmax|exp|dot)\(", r"\2(\1, ", text)


def statement(text: str) -> Iterator[tuple[list[str], str]]:
    """A line of code has no words around its equation."""
    text = plain_code(text)
    sides = [_unshield(side).strip() for side in re.split(r"(?<![<>!:=])=(?![=>])", _shield(text))]
    if len(sides) > 1:
        yield sides, _said(sides)


def chains(text: str, known: Collection[str] = ()) -> Iterator[tuple[list[str], str]]:
    """The sides of each equation in ``text``, cut from the words around it.

    ``known`` are words that are the names of vectors here.
    """
    # Wide gaps part the columns of a printed table.
    parts = (UNITS.sub(r"\1 ", plain(part)) for part in re.split(r" {3,}|\t", text))
    for span in (span for part in parts for span in spans(part)):
        sides = re.split(r"(?<![<>!:=])=(?![=>])", _shield(span))
        if len(sides) < 2:
            continue
        sides = [_unshield(side) for side in sides]
        chain: list[str] = []
        for index, side in enumerate(sides):
            first, last = index == 0, index == len(sides) - 1
            if first:
                chain = [_tail(side, known)]
                continue
            head = _head(side, known)
            chain.append(head)
            if not last and head.strip() != side.strip():
                yield chain, _said(chain)
                chain = [_tail(side, known)]
            elif last:
                yield chain, _said(chain)


def _shield(text: str) -> str:
    """An ``=`` within brackets names an argument and is no equation."""
    depth, out = 0, []
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        out.append("\x00" if letter == "=" and depth > 0 else letter)
    return "".join(out)


def _unshield(text: str) -> str:
    return text.replace("\x00", "=")


def spans(text: str) -> Iterator[str]:
    """Pieces of a line that no sentence end or foreign word parts; Chinese words part them too."""
    text = text.replace("$", " ").replace("`", " ").replace("\\", " ")
    text = re.sub(r"\*\*|__(?=\w)", " ", text)
    text = re.sub(r"(?<=[\d)])!(?!=)", " factorial_ ", text)
    for piece in re.split(r"[^\x00-\x7f]+|[;:!?{}<>\"→]|\.(?=\s|$)|,(?=\s+[a-z]+\s+[a-z]+)", text):
        if piece and "=" in piece:
            yield piece


def pieces(text: str) -> Iterator[str]:
    """What may be an expression in ``text``, between its words, its signs and its sentences."""
    text = text.replace("\\", " ")
    for span in re.split(r"[^\x00-\x7f]+|[;:!?{}<>\"=]|[.,](?=\s|$)", text):
        place = 0
        for _, start, end in [*_words(span), ("", len(span), len(span))]:
            if piece := span[place:start].strip(" ,."):
                yield piece
            place = end


def _said(chain: list[str]) -> str:
    return " = ".join(side.strip() for side in chain if side.strip())


def _words(text: str, known: Collection[str] = ()) -> list[tuple[str, int, int]]:
    """Words of prose: two letters or more that are no function and no likely name."""
    found = []
    for match in re.finditer(r"[A-Za-z_][\w']*", text):
        word = match[0]
        if (
            word in FUNCTIONS
            or word in known
            or word in ("array", "tensor", "axis", "dim", "keepdims", "T", "inf")
        ):
            continue
        prose = len(word) > 2 and word.islower() and "_" not in word and not re.search(r"\d", word)
        article = word.lower() in SHORT and word != "A"
        if word == "a":  # a vector's name, unless a noun follows
            article = re.match(r"\s+[a-z]{2,}", text[match.end() :]) is not None
        if prose or article or (len(word) > 2 and word.isalpha() and word[1:].islower()):
            found.append((word, match.start(), match.end()))
    return found


def _tail(side: str, known: Collection[str]) -> str:
    """The longest end of ``side`` that is an expression."""
    words = _words(side, known)
    side = side[words[-1][2] :] if words else side
    if words and side.startswith(("(", ")", "-")):
        return ""  # "rank(B)", a function that is not known; "top-k"
    found = _longest(side, from_left=False)
    # "3 heads × 2": what is left of an expression says nothing of the whole.
    cut = re.search(r"[*/^+]\s*$", side.strip(" ,.").removesuffix(found))
    return side.strip() if cut else found


def _head(side: str, known: Collection[str]) -> str:
    """The longest beginning of ``side`` that is an expression."""
    words = _words(side, known)
    side = side[: words[0][1]] if words else side
    found = _longest(side, from_left=True)
    return "" if re.match(r"\s*[*/^]", side.strip(" ,").removeprefix(found)) else found


def _longest(text: str, from_left: bool) -> str:
    cuts = [m.start() for m in re.finditer(r"\s|,|\(|\[|$", text)]
    if from_left:
        candidates = (text[:cut] for cut in sorted({*cuts, len(text)}, reverse=True))
    else:
        candidates = (text[cut:].lstrip(", ") for cut in sorted({0, *cuts}))
    for candidate in candidates:
        clean = candidate.strip(" ,.")
        if clean and parsed(clean) is not None:
            return clean
    return ""
