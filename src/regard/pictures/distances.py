"""How much weight lies at each distance, head by head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import ShapeError, ValueRangeError
from regard._words import Language, say
from regard.pictures.canvas import EDGE, SMALL, SOFT, TEXT, Sheet, measure, wrapped
from regard.pictures.letters import STEPS, heading, note
from regard.pictures.phrases import Title, told
from regard.pictures.picture import Picture

if TYPE_CHECKING:
    from rich.text import Text

LONG = 64
"""The farthest distance that is drawn on an even axis; beyond it both axes are logarithmic."""
LOOKS = (
    ("#0b3c6f", "-"), ("#c2571a", (0, (5, 1.2))), ("#2a8f6d", (0, (1, 1))), ("#8a2d6b", "-."),
    ("#4d4d4d", (0, (3, 1, 1, 1, 1, 1))), ("#2f9ec4", (0, (8, 2))), ("#b59b1b", "-"),
)  # fmt: skip
"""Colours that differ in grey too, and strokes that differ without any colour."""


@dataclass(frozen=True, eq=False, repr=False)
class Distances(Picture):
    """Profiles of distance: which share of a head's weight lies so many tokens back.

    ::

        share_d = Σ_{i − j = d} w_ij / Σ_ij w_ij

    Distances beyond 64 stand on logarithmic axes, as means over widening bins.

    Args:
        distance: (N,) position of the query − position of the key, ascending.
        shares: a name and (N,) shares each, seven at most.
        title: what stands above.

    Raises:
        ShapeError: shares that do not fit the distances.
        ValueRangeError: no profile, or more than seven.

    >>> Distances(np.arange(3), {"head 0": np.array([0.5, 0.3, 0.2])}, "Mine")
    Distances('Mine')
    """

    distance: NDArray[Any]
    shares: Mapping[Title, NDArray[Any]]
    title: Title = ""

    def __post_init__(self) -> None:
        if not 1 <= len(self.shares) <= len(LOOKS):
            raise ValueRangeError(
                f"shares must hold 1 … {len(LOOKS)} profiles, but it holds {len(self.shares)}; "
                "name the heads to draw"
            )
        for name, share in self.shares.items():
            if np.shape(share) != np.shape(self.distance):
                raise ShapeError(
                    f"shares[{name!r}] must be {np.shape(self.distance)}, one for each distance, "
                    f"but its shape is {np.shape(share)}"
                )

    @cached_property
    def _seen(self) -> NDArray[np.bool_]:
        """The distances at which there is any weight."""
        return np.asarray(np.sum([np.asarray(s) for s in self.shares.values()], axis=0) > 0)

    @cached_property
    def _long(self) -> bool:
        return bool(np.abs(np.asarray(self.distance)[self._seen]).max(initial=0) > LONG)

    def _curve(self, share: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The points of a line; on a long axis, means over bins that widen with the distance."""
        at = np.asarray(self.distance)[self._seen].astype(np.float64)
        value = np.asarray(share, np.float64)[self._seen]
        if not self._long:
            return at, value
        size = np.abs(at)
        bins = np.sign(at) * np.where(
            size < 8, size, 8 + np.floor(8 * np.log2(np.maximum(size, 8) / 8))
        )
        names, where = np.unique(bins, return_inverse=True)
        count = np.bincount(where, minlength=len(names))
        return np.bincount(where, at) / count, np.bincount(where, value) / count

    def _note(self, lang: Language) -> str:
        return say("picture.distance-bins" if self._long else "picture.distance-exact", lang)

    def _names(self, lang: Language) -> list[str]:
        return [told(name, lang) for name in self.shares]

    def _words(self, lang: Language) -> list[str]:
        axes = [say(f"picture.{name}", lang) for name in ("distance", "share")]
        return [told(self.title, lang), self._note(lang), *axes, *self._names(lang)]

    def _draw(self, width: float, lang: Language) -> Sheet:
        wide, title = measure(), told(self.title, lang)
        notes = wrapped(self._note(lang), width - 2 * EDGE, SMALL)
        side = max(wide(name, TEXT) for name in self._names(lang)) + 0.36
        top = EDGE + (0.24 if title else 0.06)
        below = EDGE + 0.38 + 0.115 * len(notes)
        high = min(max(1.5, 0.17 * len(self.shares)), width * 0.6)
        sheet = Sheet(width, top + high + below)
        sheet.title([title])
        left = EDGE + 0.52
        axes = sheet.axes(left, top, width - left - side - EDGE, high)
        axes.spines[["top", "right"]].set_visible(False)
        curves = zip(self._names(lang), self.shares.values(), LOOKS, strict=False)
        for n, (name, share, (colour, stroke)) in enumerate(curves):
            axes.plot(*self._curve(share), color=colour, linestyle=stroke, linewidth=1.2,
                      label=name, gid=f"profile-{n}")  # fmt: skip
        if self._long:
            axes.set_xscale("symlog", linthresh=1, linscale=0.4)
            axes.set_yscale("log")
            values = [value for share in self.shares.values() for value in self._curve(share)[1]]
            most = max(values)
            axes.set_ylim(
                max(min((v for v in values if v > 0), default=1e-6), most * 1e-6), most * 2
            )
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
            axes.yaxis.set_minor_locator(_none())
            seen = np.asarray(self.distance)[self._seen]
            ticks = [s * 10**n for n in range(6) for s in (-1, 1)] + [0]
            ticks = sorted(t for t in ticks if seen.min() <= t <= seen.max())
            axes.set_xticks(ticks, [f"{t:,}".replace("-", "−") for t in ticks], minor=False)
            axes.set_xlim(seen.min(), seen.max())
            axes.xaxis.set_minor_locator(_none())
        else:
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_locator(_whole())
        axes.set_xlabel(say("picture.distance", lang))
        axes.set_ylabel(say("picture.share", lang))
        legend = axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.02), frameon=False,
                             fontsize=TEXT, handlelength=1.9, labelspacing=0.35, borderpad=0,
                             handletextpad=0.5)  # fmt: skip
        assert legend is not None
        axes.tick_params(labelcolor=SOFT)
        sheet.notes(notes)
        return sheet

    def _lines(self, width: int, lang: Language) -> Iterator[Text]:
        from rich.cells import cell_len
        from rich.text import Text

        yield from heading(told(self.title, lang))
        lead = max(map(cell_len, self._names(lang)))
        most = max(float(self._curve(share)[1].max()) for share in self.shares.values())
        at = self._curve(next(iter(self.shares.values())))[0]
        room = max(8, width - lead - 2)
        near = np.argsort(np.abs(at), kind="stable")[:room]
        near = np.sort(near)
        for name, share in zip(self._names(lang), self.shares.values(), strict=True):
            values = self._curve(share)[1][near] / (most or 1.0)
            steps = "".join(STEPS[min(7, int(v**0.5 * 7.999))] if v > 1e-6 else " " for v in values)
            yield Text(name + " " * (lead - cell_len(name)) + "  " + steps)
        first, last = (f"{at[n]:.0f}".replace("-", "−") for n in (near[0], near[-1]))
        gap = " " * max(1, len(near) - len(first) - len(last))
        yield Text(" " * (lead + 2) + first + gap + last, style="dim")
        yield note(f"{say('picture.distance', lang)} · {self._note(lang)}")


def _none() -> Any:
    from matplotlib.ticker import NullLocator

    return NullLocator()


def _whole() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=7, integer=True)
