"""``regard look``: from a text to what is printed and saved, and everything that it refuses."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from regard._errors import ShapeError
from regard.cli import main
from small import need_package, unmeasured

Looked = Callable[..., SimpleNamespace]
ANIMAL = "The animal didn't cross the street because it was too tired"


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")


@pytest.fixture
def look(tiny: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Looked:
    """``look("TEXT", "--option", …)`` with the tiny model, or the last one named."""

    def run(*args: str | Path, stdin: bytes = b"") -> SimpleNamespace:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        code = main(["look", "--model", str(tiny), *map(str, args)])
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return run


def document(looked: SimpleNamespace) -> dict[str, Any]:
    assert looked.code == 0, looked.err
    found: dict[str, Any] = json.loads(looked.out)
    return found


# Real models, as their users run them


@pytest.mark.models
def test_smollm2_shows_that_it_means_the_animal():
    need_package("smollm2")
    command = [sys.executable, "-m", "regard", "look", ANIMAL, "--json", "--query", "it"]
    # Colours may be wanted in a pipe; the line that tells what is being done is not.
    colours = unmeasured() | {"FORCE_COLOR": "1"}
    done = subprocess.run(command, capture_output=True, check=False, env=colours)
    assert (done.returncode, done.stderr) == (0, b"")
    seen = json.loads(done.stdout)
    assert seen["model"] == "smollm2"
    assert "".join(seen["tokens"]) == ANIMAL
    assert [layer["layer"] for layer in seen["layers"]] == list(range(30))
    it, animal = seen["tokens"].index(" it"), seen["tokens"].index(" animal")
    first = seen["layers"][13]["heads"][8]["top"][0]
    assert (first["query"], first["key"]) == (it, animal)
    assert first["weight"] > 0.6


@pytest.mark.models
def test_smollm2_is_the_default_and_reads_chinese(look: Looked):
    need_package("smollm2")
    shown = look("-", "--model", "smollm2", "--lang", "zh", stdin="动物太累了。".encode())
    assert (shown.code, shown.err) == (0, "")
    assert "smollm2" in shown.out
    assert "无固定角色" in shown.out


@pytest.mark.models
def test_minilm_warns_of_what_it_does_not_know(look: Looked):
    need_package("minilm")
    looked = look("一只动物", "--model", "minilm", "--json")
    assert document(looked)["tokens"][0] == "[CLS]"
    assert looked.err.startswith("note: minilm does not know ")
    assert looked.err.endswith("reads each of them as [UNK]; --model smollm2 reads any text\n")
    assert "minilm 不认识" in look("一只动物", "--model", "minilm", "--lang", "zh").err


@pytest.mark.models
def test_minilm_cannot_go_beyond_its_positions(look: Looked):
    need_package("minilm")
    looked = look("it " * 600, "--model", "minilm", "--beyond-context")
    assert looked.code == 2
    assert "has 602 tokens and minilm knows only 512 positions" in looked.err


# What is shown and saved


def test_json_is_all_of_standard_output(look: Looked, tmp_path: Path):
    looked = look("the text it is", "--json", "--to", tmp_path / "a.json")
    seen = document(looked)
    assert looked.err == f"wrote {tmp_path / 'a.json'}\n"
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == seen
    assert [[head["head"] for head in layer["heads"]] for layer in seen["layers"]] == [
        [0, 1, 2, 3],
        [0, 1, 2, 3],
    ]


def test_every_format_is_saved(look: Looked, tmp_path: Path):
    paths = [tmp_path / f"a{suffix}" for suffix in (".html", ".png", ".svg", ".json")]
    looked = look("the text", "--lang", "zh", *(a for path in paths for a in ("--to", path)))
    assert looked.code == 0
    assert looked.err == "".join(f"已写入 {path}\n" for path in paths)
    assert all(path.stat().st_size for path in paths)
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_tables_hold_what_is_shown(look: Looked, tmp_path: Path):
    paths = [tmp_path / name for name in ("links.csv", "some-heads.npz")]
    asked = ["--layer", "-1", "--head", "2", "--query", "it"]
    looked = look("it the it", *asked, *(a for path in paths for a in ("--to", path)))
    assert looked.code == 0, looked.err
    with paths[0].open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {(row["layer"], row["head"]) for row in rows} == {("1", "2")}
    assert [row["query"] for row in rows] == ["0", "2", "2", "2"]
    assert {row["query_token"].strip() for row in rows} == {"it"}
    assert sum(float(row["weight"]) for row in rows) == pytest.approx(2, abs=1e-5)
    assert np.load(paths[1])["head"].tolist() == [2]
    summed = look("it the it", "--statistics", *asked, "--to", paths[0])
    assert summed.code == 0, summed.err
    with paths[0].open(encoding="utf-8") as file:
        again = list(csv.DictReader(file))
    assert [row["key"] for row in again] == [row["key"] for row in rows]


def test_parquet_is_refused_before_the_work_without_pyarrow(look: Looked, monkeypatch):
    monkeypatch.setattr("regard.cli.look.find_spec", lambda name: None)
    looked = look("it", "--to", "links.parquet")
    assert looked.code == 2
    assert "pip install pyarrow" in looked.err


def test_layers_heads_and_queries_narrow_it(look: Looked):
    def seen(*args: str) -> tuple[list[int], list[int], set[int]]:
        found = document(look("it the it", "--json", *args))
        layers = found["layers"]
        heads = layers[0]["heads"]
        queries = {row["query"] for row in heads[0]["top"]}
        return [layer["layer"] for layer in layers], [head["head"] for head in heads], queries

    assert seen("--layer", "-1") == ([1], [0, 1, 2, 3], {0, 1, 2})
    assert seen("--layer", "1", "--layer", "0", "--layer", "-1")[0] == [0, 1]
    assert seen("--head", "2", "--head", "-4")[1] == [0, 2]
    assert seen("--query", "it")[2] == {0, 2}
    assert seen("--query", "-1", "--query", "the")[2] == {1, 2}


def test_a_text_comes_from_a_file_or_standard_input_too(look: Looked, tmp_path: Path):
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfit \xe4\xb8\x96\n")
    tokens = ["it", " ", "世", "世₂", "世₃"]
    assert document(look("--file", file, "--json"))["tokens"] == tokens
    assert document(look("-", "--json", stdin=file.read_bytes()))["tokens"] == tokens


def test_beyond_the_context_only_on_demand(look: Looked):
    looked = look(" it" * 65)
    assert (looked.code, looked.out) == (2, "")
    assert "has 65 tokens and " in looked.err
    assert "was made for 64: shorten it, or add --beyond-context" in looked.err
    looked = look(" it" * 65, "--beyond-context", "--json")
    assert len(document(looked)["tokens"]) == 65
    assert looked.err.startswith("note: the text has 65 tokens")
    assert look(" it" * 64).err == ""


def test_a_terminal_is_told_what_is_being_done(tiny: Path):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "regard", "look", "the text", "--model", tiny, "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=theirs, env=unmeasured()
    ) as process:
        os.close(theirs)
        told = b""
        while chunk := read(ours):
            told += chunk
        seen = json.loads(process.stdout.read())
    os.close(ours)
    assert process.returncode == 0
    assert len(seen["layers"]) == 2
    assert f"loading {tiny}"[:40].encode() in told


def read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other side has closed
        return b""


# What is refused


def refused(looked: SimpleNamespace, *parts: str) -> None:
    assert looked.code == 2
    assert looked.out == ""
    assert looked.err.count("\n") == 1
    assert looked.err.startswith(("regard: ", "regard："))
    for part in parts:
        assert part in looked.err


@pytest.fixture
def no_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes it a failure to load a model: what can be refused before must be."""

    def load(*_: object) -> None:
        raise AssertionError("the long work began")

    monkeypatch.setattr("regard.recording.models.load", load)


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("args", "english", "chinese"),
    [
        ([], "no text to read", "没有可读的文本"),
        (["a", "b c"], 'put it in quotes, as in regard look "a b c"', "请加上引号"),
        (["a", "--file", "f"], "given twice, as TEXT and with --file f", "文本给了两次"),
        ([" \n"], "the text (TEXT) is empty", "是空的"),
        (["-"], "the text (-) is empty", "是空的"),
        (["a\0b"], "byte 2 is zero", "第 2 个字节为零"),
        (["a\udcffb"], "TEXT is not UTF-8 text (byte 2 fits", "不是 UTF-8 文本"),
        (["--file", "nope"], "there is no file nope", "没有 nope 这个文件"),
        (["--file", "."], "cannot read .: Is a directory", "无法读取 .："),
        (["--file", "f" * 300], "fff: File name too long", "无法读取 fff"),
        (["--file", "~nosuchuser/f"], "there is no file ~nosuchuser/f", "没有 ~nosuchuser/f"),
        (["a", "--layer", "first"], "--layer is a whole number, not “first”", "应为整数"),
        (["a", "--head", "1.5"], "--head is a whole number, not “1.5”", "应为整数"),
        (["a", "--to", "look.jpg"], "“look.jpg”", "无法从“look.jpg”判断格式"),
        (["a", "--to", "table.csv"], "links.csv, heads.csv", "没有说明是哪个表格"),
        (["a", "--to", "look"], "“look”", "无法从“look”判断格式"),
        (["a", "--to", "nope/look.png"], "there is no folder nope", "没有 nope 这个文件夹"),
        (["a", "--to", "."], "--to . is a folder", "是一个文件夹"),
        (["a", "--to", "~nosuchuser/x.png"], "no folder ~nosuchuser", "没有 ~nosuchuser 这个"),
        (["a", "--to", "f" * 300 + ".png"], "f.png: File name too long", "无法写入 fff"),
        (["a", "--to", "f" * 300 + "/a.png"], "there is no folder fff", "fff 这个文件夹"),
    ],
)
def test_it_is_refused_before_the_model_is_loaded(
    args: Sequence[str], english: str, chinese: str, look: Looked
):
    refused(look(*args), english)
    refused(look(*args, "--lang", "zh"), chinese)


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("lang", "part"), [("en", "cannot read -: Is a d"), ("zh", "无法读取 -：")]
)
def test_a_standard_input_that_cannot_be_read_is_refused(
    lang: str, part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):  # fmt: skip
    def read() -> bytes:
        raise IsADirectoryError(21, "Is a directory")

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=SimpleNamespace(read=read)))
    code = main(["look", "-", "--lang", lang])
    out, err = capsys.readouterr()
    refused(SimpleNamespace(code=code, out=out, err=err), part)


@pytest.mark.usefixtures("no_model")
def test_a_protected_folder_is_refused_before_the_model_is_loaded(
    look: Looked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # Asked, not done: whoever runs the tests may be allowed to write anywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    refused(look("a", "--to", tmp_path / "a.png"), f"its folder {tmp_path} is write-protected")


@pytest.mark.usefixtures("no_model")
def test_a_picture_without_matplotlib_is_refused_before_the_model_is_loaded(
    look: Looked, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("regard.recording.shelf.find_spec", lambda name: None)
    refused(look("a", "--to", "a.svg"), "needs matplotlib", 'pip install "regard[look]"')


@pytest.mark.usefixtures("no_model")
def test_a_file_that_is_no_text_is_refused(look: Looked, tmp_path: Path):
    (tmp_path / "latin").write_bytes("naïve".encode("latin-1"))
    refused(look("--file", tmp_path / "latin"), "latin is not UTF-8 text (byte 3 fits")
    (tmp_path / "binary").write_bytes(b"\x7fELF\0\0")
    refused(look("--file", tmp_path / "binary"), "binary is not text (byte 5 is zero)")


@pytest.mark.parametrize(
    ("args", "english", "chinese"),
    [
        (["--model", "nope"], "there is no model “nope”: --model takes smollm2", "没有“nope”"),
        (["--model", "~nosuchuser/x"], "no model “~nosuchuser/x”", "没有“~nosuchuser/x”"),
        (["--model", "m" * 300], "there is no model “mmm", "没有“mmm"),
        (["--layer", "2"], "has no layer 2: its layers are 0 to 1", "没有第 2 层"),
        (["--layer", "-3"], "has no layer -3", "没有第 -3 层"),
        (["--head", "4"], "has no head 4: the heads of each layer are 0 to 3", "没有第 4 个头"),
        (["--query", "9"], "no token at position 9: the tokens of this text are at", "位置 9"),
        (["--query", "cat"], "no tokens spell “cat”", "没有词元拼成“cat”"),
    ],
)
def test_what_the_model_does_not_have_is_refused(
    args: Sequence[str], english: str, chinese: str, look: Looked, tmp_path: Path
):
    path = tmp_path / "a.json"
    refused(look("it the it", "--to", path, *args), english)
    refused(look("it the it", "--to", path, *args, "--lang", "zh"), chinese)
    assert not path.exists()


def test_a_model_that_needs_more_than_a_text_is_refused(
    look: Looked, monkeypatch: pytest.MonkeyPatch
):
    import transformers

    def forward(*_: object, **__: object) -> None:
        raise ValueError("You have to specify pixel_values. Really.")

    monkeypatch.setattr(transformers.LlamaModel, "forward", forward)
    refused(look("it"), "cannot read a text alone (You have to specify pixel_values)")


def test_any_other_error_of_ours_is_said_too(look: Looked, monkeypatch: pytest.MonkeyPatch):
    def overview_of(*_: object, **__: object) -> None:
        raise ShapeError("sizes that do not fit")

    monkeypatch.setattr("regard.recording.overview.overview_of", overview_of)
    refused(look("it"), "regard: sizes that do not fit\n")


def test_attention_that_cannot_be_recorded_is_refused(
    look: Looked, monkeypatch: pytest.MonkeyPatch
):
    import transformers.models.llama.modeling_llama as llama

    def by_hand(self: Any, hidden_states: Any, **_: Any) -> Any:
        return self.o_proj(hidden_states.cumsum(1)), None

    monkeypatch.setattr(llama.LlamaAttention, "forward", by_hand)
    refused(look("it"), "is computed in a way that regard cannot record")
