"""The engine ``sdpa``: torch's own scaled_dot_product_attention, where it keeps the contract.

It keeps no weights and takes a mask other than plain causal only as a dense bool array.  NaN and
infinity in hidden keys reach its output, so the contract holds for finite inputs only.
"""

from __future__ import annotations

from math import prod
from typing import Any

from regard._shapes import Array
from regard.core.call import Call

name = "sdpa"
why = "torch's fused kernel; for finite inputs it keeps the contract"

DENSE = 1 << 26
"""Entries of a dense mask (64 MiB) above which ``auto`` prefers linear memory."""
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
    ):
        if there:
            return reason
    if 0 in (prod(call.sizes.lead), call.sizes.T, call.sizes.S):
        return "it does not define attention over nothing"
    if want == "lse":
        return _refuses_lse(call)
    return None


def dislikes(call: Call) -> str | None:
    """Why ``auto`` should rather take another engine, though this one could do the call."""
    if call.mask is None or is_plain(call):
        return None
    first, last = call.hull
    sizes = call.sizes
    needed = int((last - first).clip(0).sum()) / (sizes.T * sizes.S)
    if needed < SPARSE:
        return f"it would compute every weight, and the mask needs {needed:.0%} of them"
    heads = sizes.H if call.ranges is None else 1
    if (entries := prod(sizes.lead) * heads * sizes.T * sizes.S) > DENSE:
        return f"its dense mask would take {entries / 2**20:,.0f} MiB"
    return None


def attend(call: Call) -> tuple[Array, Array | None]:
    """The output, and lse where the kernel gives it without a derivative (else None)."""
    import torch

    q, k, v = (_four_axes(a) for a in (call.q, call.k, call.v))
    mask = None if is_plain(call) else _dense_mask(call)
    options: dict[str, Any] = {"scale": call.scale, "is_causal": mask is None and _square(call)}
    if _refuses_lse(call) is None:
        output, lse = _flash(call, q, k, v, mask, options)
        return output.reshape(*call.q.shape[:-1], v.shape[-1]), lse.reshape(call.q.shape[:-1])
    if call.sizes.T == 1 and call.sizes.group > 1 and (mask is None or mask.shape[1] == 1):
        # One query: its heads can stand as the rows of their key head, and no key is repeated.
        q = q.reshape(*k.shape[:2], call.sizes.group, q.shape[-1])
    output = torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, enable_gqa=q.shape[1] != k.shape[1], **options
    )
    return output.reshape(*call.q.shape[:-1], v.shape[-1]), None


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
        mask = call.bias if call.bias.dtype == call.q.dtype else call.bias.to(call.q.dtype)
        if seen is not None:
            mask = torch.where(seen, mask, float("-inf"))
    lead = len(call.sizes.lead)
    mask = mask.reshape((1,) * (lead + 3 - mask.ndim) + tuple(mask.shape))
    if lead > 1 and any(n != 1 for n in mask.shape[:lead]):
        mask = mask.expand(*call.sizes.lead, *mask.shape[lead:])
    return mask.reshape(-1, *mask.shape[-3:]).expand(-1, -1, call.sizes.T, call.sizes.S)


def _four_axes(a: Array) -> Array:
    return a.reshape(-1, *a.shape[-3:])


def _refuses_lse(call: Call) -> str | None:
    import torch

    if not hasattr(torch.ops.aten, "_scaled_dot_product_flash_attention_for_cpu"):
        return "this torch has no kernel that returns lse"
    if call.q.device.type != "cpu":
        return "it returns lse on the CPU only"
    if call.needs_grad:
        return "it returns lse without a derivative only"
    assert call.v is not None
    if call.v.shape[-1] != call.sizes.D or call.sizes.group != 1:
        return "it returns lse for values as wide as keys, and one key head a query head, only"
    return None


def _flash(
    call: Call, q: Array, k: Array, v: Array, mask: Array | None, options: dict[str, Any]
) -> tuple[Array, Array]:
    """The private kernel behind SDPA on a CPU, which returns lse with the output."""
    import torch

    if mask is not None and mask.dtype == torch.bool:
        mask = torch.where(mask, 0.0, float("-inf")).to(q.dtype)
    output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        q, k, v, attn_mask=mask, **options
    )
    if mask is not None:  # the kernel says 0 for a row that may attend to nothing
        lse = torch.where(torch.isneginf(mask).all(-1), float("-inf"), lse)
    return output, lse
