"""What an explanation refuses, in the reader's language."""

from __future__ import annotations

from regard._errors import ShapeError, UserError, ValueRangeError


class Misshapen(UserError, ShapeError):
    """Sizes that do not fit together."""


class Outside(UserError, ValueRangeError):
    """A value outside what it may be."""
