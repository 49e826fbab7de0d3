"""The questions that ``regard look`` takes as options, checked before the model is loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from regard._errors import UserError
from regard.cli import answers

if TYPE_CHECKING:
    from regard.cli.look import Wish
    from regard.cli.stages import Stages
    from regard.recording.reading import Reading
    from regard.recording.recording import Recording
    from regard.recording.subjects import Subject

Positions = Callable[[str, "Reading", str], Sequence[int]]
Counted = Callable[[str, int, int, str], int]


def role_of(role: str) -> str:
    """One of the roles."""
    from regard.pictures.overview import ROLES

    roles = [one for one in ROLES if one != "none"]
    if role not in roles:
        raise UserError("look.no-role", value=role, roles=", ".join(roles))
    return role


def targets_of(words: Sequence[str], rollout: bool) -> tuple[str, ...]:
    """The words to trace back."""
    if rollout and not words:
        raise UserError("look.no-target")
    if words and not rollout:
        raise UserError("look.target-alone", value=words[0])
    return tuple(words)


def head_of(written: str) -> tuple[int, int]:
    """A layer and a head, as ``13.8``."""
    layer, _, head = written.partition(".")
    try:
        return int(layer), int(head)
    except ValueError as error:
        raise UserError("look.not-a-head", value=written) from error


def check_question(wish: Wish) -> None:
    """One question at most, of what can answer it."""
    asked = {
        "--find": wish.find is not None,
        "--rollout": bool(wish.targets),
        "--compare": wish.other is not None,
        "--without": bool(wish.off),
    }
    options = [option for option, given in asked.items() if given]
    if len(options) > 1:
        raise UserError("look.two-questions", first=options[0], second=options[1])
    if not options:
        return
    (option,) = options
    if wish.statistics and option != "--find":
        raise UserError("look.statistics-alone", option=option)
    if wish.source == "load" and option in ("--compare", "--without"):
        raise UserError("look.needs-model", option=option, file=wish.given)
    if wish.other is not None and wish.source != "text":
        raise UserError("look.compare-text", option=f"--{wish.source}")
    if wish.other is not None and wish.more:
        raise UserError("look.compare-text", option="--generate")
    narrow = {"--layer": wish.layers, "--head": wish.heads, "--query": wish.queries}
    if not wish.paths and any(narrow.values()):
        named = next(name for name, given in narrow.items() if given)
        raise UserError("look.narrowed-question", option=option, narrow=named)


def question_of(
    wish: Wish, subject: Subject, stages: Stages, positions: Positions, counted: Counted
) -> answers.Question | None:
    """The question that is asked of ``subject``, where one is."""
    name = subject.model
    if wish.find is not None:
        return answers.Find(wish.find)
    if wish.targets:
        return answers.Rollout(wish.targets, lambda word: positions(word, subject.reading, name))
    if wish.off:
        off = tuple(
            (
                counted("look.no-layer", layer, subject.layers, name),
                counted("look.no-head", head, subject.heads, name),
            )
            for layer, head in wish.off
        )
        return answers.Without(off, subject.word)
    if wish.other is None:
        return None
    another, other = subject.another, wish.other
    assert another is not None

    def read() -> tuple[Subject, Recording]:
        from regard.recording.keeping import QueriesAndKeys

        second = another(other)
        recording = second.record(QueriesAndKeys(), stages.begin, stages.step)
        return second, second.square(recording)

    one = len(wish.layers) == len(wish.heads) == 1
    return answers.Compare(read, (wish.layers[0], wish.heads[0]) if one else None)
