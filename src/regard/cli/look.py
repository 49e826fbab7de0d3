"""``regard look``: what a real model looks at while it reads a text."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from regard._errors import UserError
from regard._words import Language, say
from regard.cli.asking import check_question, head_of, question_of, role_of, targets_of
from regard.recording.shelf import need, reason, user_path

if TYPE_CHECKING:
    from regard.cli.stages import Stages
    from regard.pictures.overview import Overview
    from regard.recording.reading import Reading
    from regard.recording.recording import Recording
    from regard.recording.subjects import Subject
    from regard.recording.tables import Table


LONG = 8192
"""Positions from which statistics tell only the strongest key of each query."""


@dataclass(frozen=True)
class Wish:
    """What is asked of one ``regard look``, checked as far as it can be without the model."""

    source: str
    """``text``, ``image``, ``audio`` or ``load``."""
    given: str
    """The text, or the path of the file."""
    model: str
    paths: tuple[Path, ...]
    keep: Path | None
    """Where the recording is saved."""
    as_json: bool
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    queries: tuple[str, ...]
    beyond: bool
    statistics: bool
    more: int
    """How many tokens the model shall write after the text."""
    find: str | None = None
    """A role."""
    targets: tuple[str, ...] = ()
    """The words that are traced back."""
    other: str | None = None
    """A text to compare with."""
    off: tuple[tuple[int, int], ...] = ()
    """Heads to run the model without."""


def add(app: typer.Typer, lang: Language, cls: type[TyperCommand]) -> None:
    """Adds the command ``look`` to ``app``, with its help in ``lang``."""

    def option(about: str, metavar: str | None = None, *names: str) -> Any:
        return typer.Option(*names, metavar=metavar, help=say(about, lang))

    @app.command(cls=cls, help=say("look.help", lang))
    def look(
        text: Annotated[
            list[str] | None, typer.Argument(metavar="TEXT", help=say("look.help-text", lang))
        ] = None,
        file: Annotated[str | None, option("look.help-file", "PATH")] = None,
        image: Annotated[str | None, option("look.help-image", "PATH")] = None,
        audio: Annotated[str | None, option("look.help-audio", "PATH")] = None,
        load: Annotated[str | None, option("look.help-load", "PATH")] = None,
        model: Annotated[str | None, option("look.help-model", "MODEL")] = None,
        to: Annotated[list[str] | None, option("look.help-to", "PATH")] = None,
        as_json: Annotated[bool, option("look.help-json", None, "--json")] = False,
        layer: Annotated[list[str] | None, option("look.help-layer", "N")] = None,
        head: Annotated[list[str] | None, option("look.help-head", "N")] = None,
        query: Annotated[list[str] | None, option("look.help-query", "WORD")] = None,
        generate: Annotated[str | None, option("look.help-generate", "N")] = None,
        find: Annotated[str | None, option("look.help-find", "ROLE")] = None,
        target: Annotated[list[str] | None, option("look.help-target", "WORD")] = None,
        rollout: Annotated[bool, option("look.help-rollout", None, "--rollout")] = False,
        compare: Annotated[str | None, option("look.help-compare", "TEXT")] = None,
        without: Annotated[list[str] | None, option("look.help-without", "L.H")] = None,
        save: Annotated[str | None, option("look.help-save", "PATH")] = None,
        statistics: Annotated[bool, option("look.help-statistics", None, "--statistics")] = False,
        beyond: Annotated[bool, option("look.help-beyond", None, "--beyond-context")] = False,
        lang_: Annotated[str, option("cli.help-lang", "en|zh", "--lang")] = lang,
    ) -> None:
        source, given = _source(text or [], file=file, image=image, audio=audio, load=load)
        wish = Wish(
            source=source,
            given=given,
            model=_model(source, given, model),
            paths=tuple(_destination(path) for path in to or []),
            keep=None if save is None else _place("--save", save),
            as_json=as_json,
            layers=tuple(_whole("--layer", number) for number in layer or []),
            heads=tuple(_whole("--head", number) for number in head or []),
            queries=tuple(query or []),
            beyond=beyond,
            statistics=statistics,
            more=0 if generate is None else _more(generate, source),
            find=None if find is None else role_of(find),
            targets=targets_of(target or [], rollout),
            other=compare,
            off=tuple(head_of(one) for one in without or []),
        )
        check_question(wish)
        if source == "load" and (save or statistics or model):
            raise UserError("look.load-alone", file=given)
        _show(wish, lang)


def _show(wish: Wish, lang: Language) -> None:
    from rich.console import Console

    from regard.cli.answers import Answer, document
    from regard.cli.stages import Stages
    from regard.pictures import DRAWN, render, save
    from regard.pictures.document import json_bytes
    from regard.recording import tables
    from regard.recording.drawing import best

    # Read when torch is loaded.  Threads that wait by spinning make the work several times slower
    # where other programs want the cores too, and gain little where none do.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with Stages(lang, model=wish.model) as stages:
        subject = _subject(wish, stages)
        recording = _recorded(wish, subject, stages)
        subject = subject.as_seen(recording)
        notes = [say(key, lang, **values) for key, values in subject.notes]
        question = question_of(wish, subject, stages, _positions, _counted)
        answer = Answer({})
        if question is not None:
            if question.needs_layers and not recording.run.layers:
                raise UserError("look.statistics-only", option=question.option, file=wish.given)
            stages.begin(question.stage)
            answer = question.ask(subject, subject.square(recording), stages.step)
        overview = None
        if question is None or wish.paths:
            overview = _overview(wish, subject, recording, stages)
        notes += [say("look.diagnosis", lang, what=one.say(lang)) for one in recording.diagnose()]
        if wish.keep is not None:
            stages.begin("look.writing", path=wish.keep)
            recording.save(wish.keep)
            notes.append(say("look.wrote", lang, path=wish.keep))
        for path in wish.paths:
            assert overview is not None
            stages.begin("look.writing", path=path)
            if path.suffix.lower() in tables.SUFFIXES:
                _table(path, subject, recording, overview, stages).save(path)
            elif path.suffix.lower() in DRAWN:
                whole = subject.whole(recording)
                picture = answer.draw() if answer.draw else best(overview, whole, subject.image)
                picture.save(path, lang)
            else:
                save(overview, path, lang, progress=stages.step)
            notes.append(say("look.wrote", lang, path=path))
    for note in notes:
        typer.echo(note, err=True)
    if wish.as_json:
        # Bytes, for JSON is UTF-8 whatever the terminal speaks.
        data = json_bytes(overview) if question is None and overview else document(answer.found)
        sys.stdout.buffer.write(data)
    elif question is not None:
        question.show(answer.found, Console(), lang)
    elif overview is not None:
        render(overview, Console(), lang)


def _subject(wish: Wish, stages: "Stages") -> "Subject":
    from regard.recording import subjects

    if wish.source == "image":
        return subjects.image(wish.model, user_path(wish.given), stages.begin)
    if wish.source == "audio":
        return subjects.sound(wish.model, user_path(wish.given), stages.begin)
    if wish.source == "load":
        return subjects.saved(user_path(wish.given), stages.begin)
    logits = bool(wish.off)
    return subjects.text(wish.model, wish.given, stages.begin, wish.more, wish.beyond, logits)


def _recorded(wish: Wish, subject: "Subject", stages: "Stages") -> "Recording":
    from regard.recording.chosen import choose
    from regard.recording.keeping import Keep, QueriesAndKeys, Statistics
    from regard.recording.summary import STRONGEST

    _, _, queries = _narrowed(wish, subject)  # refused before the long work
    kept: Keep = QueriesAndKeys()
    if wish.statistics:
        # Of a long text they would take more room than the model.
        tokens, separators = subject.reading.tokens, subject.reading.separators
        strongest = STRONGEST if len(tokens) <= LONG else 1
        chosen = choose(tokens, separators, queries)
        kept = Statistics(strongest=strongest, separators=separators, chosen=chosen)
    return subject.record(kept, stages.begin, stages.step)


def _narrowed(wish: Wish, subject: "Subject") -> tuple[list[int], list[int], list[int]]:
    """The layers, heads and queries that are wanted, each ascending; all where there are none."""
    name = subject.model
    layers = {_counted("look.no-layer", n, subject.layers, name) for n in wish.layers}
    heads = {_counted("look.no-head", n, subject.heads, name) for n in wish.heads}
    queries = {p for query in wish.queries for p in _positions(query, subject.reading, name)}
    return sorted(layers), sorted(heads), sorted(queries)


def _overview(
    wish: Wish, subject: "Subject", recording: "Recording", stages: "Stages"
) -> "Overview":
    from regard.recording.overview import overview_of

    layers, heads, queries = _narrowed(wish, subject)
    stages.begin("look.weighing")
    return overview_of(
        subject.square(recording),
        model=subject.model,
        tokens=subject.reading.tokens,
        layers=layers or None,
        heads=heads or None,
        queries=queries or None,
        separators=subject.reading.separators,
        progress=stages.step,
    )


def _table(
    path: Path, subject: "Subject", recording: "Recording", overview: "Overview", stages: "Stages"
) -> "Table":
    """The table that ``path`` names, of what the overview shows."""
    from regard.recording.tables import TABLES, named

    return subject.square(recording).table(
        named(path, TABLES),
        layers=[heads[0].layer for heads in overview.layers],
        heads=[view.head for view in overview.layers[0]],
        queries=overview.queries,
        separators=subject.reading.separators,
        tokens=overview.tokens,
        progress=stages.step,
    )


def _source(pieces: Sequence[str], **files: str | None) -> tuple[str, str]:
    """What is looked at, and the text or the path: one of them, and only one."""
    named = {name: path for name, path in files.items() if path is not None}
    others = [name for name in named if name != "file"]
    if not others:
        return "text", _text(pieces, named.get("file"))
    if len(named) > 1 or pieces:
        first, second = [*(["TEXT"] if pieces else []), *(f"--{name}" for name in named)][:2]
        raise UserError("look.two-sources", first=first, second=second)
    (source,) = others
    return source, named[source]


def _model(source: str, given: str, model: str | None) -> str:
    """The model's name, where none was given the one that reads such a source."""
    if source == "load":
        return given
    if model is None and source == "image":
        raise UserError("look.image-model")
    return model or ("whisper" if source == "audio" else "smollm2")


def _more(number: str, source: str) -> int:
    if source != "text":
        raise UserError("look.generate-text", option=f"--{source}")
    if (more := _whole("--generate", number)) < 1:
        raise UserError("look.generate-some", value=more)
    return more


def _text(pieces: Sequence[str], file: str | None) -> str:
    """The text to read, from whichever of its three sources was given."""
    if pieces and file is not None:
        raise UserError("look.two-texts", file=file)
    if len(pieces) > 1:
        raise UserError("look.quotes", count=len(pieces), text=" ".join(pieces))
    if file is not None:
        try:
            return _lines(_decoded(user_path(file).read_bytes(), file))
        except FileNotFoundError as error:
            raise UserError("look.no-file", file=file) from error
        except (OSError, ValueError) as error:
            raise UserError("look.unreadable", file=file, why=reason(error)) from error
    if not pieces:
        raise UserError("look.no-text")
    if pieces[0] == "-":
        return _lines(_decoded(_standard_input(), "-"))
    # Python keeps bytes of an argument that are no UTF-8 as lone surrogates.
    return _decoded(pieces[0].encode("utf-8", "surrogateescape"), "TEXT")


def _standard_input() -> bytes:
    if sys.stdin is None:  # so Python says that it was closed
        raise UserError("look.no-input")
    try:
        return sys.stdin.buffer.read()
    except OSError as error:
        raise UserError("look.unreadable", file="-", why=reason(error)) from error


def _decoded(data: bytes, source: str) -> str:
    zero = data.find(0)
    if zero >= 0:
        raise UserError("look.binary", source=source, position=zero + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError("look.not-utf8", source=source, position=error.start + 1) from error
    if not text.strip():
        raise UserError("look.empty", source=source)
    return text


def _lines(text: str) -> str:
    """``text`` without the line end that closes every file and is no part of what it says."""
    return text.removesuffix("\n").removesuffix("\r")


def _destination(to: str) -> Path:
    """The path to save a picture at, refused now rather than after the long work."""
    from regard.pictures import DRAWN, SUFFIXES
    from regard.recording import tables

    suffix = user_path(to).suffix.lower()
    if suffix in tables.SUFFIXES:
        tables.named(user_path(to), tables.TABLES)
        if suffix == ".parquet" and find_spec("pyarrow") is None:
            raise UserError("table.no-pyarrow")
        return _place("--to", to)
    if suffix not in SUFFIXES and not os.path.isdir(user_path(to)):
        raise UserError("picture.unknown-format", name=user_path(to).name)
    if suffix in DRAWN:
        need("matplotlib")
    return _place("--to", to)


def _place(option: str, to: str) -> Path:
    """The path to write at, refused where nothing can be written."""
    path = user_path(to)
    if os.path.isdir(path):
        raise UserError("look.is-folder", option=option, path=to)
    if not os.path.isdir(path.parent):
        raise UserError("look.no-folder", option=option, path=to, folder=path.parent)
    if not os.access(path.parent, os.W_OK):
        raise UserError("look.write-protected", option=option, path=to, folder=path.parent)
    try:
        path.lstat()
    except FileNotFoundError:
        return path
    except (OSError, ValueError) as error:  # a name that no file can have
        raise UserError("picture.cannot-write", path=to, why=reason(error)) from error
    return path


def _whole(option: str, number: str) -> int:
    try:
        return int(number)
    except ValueError as error:
        raise UserError("look.not-a-number", option=option, value=number) from error


def _counted(key: str, number: int, count: int, model: str) -> int:
    """``number`` counted from 0, or from the end where it is negative."""
    if not -count <= number < count:
        raise UserError(key, value=number, last=count - 1, model=model)
    return number % count


def _positions(query: str, reading: "Reading", model: str) -> Sequence[int]:
    """The positions that ``query`` means: a whole number is one, a word is where it stands."""
    if query.removeprefix("-").isdecimal():
        return [_counted("look.no-position", int(query), len(reading.tokens), model)]
    if found := reading.find(query):
        return found
    some = ", ".join(token.strip() or repr(token) for token in reading.tokens[:12])
    tokens = some + (", …" if len(reading.tokens) > 12 else "")
    raise UserError("look.no-word", value=query, model=model, tokens=tokens)
