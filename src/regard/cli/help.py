"""The commands with their help in one language, typer's own words included."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from regard._errors import UserError
from regard._words import Language, say
from regard.cli import check, explain, learn, look, mechanisms


class _Spoken:
    """The help of a command or group in the language that its context carries.

    Typer's own cannot be translated, and it cuts Chinese sentences off, for they have no spaces.
    """

    def get_help_option(self, ctx: Any) -> Any:
        option = super().get_help_option(ctx)  # type: ignore[misc]
        option.help = say("cli.help-help", ctx.obj)
        return option

    def format_help(self, ctx: Any, formatter: Any) -> None:
        command: Any = self
        lang: Language = ctx.obj
        pieces = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
        console = Console(highlight=False)
        with console.capture() as capture:
            console.print(say("cli.usage", lang, pieces=pieces), markup=False)
            console.print(f"\n{command.help}", markup=False)
            commands = getattr(command, "commands", {})
            _print(console, say("cli.commands", lang), ((n, c.help) for n, c in commands.items()))
            _print(
                console,
                say("cli.options", lang),
                (_row(param, lang) for param in command.get_params(ctx)),
            )
        formatter.write(capture.get())


class _Command(_Spoken, TyperCommand):
    pass


class _Doors(_Spoken, TyperGroup):
    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise UserError("cli.no-such-command", name=args[0], names=", ".join(self.commands))
        return super().resolve_command(ctx, args)


def _print(console: Console, title: str, rows: Iterable[tuple[str, str]]) -> None:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True, style="bold cyan")
    table.add_column(overflow="fold")
    for name, about in rows:
        table.add_row(f"  {name}", Text(about))
    if table.row_count:
        console.print(f"\n[bold]{title}[/bold]")
        console.print(table)


def _row(param: Any, lang: Language) -> tuple[str, str]:
    """How ``param`` is given, and what it does."""
    name = " ".join([*param.opts, *([param.metavar] if param.metavar else [])])
    if param.param_type_name == "argument":
        name = param.metavar
    default = param.default if isinstance(param.default, str) else None
    return name, param.help + (say("cli.default", lang, value=default) if default else "")


def command_in(lang: Language) -> TyperGroup:
    """The command ``regard``, its help in ``lang``."""
    app = typer.Typer(cls=_Doors, add_completion=False, help=say("cli.about", lang))

    @app.callback(invoke_without_command=True)
    def regard(
        ctx: typer.Context,
        version: Annotated[
            bool, typer.Option("--version", help=say("cli.help-version", lang))
        ] = False,
        lang_: Annotated[
            str, typer.Option("--lang", metavar="en|zh", help=say("cli.help-lang", lang))
        ] = lang,
    ) -> None:
        if version:
            from importlib.metadata import version as version_of

            typer.echo(f"regard {version_of('regard')}")
        elif ctx.invoked_subcommand is None:
            typer.echo(ctx.get_help())

    look.add(app, lang, _Command)
    mechanisms.add(app, lang, _Command)
    check.add(app, lang, _Command)
    explain.add(app, lang, _Command)
    learn.add(app, lang, _Command)
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    return command
