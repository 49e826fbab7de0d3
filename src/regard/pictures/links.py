"""What looks at what, as lines between two columns of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from regard._errors import ShapeError, ValueRangeError
from regard._words import Language, say
from regard.pictures.axes import Axis, Words
from regard.pictures.canvas import EDGE, INK, SMALL, SOFT, TEXT, Scale, Sheet, measure, wrapped
from regard.pictures.letters import bar, fit, heading, note, number, right
from regard.pictures.phrases import KEY, QUERY, Title, told
from regard.pictures.picture import TALL, Picture

if TYPE_CHECKING:
    from rich.text import Text

PITCH = 0.145
"""Inches from one token to the next."""
FEW = 56
"""The most tokens of which each has its line; of more, those that are linked most strongly."""
STRONGEST = 28
"""How many links are drawn then."""
Link = tuple[int, int, float]


@dataclass(frozen=True, eq=False, repr=False)
class Links(Picture):
    """Lines from the tokens that look to the tokens that they look at: more opaque, more weight.

    Args:
        links: (query, key, weight) each.
        rows, columns: what the queries and the keys are, as of a :class:`Matrix`.
        title: what stands above.
        which: which links these are, as the picture says.

    Raises:
        ShapeError: a link from or to a place that is not there.
        ValueRangeError: no link at all.

    >>> Links([(1, 0, 0.7), (1, 1, 0.3)], ["a", "b"], ["a", "b"], "Mine")
    Links('Mine')
    """

    links: Sequence[Link]
    rows: Axis | Sequence[str]
    columns: Axis | Sequence[str]
    title: Title = ""
    which: Title = ""

    def __post_init__(self) -> None:
        for name, title in (("rows", QUERY), ("columns", KEY)):
            side = getattr(self, name)
            if not isinstance(side, Axis):
                object.__setattr__(self, name, Words(side, title))
        if not self.links:
            raise ValueRangeError("links must hold a (query, key, weight), but there is none")
        T, S = (len(side) for side in self._sides)
        for query, key, _ in self.links:
            if not (0 <= query < T and 0 <= key < S):
                raise ShapeError(
                    f"a link joins one of {T} queries and one of {S} keys, but ({query}, {key}) "
                    "came"
                )

    @property
    def _sides(self) -> tuple[Axis, Axis]:
        return self.rows, self.columns  # type: ignore[return-value]

    @cached_property
    def _few(self) -> bool:
        return max(len(side) for side in self._sides) <= FEW

    @cached_property
    def _drawn(self) -> list[Link]:
        """The links that are drawn, the strongest last, so that they lie on top."""
        kept = sorted(self.links, key=lambda link: link[2])
        return kept if self._few else kept[-STRONGEST:]

    @cached_property
    def _most(self) -> float:
        return max(weight for _, _, weight in self._drawn) or 1.0

    @cached_property
    def _places(self) -> tuple[list[int], list[int]]:
        """The queries and the keys that have a line."""
        if self._few:
            return list(range(len(self._sides[0]))), list(range(len(self._sides[1])))
        return sorted({q for q, _, _ in self._drawn}), sorted({k for _, k, _ in self._drawn})

    def _note(self, lang: Language) -> str:
        which = told(self.which, lang)
        if len(self._drawn) < len(self.links):
            which = say("picture.links-of", lang, count=len(self._drawn), all=len(self.links))
        opaque = say("picture.links-opaque", lang, most=number(self._most))
        return f"{which} {opaque}" if which else opaque

    def _name(self, side: int, place: int) -> str:
        name = self._sides[side].name(place)
        counted = not self._few and isinstance(self._sides[side], Words)
        return f"{name} · {place}" if counted else name

    def _words(self, lang: Language) -> list[str]:
        names = [self._name(side, n) for side in (0, 1) for n in self._places[side]]
        titles = [told(side.title, lang) for side in self._sides]
        return [told(self.title, lang), self._note(lang), *titles, *names]

    def _draw(self, width: float, lang: Language) -> Sheet:
        wide, title = measure(), told(self.title, lang)
        notes = wrapped(self._note(lang), width - 2 * EDGE, SMALL)
        lines = [len(places) for places in self._places]
        top = EDGE + (0.17 if title else 0.0) + 0.2
        below = EDGE + 0.115 * len(notes) + 0.06
        pitch = min(PITCH, (TALL - top - below) / max(lines))
        sheet = Sheet(width, top + pitch * max(lines) + below)
        sheet.title([title])
        plane = sheet.plane()
        plane.set_zorder(-1)
        room = (width - 2 * EDGE) * 0.33
        ends = [
            min(room, max(wide(self._name(side, n), TEXT) for n in self._places[side]))
            for side in (0, 1)
        ]
        spare = max(0.0, width - 2 * EDGE - sum(ends) - 1.5) / 2
        left, right_ = EDGE + spare + ends[0], width - EDGE - spare - ends[1]
        down: list[dict[int, float]] = []
        for side, (x, align) in enumerate(((left, "right"), (right_, "left"))):
            centred = top + (max(lines) - lines[side]) * pitch / 2
            down.append({n: centred + (i + 0.5) * pitch for i, n in enumerate(self._places[side])})
            sheet.write(x, top - 0.09, told(self._sides[side].title, lang), SMALL, ha=align,
                        color=SOFT)  # fmt: skip
            linked = {link[side] for link in self._drawn}
            for n, y in down[side].items():
                sheet.write(x, y, self._name(side, n), TEXT, ha=align,
                            color=INK if n in linked else SOFT)  # fmt: skip
        colour = Scale(1.0, False).hexes([0.72])[0]
        for n, (query, key, weight) in enumerate(self._drawn):
            share = weight / self._most
            plane.plot([left + 0.04, right_ - 0.04], [down[0][query], down[1][key]], color=colour,
                       alpha=float(np.clip(share, 0.02, 1)), linewidth=0.5 + 1.6 * share,
                       solid_capstyle="round", gid=f"link-{n}-{query}-{key}")  # fmt: skip
        sheet.notes(notes)
        return sheet

    def _lines(self, width: int, lang: Language) -> Iterator[Text]:
        from rich.text import Text

        yield from heading(told(self.title, lang))
        shown = sorted(self._drawn, key=lambda link: -link[2])[:32]
        cells = max(8, min(40, width - 46))
        for query, key, weight in shown:
            names = right(self._name(0, query), 16), fit(self._name(1, key), 16)
            yield Text.assemble(
                names[0], (" → ", "dim"), names[1].ljust(16), (f" {number(weight):>6} ", "bold"),
                bar(weight, cells),
            )  # fmt: skip
        left = len(self._drawn) - len(shown)
        if left:
            yield note(say("picture.links-left", lang, count=left))
        yield note(self._note(lang))
