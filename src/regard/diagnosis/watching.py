"""What a subject's own code holds while it runs: the arrays that stand in its names."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any

import numpy as np

from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Subject, to_numpy


def held_while(subject: Subject, arguments: Mapping[str, Any]) -> list[tuple[str, Array]]:
    """Each array that a name of the subject's file takes, by name and in order; it may raise."""
    function = getattr(subject.owner, "forward", None) or subject.call
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    found: list[tuple[str, Array]] = []
    seen: dict[int, Any] = {}

    def note(names: Mapping[str, Any]) -> None:
        for name, value in names.items():
            if hasattr(value, "shape") and id(value) not in seen:
                seen[id(value)] = value  # kept, so that no other is given its number
                array = to_numpy(value)
                if isinstance(array, np.ndarray) and array.dtype.kind in "fc":
                    found.append((name, np.array(array)))

    def inside(frame: FrameType, event: str, value: Any) -> Any:
        note(frame.f_locals)
        if event == "return":
            note({"return": value})
        return inside

    def entered(frame: FrameType, event: str, value: Any) -> Any:
        if code is None or frame.f_code.co_filename != code.co_filename:
            return None
        own = frame.f_locals.get("self")
        note({**getattr(own, "_buffers", {}), **getattr(own, "__dict__", {})})
        return inside(frame, event, value)

    before = sys.gettrace()
    sys.settrace(entered)
    try:
        subject.run(arguments)
    finally:
        sys.settrace(before)
    return found


def slopes_in(held: Sequence[tuple[str, Array]], heads: int) -> Array | None:
    """ALiBi's slopes among what was held: one a head, under a name that says so."""
    for name, array in held:
        if not re.search(r"slope|alibi|^m$|bias", name, re.IGNORECASE):
            continue
        kept = array.reshape([n for n in array.shape if n != 1] or [1])
        if kept.shape == (heads,):
            return np.abs(kept.astype(float))
        if kept.ndim == 3 and kept.shape[0] == heads and kept.shape[-1] > 1:
            last = kept[:, -1].astype(float)  # the last query's: they change from key to key
            steps = np.diff(last)
            if np.isfinite(steps).all() and np.allclose(steps, steps[:, :1]):
                return np.abs(steps[:, 0])
    return None


def bias_in(held: Sequence[tuple[str, Array]], heads: int, t: int, s: int) -> Array | None:
    """A bias of relative positions (H, T, S) or (T, S) among what was held, named as such."""
    for name, array in reversed(held):
        if not re.search(r"bias|rel|pos", name, re.IGNORECASE) or array.dtype.kind != "f":
            continue
        kept = array.reshape(array.shape[1:]) if array.ndim == 4 and len(array) == 1 else array
        if kept.shape in ((heads, t, s), (t, s)):
            return np.array(kept, float)
        if kept.shape == (t, s, heads):
            return np.array(kept, float).transpose(2, 0, 1)
    return None
