"""``Weights``: the T × S matrix that is never built, and can be asked."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import Array, times
from regard.core import questions
from regard.core.call import Call
from regard.core.plan import answering, choose, run
from regard.core.reducers import Entries, Lse, Mixed

DENSE_LIMIT = 1 << 26
"""Entries (512 MiB in float64) above which ``dense()`` wants to be told that it is meant."""


class Weights:
    """The attention weights of one call, as a matrix (…, H, T, S) that is computed as it is asked.

    ``W @ v`` is ``attend(q, k, v, …)``; ``W[..., rows, keys]`` gives entries; ``W.ask(…)`` answers
    questions about all of it in one pass and linear memory.  Numbers come in float32, and in
    float64 where q and k are.
    """

    def __init__(self, call: Call, engine: str = "auto") -> None:
        self._call = call
        self._asked_engine = engine
        self._engine = choose(call, engine, "weights").engine

    @property
    def shape(self) -> tuple[int, ...]:
        """(…, H, T, S), or (T, S) where q and k came as 2-D arrays."""
        s = self._call.sizes
        return (s.T, s.S) if self._call.bare else (*s.lead, s.H, s.T, s.S)

    def __repr__(self) -> str:
        return f"Weights(<{times(self.shape)}, never built>)"

    def __matmul__(self, v: Array) -> Array:
        call = self._call.with_values(v)
        plan = choose(call, self._asked_engine, "output")
        (output,) = run(call, plan.engine, [Mixed(call)])
        return call.finish(output, 3)

    @property
    def lse(self) -> Array:
        """(…, H, T) the logarithm of each row's normaliser, the sink included."""
        (lse,) = run(self._call, self._engine, [Lse(self._call.frame)])
        return self._call.finish(lse, 2)

    @property
    def visible(self) -> NDArray[Any]:
        """(T,) or (…, T) how many keys each query may attend to, where the mask is key ranges.

        A mask that has no such form counts as hiding nothing between its outermost keys.
        """
        ranges = self._call.ranges
        if ranges is None:
            first, last = self._call.hull
            return np.asarray(np.maximum(last - first, 0))
        return np.asarray((ranges.stop - ranges.start).sum(axis=-1))

    def ask(self, *asked: questions.Question) -> tuple[Any, ...]:
        """The answers to all questions, in their order, from one pass over the weights.

        >>> import numpy as np, regard
        >>> W = regard.weights(np.eye(4), np.eye(4), regard.causal())
        >>> H, got = W.ask(regard.entropy(), regard.received())
        >>> H.shape, round(float(got.sum()), 6)
        ((4,), 4.0)
        """
        for question in asked:
            if not isinstance(question, questions.Question):
                raise KindError(
                    "ask takes questions such as topk(8) or entropy(), but a "
                    f"{type(question).__name__} came"
                )
        reducers = [q.reducer(self._call.frame) for q in asked]
        engine = answering(self._call, self._engine, self._asked_engine, reducers)
        answers = run(self._call, engine, reducers) if reducers else []
        return tuple(self._finish(a) for a in answers)

    def topk(self, k: int) -> questions.TopK:
        """Short for ``ask(topk(k))``."""
        return self._only(questions.topk(k))  # type: ignore[no-any-return]

    def entropy(self) -> Array:
        """Short for ``ask(entropy())``."""
        return self._only(questions.entropy())

    def received(self, by: Any = None) -> Array:
        """Short for ``ask(received(by))``."""
        return self._only(questions.received(by))

    def by_distance(self) -> questions.ByDistance:
        """Short for ``ask(by_distance())``."""
        return self._only(questions.by_distance())  # type: ignore[no-any-return]

    def mass(self, keys: Any) -> Array:
        """Short for ``ask(mass(keys))``."""
        return self._only(questions.mass(keys))

    def image(self, height: int, width: int, **options: Any) -> Array:
        """Short for ``ask(image(height, width, …))``."""
        return self._only(questions.image(height, width, **options))

    def dense(self, limit: int = DENSE_LIMIT) -> Array:
        """All weights as an array of ``self.shape``; refused above ``limit`` entries."""
        if (entries := prod(self.shape)) > limit:
            raise ValueRangeError(
                f"dense() would build {times(self.shape)} = {entries:,} weights, "
                f"above limit={limit:,}; ask for rows (W[..., rows, keys]) or with W.ask(…), or "
                "raise the limit"
            )
        return self[...]

    def __getitem__(self, index: Any) -> Array:
        lead, rows, keys = self._split(index)
        _check_lead(lead, self.shape[:-2])
        row_numbers, key_numbers = (
            _numbers(name, part, n)
            for name, part, n in zip(("row", "key"), (rows, keys), self.shape[-2:], strict=True)
        )
        call = self._call
        head: Any = lead[-1] if lead else slice(None)
        if _is_whole(head) and not self._call.bare:
            found = _of_head(call, int(head) % self.shape[-3])
            lead, call = (lead if found is call else (*lead[:-1], 0)), found
        call = call.of_rows(row_numbers)
        (entries,) = run(call, self._engine, [Entries(call.frame, key_numbers)])
        entries = call.finish(entries, 3)
        drop = tuple(0 if _is_whole(part) else slice(None) for part in (rows, keys))
        return entries[(*lead, *drop)]

    __iter__ = None
    """Rows come by ``W[..., rows, keys]``: to walk over them one by one would be a pass each."""

    def _split(self, index: Any) -> tuple[tuple[Any, ...], Any, Any]:
        """The index of batch and heads, that of the rows and that of the keys."""
        given = index if isinstance(index, tuple) else (index,)
        dots = [i for i, part in enumerate(given) if part is Ellipsis]
        if any(part is None for part in given) or len(dots) > 1:
            raise KindError("Weights take numbers, slices, arrays and one '...' as indices")
        whole = (slice(None),)
        free = len(self.shape) - (len(given) - len(dots))
        if free < 0:
            raise ShapeError(f"{len(given)} indices for weights with the axes {self.shape}")
        at = dots[0] if dots else len(given)
        full = (*given[:at], *whole * free, *given[at + len(dots) :])
        return full[:-2], full[-2], full[-1]

    def _only(self, question: questions.Question) -> Any:
        return self.ask(question)[0]

    def _finish(self, answer: Any) -> Any:
        """The answer without the head axis, where the call came as plain 2-D arrays."""
        if not self._call.bare:
            return answer
        if isinstance(answer, questions.ByDistance):
            return answer._replace(weight=answer.weight[0, ...])
        if isinstance(answer, questions.TopK):
            return questions.TopK(*(a[0, ...] for a in answer))
        return answer[0, ...]


def _check_lead(index: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    """Batch entries and heads that are there, said before anything is computed."""
    try:
        _ = np.broadcast_to(np.empty(()), shape)[index]
    except IndexError as error:
        raise ValueRangeError(
            f"the index of batch and heads must lie within {shape}, but {index} came: {error}"
        ) from None


def _of_head(call: Call, head: int) -> Call:
    """The call for one of its query heads only, where nothing but q and k tells it apart.

    It is the call itself where a mask, bias or sink may differ between heads.
    """
    if call.bias is not None or call.sink is not None:
        return call
    if call.mask is not None and call.ranges is None:
        return call
    group = head // call.sizes.group
    q, k = call.q[..., head : head + 1, :, :], call.k[..., group : group + 1, :, :]
    return replace(call, q=q, k=k, frame=replace(call.frame, sizes=replace(call.sizes, H=1, G=1)))


def _is_whole(part: Any) -> bool:
    return not isinstance(part, slice) and np.ndim(part) == 0


def _numbers(name: str, part: Any, n: int) -> NDArray[np.int64]:
    """The numbers 0 … n−1 that an index of one axis stands for."""
    if not isinstance(part, slice):
        part = np.asarray(part.detach().cpu() if hasattr(part, "detach") else part)
        kinds = "iub" if part.ndim == 1 else "iu"
        if part.ndim > 1 or (part.size and part.dtype.kind not in kinds):
            raise KindError(
                f"the {name} index must be a whole number, a slice, or a list of numbers or of "
                f"booleans, but it is {part.dtype} of shape {part.shape}"
            )
        part = part if part.size else part.astype(np.int64)
    try:
        return np.ascontiguousarray(np.atleast_1d(np.arange(n, dtype=np.int64)[part]))
    except IndexError:
        raise ValueRangeError(
            f"the {name} index must lie within {n} {name}s, but {part!r} came"
        ) from None
