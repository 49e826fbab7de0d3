"""Who may attend to whom: frozen values, no engine."""

from regard.rules.make import causal, documents, keep, lengths, prefix, where, window
from regard.rules.masks import Mask

__all__ = ["Mask", "causal", "documents", "keep", "lengths", "prefix", "where", "window"]
