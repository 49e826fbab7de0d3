"""The two tables: the strongest links, one row each, and the heads, one row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard._errors import ValueRangeError
from regard._shapes import count
from regard.pictures.overview import ROLES
from regard.recording.numbered import numbers
from regard.recording.roles import real_of
from regard.recording.summary import STRONGEST, LayerStatistics, summarise
from regard.recording.tables.rows import Column, Part, Table

if TYPE_CHECKING:
    from regard.recording.recording import Layer, Recording

TABLES = ("links", "heads")
LEAST = 0.01
"""The least weight that is a link unless another is given: most of a long text's are next to 0."""

LINKS = (
    Column("layer", "int32"),
    Column("head", "int32"),
    Column("query", "int32"),
    Column("key", "int32"),
    Column("rank", "int32"),
    Column("weight", "float32"),
)
SPELLED = (Column("query_token", "str", "query"), Column("key_token", "str", "key"))
HEADS = (
    Column("layer", "int32"),
    Column("head", "int32"),
    Column("name", "str"),
    Column("kind", "str"),
    Column("queries", "int32"),
    Column("keys", "int32"),
    Column("entropy", "float32"),
    Column("distance", "float32"),
    Column("strongest", "float32"),
    Column("received_most", "int32"),
    Column("received_share", "float32"),
    Column("received_concentration", "float32"),
    Column("role", "str"),
    *(Column(f"score_{role}", "float32") for role in ROLES if role != "none"),
)


def table(
    recording: Recording,
    name: str,
    *,
    strongest: int = STRONGEST,
    least: float = LEAST,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    queries: Sequence[int] | None = None,
    separators: Sequence[int] = (),
    sample: int = 0,
    tokens: Sequence[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Table:
    """The table ``name`` of the only run; see :meth:`Recording.table`."""
    if name not in TABLES:
        raise ValueRangeError(f"a table is one of {', '.join(TABLES)}, but {name!r} came")
    count("strongest", strongest, at_least=1)
    held: Sequence[Layer | LayerStatistics] = recording.statistics or recording.layers
    chosen = numbers("layer", layers, len(held))
    told = progress or (lambda done, total: None)
    spelled = tuple(_tokens(recording, sample) if tokens is None else tokens)

    def parts() -> Iterator[Part]:
        for done, number in enumerate(chosen):
            told(done, len(chosen))
            layer = held[number]
            if not isinstance(layer, LayerStatistics):
                layer = summarise(
                    layer,
                    strongest=strongest if name == "links" else 1,
                    pixels=1,
                    separators=tuple(separators),
                    ids=recording.run.texts.get(layer.queries),
                    real=real_of(layer, recording.run),
                )
            _check(layer, name, sample)
            shown = numbers("head", heads, layer.heads)
            asked = np.unique(numbers("query", queries, layer.shape[-2]))
            if name == "heads":
                rows = [_head(layer, number, head, sample) for head in shown]
            else:
                rows = [
                    _links(layer, number, head, sample, strongest, least, asked) for head in shown
                ]
            yield {c: np.concatenate([row[c] for row in rows]) for c in (rows[0] if rows else ())}
        told(len(chosen), len(chosen))

    if name == "heads":
        return Table(name, HEADS, spelled, parts)
    known = bool(spelled) and all(layer.sides == (len(spelled),) * 2 for layer in held)
    return Table(name, LINKS + (SPELLED if known else ()), spelled, parts)


def _links(
    layer: LayerStatistics,
    number: int,
    head: int,
    sample: int,
    strongest: int,
    least: float,
    asked: NDArray[np.int64],
) -> Part:
    """The strongest keys of the queries asked for, query by query, the strongest first."""
    keys, weights = (
        array[sample, head][:, :strongest] for array in (layer.top_keys, layer.top_weights)
    )
    keys, weights = keys[asked], weights[asked]
    rows, ranks = np.nonzero((keys >= 0) & (weights >= least))
    return {
        "layer": np.full(len(rows), number, np.int32),
        "head": np.full(len(rows), head, np.int32),
        "query": asked[rows].astype(np.int32),
        "key": keys[rows, ranks].astype(np.int32),
        "rank": ranks.astype(np.int32),
        "weight": weights[rows, ranks].astype(np.float32),
    }


def _head(layer: LayerStatistics, number: int, head: int, sample: int) -> Part:
    received = layer.received[sample, head].astype(np.float64)
    total = float(received.sum())
    share = received / total if total else received
    top = layer.top_weights[sample, head]
    entropy = layer.entropy[sample, head]
    if layer.real is not None:  # padding has none
        entropy, top = entropy[layer.real[sample]], top[layer.real[sample]]
    numbers = {
        "layer": number,
        "head": head,
        "queries": layer.shape[-2],
        "keys": layer.shape[-1],
        "received_most": int(share.argmax()) if len(share) else -1,
    }
    reals = {
        "entropy": float(entropy.mean()) if entropy.size else np.nan,
        "distance": float(layer.distance[sample, head]) if layer.distance.size else np.nan,
        "strongest": float(top[:, 0].mean()) if top.size else np.nan,
        "received_share": float(share.max(initial=0.0)),
        "received_concentration": float((share**2).sum()),
        **{f"score_{role}": float(of[sample, head]) for role, of in layer.scores.items()},
    }
    words = {"name": layer.name, "kind": layer.kind, "role": layer.role(head, sample)}
    kinds = {"int32": numbers, "float32": reals, "str": words}
    return {
        column.name: np.array(
            [kinds[column.dtype].get(column.name, np.nan)],  # type: ignore[attr-defined]
            np.str_ if column.dtype == "str" else column.dtype,
        )
        for column in HEADS
    }


def _tokens(recording: Recording, sample: int) -> Sequence[str]:
    """What the positions are called, as people read them where that is known."""
    if recording.reading is not None:
        return recording.reading.tokens
    return recording.tokens or () if sample == 0 else ()


def _check(layer: LayerStatistics, name: str, sample: int) -> None:
    if not 0 <= sample < layer.shape[0]:
        raise ValueRangeError(f"sample must lie in 0 … {layer.shape[0] - 1}, but {sample} came")
    if name == "links" and layer.shape[-2] and not layer.top_keys.shape[-1]:
        raise ValueRangeError(
            "the table of links needs each query's strongest keys, and these statistics were kept "
            "without: watch(model, keep=Statistics(strongest=8))"
        )
