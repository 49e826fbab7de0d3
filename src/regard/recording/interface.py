"""``attn_implementation="regard"``: the models of transformers, with our attention and our masks.

transformers asks for a mask once a forward pass and hands it to every layer.  What we give it is a
mask value, so no T × S array is made; what we cannot read as one becomes a boolean array.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from regard._errors import EngineError
from regard.core.attention import attend
from regard.rules.make import causal, keep, lengths, window
from regard.rules.masks import FARTHEST, Mask


class Seen(Tensor):
    """Who may attend to whom in one forward pass of a model: a rule in the shape of a mask.

    A model that is given its mask takes tensors of four axes only.  So it is one, (B, 1, T, S),
    whose numbers mean nothing and take no memory.
    """

    rule: Mask | None
    start: int
    """The position of the first query among the keys."""

    @staticmethod
    def of(rule: Mask | None, start: int, shape: tuple[int, ...]) -> Seen:
        """The rule, in that shape."""
        seen = torch.zeros((), dtype=torch.bool).expand(shape).as_subclass(Seen)
        seen.rule, seen.start = rule, start
        return seen

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A copy says the same; what else is made of it says nothing."""
        made = super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]
        copies = (Tensor.clone, Tensor.contiguous, Tensor.detach, Tensor.to)
        if func in copies and isinstance(made, Seen) and hasattr(args[0], "rule"):
            made.rule, made.start = args[0].rule, args[0].start
        return made


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Any,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    position_bias: Tensor | None = None,
    **unused: Any,
) -> tuple[Tensor, None]:
    """The attention of one layer: q (B, H, T, D), k and v (B, G, S, D) → (B, T, H, D).

    ``unused`` is what else transformers tells every implementation, such as ``sliding_window``,
    which the mask says already.
    """
    rule, start, bias = None, None, position_bias
    if isinstance(attention_mask, Seen):
        if not hasattr(attention_mask, "rule"):
            raise EngineError(
                "this model changes its attention mask on the way, so attn_implementation='regard' "
                "cannot know what it says; use 'sdpa' or 'eager' for it"
            )
        rule, start = attention_mask.rule, attention_mask.start
    elif attention_mask is None:
        alone = getattr(module, "is_causal", True) if is_causal is None else is_causal
        rule = causal() if alone and query.shape[2] > 1 else None
    else:  # an array that the model or its user made
        attention_mask = attention_mask[..., : key.shape[2]]
        if attention_mask.dtype == torch.bool:
            rule = keep(attention_mask)
        else:
            bias = attention_mask if bias is None else bias + attention_mask
    output: Tensor = attend(
        query,
        key,
        value,
        rule,
        scale=scaling,
        dropout=dropout,
        softcap=softcap,
        sink=s_aux,
        bias=bias,
        start=start,
    )
    return output.transpose(1, 2).contiguous(), None


def mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: Any = 0,
    mask_function: Callable[..., Any] | None = None,
    attention_mask: Tensor | None = None,
    **unused: Any,
) -> Seen:
    """What transformers asks of a mask implementation, as a mask value."""
    first, key = int(q_offset), int(kv_offset)
    known, rule = _rule_of(mask_function)
    if not known and mask_function is not None:
        at = [(0, batch_size), (0, 1), (first, q_length), (key, kv_length)]
        rule = keep(evaluate(mask_function, at, unused.get("device", "cpu")))
    if attention_mask is not None:
        there = attention_mask[:, key : key + kv_length].bool()
        if missing := kv_length - there.shape[1]:  # the empty slots of a static cache
            there = nn.functional.pad(there, (0, missing))
        padding = _padding(there)
        if padding is not None:
            rule = padding if rule is None else rule & padding
    return Seen.of(rule, first - key, (batch_size, 1, q_length, kv_length))


def _padding(there: Tensor) -> Mask | None:
    """(B, S) which keys are there, as lengths where each row is one run; None if all are."""
    if bool(there.all()):
        return None
    S = there.shape[1]
    at = torch.arange(S, device=there.device)
    stop = torch.where(there, at + 1, 0).amax(1)
    start = torch.where(there, at, S).amin(1).minimum(stop)
    if bool((there.sum(1) == stop - start).all()):
        return lengths(stop, start)
    return keep(there[:, None, None])


def _rule_of(fn: Callable[..., Any] | None) -> tuple[bool, Mask | None]:
    """Whether a mask function of transformers is known, and the rule that it is."""
    from transformers import masking_utils as theirs

    if fn is None or fn is theirs.causal_mask_function:
        return True, causal()
    if fn is theirs.bidirectional_mask_function:
        return True, None
    held = inspect.getclosurevars(fn).nonlocals
    kind = getattr(fn, "__qualname__", "").partition(".")[0]
    if kind == "sliding_window_overlay" and isinstance(held.get("sliding_window"), int):
        return True, window(before=held["sliding_window"] - 1, after=FARTHEST)
    if kind == "and_masks" and "mask_functions" in held:
        rule: Mask | None = None
        for part in held["mask_functions"]:
            known, one = _rule_of(part)
            if not known:
                return False, None
            if one is not None:
                rule = one if rule is None else rule & one
        return True, rule
    return False, None


def evaluate(fn: Callable[..., Any], at: Sequence[tuple[int, int]], device: Any) -> Tensor:
    """(B, H, T, S) what ``fn``, given as numbers of one entry each, says of every entry.

    ``at`` is the first and the number of each of the four.
    """
    from torch.func import vmap

    for axes in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None)):
        fn = vmap(fn, in_dims=axes, out_dims=0)
    each = vmap(fn, in_dims=(0, None, None, None), out_dims=0)
    seen: Tensor = each(*(torch.arange(first, first + n, device=device) for first, n in at))
    return seen
