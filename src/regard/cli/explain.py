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
        x: Annotated[str | None, option("x", "VECTORS")] = None,
        wq: Annotated[str | None, option("wq", "MATRIX")] = None,
        wk: Annotated[str | None, option("wk", "MATRIX")] = None,
        wv: Annotated[str | None, option("wv", "MATRIX")] = None,
        wo: Annotated[str | None, option("wo", "MATRIX")] = None,
        heads: Annotated[int, option("heads", "N")] = 1,
        mask: Annotated[str | None, option("mask", "MASK")] = None,
        positions: Annotated[str | None, option("positions", "NAME")] = None,
        step: Annotated[list[str] | None, option("step", "NAME")] = None,
        code: Annotated[str | None, option("code", "numpy|torch")] = None,
        to: Annotated[list[str] | None, option("to", "PATH")] = None,
        lang_: Annotated[
            str, typer.Option("--lang", metavar="en|zh", help=say("cli.help-lang", lang))
        ] = lang,
    ) -> None:
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
        if step:
            trace = _only(trace, step)
        _show(trace, code, [Path(path).expanduser() for path in to or []], lang)


def _only(trace: "Trace", names: list[str]) -> "Trace":
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
