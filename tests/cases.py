"""Random calls of attention for the tests, and what is known of each without the code under test.

A mask is drawn together with a plain predicate of numbers, so that no test has to believe a mask
about itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import array_api_strict
import numpy as np
from hypothesis import strategies as st

import regard
from regard.core import tiles

Predicate = Callable[[int, int, int, int, int], bool]
"""(batch entry, head, number of the query, its position, key) → may attend."""


@dataclass(frozen=True)
class Case:
    """One call, in NumPy float64, and its truth."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: regard.Mask | None
    allowed: Predicate
    start: Any
    options: dict[str, Any] = field(default_factory=dict)
    layout: str = "plain"
    """How q, k and v lie in memory: see ``laid_out``."""

    @property
    def sizes(self) -> tuple[tuple[int, ...], int, int, int, int]:
        """Lead, H, G, T, S."""
        return (
            self.q.shape[:-3],
            self.q.shape[-3],
            self.k.shape[-3],
            *(a.shape[-2] for a in (self.q, self.k)),
        )

    def seen(self) -> np.ndarray:
        """(…, H, T, S) from the predicate, one number at a time."""
        lead, H, _, T, S = self.sizes
        starts = np.broadcast_to(S - T if self.start is None else self.start, lead).reshape(-1)
        seen = np.zeros((prod(lead), H, T, S), bool)
        for b, h, t, j in np.ndindex(*seen.shape):
            seen[b, h, t, j] = self.allowed(b, h, t, t + int(starts[b]), j)
        return seen.reshape(*lead, H, T, S)

    def __repr__(self) -> str:
        shapes = [a.shape for a in (self.q, self.k, self.v)]
        told = f"{self.mask!r}, start={self.start!r}, {self.options!r}, {self.layout}"
        return f"Case({shapes}, {told})"


LAYOUTS = ("plain", "transposed", "every other", "heads last")


def laid_out(array: Any, layout: str) -> Any:
    """The same numbers, otherwise in memory (NumPy and torch; the strict library has no views)."""
    if layout == "plain" or "strict" in type(array).__module__:
        return array
    copy = np.copy if isinstance(array, np.ndarray) else (lambda a: a.clone().contiguous())
    if layout == "every other":
        both = np.stack if isinstance(array, np.ndarray) else sys.modules["torch"].stack
        wide = both([array, array * 0 + 7], -1).reshape(*array.shape[:-1], -1)
        return wide[..., ::2]
    a, b = (-1, -2) if layout == "transposed" else (-3, -2)
    return copy(array.swapaxes(a, b)).swapaxes(a, b)


def numbers(rng: np.random.Generator, *shape: int, size: float = 1.0) -> np.ndarray:
    return rng.normal(size=shape) * size


@st.composite
def masks(draw: Any, lead: tuple[int, ...], H: int, T: int, S: int, depth: int = 2) -> Any:
    """A mask and its predicate."""
    kinds = ["causal", "window", "around", "prefix", "lengths", "documents", "keep", "where"]
    kind = draw(st.sampled_from(kinds + ["and", "or", "not"] * (depth > 0)))
    if kind in ("and", "or"):
        (a, in_a), (b, in_b) = (draw(masks(lead, H, T, S, depth - 1)) for _ in range(2))
        if kind == "and":
            return a & b, lambda *x: in_a(*x) and in_b(*x)
        return a | b, lambda *x: in_a(*x) or in_b(*x)
    if kind == "not":
        a, in_a = draw(masks(lead, H, T, S, depth - 1))
        return ~a, lambda *x: not in_a(*x)
    if kind == "causal":
        return regard.causal(), lambda b, h, t, i, j: j <= i
    small = st.integers(0, 5)
    if kind == "window":
        n = draw(st.integers(1, 5))
        return regard.window(n), lambda b, h, t, i, j: i - n < j <= i
    if kind == "around":
        x, y = draw(small), draw(small)
        return regard.window(before=x, after=y), lambda b, h, t, i, j: i - x <= j <= i + y
    if kind == "prefix":
        n = draw(small)
        return regard.prefix(n), lambda b, h, t, i, j: j < n
    if kind == "where":
        m = draw(st.integers(1, 3))
        return regard.where(lambda i, j: (i + 2 * j) % m == 0), (
            lambda b, h, t, i, j: (i + 2 * j) % m == 0
        )
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    if kind == "lengths":
        shape = draw(st.sampled_from([(), lead]))
        stop, first = rng.integers(0, S + 1, shape), rng.integers(0, S + 1, shape)
        low, high = (np.broadcast_to(a, lead).reshape(-1) for a in (first, stop))
        return regard.lengths(stop, first), lambda b, h, t, i, j: low[b] <= j < high[b]
    if kind == "documents" and S > 0:
        shape = draw(st.sampled_from([(), lead]))
        ids = np.cumsum(rng.random((*shape, S)) < 0.4, axis=-1)
        each = np.broadcast_to(ids, (*lead, S)).reshape(-1, S)
        return regard.documents(ids), (
            lambda b, h, t, i, j: 0 <= i < S and each[b, i] == each[b, j]
        )
    shape = draw(
        st.sampled_from(
            [(T, S), (H, T, S), (1, T, S), (*lead, 1, T, S), (1, S), (T, 1), (*lead, H, 1, S)]
        )
    )
    array = rng.random(shape) < draw(st.sampled_from([0.2, 0.8]))
    full = np.broadcast_to(array, (*lead, H, T, S)).reshape(-1, H, T, S)
    return regard.keep(array), lambda b, h, t, i, j: bool(full[b, h, t, j])


@st.composite
def cases(draw: Any, *, longest: int = 9, plain: bool = False) -> Case:
    """Any call; ``plain`` leaves out bias, softcap and sink."""
    lead = draw(st.sampled_from([(), (1,), (2,), (2, 2)]))
    G, R = draw(st.integers(1, 2)), draw(st.integers(1, 3))
    T, S = draw(st.integers(1, longest)), draw(st.integers(1, longest))
    D, E = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    size = draw(st.sampled_from([0.0, 1.0, 6.0]))
    q, k = numbers(rng, *lead, G * R, T, D, size=size), numbers(rng, *lead, G, S, D)
    v = numbers(rng, *lead, G, S, E)
    mask, allowed = None, lambda *x: True
    if draw(st.booleans()) or draw(st.booleans()):
        mask, allowed = draw(masks(lead, G * R, T, S))
    start = draw(st.sampled_from([None, -2, 0, 3]))
    if draw(st.booleans()) and lead:
        start = rng.integers(-2, S + 1, lead)
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        options["scale"] = draw(st.sampled_from([0.0, -0.7, 1.0]))
    if not plain and draw(st.booleans()):
        options["softcap"] = draw(st.sampled_from([0.5, 20.0]))
    if not plain and draw(st.booleans()):
        options["sink"] = numbers(rng, G * R)
    if not plain and draw(st.booleans()):
        shape = draw(st.sampled_from([(T, S), (G * R, T, S), (1, S), (*lead, 1, T, 1)]))
        options["bias"] = numbers(rng, *shape)
    layout = draw(st.sampled_from(LAYOUTS))
    return Case(q, k, v, mask, allowed, start, options, layout)


def by_hand(case: Case) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Output, weights and lse in float64, written out from the contract: one row at a time."""
    lead, H, G, T, S = case.sizes
    seen = case.seen().reshape(-1, H, T, S)
    q, k, v = (a.reshape(-1, *a.shape[-3:]) for a in (case.q, case.k, case.v))
    bias = np.broadcast_to(case.options.get("bias", 0.0), (*lead, H, T, S)).reshape(seen.shape)
    scale = case.options.get("scale", q.shape[-1] ** -0.5)
    softcap, sink = case.options.get("softcap"), case.options.get("sink")
    output = np.zeros((*seen.shape[:3], v.shape[-1]))
    w, lse = np.zeros(seen.shape), np.full(seen.shape[:3], -np.inf)
    for b, h, t in np.ndindex(*lse.shape):
        g = h // (H // G)
        keys = np.flatnonzero(seen[b, h, t])
        s = np.array([scale * float(np.dot(q[b, h, t], k[b, g, j])) for j in keys])
        if softcap is not None:
            s = softcap * np.tanh(s / softcap)
        s = s + bias[b, h, t, keys]
        logits = s if sink is None else np.append(s, sink[h])
        if len(logits) == 0:
            continue
        top = logits.max()
        lse[b, h, t] = top + np.log(np.exp(logits - top).sum())
        w[b, h, t, keys] = np.exp(s - lse[b, h, t])
        output[b, h, t] = w[b, h, t, keys] @ v[b, g, keys]
    shape = (*lead, H, T)
    return output.reshape(*shape, -1), w.reshape(*shape, S), lse.reshape(shape)


LIBRARIES = {"numpy": ("float16", "float32", "float64"), "strict": ("float32", "float64")}


def as_library(array: np.ndarray, library: str, dtype: str) -> Any:
    """``array`` in ``library`` and ``dtype``."""
    if library == "numpy":
        return array.astype(dtype)
    if library == "strict":
        return array_api_strict.asarray(array, dtype=getattr(array_api_strict, dtype))
    import torch

    return torch.tensor(array).to(getattr(torch, dtype))


def arrays(case: Case, library: str, dtype: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(q, k, v, mask) and the options of a case, in one library and dtype."""
    options = {
        name: as_library(x, library, dtype) if isinstance(x, np.ndarray) else x
        for name, x in case.options.items()
    }
    three = tuple(
        laid_out(as_library(a, library, dtype), case.layout) for a in (case.q, case.k, case.v)
    )
    return (*three, case.mask), {**options, "start": case.start}


def double(array: Any) -> np.ndarray:
    """Any library's array as NumPy float64."""
    if hasattr(array, "detach"):
        return array.detach().double().numpy()
    return np.asarray(array).astype(np.float64)


@contextmanager
def strips_of(budget: int) -> Iterator[None]:
    """Strips of ``budget`` weights, so that small matrices are cut in many."""
    before, tiles.BUDGET = tiles.BUDGET, budget
    try:
        yield
    finally:
        tiles.BUDGET = before
