"""The command itself: help, languages, exit codes, and how it ends when it is interrupted."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pytest
import typer
from rich.cells import cell_len

from regard._words import LANGUAGES, catalogue
from regard.cli import _misuse, main
from small import unmeasured


@pytest.fixture(autouse=True)
def english(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "en_US.UTF-8")
    monkeypatch.setenv("COLUMNS", "80")


def run(*args: str, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "regard", *args]
    return subprocess.run(command, capture_output=True, check=False, **options)


def test_alone_it_prints_help_in_the_users_language(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("Usage: regard [OPTIONS] COMMAND")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("用法：regard [OPTIONS] COMMAND")
    assert main(["--lang", "en"]) == 0
    assert capsys.readouterr().out.startswith("Usage: regard")


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("width", [80, 40])
def test_help_tells_each_option_in_full(
    lang: str, width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(["look", "--help", f"--lang={lang}"]) == 0
    told = capsys.readouterr().out
    assert max(map(cell_len, told.splitlines())) <= width
    for key, texts in catalogue().items():
        if key.startswith("look.help"):
            assert "".join(texts[lang].split()) in "".join(told.split())
    for option in ("file", "model", "to", "json", "layer", "head", "query", "beyond-context"):
        assert f"  --{option} " in told


def test_help_is_quick_and_loads_no_model_library():
    code = (
        "import sys; from regard.cli import main; main(['look', '--help'])\n"
        "print({'torch', 'transformers', 'matplotlib'} & set(sys.modules), file=sys.stderr)"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert time.perf_counter() - began < 5
    assert done.stderr == b"set()\n"


def test_python_m_regard_is_the_command():
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"regard {version('regard')}\n"


def test_a_stream_that_knows_no_chinese_is_no_fault():
    done = run("--lang", "zh", env=os.environ | {"PYTHONIOENCODING": "cp1252"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"???regard [OPTIONS]" in done.stdout


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["gaze"], "“gaze”"),
        (["--gaze"], "--gaze"),
        (["look", "--gaze"], "regard look --help"),
        (["look", "-5 degrees"], "--"),
        (["look", "x", "--model"], "--model"),
        (["look", "x", "--json=yes"], "--json"),
        (["explain", "--heads", "two"], "--heads"),
        (["learn", "one"], "N"),
        (["explain", "why-sqrt", "and", "more"], "“and more”"),
        (["check"], "FILE.py:NAME"),
        (["look", "x", "--lang", "fr"], "“fr”"),
        (["--lang=fr"], "“fr”"),
        (["--lang"], "--lang"),
    ],
)
@pytest.mark.parametrize("lang", ["en_US.UTF-8", "zh_CN.UTF-8"])
def test_misuse_ends_in_one_sentence(
    args: list[str],
    part: str,
    lang: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("LC_ALL", lang)
    assert main(args) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert part in err
    assert err.startswith("regard：" if lang.startswith("zh") else "regard: ")
    assert err.count("\n") == 1
    if lang.startswith("zh"):  # no English sentence shows in Chinese
        assert not re.search(r"[a-z]+ [a-z]+ [a-z]+", re.sub(r"`[^`]*`|“[^”]*”", "", err))


def test_misuse_of_a_kind_not_foreseen_is_one_sentence_too():
    assert _misuse(typer.BadParameter("too odd."), "en") == (
        "the command line could not be read (Invalid value: too odd); see `regard --help`"
    )


def test_a_text_that_begins_with_a_dash_goes_after_two(capsys: pytest.CaptureFixture[str]):
    assert main(["look", "--model", "nope", "--", "--lang"]) == 2
    assert "“nope”" in capsys.readouterr().err


CLOSED = {
    ("look - <&-", "en"): "regard: - reads the text from standard input, but that is closed: give ",
    ("look - <&-", "zh"): "regard：- 表示从标准输入读取文本，但标准输入已关闭：",
    ("look hi >&-", "en"): "regard: there is nowhere to print to, for standard output is closed: ",
    ("--help >&-", "zh"): "regard：无处输出，因为标准输出已关闭：",
}


@pytest.mark.parametrize(("line", "lang"), CLOSED)
def test_a_closed_stream_is_one_sentence(line: str, lang: str):
    done = in_shell(f"{line} --lang {lang}")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode().startswith(CLOSED[line, lang])
    assert done.stderr.count(b"\n") == 1


def test_with_standard_error_closed_a_refusal_goes_nowhere_else():
    done = in_shell("gaze 2>&-")
    assert (done.returncode, done.stdout) == (2, b"")


def test_with_standard_error_closed_the_answer_is_the_same(tiny: Path):
    done = in_shell(f"look 'the text' --model '{tiny}' --json 2>&-")
    assert done.returncode == 0
    assert "".join(json.loads(done.stdout)["tokens"]) == "the text"


def in_shell(line: str) -> subprocess.CompletedProcess[bytes]:
    command = ["/bin/sh", "-c", f'exec "$0" -m regard {line}', sys.executable]
    return subprocess.run(command, capture_output=True, check=False, env=unmeasured())


INTERRUPTED = """
import os, signal, sys, time
from regard.cli import _misuse, main

class Keyboard:
    def read(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(20)

sys.stdin = type("Stream", (), {"buffer": Keyboard()})
# Where the tests run in the background, their children would ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.exit(main(["look", "-"]))
"""


def test_interrupted_it_ends_quietly():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("args", [["look", "--help"], ["--version"]])
def test_whoever_stops_reading_is_not_troubled(args: list[str]):
    check_broken_pipe(args)


@pytest.mark.parametrize("more", [[], ["--json", "--layer", "0", "--head", "0"]])
def test_whoever_stops_reading_the_answer_is_not_either(more: list[str], tiny: Path):
    check_broken_pipe(["look", "the text it is", "--model", str(tiny), *more])


def check_broken_pipe(args: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "regard", *args]
    process = subprocess.Popen(command, stdout=writer, stderr=subprocess.PIPE, env=unmeasured())
    os.close(writer)
    assert process.communicate()[1] == b""
    assert process.returncode == 1
