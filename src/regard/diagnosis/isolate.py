"""A child process for somebody else's code: limits on time and memory, silence, its own folder.

The child is forked, so that a function of a notebook comes along; what it finds comes back
through a pipe.  Nothing that the code does there, not even ending the process, reaches the checker.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import select
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

MEMORY = 6 << 30
"""Bytes that the child may take beyond what it was born with."""


class Stopped(Exception):
    """The child ended without an answer: after too long, or by itself."""

    def __init__(self, key: str, **values: object) -> None:
        super().__init__(key)
        self.key, self.values = key, values


def run(work: Callable[[], Any], seconds: float) -> Any:
    """What ``work()`` returns in a child process; raises ``Stopped`` if that is nothing in time."""
    if not hasattr(os, "fork"):
        raise Stopped("check.no-fork")
    folder = tempfile.mkdtemp(prefix="regard-check-")
    reader, writer = os.pipe()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # that threads and forks mix badly: the child starts none
            child = os.fork()
        if child == 0:
            os.close(reader)
            _serve(work, writer, folder)
        os.close(writer)
        return _answer(child, reader, seconds)
    finally:
        with contextlib.suppress(OSError):
            os.close(reader)
        shutil.rmtree(folder, ignore_errors=True)


def _answer(child: int, reader: int, seconds: float) -> Any:
    end = time.monotonic() + seconds
    pieces = []
    while True:
        left = end + _waited(child) - time.monotonic()
        if left <= 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise Stopped("check.timed-out", seconds=round(seconds))
        if not select.select([reader], [], [], left)[0]:
            continue
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        pieces.append(piece)
    _, status = os.waitpid(child, 0)
    data = b"".join(pieces)
    if not data:
        raise Stopped("check.died", code=os.waitstatus_to_exitcode(status))
    done, value = pickle.loads(data)
    if not done:
        raise Stopped("check.died", code=value)
    return value


def _waited(child: int) -> float:
    """The seconds that a busy machine has kept the child waiting; 0 where the system tells none."""
    try:
        with open(f"/proc/{child}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def _serve(work: Callable[[], Any], writer: int, folder: str) -> None:
    """The child's whole life."""
    code = 1
    try:
        os.chdir(folder)
        faulthandler.disable()  # it would write to the parent's standard error
        with open(os.devnull, "r+b") as nowhere:
            for stream in (0, 1, 2):
                os.dup2(nowhere.fileno(), stream)
        sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
        _limit_memory()
        try:
            answer = (True, work())
        except BaseException as error:  # whatever it is, the parent is told
            answer = (False, f"{type(error).__name__}: {error}".split("\n")[0][:300])
        _write(writer, pickle.dumps(answer))
        code = 0
    finally:
        os._exit(code)  # no handlers: they are the parent's


def _limit_memory() -> None:
    """Limits the address space; where the system has no such limit, nothing is limited."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource  # not on every system

        with open("/proc/self/statm", encoding="ascii") as file:
            now = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def _write(writer: int, data: bytes) -> None:
    while data:
        data = data[os.write(writer, data) :]
