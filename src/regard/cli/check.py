"""``regard check``: what is wrong with somebody's own attention code."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from regard._errors import UserError
from regard._words import Language, say


def add(app: typer.Typer, lang: Language, cls: type[TyperCommand]) -> None:
    """Adds the command ``check`` to ``app``, with its help in ``lang``."""

    def option(about: str, metavar: str | None = None, *names: str) -> Any:
        return typer.Option(*names, metavar=metavar, help=say(about, lang))

    @app.command(cls=cls, help=say("check.help", lang))
    def check(
        subject: Annotated[
            str, typer.Argument(metavar="FILE.py:NAME", help=say("check.help-subject", lang))
        ],
        init: Annotated[str | None, option("check.help-init", "JSON")] = None,
        mask: Annotated[str | None, option("check.help-mask", "keep|drop|additive")] = None,
        causal: Annotated[bool, option("check.help-causal", None, "--causal")] = False,
        window: Annotated[str | None, option("check.help-window", "N")] = None,
        layout: Annotated[str | None, option("check.help-layout", "LETTERS")] = None,
        against: Annotated[str | None, option("check.help-against", "FILE.py:NAME")] = None,
        as_json: Annotated[bool, option("check.help-json", None, "--json")] = False,
        lang_: Annotated[str, option("cli.help-lang", "en|zh", "--lang")] = lang,
    ) -> None:
        from regard.diagnosis.check import check as examined

        report = examined(
            subject,
            init=_object(init),
            mask=mask,
            causal=causal,
            window=_count(window),
            layout=layout,
            against=against,
            lang=lang,
        )
        if as_json:
            data = json.dumps(report.json(), ensure_ascii=False, indent=2, allow_nan=False)
            sys.stdout.buffer.write(f"{data}\n".encode())
        else:
            from rich.console import Console

            from regard.diagnosis.terminal import render

            render(report, Console(highlight=False))
        if not report:
            raise typer.Exit(1 if report.verdict == "wrong" else 2)


def _object(text: str | None) -> Mapping[str, Any] | None:
    if text is None:
        return None
    try:
        value = json.loads(text)
    except ValueError as error:
        raise UserError("check.bad-init", value=text) from error
    if not isinstance(value, dict):
        raise UserError("check.bad-init", value=text)
    return value


def _count(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise UserError("check.bad-window", value=text)
    return int(text)
