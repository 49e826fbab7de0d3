"""What a call of torch's attention functions says: queries, keys, and who may attend to whom.

Each ``read`` takes the arguments of one function as they were given and returns :class:`Found`.
Nothing here computes attention; where a kernel projects its inputs itself, q and k are projected
beside it, and the kernel's output stays its own.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from regard.recording.capture.dense_masks import Biases
from regard.recording.capture.dense_masks import Masks as Dense
from regard.rules import Mask, causal, lengths

SDPA = ["query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa"]
NATIVE = [
    "query",
    "key",
    "value",
    "embed_dim",
    "num_head",
    "qkv_weight",
    "qkv_bias",
    "proj_weight",
    "proj_bias",
    "mask",
    "need_weights",
    "average_attn_weights",
    "mask_type",
]
ENCODER_LAYER = [
    "src",
    "embed_dim",
    "num_heads",
    "qkv_weight",
    "qkv_bias",
    "proj_weight",
    "proj_bias",
    "use_gelu",
    "norm_first",
    "eps",
    "norm_weight_1",
    "norm_bias_1",
    "norm_weight_2",
    "norm_bias_2",
    "ffn_weight_1",
    "ffn_bias_1",
    "ffn_weight_2",
    "ffn_bias_2",
    "mask",
    "mask_type",
]
"""The arguments of torch's functions, in their order: those in C++ tell no signature."""


@dataclass(frozen=True)
class Found:
    """One call: q (B, H, T, D), k (B, G, S, D) and what ``weights`` takes besides."""

    q: Any
    k: Any
    mask: Mask | None = None
    start: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    cross: bool | None = None
    """Whether the keys come from elsewhere than the queries, where the call says it."""


class Unreadable(Exception):
    """A call that cannot be written as queries, keys and a rule; it says why."""


class Masks:
    """Reads the masks and biases of one run; what several layers are given is read once."""

    def __init__(self) -> None:
        self._dense, self._biases = Dense(), Biases()

    def read(self, given: Any, q: Any, k: Any, hides: bool = False) -> tuple[Mask | None, Any]:
        """The rule and the bias of a dense mask; a boolean one says with True who is hidden."""
        return self._dense.read(given, q, k, hides)

    def function(self, fn: Any, given: Any, q: Any, k: Any, heads: int) -> Mask | None:
        """The rule of a mask function (b, h, i, j) → bool."""
        return self._dense.read_function(fn, given, q, k, heads)

    def bias(self, given: Any, start: Any, k: Any) -> Any:
        """The bias as a rule, where queries begin at ``start``."""
        return self._biases.read(given[..., : k.shape[-2]], start)


def sdpa(masks: Masks, module: Any, *args: Any, **kwargs: Any) -> Found:
    """``F.scaled_dot_product_attention``."""
    given = dict(zip(SDPA, args, strict=False)) | kwargs
    q, k = four(module, given["query"], given["key"])
    dense = given.get("attn_mask")
    start, options = None, _scale(given.get("scale"))
    if given.get("is_causal"):
        return Found(q, k, causal(), 0, options)
    if dense is not None and dense.ndim > 2:
        lead = given["query"].shape[:-2]
        missing = given["query"].ndim - dense.ndim
        dense = dense[(None,) * missing] if missing > 0 else dense
        if len(lead) != 2:
            dense = dense.expand(*lead, *dense.shape[-2:]).reshape(*q.shape[:2], *dense.shape[-2:])
    mask, bias = masks.read(dense, q, k)
    return Found(q, k, mask, start, options | ({} if bias is None else {"bias": bias}))


def _scale(scale: Any) -> dict[str, Any]:
    return {} if scale is None else {"scale": float(scale)}


def four(module: Any, query: Any, key: Any) -> tuple[Any, Any]:
    """Q and k as (B, H, T, D) and (B, G, S, D), whatever stands before their last two axes."""
    q, k = query.detach(), key.detach()
    if q.is_nested or k.is_nested:
        raise Unreadable("its queries and keys are nested tensors, of a length for each sample")
    if q.ndim == 2:
        return q[None, None], k[None, None]
    if q.ndim == 3:
        heads = _heads(module)
        if q.shape[0] % heads or k.shape[0] % heads:
            heads = 1
        return tuple(a.reshape(-1, heads, *a.shape[-2:]) for a in (q, k))
    if q.ndim > 4:
        q, k = q.flatten(0, -4), k.flatten(0, -4)
    if k.shape[0] != q.shape[0]:
        batch = max(q.shape[0], k.shape[0])
        q, k = q.expand(batch, -1, -1, -1), k.expand(batch, -1, -1, -1)
    return q, k


def _heads(module: Any) -> int:
    """How many heads were folded into the batch, where the module says how many it has."""
    for name in ("num_heads", "n_heads", "heads", "num_attention_heads", "n_head"):
        if isinstance(found := getattr(module, name, None), int) and found > 0:
            return found
    return 1


@cache
def _signature() -> inspect.Signature:
    import torch.nn.functional as F

    return inspect.signature(inspect.unwrap(F.multi_head_attention_forward))


def by_name(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments of ``F.multi_head_attention_forward``, those that were not given too."""
    bound = _signature().bind(*args, **kwargs)
    bound.apply_defaults()
    return bound.arguments


def multi_head(masks: Masks, module: Any, *args: Any, **kwargs: Any) -> Found:
    """``F.multi_head_attention_forward``, which projects, splits and masks by itself."""
    import torch

    linear: Any = torch.nn.functional.linear
    given = by_name(args, kwargs)
    query, key = given["query"].detach(), given["key"].detach()
    same = given["query"] is given["key"]
    pad = given["key_padding_mask"]
    if query.ndim == 2:
        query, key = query[:, None], key[:, None]
        pad = None if pad is None else pad[None]
    E, H, B = query.shape[-1], given["num_heads"], query.shape[1]
    biases = given["in_proj_bias"]
    b_q, b_k = (None, None) if biases is None else (biases[:E], biases[E : 2 * E])
    if given["use_separate_proj_weight"]:
        w_q, w_k = given["q_proj_weight"], given["k_proj_weight"]
    else:
        w_q, w_k = given["in_proj_weight"][:E], given["in_proj_weight"][E : 2 * E]
    with torch.no_grad():
        q = linear(query, w_q, b_q).unflatten(-1, (H, -1)).permute(1, 2, 0, 3)
        k = linear(key, w_k, b_k)
        added = 0
        if given["bias_k"] is not None:
            k = torch.cat([k, given["bias_k"].expand(1, B, -1)])
            added = 1
        k = k.unflatten(-1, (H, -1)).permute(1, 2, 0, 3)
        if given["static_k"] is not None:
            k = given["static_k"].detach().unflatten(0, (B, H))
        if given["add_zero_attn"]:
            k, added = torch.nn.functional.pad(k, (0, 0, 0, 1)), added + 1
    mask, bias = _both(masks, q, k, given["attn_mask"], pad, added)
    return Found(q, k, mask, None, {} if bias is None else {"bias": bias}, not same)


def _both(
    masks: Masks, q: Any, k: Any, dense: Any, pad: Any, added: int = 0
) -> tuple[Mask | None, Any]:
    """The rule and the bias of torch's two masks, where True hides.

    Keys that were ``added`` behind the given ones may be seen by all.
    """
    import torch

    rules: list[Mask] = []
    total = None
    for given in (dense, None if pad is None else pad[:, None, None, :]):
        if given is None:
            continue
        four = given
        if given.ndim == 3:  # samples and heads in one
            four = given.unflatten(0, (q.shape[0], -1))
        if added:
            four = torch.nn.functional.pad(four, (0, added))
        rule, bias = masks.read(four, q, k, hides=True)
        if rule is not None:
            rules.append(rule)
        if bias is not None:
            total = bias if total is None else total + bias
    if not rules:
        return None, total
    return (rules[0] if len(rules) == 1 else rules[0] & rules[1]), total


def native(masks: Masks, module: Any, *args: Any, **kwargs: Any) -> Found:
    """``torch._native_multi_head_attention``, the fast path of ``nn.MultiheadAttention``."""
    given = dict(zip(NATIVE, args, strict=False)) | kwargs
    weight, bias = given["qkv_weight"], given["qkv_bias"]
    found = _projected(given["query"], given["key"], weight, bias, given["num_head"])
    return _fast(masks, *found, given.get("mask"), given.get("mask_type"))


def encoder_layer(masks: Masks, module: Any, *args: Any, **kwargs: Any) -> Found:
    """``torch._transformer_encoder_layer_fwd``, the fast path of ``nn.TransformerEncoderLayer``."""
    import torch

    given = dict(zip(ENCODER_LAYER, args, strict=False)) | kwargs
    x = given["src"].detach()
    if given["norm_first"]:
        scale, shift = given["norm_weight_1"], given["norm_bias_1"]
        with torch.no_grad():
            x = torch.nn.functional.layer_norm(x, x.shape[-1:], scale, shift, given["eps"])
    found = _projected(x, x, given["qkv_weight"], given["qkv_bias"], given["num_heads"])
    return _fast(masks, *found, given.get("mask"), given.get("mask_type"))


def _projected(query: Any, key: Any, weight: Any, bias: Any, H: int) -> tuple[Any, Any, Any]:
    """q, k, and how long each sample is where they came as nested tensors."""
    import torch

    linear: Any = torch.nn.functional.linear
    long = None
    query, key = query.detach(), key.detach()
    if query.is_nested:
        long = torch.tensor([one.shape[0] for one in query.unbind()])
        query = torch.nested.to_padded_tensor(query, 0.0)
        key = torch.nested.to_padded_tensor(key, 0.0)
    E = query.shape[-1]
    with torch.no_grad():
        q = linear(query, weight[:E], bias[:E]).unflatten(-1, (H, -1)).transpose(1, 2)
        k = linear(key, weight[E : 2 * E], bias[E : 2 * E]).unflatten(-1, (H, -1)).transpose(1, 2)
    return q, k, long


def _fast(masks: Masks, q: Any, k: Any, long: Any, dense: Any, kind: Any) -> Found:
    """``dense`` by its kind: 0 for all samples, 1 padding, 2 both."""
    if long is not None:
        return Found(q, k, lengths(long), None, {}, False)
    padding = dense is not None and kind == 1
    mask, bias = _both(masks, q, k, None if padding else dense, dense if padding else None)
    return Found(q, k, mask, None, {} if bias is None else {"bias": bias}, False)


def flex(
    masks: Masks,
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: float | None = None,
    *rest: Any,
    **kwargs: Any,
) -> Found:
    """``torch.nn.attention.flex_attention.flex_attention``."""
    q, k = query.detach(), key.detach()
    mask = None if block_mask is None else flexible(masks, block_mask, q, k)
    bias = None if score_mod is None else _added(masks, score_mod, q, k)
    return Found(q, k, mask, None, _scale(scale) | ({} if bias is None else {"bias": bias}))


def flexible(masks: Masks, block_mask: Any, q: Any, k: Any) -> Mask | None:
    """The rule of a ``BlockMask``."""
    batch, heads = block_mask.kv_num_blocks.shape[:2]
    return masks.function(block_mask.mask_mod, (batch, block_mask), q, k, heads)


def _added(masks: Masks, score_mod: Any, q: Any, k: Any) -> Any:
    """What a ``score_mod`` adds, where adding is all that it does."""
    import torch

    from regard.recording.interface import evaluate

    B, H, T = q.shape[:3]
    at = [(0, B), (0, H), (0, T), (0, k.shape[-2])]
    zero, one, three = (
        evaluate(
            lambda b, h, i, j, x=x: score_mod(torch.full((), x, device=q.device), b, h, i, j),
            at,
            q.device,
        )
        for x in (0.0, 1.0, 3.0)
    )
    plain = torch.isinf(zero)
    if not bool((plain | ((one - zero - 1).abs() + (three - zero - 3).abs() < 1e-4)).all()):
        raise Unreadable(
            "its score_mod does more to a score than to add to it, and how cannot be seen from "
            "outside"
        )
    alike = zero[:1] if bool((zero == zero[:1]).all()) else zero
    return alike if bool(plain.any()) else masks.bias(alike, None, k)


def ours(masks: Masks, module: Any, q: Any, k: Any, mask: Any, **options: Any) -> Found:
    """``regard.attend``."""
    known = ("bias", "scale", "softcap", "sink")
    kept = {name: options[name] for name in known if options[name] is not None}
    q4, k4 = four(module, q, k) if q.ndim < 4 else (q.detach(), k.detach())
    if q.ndim == 3:  # (H, T, D): the axis before is the heads, not the batch
        q4, k4 = q.detach()[None], k.detach()[None]
    return Found(q4, k4, mask, options["start"], kept)


def seen_mask(
    masks: Masks, module: Any, q: Any, k: Any, given: Any, kwargs: dict[str, Any]
) -> tuple[Any, Any, Any]:
    """The rule, bias and start that ``attn_implementation="regard"`` is given."""
    from regard.recording.interface import Seen

    if isinstance(given, Seen):
        if not hasattr(given, "rule"):
            raise Unreadable("the model changes its attention mask on the way")
        return given.rule, None, given.start
    if given is None:
        flag = kwargs.get("is_causal")
        alone = getattr(module, "is_causal", True) if flag is None else flag
        return (causal() if alone and q.shape[2] > 1 else None), None, None
    return (*masks.read(given, q, k), None)
