"""What ``regard look`` may look at: a text, an image, a sound, or what was recorded before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard._errors import KindError, UserError
from regard.recording import senses
from regard.recording.keeping import Keep
from regard.recording.models import Loaded, load
from regard.recording.reading import Reading, go_on, plain, read
from regard.recording.recording import Layer, Recording, Run
from regard.recording.saving import load as open_recording
from regard.recording.shelf import Stage, reason
from regard.recording.summary import LayerStatistics

Step = Callable[[int, int], None]
"""Told of (layers done, layers in all)."""
Note = tuple[str, dict[str, Any]]
"""What the reader should know: a key of the catalogue and its values."""


@dataclass(frozen=True)
class Subject:
    """A model and what it is about to read, or what it has read."""

    model: str
    reading: Reading
    layers: int
    heads: int
    record: Callable[[Keep, Stage, Step], Recording]
    """Runs the model; what of it is kept is the first argument."""
    notes: tuple[Note, ...] = ()
    another: Callable[[str], Subject] | None = None
    """Another text for the same model."""
    word: Callable[[int], str] = str
    """How a token reads, from its number."""
    image: Any = None
    """What the model sees, where it is an image: its own input."""

    def whole(self, recording: Recording) -> Recording | None:
        """The recording, where its layers are those of :meth:`square`, by the same numbers."""
        run = recording.run
        T = len(self.reading.tokens)
        return recording if all(one.sides == (T, T) for one in run.layers) else None

    def as_seen(self, recording: Recording) -> Subject:
        """Itself, with as many layers as were seen: some models have layers without attention."""
        run = self.square(recording).run
        seen: Sequence[Layer | LayerStatistics] = run.layers or run.statistics
        if len(seen) == self.layers:
            return self
        which = ", ".join(f"{n} = {one.name}" for n, one in enumerate(seen))
        note = ("look.layers-seen", {"seen": len(seen), "layers": self.layers, "which": which})
        return replace(self, layers=len(seen), notes=(*self.notes, note))

    def square(self, recording: Recording) -> Recording:
        """The layers that look from its positions at its positions, such as no cross attention."""
        T = len(self.reading.tokens)
        run = recording.run
        seen = Recording()
        seen.runs.append(
            Run(
                ids=run.ids,
                texts=run.texts,
                expected=run.expected,
                again=run.again,
                calls=run.calls,
                layers=[one for one in run.layers if one.sides == (T, T)],
                statistics=[one for one in run.statistics if one.sides == (T, T)],
            )
        )
        if not (seen.runs[0].layers or seen.runs[0].statistics):
            raise UserError("look.nothing-square", model=self.model, count=T)
        return seen


def text(
    name: str,
    words: str,
    stage: Stage,
    more: int = 0,
    beyond: bool = False,
    logits: bool = False,
) -> Subject:
    """A text, and ``more`` tokens that the model writes after it.

    With ``logits`` it runs with its language-model head, where it has one.  Raises ``UserError``
    for a text that is longer than the model was made for, unless ``beyond`` and it can compute such
    positions.
    """
    try:
        loaded = load(name, stage, writes=more > 0 or logits)
    except UserError as error:
        if more or error.key != "look.cannot-write-on":
            raise
        loaded = load(name, stage)
    return _of_text(loaded, words, stage, more, beyond, logits)


def _of_text(
    loaded: Loaded, words: str, stage: Stage, more: int, beyond: bool, logits: bool
) -> Subject:
    name = loaded.name
    reading = read(loaded, words)
    notes = _length(loaded, len(reading.ids) + more, beyond)
    if reading.unknown:
        values = {
            "count": reading.unknown,
            "total": len(reading.ids),
            "model": name,
            "unknown": loaded.tokenizer.unk_token,
        }
        notes.append(("look.unknown-tokens", values))
    if more:
        stage("look.generating")
        with _running(name):
            reading = go_on(loaded, reading, more)
    model = loaded.writer if logits and loaded.writer is not None else loaded.model

    def record(keep: Keep, stage: Stage, step: Step) -> Recording:
        import torch

        stage("look.reading")
        ids = torch.tensor([reading.ids])
        return _recorded(name, model, {"input_ids": ids}, reading, keep, step, loaded.layers)

    return Subject(
        name,
        reading,
        loaded.layers,
        loaded.heads,
        record,
        tuple(notes),
        lambda other: _of_text(loaded, other, stage, 0, beyond, logits),
        lambda token: str(loaded.tokenizer.decode([token])),
    )


def image(name: str, file: Path, stage: Stage) -> Subject:
    """An image, as a vision model sees it: patches by row and column."""
    return _sensed(name, senses.see(name, file, stage), "look.seeing")


def sound(name: str, file: Path, stage: Stage) -> Subject:
    """A WAV file, as a speech model hears it: frames by seconds."""
    sensed = senses.hear(name, file, stage)
    cut = sensed.whole > sensed.heard + 0.05
    note = ("look.cut", {"model": name, "heard": sensed.heard, "whole": sensed.whole})
    return _sensed(name, sensed, "look.hearing", (note,) if cut else ())


def saved(file: Path, stage: Stage) -> Subject:
    """A recording, from its file."""
    stage("look.opening")
    recording = open_recording(file)
    held: Sequence[Layer | LayerStatistics] = recording.statistics or recording.layers
    if not held:
        raise UserError("look.nothing-square", model=str(file), count=0)
    reading = recording.reading or plain(_positions(recording, held[0]))

    def record(_keep: Keep, _stage: Stage, _step: Step) -> Recording:
        return recording

    name = recording.model or file.name
    return Subject(name, reading, len(held), held[0].heads, record)


def _positions(recording: Recording, layer: Layer | LayerStatistics) -> list[str]:
    """What a recording that was saved from Python knows of its positions."""
    for place in recording.run.places.values():
        return place.names()
    return recording.tokens or [str(n) for n in range(layer.sides[0])]


def _length(loaded: Loaded, count: int, beyond: bool) -> list[Note]:
    limit, values = loaded.context, {"count": count, "model": loaded.name, "limit": loaded.context}
    if limit is None or count <= limit:
        return []
    if not loaded.extends:
        raise UserError("look.ends", **values)
    if not beyond:
        raise UserError("look.too-long", **values)
    return [("look.beyond", values)]


def _sensed(name: str, sensed: senses.Sensed, key: str, notes: tuple[Note, ...] = ()) -> Subject:
    def record(keep: Keep, stage: Stage, step: Step) -> Recording:
        stage(key)
        return _recorded(
            name, sensed.model, sensed.inputs, sensed.reading, keep, step, sensed.layers
        )

    seen = sensed.inputs.get("pixel_values")
    return Subject(name, sensed.reading, sensed.layers, sensed.heads, record, notes, seen)


@dataclass(frozen=True)
class _Told(Keep):
    """Another's keep, and word of every layer that has run."""

    keep: Keep
    step: Step
    total: int

    def of(self, layer: Layer, number: int, run: Run) -> Layer | None:
        self.step(min(number, self.total), self.total)
        return self.keep.of(layer, number, run)


def _recorded(
    name: str, model: Any, inputs: Any, reading: Reading, keep: Keep, step: Step, layers: int
) -> Recording:
    import torch

    from regard.recording.watch import watch

    told = _Told(keep, step, layers)
    with torch.inference_mode(), _running(name), watch(model, keep=told) as recording:
        model(**inputs)
    if not (recording.layers or recording.statistics):
        raise UserError("look.unwatchable", model=name)
    recording.model, recording.reading = name, reading
    return recording


class _running:
    """Turns what a model raises while it runs into one sentence."""

    def __init__(self, model: str) -> None:
        self.model = model

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, KindError):
            raise UserError("look.unwatchable", model=self.model) from error
        # A model that needs pictures or sound fails in its own way.
        if isinstance(error, Exception) and not isinstance(error, UserError):
            raise UserError("look.cannot-read", model=self.model, why=reason(error)) from error
