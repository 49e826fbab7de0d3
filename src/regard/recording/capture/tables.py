"""transformers' attention: its models look the function up in a table at every call.

The table hands out the same functions, told to the watches.  Each implementation reads its mask in
its own way, and here it is read likewise.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import Any

from regard.recording.capture.calls import Found, Masks, Unreadable, flexible, seen_mask
from regard.recording.capture.taps import HERE, TAPS, Taps
from regard.rules import causal

UNDERSTOOD = ("sdpa", "eager", "flex_attention", "regard")
"""Implementations whose treatment of the mask is known here."""


def tap_tables(taps: Taps) -> None:
    """Taps the table of all models, where transformers is loaded."""
    utils = sys.modules.get("transformers.modeling_utils")
    if utils is None:
        return
    table = utils.AttentionInterface
    if "get_interface" in vars(table) and hasattr(table.get_interface, "__wrapped__"):
        return  # by another watch
    look_up, get = table.get_interface, table.__getitem__

    def get_interface(self: Any, name: str, default: Any) -> Any:
        return _told(name, look_up(self, name, default))

    def get_item(self: Any, name: str) -> Any:
        return _told(name, get(self, name))

    get_interface.__wrapped__ = look_up  # type: ignore[attr-defined]
    taps.change(table, "get_interface", get_interface)
    taps.change(table, "__getitem__", get_item)


def _told(name: str, function: Any) -> Any:
    """``function`` as it is, told to the watches."""
    import torch

    if not callable(function) or torch.compiler.is_compiling():
        return function

    def attention(module: Any, *args: Any, **kwargs: Any) -> Any:
        if HERE.busy:
            return function(module, *args, **kwargs)

        read = partial(read_by_name, name)
        return TAPS.told(
            lambda *args, **kwargs: function(module, *args, **kwargs), read, module, args, kwargs
        )

    return attention


def read_by_name(
    name: str,
    masks: Masks,
    module: Any,
    query: Any,
    key: Any,
    value: Any,
    attention_mask: Any,
    *args: Any,
    **kwargs: Any,
) -> Found:
    """One call as the implementation ``name`` understands it."""
    if name not in UNDERSTOOD:
        raise Unreadable(unknown(name))
    q, k = query.detach(), key.detach()
    start: int | None = None
    if name == "regard":
        mask, bias, start = seen_mask(masks, module, q, k, attention_mask, kwargs)
    elif name == "flex_attention" and hasattr(attention_mask, "mask_mod"):
        mask, bias = flexible(masks, attention_mask, q, k), None
    else:
        mask, bias = masks.read(attention_mask, q, k)
    if name == "sdpa" and attention_mask is None and q.shape[-2] > 1:
        flag = kwargs.get("is_causal")
        if getattr(module, "is_causal", True) if flag is None else flag:
            # torch's flag counts from the first key, and the keys beyond it are cut off.
            mask, start = causal(), 0
    position_bias = kwargs.get("position_bias")
    if position_bias is not None:
        score = masks.bias(position_bias, start, k)
        bias = score if bias is None or score is None else score + bias
    sink = kwargs.get("s_aux", getattr(module, "sinks", None) if name == "eager" else None)
    found = {
        "scale": kwargs.get("scaling"),
        "softcap": kwargs.get("softcap"),
        "bias": bias,
        "sink": None if sink is None else sink.detach(),
    }
    return Found(q, k, mask, start, {n: value for n, value in found.items() if value is not None})


def unknown(name: str) -> str:
    """Why an implementation of that name is not recorded, and what to do."""
    return (
        f"the model's attention must be one of {', '.join(map(repr, UNDERSTOOD))} to be watched, "
        f"but it is {name!r}; load it with attn_implementation='sdpa', or call "
        "model.set_attn_implementation('sdpa')"
    )
