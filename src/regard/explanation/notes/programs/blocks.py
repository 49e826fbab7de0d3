"""Code blocks: what a program makes and prints, against what its comments and its output say.

The program is followed by ``programs``, which runs nothing.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.equations import shown
from regard.explanation.notes.mathematics.parsing import NotUnderstood
from regard.explanation.notes.programs.arrays import Ghost, Value, array, has_ghost, shape_of
from regard.explanation.notes.programs.evaluating import Made, Text
from regard.explanation.notes.programs.statements import FAULTS
from regard.explanation.notes.tensors.layouts import compared, split_shape

_NUMBER = re.compile(
    r"(?<![\w.])-?(?:\d[\d,]*\d(?=\D|$)|\d)?(?:(?<=\d)\.\d*|(?<!\d)\.\d+)?(?:(?<=[\d.])e[-+]?\d+)?(?<=[\d.])(?!\w)|(?<!\w)-?inf\b|(?<!\w)nan\b"
)
_NO_NUMBER = re.compile(
    r"dtype=[\w.]+|device='[^']*'|grad_fn=<\w+>|torch\.(?:float|int)\d+|size=\(.*?\)"
)
_OUTPUT = re.compile(
    r"^\s*(?P<sign>(?:=>|->|→|=|≈|Output:?|Out\[\d+\]:|输出[:：]?|结果[:：]?|prints?:?|打印[:：]?|gives|>>>)\s*)?"
    r"(?P<value>(?:(?:tensor|array|torch\.Size|Size|tensor\()\(?)?\s*[\[(]*\s*(?:-?\d|-?\.\d|-?inf|nan|\[|\().*)$"
)
_STEP = re.compile(
    r"\(\d+\)|\d+(?:\.\d+)? ?(?:(?:sec|min|hour|day|week|month|year|epoch)\w*|ms|[KMGT]i?B|秒|分钟|小时|天|轮)",
    re.I,
)
"""The number of a step, or an amount in a unit of its own: "12 * 60  # 12 minutes"."""
_OF_SHAPE = re.compile(r"\.(?:shape|size\(\))\)?$")
"""What is a shape, however much of it is said wrongly."""
_ROWS = re.compile(r"\s*(?:tensor\(|array\()?\[[-\d\[]")
"""Rows of an array."""
_SHAPE = re.compile(
    r"^\W*(?P<words>(?:[A-Za-z_' ]{1,20}[:：]?\s+)?)(?:(?:the |its )?(?:shape|size)\s*(?:is|:|=|of)?|形状\s*[为是:：]?|->|→|=>)?\s*(?:torch\.Size\(\[(?P<size>[^\]]*)\]\)|\((?P<plain>\w[\w ×x*/]*,[\w, ×x*/]*)\)|\[(?P<list>\w+(?:, ?\w+)+)\](?=\s*(?:$|[—:：-]))|(?P<by>\d+(?:\s*[×x]\s*\d+)+)(?![\w.]))\s*(?:$|[,，;；:：.。=(（—-]|\s[\u4e00-\u9fff(a-zQKV])"
)


@dataclass(frozen=True)
class Shown:
    """A line of a program's output, or of a comment that says it."""

    line: int
    text: str


def parsed_block(code: str) -> tuple[list[ast.stmt], str]:
    """The statements of a block, prompts and a notebook's commands left out; none where it has none."""
    lines = code.split("\n")
    if any(line.lstrip().startswith(">>>") for line in lines):  # what has no prompt was printed
        lines = [
            re.sub(r"^\s*(?:>>>|\.\.\.) ?", "", line) if re.match(r"\s*(?:>>>|\.\.\.)", line)
            else f"# {line}" if line.strip() else ""
            for line in lines
        ]  # fmt: skip
    lines = ["" if re.match(r"\s*[!%]", line) else line for line in lines]
    for _ in range(5):  # a line that is no Python is left out
        code = "\n".join(lines)
        try:
            return ast.parse(code).body, code
        except SyntaxError as error:
            if not error.lineno or error.lineno > len(lines):
                break
            lines[error.lineno - 1] = ""
        except (ValueError, RecursionError):
            break
    return [], code


def check_block_of_code(
    first: int, code: str, names: Names
) -> tuple[list[Verdict], list[Made], list[Shown]]:
    """The verdicts of a block whose first line is line ``first``.

    With them comes what it prints without saying it in a comment, and the comments that are no
    output.
    """
    tree, code = parsed_block(code)
    given: dict[str, Value] = {
        name: value if value.ndim else float(value) if value % 1 else int(value)
        for name, value in names.values.items()
        if value.ndim or np.isfinite(value)
    }
    made = names.program.read(tree, code, first, given)
    _tell(tree, names)
    found: list[Verdict] = []
    printed = [each for each in made if each.printed]
    spoken: list[Shown] = []
    for line, comments in _comments(first, code, tree):
        here = [each for each in made if each.line == line]
        here = [each for each in here if each.printed] or here
        verdicts = _against(comments, here, names) if here else None
        if verdicts is None:
            spoken += [each for each in comments if not _ROWS.match(each.text)]
        else:
            found += verdicts
            printed = [each for each in printed if each not in here]
    last = made[-1:]
    if (
        last
        and not last[0].printed
        and tree
        and isinstance(tree[-1], ast.Expr)
        and not isinstance(tree[-1].value, ast.Constant)
    ):
        printed += last  # a notebook shows a cell's last expression
    return found, printed, spoken


def _tell(tree: Sequence[ast.stmt], names: Names) -> None:
    """From here on the note's names are what its program has made of them."""
    stored = {
        each.id
        for node in tree if not isinstance(node, ast.FunctionDef | ast.ClassDef)
        for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }  # fmt: skip
    for name in sorted(stored):
        value = names.program.env.get(name, NotUnderstood)
        if isinstance(value, Ghost):
            names.values.pop(name, None)
            names.shapes[name] = tuple(map(str, value.shape))
            continue
        try:
            found = (
                array(value) if isinstance(value, int | float | list | tuple | np.ndarray) else None
            )
        except (NotUnderstood, ValueError):
            found = None
        if found is not None and found.dtype.kind in "fiu" and found.size <= 10_000:
            names.tell(name, found.astype(float))
            names.shapes[name] = tuple(map(str, found.shape))
        else:
            names.values.pop(name, None)
            names.shapes.pop(name, None)


def _comments(first: int, code: str, tree: Sequence[ast.stmt]) -> Iterator[tuple[int, list[Shown]]]:
    """Each statement's last line, with the comment behind it and those below it."""
    group: list[Shown] = []
    owner = 0
    for offset, line in enumerate(code.split("\n")):
        bare, sign, comment = _cut(line)
        if bare.strip():
            if group:
                yield owner, group
            owner, group = first + offset, []
        elif not sign:  # an empty line parts what is printed from what comes next
            if group:
                yield owner, group
            owner, group = 0, []
        if sign:
            group.append(Shown(first + offset, comment.strip()))
    if group:
        yield owner, group


def _cut(line: str) -> tuple[str, str, str]:
    """A line's code, its ``#`` and its comment; a ``#`` in quotes is none."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter == "#":
            return line[:place], "#", line[place + 1 :]
    return line, "", ""


def numbers_in(text: str) -> list[str]:
    """The numbers of an output as they are written."""
    return [match[0] for match in _NUMBER.finditer(_NO_NUMBER.sub(" ", text)) if match[0]]


def expected(value: Value) -> list[float]:
    """The numbers that a value's print holds, in order; NaN for those that nobody knows."""
    if isinstance(value, Text):
        return [number for part in value.parts for number in expected(part)]
    if isinstance(value, str):
        return [float(text.replace(",", "")) for text in numbers_in(value)]
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, dict):
        return [number for pair in value.items() for part in pair for number in expected(part)]
    if isinstance(value, Ghost):
        return [math.nan] * math.prod(value.shape) if math.prod(value.shape) <= 400 else _too_many()
    if isinstance(value, list | tuple):
        return [number for part in value for number in expected(part)]
    if isinstance(value, int | float | np.ndarray | np.generic):
        found = np.asarray(value)
        if found.dtype == bool:
            return []
        return [float(number) for number in found.reshape(-1)] if found.size <= 400 else _too_many()
    return _too_many()


def _too_many() -> list[float]:
    raise NotUnderstood("it prints what is not known")


def fits(text: str, right: float) -> bool:
    """Whether a number of an output is ``right``, rounded or cut off at its last digit."""
    if math.isnan(right) or "nan" in text:
        return True
    claimed = float(text.replace(",", ""))
    if not math.isfinite(right) or not math.isfinite(claimed):
        return claimed == right
    mantissa, _, power = text.partition("e")
    unit = 10.0 ** (int(power or 0) - len(mantissa.partition(".")[2]))
    slack = 3e-7 * abs(right) + 1e-7 if "." in text else 1e-6
    rounded = abs(claimed - right) <= 0.5 * unit * ("." in text or "e" in text) + slack
    return rounded or (
        "." in text and abs(math.trunc(right / unit * (1 + 1e-9)) * unit - claimed) < 1e-6 * unit
    )


def _against(comments: list[Shown], made: Sequence[Made], names: Names) -> list[Verdict] | None:
    """What is said of comments that tell what ``made`` is; None where they tell something else."""
    whole = " ".join(each.text for each in comments)
    if len(made) == 1 and (verdicts := _shape(comments[0], made[0], names)):
        return verdicts
    texts = [each.value for each in made if isinstance(each.value, Text | str)]
    match = _OUTPUT.match(whole)
    if all(re.fullmatch(r"-?[\d.e]+", each.text) and not each.printed for each in made):
        return None  # "size = 4  # 8" tells another choice
    printed = any(each.printed for each in made)
    if (not match and not texts) or (_STEP.fullmatch(comments[0].text) and not printed):
        return None
    if re.search(r"\d\s*[*×/+^]\s*\d|\.\.\.|…", whole):
        return None
    try:
        right = [number for each in made for number in expected(each.value)]
    except NotUnderstood:
        return None
    told = [(each.line, text) for each in comments for text in numbers_in(each.text)]
    if len(told) != len(right) or not told:
        if len(comments) > 1:  # the first says it, the next says something else
            return _against(comments[:-1], made, names)
        value = _leading(match["value"]) if match else ""
        told = [(comments[0].line, text) for text in numbers_in(value)]
        if len(told) != len(right) or not told:
            return None
    return _compared(told, right, made, " ".join(each.text for each in comments))


def _leading(text: str) -> str:
    """The number or the array that ``text`` begins with."""
    if re.match(r"[a-zA-Z.]*[\[(]", text):
        depth = 0
        for place, letter in enumerate(text):
            depth += (letter in "([") - (letter in ")]")
            if depth == 0 and letter in ")]":
                return text[: place + 1]
    number = re.match(
        r"-?[\d,]*\.?\d+(?:e[-+]?\d+)?(?=$|\s*[,，;；(（:：。—]|\s+[^\d\s*×/+^=-])", text
    )
    return number[0] if number else ""


def _compared(
    told: list[tuple[int, str]], right: list[float], made: Sequence[Made], said: str
) -> list[Verdict]:
    """A verdict for numbers in order; the right value is that of the array they stand in."""
    place, found = 0, []
    for each in made:
        mine = expected(each.value)
        rows = told[place : place + len(mine)]
        if not rows:
            continue
        claim = f"{each.text} = {' '.join(text for _, text in rows)}"
        bad = [i for i, (_, text) in enumerate(rows) if not fits(text, mine[i])]
        known = any(not math.isnan(number) for number in mine)
        if (
            bad
            and len(mine) - len(bad) >= len(bad) - 1
            and (len(bad) < 3 or 3 * len(bad) < len(mine))
        ) or (bad and (len(mine) == 1 or _OF_SHAPE.search(each.text))):
            line = rows[bad[0]][0]
            so = _right(rows, mine, bad)
            so = f"({so.strip('[]')})" if isinstance(each.value, tuple) else so
            found.append(Verdict(line, claim, "wrong", "note.wrong", {"right": so}))
        elif bad:
            found.append(Verdict(rows[bad[0]][0], claim, "unknown", "note.unknown"))
        elif known:
            found.append(Verdict(rows[0][0], claim, "right", "note.right"))
        place += len(mine)
    return found


def _right(rows: list[tuple[int, str]], mine: list[float], bad: list[int]) -> str:
    """The right numbers of the line of the first wrong one."""
    line = rows[bad[0]][0]
    mine_here = [(text, mine[i]) for i, (where, text) in enumerate(rows) if where == line]
    if len(mine_here) > 12 or len(mine) == 1:
        mine_here = [(rows[i][1], mine[i]) for i in bad[:4]]
    digits = max(len(text.partition(".")[2].partition("e")[0]) for text, _ in mine_here)
    if len(mine_here) > 1:
        return shown(np.array([x for _, x in mine_here]), np.asarray(10.0**-digits))
    text, x = mine_here[0]
    return f"{x:,.0f}" if "," in text else shown(np.asarray(x), np.asarray(10.0**-digits))


_INLINE = re.compile(
    r"`(?P<code>[^`]+)`\s*(?:is|gives|returns|equals|prints|has shape|会?(?:得到|返回|给出|输出|打印)|的?(?:结果|形状|值)?(?:是|为)|=|→|->)+\s*`?(?P<value>(?:torch\.Size\()?[\[(][-\d., \[\]()]*[\])]|-?\d[\d.,]*\d|\d)`?(?!\s*[@*×/+])"
)


def check_inline(line: int, text: str, names: Names) -> list[Verdict]:
    """A verdict for each piece of code in a sentence whose value stands behind it."""
    found: list[Verdict] = []
    for match in _INLINE.finditer(text):
        try:
            tree = ast.parse(match["code"].strip(), mode="eval").body
            value = names.program.value(tree, names.program.env)
        except (*FAULTS, SyntaxError):
            continue
        if isinstance(value, Ghost | np.ndarray) and re.search(r"shape|形状", match[0]):
            value = shape_of(value)
        made = Made(line, match["code"], value)
        found += _against([Shown(line, match["value"])], [made], names) or []
    return found


def _shape(comment: Shown, made: Made, names: Names) -> list[Verdict] | None:
    """A verdict where a comment tells the shape of what a statement makes."""
    match = _SHAPE.match(comment.text)
    value = made.value
    if isinstance(value, tuple) and len({each for each in value if isinstance(each, Ghost)}) == 1:
        value = value[0]  # "each (2, 10, 64)"
    if not match or not isinstance(value, Ghost | np.ndarray) or not shape_of(value):
        return None
    if (
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and not match["size"]
        and value.size == len(numbers_in(match[0]))
    ):
        return None  # they are its numbers
    claimed = split_shape(match["size"] or match["plain"] or match["list"] or match["by"])
    if len(claimed) != len(shape_of(value)) and (match["words"].strip() or not has_ghost(value)):
        return None
    said = f"{made.text}: {comment.text}"
    verdict = compared(comment.line, said, claimed, tuple(map(str, shape_of(value))), names)
    return [verdict] if verdict else None


def check_printed(first: int, text: str, printed: Sequence[Made]) -> list[Verdict] | None:
    """The verdicts of an output block after the program that prints ``printed``.

    None where the two cannot be laid side by side.
    """
    lines = [Shown(first + i, line) for i, line in enumerate(text.split("\n"))]
    lines = [
        replace(each, text=re.sub(r"^\s*(?:>>>.*|Out\[\d+\]:)", "", each.text)) for each in lines
    ]
    told = [(each.line, number) for each in lines for number in numbers_in(each.text)]
    only = [each for each in printed if each.printed] or list(printed)
    for made in (list(printed), only):
        try:
            right = [number for each in made for number in expected(each.value)]
        except NotUnderstood:
            continue
        if len(right) == len(told) and told and "..." not in text:
            return _compared(told, right, made, text)
    found: list[Verdict] = []
    for each in only:
        label = _label(each.value)
        places = [i for i, line in enumerate(lines) if label and label in line.text]
        if len(places) != 1:
            continue
        try:
            right = expected(each.value)
        except NotUnderstood:
            continue
        rest = [
            (line.line, number) for line in lines[places[0] :] for number in numbers_in(line.text)
        ]
        if len(rest) >= len(right) and right:
            found += _compared(rest[: len(right)], right, [each], text)
    return found or None


def _label(value: Value) -> str:
    """The words that a print begins with."""
    first = value
    while isinstance(first, Text):
        first = first.parts[0] if first.parts else ""
    return first.strip() if isinstance(first, str) and len(first.strip()) > 2 else ""
