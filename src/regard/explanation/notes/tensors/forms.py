"""Which shapes the tensors of attention may have.

A note tells shape after shape: of the input, of Q, K and V, of the scores, of what comes out.  Each is
laid beside the extents that the note tells (``extents``) and beside its other shapes; it is wrong
where its tensor is named without doubt and none of that tensor's forms has it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from regard.explanation.notes.tensors.extents import LETTERS, Extents, axes_called, with_derived

Shape = tuple[str, ...]
"""A number, a letter or a small expression for each axis."""

FORMS: Mapping[str, tuple[str, ...]] = {
    "ids": ("i", "Bi", "iB"),
    "x": ("id", "Bid", "iBd", "1id", "d"),
    "out": ("id", "iv", "Bid", "Biv", "iBd", "hiv", "Bhiv", "Bihv", "d"),
    "product": ("iv",),
    "q": ("ik", "id", "Bid", "Bik", "iBd", "Bhik", "Bihk", "hik", "ihk", "Hik"),
    "k": ("jk", "jd", "Bjd", "Bjk", "BjG", "jBd", "Bgjk", "Bjgk", "gjk", "jgk", "Hjk", "Bhjk", "hjk"),
    "v": ("jv", "jd", "Bjd", "Bjv", "BjG", "jBd", "Bgjv", "Bjgv", "gjv", "jgv", "Hjv", "Bhjv", "hjv"),
    "qkv": ("ik", "id", "Bid", "Bik", "iBd", "Bhik", "Bihk", "hik", "ihk", "Hik"),
    "split": ("hik", "ihk", "Bhik", "Bihk", "Hik", "ik"),
    "turned": ("hik", "Bhik"),
    "fused": ("i3", "Bi3", "d3", "3d", "Bi3hk", "3Bhik"),
    "transposed": ("kj", "dj", "Bkj", "Bdj", "hkj", "gkj", "Bhkj", "Bgkj", "Hkj"),
    "x transposed": ("di", "Bdi"),
    "scores": ("ij", "Bij", "hij", "Bhij", "Hij"),
    "mixed": ("iv", "id", "hiv", "ihv", "Biv", "Bid", "Bhiv", "Bihv", "Hiv"),
    "head": ("iv", "hiv", "ihv", "Biv", "Bhiv", "Bihv"),
    "merged": ("iD", "BiD", "iBD"),
    "hidden": ("if", "Bif", "iBf"),
    "logits": ("iV", "BiV", "iBV", "V", "BV", "B1V"),
    "weight": ("dd", "dk", "dv", "dG", "hdk", "hdv"),
    "W_O": ("Dd", "dd", "vd"),
    "matrix": ("id", "iv", "dd", "Dd"),
    "W_1": ("df",),
    "W_2": ("fd",),
    "torch W": ("dd", "kd"),
    "torch W_1": ("fd",),
    "torch W_2": ("df",),
    "torch qkv": ("3d",),
    "table": ("Vd",),
    "positions": ("id", "1id", "Pd", "1Pd", "Bid", "nd"),
    "mask": ("ij", "Bij", "1ij", "11ij", "B1ij", "B11j", "Bj", "Bi", "Bhij", "hij", "1j", "11j"),
    "causal": ("ij", "1ij", "11ij"),
}  # fmt: skip
"""The forms that each tensor may have, the usual ones first, an axis a letter."""


@dataclass(frozen=True)
class Told:
    """The shape that a note tells of one tensor."""

    line: int
    said: str
    kind: str
    axes: Shape
    side: str = ""
    """Of the encoder (s), of the decoder (t), between them (ts), or not said."""
    section: int = 0
    one_head: bool = False
    certain: bool = True
    """Whether it is said to be a shape."""
    given: bool = False
    """Whether it is only supposed: "let X be 3 × 2"."""
    right: Shape = ()
    """The shape that is right, where the note has shown the matrix itself."""

    @property
    def square(self) -> bool:
        """Whether it is a square of scores, which tells how many tokens there are."""
        return self.kind in ("scores", "causal") and len(set(self.axes)) == 1


def judged(tolds: Sequence[Told], sections: Mapping[int, Extents]) -> Iterator[tuple[Told, Shape]]:
    """Each shape that can be judged, with the one that is right: its own where it is."""
    letters = _letters(tolds)
    turned = Counter(_turned(told) for told in tolds)
    for told in tolds:
        if told.given or (len(told.axes) == 2 and turned[True] >= max(turned[False], 1)):
            continue  # its columns are the tokens
        if told.right:
            yield told, told.right
            continue
        near = [each for each in tolds if each is not told and each.section == told.section]
        far = [each for each in tolds if each is not told and each.section != told.section]
        known = _known(told, sections, near, far, letters)
        bare = replace(told, kind="product") if _bare(told, near) else told
        if right := _right(bare, known):
            yield told, right


def _bare(told: Told, near: Sequence[Told]) -> bool:
    """Whether it is the output of one head that nothing follows: as wide as its values."""
    kinds = {each.kind for each in near}
    return (
        told.kind == "out"
        and len(told.axes) == 2
        and not kinds & _AFTER_HEADS
        and bool(kinds & {"v", "qkv"})
    )


def _turned(told: Told) -> bool | None:
    """Whether a matrix of tokens has them as its columns; None where it does not tell."""
    if told.kind not in ("x", "q", "k", "v", "qkv") or len(told.axes) != 2:
        return None
    rows, columns = (axes_called(size) for size in told.axes)
    if not rows or not columns or rows & columns:
        return None
    return "n" in columns


def _letters(tolds: Sequence[Told]) -> dict[str, list[str]]:
    """The letters that this note has for each axis, those used most first."""
    used = Counter(size for told in tolds for size in told.axes if not size.isdigit())
    found: dict[str, list[str]] = {}
    for axis in AXES:
        for name in _ALIKE.get(axis, axis):
            letters = [size for size, _ in used.most_common() if name in axes_called(size)]
            if letters:
                found[axis] = sorted(letters, key=lambda size: size not in LETTERS.get(name, ()))
                break
    return found


@dataclass(frozen=True)
class Known:
    """What the axes may be where a shape stands."""

    here: Extents
    """What its section tells, and where that tells nothing, what its note tells."""
    ever: Extents
    """Whatever the note tells anywhere."""
    letters: Mapping[str, Sequence[str]]
    side: str
    around: frozenset[str]
    """The sizes of the other shapes of its section."""


def _union(sections: Iterable[Extents]) -> Extents:
    found: Extents = {}
    for extents in sections:
        for axis, values in extents.items():
            found.setdefault(axis, set()).update(values)
    return found


def _known(
    told: Told, sections: Mapping[int, Extents], near: Sequence[Told], far: Sequence[Told],
    letters: Mapping[str, Sequence[str]],
) -> Known:  # fmt: skip
    """What the axes may be where ``told`` stands."""
    here = sections.get(told.section, {})
    start = told.section if len(told.axes) > 2 else 2  # a matrix may be one of a small example
    before = _union(extents for section, extents in sections.items() if section < start)
    whole = _union(sections.values())
    follows = with_derived(here)
    kept = {
        axis: follows[axis]
        for axis in "dkv"
        if follows[axis] and (axis != told.kind or len(told.axes) > 2)
    }
    first = {
        axis: set(here.get(axis) or kept.get(axis) or before.get(axis) or ())
        for axis in (*LETTERS, "s", "t", *whole)
    }
    every = {axis: {*first[axis], *whole.get(axis, ())} for axis in first}
    for tolds in (near, near, far):  # what the first round has found makes the second surer
        for axis, counted in _votes(tolds, with_derived(first), letters).items():
            if axis in _OTHERS_ROWS.get(told.kind, ""):
                continue
            length = "n" if axis in "ij" else axis
            sure = {value for value, count in counted.items() if count > 1}
            every[length] = every.get(length, set()) | sure
            if tolds is near or not first.get(length):
                first[length] = first.get(length, set()) | sure
    found, ever = with_derived(first), with_derived(every)
    if told.kind == "v" and len(told.axes) == 2:  # values are as wide as they like
        found["v"], ever["v"] = first.get("v", set()), every.get("v", set())
    rows, columns = (
        {value for each in near if each.kind in kinds and each.side in ("", "ts") for form in forms_of(each)[:1]
         for axis, value in zip(form, each.axes, strict=True) if axis == name}
        for kinds, name in (("q", "i"), (("k", "v"), "j"))
    )  # fmt: skip
    side = told.side
    if rows and columns and not rows & columns:
        numbers = not (found["s"] or found["t"])
        side = side or "ts"
        for each in (found, ever):
            for sizes, of in ((rows, "t"), (columns, "s")):
                meant = sizes.union(*(each.get(f"={size}", ()) for size in sizes))
                each[of] = each[of] | {size for size in meant if numbers or not size.isdigit()}
    around = frozenset(size for each in near for size in each.axes)
    small = len(told.axes) == 2 and len(near) < 3  # one of several small examples, it may be
    return Known(found, ever if small else found, letters, side, around)


def _votes(
    tolds: Iterable[Told], known: Extents, letters: Mapping[str, Sequence[str]]
) -> dict[str, Counter[str]]:
    """What other shapes say of each axis; those of inputs, queries, keys and values count twice."""
    found: dict[str, Counter[str]] = {}
    for told in tolds:
        if not all(size.isdigit() for size in told.axes):
            continue
        choices = _sided(told.side, known)
        fitting = [
            form
            for form in forms_of(told)
            if any(not _misses(form, told.axes, each, letters) for each in choices)
        ]
        for place, size in enumerate(told.axes):
            axes = {form[place] for form in fitting}
            if len(axes) == 1:
                axis = next(iter(axes))
                own = axis if told.kind in ("q", "k", "v") else "n"
                axis = {"i": told.side[:1] or own, "j": told.side[-1:] or own, "D": "d"}.get(
                    axis, axis
                )
                weight = 2 if told.kind in ("q", "k", "v", "qkv", "x", "ids") or told.square else 1
                found.setdefault(axis, Counter())[size] += weight
    return found


def forms_of(told: Told) -> list[str]:
    """The forms that the shape of ``told`` may have."""
    forms = [form for form in FORMS[told.kind] if len(form) == len(told.axes)]
    if told.one_head and len(told.axes) == 2:
        return [form for form in forms if "d" not in form or told.kind in ("weight", "x")] or forms
    return forms


def _sided(side: str, known: Extents) -> list[Extents]:
    """The lengths of queries and keys that a side admits, pair by pair."""
    source, target = known["s"] or known["n"], known["t"] or known["n"]
    pairs = {"s": [(source, source)], "t": [(target, target)], "ts": [(target, source)]}.get(
        side, [(source, source), (target, target), (target, source)]
    )
    return [{**known, "i": i, "j": j} for i, j in pairs]


def _misses(
    form: str, axes: Shape, known: Extents, letters: Mapping[str, Sequence[str]]
) -> list[int]:
    """The places at which ``axes`` are not what ``form`` says."""
    found = [
        place
        for place, (axis, size) in enumerate(zip(form, axes, strict=True))
        if not _admits(axis, size, known, letters)
    ]
    if not found and form.count("i") and form.count("j") and known["i"] == known["j"]:
        i, j = form.index("i"), form.index("j")
        return (
            [] if axes[i] == axes[j] or "1" in (axes[i], axes[j]) or not axes[i].isdigit() else [j]
        )
    return found


def _admits(axis: str, size: str, known: Extents, letters: Mapping[str, Sequence[str]]) -> bool:
    if axis == "1" or (size == "1" and axis in "ij"):
        return size == "1"
    values = {value for value in known.get(axis, ()) if value.isdigit() == size.isdigit()}
    if values or size.isdigit():
        return not values or size in values
    return not axes_called(size) or size in letters.get(axis, ())


_ALIKE: Mapping[str, tuple[str, ...]] = {
    "D": ("D", "d"), "v": ("v", "k", "d"), "k": ("k", "d"), "g": ("g", "h"), "G": ("G", "k", "d"),
    "i": ("n",), "j": ("n",), "P": ("P", "n"),
}  # fmt: skip
"""Whose letters an axis goes by, the first of them that the note has."""
_AFTER_HEADS = frozenset(("W_O", "merged", "split", "hidden", "matrix"))
"""What tells that there is more than one head, or a layer after it."""
_USUAL = {"i": "n", "j": "n", "B": "B", "h": "h"}
"""The letters of axes that the note has none for."""
_RESULTS = frozenset(
    ("product", "scores", "mixed", "merged", "head", "out", "transposed", "hidden", "logits")
)
"""What follows from the others."""
_OTHERS_ROWS = {"q": "j", "k": "i", "v": "i"}
"""Of which lengths a tensor does not speak."""
AXES = "BhgijkvdDGfVPH3"


def _right(told: Told, known: Known) -> Shape:
    """The shape that is right; its own where it is, none where that cannot be told."""
    numbers = all(size.isdigit() for size in told.axes)
    if not numbers and not all(axes_called(size) for size in told.axes if not size.isdigit()):
        return ()
    forms = forms_of(told)
    admitted = _sided(known.side, known.ever)
    fitting = [
        (form, each)
        for form in forms
        for each in admitted
        if not _misses(form, told.axes, each, known.letters)
    ]
    if fitting:
        return told.axes if any(each.get(axis) for form, each in fitting for axis in form) else ()
    choices = _sided(known.side, _settled(known.here))
    best: tuple[tuple[bool, int, int], Shape] | None = None
    for order, form in enumerate(forms):
        for choice in choices:
            right = _filled(form, told.axes, choice, known.letters)
            if not right or right == told.axes:
                continue
            sure = sum(
                bool(choice.get(axis)) and a == b
                for axis, a, b in zip(form, right, told.axes, strict=True)
            )
            rank = (sorted(right) == sorted(told.axes), sure, -order)
            if best is None or rank > best[0]:
                best = (rank, right)
    if best is None:
        return ()
    (permuted, same, _), right = best
    least = (len(right) + 1) // 2 if told.certain else len(right) - 1
    least = least if numbers else 0
    sizes = {*known.around, *(size for values in known.here.values() for size in values)}
    familiar = told.certain and told.kind in _RESULTS and sizes.issuperset(told.axes)
    return right if permuted or same >= least or familiar else ()


def _settled(known: Extents) -> Extents:
    """``known``, a head as wide as the model's width and its heads make it, where both are told once."""
    if len(known["d"]) != 1 or len(known["h"]) != 1:
        return known
    d, h = (next(iter(known[axis])) for axis in "dh")
    width = {str(int(d) // int(h))} if d.isdigit() and h.isdigit() and int(h) else set()
    return {**known, **{axis: width for axis in "kv" if width <= known[axis] and width}}


def _filled(form: str, axes: Shape, known: Extents, letters: Mapping[str, Sequence[str]]) -> Shape:
    """``form`` with its extents; an axis that is not known keeps what was said."""
    found = []
    for axis, size in zip(form, axes, strict=True):
        values = [value for value in known.get(axis, ()) if value.isdigit() == size.isdigit()]
        values = values or (
            [] if size.isdigit() else [*letters.get(axis, ()), *_USUAL.get(axis, ())]
        )
        if _admits(axis, size, known, letters):
            found.append(size)
        elif axis == "1":
            found.append("1")
        elif values and (len(values) == 1 or not size.isdigit()):
            found.append(values[0])
        else:
            return ()
    if (
        "i" in form
        and "j" in form
        and known["i"] == known["j"]
        and found[form.index("i")] != found[form.index("j")]
    ):
        found[form.index("j")] = found[form.index("i")]
    return tuple(found)
