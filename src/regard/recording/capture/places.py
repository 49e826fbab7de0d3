"""What a captured layer is about: its kind, and which of the model's inputs its tokens are."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

CROSS = re.compile(
    r"cross|enc_?dec|encoder_attn|encoder_attention|multihead_attn|attn2$", re.IGNORECASE
)
"""How models name the attention of a decoder to an encoder."""
STACK = re.compile(r"(?:^|[._])(encoder|decoder)s?(?:[._]|$)")
ATTENTION = re.compile(r"attention|attn", re.IGNORECASE)
SIDES = {
    "pixel_values": re.compile(r"vision|visual|image"),
    "input_features": re.compile(r"audio|speech"),
}
"""Towers that read another input than the text."""
TARGETS = ("decoder_input_ids", "tgt", "target")


def kind_of(name: str, module: Any, cross: bool | None) -> str:
    """``cross``, ``decoder``, ``encoder``, or ``self`` where neither stack is known.

    ``cross`` is what the call itself says, where it says something.
    """
    leaf = name.rpartition(".")[2]
    said = getattr(module, "is_cross_attention", None)
    if said or (
        said is None and CROSS.search(".".join(name.split(".")[-2:])) and cross is not False
    ):
        return "cross"
    if cross:
        return "cross"
    causal = getattr(module, "is_causal", None)
    if causal is True:
        return "decoder"
    stacks = STACK.findall(name[: len(name) - len(leaf)])
    if stacks:
        return str(stacks[-1])
    return "encoder" if causal is False else "self"


class Inputs:
    """The arguments that a model is called with, by name."""

    def __init__(self, module: Any) -> None:
        self._signature = inspect.signature(module.forward)
        said = getattr(module, "main_input_name", None)
        names = [
            name
            for name, one in self._signature.parameters.items()
            if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
        ]
        self.main = said if isinstance(said, str) else (names[0] if names else "input")
        targets = [name for name in TARGETS if name in names]
        self.target = targets[0] if targets else self.main

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name."""
        try:
            return self._signature.bind_partial(*args, **kwargs).arguments
        except TypeError:  # the model will say what is wrong with them
            return {}

    def about(self, name: str, kind: str, given: Iterable[str]) -> tuple[str, str]:
        """The names of the inputs whose places a layer's queries and keys are."""
        there = set(given)
        for side, tower in SIDES.items():
            if side in there and kind != "cross" and tower.search(name):
                return side, side
        if kind == "cross":
            return self.target, self.main
        if kind == "decoder":
            return self.target, self.target
        return self.main, self.main


def numbers(given: dict[str, Any]) -> dict[str, NDArray[np.int64]]:
    """The arguments that are token numbers, (B, T)."""
    return {
        # A copy, for the caller may fill the array anew.
        name: np.asarray(value.cpu(), np.int64).copy()
        for name, value in given.items()
        if (name.endswith("ids") and not name.endswith(("position_ids", "type_ids")))
        or name in ("src", "tgt", "x", "input", "inputs", "tokens", "idx")
        if is_numbers(value)
    }


def is_numbers(value: Any) -> bool:
    """Whether ``value`` is a tensor (B, T) of whole numbers, with data."""
    return bool(
        hasattr(value, "detach")
        and value.ndim == 2
        and not (value.is_floating_point() or value.is_complex() or value.is_meta)
        and "bool" not in str(value.dtype)
    )
