"""Tables against the dense weights, and what comes back of the files that they are written to."""

from __future__ import annotations

import csv
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaModel

import regard
from regard._errors import MissingError, UserError, ValueRangeError
from regard.recording.recording import Layer, Recording, Run
from regard.recording.tables import SUFFIXES, TABLES, named
from small import GROUPED

IDS = torch.arange(24).reshape(2, 12)
TOKENS = ("Ann", " met", ",", "\n", "汉字", '"', " =1", "", "\ud800", "a;b", "🦊", " end")


@pytest.fixture(scope="module")
def model() -> LlamaModel:
    torch.manual_seed(0)
    return LlamaModel(LlamaConfig(**GROUPED)).eval()


def watched(model: Any, keep: Any = None) -> Recording:
    with torch.no_grad(), regard.watch(model, keep=keep) as seen:
        model(input_ids=IDS)
    return seen


@pytest.fixture(scope="module")
def seen(model) -> Recording:
    return watched(model)


def dense(seen: Recording, layer: int, sample: int = 0) -> Any:
    return np.asarray(seen[layer].weights.dense()[sample], np.float64)


@pytest.mark.parametrize("sample", [0, 1])
def test_links_are_the_strongest_weights(seen, sample):
    found = seen.table("links", strongest=3, sample=sample).arrays()
    assert (np.diff(found["layer"]) >= 0).all()
    for layer in range(len(seen)):
        for head, w in enumerate(dense(seen, layer, sample)):
            for query, row in enumerate(w):
                here = (found["layer"] == layer) & (found["head"] == head)
                here &= found["query"] == query
                many = min(3, query + 1)
                assert found["rank"][here].tolist() == list(range(many))
                wanted = np.sort(row)[::-1][:many]
                np.testing.assert_allclose(found["weight"][here], wanted, atol=1e-6)
                np.testing.assert_allclose(row[found["key"][here]], wanted, atol=1e-6)


def test_links_are_narrowed(seen):
    found = seen.table("links", layers=[1], heads=[2, 0], queries=[7, 3, 7], least=0.2).arrays()
    assert set(found["layer"]) == {1}
    assert set(found["query"]) <= {3, 7}
    w = dense(seen, 1)[[2, 0]][:, [3, 7]]
    assert len(found["weight"]) == (w >= 0.2).sum() > 0
    none = seen.table("links", least=2).arrays()
    assert {name: (len(held), held.dtype.name) for name, held in none.items()} == {
        "layer": (0, "int32"), "head": (0, "int32"), "query": (0, "int32"), "key": (0, "int32"),
        "rank": (0, "int32"), "weight": (0, "float32"),
    }  # fmt: skip


def test_numbers_count_from_the_end_and_one_that_is_not_there_is_named(seen):
    ends = seen.table("links", layers=[-1], heads=[-1], queries=[-1]).arrays()
    last = seen.table("links", layers=[1], heads=[3], queries=[11]).arrays()
    assert len(last["layer"])
    for name, held in last.items():
        np.testing.assert_array_equal(ends[name], held)
    for name, size in (("layers", 2), ("heads", 4), ("queries", 12)):
        with pytest.raises(regard.ValueRangeError, match=rf"0 … {size - 1}, but {size} came"):
            seen.table("links", **{name: [size]}).arrays()


def test_heads_are_what_the_weights_say(model, seen):
    found = seen.table("heads").arrays()
    assert len(found["layer"]) == sum(layer.heads for layer in seen)
    far = np.abs(np.arange(12)[:, None] - np.arange(12))
    for at, (layer, head) in enumerate(zip(found["layer"], found["head"], strict=True)):
        w = dense(seen, layer)[head]
        share = w.sum(0) / w.sum()
        wanted = {
            "entropy": -(w * np.log(np.where(w > 0, w, 1))).sum(1).mean(),
            "distance": (w * far).sum() / w.sum(),
            "strongest": w.max(1).mean(),
            "received_share": share.max(),
            "received_concentration": (share**2).sum(),
            "score_previous": np.diagonal(w, -1).sum() / 11,
            "score_first": w[1:, 0].mean(),
        }
        for name, value in wanted.items():
            assert found[name][at] == pytest.approx(value, abs=2e-5), name
        assert found["received_most"][at] == share.argmax()
        assert found["name"][at] == seen[layer].name
        assert (found["queries"][at], found["keys"][at]) == (12, 12)
    summed = watched(model, regard.Statistics()).statistics
    roles = [stats.role(head) for stats in summed for head in range(stats.heads)]
    assert found["role"].tolist() == roles


@pytest.mark.parametrize("name", TABLES)
def test_statistics_and_a_loaded_recording_give_the_same_table(model, seen, tmp_path, name):
    summed = watched(model, regard.Statistics())
    for number, kept in enumerate((seen, summed)):
        kept.save(tmp_path / f"{number}.regard")
    wanted = seen.table(name).arrays()
    for other in (summed, *(regard.load(tmp_path / f"{n}.regard") for n in (0, 1))):
        found = other.table(name).arrays()
        assert list(found) == list(wanted)
        for column, held in wanted.items():
            if held.dtype.kind == "f":
                np.testing.assert_allclose(found[column], held, atol=1e-6, err_msg=column)
            else:
                assert found[column].tolist() == held.tolist(), column


def test_csv_comes_back(seen, tmp_path):
    table = seen.table("links", tokens=TOKENS)
    table.save(tmp_path / "links.csv")
    with (tmp_path / "links.csv").open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    assert names == [column.name for column in table.columns]
    assert names[-2:] == ["query_token", "key_token"]
    wanted = table.arrays()
    read = dict(zip(names, zip(*rows, strict=True), strict=True))
    for name, held in wanted.items():
        np.testing.assert_array_equal(np.array(read[name], held.dtype), held, name)
    spelled = [TOKENS[at].replace("\ud800", "?") for at in wanted["key"]]
    assert list(read["key_token"]) == spelled


@pytest.mark.parametrize("name", TABLES)
def test_numpy_files_come_back(seen, tmp_path, name):
    table = seen.table(name, tokens=TOKENS[:8] + ("x",) * 4)
    wanted = table.arrays()
    table.save(tmp_path / "a.npy")
    records = np.load(tmp_path / "a.npy")
    table.save(tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        assert set(file) == {*wanted, "tokens", "version"}
        assert int(file["version"]) == 1
        assert file["tokens"].tolist() == list(table.tokens)
        for column, held in wanted.items():
            for found in (records[column], file[column]):
                assert found.dtype == held.dtype
                assert np.array_equal(found, held, equal_nan=held.dtype.kind == "f")


@pytest.mark.parametrize("name", TABLES)
def test_parquet_comes_back(seen, tmp_path, name):
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    table = seen.table(name, tokens=TOKENS)
    table.save(tmp_path / "a.parquet")
    found = parquet.read_table(tmp_path / "a.parquet")
    assert found.schema.metadata[b"regard.table"] == name.encode()
    assert found.schema.metadata[b"regard.version"] == b"1"
    assert found.column_names == [column.name for column in table.columns]
    wanted = table.arrays()
    for column, held in wanted.items():
        np.testing.assert_array_equal(np.array(found[column].to_pylist(), held.dtype), held)
    if name == "links":
        spelled = [TOKENS[at].replace("\ud800", "?") for at in wanted["query"]]
        assert found["query_token"].to_pylist() == spelled


def test_parquet_without_pyarrow_names_the_remedy(seen, tmp_path, monkeypatch):
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("regard.recording.tables.rows.import_module", missing)
    with pytest.raises(MissingError, match=r"pip install pyarrow, or save it as \.csv"):
        seen.table("heads").save(tmp_path / "heads.parquet")
    assert list(tmp_path.iterdir()) == []


def test_rows_are_made_a_layer_at_a_time(seen):
    told: list[tuple[int, int]] = []
    parts = seen.table("links", progress=lambda *step: told.append(step)).parts()
    assert told == []
    first = next(parts)
    assert told == [(0, 2)]
    assert set(first["layer"]) == {0}
    assert len(list(parts)) == 1
    assert told == [(0, 2), (1, 2), (2, 2)]


def test_cross_attention_has_rows_and_no_tokens():
    random = np.random.default_rng(0)
    q, k = random.standard_normal((1, 2, 5, 4)), random.standard_normal((1, 2, 9, 4))
    seen = Recording()
    seen.runs.append(Run(layers=[Layer("cross", q, k, None, None, kind="cross")]))
    table = seen.table("links", tokens=["a"] * 5, least=0)
    assert [column.name for column in table.columns][-1] == "weight"
    assert len(table.arrays()["key"]) == 2 * 5 * 8
    assert seen.table("heads").arrays()["keys"].tolist() == [9, 9]


def test_a_table_that_is_not_there_is_refused(model, seen, tmp_path):
    with pytest.raises(ValueRangeError, match="one of links, heads, but 'rows' came"):
        seen.table("rows")
    with pytest.raises(ValueRangeError, match=r"sample must lie in 0 … 1, but 2 came"):
        seen.table("heads", sample=2).arrays()
    bare = watched(model, regard.Statistics(strongest=0))
    with pytest.raises(ValueRangeError, match=r"keep=Statistics\(strongest=8\)"):
        bare.table("links").arrays()
    assert np.isnan(bare.table("heads").arrays()["strongest"]).all()
    with pytest.raises(UserError, match=r"end it in \.csv"):
        seen.table("heads").save(tmp_path / "heads.xls")


def test_a_name_tells_the_table():
    assert named(Path("cat-Links.csv"), TABLES) == "links"
    assert named(Path("x/heads.parquet"), TABLES) == "heads"
    with pytest.raises(UserError, match=r"call it links\.npz, heads\.npz"):
        named(Path("table.npz"), TABLES)
    assert len(SUFFIXES) == 4
    assert importlib.import_module("regard.recording.tables").VERSION == 1
