"""``regard explain``: attention from the formula to numbers to code."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from regard._errors import UserError
from regard._words import Language, say

if TYPE_CHECKING:
    from regard.explanation.trace import Trace


def add(app: typer.Typer, lang: Language, cls: type[TyperCommand]) -> None:
    """Adds the command ``explain`` to ``app``, with its help in ``lang``."""

    def option(name: str, metavar: str) -> Any:
        return typer.Option(f"--{name}", metavar=metavar, help=say(f"explain.help-{name}", lang))

    @app.command(cls=cls, help=say("explain.help", lang))
    def explain(
        question: Annotated[
            str | None,
            typer.Argument(metavar="QUESTION", help=say("explain.help-question", lang)),
        ] = None,
        x: Annotated[str | None, option("x", "VECTORS")] = None,
        wq: Annotated[str | None, option("wq", "MATRIX")] = None,
        wk: Annotated[str | None, option("wk", "MATRIX")] = None,
        wv: Annotated[str | None, option("wv", "MATRIX")] = None,
        wo: Annotated[str | None, option("wo", "MATRIX")] = None,
        heads: Annotated[int, option("heads", "N")] = 1,
        mask: Annotated[str | None, option("mask", "MASK")] = None,
        positions: Annotated[str | None, option("positions", "NAME")] = None,
        step: Annotated[list[str] | None, option("step", "NAME")] = None,
        numbers: Annotated[list[str] | None, option("set", "NAME=NUMBER")] = None,
        fact_check: Annotated[str | None, option("fact-check", "NOTE.md")] = None,
        code: Annotated[str | None, option("code", "numpy|torch")] = None,
        to: Annotated[list[str] | None, option("to", "PATH")] = None,
        lang_: Annotated[
            str, typer.Option("--lang", metavar="en|zh", help=say("cli.help-lang", lang))
        ] = lang,
    ) -> None:
        paths = [Path(path).expanduser() for path in to or []]
        given = {"--x": x, "--wq": wq, "--wk": wk, "--wv": wv, "--wo": wo, "--mask": mask}
        if fact_check is not None:
            _check(fact_check, paths, lang)
        if question == "questions":
            _list(lang)
            return
        if question is not None:
            for name, value in {**given, "--positions": positions}.items():
                if value is not None:
                    raise UserError("explain.two-things", option=name)
            _show(_only(_asked(question, numbers or []), step), code, paths, lang)
            return
        from regard.explanation import reading
        from regard.explanation.door import explain as traced

        matrices: dict[str, Any] = {
            name: None if given is None else reading.matrix(f"--{name}", given)
            for name, given in (("wq", wq), ("wk", wk), ("wv", wv), ("wo", wo))
        }
        trace = traced(
            None if x is None else reading.vectors("--x", x),
            **matrices,
            heads=heads,
            mask=None if mask is None else reading.mask(mask),
            positions=positions,
        )
        _show(_only(trace, step), code, paths, lang)


def _check(file: str, paths: list[Path], lang: Language) -> None:
    """Prints or saves what is wrong in a note; exit code 1 where something is."""
    from regard.explanation.notes import fact_check

    note = Path(file).expanduser()
    for path in paths:
        if path.resolve() == note.resolve():
            raise UserError("explain.over-note", name=path.name)
    try:
        report = fact_check(note.read_text(encoding="utf-8-sig"), lang)
    except FileNotFoundError as error:
        raise UserError("explain.no-file", option="--fact-check", path=file) from error
    except (OSError, ValueError) as error:
        raise UserError("explain.no-note", path=file, why=error) from error
    for path in paths:
        report.save(path, lang)
        typer.echo(say("explain.wrote", lang, path=path), err=True)
    if not paths:
        typer.echo(report.text(lang), nl=False)
    raise typer.Exit(1 if report.of("wrong") else 0)


def _asked(question: str, numbers: list[str]) -> "Trace":
    from regard.explanation.questions import ask

    chosen = {}
    for number in numbers:
        name, _, value = number.partition("=")
        try:
            chosen[name] = float(value)
        except ValueError as error:
            raise UserError("explain.bad-set", value=number) from error
    return ask(question, **chosen)


def _list(lang: Language) -> None:
    from regard.explanation.questions import QUESTIONS

    typer.echo(say("explain.questions", lang))
    for name, question in QUESTIONS.items():
        numbers = ", ".join(f"{number}={value:g}" for number, value in question.numbers.items())
        typer.echo(f"\n  {name}\n    {say(f'ask.{name}', lang)}")
        typer.echo(f"    {say('explain.may-set', lang, numbers=numbers)}")


def _only(trace: "Trace", names: list[str] | None) -> "Trace":
    if not names:
        return trace
    known = [step.name for step in trace.steps]
    for name in names:
        if name not in known:
            raise UserError("explain.no-step", name=name, names=", ".join(known))
    return trace.only(*names)


def _show(trace: "Trace", code: str | None, paths: list[Path], lang: Language) -> None:
    """Saves where it was asked to, and else prints."""
    if code is not None:
        if code not in ("numpy", "torch"):
            raise UserError("explain.no-code", value=code)
        typer.echo(trace.script(code), nl=False)
    for path in paths:
        trace.save(path, lang)
        typer.echo(say("explain.wrote", lang, path=path), err=True)
    if code is None and not paths:
        from rich.console import Console

        from regard.explanation.faces.terminal import render

        render(trace, Console(highlight=False), lang)
        names = ", ".join(step.name for step in trace.steps)
        typer.echo(say("explain.more", lang, names=names), err=True)
