"""The overview in a terminal of 80 columns, in both languages, with and without colour."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from regard._words import LANGUAGES, say
from regard.pictures import Overview, render
from regard.pictures.marks import MARKS


def printed(overview: Overview, lang="en", width: int = 80, colour: str | None = None) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=width, color_system=colour, force_terminal=colour is not None
    )
    render(overview, console, lang)
    return file.getvalue()


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("size", [(1, 1), (2, 4), (12, 12), (48, 25), (100, 96)])
def test_it_fits_a_screenful_or_two(make_overview, chinese, lang, size):
    overview = make_overview(chinese, min(size[0], 7), size[1])
    layers = (overview.layers[n % 7] for n in range(size[0]))
    many = tuple(tuple(replace(v, layer=n) for v in layer) for n, layer in enumerate(layers))
    overview = replace(overview, layers=many)
    for width in (80, 40, 200):
        lines = printed(overview, lang, width).splitlines()
        assert max(map(cell_len, lines)) <= width
        assert len(lines) <= 75


@pytest.mark.parametrize("lang", LANGUAGES)
def test_a_long_text_fits_too(make_overview, lang):
    lines = printed(make_overview(1500, 2, 3), lang).splitlines()
    assert max(map(cell_len, lines)) <= 80
    assert len(lines) <= 60
    assert ("1,500 tokens" if lang == "en" else "1,500 个词元") in lines[1]


@pytest.mark.parametrize("lang", LANGUAGES)
def test_roles_are_told_without_colour(make_overview, lang):
    overview = make_overview(layers=3, heads=7)
    text = printed(overview, lang)
    assert "\x1b" not in text
    rows = text.splitlines()[4:7]
    for layer, row in zip(overview.layers, rows, strict=True):
        places = [row.find(say(MARKS[view.role].letter, lang)) for view in layer]
        assert -1 not in places
    for role in {view.role for view in overview.heads()}:
        assert say(MARKS[role].name, lang) in text


def test_roles_have_their_colours(make_overview):
    text = printed(make_overview(), colour="truecolor")
    red, green, blue = bytes.fromhex(MARKS["previous"].colour[1:])
    assert f"38;2;{red};{green};{blue}" in text


def test_links_are_the_weights(make_overview):
    keep = {}
    overview = make_overview(layers=3, heads=7, keep=keep)
    text = printed(overview)
    found = [line for line in text.splitlines() if " → " in line and line.startswith("    ")]
    assert len(found) >= 6
    tokens = [token.strip() for token in overview.tokens]
    values = {
        f"{tokens[q]} → {tokens[k]} {p[q, k]:.2f}"
        for p in keep.values()
        for q in range(13)
        for k in range(q + 1)
    }
    for line in found:
        for link in line.strip().split("   "):
            assert link in values


@pytest.mark.parametrize("lang", LANGUAGES)
def test_one_query_of_one_head_is_a_table(make_overview, lang):
    overview = make_overview(layers=(3,), heads=(5,), queries=(9,))
    view = overview.layers[0][0]
    lines = printed(overview, lang).splitlines()
    rows = [line.split() for line in lines if line.strip()[:1].isdigit()]
    assert [int(row[0]) for row in rows] == [key for key in view.top_keys[9] if key >= 0]
    assert [row[2] for row in rows] == [f"{w:.4f}" for w in view.top_weights[9]]
    bars = [row[3].count("█") if len(row) > 3 else 0 for row in rows]
    assert bars == sorted(bars, reverse=True)
    assert bars[0] > 0


def test_one_query_of_many_heads_names_what_is_left_out(make_overview):
    overview = make_overview(layers=12, heads=12, queries=(9,))
    text = printed(overview)
    rows = [line for line in text.splitlines() if line.lstrip().startswith("it →")]
    left = 144 - len(rows)
    assert len(rows) <= 20
    assert f"{left} less decided heads are not printed" in text
    assert text.count("no fixed role   entropy") >= 5  # heads that follow content have a seat


def test_one_layer_shows_queries_of_its_heads(make_overview):
    text = printed(make_overview(layers=(3,), heads=4))
    assert "layer 3, 4 heads" in text
    assert text.count("layer 3, head") == 4
    assert "less decided queries of each head are not printed" in text


def test_layers_that_do_not_fit_are_counted(make_overview):
    text = printed(make_overview(layers=70, heads=2))
    assert "only every layer in 3 is printed; 46 are not" in text
    assert "7 more heads" in printed(make_overview(layers=1, heads=80))


def test_heads_may_be_missing_from_a_layer(make_overview):
    overview = make_overview(layers=2, heads=4)
    ragged = replace(overview, layers=(overview.layers[0][:1], overview.layers[1]))
    rows = printed(ragged).splitlines()[4:6]
    assert len(rows[0]) < len(rows[1])


def test_hostile_tokens_only_stand_there(make_overview):
    evil = (
        "[bold red]x[/]",
        "\x1b]0;title\x07",
        "\x9b2J",
        "a\nb\rc",
        "\u202eabc",
        "\ud800",
        "[/x]",
    )
    overview = replace(make_overview(evil, 1, 1), model="\x1b[2J evil [red]")
    text = printed(overview)
    assert "[bold red]x" in text
    assert "^[]0;title^G" in text
    assert "^[[2J evil [red]" in text
    assert not {"\x1b", "\x07", "\r", "\x9b", "\u202e"} & set(text)


def test_a_chinese_text_in_chinese_speaks_no_english(make_overview, chinese):
    text = (
        printed(make_overview(chinese, 6, 7), "zh").replace("tiny/model", "").replace(".html", "")
    )
    assert not any(letter.isascii() and letter.isalpha() for letter in text)
