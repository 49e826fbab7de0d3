"""What a model's attention ought to look at, as far as the model and its inputs say so."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIDES = {
    "attention_mask": ("input_ids", "inputs_embeds"),
    "decoder_attention_mask": ("decoder_input_ids",),
}
"""Of which arguments each mask speaks."""
FREE = ("token_type_ids", "mm_token_type_ids", "pixel_values")
"""Arguments with which a causal model may rightly let a prefix or an image see all of itself."""


@dataclass(frozen=True)
class Expected:
    """What may be expected of one run."""

    padding: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    """(B, S) True for padding, by the argument that it stands in, where there is any."""
    causal: tuple[str, ...] = ()
    """The layers whose model says that no query sees a later key."""
    inverted: tuple[str, ...] = ()
    """The masks among the arguments that keep the padding and hide the text."""


def expected_of(model: Any, inputs: dict[str, Any], causal: tuple[str, ...]) -> Expected:
    """What ``model``'s modules, config and ``inputs`` by name let one expect.

    ``causal`` are the layers that call themselves so; some inputs let them see more all the same.
    A mask of zeros and ones says where the padding is.  Where none was given, runs of the pad
    token at the edges of some samples say so, unless other samples have none.
    """
    padding: dict[str, NDArray[np.bool_]] = {}
    inverted = []
    pad = getattr(getattr(model, "config", None), "pad_token_id", None)
    for mask_name, names in SIDES.items():
        mask = _two_axes(inputs.get(mask_name))
        for name in names:
            ids = _two_axes(inputs.get(name))
            edges = _edges(ids == pad) if ids is not None and isinstance(pad, int) else None
            if mask is None:
                # One token alone may well be meant, as one that begins a text.
                if edges is not None and edges.sum(1).max(initial=0) > 1 and not edges.any(1).all():
                    padding[name] = edges
                continue
            hidden = mask == 0
            if edges is not None and edges.shape == hidden.shape and _opposite(edges, hidden):
                inverted.append(mask_name)
                hidden = edges
            if hidden.any() and (ids is not None or inputs.get(name) is not None):
                padding[name] = hidden
    free = any(inputs.get(name) is not None for name in FREE)
    return Expected(padding, () if free else causal, tuple(inverted))


def causal_of(model: Any) -> tuple[str, ...]:
    """The modules that call themselves causal, by name."""
    return tuple(
        name for name, module in model.named_modules() if getattr(module, "is_causal", None) is True
    )


def _two_axes(given: Any) -> NDArray[Any] | None:
    """A tensor (B, S) of whole numbers or booleans as an array, if it is one."""
    if not hasattr(given, "detach") or given.ndim != 2 or given.is_meta:
        return None
    return np.asarray(given.detach().cpu().float())


def _edges(pads: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of the places that hold the pad token, those in a run at either end of their sample."""
    first = np.logical_and.accumulate(pads, axis=1)
    last = np.logical_and.accumulate(pads[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(first | last)


def _opposite(edges: NDArray[np.bool_], hidden: NDArray[np.bool_]) -> bool:
    """Whether a mask hides all but the padding."""
    return bool(edges.any() and hidden.any() and (edges == ~hidden).all())
