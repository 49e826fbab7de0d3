"""What a token is called, and where a word stands."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from regard.recording.reading import Reading, _pieces, labels


def cut(data: bytes, places: list[int]) -> list[bytes]:
    """``data`` in pieces, none of them empty."""
    edges = sorted({0, len(data), *(place % (len(data) + 1) for place in places)})
    return [data[start:stop] for start, stop in itertools.pairwise(edges)]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(TEXTS, st.lists(st.integers(0, 10_000)))
def test_tokens_spell_the_text_however_it_is_cut(text: str, places: list[int]):
    pieces = cut(text.encode(), places)
    called, spelled = labels(pieces)
    assert "".join(spelled) == text
    assert len(called) == len(pieces)
    assert all(called)


@given(TEXTS, st.lists(st.integers(0, 10_000)))
def test_a_token_of_whole_characters_is_called_what_it_says(text: str, places: list[int]):
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    parts = [text[start:stop] for start, stop in itertools.pairwise(edges)]
    assert labels([part.encode() for part in parts]) == (parts, parts)


def test_a_token_within_a_character_is_called_by_it_and_its_number():
    a, b, c = (bytes([byte]) for byte in "界".encode())
    assert labels([a, b, c])[0] == ["界", "界₂", "界₃"]
    assert labels([b" " + a, b + c + b"!"]) == ([" 界", "!"], [" 界", "!"])
    assert labels([a, b + c + a, b + c])[0] == ["界", "界", "界₂"]


def test_bytes_that_are_no_text_are_shown_as_such():
    assert labels([b"a\xff", b"\xe7", b"b"])[1] == ["a\N{REPLACEMENT CHARACTER}", "\ufffdb", ""]


def test_sentencepiece_writes_spaces_and_bytes_its_own_way():
    vocabulary = ["<s>", "▁the", "<0xE7>", "<0x95>", "<0x8C>", "▁", "<0x0A>", "<0x41>"]
    tokenizer = SimpleNamespace(
        get_added_vocab=lambda: {"<0x41>": 7},
        convert_ids_to_tokens=lambda ids: [vocabulary[number] for number in ids],
    )
    pieces = _pieces(tokenizer, list(range(8)))
    assert labels(pieces)[0] == ["<s>", " the", "界", "界₂", "界₃", " ", "\n", "<0x41>"]


def reading(*spelled: str) -> Reading:
    return Reading(tuple(range(len(spelled))), spelled, spelled, (), 0)


def test_a_word_is_found_wherever_it_stands():
    text = reading("It", " un", "it", "ed", " it", "\n", "It", ".")
    assert text.find("it") == (0, 2, 4, 6)
    assert text.find(" UNITED ") == (1, 2, 3)
    assert text.find("it\nit.") == (4, 5, 6, 7)
    assert text.find("unit e") == ()


def test_all_tokens_of_a_character_are_found_and_nothing_beside_it():
    text = reading(" ", "世", "", "界", "", "", " ", "界")
    assert text.find("界") == (3, 4, 5, 7)
    assert text.find("世界") == (1, 2, 3, 4, 5)


@given(st.lists(st.text("ab ", min_size=1, max_size=3), min_size=1, max_size=8), st.data())
def test_every_run_of_tokens_is_found_by_its_own_text(spelled: list[str], data: st.DataObject):
    start = data.draw(st.integers(0, len(spelled) - 1))
    stop = data.draw(st.integers(start + 1, len(spelled)))
    word = "".join(spelled[start:stop])
    inner = [n for n in range(start, stop) if spelled[n].strip()]
    found = reading(*spelled).find(word)
    if inner and not word[-1].isspace():
        assert set(inner) <= set(found)


@given(st.lists(st.text("ab ", min_size=1, max_size=3), min_size=1), st.text("ab", min_size=1))
def test_what_is_found_takes_part_in_spelling_the_word(spelled: list[str], word: str):
    for position in reading(*spelled).find(word):
        piece = spelled[position].strip()
        assert piece in word
        assert piece
