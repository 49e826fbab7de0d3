"""``regard mechanisms``: the kinds of attention side by side."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from regard._errors import MissingError
from regard._words import Language, say

COLUMNS = (
    "mechanism",
    "formula",
    "time",
    "memory",
    "path",
    "parallel",
    "needs",
    "used",
    "source",
    "example",
)


def add(app: typer.Typer, lang: Language, cls: type[TyperCommand]) -> None:
    """Adds the command ``mechanisms`` to ``app``, with its help in ``lang``."""

    @app.command(cls=cls, help=say("mechanisms.help", lang))
    def mechanisms(
        as_json: Annotated[
            bool, typer.Option("--json", help=say("mechanisms.help-json", lang))
        ] = False,
        lang_: Annotated[
            str, typer.Option("--lang", metavar="en|zh", help=say("cli.help-lang", lang))
        ] = lang,
    ) -> None:
        rows = _rows(lang)
        if as_json:
            typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
            return
        console = Console(highlight=False)
        console.print(say("mechanisms.legend", lang) + "\n", markup=False)
        for row in rows:
            console.print(Text(row["mechanism"], style="bold cyan"))
            table = Table.grid(padding=(0, 2))
            table.add_column(no_wrap=True)
            table.add_column(overflow="fold")
            for column in COLUMNS[1:]:
                table.add_row("  " + say(f"mechanisms.{column}", lang), Text(row[column]))
            console.print(table)


def _rows(lang: Language) -> list[dict[str, str]]:
    """Each mechanism's row, its words in ``lang``."""
    try:
        from regard.nn.mechanisms import MECHANISMS
    except ImportError as error:
        raise MissingError("regard mechanisms needs torch: pip install 'regard[torch]'") from error
    return [
        {
            "mechanism": say(f"mechanisms.{m.name}", lang),
            "formula": m.formula,
            "time": f"O({m.time})",
            "memory": f"O({m.memory})",
            "path": f"O({m.path})",
            "parallel": say("mechanisms.yes" if m.parallel else "mechanisms.no", lang),
            "needs": m.needs(lang),
            "used": m.used(lang),
            "source": m.source,
            "example": f"examples/{m.example}",
        }
        for m in MECHANISMS
    ]
