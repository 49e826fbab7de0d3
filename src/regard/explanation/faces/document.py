"""The trace as one JSON document, for other programs."""

from __future__ import annotations

import json
from typing import Any

from regard._words import Language, say
from regard.explanation.sheet import as_json
from regard.explanation.trace import Trace


def document(trace: Trace, lang: Language) -> dict[str, Any]:
    """The trace as plain dicts, lists, strings and numbers.

    ``{"title", "tokens", "result", "steps": [{"name", "title", "text", "formula", "latex",
    "numpy", "torch", "multiplications", "bytes", "tables": [...], "shown": [...]}]}``.  A table
    has its name, symbol, shape, the operation and the tables it is computed from, and all its
    values in row order; what is not finite is the string "inf", "-inf" or "nan".
    """
    steps = []
    for step in trace.steps:
        title, text = trace.words(step, lang)
        steps.append(
            {
                "name": step.name,
                "title": title,
                "text": text,
                "formula": step.formula,
                "latex": step.latex,
                "numpy": step.numpy,
                "torch": step.torch,
                "multiplications": step.multiplications,
                "bytes": step.memory,
                "tables": [as_json(table) for table in step.tables],
                "shown": list(step.shown),
            }
        )
    return {
        "title": say(trace.title, lang),
        "tokens": list(trace.tokens),
        "result": trace.result,
        "steps": steps,
    }


def dumped(trace: Trace, lang: Language) -> str:
    """``document`` as a file's content."""
    return json.dumps(document(trace, lang), ensure_ascii=False, indent=1, allow_nan=False) + "\n"
