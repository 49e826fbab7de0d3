"""``regard look``: what a real model looks at while it reads a text."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from regard._errors import KindError, UserError
from regard._words import Language, say
from regard.recording.shelf import need, reason, user_path

if TYPE_CHECKING:
    from regard.cli.stages import Stages
    from regard.pictures.overview import Overview
    from regard.recording.models import Loaded
    from regard.recording.reading import Reading


@dataclass(frozen=True)
class Wish:
    """What is asked of one ``regard look``, checked as far as it can be without the model."""

    text: str
    model: str
    paths: tuple[Path, ...]
    as_json: bool
    layers: tuple[int, ...]
    heads: tuple[int, ...]
    queries: tuple[str, ...]
    beyond: bool


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
        model: Annotated[str, option("look.help-model", "MODEL")] = "smollm2",
        to: Annotated[list[str] | None, option("look.help-to", "PATH")] = None,
        as_json: Annotated[bool, option("look.help-json", None, "--json")] = False,
        layer: Annotated[list[str] | None, option("look.help-layer", "N")] = None,
        head: Annotated[list[str] | None, option("look.help-head", "N")] = None,
        query: Annotated[list[str] | None, option("look.help-query", "WORD")] = None,
        beyond: Annotated[bool, option("look.help-beyond", None, "--beyond-context")] = False,
        lang_: Annotated[str, option("cli.help-lang", "en|zh", "--lang")] = lang,
    ) -> None:
        wish = Wish(
            text=_text(text or [], file),
            model=model,
            paths=tuple(_destination(path) for path in to or []),
            as_json=as_json,
            layers=tuple(_whole("--layer", number) for number in layer or []),
            heads=tuple(_whole("--head", number) for number in head or []),
            queries=tuple(query or []),
            beyond=beyond,
        )
        _show(wish, lang)


def _show(wish: Wish, lang: Language) -> None:
    from rich.console import Console

    from regard.cli.stages import Stages
    from regard.pictures import render, save
    from regard.pictures.document import json_bytes
    from regard.recording.models import load
    from regard.recording.reading import read

    # Read when torch is loaded.  Threads that wait by spinning make the work several times slower
    # where other programs want the cores too, and gain little where none do.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    with Stages(lang, model=wish.model) as stages:
        loaded = load(wish.model, stages.begin)
        reading = read(loaded, wish.text)
        notes = _notes(wish, loaded, reading, lang)
        overview = _overview(wish, loaded, reading, stages)
        for path in wish.paths:
            stages.begin("look.writing", path=path)
            save(overview, path, lang, progress=stages.step)
            notes.append(say("look.wrote", lang, path=path))
    for note in notes:
        typer.echo(note, err=True)
    if wish.as_json:
        # Bytes, for JSON is UTF-8 whatever the terminal speaks.
        sys.stdout.buffer.write(json_bytes(overview))
    else:
        render(overview, Console(), lang)


def _overview(wish: Wish, loaded: "Loaded", reading: "Reading", stages: "Stages") -> "Overview":
    import torch

    from regard.recording.overview import overview_of
    from regard.recording.watch import watch

    layers = [_counted("look.no-layer", n, loaded.layers, wish.model) for n in wish.layers]
    heads = [_counted("look.no-head", n, loaded.heads, wish.model) for n in wish.heads]
    queries = [p for query in wish.queries for p in _positions(query, reading, wish.model)]
    with torch.inference_mode():
        stages.begin("look.reading")
        try:
            with watch(loaded.model) as recording:
                loaded.model(input_ids=torch.tensor([reading.ids]))
        except KindError as error:
            raise UserError("look.unwatchable", model=wish.model) from error
        except Exception as error:  # a model that needs pictures or sound fails in its own way
            raise UserError("look.cannot-read", model=wish.model, why=reason(error)) from error
        stages.begin("look.weighing")
        return overview_of(
            recording,
            model=wish.model,
            tokens=reading.tokens,
            layers=sorted(set(layers)) or None,
            heads=sorted(set(heads)) or None,
            queries=sorted(set(queries)) or None,
            separators=reading.separators,
            progress=stages.step,
        )


def _notes(wish: Wish, loaded: "Loaded", reading: "Reading", lang: Language) -> list[str]:
    """What the reader should know of this text and model; refuses a text that is too long."""
    notes = []
    count, limit = len(reading.ids), loaded.context
    if limit is not None and count > limit:
        if not loaded.extends:
            raise UserError("look.ends", count=count, model=wish.model, limit=limit)
        if not wish.beyond:
            raise UserError("look.too-long", count=count, model=wish.model, limit=limit)
        notes.append(say("look.beyond", lang, count=count, model=wish.model, limit=limit))
    if reading.unknown:
        notes.append(
            say(
                "look.unknown-tokens",
                lang,
                count=reading.unknown,
                total=count,
                model=wish.model,
                unknown=loaded.tokenizer.unk_token,
            )
        )
    return notes


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
    """The path to save at, refused now rather than after the long work."""
    from regard.pictures import DRAWN, SUFFIXES

    path = user_path(to)
    if os.path.isdir(path):
        raise UserError("look.is-folder", path=to)
    if path.suffix.lower() not in SUFFIXES:
        raise UserError("picture.unknown-format", name=path.name)
    if path.suffix.lower() in DRAWN:
        need("matplotlib")
    if not os.path.isdir(path.parent):
        raise UserError("look.no-folder", path=to, folder=path.parent)
    if not os.access(path.parent, os.W_OK):
        raise UserError("look.write-protected", path=to, folder=path.parent)
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
        return [_counted("look.no-position", int(query), len(reading.ids), model)]
    if found := reading.find(query):
        return found
    some = ", ".join(token.strip() or repr(token) for token in reading.tokens[:12])
    tokens = some + (", …" if len(reading.tokens) > 12 else "")
    raise UserError("look.no-word", value=query, model=model, tokens=tokens)
