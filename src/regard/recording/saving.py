"""A recording as a file, and back: ``seen.save("x.regard")``, ``regard.load("x.regard")``.

Each layer becomes a line of JSON that names its arrays; a rule becomes the text that it is made
of (``rules.rule.flatten``), so every mask and score of ``regard.rules`` comes back as it was.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from regard._errors import KindError
from regard._shapes import times
from regard.core.call import check
from regard.recording.container import Container, believed, write
from regard.recording.diagnoses import Sign
from regard.recording.expected import Expected
from regard.recording.places import Frames, Patches
from regard.recording.reading import Reading
from regard.recording.recording import Layer, Layers, Missed, Recording, Run
from regard.recording.summary import LayerStatistics
from regard.rules.masks import Keep, Where
from regard.rules.rule import Flat, Rule, flatten, rebuild

DENSE_LIMIT = 1 << 24
"""Entries that a mask may have which only a function knows; it is saved as the array it makes."""
KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (Layer, LayerStatistics, Sign, Missed, Patches, Frames, Expected, Reading)
}
"""The dataclasses that a file may speak of."""


def save(recording: Recording, path: str | Path) -> None:
    """Write ``recording`` at ``path``, whole or not at all; see :meth:`Recording.save`."""
    pen = _Pen()
    runs = [
        {
            "ids": pen.value(run.ids),
            "texts": pen.value(run.texts),
            "calls": run.calls,
            "places": pen.value(run.places),
            "layers": [pen.layer(layer) for layer in run.layers],
            "statistics": pen.value(list(run.statistics)),
            "expected": pen.value(run.expected),
        }
        for run in recording.runs
    ]
    text = {
        "runs": runs,
        "missed": pen.value(recording.missed),
        "names": _names(recording),
        "model": recording.model,
        "reading": pen.value(recording.reading),
    }
    write(Path(path), text, pen.tensors)


def load(path: str | Path) -> Recording:
    """Open a recording that was saved, without reading it.

    Its arrays are mapped into memory: a layer is read, and its checksum compared, when it is first
    looked at.

    Args:
        path: a file that ``seen.save`` or ``regard look --save`` wrote.

    Returns:
        The :class:`Recording` as it was, on the CPU; a mask that was a function is the array that
        it made.

    Raises:
        UserError: a file that cannot be read, is no recording, was written in a later version of
            the format, is cut short, or was altered.

    >>> import regard, tempfile, torch
    >>> from pathlib import Path
    >>> from transformers import LlamaConfig, LlamaModel
    >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
    >>> with torch.no_grad(), regard.watch(model := LlamaModel(config).eval()) as seen:
    ...     _ = model(input_ids=torch.arange(12)[None])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     seen.save(Path(folder, "x.regard"))
    ...     again = regard.load(Path(folder, "x.regard"))
    >>> again[1].weights.shape, again.tokens[:3]
    ((1, 4, 12, 12), ['0', '1', '2'])
    """
    return _Saved(Container(Path(path)))


class _Saved(Recording):
    """A recording whose arrays lie in a file."""

    def __init__(self, file: Container) -> None:
        names = file.text.get("names") if isinstance(file.text, dict) else None
        super().__init__(None if names is None else _Names(names))
        self._file = file
        reader = _Reader(file)
        with believed(file.path):
            self.missed = reader.value(file.text["missed"])
            self.model = file.text["model"]
            self.reading = reader.value(file.text["reading"])
            for run in file.text["runs"]:
                later = [reader.later(layer) for layer in run["layers"]]
                self.runs.append(
                    Run(
                        layers=Layers(later),
                        ids=reader.value(run["ids"]),
                        texts=reader.value(run["texts"]),
                        calls=int(run["calls"]),
                        places=reader.value(run["places"]),
                        statistics=reader.value(run["statistics"]),
                        expected=reader.value(run["expected"]),
                    )
                )

    @property
    def nbytes(self) -> int:
        return self._file.nbytes


class _Names:
    """What is needed of a tokenizer once a text has been read."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """The token of each number."""
        return [self._names.get(str(number), str(number)) for number in ids]


def _names(recording: Recording) -> dict[str, str] | None:
    """The tokens of all numbers that the recording's texts hold."""
    if recording.tokenizer is None:
        return None
    runs = [run.ids.ravel() for run in recording.runs if run.ids is not None]
    numbers = np.unique(np.concatenate(runs)).tolist() if runs else []
    tokens = recording.tokenizer.convert_ids_to_tokens(numbers)
    return {str(number): str(token) for number, token in zip(numbers, tokens, strict=True)}


class _Pen:
    """Turns values into what JSON can say, and gathers the arrays that they name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        self._alive: list[Any] = []

    def layer(self, layer: Layer) -> Any:
        """A layer, a mask that is a function as the array that it makes."""
        mask = layer.mask
        if mask is not None and flatten(mask).functions:
            mask = rebuild(flatten(mask), {"Where": self._evaluated(layer)})
        return self.value(dataclasses.replace(layer, mask=mask))

    def value(self, value: Any) -> Any:
        """Anything that a recording holds."""
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if isinstance(value, np.integer | np.floating):
            return value.item()
        if isinstance(value, Rule):
            return {"rule": self._rule(value)}
        if isinstance(value, list | tuple):
            return {type(value).__name__: [self.value(one) for one in value]}
        if isinstance(value, dict):
            return {"dict": {name: self.value(one) for name, one in value.items()}}
        if dataclasses.is_dataclass(value) and type(value).__name__ in KINDS:
            names = [field.name for field in dataclasses.fields(value)]
            held = {name: self.value(getattr(value, name)) for name in names}
            return {"is": type(value).__name__, "of": held}
        return {"numpy" if isinstance(value, np.ndarray) else "torch": self._tensor(value)}

    def _rule(self, rule: Rule) -> dict[str, Any]:
        flat = flatten(rule)
        return {
            "text": flat.text,
            "numbers": list(map(int, flat.numbers)),
            "positions": [self.value(np.asarray(array)) for array in flat.positions],
            "arrays": [self.value(array) for array in flat.arrays],
        }

    def _tensor(self, array: Any) -> str:
        """The name of an array; one that several layers share is written once."""
        import torch

        if isinstance(array, np.ndarray):
            plain = np.ascontiguousarray(array).reshape(array.shape)
            self._alive.append(array)
            key: tuple[Any, ...] = (id(array),)
            tensor = torch.from_numpy(plain if plain.flags.writeable else plain.copy())
        elif isinstance(array, torch.Tensor):
            tensor = array.detach()
            storage = array.untyped_storage().data_ptr(), array.storage_offset()
            key = (*storage, array.dtype, array.device, tuple(array.shape), array.stride())
        else:
            raise KindError(f"a recording cannot be saved with a {type(array).__name__} in it")
        if key not in self._known:
            self._known[key] = f"a{len(self._known)}"
            self.tensors[self._known[key]] = tensor
        return self._known[key]

    @staticmethod
    def _evaluated(layer: Layer) -> Callable[..., Keep]:
        def dense(fn: Callable[..., Any]) -> Keep:
            frame = check(layer.q, layer.k, None, start=layer.start).frame
            if (entries := frame.sizes.T * frame.sizes.S) > DENSE_LIMIT:
                raise KindError(
                    f"the mask of {layer.name} is where({getattr(fn, '__name__', 'fn')}), a Python "
                    f"function, which is saved as the array that it makes; over "
                    f"{times((frame.sizes.T, frame.sizes.S))} pairs that would be {entries:,} "
                    f"entries, above {DENSE_LIMIT:,}: say it with causal(), window(n), lengths(…) "
                    "or documents(…), or watch with keep=Statistics()"
                )
            return Keep(Where(fn).strip(frame))

        return dense


class _Reader:
    """Turns what a ``_Pen`` wrote back into values."""

    def __init__(self, file: Container) -> None:
        self._file = file

    def later(self, text: Any) -> Callable[[], Layer]:
        """The layer, made and checked when somebody looks at it."""

        def read() -> Layer:
            with believed(self._file.path):
                layer = self.value(text)
                if not isinstance(layer, Layer):
                    raise TypeError(text)
                return layer

        return read

    def value(self, text: Any) -> Any:
        """What ``text`` says."""
        if not isinstance(text, dict):
            return text
        if "is" in text:
            return KINDS[text["is"]](**{n: self.value(one) for n, one in text["of"].items()})
        ((kind, held),) = text.items()
        if kind == "rule":
            return self._rule(held)
        if kind == "dict":
            return {name: self.value(one) for name, one in held.items()}
        if kind in ("list", "tuple"):
            many = [self.value(one) for one in held]
            return many if kind == "list" else tuple(many)
        tensor = self._file[held]
        return tensor.numpy() if kind == "numpy" else tensor

    def _rule(self, held: dict[str, Any]) -> Rule:
        positions, arrays = (
            [self.value(a) for a in held[part]] for part in ("positions", "arrays")
        )
        rule: Rule = rebuild(Flat(held["text"], held["numbers"], positions, arrays))
        # Words that were left over, or the one base class that Python would make.
        if flatten(rule).text != held["text"] or "Mask" in held["text"].split():
            raise TypeError(held["text"])
        return rule
