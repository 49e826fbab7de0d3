"""The engine ``flex``: torch's flex_attention, compiled; it skips the blocks that a mask hides.

Which blocks of 128 × 128 are hidden, and which are seen whole, is counted from the mask's key
ranges, never from a T × S array.  What torch compiles holds for one shape: kernels for any length
(``dynamic``) fail to build on a CPU in torch 2.13.
"""

from __future__ import annotations

import operator
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache, reduce
from importlib.util import find_spec
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from regard._errors import EngineError
from regard._shapes import Array
from regard.core.call import Call
from regard.core.modes import has_tangent
from regard.core.reducers import Reducer
from regard.rules.masks import And, Keep, Mask, Not, Or, Where
from regard.rules.ranges import Ranges
from regard.rules.rule import flatten
from regard.rules.scores import T5, Alibi, Dense, Relative, Score, Sum

name = "flex"
why = "torch's flex_attention, compiled for this shape; where all is finite it keeps the contract"

differentiable = True
"""torch differentiates its output once, on CUDA; tiles gives the other derivatives."""
BLOCK = 128
"""Queries, and keys, of one block."""
Mod: TypeAlias = Callable[..., Array]
"""What holds of (batch entry, head, number of the query, key)."""

compiled: set[tuple[Any, ...]] = set()
"""What this process has compiled, by all that torch compiles anew for."""


def refuses(call: Call, want: str) -> str | None:
    """Why it cannot do the call; None if it can."""
    if not call.is_torch:
        return "it takes torch tensors only"
    if want == "weights" or call.v is None:
        return "it keeps no weights"
    import torch

    scores = [] if call.bias is None else flatten(call.bias).arrays
    sizes, E, on = call.sizes, call.v.shape[-1], call.q.device.type
    derivative, cpu, cuda = _wants_derivative(call), on == "cpu", on == "cuda"
    avx2 = torch.cpu._is_avx2_supported() and os.environ.get("ATEN_CPU_CAPABILITY") != "default"
    compiler = os.environ.get("CXX", "cl" if sys.platform == "win32" else "g++")
    nothing = 0 in (prod(sizes.lead), sizes.H, sizes.T, sizes.S, E)
    for reason, there in (
        ("it sums in float32, too coarsely for float64", call.q.dtype.itemsize > 4),
        ("it would round the bias to float32", any(a.dtype.itemsize > 4 for a in scores)),
        ("it has no dropout", call.dropout > 0),
        ("it does not define attention over nothing", nothing),
        (f"it runs on CUDA and on CPUs, not on {on}", not (cpu or cuda)),
        ("it does not train on a CPU", cpu and derivative),
        ("it returns no lse on a CPU", cpu and want == "lse"),
        ("it has no sink on a CPU", cpu and call.sink is not None),
        ("it needs a CPU with AVX2", cpu and not avx2),
        ("it needs a C++ compiler: install g++", cpu and not shutil.which(compiler)),
        ("on CUDA its heads are at least 16 wide", cuda and min(sizes.D, E) < 16),
        ("it gives a bias no derivative", cuda and derivative and bool(scores)),
        ("it needs triton", cuda and find_spec("triton") is None),
    ):
        if there:
            return reason
    return None


def dislikes(call: Call) -> str | None:
    """Why ``auto`` should rather take another engine, though this one could do the call."""
    import torch

    key = None if torch._C._are_functorch_transforms_active() else _key(call)
    if key in compiled:
        return None
    return "it would compile for seconds; engine='flex' does so, once for each shape"


def compute(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    """The output, or output and lse."""
    import torch
    from torch._dynamo.exc import FailOnRecompileLimitHit, TorchDynamoException

    assert call.v is not None, "only weights come without values"
    key, sink, training = _key(call), call.sink, _wants_derivative(call)
    want_lse = len(reducers) > 1 or sink is not None or call.q.device.type == "cuda"
    with torch.set_grad_enabled(training):  # for either state torch compiles anew
        arrays = (_by_entry(a, 3, call) for a in (call.q, call.k, call.v))
        q, k, v = arrays if training else (a.detach() for a in arrays)
        score, mask = score_mod(call), block_mask(call, training)
        try:
            output, lse = _kernel()(q, k, v, score, mask, call.scale, want_lse)
        except (TorchDynamoException, FailOnRecompileLimitHit) as error:
            told = f"mask={call.mask!r}, bias={call.bias!r}: {' '.join(str(error).split()[:30])}"
            raise EngineError(f"engine='flex': torch cannot compile {told}") from error
        compiled.update(() if key is None else (key,))
        if sink is not None:
            sink, empty = _by_entry(sink, 1, call).to(lse.dtype)[..., None], torch.isneginf(lse)
            share = torch.sigmoid(torch.where(empty, 0.0, lse) - sink)
            output, lse = (output * share[..., None]).to(v.dtype), torch.logaddexp(lse, sink)
        output = output.reshape(*call.q.shape[:-1], v.shape[-1])
        return [output] if len(reducers) == 1 else [output, lse.reshape(call.q.shape[:-1])]


@cache
def _kernel() -> Any:
    import torch
    from torch.nn.attention.flex_attention import AuxRequest, flex_attention

    with warnings.catch_warnings():  # torch's compiler imports what torch has deprecated
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is deprecated", DeprecationWarning)
        import torch._inductor.compile_fx

    def attention(
        q: Array, k: Array, v: Array, score: Any, mask: Any, scale: float, want_lse: bool
    ) -> tuple[Array, Array]:
        grouped, more = q.shape[1] != k.shape[1], AuxRequest(lse=want_lse)
        output, aux = flex_attention(q, k, v, score, mask, scale, grouped, return_aux=more)
        return output, aux.lse

    compile: Any = torch.compile  # whose stub leaves recompile_limit out; 256 is torch's own cap
    return compile(attention, fullgraph=True, dynamic=False, recompile_limit=256)


def blocks(ranges: Ranges) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which blocks are seen in part, and which whole: (…, blocks of queries, of keys) each.

    It counts how many rows of a block begin and cease to see each block of keys, so its memory
    grows with the ranges and the blocks.  A block that sticks out of the matrix is never whole.
    """
    *lead, T, r = ranges.start.shape
    start, stop = (a.reshape(-1, T, r) for a in (ranges.start, ranges.stop))
    shape = (len(start), -(-T // BLOCK), -(-ranges.S // BLOCK) + 1)
    row = np.arange(shape[0])[:, None] * shape[1] + np.arange(T) // BLOCK
    at = np.broadcast_to((row * shape[2])[..., None], start.shape)

    def rows(first: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows of each block see the blocks of keys from first to last."""
        there = (start < stop) & (first < last)
        begin, cease = (np.bincount((at + x)[there], minlength=prod(shape)) for x in (first, last))
        counts = np.cumsum((begin - cease).reshape(shape), axis=-1)[..., :-1]
        return counts.reshape(*lead, *counts.shape[1:])

    whole = rows(-(-start // BLOCK), stop // BLOCK) == BLOCK
    return (rows(start // BLOCK, -(-stop // BLOCK)) > 0) & ~whole, whole


def block_mask(call: Call, training: bool = False) -> Any:
    """The call's mask as torch takes it: the blocks, and the rule of one query and key."""
    from torch.nn.attention.flex_attention import BlockMask, noop_mask

    T, S, bounds = call.sizes.T, call.sizes.S, call.bounds
    if bounds is None:
        bounds = Ranges.of(np.zeros(T, np.int64), np.full(T, S, np.int64), S)
    part, whole = blocks(bounds)
    if call.mask is not None and call.ranges is None:
        part, whole = part | whole, np.zeros_like(whole)
    tables = []
    for hit in (part, whole):
        counts, order = hit.sum(-1), np.argsort(~hit, axis=-1, kind="stable")
        tables += [_by_entry(a.astype(np.int32), n, call) for a, n in ((counts, 1), (order, 2))]
    made: Any = BlockMask.from_kv_blocks
    return made(
        *(table[:, None] for table in tables),
        BLOCK_SIZE=BLOCK,
        mask_mod=noop_mask if call.mask is None else mask_mod(call.mask, call.ranges, call),
        seq_lengths=(T, S),
        compute_q_blocks=training,
    )


def mask_mod(mask: Mask, ranges: Ranges | None, call: Call) -> Mod:
    """Whether one query may attend to one key, from the ranges where the mask has that form."""
    if ranges is None and not {"Keep", "Where"} & set(flatten(mask).text.split()):
        ranges = mask.ranges(call.frame)
    if ranges is not None:
        ends = ((ranges.start[..., n], ranges.stop[..., n]) for n in range(ranges.start.shape[-1]))
        each = [[_reader(a.astype(np.int32), 1, call) for a in pair] for pair in ends]
        return lambda b, h, i, j: reduce(
            operator.or_, [(j >= first(b, i)) & (j < last(b, i)) for first, last in each]
        )
    if isinstance(mask, Not):
        inner = mask_mod(mask.rule, None, call)
        return lambda *at: ~inner(*at)
    if isinstance(mask, And | Or):
        left, right = (mask_mod(part, None, call) for part in (mask.left, mask.right))
        join = operator.and_ if isinstance(mask, And) else operator.or_
        return lambda *at: join(left(*at), right(*at))
    if isinstance(mask, Keep):
        return _reader(mask.array, 3, call)
    assert isinstance(mask, Where), f"{type(mask).__name__} has neither ranges nor a strip"
    mask.strip(call.frame.cut(slice(0, 1), slice(0, 1)))  # says what is wrong with the function
    fn, start = mask.fn, _reader(np.array(call.frame.start), 0, call)
    # The function may return a bool of Python, which is not a tensor.
    return lambda b, h, i, j: (j >= 0) & fn(i + start(b), j.long())


def score_mod(call: Call) -> Mod | None:
    """What becomes of a score: it is softcapped, then the bias is added; None if neither is."""
    import torch

    if call.softcap is None and call.bias is None:
        return None
    capped = call.softcap is not None
    cap = torch.full((), call.softcap or 1.0, dtype=torch.float32, device=call.q.device)
    bias = None if call.bias is None else _bias_mod(call.bias, call)

    def mod(score: Array, *at: Array) -> Array:
        score = cap * torch.tanh(score / cap) if capped else score
        return score if bias is None else score + bias(*at).float()

    return mod


def _bias_mod(bias: Score, call: Call) -> Mod:
    if isinstance(bias, Sum):
        left, right = _bias_mod(bias.left, call), _bias_mod(bias.right, call)
        return lambda *at: left(*at).float() + right(*at).float()
    if isinstance(bias, Dense):
        return _reader(bias.array, 3, call)
    start = _reader(np.array(call.frame.start), 0, call)
    if isinstance(bias, Alibi):
        slopes = _reader(bias.slopes, 1, call)
        return lambda b, h, i, j: (i + start(b) - j).abs() * -slopes(b, h).float()
    if isinstance(bias, T5):
        bias = Relative(bias.table(call.frame, bias.weight))
    assert isinstance(bias, Relative), f"{type(bias).__name__} has no score of one query and key"
    table, n = _reader(bias.table, 2, call), bias.table.shape[-1]
    return lambda b, h, i, j: table(b, h, (j - i - start(b) + n // 2).clamp(0, n - 1))


def _reader(array: Array, own: int, call: Call) -> Mod:
    """What gives the entry of ``array`` at (batch entry, …); an axis of size 1 is for all."""
    array = _by_entry(array, own, call).detach()
    wide = [n > 1 for n in array.shape]
    return lambda *index: array[tuple(x if w else 0 for x, w in zip(index, wide, strict=True))]


def _by_entry(array: Array, own: int, call: Call) -> Array:
    """``array`` with one axis of batch entries before its ``own``: 1 where they share it."""
    if isinstance(array, np.ndarray):
        array = call.frame.move(array)
    shape = (*[1] * (own - array.ndim), *array.shape)
    before, after = shape[: len(shape) - own], shape[len(shape) - own :]
    if any(n != 1 for n in before):
        array = array.expand(*call.sizes.lead, *after)
    return array.reshape(-1, *after)


def _key(call: Call) -> tuple[Any, ...] | None:
    """All that torch compiles anew for; None where that is not known beforehand."""
    import torch

    rules = (call.mask if call.ranges is None else None, call.bias)
    parts = [flatten(rule) for rule in rules if rule is not None]
    if any(part.functions for part in parts):
        return None  # a function may hold anything
    tensors = [call.q, call.k, call.v, *(a for part in parts for a in part.arrays)]
    trains = _wants_derivative(call)
    return (
        *((a.shape, a.stride(), a.dtype, trains and a.requires_grad) for a in tensors),
        *((part.text, *map(np.shape, part.positions)) for part in parts),
        None if call.ranges is None else call.ranges.start.shape,
        (call.q.device, np.ndim(call.frame.start), call.scale, call.softcap is None, trains),
        (torch.get_num_threads(), torch.get_default_dtype(), torch.is_inference_mode_enabled()),
        torch.are_deterministic_algorithms_enabled(),
    )


def _wants_derivative(call: Call) -> bool:
    """Whether torch may ask for a derivative, and not only for one more axis (``vmap``)."""
    import torch

    if not call.differentiated:
        return False
    functorch: Any = torch._C._functorch

    def inner(a: Array) -> Array:
        return inner(functorch.get_unwrapped(a)) if functorch.is_batchedtensor(a) else a

    arrays, around = [inner(a) for a in call.floats], functorch.get_interpreter_stack() or []
    return (
        any(one.key() != functorch.TransformType.Vmap for one in around)
        or (torch.is_grad_enabled() and any(a.requires_grad for a in arrays))
        or any(has_tangent(a) for a in arrays)
    )
