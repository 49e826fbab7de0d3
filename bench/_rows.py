"""What rows of the bench are made of: two things to do, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

sdpa = torch.nn.functional.scaled_dot_product_attention
Work = Callable[[], object]
Attend = Callable[..., Any]
NAMES = {torch.float32: "float32", torch.bfloat16: "bfloat16", torch.float16: "float16"}


@dataclass
class Row:
    """Two things to do, and how many times faster the first must be (below 1: how much slower)."""

    name: str
    ours: Work
    peer: Work
    bar: float | None
    against: str
    flops: float = 0.0
