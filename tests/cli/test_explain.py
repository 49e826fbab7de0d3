"""``regard explain`` as it is called."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import regard
from regard.cli import main
from regard.explanation.reading import mask


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
    assert "learned from text" in " ".join(text.split())
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
        (("--x", ";"), "holds no numbers"),
        (("--x", "no.npy"), "there is no file “no.npy”"),
        (("--wq", "bad.npy"), "could not be read as a matrix"),
        (("--mask", "casual"), "“casual” could not be read"),
        (("--mask", "window(0)"), "window(0)"),
        (("--mask", "where(open('x'))"), "“open('x')” could not be read"),
        (("--mask", "where(i < 2.5)"), "“2.5” could not be read"),
        (("--mask", "where(i in j)"), "could not be read"),
        (("--mask", "window(-1)"), "window(n) takes a whole n of at least 1"),
        (("--mask", "causal(3)"), "causal nothing"),
        (("--mask", "keep([[1], [1, 2]])"), "rows of one length"),
        (("--mask", "keep('no.npy')"), "there is no file"),
        (("--wo", "1 0"), "wo must have one row"),
        (("--positions", "rotary", "--x", "1 2 3"), "which is odd"),
        (("--mask", "keep('no.npy')"), "there is no file “no.npy”"),
        (("--mask", "keep([[1, 0]])"), "at least (T, S) = (3, 3)"),
        (("--x", "1 a; 3 4"), "--x must be rows of numbers"),
        (("--x", "nan 1; 2 3"), "x must hold finite numbers"),
        (("--x", "no.txt"), "there is no file “no.txt”"),
        (("--x", "bad.txt"), "could not be read as text"),
        (("--mask", "causal and prefix(1)"), "could not be read"),
        (("--step", "scroes"), "there is no step “scroes” here; the steps are: input, dots"),
        (("--code", "jax"), "knows numpy and torch, not “jax”"),
        (("--to", "x.pdf"), "cannot tell the format from “x.pdf”"),
        (("--heads", "3"), "heads must divide"),
        (("--heads", "0"), "heads must be a whole number"),
        (("--positions", "foo"), "positions must be one of"),
        (("--wq", "1 2 3"), "wq must have one row"),
        (("--wq", "1 2; 3 4", "--wk", "1 2 3; 4 5 6"), "queries and keys of one width"),
    ],
)
def test_what_cannot_be_done_is_said(capsys, tmp_path, monkeypatch, args, words):
    monkeypatch.chdir(tmp_path)
    Path("bad.npy").write_text("no")
    Path("bad.txt").write_bytes(b"\xff\xfe\xff")
    assert words in refused(capsys, *args, "--lang", "en")
    chinese = re.sub("“.*?”", "", refused(capsys, *args, "--lang", "zh"))
    assert re.search("[一-鿿]{3}", chinese)
    if "bad." not in str(args):  # what the system says of a broken file is not ours
        assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", chinese)


@pytest.mark.parametrize(
    "text",
    ["causal", "causal()", "window(3)", "prefix(2) | causal", "~causal", "lengths(2)",
     "documents([0, 0, 1])", "keep([[1, 0, 0], [1, 1, 0], [0, 1, 1]]) & causal",
     "where(abs(i - j) < 2 or j == 0)"],
)  # fmt: skip
def test_masks_by_name(capsys, text):
    assert "masked" in said(capsys, "--mask", text, "--lang", "en")


def test_masks_are_those_that_python_has(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    allowed = np.random.default_rng(0).random((4, 4)) < 0.5
    np.save("mask.npy", allowed)
    x = np.eye(4)
    i, j = np.indices((4, 4))
    for text, wanted in (
        ("keep('mask.npy')", allowed),
        ("keep('mask.npy') & ~where(i == j)", allowed & (i != j)),
        ("where(0 <= i - j < 2)", (i >= j) & (i - j < 2)),
        ("where(not (i + j) % 2 == 0 or j * 2 > i // 2)", ((i + j) % 2 != 0) | (j * 2 > i // 2)),
        ("where(-i < j | 1)", -i < (j | 1)),
    ):
        trace = regard.explain(x, mask=mask(text))
        assert np.array_equal(trace["masked"]["M"] != 0, wanted), text


def test_a_sentence_may_stand_in_a_file(capsys, tmp_path):
    file = tmp_path / "say.txt"
    file.write_text("The cat sat", encoding="utf-8")
    text = said(capsys, "--x", str(file), "--step", "input", "--lang", "en")
    assert text == said(capsys, "--x", "The cat sat", "--step", "input", "--lang", "en")
    assert "learned from text" in text
