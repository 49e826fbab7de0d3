"""Equations in a line: every side worked out, and compared with what is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import combinations, product

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names, value
from regard.explanation.notes.mathematics.cutting import chains, statement
from regard.explanation.notes.mathematics.parsing import (
    Node,
    NotUnderstood,
    Number,
    literal,
    names_of,
    numbers_of,
    parsed,
)
from regard.explanation.numbers import written
from regard.explanation.sheet import Floats

LONE = re.compile(r"[A-Za-z_]\w*'?")
BYTES = re.compile(r"\*1024\.0\^(\d)")
"""What ``plain`` makes of KiB, MiB, GiB."""
_PREFIXES = " KMGT"
_BEHIND = re.compile(r"(\d\$?)\s*(million\b|billion\b|万|亿|\\?%)(?=[\s,.;)$个次参。，]|$)")
"""What may stand behind a formula, for the number that it ends with."""
_TIMES = {"million": 1e6, "billion": 1e9, "万": 1e4, "亿": 1e8, "%": 0.01, r"\%": 0.01}
ABOUT = re.compile(r"≈|≃|\\approx|~=|\babout\b|\broughly\b|约")


def check_line(line: int, text: str, names: Names, *, prose: bool = True) -> list[Verdict]:
    """A verdict for each equation of ``text``; what is only defined is remembered in ``names``."""
    found: list[Verdict] = []
    about = ABOUT.search(text) is not None
    words = re.findall(_BEHIND, text)
    if len(words) != 1:
        for word, power in (("万", 4), ("亿", 8), (r"million\b", 6), (r"billion\b", 9)):
            text = re.sub(rf"(?<=\d)\s*{word}(?=[\s,.;)个次参。，]|$)", f"*10^{power} ", text)
    text = re.sub(r"(?<=\d)\s*M\b(?!i?B)(?=[\s,.;)个次参。，]|$)", "*10^6 ", text)
    units = set(re.findall(r"(?<=\d)\s*([KMGT]B|nats?|bits?)\b", text))
    if len(units) == 1 and not re.search(r"bytes?\b|字节|[KMGT]iB", text):
        text = re.sub(r"(?<=\d)\s*(?:[KMGT]B|nats?|bits?)\b", "", text)
        power = " KMGT".find(next(iter(units))[0])
        names.scales = (1000.0**power, 1024.0**power) if power > 0 else ()
    else:
        names.scales = tuple(1 / _TIMES[word] for _, word in words)  # "4 × 2.1 = 8.4 billion"
        if len(words) == 1:
            text = re.sub(_BEHIND, r"\1", text)
            names.scales = (_TIMES[words[0][1]],)
    for chain, said in chains(text, names.words) if prose else statement(text):
        if re.search(r"\b(?:sum|prod)_\w+ = ", said):
            continue  # the bounds of a sum are no sides
        try:
            verdict = _judge(line, chain, said, names, about)
        except NotUnderstood:  # of a name that this very line has made another
            continue
        if verdict:
            found.append(verdict)
    return found


def _judge(line: int, chain: list[str], said: str, names: Names, about: bool) -> Verdict | None:
    """Compares each written number with what the sides before it come to."""
    chain = [side for side in chain if side]
    if len(chain) < 2 or all(LONE.fullmatch(side.strip()) for side in chain):
        return None
    nodes = [parsed(side) if side else None for side in chain]
    if sum(node is not None for node in nodes) < 2 and not re.search(r"\d", said):
        return None
    values: list[Floats | None] = []
    for node in nodes:
        try:
            values.append(None if node is None else value(node, names))
        except NotUnderstood:
            values.append(None)
    literals = [None if node is None else literal(node) for node in nodes]
    told = [i for i, found in enumerate(literals) if found is not None]
    if chain[0].strip() == "e" and literals[1] is not None and (literals[1][1] >= 1).all():
        return None  # "e = 1, …, E" counts
    names.last = next((v for v in reversed(values) if v is not None), names.last)
    mine = {side.strip() for side in chain if LONE.fullmatch(side.strip())}
    if any(node is not None and mine & {*names_of(node)} for node in nodes if not _lone(node)):
        before = names.copy()  # s = s / 2: what is right of it is the former s
        before.told = {}
    else:
        before = names
    _define(chain, nodes, values, literals, names)
    computed = [
        i for i, v in enumerate(values)
        if v is not None and nodes[i] is not None and literals[i] is None
    ]  # fmt: skip
    if not computed:
        plain_definition = len(told) == 1 and len(chain) == 2 and _is_name(chain[0])
        if plain_definition or not re.search(r"\d", said) or not told or not any(chain):
            return None
        first = literals[told[0]]
        lone = first is not None and first[0].ndim == 0 and len(told) == len(chain) == 2
        if lone and len(set(BYTES.findall(said))) < 2:
            return None  # "1 = 0.9" is a piece of something else
        if len(told) >= 2 and len(told) == len(chain):
            return _compare_literals(line, said, literals, told)
        return Verdict(line, said, "unknown", "note.unknown")
    if not told:
        return _identity(line, said, [nodes[i] for i in computed], names)
    return _compare(
        line, said, [nodes[i] for i in computed], [literals[j] for j in told], before, about
    )


def _lone(node: Node | None) -> bool:
    return isinstance(node, tuple) and node[0] == "name"


def _compare(
    line: int,
    said: str,
    nodes: Sequence[Node | None],
    targets: Sequence[tuple[Floats, Floats] | None],
    names: Names,
    about: bool,
) -> Verdict:
    """Every side that is computed against every number that is written."""
    for node, target in product(nodes, targets):
        assert node is not None
        assert target is not None
        if _other_convention(node, target[0]):
            return Verdict(line, said, "unknown", "note.unknown")
        exact = value(node, names)
        indexed = any(re.search(r"_[ijkn]$", name) for name in names_of(node))
        if indexed or (target[0].ndim == 0 and exact.size > 1) or np.isnan(exact).any():
            return Verdict(line, said, "unknown", "note.unknown")  # "rank(B) = 1"
        wrong = differs(node, target, names, about)
        if wrong is not None and not _meant_otherwise(said, node, nodes, target, names, about):
            scaled = bool(names.scales) and np.abs(wrong / target[0]).max() > 100
            return mistake(line, said, wrong / names.scales[0] if scaled else wrong, target)
    return Verdict(line, said, "right", "note.right")


def mistake(line: int, said: str, right: Floats, target: tuple[Floats, Floats]) -> Verdict:
    """What is written is wrong: ``right`` is so."""
    row = 0
    if right.ndim == 2 and right.shape == target[0].shape:
        bad = [not close(a, b, u) for a, b, u in zip(target[0], right, target[1], strict=True)]
        row = bad.index(True) if True in bad else 0
    value_of, unit, name = right, target[1], ""
    if (found := BYTES.findall(said)) and right.ndim == 0:
        by, name = 1024.0 ** int(found[-1]), f" {_PREFIXES[int(found[-1])]}iB"
        aside = right / by < 0.01 * target[0] / by  # "8 × 12 × 2 = 213 MiB": of MiB already
        value_of, unit = right if aside else right / by, unit / by
    values = {"right": shown(np.asarray(value_of), np.asarray(unit)) + name}
    return Verdict(line, _with_bytes(said), "wrong", "note.wrong", values, row)


def _with_bytes(said: str) -> str:
    return BYTES.sub(lambda found: f" {_PREFIXES[int(found[1])]}iB", said)


def _meant_otherwise(
    said: str,
    node: Node,
    nodes: Sequence[Node | None],
    target: tuple[Floats, Floats],
    names: Names,
    about: bool,
) -> bool:
    """Whether a number's name has another value here: one said before, or one said by a side.

    After "the base model has d = 512, the big one d = 1024", √d = √512 = 22.63 is no mistake.
    """
    for log in ("log", "log2", "log10"):
        other = _by_other_rules(node, log)
        if other != node and _agrees(other, target, names, about):
            return True
    if any(_agrees(node, (target[0] * by, target[1] * by), names, about) for by in names.scales):
        return True
    if "*10^" in said and any(  # "4 × 2.147 = 8.59 billion": of billions already
        _agrees(node, (target[0] / 10.0**p, target[1] / 10.0**p), names, about)
        for p in (4, 6, 8, 9)
    ):
        return True
    if BYTES.search(said) and any(  # 96 KiB / 16 = 6 KiB: units may stand aside
        _agrees(node, (target[0] / 1024.0**p, target[1] / 1024.0**p), names, about)
        for p in range(1, 5)
    ):
        return True
    mine = names_of(node)
    if not mine or any(names.values[name].ndim for name in mine if name in names.values):
        return False
    plain_sides = [each for each in nodes if each is not None and not names_of(each)]
    if any(differs(each, target, names, about) is None for each in plain_sides):
        return True
    return any(differs(node, target, other, about) is None for other in names.meanings(mine))


def _agrees(node: Node, target: tuple[Floats, Floats], names: Names, about: bool) -> bool:
    try:
        return differs(node, target, names, about) is None
    except NotUnderstood:
        return False


def _by_other_rules(node: Node, log: str) -> Node:
    """``node`` with the variance of a sample, as torch has it, and powers of whole matrices.

    ``log`` is what its logarithms are.
    """
    if isinstance(node, Number):
        return node
    if node[0] == "call" and node[1] in ("var", "std"):
        return ("call", f"sample_{node[1]}", *node[2:])
    if node[0] == "^":
        return ("^^", *(_by_other_rules(part, log) for part in node[1:]))
    if node[:2] == ("call", "log"):
        node = ("call", log, *node[2:])
    return tuple(
        _by_other_rules(part, log) if isinstance(part, Number | tuple)
        else [_by_other_rules(each, log) for each in part] if isinstance(part, list)
        else part
        for part in node
    )  # fmt: skip


def _other_convention(node: Node, claimed: Floats) -> bool:
    """PE(position, width) is a vector; one number of it was meant by another's PE(position, i)."""
    return isinstance(node, tuple) and node[:2] == ("call", "PE") and claimed.ndim == 0


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*'?(?:\([\w, ]*\))?", text.strip()) is not None


def _is_product(name: str, names: Names) -> bool:
    """``AV``, where A and V are matrices."""
    try:
        parts = names.split(name)
    except NotUnderstood:
        return False
    found = [names.find(part) for part in parts]
    return len(parts) > 1 and all(part is not None and part.ndim for part in found)


def _define(
    chain: list[str],
    nodes: list[Node | None],
    values: list[Floats | None],
    literals: list[tuple[Floats, Floats] | None],
    names: Names,
) -> None:
    """Remembers what a lone name stands for."""
    for i, side in enumerate(chain):
        name = side.strip()
        bound = name in ("e", "T") and name not in names.values
        if not LONE.fullmatch(name) or bound or _is_product(name, names):
            continue
        rest = [j for j in range(len(chain)) if j != i]
        # What is computed is exact; what is only written is taken at its word.
        source = next(
            (j for j in rest if values[j] is not None and literals[j] is None
             and (not LONE.fullmatch(chain[j].strip()) or _is_product(chain[j].strip(), names))), None
        )  # fmt: skip
        written_out = next((j for j in rest if literals[j] is not None), None)
        if source is not None:
            multiple = re.fullmatch(r"\s*\d+ ?d(?:_\w+)?\s*", chain[source]) is not None
            known = name in names.values and np.asarray(values[source]).ndim == 0
            if known and (len(chain) == 2 or multiple):
                nodes[i] = None  # "equal at n = 2d" tells nothing of this n
                continue
            names.tell(name, np.array(values[source]))
        elif written_out is not None:
            found = literals[written_out]
            assert found is not None
            before = names.values.get(name)
            given = name in names.units  # it was written itself, and may be written anew
            if before is not None and before.ndim and before.shape == found[0].shape and not given:
                same = np.abs(before - found[0]) <= 0.5 * found[1] + 1e-9
                if 2 * same.sum() > same.size:  # the same again: a claim
                    continue
            names.tell(name, *found)
        elif values[rest[0]] is None:
            names.values.pop(name, None)  # it has become something that is not understood
            continue
        else:
            continue
        values[i] = nodes[i] = None


def differs(
    node: Node, target: tuple[Floats, Floats], names: Names, about: bool = False
) -> Floats | None:
    """The right value, where ``target`` is not ``node``'s as far as its digits go; else None."""
    claimed, unit = target
    exact = value(node, names)
    if exact.shape != claimed.shape:
        if exact.size == claimed.size:
            exact = exact.reshape(claimed.shape)
        else:
            return exact
    if close(claimed, exact, unit, about):
        return None
    # What stands in the sum may have been rounded itself.
    sums_to_one = claimed.ndim == 0 and float(claimed) == 1
    curved = isinstance(node, tuple) and node[:2] in (("call", "softmax"), ("call", "exp"))
    least = 1e-2 if sums_to_one or curved or _has_weights(node, names) else 1e-3
    slack = np.zeros(claimed.shape)
    for seed in range(12):
        random = np.random.default_rng(seed)

        def shake(number: Floats, one: Floats, random: np.random.Generator = random) -> Floats:
            step = np.where(one <= least * 1.001, one, 0.0)
            return np.asarray(number + step * random.choice([-0.5, 0.5], size=number.shape))

        try:
            moved = value(node, names, shake).reshape(claimed.shape)
        except NotUnderstood:
            return exact
        slack = np.maximum(slack, np.abs(moved - exact))
    within = np.abs(claimed - exact) <= 1.5 * slack + 0.5 * unit
    return None if bool(within.all()) and bool((slack > 0).any()) else exact


def _has_weights(node: Node, names: Names) -> bool:
    """Whether numbers of two decimals in ``node`` sum to 1: weights, rounded for the reader."""
    shares = [n.value for n in numbers_of(node) if n.unit == 0.01 and 0 <= n.value <= 1]
    if len(shares) > 1 and any(
        abs(sum(part) - 1) < 0.021 for size in range(2, len(shares) + 1)
        for part in combinations(shares[:8], size)
    ):  # fmt: skip
        return True
    return any(
        array.ndim and bool((np.abs(array.sum(-1) - 1) < 0.021).all())
        for array in (names.values[name] for name in names_of(node) if name in names.values)
    )


def close(claimed: Floats, exact: Floats, unit: Floats, about: bool = False) -> bool:
    """Rounded or cut off at the last written digit; whole numbers must be exact, or nearly."""
    whole = (unit == 1) & (np.abs(exact) < 1e3) & (not about)
    tolerance = np.where(whole, 1e-9 + 1e-9 * np.abs(exact), 0.5 * unit * (1 + 1e-6) + 1e-12)
    round_number = (unit == 1) & (np.abs(claimed) >= 1e4) & (claimed % 1e4 == 0)
    tolerance = np.where(round_number, 5e3, tolerance)  # $690,000
    rounded = np.abs(claimed - exact) <= tolerance
    cut = ~whole & (np.abs(np.trunc(exact / unit * (1 + 1e-9)) * unit - claimed) < 1e-6 * unit)
    return bool((rounded | cut).all())


def _compare_literals(
    line: int, said: str, literals: list[tuple[Floats, Floats] | None], told: list[int]
) -> Verdict | None:
    first = literals[told[0]]
    assert first is not None
    for j in told[1:]:
        other = literals[j]
        assert other is not None
        if first[0].shape != other[0].shape:
            return Verdict(line, said, "unknown", "note.unknown")
        same = np.abs(first[0] - other[0]) <= np.maximum(first[1], other[1])
        if 2 * same.sum() < same.size and same.ndim:
            return Verdict(line, said, "unknown", "note.unknown")  # "of [1, 2] it is [0.3, 0.7]"
        if not bool(same.all()):
            return mistake(line, said, first[0], other)
    return Verdict(line, said, "right", "note.right")


def _identity(line: int, said: str, nodes: Sequence[Node | None], names: Names) -> Verdict | None:
    """Two computed sides, no number written out."""
    sides = [node for node in nodes[:2] if node is not None]
    if len(sides) < 2:
        return None
    mine = [name for side in sides for name in names_of(side)]
    for meaning in (names, *names.meanings(mine)):
        first, second = (value(side, meaning) for side in sides)
        if first.shape == second.shape and np.allclose(first, second, rtol=1e-6, atol=1e-9):
            return Verdict(line, said, "right", "note.right")
    return None  # "4nd² = 2n²d" is there to be solved, "W^T = W^(-1)" is said of another W


def shown(exact: Floats, unit: Floats) -> str:
    """The right value as exactly as it was claimed, and with a digit more where that says more."""
    smallest = float(np.min(unit)) if np.size(unit) else 1e-4
    exact = np.where(np.abs(exact) < 1e-9 * smallest, 0.0, exact)  # 0.15 − 0.10 − 0.05
    if smallest >= 1 or smallest < 1e-6 or not np.isfinite(exact).all():
        return _rows(exact, lambda x: written(x, 4 if smallest >= 1 else 6))
    digits = round(-np.log10(smallest))
    short = _rows(exact, lambda x: f"{x:.{digits}f}".replace("-", "−"))
    exactly = _rows(exact, lambda x: written(x, digits + 1))
    same = np.abs(np.round(exact, digits) - np.round(exact, digits + 1)) < 0.01 * smallest
    return short if bool(same.all()) else f"{exactly} ≈ {short}"


def _rows(array: Floats, write: Callable[[float], str]) -> str:
    if array.ndim == 0:
        return write(float(array))
    return f"[{', '.join(_rows(part, write) for part in array)}]"
