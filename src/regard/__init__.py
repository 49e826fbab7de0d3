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
from regard.core.engines.native import set_threads
from regard.core.merge import Partial, merge
from regard.core.plan import Plan
from regard.core.questions import by_distance, entropy, image, mass, received, topk
from regard.core.weights import Weights
from regard.diagnosis.check import check
from regard.explanation.door import explain
from regard.explanation.trace import Step, Trace
from regard.recording.capture.points import Point
from regard.recording.keeping import QueriesAndKeys, Statistics
from regard.recording.register import register
from regard.recording.saving import load
from regard.recording.watch import watch
from regard.rules import (
    Mask,
    Score,
    alibi,
    causal,
    dense,
    documents,
    keep,
    lengths,
    prefix,
    relative,
    t5_relative,
    where,
    window,
)

__version__ = "0.1.0"

__all__ = [
    "EngineError",
    "KindError",
    "Mask",
    "MissingError",
    "Partial",
    "Plan",
    "Point",
    "QueriesAndKeys",
    "RegardError",
    "Score",
    "ShapeError",
    "Statistics",
    "Step",
    "Trace",
    "UserError",
    "ValueRangeError",
    "Weights",
    "alibi",
    "attend",
    "by_distance",
    "causal",
    "check",
    "dense",
    "documents",
    "entropy",
    "explain",
    "image",
    "keep",
    "lengths",
    "load",
    "mass",
    "merge",
    "partial",
    "plan",
    "prefix",
    "received",
    "register",
    "relative",
    "set_threads",
    "t5_relative",
    "topk",
    "watch",
    "weights",
    "where",
    "window",
]
