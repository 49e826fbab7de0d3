"""Whether the shapes that a note tells together can all be so at once.

Each tensor has one of its forms, and an axis is as long wherever it stands: 12 heads of width 64
make a width of 768.  A shape is contradicted where it agrees with none of what stands around it in
any way, and where all the others agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from regard.explanation.notes.tensors.extents import Extents, axes_called, with_derived
from regard.explanation.notes.tensors.forms import Told, forms_of

MOST = 9
"""Shapes that are laid beside each other, the nearest first."""
TRIES = 20_000
"""Choices of forms that are tried before nothing is said."""
_FREE = frozenset("3HG")
"""Axes that are products of others."""
_CALLED = {"i": "n", "j": "n", "v": "vkd", "k": "kd", "g": "gh", "P": "Pn", "D": "d"}
"""Whose letters an axis goes by, other than its own."""


def contradicted(told: Told, tolds: Iterable[Told], sections: Mapping[int, Extents]) -> bool:
    """Whether ``told`` cannot be so beside the extents and the other shapes of its section."""
    numbers = _in_numbers(told)
    others = sorted(
        (
            each
            for each in tolds
            if each is not told
            and each.section == told.section
            and not (each.given and numbers)
            and _in_numbers(each) == numbers
        ),
        key=lambda each: abs(each.line - told.line),
    )[: MOST - 1]
    told_here = _admitted(told, sections) if numbers else {}
    beside = [each for each in others if each.line == told.line]
    return any(
        not agree([told, *each], told_here) and agree(each, told_here)
        for each in ([beside, others] if len(beside) > 1 else [others])
    )


def _admitted(told: Told, sections: Mapping[int, Extents]) -> dict[str, set[str]]:
    """How long each axis may be by what is told in the section or, where that is silent, before it."""
    found: Extents = {}
    start = told.section if len(told.axes) > 2 else 2  # a matrix may be one of a small example
    for section in (told.section, *sorted((s for s in sections if s < start), reverse=True)):
        for axis, sizes in sections.get(section, {}).items():
            found.setdefault(axis, set(filter(str.isdigit, sizes)))
    of = {**with_derived(found), "f": found.get("f", set()), "V": found.get("V", set())}
    lengths = of["n"] or of["s"] | of["t"]
    sides = {side: of[side] or of["n"] for side in "st"}
    return {**{axis: of[axis] for axis in "BhgkvdfV"}, "i": lengths, "j": lengths, **sides}


def _in_numbers(told: Told) -> bool:
    return all(size.isdigit() for size in told.axes)


def agree(tolds: Sequence[Told], admitted: Mapping[str, set[str]]) -> bool:
    """Whether one form for each and one admitted length for each axis make all of ``tolds``."""
    return _Search(tolds, admitted).all_fit(0, {})


class _Search:
    """A search through the forms, those of the surest tensor first."""

    def __init__(self, tolds: Sequence[Told], admitted: Mapping[str, set[str]]) -> None:
        self.admitted = admitted
        self.tolds = sorted(tolds, key=lambda told: len(forms_of(told)))
        matrices = [told for told in tolds if len(told.axes) == 2]
        queries = {told.axes[0] for told in matrices if told.kind == "q"}
        keys = {told.axes[0] for told in matrices if told.kind in ("k", "v")}
        self.cross = any(told.side for told in tolds) or bool(
            queries and keys and not queries & keys
        )
        self.values = {told.axes[-1] for told in matrices if told.kind == "v"}
        self.projected = any(told.kind == "W_O" for told in tolds)
        self.tries = 0

    def all_fit(self, place: int, lengths: dict[str, str]) -> bool:
        self.tries += 1
        if place == len(self.tolds) or self.tries > TRIES:
            return True
        told = self.tolds[place]
        return any(
            self.all_fit(place + 1, longer)
            for form in forms_of(told)
            if (longer := self.with_form(told, form, lengths)) is not None
        )

    def with_form(self, told: Told, form: str, lengths: dict[str, str]) -> dict[str, str] | None:
        """The lengths of the axes where ``told`` has ``form``; None where that cannot be."""
        found = dict(lengths)
        for axis, size in zip(form, told.axes, strict=True):
            if axis == "1" and size != "1":
                return None
            if axis == "1" or axis in _FREE:
                continue
            if (called := axes_called(size)) and not called & set(_CALLED.get(axis, axis)):
                return None
            name = {"D": "d", "i": told.side[:1] or "i", "j": told.side[-1:] or "j"}.get(axis, axis)
            if (admitted := self.admitted.get(name)) and size not in admitted:
                return None
            if found.setdefault(name, size) != size:
                return None
        return found if self.possible(told, found) else None

    def possible(self, told: Told, lengths: dict[str, str]) -> bool:
        """Whether axes that depend on each other do."""
        if not self.cross and len({lengths[axis] for axis in "ij" if axis in lengths}) > 1:
            return False
        if (
            told.kind in ("out", "mixed", "head")
            and len(told.axes) == 2
            and len(self.values) == 1
            and not self.projected
            and told.axes[-1] not in self.values
        ):
            return False  # what comes out is as wide as the values
        d, h, k = (lengths.get(axis, "") for axis in "dhk")
        if h and k and lengths.get("v", k) != k:
            return False  # the heads are as wide in the values
        return not (d.isdigit() and h.isdigit() and k.isdigit()) or int(d) == int(h) * int(k)
