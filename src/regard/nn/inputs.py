"""What comes into a module is looked at before torch stumbles over it in words of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard._errors import KindError, ShapeError


def vectors(name: str, x: Any, width: int, weight: Tensor) -> None:
    """Refuses what is no tensor (…, width) in the dtype of ``weight``."""
    if not isinstance(x, Tensor):
        raise KindError(
            f"{name} must be a torch tensor, but it is a {type(x).__name__}; "
            "torch.as_tensor(…) makes one of an array"
        )
    if x.shape[-1:] != (width,):
        raise ShapeError(f"{name} must be {width} wide, but its shape is {tuple(x.shape)}")
    if x.dtype != weight.dtype and not torch.is_autocast_enabled(x.device.type):
        either = f" or module.to({x.dtype})" if x.is_floating_point() else ""
        raise KindError(
            f"{name} is {x.dtype}, but the module's weights are {weight.dtype}; bring one to the "
            f"other with {name}.to({weight.dtype}){either}"
        )


def tokens(name: str, ids: Any) -> None:
    """Refuses what is no tensor (B, T) of whole numbers."""
    if not isinstance(ids, Tensor):
        raise KindError(f"{name} must be a torch tensor, but it is a {type(ids).__name__}")
    if ids.dtype not in (torch.int32, torch.int64):
        raise KindError(f"{name} must be tokens' numbers, int64 or int32, but they are {ids.dtype}")
    if ids.ndim != 2:
        raise ShapeError(
            f"{name} must be (B, T), but the shape is {tuple(ids.shape)}; one text is {name}[None]"
        )


def kind(name: str, value: Any, *kinds: type) -> None:
    """Refuses what is none of ``kinds``."""
    if not isinstance(value, kinds):
        wanted = ", ".join(one.__name__ for one in kinds)
        raise KindError(f"{name} must be {wanted}, but it is a {type(value).__name__}")
