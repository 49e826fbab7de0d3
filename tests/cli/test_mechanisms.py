"""``regard mechanisms``: the table, in both languages."""

from __future__ import annotations

import inspect
import json
import sys

import pytest

from pages import ROOT
from regard.cli import main

pytest.importorskip("torch")


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_each_row_says_what_the_module_says(capsys: pytest.CaptureFixture[str], lang: str) -> None:
    from regard.nn.mechanisms import MECHANISMS

    assert main(["mechanisms", "--json", "--lang", lang]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == len(MECHANISMS)
    for row, mechanism in zip(rows, MECHANISMS, strict=True):
        assert all(row.values())
        assert (ROOT / row["example"]).exists()
        if mechanism.module is not None:
            doc = " ".join((inspect.getdoc(mechanism.module) or "").split())
            assert " ".join(row["formula"].split()) in doc
            assert row["source"] in doc
            assert any(year in row["source"] for year in map(str, range(2014, 2027)))
    assert main(["mechanisms", "--lang", lang]) == 0
    shown = capsys.readouterr().out
    for row in rows:
        assert row["mechanism"] in shown
    assert ("时间" in shown) is (lang == "zh")


def test_without_torch_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "regard.nn.mechanisms", None)
    assert main(["mechanisms", "--lang", "en"]) == 2
    assert "pip install 'regard[torch]'" in capsys.readouterr().err
