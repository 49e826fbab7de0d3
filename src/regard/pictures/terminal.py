"""The overview that a person reads after one command, within a screenful or two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from regard._words import Language, say
from regard.pictures.marks import MARKS, role_name, shown
from regard.pictures.notable import clearest, columns, decided, narrowed, notable, score
from regard.pictures.overview import HeadView, Overview

Places = NDArray[np.intp]
ROWS = 32
"""The most layers of the grid, and about the most lines of detail."""
_STEPS = " ▁▂▃▄▅▆▇█"
_BARS = " ▏▎▍▌▋▊▉█"
_NAME = 14  # cells that a token may take in a list of links


def render(overview: Overview, console: Console, lang: Language) -> None:
    """Prints the overview: the grid of heads and the links of the heads to look at first.

    Where some queries, one layer or one head are asked for, it prints what they look at: the
    eight strongest keys of each query.  Roles are told by letter as well as by colour.
    """
    heads = list(overview.heads())
    for line in _lines(overview, heads, console.width, lang):
        line.rstrip()
        console.print(line, no_wrap=True, overflow="ellipsis", highlight=False)


def _lines(overview: Overview, heads: list[HeadView], width: int, lang: Language) -> Iterator[Text]:
    yield from (Text(), _header(overview, heads, lang), Text())
    if len(heads) > 1:
        yield from (*_grid(overview, width, lang), Text())
    if narrowed(overview) or len(overview.layers) == 1:
        yield from _detail(overview, heads, width, lang)
    else:
        yield from _links(overview, width, lang)
    yield Text()


def _plain(text: str, style: str = "") -> Text:
    # Text, never markup: a token such as "[bold]" is only a token.
    return Text(text, style=style)


def _header(overview: Overview, heads: list[HeadView], lang: Language) -> Text:
    numbers = columns(overview)
    if len(heads) == 1:
        what = say("terminal.one-head", lang, layer=heads[0].layer, head=heads[0].head)
    elif len(overview.layers) == 1:
        what = say("terminal.one-layer", lang, layer=heads[0].layer, heads=len(numbers))
    else:
        what = say("terminal.size", lang, layers=len(overview.layers), heads=len(numbers))
    tokens = say("terminal.tokens", lang, tokens=f"{len(overview.tokens):,}")
    return Text.assemble(
        (_named(overview.model), "bold"), ("  ·  ", "dim"), tokens, ("  ·  ", "dim"), what
    )


def _named(text: str) -> str:
    """A line of text with no control in it, its spaces kept."""
    return " ".join(shown(word) for word in text.split(" "))


def _fit(text: str, cells: int) -> str:
    """``text`` cut to ``cells``, an ellipsis where something is left out."""
    return text if cell_len(text) <= cells else set_cell_size(text, cells - 1).rstrip() + "…"


# ------------------------------------------------------------------ the grid of heads


def _grid(overview: Overview, width: int, lang: Language) -> Iterator[Text]:
    """One row a layer, one cell a head: the role's letter, and a bar of how decided it is."""
    numbers = columns(overview)
    word = say("picture.layer", lang)
    side = max(cell_len(word), *(len(str(layer[0].layer)) for layer in overview.layers)) + 2
    letters = {role: say(mark.letter, lang) for role, mark in MARKS.items()}
    wide = max(cell_len(letter) for letter in letters.values())
    room = (width - side) // len(numbers) - wide
    bar, gap = (1, 1) if room >= 2 else (1, 0) if room == 1 else (0, 0)
    cell = wide + bar + gap
    fits = numbers[: (width - side) // cell]
    yield _numbers_line(fits, cell, side, word, say("picture.heads", lang))
    step = -(-len(overview.layers) // ROWS)
    for layer in overview.layers[::step]:
        line = Text.assemble((str(layer[0].layer).rjust(side - 2) + "  ", "dim"))
        views = {view.head: view for view in layer}
        for number in fits:
            if number in views:
                line.append_text(_cell(views[number], letters, wide, bar))
                line.append(" " * gap)
            else:
                line.append(" " * cell)
        yield line
    left_out = len(overview.layers) - len(overview.layers[::step])
    if left_out:
        yield _plain(say("terminal.thinned", lang, step=step, count=left_out), "dim")
    if len(fits) < len(numbers):
        yield _plain(say("terminal.cut", lang, count=len(numbers) - len(fits)), "dim")
    yield _plain("")
    yield from _legend(overview, letters, width, lang)
    if bar:
        yield _plain(say("terminal.bar", lang, steps="▁▄█"), "dim")


def _numbers_line(fits: list[int], cell: int, side: int, word: str, heads: str) -> Text:
    line = Text(" " * (side - 2 - cell_len(word)) + word + "  ", style="dim")
    every = 1 if cell > len(str(fits[-1])) else 5
    used = 0
    for place, number in enumerate(fits):
        if place % every == 0:
            line.append(" " * (place * cell - used) + str(number))
            used = place * cell + len(str(number))
    line.append(f"  {heads}")
    return line


def _cell(view: HeadView, letters: dict[str, str], wide: int, bar: int) -> Text:
    colour = MARKS[view.role].colour
    strength = decided(view)
    text = Text(set_cell_size(letters[view.role], wide), style=f"bold {colour}")
    if bar:
        text.append(_STEPS[1 + min(7, int(strength * 8))], style=colour)
    return text


def _legend(
    overview: Overview, letters: dict[str, str], width: int, lang: Language
) -> Iterator[Text]:
    counts = {role: sum(view.role == role for view in overview.heads()) for role in MARKS}
    line = Text()
    for role, count in counts.items():
        entry = Text.assemble(
            (letters[role], f"bold {MARKS[role].colour}"), " ", role_name(role, lang),
            (f" {count}", "dim"),
        )  # fmt: skip
        if count and line and line.cell_len + 3 + entry.cell_len > width:
            yield line
            line = Text()
        if count:
            line.append_text(Text("   " if line else "").append_text(entry))
    yield line


# ------------------------------------------------------------------ what looks at what


def _links(overview: Overview, width: int, lang: Language) -> Iterator[Text]:
    """The heads to look at first, each with its clearest links."""
    yield _plain(say("terminal.look-first", lang), "bold")
    for view in notable(overview, each=2 if len(overview.layers) <= 12 else 1):
        yield _title(view, lang)
        if view.role == "broad":  # its links are all alike, so none of them says anything
            yield _plain("    " + say(MARKS["broad"].about, lang))
        else:
            links = [_link(overview, *link) for link in clearest(overview, view)]
            yield _row(links, "    ", width)
    yield Text()
    yield _plain(say("terminal.more", lang), "dim")


def _title(view: HeadView, lang: Language) -> Text:
    place = say("terminal.head", lang, layer=view.layer, head=view.head)
    colour = MARKS[view.role].colour
    about = say("terminal.entropy", lang, entropy=f"{view.entropy:.2f}")
    if view.role != "none":
        about = say("terminal.score", lang, score=f"{score(view):.2f}") + " · " + about
    return Text.assemble(
        (set_cell_size(place, max(22, cell_len(place) + 2)), "bold"),
        ("■ ", colour),
        (set_cell_size(role_name(view.role, lang), 16), colour),
        (about, "dim"),
    )


def _link(overview: Overview, query: int, key: int, weight: float) -> Text:
    names = [_fit(shown(overview.tokens[token]), _NAME) for token in (query, key)]
    return Text.assemble(names[0], (" → ", "dim"), names[1], " ", (_number(weight), "bold"), "   ")


def _number(weight: float) -> str:
    return f"{weight:.2f}" if weight >= 0.01 else f"{weight:.1g}"


def _row(entries: list[Text], start: str, width: int) -> Text:
    """As many entries as fit one line; the first always stands."""
    line = Text(start)
    for entry in entries:
        if len(line) > len(start) and line.cell_len + entry.cell_len - 3 > width:
            break
        line.append_text(entry)
    return line


# ------------------------------------------------------------------ the detail of few heads


def _detail(
    overview: Overview, heads: list[HeadView], width: int, lang: Language
) -> Iterator[Text]:
    """Per head, each asked query with its eight strongest keys."""
    asked = np.asarray(overview.queries, dtype=np.intp)
    tall = len(heads) * len(asked) <= 4  # room for a key a line, with real bars
    each = max(1, min(len(asked), ROWS // len(heads) - 1))
    kept = _most_telling(heads, asked, max(1, ROWS // (each + 1)))
    for view in kept:
        yield _title(view, lang)
        # A query that sees one key alone comes last: its 1.00 tells nothing.
        lone = view.lone[asked]
        strongest = np.argsort(2 * lone - view.top_weights[asked, 0], kind="stable")[:each]
        for query in sorted(asked[strongest].tolist()):
            yield from (_tall if tall else _flat)(overview, view, query, width)
    if each < len(asked):
        yield _plain(say("terminal.queries-left", lang, count=f"{len(asked) - each:,}"), "dim")
    if len(kept) < len(heads):
        yield _plain(say("terminal.heads-left", lang, count=len(heads) - len(kept)), "dim")


def _most_telling(heads: list[HeadView], asked: Places, room: int) -> list[HeadView]:
    """The heads that look hardest at one key; half the room is for heads of no fixed role."""
    ranked = sorted(heads, key=lambda view: -float(view.top_weights[asked, 0].max(initial=0.0)))
    free = [view for view in ranked if view.role == "none"][: -(-room // 2)]
    bound = [view for view in ranked if view not in free][: room - len(free)]
    return sorted([*free, *bound], key=lambda view: (view.layer, view.head))


def _tall(overview: Overview, view: HeadView, query: int, width: int) -> Iterator[Text]:
    """A key a line: position, token, weight and a bar."""
    yield _plain(f"  {_fit(shown(overview.tokens[query]), 40)} [{query}] →")
    room = max(8, min(40, width - 40))
    for key, weight in _pairs(view, query):
        name = set_cell_size(_fit(shown(overview.tokens[key]), 20), 20)
        eighths = round(weight * room * 8)
        bar = "█" * (eighths // 8) + _BARS[eighths % 8].strip()
        yield Text.assemble(
            (f"  {key:>7}  ", "dim"), name, (f" {weight:.4f}  ", "bold"),
            (bar, MARKS[view.role].colour),
        )  # fmt: skip


def _flat(overview: Overview, view: HeadView, query: int, width: int) -> Iterator[Text]:
    """The keys side by side, in two lines at most; those under 1% of the first are left out."""
    name = _fit(shown(overview.tokens[query]), _NAME)
    start = Text.assemble(" " * (_NAME - cell_len(name)), f"  {name}", (" → ", "dim"))
    pairs = _pairs(view, query)
    line, lines = start.copy(), 1
    for key, weight in pairs:
        if weight < pairs[0][1] / 100:
            break
        entry = Text.assemble(
            f"{_fit(shown(overview.tokens[key]), 12)} ", (_number(weight), "bold"),
            (_STEPS[1 + min(7, int(weight * 8))], MARKS[view.role].colour), "  ",
        )  # fmt: skip
        if line.cell_len + entry.cell_len - 2 > width:
            if lines == 2:
                break
            yield line
            line, lines = Text(" " * start.cell_len), 2
        line.append_text(entry)
    yield line


def _pairs(view: HeadView, query: int) -> list[tuple[int, float]]:
    pairs = zip(view.top_keys[query].tolist(), view.top_weights[query].tolist(), strict=True)
    return [(key, weight) for key, weight in pairs if key >= 0]
