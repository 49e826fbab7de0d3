"""What masks and scores have in common: frozen values that can be taken apart and built again.

An engine, ``vmap`` or a compiled graph needs a rule's arrays apart from the rest: the rest is a
text (the classes, in prefix order), whole numbers and functions.  ``rebuild(flatten(rule))`` is
the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from regard._shapes import Array

NO_MAKERS: Mapping[str, Callable[..., Any]] = {}


@dataclass(frozen=True)
class Flat:
    """A rule in its parts."""

    text: str
    numbers: list[int] = field(default_factory=list)
    positions: list[Array] = field(default_factory=list)
    """Whole numbers that speak of positions: NumPy's, whatever the call's library is."""
    arrays: list[Array] = field(default_factory=list)
    """Arrays of the call's library."""
    axes: list[int] = field(default_factory=list)
    """How many axes of each are its own; those before are batch entries."""
    functions: list[Any] = field(default_factory=list)

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
    names: list[str] = []
    flat = Flat("", [], [], [], [], [])
    _take_apart(rule, names, flat)
    return Flat(
        " ".join(names), flat.numbers, flat.positions, flat.arrays, flat.axes, flat.functions
    )


def _take_apart(rule: Rule, names: list[str], flat: Flat) -> None:
    names.append(type(rule).__name__)
    for name in rule.rules:
        _take_apart(getattr(rule, name), names, flat)
    flat.numbers.extend([getattr(rule, name) for name in rule.numbers])
    flat.positions.extend([getattr(rule, name) for name in rule.positions])
    flat.arrays.extend([getattr(rule, name) for name in rule.arrays])
    flat.axes.extend(rule.arrays.values())
    flat.functions.extend([getattr(rule, name) for name in rule.functions])


def rebuild(flat: Flat, makers: Mapping[str, Callable[..., Any]] = NO_MAKERS) -> Any:
    """The rule of these parts; ``makers`` make some kinds in place of their classes."""
    parts = (flat.numbers, flat.positions, flat.arrays, flat.functions)
    return _build(iter(flat.text.split()), makers, *map(iter, parts))


def _build(
    names: Iterator[str], makers: Mapping[str, Callable[..., Any]], *parts: Iterator[Any]
) -> Any:
    name = next(names)
    kind = Rule.kinds[name]
    fields = {part: _build(names, makers, *parts) for part in kind.rules}
    own = (kind.numbers, kind.positions, kind.arrays, kind.functions)
    for wanted, part in zip(own, parts, strict=True):
        fields |= {field: next(part) for field in wanted}
    return makers.get(name, kind)(**fields)
