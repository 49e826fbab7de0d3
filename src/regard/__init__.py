"""regard: attention that you can compute, see, understand and trust."""

from regard._errors import (
    EngineError,
    KindError,
    MissingError,
    RegardError,
    ShapeError,
    UserError,
    ValueRangeError,
)
from regard.core.attention import attend, partial, plan, weights
from regard.core.merge import Partial, merge
from regard.core.plan import Plan
from regard.core.questions import by_distance, entropy, image, mass, received, topk
from regard.core.weights import Weights
from regard.recording.watch import watch
from regard.rules import Mask, causal, documents, keep, lengths, prefix, where, window

__version__ = "0.1.0"

__all__ = [
    "EngineError",
    "KindError",
    "Mask",
    "MissingError",
    "Partial",
    "Plan",
    "RegardError",
    "ShapeError",
    "UserError",
    "ValueRangeError",
    "Weights",
    "attend",
    "by_distance",
    "causal",
    "documents",
    "entropy",
    "image",
    "keep",
    "lengths",
    "mass",
    "merge",
    "partial",
    "plan",
    "prefix",
    "received",
    "topk",
    "watch",
    "weights",
    "where",
    "window",
]
