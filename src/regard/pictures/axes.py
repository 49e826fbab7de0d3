"""What stands along the side of a picture: words, seconds, or numbers that count."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from regard.pictures.marks import shown
from regard.pictures.phrases import SECONDS, Title

NAME = 14
"""The most letters of a token that stand along an axis."""


class Axis(ABC):
    """One side of a matrix: how many places it has, and what they are called."""

    title: Title
    first: int = 0
    """The number of the first place, where a part of something longer is shown."""

    @abstractmethod
    def part(self, places: slice) -> Axis:
        """Some of the places, which keep their names."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def name(self, place: int) -> str:
        """What ``place`` is called where there is room for a name."""

    def ticks(self, most: int = 7) -> list[tuple[float, str]]:
        """At most ``most`` + 1 round places along the axis, and what is written there."""
        step = max(1, int(_round(len(self) / most)))
        first = -self.first % step
        return [(float(n), str(n + self.first)) for n in range(first, len(self), step)]


def _round(least: float) -> float:
    """The first of 1, 2, 5, 10, 20, … (or 0.1, 0.2, 0.5 …) that is not below ``least``."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9)))
    return next(power * n for n in (1, 2, 5, 10) if power * n >= least * (1 - 1e-9))


@dataclass(frozen=True)
class Words(Axis):
    r"""Tokens by name, as people read them.

    >>> Words([" it", "\n"]).name(1), len(Words(["a", "b"]))
    ('↵', 2)
    """

    names: tuple[str, ...]
    title: Title = ""
    first: int = 0

    def __init__(self, names: Iterable[str], title: Title = "", first: int = 0) -> None:
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "title", title)
        object.__setattr__(self, "first", first)

    def part(self, places: slice) -> Words:
        first = self.first + places.indices(len(self))[0]
        return Words(self.names[places], self.title, first)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, place: int) -> str:
        text = shown(self.names[place])
        return text if len(text) <= NAME else text[: NAME - 1] + "…"


@dataclass(frozen=True)
class Seconds(Axis):
    """Frames of sound, ``each`` of them so many seconds long.

    >>> Seconds(150, 0.02).ticks(3)
    [(0.0, '0'), (50.0, '1'), (100.0, '2')]
    """

    count: int
    each: float
    title: Title = SECONDS
    first: int = 0

    def part(self, places: slice) -> Seconds:
        start, stop, _ = places.indices(self.count)
        return Seconds(max(0, stop - start), self.each, self.title, self.first + start)

    def __len__(self) -> int:
        return self.count

    def name(self, place: int) -> str:
        return f"{(self.first + place) * self.each:.2f} s"

    def ticks(self, most: int = 7) -> list[tuple[float, str]]:
        step = _round(self.count * self.each / most)
        begin, end = (place * self.each for place in (self.first, self.first + self.count))
        times = [n * step for n in range(math.ceil(begin / step - 1e-9), int(end / step) + 1)]
        return [((t - begin) / self.each, f"{t:g}") for t in times if t < end]


@dataclass(frozen=True)
class Numbers(Axis):
    """Places that are known by their number alone."""

    count: int
    title: Title = ""
    first: int = 0

    def part(self, places: slice) -> Numbers:
        start, stop, _ = places.indices(self.count)
        return Numbers(max(0, stop - start), self.title, self.first + start)

    def __len__(self) -> int:
        return self.count

    def name(self, place: int) -> str:
        return str(self.first + place)
