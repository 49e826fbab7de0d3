"""The command ``regard``: parse, call, print.  Each door has a file of its own here.

Whatever a user did that cannot be done ends in one sentence in their language and exit code 2.
"""

from __future__ import annotations

import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from itertools import zip_longest

import typer

from regard._errors import RegardError, UserError
from regard._words import LANGUAGES, Language, language_of_user, say
from regard.cli.help import command_in

EXTRA = re.compile(r"extra arguments?(?:\(s\))? \((.*)\)")
"""How the parser tells of arguments that nobody asked for."""


def main(args: Sequence[str] | None = None) -> int:
    """Runs one command line and returns its exit code."""
    args = sys.argv[1:] if args is None else args
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an old code page has no Chinese, nor our marks
            stream.reconfigure(errors="replace")
    lang = language_of_user()
    try:
        lang = _language(args, lang)
        if sys.stdout is None:  # said now rather than after the long work
            raise UserError("cli.no-output")
        code: int | None = command_in(lang).main(
            args, prog_name="regard", standalone_mode=False, obj=lang
        )
        sys.stdout.flush()
    except UserError as error:
        what = error.say(lang)
    except RegardError as error:
        what = str(error)
    except typer.TyperException as error:
        what = _misuse(error, lang)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        # Whoever read us has left.  Python would complain at exit of what is still to be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    else:
        return code or 0
    if sys.stderr is not None:  # else print would fall back to standard output
        print(say("cli.error", lang, what=what), file=sys.stderr)  # noqa: T201
    return 2


def _language(args: Sequence[str], otherwise: Language) -> Language:
    """What --lang says, read ahead of all else: the parser's own words depend on it."""
    options = list(args[: args.index("--")] if "--" in args else args)
    for option, value in zip_longest(options, options[1:]):
        name, equals, inline = option.partition("=")
        if name == "--lang" and (given := inline if equals else value) is not None:
            for lang in LANGUAGES:
                if given == lang:
                    return lang
            raise UserError("cli.unknown-language", value=given)
    return otherwise


def _misuse(error: typer.TyperException, lang: Language) -> str:
    """What the parser found wrong, in ``lang``."""
    option = getattr(error, "option_name", None)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "regard"
    if option and hasattr(error, "possibilities"):
        return say("cli.no-such-option", lang, option=option, command=command)
    if option:
        return say("cli.misused-option", lang, option=option, command=command)
    if (parameter := getattr(error, "param", None)) is not None:
        name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.metavar
        # All that the parser itself reads, other than text, are whole numbers.
        key = "cli.missing" if hasattr(error, "param_type") else "cli.no-number"
        return say(key, lang, name=name, command=command)
    if extra := EXTRA.search(error.format_message()):
        return say("cli.extra", lang, names=extra[1], command=command)
    return say("cli.misused", lang, why=error.format_message().rstrip("."))
