"""What a subject's own code holds while it runs: the arrays that stand in its names."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

import numpy as np

from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Subject, to_numpy


def held_while(subject: Subject, arguments: Mapping[str, Any]) -> dict[str, list[Array]]:
    """The arrays by name that the subject's file holds as its functions return; it may raise."""
    function = getattr(subject.call, "forward", subject.call)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    found: dict[str, list[Array]] = {}
    if code is None:
        return found

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and frame.f_code.co_filename == code.co_filename:
            own = frame.f_locals.get("self")
            held = {**getattr(own, "_buffers", {}), **getattr(own, "__dict__", {})}
            for name, value in {**held, **frame.f_locals}.items():
                array = to_numpy(value) if hasattr(value, "shape") else value
                if isinstance(array, np.ndarray) and array.dtype.kind in "fc":
                    found.setdefault(name, []).append(array)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        subject.run(arguments)
    finally:
        sys.setprofile(before)
    return found


def slopes_in(held: Mapping[str, list[Array]], heads: int) -> Array | None:
    """ALiBi's slopes among what was held: one a head, under a name that says so."""
    for name, arrays in held.items():
        if not re.search(r"slope|alibi|^m$|bias", name, re.IGNORECASE):
            continue
        for array in arrays:
            kept = array.reshape([n for n in array.shape if n != 1] or [1])
            if kept.shape == (heads,):
                return np.abs(kept.astype(float))
            if kept.ndim == 3 and kept.shape[0] == heads and kept.shape[-1] > 1:
                last = kept[:, -1].astype(float)  # the last query's: they change from key to key
                steps = np.diff(last)
                if np.isfinite(steps).all() and np.allclose(steps, steps[:, :1]):
                    return np.abs(steps[:, 0])
    return None
