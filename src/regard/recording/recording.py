"""What a watch saw: the queries, keys and rules of every attention layer, and the tokens.

It holds no weights.  A layer's queries and keys grow with the text, and ``layer.weights`` answers
any question about the T × S matrix from them.  What the model itself adds per entry, or hides in
no runs of keys, is the one thing that is kept as a matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from regard._errors import ValueRangeError
from regard._shapes import Array
from regard.core.attention import weights
from regard.core.weights import Weights
from regard.recording.asking import Answers
from regard.recording.expected import Expected
from regard.rules import Mask
from regard.rules.rule import Rule, flatten

if TYPE_CHECKING:
    from regard.recording.diagnoses import Diagnosis
    from regard.recording.drawing import Pictures
    from regard.recording.follower import Follower
    from regard.recording.places import Places
    from regard.recording.reading import Reading
    from regard.recording.summary import LayerStatistics
    from regard.recording.tables import Table


@dataclass(frozen=True, repr=False)
class Layer:
    """One attention layer of one run, as its kernel was called."""

    name: str
    """The module's name in the model, such as ``model.layers.13.self_attn``."""
    q: Array
    """(B, H, T, D), positions already applied."""
    k: Array
    """(B, G, S, D)"""
    mask: Mask | None
    start: int | None
    options: dict[str, Any] = field(default_factory=dict)
    """``scale``, and ``bias``, ``softcap``, ``sink`` where the model has them."""
    kind: str = "self"
    """``encoder`` or ``decoder`` where the layer's stack is known, else ``self``; ``cross`` where
    the keys come from elsewhere than the queries."""
    queries: str = "input_ids"
    """The argument of the model whose places the queries are: ``input_ids``, ``pixel_values`` …"""
    keys: str = "input_ids"
    """The same of the keys; for cross attention it is the encoder's."""

    @property
    def weights(self) -> Weights:
        """The layer's weights, (B, H, T, S), never built."""
        return weights(self.q, self.k, self.mask, start=self.start, **self.options)

    @property
    def visible(self) -> NDArray[Any]:
        """(T,) how many keys each query of the first sample may attend to; S if not known."""
        return np.asarray(self.weights.visible.reshape(-1, self.q.shape[-2])[0])

    @property
    def sides(self) -> tuple[int, int]:
        """T and S, how many queries and keys it has."""
        return int(self.q.shape[-2]), int(self.k.shape[-2])

    @property
    def heads(self) -> int:
        """How many query heads the layer has."""
        return int(self.q.shape[1])

    @property
    def nbytes(self) -> int:
        """What is kept of the layer, in bytes: queries, keys, and arrays of its mask and bias."""
        return _bytes([self])

    def __repr__(self) -> str:
        return f"Layer({self.name!r}, {self.heads} heads, {self.weights!r}, mask={self.mask!r})"


def _bytes(layers: Iterable[Layer]) -> int:
    """What ``layers`` keep, an array that several of them share counted once."""
    held: dict[int, int] = {}
    for layer in layers:
        rules = [layer.mask, layer.options.get("bias")]
        flats = [flatten(rule) for rule in rules if isinstance(rule, Rule)]
        arrays = [layer.q, layer.k, *(a for f in flats for a in (*f.arrays, *f.positions))]
        arrays += [rule for rule in rules if not isinstance(rule, Rule)]
        for array in arrays:
            if hasattr(array, "untyped_storage"):  # views of one tensor share what is kept
                storage = array.untyped_storage()
                held[storage.data_ptr()] = storage.nbytes()
            elif hasattr(array, "nbytes"):
                held[id(array)] = int(array.nbytes)
    return sum(held.values())


@dataclass(frozen=True)
class Missed:
    """An attention of the model that was not recorded."""

    name: str
    """The module's name in the model."""
    why: str
    """The reason, with the remedy where there is one."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


class Layers(MutableSequence[Layer]):
    """The layers of a run; one that was given as a function is made when somebody looks at it."""

    def __init__(self, layers: Iterable[Layer | Callable[[], Layer]] = ()) -> None:
        self._layers = list(layers)

    @overload
    def __getitem__(self, number: int) -> Layer: ...
    @overload
    def __getitem__(self, number: slice) -> Layers: ...
    def __getitem__(self, number: int | slice) -> Layer | Layers:
        if isinstance(number, slice):
            return Layers(self._layers[number])
        layer = self._layers[number]
        if not isinstance(layer, Layer):
            layer = self._layers[number] = layer()
        return layer

    def __setitem__(self, number: Any, layer: Any) -> None:
        self._layers[number] = layer

    def __delitem__(self, number: int | slice) -> None:
        del self._layers[number]

    def __len__(self) -> int:
        return len(self._layers)

    def insert(self, number: int, layer: Layer) -> None:
        self._layers.insert(number, layer)


@dataclass(frozen=True, eq=False, repr=False)
class Again:
    """How the forward pass of a run can be had once more; it holds the inputs, not the model.

    Token numbers are copies.  Images, sound and vectors are the caller's own arrays, which must
    stay as they were.
    """

    model: Callable[[], Any]
    """The watched model, or None where it is gone."""
    module: Callable[[], Any]
    """The same of what was called: the model, or a part of it."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class Run:
    """One forward pass of the model, or all passes of one generation, joined."""

    layers: MutableSequence[Layer] = field(default_factory=Layers)
    ids: NDArray[np.int64] | None = None
    """(B, T) the token numbers, where the model was given ``input_ids``."""
    places: dict[str, Places] = field(default_factory=dict)
    """What the positions are that came in other arguments: patches of an image, frames of sound."""
    statistics: list[LayerStatistics] = field(default_factory=list)
    """What ``keep=Statistics()`` keeps in place of layers."""
    expected: Expected = field(default_factory=Expected)
    """What the model and its inputs say that the layers ought to look at."""
    texts: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    """All token numbers (B, T) by the argument that they came in, ``decoder_input_ids`` too."""
    calls: int = 1
    """How many forward passes it is made of."""
    again: Again | None = None
    """How it can be run again, where it was recorded in this process."""


class Recording(Answers):
    """The runs of a watched model; with one run, ``seen[13].weights`` is its layer 13's."""

    def __init__(self, tokenizer: Any = None) -> None:
        self.runs: list[Run] = []
        self.missed: list[Missed] = []
        self.tokenizer = tokenizer
        self.model = ""
        """What the model is called, where ``regard look`` made the recording."""
        self.reading: Reading | None = None
        """What its positions are called there."""
        self.followers: list[Follower] = []

    @property
    def run(self) -> Run:
        """The only run."""
        if len(self.runs) != 1:
            raise ValueRangeError(
                f"this recording holds {len(self.runs)} runs of the model, not one; "
                + (
                    "choose one: seen.only(0)"
                    if self.runs
                    else "call the model inside 'with regard.watch(model) as seen:'"
                )
            )
        return self.runs[0]

    def only(self, number: int) -> Recording:
        """One of several runs, as a recording of its own that answers every question.

        Raises:
            ValueRangeError: a run that is not there.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaModel
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaModel(config).eval()
        >>> with torch.no_grad(), regard.watch(model) as seen:
        ...     for length in 6, 9:
        ...         _ = model(input_ids=torch.arange(length)[None])
        >>> seen.only(1)[0].weights.shape
        (1, 4, 9, 9)
        """
        if not -len(self.runs) <= number < len(self.runs):
            raise ValueRangeError(
                f"a run must lie in 0 … {len(self.runs) - 1}, but {number} came"
                if self.runs
                else "this recording holds no run yet; call the model inside the with block"
            )
        one = Recording(self.tokenizer)
        one.runs, one.missed = [self.runs[number]], self.missed
        one.model, one.reading = self.model, self.reading
        return one

    @property
    def layers(self) -> Sequence[Layer]:
        """The layers of the only run, in the order in which they ran."""
        return self.run.layers

    @property
    def tokens(self) -> list[str] | None:
        """The first sample's tokens: strings with ``watch(model, tokenizer)``, else numbers."""
        if (ids := self.run.ids) is None:
            return None
        if self.tokenizer is None:
            return [str(i) for i in ids[0]]
        return list(self.tokenizer.convert_ids_to_tokens(ids[0].tolist()))

    @property
    def statistics(self) -> Sequence[LayerStatistics]:
        """What ``watch(model, keep=Statistics())`` kept of the only run's layers."""
        return self.run.statistics

    def follow(self, k: int = 8) -> Follower:
        """Sum up each step of a generation as it is made: what the eviction of a cache needs.

        After every forward pass ``top`` holds each layer's k strongest keys of the newest queries
        and ``received`` what each key of the sequence has got so far.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaForCausalLM(config).eval()
        >>> with regard.watch(model) as seen:
        ...     steps = seen.follow(2)
        ...     _ = model.generate(torch.arange(5)[None], max_new_tokens=4, do_sample=False)
        >>> steps.received[1].shape, steps.top[1].keys.shape
        (torch.Size([1, 4, 8]), torch.Size([1, 4, 1, 2]))
        """
        from regard.recording.follower import Follower

        follower = Follower(k)
        self.followers.append(follower)
        return follower

    @property
    def nbytes(self) -> int:
        """What is kept of all runs, in bytes; what layers share, such as a mask, counts once."""
        summed = sum(layer.nbytes for run in self.runs for layer in run.statistics)
        return summed + _bytes(layer for run in self.runs for layer in run.layers)

    def diagnose(self) -> tuple[Diagnosis, ...]:
        """Name what is wrong with the model's attention; nothing comes back of a right one.

        ``padding`` (weight on padding), ``inverted`` (a mask that hides the wrong half), ``future``
        (weight on later keys in a causal model), ``cache`` (keys that are out of step),
        ``grouping`` (query heads that read the wrong key heads).  What is right is taken from the
        model: its ``attention_mask``, its pad token, the layers that call themselves causal.
        Statistics only (``keep=Statistics()``) show all but ``cache``, for which the keys of two
        steps are compared.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaModel
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaModel(config).eval()
        >>> all_seen = torch.ones(1, 1, 12, 12, dtype=torch.bool)
        >>> with torch.no_grad(), regard.watch(model) as seen:
        ...     _ = model(input_ids=torch.arange(12)[None], attention_mask=all_seen)
        >>> [(found.fault, len(found.layers)) for found in seen.diagnose()]
        [('future', 2)]
        """
        from regard.recording.diagnoses import diagnose

        return diagnose(self)

    def table(self, name: str, **options: Any) -> Table:
        """What the only run says as a table that saves as CSV, NumPy or parquet.

        ``"links"``: one row a (layer, head, query, key, weight) of the strongest links;
        ``"heads"``: one row a head of statistics.  Rows are made a layer at a time, when asked for.

        Args:
            name: ``"links"`` or ``"heads"``.
            options: ``strongest`` (8) keys of each query, ``least`` (0.01) weight of a link;
                ``layers``, ``heads``, ``queries``, ``sample`` (0) to narrow it; ``tokens``, the
                positions' names; ``separators``; ``progress``, called with (layers done, in all).

        Raises:
            ValueRangeError: another name; a sample that is not there; links of statistics that
                were kept without strongest keys.

        >>> import regard, torch
        >>> from transformers import LlamaConfig, LlamaModel
        >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
        ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
        >>> model = LlamaModel(config).eval()
        >>> with torch.no_grad(), regard.watch(model) as seen:
        ...     _ = model(input_ids=torch.arange(12)[None])
        >>> links = seen.table("links", strongest=2)
        >>> len(links.arrays()["weight"])  # of 12 queries, the first sees one key only
        184
        """
        from regard.recording.tables import table

        return table(self, name, **options)

    @property
    def pictures(self) -> Pictures:
        """Pictures for a paper, a notebook or a terminal: ``seen.pictures.head(13, 8)``.

        :class:`regard.recording.drawing.Pictures` lists them.
        """
        from regard.recording.drawing import Pictures

        return Pictures(self)

    def save(self, path: str | Path) -> None:
        """Write the recording as a file that :func:`regard.load` opens: whole, or not at all.

        It holds the queries, keys, rules, names and tokens of all runs, the statistics, and a
        checksum of each array; the format is safetensors.  A mask that is a Python function
        (``where``) is saved as the array that it makes, up to 2²⁴ entries.

        Args:
            path: the file, ``x.regard`` by custom.

        Raises:
            KindError: such a mask over more pairs; a dtype that safetensors does not know.
            UserError: a folder that is missing, write-protected or full.
        """
        from regard.recording.saving import save

        save(self, path)

    def __getitem__(self, layer: int) -> Layer:
        try:
            return self.layers[layer]
        except IndexError:
            raise ValueRangeError(
                f"layer must lie in 0 … {len(self.layers) - 1}, but {layer} came"
            ) from None

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Layer]:
        return iter(self.layers)

    def __repr__(self) -> str:
        sizes = ", ".join(f"{len(run.layers) or len(run.statistics)} layers" for run in self.runs)
        return f"Recording({sizes or 'nothing yet'}; {self.nbytes / 2**20:.1f} MiB)"
