"""What masks and scores have in common: frozen values that can be taken apart and built again.

An engine, ``vmap`` or a compiled graph needs a rule's arrays apart from the rest: the rest is a
text (the classes, in prefix order), whole numbers and functions.  ``rebuild(flatten(rule))`` is
the same rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from regard._shapes import Array


@dataclass(frozen=True)
class Flat:
    """A rule in its parts."""

    text: str
    numbers: list[int]
    positions: list[Array]
    """Whole numbers that speak of positions: NumPy's, whatever the call's library is."""
    arrays: list[Array]
    """Arrays of the call's library."""
    axes: list[int]
    """How many axes of each are its own; those before are batch entries."""
    functions: list[Any]

    def with_arrays(self, arrays: list[Array]) -> Flat:
        """The same parts with other ``arrays``."""
        return replace(self, arrays=arrays)


class Rule:
    """A mask or a score: a dataclass that says of each field what it is."""

    rules: ClassVar[tuple[str, ...]] = ()
    numbers: ClassVar[tuple[str, ...]] = ()
    positions: ClassVar[tuple[str, ...]] = ()
    arrays: ClassVar[dict[str, int]] = {}
    """With how many axes are the array's own; those before them go by batch entry."""
    functions: ClassVar[tuple[str, ...]] = ()
    kinds: ClassVar[dict[str, type[Rule]]] = {}
    """Every rule's class by its name."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Rule.kinds[cls.__name__] = cls


def flatten(rule: Rule) -> Flat:
    """``rule`` in its parts."""
    text, flat = type(rule).__name__, Flat("", [], [], [], [], [])
    for name in rule.rules:
        part = flatten(getattr(rule, name))
        text = f"{text} {part.text}"
        flat.numbers.extend(part.numbers)
        flat.positions.extend(part.positions)
        flat.arrays.extend(part.arrays)
        flat.axes.extend(part.axes)
        flat.functions.extend(part.functions)
    flat.numbers.extend([getattr(rule, name) for name in rule.numbers])
    flat.positions.extend([getattr(rule, name) for name in rule.positions])
    flat.arrays.extend([getattr(rule, name) for name in rule.arrays])
    flat.axes.extend(rule.arrays.values())
    flat.functions.extend([getattr(rule, name) for name in rule.functions])
    return replace(flat, text=text)


def rebuild(flat: Flat) -> Any:
    """The rule of these parts."""
    parts = (flat.numbers, flat.positions, flat.arrays, flat.functions)
    return _build(iter(flat.text.split()), *map(iter, parts))


def _build(names: Iterator[str], *parts: Iterator[Any]) -> Any:
    kind = Rule.kinds[next(names)]
    fields = {name: _build(names, *parts) for name in kind.rules}
    own = (kind.numbers, kind.positions, kind.arrays, kind.functions)
    for wanted, part in zip(own, parts, strict=True):
        fields |= {name: next(part) for name in wanted}
    return kind(**fields)
