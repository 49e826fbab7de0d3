"""The trace as one HTML file that computes itself again when a number is moved.

It asks for nothing from anywhere: style, script, words of both languages and all numbers stand in
it, and a policy lets no other script or request through.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from importlib.resources import files
from typing import Any

from regard._words import LANGUAGES, Language, catalogue, say
from regard.explanation.sheet import as_json
from regard.explanation.trace import Step, Trace

SCRIPTS = ("sheet.js", "experiments.js", "numbers.js", "draw.js", "main.js")
KEYS = (
    "page.language", "explain.head", "explain.cost", "explain.page-skip", "explain.page-steps",
    "explain.page-hint", "explain.page-code", "explain.page-before", "explain.page-after",
    "explain.page-move", "explain.page-move-hint", "explain.page-row", "explain.page-reset",
    "explain.page-cut", "explain.page-most", "explain.page-cell", "explain.page-figure",
)  # fmt: skip
"""What the page says around the steps."""


def page(trace: Trace, lang: Language) -> str:
    """The whole file, opening in ``lang``."""
    style = _asset("page.css")
    body = "\n".join(_asset(name) for name in SCRIPTS)
    script = f'(() => {{\n"use strict";\n{body}\n}})();'
    blanks = {
        "lang": lang,
        "csp": html.escape(_policy(style, script)),
        "title": html.escape(say(trace.title, lang)),
        "no-script": " ".join(html.escape(say("page.no-script", each)) for each in LANGUAGES),
        "style": style,
        # ASCII alone, and no "<": whatever a token holds, it cannot end the block it stands in.
        "data": json.dumps(_data(trace, lang)).replace("<", "\\u003c"),
        "script": script,
    }
    # One pass, so that a token called "@style@" is only a token.
    return re.sub(r"@([a-z-]+)@", lambda found: blanks[found[1]], _asset("page.html"))


def _asset(name: str) -> str:
    return (files("regard.explanation.faces") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing from anywhere, and only this script and this style, known by their hashes."""
    hashes = [
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    ]
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _data(trace: Trace, lang: Language) -> dict[str, Any]:
    words = catalogue()
    kinds = {f"columns.{table.columns}" for table in trace.sheet.tables.values()}
    kinds |= {f"columns.{table.rows}" for table in trace.sheet.tables.values()}
    keys = [*KEYS, trace.title, *([trace.note] if trace.note else [])]
    keys += [key for key in sorted(kinds) if key in words]
    for step in trace.steps:
        keys += [step.key, f"{step.key}-title"]
    return {
        "lang": lang,
        "title": trace.title,
        "note": trace.note,
        "tokens": list(trace.tokens),
        "tables": [as_json(table) for table in trace.sheet.tables.values()],
        "steps": [_step(step) for step in trace.steps],
        "words": {each: {key: words[key][each] for key in keys} for each in LANGUAGES},
    }


def _step(step: Step) -> dict[str, Any]:
    chart = step.chart
    return {
        "name": step.name,
        "key": step.key,
        "formula": step.formula,
        "shown": list(step.shown),
        "values": {k: list(v) if isinstance(v, tuple) else v for k, v in step.values.items()},
        "numpy": step.numpy,
        "torch": step.torch,
        "multiplications": step.multiplications,
        "bytes": step.memory,
        "chart": chart
        and {"table": chart.table, "x": chart.x, "ys": list(chart.ys), "log": chart.log},
    }
