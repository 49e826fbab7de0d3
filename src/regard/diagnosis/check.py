"""The door: ``regard.check`` takes somebody's attention and says what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._errors import UserError
from regard._words import Language, language_of_user

if TYPE_CHECKING:
    from regard.diagnosis.report import Report

LAYOUTS = (
    "BTC",
    "TBC",
    "BCT",
    "TC",
    "BTD",
    "TBD",
    "BHTD",
    "BTHD",
    "HTD",
    "TD",
    "...TD",
    "CT",
    "DT",
)
SECONDS = 60.0
"""How long a subject may take in all."""


def check(
    subject: Any,
    *,
    init: Mapping[str, Any] | None = None,
    mask: str | None = None,
    causal: bool = False,
    window: int | None = None,
    layout: str | None = None,
    against: Any = None,
    lang: Language | None = None,
    seconds: float = SECONDS,
) -> Report:
    """Names the fault in somebody's own attention code, or says that it is right.

    The subject's output is compared in float64 with ::

        softmax(q kᵀ / √D, masked) v

    and with every combination of what people write instead, computed with the subject's own
    weights; the combination that reproduces the output names the faults.  It runs in a child
    process with limits on time and memory.

    Args:
        subject: A function (NumPy or torch), a class (built with guessed sizes), an object with its
            own weights such as an ``nn.Module``, or ``"FILE.py:NAME"``.
        init: Arguments of the constructor; guessed from their names unless given.  A mapping for a
            parameter such as ``config`` fills the file's own config class.
        mask: What True or 1 means in its mask: ``"keep"``, ``"drop"`` or ``"additive"``.
        causal: The future is meant to be hidden.
        window: A query is meant to see this many keys, its own included.
        layout: The axes of its inputs, such as ``"BTC"``, ``"BHTD"`` or ``"TD"``: B batch, H heads,
            T tokens, D head width, C model width.
        against: Another implementation, or ``"FILE.py:NAME"``, that should give the same numbers.
        lang: ``"en"`` or ``"zh"``; the user's own unless given.
        seconds: How long it may take in all.

    Returns:
        A ``Report`` with ``verdict``, ``faults``, ``risks``, ``undetermined`` and ``how_called``;
        it is true where the verdict is ``"right"`` or ``"different"``.

    Raises:
        UserError: An option that is none, or a file that is not there.

    Source: Vaswani et al., 2017, *Attention is all you need*, section 3.2.

    Example:
        >>> import numpy as np
        >>> import regard
        >>> def attention(q, k, v):
        ...     s = q @ k.T / np.sqrt(q.shape[-1])
        ...     e = np.exp(s - s.max(0, keepdims=True))
        ...     return e / e.sum(0, keepdims=True) @ v
        >>> [fault.id for fault in regard.check(attention).faults]
        ['softmax-axis']
    """
    from regard.diagnosis.examine import examine
    from regard.diagnosis.isolate import Stopped, run
    from regard.diagnosis.outcome import Outcome
    from regard.diagnosis.report import report_of

    if mask not in (None, "keep", "drop", "additive"):
        raise UserError("check.bad-mask", value=mask)
    if layout is not None and layout not in LAYOUTS:
        raise UserError("check.bad-layout", value=layout)
    if window is not None and (
        isinstance(window, bool) or not isinstance(window, int) or window < 1
    ):
        raise UserError("check.bad-window", value=window)
    thing = _target(subject)
    said = {
        "init": init,
        "mask": mask,
        "causal": causal,
        "window": window,
        "layout": layout,
        "against": None if against is None else _target(against),
    }
    try:
        outcome = run(lambda: examine(thing, said), seconds)
    except Stopped as stopped:
        name = (
            thing[1]
            if isinstance(thing, tuple)
            else getattr(thing, "__name__", type(thing).__name__)
        )
        outcome = Outcome("unknown", name, undetermined=[(stopped.key, stopped.values)])
    return report_of(outcome, lang or language_of_user())


def _target(subject: Any) -> Any:
    """A callable or an object as it is; ``FILE.py:NAME`` as its path and name."""
    if not isinstance(subject, str):
        return subject
    path, colon, name = subject.rpartition(":")
    if not colon or not name or not path:
        raise UserError("check.not-a-target", value=subject)
    file = Path(path).expanduser()
    if not file.is_file():
        raise UserError("check.no-file", file=path)
    return file.resolve(), name
