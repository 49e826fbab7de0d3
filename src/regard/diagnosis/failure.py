"""A call that raised: the subject's own line, and the shapes that stand in it."""

from __future__ import annotations

import linecache
import re
import traceback
from dataclasses import dataclass
from typing import Any

from regard.diagnosis.calling import Setup
from regard.diagnosis.subject import Subject


@dataclass(frozen=True)
class Failure:
    """A call that raised."""

    setup: Setup | None
    error: Exception
    line: int | None
    shapes: str

    @property
    def text(self) -> str:
        """The error in one line."""
        return f"{type(self.error).__name__}: {self.error}".strip().split("\n")[0][:300]


def failure_of(setup: Setup | None, error: Exception, subject: Subject) -> Failure:
    """The failure with the last of the subject's own lines, and the shapes that stand in it."""
    frames = [
        f for f in traceback.walk_tb(error.__traceback__) if _own(f[0].f_code.co_filename, subject)
    ]
    if not frames:
        return Failure(setup, error, None, "")
    frame, line = frames[-1]
    text = linecache.getline(frame.f_code.co_filename, line)
    shapes = []
    for name in dict.fromkeys(re.findall(r"[A-Za-z_][\w.]*", text)):
        value: Any = frame.f_locals.get(name.split(".")[0])
        for part in name.split(".")[1:]:
            value = getattr(value, part, None)
        shape = getattr(value, "shape", None)
        if shape is not None and not callable(shape):
            shapes.append(f"{name} {tuple(int(n) for n in shape)}")
    return Failure(setup, error, line, ", ".join(shapes))


def _own(filename: str, subject: Subject) -> bool:
    code = getattr(subject.call, "__code__", None)
    if code is None and subject.owner is not None:
        method = getattr(type(subject.owner), "forward", None) or type(subject.owner).__call__
        code = getattr(method, "__code__", None)
    return code is not None and filename == code.co_filename
