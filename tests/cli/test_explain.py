"""``regard explain`` as it is called."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from regard.cli import main


def said(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["explain", *args]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["explain", *args]) == 2
    return capsys.readouterr().err


def test_alone_it_tells_the_story(capsys):
    text = said(capsys, "--lang", "en")
    assert re.search(r"0\.26 +0\.23 +0\.08", text)
    assert re.search(r"0\.08 +0\.24 +0\.64", text)
    assert "25. What it costs" in text
    assert "计算代价" in said(capsys, "--lang", "zh")


def test_options_reach_the_trace(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((4, 4))
    np.save("x.npy", x)
    Path("w.csv").write_text("1,0,0,0\n0,1,0,0\n0,0,1,0\n0,0,0,1\n")
    said(
        capsys, "--x", "x.npy", "--wq", "w.csv", "--wk", "w.csv", "--wv", "w.csv", "--wo", "w.csv",
        "--heads", "2", "--mask", "causal & window(before=1, after=0)", "--positions", "alibi",
        "--to", "out.json", "--to", "out.md", "--to", "out.html",
    )  # fmt: skip
    document = json.loads(Path("out.json").read_text(encoding="utf-8"))
    import regard

    wanted = regard.explain(
        x, wo=np.eye(4), heads=2, positions="alibi", mask=regard.causal() & regard.window(2)
    )
    last = document["steps"][-1]["tables"][-1]
    assert np.allclose(np.reshape(last["values"], (4, 4)), wanted.output)
    assert Path("out.md").read_text(encoding="utf-8").startswith("# ")
    assert "<!doctype html>" in Path("out.html").read_text(encoding="utf-8")


def test_a_sentence_is_read_and_owned_up_to(capsys):
    text = said(capsys, "--x", "the cat sat", "--step", "input", "--lang", "en")
    assert "nothing was learned" in " ".join(text.split())
    assert "cat" in text


def test_code_alone_is_a_program(capsys):
    names: dict[str, object] = {}
    exec(said(capsys, "--code", "numpy", "--x", "0.1 0.5; 0.3 0.4", "--mask", "causal"), names)
    assert np.shape(names["O"]) == (2, 2)


def test_steps_can_be_chosen(capsys):
    text = said(capsys, "--step", "dots", "--step", "cost", "--lang", "en")
    assert "1. How alike" in text
    assert "2. What it costs" in text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--x", "1 2; 3"), "must be of one length, but they have 1, 2 numbers"),
        (("--x", "1 2; 3 -"), "--x must be rows of numbers"),
        (("--x", ";"), "must be of one length"),
        (("--x", "no.npy"), "there is no file “no.npy”"),
        (("--wq", "bad.npy"), "could not be read as a matrix"),
        (("--mask", "casual"), "could not be read: casual"),
        (("--mask", "window(0)"), "window(0)"),
        (("--mask", "causal and prefix(1)"), "could not be read"),
        (("--step", "scroes"), "there is no step “scroes” here; the steps are: input, dots"),
        (("--code", "jax"), "knows numpy and torch, not “jax”"),
        (("--to", "x.pdf"), "cannot tell the format from “x.pdf”"),
        (("--heads", "3"), "heads must divide"),
    ],
)
def test_what_cannot_be_done_is_said(capsys, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    Path("bad.npy").write_text("no")
    assert words in refused(capsys, *args, "--lang", "en")
    assert refused(capsys, *args, "--lang", "zh")


@pytest.mark.parametrize(
    "text",
    ["causal", "causal()", "window(3)", "prefix(2) | causal", "~causal", "lengths(2)",
     "documents([0, 0, 1])"],
)  # fmt: skip
def test_masks_by_name(capsys, text):
    assert "masked" in said(capsys, "--mask", text, "--lang", "en")
