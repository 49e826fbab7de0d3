"""The trace as Markdown: formulas in LaTeX, tables, the code in fences."""

from __future__ import annotations

from collections.abc import Iterator

from regard._words import Language, say
from regard.explanation.faces.layout import Drawn, drawn, examples, shown_tables, size_of
from regard.explanation.trace import Step, Trace


def markdown(trace: Trace, lang: Language) -> str:
    """Every step of ``trace``, in ``lang``."""
    lines = [f"# {say(trace.title, lang)}", ""]
    if trace.note:
        lines += [f"> {say(trace.note, lang)}", ""]
    for number, step in enumerate(trace.steps, 1):
        lines += _step(trace, step, number, lang)
    return "\n".join(lines).rstrip() + "\n"


def _step(trace: Trace, step: Step, number: int, lang: Language) -> Iterator[str]:
    title, text = trace.words(step, lang)
    yield from (f"## {number}. {title}", "", text, "", f"$$ {step.latex} $$", "")
    for table in shown_tables(trace, step):
        for one in drawn(trace, table, lang):
            yield from _table(one, lang)
    for name, line in examples(trace, step):
        yield f"- `{name} = {line}`"
    if step.code("numpy"):
        yield from ("", "```python", "# NumPy", *step.code("numpy"))
        yield from ("# PyTorch", *step.code("torch"), "```")
    if step.multiplications:
        yield ""
        yield say(
            "explain.cost", lang,
            multiplications=f"{step.multiplications:,}", bytes=f"{step.memory:,}",
        )  # fmt: skip
    yield ""


def _table(one: Drawn, lang: Language) -> Iterator[str]:
    head = f"{one.symbol} ({size_of(one.shape)})"
    yield f"| {_cell(head)} | {' | '.join(map(_cell, one.columns))} |"
    yield "|---" * (len(one.columns) + 1) + "|"
    for row, cells in zip(one.rows, one.cells, strict=True):
        yield f"| {_cell(row)} | {' | '.join(cells)} |"
    yield ""
    if one.left_out:
        yield from (say("explain.left-out", lang, count=one.left_out), "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
