"""The code on a page of prose, taken out and run as its reader would run it."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
COMMENT = re.compile(r"(^|  )# .*$", re.MULTILINE)


def blocks(text: str, language: str) -> list[str]:
    """The page's blocks in ``language``, each led by blank lines so that line numbers agree."""
    return [
        "\n" * text.count("\n", 0, match.start("code")) + match["code"]
        for match in FENCE.finditer(text)
        if match["language"] == language
    ]


def without_comments(code: str) -> list[str]:
    """The lines that do something: what two languages of one page have in common."""
    return [line.rstrip() for line in COMMENT.sub("", code).splitlines() if line.strip()]


def run_python(text: str, name: str) -> int:
    """Run the page's Python from top to bottom in one namespace; return how many blocks it has.

    A comment behind a ``print`` is a promise: if a block has one, the block prints just these.
    """
    found = blocks(text, "python")
    namespace: dict[str, object] = {"__name__": name}
    for block in found:
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            exec(compile(block, name, "exec"), namespace)
        if promised := SHOWN.findall(block):
            assert shown.getvalue().splitlines() == promised
    return len(found)


def commands(text: str) -> list[str]:
    """The page's shell lines that call regard itself."""
    lines = (line for block in blocks(text, "sh") for line in block.splitlines())
    return [line for line in lines if line.startswith("regard ")]


def run_command(command: str, folder: Path) -> None:
    """Run one of them as a shell would, in ``folder``."""
    name, *arguments = shlex.split(command, comments=True)
    program = Path(sys.executable).with_name(name)
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
