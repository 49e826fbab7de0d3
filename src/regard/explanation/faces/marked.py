"""A fact-check as a file: the note with its marks as a page, or what is wrong as Markdown."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Callable
from importlib.resources import files
from itertools import groupby, pairwise
from pathlib import Path

from regard._errors import UserError
from regard._words import Language, say
from regard.explanation.notes.claim import MARKS, FactCheck, Status, Verdict
from regard.pictures.atomic import write_whole

WORST_FIRST: tuple[Status, ...] = ("wrong", "unknown", "right")


def save(report: FactCheck, path: str | Path, lang: Language) -> None:
    """Writes ``report`` into ``path``, whole or not at all, in the format of its suffix."""
    path = Path(path)
    writers: dict[str, Callable[[FactCheck, Language], str]] = {
        ".html": page, ".htm": page, ".md": markdown, ".json": dumped,
    }  # fmt: skip
    if path.suffix.lower() not in writers:
        raise UserError("note.unknown-format", name=path.name)
    write_whole(path, [writers[path.suffix.lower()](report, lang).encode()])


def dumped(report: FactCheck, lang: Language) -> str:
    """The report as JSON, for other programs."""
    return json.dumps(report.json(lang), ensure_ascii=False, indent=1) + "\n"


def markdown(report: FactCheck, lang: Language) -> str:
    """What is wrong and what was not understood, each with its line of the note."""
    lines = [f"# {say('note.title', lang)}", "", report.summary(lang), ""]
    for verdict in report.verdicts:
        if verdict.status == "right":
            continue
        place = say("note.line", lang, line=verdict.line)
        lines += [
            f"- {MARKS[verdict.status]} **{place}**: {_fenced(report.line(verdict.line).strip())}",
            f"  - {say('note.claim', lang)}: {_fenced(verdict.claim)}",
            f"  - {verdict.say(lang)}",
        ]
    return "\n".join(lines).rstrip() + "\n"


def _fenced(text: str) -> str:
    ticks = "`" * (1 + _longest_run(text, "`"))
    return f"{ticks} {text} {ticks}"


def _longest_run(text: str, letter: str) -> int:
    return max((len([*run]) for each, run in groupby(text) if each == letter), default=0)


def page(report: FactCheck, lang: Language) -> str:
    """The note line by line, what is wrong marked and mended beneath; no script, no request."""
    style = (files("regard.explanation.faces") / "assets" / "marked.css").read_text("utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    by_line = {
        line: [*group]
        for line, group in groupby(
            sorted(report.verdicts, key=lambda verdict: verdict.line), lambda v: v.line
        )
    }
    wrong = [line for line, said in by_line.items() if any(v.status == "wrong" for v in said)]
    following = dict(pairwise(wrong))
    title = html.escape(say("note.title", lang))
    body = "\n".join(
        _row(number, text, by_line.get(number, []), following.get(number), lang)
        for number, text in enumerate(report.note.splitlines(), 1)
    )
    first = (
        f' <a href="#line-{wrong[0]}">{html.escape(say("note.first", lang))}</a>' if wrong else ""
    )
    return f"""<!DOCTYPE html>
<html lang="{"zh-Hans" if lang == "zh" else "en"}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><h1>{title}</h1><p>{html.escape(report.summary(lang))}{first}</p></header>
<main><ol>
{body}
</ol></main>
</body>
</html>
"""


def _row(number: int, text: str, said: list[Verdict], following: int | None, lang: Language) -> str:
    """One line of the note, and what is said of it."""
    kinds = {verdict.status for verdict in said}
    worst = next((kind for kind in WORST_FIRST if kind in kinds), None)
    notes = "".join(_note(verdict, lang) for verdict in said if verdict.status != "right")
    if following:
        notes += f'<p><a href="#line-{following}">{html.escape(say("note.next", lang))}</a></p>'
    named = (
        f' role="img" aria-label="{html.escape(say(f"note.is-{worst}", lang))}"' if worst else ""
    )
    mark = MARKS[worst] if worst else ""
    return (
        f'<li id="line-{number}" class="{worst or "plain"}"><span class="mark"{named}>{mark}</span>'
        f'<span class="text">{html.escape(text)}</span>'
        + (f'<div class="said">{notes}</div>' if notes else "")
        + "</li>"
    )


def _note(verdict: Verdict, lang: Language) -> str:
    return f"<p><code>{html.escape(verdict.claim)}</code><br>{html.escape(verdict.say(lang))}</p>"
