"""``watch``: record the attention of a model while it runs its own kernels.

What a model calls is overheard and left as it is, so its masks, padding and output stay what they
were, bit for bit: torch's attention functions and transformers' table of them (``capture.taps``,
``capture.tables``), and, where a model computes attention by hand, the modules that its user points
at (``capture.points``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from regard._errors import KindError
from regard.recording.capture.points import Point, place
from regard.recording.capture.refused import check_model
from regard.recording.capture.tables import tap_tables
from regard.recording.capture.taps import TAPS
from regard.recording.capture.writer import Writer, hooks_of
from regard.recording.keeping import Keep, QueriesAndKeys
from regard.recording.recording import Recording


@contextmanager
def watch(
    model: Any,
    tokenizer: Any = None,
    *,
    points: Mapping[str, Point | Any] | None = None,
    keep: Keep | None = None,
) -> Iterator[Recording]:
    """Record the attention of a PyTorch model as it runs.

    Args:
        model: a ``torch.nn.Module``, of transformers or any other library, or your own.
        tokenizer: names the tokens in ``seen.tokens``.
        points: where attention is computed by hand, so that no function of torch is called for
            it: from patterns of module names (``*`` is any one part) to :class:`Point`, which names
            the modules that make queries and keys, or to a function
            ``(module, inputs, output) -> (q, k, mask)`` that gives them, (B, H, T, D) and
            (B, G, S, D), with ``inputs`` the arguments of the module by name.
        keep: what becomes of each layer: :class:`regard.QueriesAndKeys` (which layers, in which
            dtype, on which device or disk) or :class:`regard.Statistics` (nothing of q and k).

    Returns:
        A context manager that gives a :class:`Recording`: ``seen[13].weights`` is a
        :class:`regard.Weights` (B, H, T, S).  What computes attention and was not seen stands in
        ``seen.missed``, by name and reason.  The steps of a generation are joined to one run.
        The recording outlives the ``with`` block and grows
        with the text, not its square, with two exceptions that are kept as dense (…, T, S) arrays:
        what a model adds to each score, unless it says one thing of each distance (as T5's position
        bias does: H × (T + S) numbers), and a mask that leaves some query's keys as no one run or
        differs between heads; ``seen.nbytes`` counts them.  A query
        that may attend to no key (padding) is recorded as a row of zeros, where an eager model
        spreads it evenly over all keys.

    Raises:
        KindError: something that is no module; a model that is compiled, on "meta", or copied to
            several devices at once; an implementation of attention that is not known here; a
            ``keep`` that is no such value.
        ValueRangeError: a pattern that fits no module.

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
    check_model(model)
    if keep is not None and not isinstance(keep, Keep):
        raise KindError(
            "keep must say what is kept of each layer, as regard.QueriesAndKeys(…) or "
            f"regard.Statistics(…), but it is a {type(keep).__name__}"
        )
    seen = Recording(tokenizer)
    writer = Writer(model, seen, keep or QueriesAndKeys())
    hooks: list[Any] = []
    try:
        hooks += place(writer, points or {})  # first: the model itself may be a point
        hooks += hooks_of(writer)
        TAPS.open(writer, writer.names)
        tap_tables(TAPS)
        yield seen
    finally:
        TAPS.close(writer)
        for hook in hooks:
            hook.remove()
