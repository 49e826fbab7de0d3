"""The front door's verbs: check → plan → compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from regard._errors import EngineError
from regard._shapes import Array
from regard.core.call import check, check_values
from regard.core.dropout import draw_seed
from regard.core.merge import Partial
from regard.core.modes import at_autocast, undisturbed, without_data
from regard.core.plan import Plan, again, choose, remember, run
from regard.core.reducers import Lse, Mixed
from regard.core.weights import Weights
from regard.rules.masks import Mask
from regard.rules.scores import Score

HEARD: list[Callable[[Array, Array, Mask | None, dict[str, Any]], None]] = []
"""Told of each call of ``attend`` with data, before it is computed: a watch listens here."""


def attend(
    q: Array,
    k: Array,
    v: Array,
    mask: Mask | None = None,
    *,
    bias: Score | Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Array | float | None = None,
    start: Any = None,
    dropout: float = 0.0,
    generator: Any = None,
    engine: str = "auto",
) -> Array:
    """Exact attention: each query gets the values, averaged by how well their keys match it.

    ::

        output = softmax( scale · q kᵀ  (softcapped, + bias, masked) ) v

    Args:
        q: queries (…, H, T, D), or plain (T, D).
        k: keys (…, G, S, D); H is a multiple of G, query head h reads key head h // (H // G).
        v: values (…, G, S, E).
        mask: who may attend to whom, a value such as ``causal() & window(128)``; all if None.
        bias: added to the scores: an array that broadcasts to (…, H, T, S), a value such as
            ``alibi(8)`` or ``relative(table)``, or a sum of them.
        scale: 1/√D unless given.
        softcap: scores become softcap · tanh(scores / softcap), before bias and mask.
        sink: one logit a query head (H,) that takes weight and gives no value.
        start: the position of query 0 among the keys, one number or one per batch entry; S − T
            unless given.
        dropout: the share of weights set to 0, the rest divided by 1 − dropout.
        generator: torch's or NumPy's generator, or a number, that dropout draws its seed from.
        engine: ``"auto"``, or ``"native"``, ``"sdpa"``, ``"flex"``, ``"tiles"``, ``"formula"``;
            :func:`plan` tells which.  flex compiles for seconds, once for each shape: ``"auto"``
            takes it only where that is done.

    Returns:
        (…, H, T, E) in the dtype of v.  A query that may attend to nothing gets 0.

    Raises:
        ShapeError, KindError, ValueRangeError: an argument that does not fit, by its name.
        EngineError: an engine asked for by name that cannot do the call.

    Source: Vaswani et al. 2017, section 3.2.1.

    >>> import numpy as np, regard
    >>> x = np.array([[0.1, 0.5], [0.3, 0.4], [0.8, 0.0]])
    >>> regard.attend(x, x, x).round(3).tolist()
    [[0.384, 0.312], [0.4, 0.3], [0.451, 0.263]]
    """
    if undisturbed(q, k, v) and bias is None and sink is None and not HEARD:
        found = again(engine, q, k, v, mask, scale, softcap, start, dropout)
        if found is not None:
            return found
    options: dict[str, Any] = {
        "bias": bias,
        "scale": scale,
        "softcap": softcap,
        "sink": sink,
        "start": start,
        "dropout": dropout,
    }
    check_values(v)
    q, k, v = at_autocast(q, k, v)
    if without_data(q):
        from regard.core import traced

        (output,) = traced.attend(q, k, v, mask, **options, generator=generator, engine=engine)
        return output
    call = check(q, k, v, mask, **options)
    for hear in HEARD:
        hear(q, k, mask, options)
    if call.dropout:
        call = replace(call, seed=draw_seed(call.xp, generator))
    chosen = choose(call, engine, "output").engine
    (output,) = run(call, chosen, [Mixed(call)])
    remember(call, engine, chosen)
    return call.finish(output, 3)


def weights(
    q: Array,
    k: Array,
    mask: Mask | None = None,
    *,
    bias: Score | Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Array | float | None = None,
    start: Any = None,
    engine: str = "auto",
) -> Weights:
    """The attention weights as a matrix that is never built: ask it, at any length.

    ::

        w_ij = exp( s_ij − lse_i ),    s = scale · q kᵀ  (softcapped, + bias, masked)

    Arguments and errors as in :func:`attend`; ``weights(q, k, …) @ v`` is ``attend(q, k, v, …)``.

    Returns:
        :class:`Weights` (…, H, T, S).

    Source: Vaswani et al. 2017, section 3.2.1; that lse gives each weight back: Dao et al. 2022
    (FlashAttention), section 3.1.

    >>> import numpy as np, regard
    >>> q = k = np.random.default_rng(0).normal(size=(1000, 16))
    >>> W = regard.weights(q, k, regard.causal())
    >>> W.shape, W[..., 2, :4].round(3).tolist()
    ((1000, 1000), [0.008, 0.006, 0.986, 0.0])
    """
    q, k, _ = at_autocast(q, k, None)
    if without_data(q):
        raise EngineError(
            "weights are asked outside of a compiled graph, and of tensors with data: put the "
            "question in a function under torch.compiler.disable"
        )
    call = check(
        q,
        k,
        None,
        mask,
        bias=bias,
        scale=scale,
        softcap=softcap,
        sink=sink,
        start=start,
    )
    return Weights(call, engine)


def partial(
    q: Array,
    k: Array,
    v: Array,
    mask: Mask | None = None,
    *,
    bias: Score | Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    start: Any = None,
    engine: str = "auto",
) -> Partial:
    """Attention over some of the keys, with its lse, so that :func:`merge` can join the pieces.

    ::

        lse_i = ln Σ_j exp s_ij,    output_i = Σ_j exp(s_ij − lse_i) v_j      (j over these keys)

    Arguments and errors as in :func:`attend`.  Positions count from the first key given: for the
    keys from 100 on, ``start`` is 100 less than for all of them.

    Returns:
        ``Partial(output, lse)``: (…, H, T, E) and (…, H, T).

    Source: Dao et al. 2022 (FlashAttention), section 3.1.

    >>> import numpy as np, regard
    >>> x = np.zeros((2, 4))
    >>> bool(np.allclose(regard.partial(x, x, x).lse, np.log(2)))
    True
    """
    options: dict[str, Any] = {"bias": bias, "scale": scale, "softcap": softcap, "start": start}
    check_values(v)
    q, k, v = at_autocast(q, k, v)
    if without_data(q):
        from regard.core import traced

        return Partial(*traced.attend(q, k, v, mask, **options, engine=engine, lse=True))
    call = check(q, k, v, mask, **options)
    reducers = [Mixed(call), Lse(call.frame)]
    output, lse = run(call, choose(call, engine, "lse").engine, reducers)
    return Partial(call.finish(output, 3), call.finish(lse, 2))


def plan(
    q: Array,
    k: Array,
    v: Array | Mask | None = None,
    mask: Mask | None = None,
    *,
    bias: Score | Array | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sink: Array | float | None = None,
    start: Any = None,
    dropout: float = 0.0,
    engine: str = "auto",
) -> Plan:
    """Which engine a call of :func:`attend` (or, without v, of :func:`weights`) gets, and why.

    Arguments and errors as in :func:`attend`; nothing is computed.

    Returns:
        ``Plan(engine, why, refused)``.

    >>> import numpy as np, regard
    >>> x = np.eye(3)
    >>> regard.plan(x, x, x, regard.causal(), engine="tiles").engine
    'tiles'
    """
    if isinstance(v, Mask):  # plan(q, k, mask): the arguments of weights
        v, mask = None, v
    q, k, v = at_autocast(q, k, v)
    call = check(
        q,
        k,
        v,
        mask,
        bias=bias,
        scale=scale,
        softcap=softcap,
        sink=sink,
        start=start,
        dropout=dropout,
    )
    return choose(call, engine, "weights" if v is None else "output")
