"""How tokens, roles and weights look, and which heads are shown first."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard._words import LANGUAGES, say
from regard.pictures.colours import ramp, shrink
from regard.pictures.marks import MARKS, clipped, role_name, shown
from regard.pictures.notable import clearest, columns, decided, narrowed, notable, score
from regard.pictures.overview import ROLES


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        (" animal", "animal"),
        ("动物", "动物"),
        ("\n", "↵"),
        ("a\n\tb", "a↵⇥b"),
        (" ", "␣"),
        (" " * 9, "␣×9"),
        ("\u00a0", "␣"),
        ("", "∅"),
        ("\x1b[31m", "^[[31m"),
        ("\x7f", "^?"),
        ("\x9b", "⟨009B⟩"),
        ("\u202e", "⟨202E⟩"),
        ("\ud800", "\ufffd"),
        ("👩\u200d🔬", "👩\u200d🔬"),
        ("\u200d", "⟨200D⟩"),
        ("\u0301", "◌\u0301"),
    ],
)
def test_shown(token: str, seen: str):
    assert shown(token) == seen


@given(st.text(alphabet=st.characters(), max_size=6))
def test_no_token_is_invisible_or_acts(token: str):
    seen = shown(token)
    kinds = {unicodedata.category(letter) for letter in seen} - {"Zs"}
    assert kinds
    assert not kinds & {"Cc", "Cs", "Zl", "Zp"}
    seen.encode()


def test_each_role_has_a_mark_of_its_own():
    assert tuple(MARKS) == ROLES
    assert len({mark.colour for mark in MARKS.values()}) == len(ROLES)
    for lang in LANGUAGES:
        assert len({say(mark.letter, lang) for mark in MARKS.values()}) == len(ROLES)
        assert len({role_name(role, lang) for role in ROLES}) == len(ROLES)
        assert all(say(mark.about, lang) for mark in MARKS.values())


@pytest.mark.parametrize("dark", [False, True])
def test_the_ramp_survives_grey_print(dark: bool):
    grey = ramp(dark) @ np.array([0.299, 0.587, 0.114])
    steps = np.diff(grey) if dark else -np.diff(grey)
    assert (steps > -0.6).all()  # a rounding of 8 bits, no more
    assert abs(grey[-1] - grey[0]) > 180


@given(st.integers(1, 40), st.integers(1, 9))
def test_shrinking_keeps_the_mean(side: int, step: int):
    image = np.random.default_rng(side).random((side, side), dtype=np.float32)
    entries = np.full(side, 4)
    entries[-1] = 1
    small = shrink(image, step, entries)
    starts = np.arange(0, side, step)
    size = np.add.reduceat(entries, starts)
    whole = (image * np.outer(entries, entries)).sum() / entries.sum() ** 2
    assert (small * np.outer(size, size)).sum() / size.sum() ** 2 == pytest.approx(whole, rel=1e-4)


def test_shrinking_by_one_changes_nothing():
    image = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(shrink(image, 1), image)


def test_clipped():
    assert clipped("because", 7) == "because"
    assert clipped("because", 4) == "bec…"


def test_what_a_reader_should_look_at_first(make_overview):
    overview = make_overview(layers=6, heads=7)
    first = notable(overview, each=1, content=2)
    assert [view.role for view in first[:2]] == ["none", "none"]
    assert decided(first[0]) >= decided(first[1])
    best = {role: max(score(v) for v in overview.heads() if v.role == role) for role in ROLES[:1]}
    assert score(next(view for view in first if view.role == "previous")) == best["previous"]
    assert len({view.role for view in first[1:]}) == len(first[1:])


def test_clearest_links_are_the_strongest_and_differ(make_overview):
    overview = make_overview()
    view = next(view for view in overview.heads() if view.role == "previous")
    links = clearest(overview, view)
    assert all(key == query - 1 for query, key, _ in links)
    assert [w for *_, w in links] == sorted((w for *_, w in links), reverse=True)
    assert all(w == view.top_weights[q, 0] for q, _, w in links)


def test_a_head_of_no_role_shows_words_apart_first(make_overview):
    overview = make_overview(40, layers=3)
    view = next(view for view in overview.heads() if view.role == "none")
    assert all(abs(query - key) > 1 and key > 0 for query, key, _ in clearest(overview, view))


def test_links_of_one_token_alone(make_overview):
    overview = make_overview(1, 1, 1)
    assert clearest(overview, overview.layers[0][0]) == [(0, 0, 1.0)]


def test_ragged_heads_and_narrowing(make_overview):
    overview = make_overview(heads=(2, 5), queries=(3,))
    ragged = replace(overview, layers=(overview.layers[0][:1], overview.layers[1]))
    assert columns(ragged) == [2, 5]
    assert narrowed(ragged)
    assert not narrowed(make_overview())
