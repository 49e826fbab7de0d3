"""Calls that came before, and what was found of them: most of a small call's time is its check.

A call's *form* is all that its check and its engine depend on but the arrays' numbers, and where
they lie.  Nothing of a call's arrays is kept.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from regard._shapes import Array
from regard.rules.masks import Mask
from regard.rules.rule import flatten

if TYPE_CHECKING:
    from regard.core.call import Call

Form: TypeAlias = tuple[Any, ...]

KNOWN: dict[Form, Call] = {}
"""Checked calls without their arrays; in their ``notes`` the engines write what they found."""
MANY, LONG = 64, 4096  # how many are kept, and of how many queries
_STARTS = (int, type(None))


def recall(
    q: Array,
    k: Array,
    v: Array | None,
    mask: Mask | None,
    scale: Any,
    softcap: Any,
    start: Any,
    dropout: Any,
) -> tuple[Form | None, Call | None]:
    """The form of a call without bias and sink, and the call of that form that came before."""
    # Whatever stands for a number may be equal to it and yet be refused, as True is.
    if type(start) not in _STARTS:
        return None, None
    try:
        form = (
            *(type(q), q.shape, q.dtype, q.device, type(k), k.shape, k.dtype, k.device),
            None if v is None else (type(v), v.shape, v.dtype, v.device),
            *(mask, scale, type(scale), softcap, type(softcap), dropout, type(dropout), start),
        )
        return form, KNOWN.get(form)
    except (AttributeError, TypeError):  # what is no array, or has no hash
        return None, None


def keep(form: Form, call: Call) -> None:
    """The checked ``call`` is kept, without its arrays, for those of its form that come next."""
    rule = None if call.mask is None else flatten(call.mask)
    if call.sizes.T > LONG or (rule is not None and (rule.arrays or rule.functions)):
        return
    for oldest in list(KNOWN)[: max(0, len(KNOWN) + 1 - MANY)]:  # other threads add too
        KNOWN.pop(oldest, None)
    hollow = replace(call, q=None, k=None, v=None)
    hollow.__dict__.update(sizes=call.sizes, notes=call.notes)
    KNOWN[form] = hollow
