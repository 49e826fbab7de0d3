"""The definition of attention, written to be read.  Everything faster is tested against it.

::

    scores   s_ij = scale · q_i · k_j     softcapped, + bias_ij, −∞ where i may not attend to j
    weights  w_ij = exp(s_ij − lse_i),    lse_i = ln( Σ_j exp s_ij  (+ exp sink) )
    output   o_i  = Σ_j w_ij v_j

It works on the arrays of any library that follows the array API standard, in the dtype it is
given (the tests give it float64).  Axes as in ``_shapes``: q (…, H, T, D), k (…, G, S, D) and
v (…, G, S, E), whose heads are repeated where they are read; ``seen`` broadcasts to
(…, H, T, S), True = may attend, and None means that every query may attend to every key.  It
holds all T × S weights at once.

Two rules keep it exact where others return NaN.  A row that may attend to nothing has output 0,
weights 0 and lse −∞.  And a hidden key or value takes no part at all: 0 · NaN is NaN, so what is
hidden is left out of the sum, not multiplied by 0.

Source: Vaswani et al. 2017, section 3.2.1; softcap: Gemma 2 (2024), section 2; sink: Xiao et al.
2024 (StreamingLLM), section 3.3, in the learned form of gpt-oss (2025), section 2.2.
"""

from __future__ import annotations

from regard._shapes import Array, array_namespace, device
from regard.core.arrays import all_finite, constant, scalar


def attend(
    q: Array,
    k: Array,
    v: Array,
    seen: Array | None = None,
    *,
    scale: float,
    softcap: float | None = None,
    bias: Array | None = None,
    sink: Array | None = None,
    kept: Array | None = None,
) -> tuple[Array, Array]:
    """The output (…, H, T, E) and lse (…, H, T); ``kept`` multiplies the weights (dropout)."""
    s = scores(products(q, k, seen), seen, scale=scale, softcap=softcap, bias=bias)
    w, lse = normalise(s, sink)
    return mix(w if kept is None else w * kept, v, seen), lse


def repeat_heads(k: Array, H: int) -> Array:
    """(…, G, S, D) → (…, H, S, D): query head h reads key head h // (H // G)."""
    xp, G = array_namespace(k), k.shape[-3]
    if G == H:
        return k
    return xp.take(k, xp.arange(H, device=device(k)) // (H // G), axis=-3)


def products(q: Array, k: Array, seen: Array | None = None, careful: bool = False) -> Array:
    """q_i · k_j for every query and key: (…, H, T, S).

    ``careful``: hidden pairs are left out though all is finite, as a derivative along what is not
    finite needs.
    """
    xp, k = array_namespace(q, k), repeat_heads(k, q.shape[-3])
    if seen is None or (not careful and all_finite(q, k)):
        return q @ xp.matrix_transpose(k)
    pair = seen[..., None]  # hidden pairs become 0 · 0 before they are multiplied
    q_pairs = xp.where(pair, q[..., :, None, :], scalar(q, 0.0))
    k_pairs = xp.where(pair, k[..., None, :, :], scalar(k, 0.0))
    return xp.sum(q_pairs * k_pairs, axis=-1)


def scores(
    products: Array,
    seen: Array | None,
    *,
    scale: float,
    softcap: float | None = None,
    bias: Array | None = None,
) -> Array:
    """What the softmax is taken of: scaled, softcapped, biased, and −∞ where hidden."""
    xp = array_namespace(products)
    s = products if scale == 1 else products * scale
    if softcap is not None:
        if seen is not None:  # a hidden product may be infinite, and tanh then has no derivative
            s = xp.where(seen, s, scalar(s, 0.0))
        s = softcap * xp.tanh(s / softcap)
    if bias is not None:
        s = s + bias
    return s if seen is None else xp.where(seen, s, scalar(s, float("-inf")))


def normalise(s: Array, sink: Array | None = None) -> tuple[Array, Array]:
    """The softmax over the last axis, (…, H, T, S), and its logarithmic sum, (…, H, T)."""
    xp = array_namespace(s)
    if s.shape[-1] == 0:  # a maximum needs something to be taken of
        largest = xp.full(s.shape[:-1], float("-inf"), dtype=s.dtype, device=device(s))[..., None]
    else:
        largest = xp.max(s, axis=-1, keepdims=True)
    if sink is not None:
        sink = sink[..., None, None] + xp.zeros_like(largest)
        largest = xp.maximum(largest, sink)
    # The maximum shifts both sides alike, so it is a constant, and no derivative runs through it.
    largest = constant(xp.where(xp.isfinite(largest), largest, scalar(s, 0.0)))
    e = xp.exp(s - largest)
    total = xp.sum(e, axis=-1, keepdims=True)
    if sink is not None:
        total = total + xp.exp(sink - largest)
    empty = total == 0
    safe = xp.where(empty, scalar(s, 1.0), total)
    lse = xp.where(empty, scalar(s, float("-inf")), largest + xp.log(safe))
    return e / safe, lse[..., 0]


def mix(w: Array, v: Array, seen: Array | None = None, careful: bool = False) -> Array:
    """Σ_j w_ij v_j: (…, H, T, E); ``careful`` as in :func:`products`."""
    xp, v = array_namespace(w, v), repeat_heads(v, w.shape[-3])
    if seen is None or (not careful and all_finite(v)):
        return w @ v
    v_pairs = xp.where(seen[..., None], v[..., None, :, :], scalar(v, 0.0))
    return xp.sum(w[..., None] * v_pairs, axis=-2)
