"""Who may attend to whom, and how scores are shaped: frozen values, no engine."""

from regard.rules.make import causal, documents, keep, lengths, prefix, where, window
from regard.rules.masks import Mask
from regard.rules.scores import Score
from regard.rules.shape import alibi, dense, relative, t5_relative

__all__ = [
    "Mask",
    "Score",
    "alibi",
    "causal",
    "dense",
    "documents",
    "keep",
    "lengths",
    "prefix",
    "relative",
    "t5_relative",
    "where",
    "window",
]
