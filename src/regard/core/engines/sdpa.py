"""The engine ``sdpa``: torch's own scaled_dot_product_attention, where it keeps the contract.

It keeps no weights and takes a mask other than plain causal only as a dense bool array.  NaN and
infinity in hidden keys reach its output, and so do products that overflow: the contract holds where
inputs and q · k are finite.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from regard._shapes import Array
from regard.core.call import Call
from regard.core.reducers import Reducer
from regard.rules.rule import flatten

name = "sdpa"
why = "torch's own attention; where all is finite, q · k too, it keeps the contract"

differentiable = True
"""torch differentiates its output once; tiles gives the other derivatives."""
DENSE = 1 << 25
"""Entries of a dense mask above which ``auto`` prefers linear memory: 5 bytes each, and more where
a bias is summed or wants a gradient."""
SPARSE = 0.25
"""The share of the matrix below which ``auto`` prefers an engine that skips what is hidden."""


def refuses(call: Call, want: str) -> str | None:
    """Why it cannot do the call; None if it can."""
    if not call.is_torch:
        return "it takes torch tensors only"
    if want == "weights":
        return "it keeps no weights"
    for reason, there in (
        ("it has no softcap", call.softcap is not None),
        ("it has no sink", call.sink is not None),
        ("its dropout draws cannot be repeated by other engines", call.dropout > 0),
        ("it would round the bias to the dtype of q", _rounds(call)),
    ):
        if there:
            return reason
    assert call.v is not None, "only weights come without values"
    if 0 in (prod(call.sizes.lead), call.sizes.H, call.sizes.T, call.sizes.S, call.v.shape[-1]):
        return "it does not define attention over nothing"
    return _refuses_lse(call) if want == "lse" else None


def _rounds(call: Call) -> bool:
    """Whether a bias in the dtype of q would be another: one of another dtype, or a sum."""
    if call.bias is None:
        return False
    width, flat = call.q.dtype.itemsize, flatten(call.bias)
    computed = not {"Alibi", "Sum"}.isdisjoint(flat.text.split())
    others = [a.dtype.itemsize for a in flat.arrays if a.dtype != call.q.dtype]
    return (width < 4 and computed) or any(size >= width for size in others)


def dislikes(call: Call) -> str | None:
    """Why ``auto`` should rather take another engine, though this one could do the call."""
    if is_plain(call):
        return None
    sizes, entries = call.sizes, prod(call.sizes.lead) * call.sizes.T * call.sizes.S
    if call.mask is not None:
        first, last = call.hull
        needed = int((last - first).clip(0).sum()) / (sizes.T * sizes.S)
        if needed < SPARSE:
            return f"it would compute every weight, and the mask needs {needed:.0%} of them"
    by_head = call.bias is not None or call.ranges is None
    if (entries := entries * (sizes.H if by_head else 1)) > DENSE:
        return f"its dense mask would take {5 * entries / 2**20:,.0f} MiB or more"
    return None


def compute(call: Call, reducers: Sequence[Reducer]) -> list[Array]:
    """The output, or output and lse."""
    return [_output(call)] if len(reducers) == 1 else list(_with_lse(call))


def _output(call: Call) -> Array:
    """The output, by the public function."""
    import torch

    q, k, v, width = _arrays(call)
    mask = None if is_plain(call) else _dense_mask(call)
    if call.sizes.T == 1 and call.sizes.group > 1 and (mask is None or mask.shape[1] == 1):
        # One query: its heads can stand as the rows of their key head, and no key is repeated.
        q = q.reshape(*k.shape[:2], call.sizes.group, q.shape[-1])
    output = torch.nn.functional.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=mask,
        scale=call.scale,
        is_causal=mask is None and _square(call),
        enable_gqa=q.shape[1] != k.shape[1],
    )
    return output[..., :width].reshape(*call.q.shape[:-1], width)


def _with_lse(call: Call) -> tuple[Array, Array]:
    """The output and lse, by the private kernel behind SDPA on a CPU, which returns both."""
    import torch

    q, k, v, width = _arrays(call)
    mask = None if is_plain(call) else _dense_mask(call)
    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(q.dtype)
    # Unlike the public function, the kernel takes it on trust that the last axis is contiguous.
    q, k, v = (a if a.stride(-1) == 1 else a.contiguous() for a in (q, k, v))
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, attn_mask=mask, scale=call.scale, is_causal=mask is None and _square(call)
    )
    if mask is not None:  # the kernel says 0 for a row that may attend to nothing
        lse = torch.where(torch.isneginf(mask).all(-1), float("-inf"), lse)
    shape = call.q.shape[:-1]
    return output[..., :width].reshape(*shape, width), lse.reshape(shape)


def _arrays(call: Call) -> tuple[Array, Array, Array, int]:
    """q, k, v with the axes (B, heads, length, width), and the width of the values.

    Where widths differ, zeros fill the narrower up: torch has a fused kernel for one width only,
    and holds all weights at once without it.
    """
    import torch

    assert call.v is not None, "only weights come without values"
    q, k, v = (a.reshape(-1, *a.shape[-3:]) for a in (call.q, call.k, call.v))
    D, E = q.shape[-1], v.shape[-1]
    if D < E:
        q, k = (torch.nn.functional.pad(a, (0, E - D)) for a in (q, k))
    elif E < D:
        v = torch.nn.functional.pad(v, (0, D - E))
    return q, k, v, E


def is_plain(call: Call) -> bool:
    """No mask is needed, or the kernel's own causal flag says the same."""
    if call.bias is not None:
        return False
    if call.mask is None or _square(call):
        return True
    return call.ranges is not None and call.ranges.cover(call.frame.keys)


def _square(call: Call) -> bool:
    """Causal with query i at key i, whatever expression says so."""
    T, S, start = call.sizes.T, call.sizes.S, call.frame.start
    if call.ranges is None or T != S or not isinstance(start, int) or start != 0 or T == 1:
        return False
    first, last = call.ranges.start, call.ranges.stop
    at = call.frame.query_positions()
    return first.shape[-1] == 1 and bool(
        (first[..., 0] == 0).all() and (last[..., 0] == at + 1).all()
    )


def _dense_mask(call: Call) -> Array:
    """A bool mask, or a bias with −∞ where hidden: (B or 1, H or 1, T, S)."""
    import torch

    seen = call.seen(call.frame)
    if call.bias is None:
        assert seen is not None
        mask = seen
    else:
        mask = call.bias.over(call.frame, call.q.dtype)
        if seen is not None:
            mask = torch.where(seen, mask, float("-inf"))
    lead = len(call.sizes.lead)
    mask = mask.reshape((1,) * (lead + 3 - mask.ndim) + tuple(mask.shape))
    if lead > 1 and any(n != 1 for n in mask.shape[:lead]):
        mask = mask.expand(*call.sizes.lead, *mask.shape[lead:])
    return mask.reshape(-1, *mask.shape[-3:]).expand(-1, -1, call.sizes.T, call.sizes.S)


def _refuses_lse(call: Call) -> str | None:
    import torch

    if not hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"):
        return "this torch has no kernel that returns lse"
    if call.q.device.type != "cpu":
        return "it returns lse on the CPU only"
    if call.sizes.group != 1:
        return "it returns lse only where each query head has a key head of its own"
    return None
