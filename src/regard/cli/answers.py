"""What ``regard look`` answers of a whole recording: which heads, where from, what changed, why.

Each question makes plain dicts and lists, which ``--json`` prints and the terminal shows as rows.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from regard._errors import KindError, ShapeError, UserError, ValueRangeError
from regard._words import Language, say

if TYPE_CHECKING:
    from rich.console import Console

    from regard.pictures.picture import Picture
    from regard.recording.recording import Recording
    from regard.recording.subjects import Subject

Step = Callable[[int, int], None]
MOST = 20
"""How many heads or tokens the terminal shows."""
LINKS = 5
"""How many links of a head are shown beside what becomes of the output without it."""
WIDE = 20
"""Cells of a bar."""


class Answer(NamedTuple):
    """What was found, and its own picture, where another than the recording's shows it."""

    found: dict[str, Any]
    draw: Callable[[], Picture] | None = None


class Question(ABC):
    """One question of all heads."""

    option: str
    needs_layers = True
    """Whether statistics cannot answer it."""
    stage = "answer.asking"

    @abstractmethod
    def ask(self, subject: Subject, seen: Recording, step: Step) -> Answer:
        """The answer; ``seen`` holds the layers from the subject's positions to themselves."""

    @abstractmethod
    def show(self, found: dict[str, Any], console: Console, lang: Language) -> None:
        """Prints it."""


@dataclass(frozen=True)
class Find(Question):
    """``--find ROLE``."""

    role: str
    option = "--find"
    needs_layers = False

    def ask(self, subject: Subject, seen: Recording, step: Step) -> Answer:
        heads = seen.roles(separators=subject.reading.separators, progress=step)
        try:
            found = heads.find(self.role, len(heads))
        except ValueRangeError as error:
            key = "answer.no-marks" if self.role == "separator" else "answer.no-repeats"
            raise UserError(key, role=self.role) from error
        except KindError as error:
            raise UserError("answer.no-values", role=self.role) from error
        answer = {
            "model": subject.model,
            "role": self.role,
            "heads": [
                {
                    "layer": one.layer,
                    "head": one.head,
                    "role": one.role,
                    "score": one.scores[self.role],
                    "entropy": one.entropy,
                    "distance": one.distance,
                    "local": one.local,
                    "sinks": list(one.sinks),
                }
                for one in found
            ],
        }
        return Answer(answer)

    def show(self, found: dict[str, Any], console: Console, lang: Language) -> None:
        name = say(f"role.{self.role}", lang)
        console.print(say("answer.found", lang, role=name, model=found["model"]), markup=False)
        rows = [
            [
                f"{one['layer']}.{one['head']}",
                f"{one['score']:.2f}",
                _bar(one["score"]),
                say(f"role.{one['role']}", lang),
                f"{one['distance']:.1f}",
                f"{one['local']:.2f}",
                ", ".join(map(str, one["sinks"][:3])),
            ]
            for one in found["heads"][:MOST]
        ]
        heads = ("head", "score", None, "role", "distance", "local", "sinks")
        _table(console, lang, heads, rows)


@dataclass(frozen=True)
class Rollout(Question):
    """``--target WORD --rollout``."""

    targets: tuple[str, ...]
    position: Callable[[str], Sequence[int]]
    """From a word to where it stands, or a refusal."""
    option = "--rollout"

    def ask(self, subject: Subject, seen: Recording, step: Step) -> Answer:
        at = sorted({p for word in self.targets for p in self.position(word)})
        try:
            shares = seen.rollout(at, progress=step)
        except ShapeError as error:
            raise UserError("answer.not-square", option=self.option) from error
        answer = {
            "model": subject.model,
            "tokens": list(subject.reading.tokens),
            "targets": [
                {"position": p, "token": subject.reading.tokens[p], "shares": row.tolist()}
                for p, row in zip(at, shares, strict=True)
            ],
        }
        return Answer(answer)

    def show(self, found: dict[str, Any], console: Console, lang: Language) -> None:
        from regard.pictures.marks import shown

        for target in found["targets"]:
            token, shares = shown(target["token"]), target["shares"]
            line = say("answer.rollout", lang, token=token, position=target["position"])
            console.print(line, markup=False)
            order = sorted(range(len(shares)), key=lambda p: -shares[p])[:MOST]
            top = max(shares[1:], default=0.0) or 1.0  # the first token may well have nearly all
            rows = [
                [str(p), shown(found["tokens"][p]), f"{shares[p]:.3g}", _bar(shares[p] / top)]
                for p in sorted(order)
            ]
            _table(console, lang, ("position", "token", "share", None), rows)


@dataclass(frozen=True)
class Compare(Question):
    """``--compare TEXT``."""

    other: Callable[[], tuple[Subject, Recording]]
    """What the same model makes of the other text."""
    at: tuple[int, int] | None = None
    """The layer and the head whose difference is drawn; how far each head moved, if None."""
    option = "--compare"
    stage = "answer.comparing"

    def ask(self, subject: Subject, seen: Recording, step: Step) -> Answer:
        second, theirs = self.other()
        try:
            found = seen.compare(theirs, progress=step)
        except ShapeError as error:
            raise UserError("answer.nothing-shared") from error
        heads = int(found.distance.size)
        tokens = [one.reading.tokens for one in (subject, second)]
        answer = {
            "model": subject.model,
            "tokens": [list(some) for some in tokens],
            "shared": [list(pair) for pair in found.queries],
            "heads": [
                {"layer": layer, "head": head, "distance": far}
                for layer, head, far in found.most_changed(heads)
            ],
        }
        at = (None, None) if self.at is None else self.at
        return Answer(answer, lambda: seen.pictures.change(found, *at))

    def show(self, found: dict[str, Any], console: Console, lang: Language) -> None:
        values = {"shared": len(found["shared"]), "count": len(found["tokens"][0])}
        console.print(say("answer.compared", lang, **values), markup=False)
        rows = [
            [f"{one['layer']}.{one['head']}", f"{one['distance']:.3f}", _bar(one["distance"])]
            for one in found["heads"][:MOST]
        ]
        _table(console, lang, ("head", "change", None), rows)


@dataclass(frozen=True)
class Without(Question):
    """``--without L.H``."""

    heads: tuple[tuple[int, int], ...]
    word: Callable[[int], str]
    """From a token's number to how it reads."""
    option = "--without"
    stage = "answer.running-again"

    def ask(self, subject: Subject, seen: Recording, step: Step) -> Answer:
        try:
            found = seen.without(self.heads)
        except KindError as error:
            raise UserError("answer.by-hand", model=subject.model) from error
        tokens = subject.reading.tokens
        likely = [] if found.last is None else found.likeliest()
        answer = {
            "model": subject.model,
            "tokens": list(tokens),
            "heads": [
                {"layer": layer, "head": head, "links": _links(seen, layer, head)}
                for layer, head in found.heads
            ],
            "change": found.change[0].tolist(),
            "divergence": None if found.divergence is None else found.divergence[0].tolist(),
            "loss": None if found.loss is None else [side[0].tolist() for side in found.loss],
            "next": [
                {"token": self.word(one.token), "before": one.before, "after": one.after}
                for one in likely
            ],
        }
        return Answer(answer)

    def show(self, found: dict[str, Any], console: Console, lang: Language) -> None:
        from regard.pictures.marks import shown

        tokens = [shown(token) for token in found["tokens"]]
        for head in found["heads"]:
            name = f"{head['layer']}.{head['head']}"
            console.print(say("answer.looked", lang, head=name), markup=False)
            rows = [
                [tokens[one["query"]], "→", tokens[one["key"]], f"{one['weight']:.2f}"]
                for one in head["links"]
            ]
            _table(console, lang, ("query", None, "key", "weight"), rows)
        change = sum(found["change"]) / len(found["change"])
        console.print(say("answer.change", lang, change=change), markup=False)
        if found["divergence"] is not None:
            mean = sum(found["divergence"]) / len(found["divergence"])
            values = {"mean": mean, "last": found["divergence"][-1]}
            console.print(say("answer.divergence", lang, **values), markup=False)
        if found["loss"] and found["loss"][0]:
            before, after = (sum(side) / len(side) for side in found["loss"])
            console.print(say("answer.loss", lang, before=before, after=after), markup=False)
        if found["next"]:
            console.print(say("answer.next", lang), markup=False)
            rows = [
                [shown(one["token"]), f"{one['before']:.3f}", f"{one['after']:.3f}"]
                for one in found["next"]
            ]
            _table(console, lang, ("token", "before", "after"), rows)


def _links(seen: Recording, layer: int, head: int) -> list[dict[str, Any]]:
    """The strongest links of a head, but for those to the first key and to the query itself."""
    from regard.core.questions import topk

    (top,) = seen[layer].weights.ask(topk(LINKS + 2))
    found = [
        {"query": i, "key": key, "weight": weight}
        for i, (keys, some) in enumerate(
            zip(top.keys[0, head].tolist(), top.weights[0, head].tolist(), strict=True)
        )
        for key, weight in zip(keys, some, strict=True)
        if key > 0 and key != i
    ]
    return sorted(found, key=lambda one: -one["weight"])[:LINKS]


def document(found: dict[str, Any]) -> bytes:
    """An answer as a file's content, in UTF-8; half a surrogate pair is an escape."""
    for readable in (True, False):
        text = json.dumps(_finite(found), ensure_ascii=not readable, separators=(",", ":"))
        try:
            return f"{text}\n".encode()
        except UnicodeEncodeError:
            continue
    raise AssertionError("escapes are ASCII")


def _finite(value: Any) -> Any:
    """The same with six significant digits; what is not finite is null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if value - value == 0 else None
    return value


def _bar(share: float) -> str:
    return "█" * round(max(0.0, min(1.0, share)) * WIDE)


def _table(
    console: Console, lang: Language, heads: Sequence[str | None], rows: Sequence[Sequence[str]]
) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for head in heads:
        table.add_column("" if head is None else say(f"answer.column-{head}", lang))
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)
