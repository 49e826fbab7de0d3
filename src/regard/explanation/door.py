"""The door ``regard.explain``: what is given is checked, and told as a story or as one call."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard._errors import KindError, ValueRangeError
from regard._shapes import Array
from regard.explanation.attention import POSITIONS, Wish, trace
from regard.explanation.embedding import embed
from regard.explanation.refused import Misshapen, Outside
from regard.explanation.sheet import Floats
from regard.explanation.story import VECTORS, story
from regard.explanation.trace import Trace
from regard.rules import Mask


def explain(
    x: Array | str | None = None,
    *,
    wq: Array | None = None,
    wk: Array | None = None,
    wv: Array | None = None,
    wo: Array | None = None,
    heads: int = 1,
    mask: Mask | None = None,
    positions: str | None = None,
    scale: float | None = None,
    temperature: float = 1.0,
) -> Trace:
    """Attention with your own vectors, step by step, every number computed by the definition.

    ::

        Y = concat over heads of softmax( Q Kᵀ · scale / temperature, masked ) V · W_O
        Q = X W_Q,  K = X W_K,  V = X W_V

    Given vectors alone (or nothing: then three small ones), it tells the whole story, from the
    dot product to the cost; given a matrix, heads, a mask or positions, it traces that one call.

    Args:
        x: vectors (n, d), one a row, or a sentence, whose words then become vectors of a small
            embedding.
        wq: the matrix of the queries (d, D); Q = X unless given.  So too ``wk`` (d, D) and
            ``wv`` (d, E).
        wo: the matrix of the output (E, anything); the heads' sum itself unless given.
        heads: how many heads D and E are split into.
        mask: who may attend to whom, a value such as ``causal()``.
        positions: "sinusoidal" (added to x), "rotary" (turns queries and keys) or "alibi" (taken
            off the scores).
        scale: 1/√(D / heads) unless given.
        temperature: the scores are divided by it.

    Returns:
        A :class:`Trace` of named steps, which prints, saves and shows itself in a notebook.

    Raises:
        ShapeError, KindError, ValueRangeError: an argument that does not fit, by its name.

    Source: Vaswani et al. 2017, section 3.2.

    >>> import regard
    >>> trace = regard.explain([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]], mask=regard.causal())
    >>> trace["scores"]["S"].round(2).tolist()
    [[0.26, 0.23, 0.08], [0.23, 0.25, 0.24], [0.08, 0.24, 0.64]]
    >>> trace["sum"].numpy
    'O = A @ V'
    """
    note = ""
    tokens: tuple[str, ...] = ()
    if isinstance(x, str):
        x, tokens, spelt = embed(x)
        note = "step.embedding-spelt" if spelt else "step.embedding"
    vectors = VECTORS if x is None else _matrix("x", x)
    plain = all(each is None for each in (wq, wk, wv, wo, mask, positions, scale))
    if plain and heads == 1 and temperature == 1.0:
        return story(vectors, tokens, note)
    if positions is not None and positions not in POSITIONS:
        raise Outside("explain.positions", known=", ".join(POSITIONS), value=repr(positions))
    if not (np.isfinite(temperature) and temperature > 0):
        raise ValueRangeError(f"temperature must be a number above 0, but it is {temperature}")
    if not isinstance(heads, int) or heads < 1:
        raise Outside("explain.heads", heads=repr(heads))
    return trace(
        Wish(
            x=vectors,
            tokens=tokens,
            **{
                name: None if given is None else _matrix(name, given)
                for name, given in (("wq", wq), ("wk", wk), ("wv", wv), ("wo", wo))
            },
            heads=heads,
            mask=mask,
            positions=positions,
            scale=scale,
            temperature=temperature,
            note=note,
        )
    )


def _matrix(name: str, given: Any) -> Floats:
    """``given`` as a finite float64 matrix."""
    if hasattr(given, "detach"):  # a torch tensor, perhaps with a gradient
        given = given.detach().cpu().double().numpy()
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise KindError(f"{name} must be a matrix of numbers: {error}") from error
    if array.ndim != 2 or 0 in array.shape:
        raise Misshapen("explain.matrix", name=name, shape=array.shape)
    if not np.isfinite(array).all():
        raise Outside("explain.finite", name=name)
    return array
