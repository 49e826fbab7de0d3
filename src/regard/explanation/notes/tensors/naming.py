"""Where a note tells the shape of a tensor: in words, in lists, in tables, in formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.tensors.agreement import contradicted
from regard.explanation.notes.tensors.extents import Extents, sizes_told
from regard.explanation.notes.tensors.forms import Shape, Told, judged
from regard.explanation.notes.tensors.kinds import ONE_HEAD, kind_of, names_in, side_of

_SIZE = r"(?:\d{1,3}(?:,\d{3})+|\d+|[A-Za-z]\w*)"
_BY = rf"(?<![\w.*^/+-])(?<![*/+^=-] ){_SIZE}(?: ?\* ?{_SIZE})+(?! ?[\w*=/^+(.]*[=*/^+]|\w|\.\d)"
_TERM = r"(?:\d+|\d?[A-Za-z]\w*)(?:\s?(?://?|\*)\s?[A-Za-z]\w*)?"
_TUPLE = rf"(?:torch\.Size\()?[(\[]\s*{_TERM}(?:\s*,\s*{_TERM})+\s*,?\s*[)\]]+"
SHAPE = re.compile(
    rf"(?P<tuple>{_TUPLE})|\^\s*\(?\s*(?P<real>{_TERM}(?: ?\* ?{_TERM})+)\s*\)?|(?P<by>{_BY})"
)
"""A shape: (2, 8, 16, 16), R^(6 × 4), 16 × 16."""
_SHAPED = re.compile(r"shape|\bsize|形状|大小|尺寸|维度", re.I)
"""What says that numbers in brackets are a shape."""
_LINKS = frozenset((
    "has", "have", "had", "is", "are", "was", "of", "the", "a", "an", "shape", "shapes", "size", "sizes", "dimension", "dimensions", "with", "in",
    "each", "again", "be", "becomes", "become", "now", "then", "still", "therefore", "gives", "matrix", "matrices", "tensor", "tensors", "array", "all",
    "also", "both", "as", "well", "form", "from", "to", "will", "lies", "live", "lives", "R", "mathbb", "ℝ", "into", "would", "stays", "remains", "stay",
    "keep", "keeps", "keeping", "get", "gets", "one", "per", "head", "every", "which", "we", "at", "so", "resulting", "result", "results", "yields",
    "makes", "make", "decoder", "encoder", "layer", "block", "attention",
))  # fmt: skip
"""Words that may stand between a tensor's name and its shape."""
_ZH_LINK = re.compile(
    r"来自|解码器|编码器|形状|大小|维度|尺寸|每个|一个|起来|结果|矩阵|张量|都|也|则|就|变|成|仍|然|还|的|是|为|有|到|得|均|分别|依旧|保持|回|后|了|即|也就"
)
_FACTOR = re.compile(
    r"\s*(?:的)?\s*(?:矩阵|matrix)?\s*(?:乘|times|multipl|and an? \d|by an? |matrix is multipl|与|[@*]|\()"
)
"""What follows a shape that is a factor of a product."""
_STEP = re.compile(
    r"\bcach|缓存|decoding|\bnew (?:token|query|word)|step by step|逐步|新的?(?:词|token|查询)",
    re.I,
)
"""What speaks of one step of a generation, whose queries are fewer."""
_GIVEN = re.compile(
    r"如果|假设|假如|假定|设|若|取|\b(?:let|suppose|assum\w+|if|given|consider|take|say|with|for)\b",
    re.I,
)
"""What opens a sentence that supposes something."""
_INPUTS = frozenset(("x", "q", "k", "v", "qkv", "ids"))
_OF_IT = re.compile(
    r"\W*(?:with|which has|it has|of|这个矩阵的|它的)?\s*(?:the )?(?:shape|size|形状|大小)(?: is| of|是|为)?\s*",
    re.I,
)
"""What tells the shape of the matrix that was shown."""
_HEADING = re.compile(r"\s*#+ |\W*\*\*[^*]+\*\*\W*$")


def check_tensors(lines: Sequence[str], names: Names) -> list[Verdict]:
    """A verdict for each shape that is told of a tensor of attention and follows from what else is told."""
    tolds, sections = _collected(lines)
    for letter, value in names.program.env.items():
        if isinstance(value, int) and not isinstance(value, bool):
            for axis, number in sizes_told(f"{letter} = {value}"):
                sections.setdefault(-1, {}).setdefault(axis, set()).add(number)
    return [
        Verdict(told.line, told.said, "right", "note.right")
        if right == told.axes
        else Verdict(
            told.line, told.said, "wrong", "note.wrong", {"right": _written(right, told.said)}
        )
        for told, right in judged(tolds, sections)
        if right == told.axes or told.right or contradicted(told, tolds, sections)
    ]


def _written(shape: Shape, said: str) -> str:
    if not re.search(r"[(\[]\s*\w+\s*,", said):
        return " × ".join(shape)
    open_, close = "[]" if re.search(r"\[\s*\w+\s*,", said) else "()"
    return f"{open_}{', '.join(shape)}{close}"


def _collected(lines: Sequence[str]) -> tuple[list[Told], dict[int, Extents]]:
    """The shapes that a note tells, and the extents that it tells under each heading."""
    tolds: list[Told] = []
    sections: dict[int, Extents] = {}
    section, heading, head, intro, drawn = 0, "", "", "", ""
    shown: Shape = ()
    fenced = False
    for number, raw in enumerate(lines, 1):
        if re.match(r"\s*(?:```|~~~)", raw):
            fenced = not fenced
        if fenced:
            continue
        if _HEADING.match(raw):
            section, heading, shown = section + 1, raw, ()
        text = _plain(raw)
        here = sections.setdefault(section, {})
        told = [*sizes_told(text)]
        drawn = drawn + raw if drawn or "\\begin{" in raw else ""
        if drawn and drawn.count("\\end{") >= drawn.count("\\begin{"):
            shown, drawn = _drawn(drawn), ""
        if raw.lstrip().startswith("|"):
            head = head or text
            tolds += _of_row(Place(number, heading, section), head, text)
            told += _sizes_of_row(head, text)
        else:
            head = ""
            tolds += _of_text(Place(number, f"{heading} {intro}", section, shown), text)
            if raw.strip() and not re.match(r"\s*(?:[-*+]|\d+[.)、])\s", raw):
                intro = text
        for axis, size in told:
            here.setdefault(axis, set()).add(size)
    return tolds, sections


def _drawn(text: str) -> Shape:
    """The shape of the one matrix that a formula shows; none where it shows several."""
    found = re.findall(r"\\begin\{[pbvB]?matrix\}(.*?)\\end\{", text)
    rows = [row for row in re.split(r"\\\\", found[0]) if row.strip()] if len(found) == 1 else []
    wide = {row.count("&") + 1 for row in rows}
    return (str(len(rows)), str(wide.pop())) if len(wide) == 1 else ()


def _plain(text: str) -> str:
    text = re.sub(r"\\?mathbb\s*\{?\s*R\s*\}?", "R", re.sub(r"[`$]|\*\*", "", text))
    text = re.sub(r"(?<=\d)\{,\}(?=\d)", "", text)
    text = plain(text.replace("\\in", " ∈ ").replace("\\top", "T"))
    return re.sub(r"\s*\(T\)|\^\s*(?:\(\s*T\s*\)|T\b)", "^T", text).replace("\\", " ")


def _axes(match: re.Match[str]) -> Shape:
    text = next(filter(None, match.groups()))
    if match["tuple"]:
        return tuple(
            part.strip()
            for part in re.sub(r"torch\.Size|[()\[\]]", "", text).split(",")
            if part.strip()
        )
    return tuple(part.strip().replace(",", "") for part in text.split("*"))


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _sizes_of_row(head: str, row: str) -> Iterator[tuple[str, str]]:
    """The extents that a table tells: by the words before a number, or by its column's head."""
    heads, cells = _cells(head), _cells(row)
    for place, cell in enumerate(cells):
        if re.fullmatch(r"\d[\d,]*", cell):
            column = heads[place : place + 1] if len(heads) == len(cells) else []
            for name in (*column, *(each for each in cells[:place] if not each.isdigit())):
                yield from sizes_told(f"{name} = {cell}")


@dataclass(frozen=True)
class Place:
    """Where a shape is told."""

    line: int
    around: str
    """The heading over it and the words before it."""
    section: int
    shown: Shape = ()
    """The shape of the matrix that was shown last."""

    def told(
        self, label: str, match: re.Match[str], kind: str, shaped: str, *near: str, said: str = ""
    ) -> Iterator[Told]:
        """The shape ``match`` of what ``label`` names, unless it may be a vector instead."""
        axes = _axes(match)
        certain = not match["tuple"] or len(axes) > 3 or bool(_SHAPED.search(shaped))
        if certain or len(axes) > 2:
            side, one = side_of(label, *near, self.around), bool(ONE_HEAD.search(label))
            given = kind in _INPUTS and not said and bool(_GIVEN.search(label))
            said = said or f"{label.strip()} {match[0]}"
            yield Told(self.line, said, kind, axes, side, self.section, one, certain, given)


def _of_row(place: Place, head: str, text: str) -> Iterator[Told]:
    """The shapes in a table's row, each called by the words before it and its column's head."""
    cells, heads = _cells(text), _cells(head)
    label = ""
    for number, cell in enumerate(cells):
        match = SHAPE.fullmatch(re.sub(r"^(?:R|∈| )+(?=\^)", "", cell))
        column = heads[number] if len(heads) == len(cells) else ""
        if not match:
            label = cell if kind_of(cell) or not label else label
        elif kind := kind_of(label) or (kind_of(column) if label else ""):
            yield from place.told(label, match, kind, head, column, said=f"{label} | {cell}")


def _of_text(place: Place, text: str) -> Iterator[Told]:
    """The shapes in a line of text, each called by the name that stands next to it."""
    bare = re.sub(r"^\s*(?:#+|[-*+]|\d+[.)、]|>)\s+", "", text)
    if item := re.fullmatch(rf"([^:：]{{1,70}}?)\s*[:：]\s*({SHAPE.pattern})[\s.。;；,]*", bare):
        match = SHAPE.search(item[2])
        if match and (kind := kind_of(item[1])):
            shaped = item[1] + place.around
            yield from place.told(item[1], match, kind, shaped, said=bare.strip())
        return
    place = replace(place, around=f"{bare[:60]} {place.around}")
    for sentence in re.split(r"(?<=[。！？；;])|(?<=[.!?])\s+(?=[A-Z\[(`$*x])", bare):
        yield from _of_sentence(place, sentence)


def _of_sentence(place: Place, sentence: str) -> Iterator[Told]:
    end = 0
    for match in SHAPE.finditer(sentence):
        before, after = sentence[end : match.start()], sentence[match.end() :]
        end = match.end()
        if place.shown and match.start() < 40 and _OF_IT.fullmatch(before):
            yield Told(place.line, before + match[0], "x", _axes(match), right=place.shown)
            continue
        name = _named(before) or _named_behind(after)
        if not name or not name[0] or _FACTOR.match(after) or _STEP.search(sentence):
            continue
        kind, label = name
        if own := re.search(r"(\S+)\($" if not match["real"] else r"(?<![R∈])(\S+)\s*$", before):
            kind = kind_of(own[1].removeprefix("乘")) or kind  # "times W_O (4 × 4)"
        if not match["tuple"] or before[-1:] not in "([" or _SHAPED.search(sentence):
            yield from place.told(label, match, kind, sentence, sentence)


def _named(before: str) -> tuple[str, str] | None:
    """The tensor that is named right before a shape, with nothing but linking words between."""
    clauses = re.split(r"[,，;；:：](?![^(（]*[)）])|\band\b(?= the )", before)
    for clause in reversed(clauses):
        named, equals, rest = clause.partition("=")
        if equals and ("∈" in rest or "@" in rest) and (kind := kind_of(named)):
            return kind, named
        spoken = re.sub(r"[(（][^()（）]*[)）]", lambda m: " " * len(m[0]), clause)
        found = list(names_in(spoken))
        if found:
            return next(
                (
                    (kind, clause)
                    for kind, match in found
                    if _links(_unnamed(spoken, match.end(), found))
                ),
                None,
            )
        if not _links(clause):
            return None
    return None


def _unnamed(text: str, start: int, found: Sequence[tuple[str, re.Match[str]]]) -> str:
    """``text`` from ``start`` on without the names in it."""
    letters = list(text)
    for _, match in found:
        letters[match.start() : match.end()] = " " * (match.end() - match.start())
    return "".join(letters[start:])


def _links(text: str) -> bool:
    """Whether ``text`` only ties a name to its shape."""
    text = re.sub(r"[(（][^()（）]*[)）]", " ", text)
    text = _ZH_LINK.sub(" ", text)
    words = re.findall(r"[^\W\d]+|\d+", text)
    return all(word in _LINKS for word in words) and not re.search(r"[*/+@]", text)


def _named_behind(after: str) -> tuple[str, str] | None:
    """The tensor that is named right behind a shape: "a 16 × 16 score matrix"."""
    match = re.match(
        r"\s*(?:的)?\s*((?:[a-z-]+ ){0,2}?(?:scores?|attention|weights?|分数|注意力|权重|causal|mask|因果|掩码|下三角)[ ]?(?:weight|score|mask|分数|权重|掩码)?\s*(?:matri(?:x|ces)|mask|map|tensor|矩阵|张量|掩码)|matri(?:x|ces) of (?:attention )?(?:scores|weights))",
        after,
    )
    if not match:
        return None
    kind = kind_of(match[1])
    return (kind, match[1]) if kind else None
