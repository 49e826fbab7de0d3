"""Numbers that stand in a table, whether it is drawn as one or written as a list."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.explanation.notes import fact_check
from regard.explanation.notes.tables.siblings import written_tables

FORMS = [
    ("| tokens | cache |\n|---|---|\n", "| {n} | {x} |\n"),
    ("", "- {n} tokens: {x}\n"),
    ("", "- $n = {n}$: the cache takes {x}\n"),
    ("", "- $n={n}$ 时，缓存占 {x}\n"),
]
UNITS = {"KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}


def told(size: int) -> str:
    name, unit = next((n, u) for n, u in reversed(UNITS.items()) if size >= u)
    return f"{size / unit:g} {name}"


@pytest.mark.parametrize(("head", "row"), FORMS)
@given(
    each=st.sampled_from([2, 8, 64, 800]), odd=st.integers(0, 4), by=st.sampled_from([2, 4, 0.5])
)
@settings(max_examples=12, deadline=None)
def test_what_grows_with_the_length_is_followed_through_its_units(head, row, each, odd, by):
    lengths = [512, 1024, 2048, 4096, 16384]
    sizes = [n * each * 1024 for n in lengths]
    note = head + "".join(row.format(n=n, x=told(x)) for n, x in zip(lengths, sizes, strict=True))
    assert fact_check(note).of("wrong") == []
    wrong = [int(x * by) if i == odd else x for i, x in enumerate(sizes)]
    note = head + "".join(row.format(n=n, x=told(x)) for n, x in zip(lengths, wrong, strict=True))
    (verdict,) = fact_check(note).of("wrong")
    assert verdict.line == head.count("\n") + odd + 1
    assert verdict.values["right"] == told(sizes[odd])


@pytest.mark.parametrize(
    "row", ["- $n={n}$：允许 {a} 个，禁止 {b} 个\n", "- n = {n}: {a} visible, {b} hidden\n"]
)
def test_a_triangles_halves_in_a_list(row):
    rows = [[n, n * (n + 1) // 2, n * (n - 1) // 2] for n in (3, 4, 10, 100)]
    note = "".join(row.format(n=n, a=a, b=b) for n, a, b in rows)
    assert fact_check(note).of("wrong") == []
    rows[2][2] = 50
    (verdict,) = fact_check("".join(row.format(n=n, a=a, b=b) for n, a, b in rows)).of("wrong")
    assert (verdict.line, verdict.values["right"]) == (3, "45")


PARTS = """| part | parameters |
|---|---|
| attention | $4 \\times 512^2 = {}$ |
| FFN | 2,099,712 |
| norms | {} |
| total | {} |
"""


@pytest.mark.parametrize(
    ("first", "norms", "total", "right"),
    [
        ("1{,}048{,}576", "2,048", "3,150,336", ""),
        ("1{,}048{,}576", "2,048", "3,105,336", "3,150,336"),  # two digits have changed places
        ("1{,}048{,}576", "1,024", "3,150,336", ""),  # it may be a part that is wrong
        ("1{,}048{,}576", "2,048", "18,902,016", ""),  # of six layers, it may be
    ],
)
def test_a_total_is_the_sum_of_what_stands_above(first, norms, total, right):
    found = [v.values["right"] for v in fact_check(PARTS.format(first, norms, total)).of("wrong")]
    assert found == ([right] if right else [])


def test_rows_that_agree_by_chance_bind_nothing():
    scores = "| | key 1 | key 2 | key 3 |\n|---|---|---|---|\n| query 1 | 0.707 | 2.121 | 2.828 |\n"
    scores += "| query 2 | 0 | 0.707 | 0.707 |\n| query 3 | 0.707 | 2.828 | 3.536 |\n"
    assert fact_check(scores).of("wrong") == []


def test_lines_of_one_skeleton_are_a_table_and_formulas_are_none():
    lines = [
        "- $d = 2$：方差 2",
        "* $d = 4$：方差 4",
        "d = 8：方差 8。d = 16：方差 16",
        "d = 2·4: 方差 8",
    ]
    (table,) = written_tables(lines)
    assert [(row.line, [cell.value for cell in row.cells]) for row in table] == [
        (1, [2.0, 2.0]), (2, [4.0, 4.0]), (3, [8.0, 8.0]), (3, [16.0, 16.0]),
    ]  # fmt: skip
    assert [*written_tables(["```", *lines[:3], "```"])] == []
