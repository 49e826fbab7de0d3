"""The trace in a notebook: a fragment of HTML that needs no script and no style sheet."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from regard._words import Language, language_of_user, say
from regard.explanation.faces.layout import Drawn, drawn, examples, shown_tables, size_of
from regard.explanation.trace import Step, Trace

_CELL = "padding:2px 8px;text-align:right;font-variant-numeric:tabular-nums"


def fragment(trace: Trace, lang: Language | None = None) -> str:
    """Every step of ``trace`` in the language of the user."""
    lang = lang or language_of_user()
    steps = "".join(_step(trace, step, number, lang) for number, step in enumerate(trace.steps, 1))
    note = f"<p>{escape(say(trace.note, lang))}</p>" if trace.note else ""
    return (
        f'<section lang="{lang}" style="max-width:60em">'
        f"<h3>{escape(say(trace.title, lang))}</h3>{note}{steps}</section>"
    )


def _step(trace: Trace, step: Step, number: int, lang: Language) -> str:
    title, text = trace.words(step, lang)
    grids = "".join(
        _grid(one) for table in shown_tables(trace, step) for one in drawn(trace, table, lang)
    )
    lines = [f"{name} = {line}" for name, line in examples(trace, step)]
    code = "\n".join(escape(line) for line in [*step.code("numpy")])
    return (
        f"<details{' open' if number <= 3 else ''}><summary><b>{number}. {escape(title)}</b>"
        f" <code>{escape(step.name)}</code></summary>"
        f"<p>{escape(text)}</p><p>\\({escape(step.latex)}\\)</p>"
        f'<div style="display:flex;flex-wrap:wrap;gap:1.5em">{grids}</div>'
        + "".join(f"<p><code>{escape(line)}</code></p>" for line in lines)
        + (f"<pre>{code}</pre>" if code else "")
        + "</details>"
    )


def _grid(one: Drawn) -> str:
    head = "".join(f'<th scope="col" style="{_CELL}">{escape(name)}</th>' for name in one.columns)
    return (
        f"<table><caption>{escape(one.symbol)} ({size_of(one.shape)})</caption>"
        f"<tr><td></td>{head}</tr>{''.join(_rows(one))}</table>"
    )


def _rows(one: Drawn) -> Iterator[str]:
    for row, cells in zip(one.rows, one.cells, strict=True):
        numbers = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
        yield f'<tr><th scope="row">{escape(row)}</th>{numbers}</tr>'
