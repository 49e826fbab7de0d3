"""The JSON document: its shape, its numbers, its limit."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from regard.pictures import json_document, save
from regard.pictures.document import TOP_ROWS


def test_the_schema_is_exactly_this(make_overview, sentence):
    document = json_document(make_overview(layers=(1, 4), heads=(0, 3)))
    assert list(document) == ["model", "tokens", "layers"]
    assert document["model"] == "tiny/model"
    assert document["tokens"] == list(sentence)
    assert [layer["layer"] for layer in document["layers"]] == [1, 4]
    for layer in document["layers"]:
        assert list(layer) == ["layer", "heads"]
        assert [head["head"] for head in layer["heads"]] == [0, 3]
        for head in layer["heads"]:
            assert list(head) == ["head", "role", "entropy", "received", "top"]
            assert len(head["received"]) == len(sentence)
            assert all(list(row) == ["query", "key", "weight"] for row in head["top"])


def test_top_holds_the_eight_strongest_of_each_query(make_overview):
    overview = make_overview()
    view = overview.layers[1][2]
    rows = json_document(overview)["layers"][1]["heads"][2]["top"]
    for query in range(13):
        mine = [row for row in rows if row["query"] == query]
        keys = [int(key) for key in view.top_keys[query] if key >= 0]
        assert len(keys) == min(8, query + 1)
        assert [row["key"] for row in mine] == keys
        wanted = view.top_weights[query, : len(keys)]
        assert [row["weight"] for row in mine] == pytest.approx(wanted, rel=1e-5)


def test_only_the_asked_queries(make_overview):
    rows = json_document(make_overview(queries=(9, 4)))["layers"][0]["heads"][0]["top"]
    assert {row["query"] for row in rows} == {4, 9}
    assert [row["query"] for row in rows] == sorted(row["query"] for row in rows)


def test_numbers_have_six_digits(make_overview):
    head = json_document(make_overview(40))["layers"][0]["heads"][1]
    numbers = [head["entropy"], *head["received"], *(row["weight"] for row in head["top"])]
    assert all(number == float(f"{number:.6g}") for number in numbers)


def test_beyond_the_limit_the_strongest_stay(make_overview):
    overview = make_overview(700, 1, 2)
    view = overview.layers[0][1]
    rows = json_document(overview)["layers"][0]["heads"][1]["top"]
    assert (view.top_keys >= 0).sum() > TOP_ROWS == len(rows)
    kept = {(row["query"], row["key"]) for row in rows}
    queries, ranks = np.nonzero(view.top_keys >= 0)
    pairs = zip(queries.tolist(), view.top_keys[queries, ranks].tolist(), strict=True)
    weights = dict(zip(pairs, view.top_weights[queries, ranks].tolist(), strict=True))
    lost = [weight for pair, weight in weights.items() if pair not in kept]
    assert max(lost) <= min(weights[pair] for pair in kept)
    order = [(row["query"], -row["weight"]) for row in rows]
    assert order == sorted(order)


@pytest.mark.parametrize("rows", [512, 513])
def test_the_limit_itself(make_overview, rows: int):
    overview = make_overview(rows, 1, 1, causal=False)
    assert len(json_document(overview)["layers"][0]["heads"][0]["top"]) == TOP_ROWS


@pytest.mark.parametrize("odd", ["汉字", "\ud83d", '"</script>\n', "\x00"])
def test_the_file_says_the_same(make_overview, tmp_path, odd: str):
    overview = make_overview((odd, "b"), 1, 1)
    save(overview, tmp_path / "look.json")
    read = json.loads((tmp_path / "look.json").read_text(encoding="utf-8"))
    assert read == json_document(overview)
    assert read["tokens"] == [odd, "b"]


def test_chinese_stays_readable_in_the_file(make_overview, tmp_path):
    save(make_overview(("汉字", "b"), 1, 1), tmp_path / "look.json")
    assert "汉字" in (tmp_path / "look.json").read_text(encoding="utf-8")


def test_what_is_not_finite_is_null(make_overview):
    overview = make_overview(layers=1, heads=1)
    view = replace(overview.layers[0][0], entropy=float("nan"))
    document = json_document(replace(overview, layers=((view,),)))
    assert document["layers"][0]["heads"][0]["entropy"] is None


def test_a_layer_without_heads_is_left_out(make_overview):
    overview = make_overview()
    assert len(json_document(replace(overview, layers=((), overview.layers[1])))["layers"]) == 1
