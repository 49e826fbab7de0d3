"""The overview as one JSON document, for other programs."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from regard.pictures.overview import HeadView, Overview

TOP_ROWS = 4096
"""The most rows of ``top`` that one head gets."""


def json_document(overview: Overview) -> dict[str, Any]:
    """The overview as plain dicts, lists, strings and numbers.

    ``{"model", "tokens", "layers": [{"layer", "heads": [{"head", "role", "entropy", "received":
    [...], "top": [{"query", "key", "weight"}, ...]}]}]}``.  ``top`` holds the eight strongest keys
    of each asked query, at most ``TOP_ROWS`` rows a head: beyond that the strongest ones.  Numbers
    have six significant digits; what is not finite is null.
    """
    return {
        "model": overview.model,
        "tokens": list(overview.tokens),
        "layers": [
            {"layer": heads[0].layer, "heads": [_head(view, overview.queries) for view in heads]}
            for heads in overview.layers
            if heads
        ],
    }


def json_bytes(overview: Overview) -> bytes:
    """``json_document`` as a file's content, in UTF-8."""
    document = json_document(overview)
    try:
        return _dumped(document, readable=True).encode()
    except UnicodeEncodeError:  # half a surrogate pair in a token: only an escape can hold it
        return _dumped(document, readable=False).encode()


def _dumped(document: dict[str, Any], *, readable: bool) -> str:
    text = json.dumps(document, ensure_ascii=not readable, allow_nan=False, separators=(",", ":"))
    return text + "\n"


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _head(view: HeadView, queries: tuple[int, ...]) -> dict[str, Any]:
    return {
        "head": view.head,
        "role": view.role,
        "entropy": _number(view.entropy),
        "received": [_number(mass) for mass in view.received.tolist()],
        "top": _top(view, queries),
    }


def _top(view: HeadView, queries: tuple[int, ...]) -> list[dict[str, Any]]:
    asked = np.asarray(queries, dtype=np.intp)
    keys, weights = view.top_keys[asked], view.top_weights[asked]
    rows, ranks = np.nonzero(keys >= 0)
    query, key, weight = asked[rows], keys[rows, ranks], weights[rows, ranks]
    if len(query) > TOP_ROWS:
        # lexsort reads its last key first; query and rank break ties, so the choice is one.
        strongest = np.lexsort((ranks, query, -weight))[:TOP_ROWS]
        query, key, weight = query[strongest], key[strongest], weight[strongest]
    order = np.lexsort((-weight, query))
    return [
        {"query": q, "key": k, "weight": _number(w)}
        for q, k, w in zip(
            query[order].tolist(), key[order].tolist(), weight[order].tolist(), strict=True
        )
    ]
