"""``regard learn``: five lessons, each with an exercise that is judged."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer
from typer.core import TyperCommand

from regard._errors import UserError
from regard._words import Language, say


def add(app: typer.Typer, lang: Language, cls: type[TyperCommand]) -> None:
    """Adds the command ``learn`` to ``app``, with its help in ``lang``."""

    @app.command(cls=cls, help=say("learn.help", lang))
    def learn(
        number: Annotated[
            int | None, typer.Argument(metavar="N", help=say("learn.help-number", lang))
        ] = None,
        check: Annotated[bool, typer.Option("--check", help=say("learn.help-check", lang))] = False,
        lang_: Annotated[
            str, typer.Option("--lang", metavar="en|zh", help=say("cli.help-lang", lang))
        ] = lang,
    ) -> None:
        from regard.course.figures import LESSONS

        if number is None:
            _list(lang)
            return
        if number not in LESSONS:
            raise UserError("learn.no-lesson", number=number, last=LESSONS[-1])
        file = Path(f"lesson{number}.py")
        if check:
            _check(number, file, lang)
        else:
            _open(number, file, lang)


def _list(lang: Language) -> None:
    from regard.course.figures import LESSONS, lesson
    from regard.course.progress import done

    finished = done()
    for number in LESSONS:
        title = lesson(number, lang).splitlines()[0].removeprefix("# ")
        typer.echo(f"{'✓' if number in finished else '·'} {title}")
    typer.echo("\n" + say("learn.how", lang))


def _open(number: int, file: Path, lang: Language) -> None:
    from rich.console import Console

    from regard.course.figures import lesson
    from regard.explanation.faces.wrapping import Prose
    from regard.pictures.atomic import write_whole

    Console().print(Prose(lesson(number, lang)))
    if file.exists():
        typer.echo(say("learn.kept", lang, path=file), err=True)
        return
    start = (files("regard.course") / "exercises" / f"{number}.txt").read_text(encoding="utf-8")
    task = say(f"learn.task-{number}", lang)
    write_whole(file, [f'"""{task}"""\n\n{start}'.encode()])
    typer.echo(say("learn.wrote", lang, path=file, number=number), err=True)


def _check(number: int, file: Path, lang: Language) -> None:
    from regard.course.judge import judge
    from regard.course.progress import remember

    judgement = judge(number, file)
    typer.echo(judgement.say(lang))
    if not judgement.right:
        raise typer.Exit(1)
    remember(number)
