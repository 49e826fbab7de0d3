"""``watch``: record every attention layer of a transformers model while it runs its own kernels.

Each of transformers' model files looks its attention function up in a table called
``ALL_ATTENTION_FUNCTIONS`` at every call.  While a watch lasts, the table of the model's own files
is one that hands out the same functions, wrapped: the wrapper notes query, key, mask and scale
and calls the function with what it was given.  So masks, padding and output stay what they were,
bit for bit.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from regard._errors import KindError
from regard.recording.dense_masks import Biases, Masks
from regard.recording.expected import expected_of
from regard.recording.keeping import Keep, Keeper, QueriesAndKeys
from regard.recording.places import places_of
from regard.recording.recording import Layer, Recording, Run
from regard.rules import causal

TABLE = "ALL_ATTENTION_FUNCTIONS"
UNDERSTOOD = ("sdpa", "eager")
"""Implementations whose treatment of the mask is known here."""


@contextmanager
def watch(
    model: Any, tokenizer: Any = None, *, points: Any = None, keep: Keep | None = None
) -> Iterator[Recording]:
    """Record the attention of a Hugging Face transformers model (5.x) as it runs.

    Args:
        model: a ``PreTrainedModel`` whose attention is ``"sdpa"`` (the default) or ``"eager"``.
        tokenizer: names the tokens in ``seen.tokens``.
        points: where attention stands that no kernel computes.
        keep: what becomes of each layer: :class:`regard.QueriesAndKeys` (which layers, in which
            dtype, on which device or disk), :class:`regard.Statistics` (nothing of q and k).

    Returns:
        A context manager that gives a :class:`Recording`: ``seen[13].weights`` is a
        :class:`regard.Weights` (B, H, T, S).  The recording outlives the ``with`` block and grows
        with the text, not its square, with two exceptions that are kept as dense (…, T, S) arrays:
        what a model adds to each score, unless it says one thing of each distance (as T5's position
        bias does: H × (T + S) numbers), and a mask that leaves some query's keys as no one run or
        differs between heads; ``seen.nbytes`` counts them.  A query
        that may attend to no key (padding) is recorded as a row of zeros, where an eager model
        spreads it evenly over all keys.

    Raises:
        KindError: something that is no transformers model, or another attention implementation; a
            ``keep`` that is no such value.

    >>> import regard, torch
    >>> from transformers import LlamaConfig, LlamaModel
    >>> config = LlamaConfig(hidden_size=32, intermediate_size=64, num_hidden_layers=2,
    ...                      num_attention_heads=4, num_key_value_heads=2, vocab_size=100)
    >>> model = LlamaModel(config).eval()
    >>> with torch.no_grad(), regard.watch(model) as seen:
    ...     _ = model(input_ids=torch.arange(12)[None])
    >>> seen[1].weights.entropy().shape
    torch.Size([1, 4, 12])
    """
    files = _model_files(model)
    _check_implementation(getattr(model, "config", None))
    if keep is not None and not isinstance(keep, Keep):
        raise KindError(
            "keep must say what is kept of each layer, as regard.QueriesAndKeys(…) or "
            f"regard.Statistics(…), but it is a {type(keep).__name__}"
        )
    seen = Recording(tokenizer)
    writer = _Writer(model, seen, (keep or QueriesAndKeys()).keeper(seen))
    hooks = [
        model.register_forward_pre_hook(writer.begin, with_kwargs=True),
        model.register_forward_hook(writer.end, always_call=True),
    ]
    tables = [(file, getattr(file, TABLE)) for file in files]
    try:
        for file, table in tables:
            setattr(file, TABLE, _Watched(table, writer))
        yield seen
    finally:
        for file, table in tables:
            setattr(file, TABLE, table)
        for hook in hooks:
            hook.remove()


class _Watched:
    """A table of attention functions that hands them out wrapped, and is otherwise the old one."""

    def __init__(self, table: Any, writer: _Writer) -> None:
        self._table = table
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def __getitem__(self, name: str) -> Any:
        return self._writer.wrap(name, self._table[name])

    def get_interface(self, name: str, default: Any) -> Any:
        return self._writer.wrap(name, self._table.get_interface(name, default))


class _Writer:
    """Writes each attention call of one model into its recording."""

    def __init__(self, model: Any, seen: Recording, keep: Keeper) -> None:
        self.keep = keep
        self.names = {module: name for name, module in model.named_modules()}
        self.seen = seen
        self.masks, self.biases = Masks(), Biases()
        self.open: Run | None = None

    def begin(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """The model's forward begins: a new run, with its token numbers."""
        ids: Any = kwargs.get("input_ids", args[0] if args else None)
        whole = hasattr(ids, "detach") and ids.ndim == 2 and not ids.is_floating_point()
        first = {getattr(model, "main_input_name", "input_ids"): args[0]} if args else {}
        self.open = Run(
            ids=np.asarray(ids.cpu(), np.int64) if whole else None,
            places=places_of(model, kwargs | first),
            expected=expected_of(model, kwargs | first),
        )
        self.seen.runs.append(self.open)

    def end(self, *_: Any) -> None:
        """The model's forward has ended, or raised."""
        self.open = None
        self.masks, self.biases = Masks(), Biases()

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """``function`` as it is, with a note taken of what it is called with."""

        def attention(
            module: Any, query: Any, key: Any, value: Any, attention_mask: Any, **kwargs: Any
        ) -> Any:
            if self.open is not None and module in self.names:
                self.note(name, module, query, key, attention_mask, kwargs)
            return function(module, query, key, value, attention_mask, **kwargs)

        return attention

    def note(
        self, name: str, module: Any, query: Any, key: Any, dense: Any, kwargs: dict[str, Any]
    ) -> None:
        """Record one call as the implementation ``name`` understands it."""
        if name not in UNDERSTOOD:
            raise KindError(_unknown(name))
        q, k = query.detach(), key.detach()
        mask, bias = self.masks.read(dense, q, k)
        start: int | None = None
        if name == "sdpa" and dense is None and q.shape[-2] > 1:
            flag = kwargs.get("is_causal")
            if getattr(module, "is_causal", True) if flag is None else flag:
                # torch's flag counts from the first key, and the keys beyond it are cut off.
                mask, start = causal(), 0
        position_bias = kwargs.get("position_bias")
        if position_bias is not None:
            score = self.biases.read(position_bias, start)
            bias = score if bias is None or score is None else score + bias
        sink = kwargs.get("s_aux", getattr(module, "sinks", None) if name == "eager" else None)
        found = {
            "scale": kwargs.get("scaling"),
            "softcap": kwargs.get("softcap"),
            "bias": bias,
            "sink": None if sink is None else sink.detach(),
        }
        options = {n: value for n, value in found.items() if value is not None}
        assert self.open is not None, "calls outside a run are not noted"
        kept = self.keep(Layer(self.names[module], q, k, mask, start, options))
        if kept is not None:
            self.open.layers.append(kept)


def _model_files(model: Any) -> list[Any]:
    """The Python modules of the model's code that look attention up in a table."""
    if not hasattr(model, "named_modules"):
        raise KindError(
            f"watch takes a transformers model (a torch module), but a {type(model).__name__} came"
        )
    names = {type(module).__module__ for module in model.modules()}
    files = [sys.modules[name] for name in sorted(names) if hasattr(sys.modules[name], TABLE)]
    if not files:
        raise KindError(
            f"watch found no attention that it can record in {type(model).__name__}: it reads "
            "models of Hugging Face transformers 5.x, whose files look attention up in "
            f"{TABLE}; for others, take q and k from the model and ask regard.weights(q, k, …)"
        )
    return files


def _check_implementation(config: Any) -> None:
    name = getattr(config, "_attn_implementation", None)
    if name is not None and name not in UNDERSTOOD:
        raise KindError(_unknown(name))


def _unknown(name: str) -> str:
    return (
        f"the model's attention must be 'sdpa' or 'eager' to be watched, but it is {name!r}; load "
        "it with attn_implementation='sdpa', or call model.set_attn_implementation('sdpa')"
    )
