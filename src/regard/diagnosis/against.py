"""Another implementation as the law: the same weights, the same inputs, the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from regard.diagnosis.building import build, load_file
from regard.diagnosis.calling import output_of
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.source import source_of
from regard.diagnosis.subject import Subject

SAME = 1e-6
"""Two implementations that part by no more give the same numbers."""


def compared(judge: Judge, base: Base, other: Any) -> tuple[str, float | str]:
    """The reference's name, and how far the subject is from it or why it could not be called."""
    name = (
        other[1] if isinstance(other, tuple) else getattr(other, "__name__", type(other).__name__)
    )
    try:
        thing, source = load_file(*other) if isinstance(other, tuple) else (other, source_of(other))
        reference = build(thing, source, judge.said.get("init"), judge.subject.sizes)
        _same_weights(judge.subject, reference)
        output = output_of(reference.run(_arguments(judge.subject, reference, base)))
    except Exception as error:  # whatever somebody's code may raise
        return name, f"{type(error).__name__}: {error}".split("\n")[0][:200]
    if output is None or output.shape != base.observed.shape:
        return name, f"{None if output is None else output.shape} ≠ {base.observed.shape}"
    size = float(np.abs(output).max()) + 1e-300
    return name, float(np.abs(output - base.observed).max()) / size


def _same_weights(subject: Subject, reference: Subject) -> None:
    """Gives the reference the subject's weights, where both name theirs alike."""
    if hasattr(subject.owner, "state_dict") and hasattr(reference.owner, "load_state_dict"):
        reference.owner.load_state_dict(subject.owner.state_dict(), strict=False)
    elif subject.owner is not None and reference.owner is not None:
        for name, value in vars(subject.owner).items():
            if isinstance(value, np.ndarray) and hasattr(reference.owner, name):
                setattr(reference.owner, name, value)


def _arguments(subject: Subject, reference: Subject, base: Base) -> dict[str, Any]:
    """The subject's arguments for the reference: of the same name, or of the same role."""
    given = {**base.setup.arguments, **base.fixed}
    roles = {p.role: given[p.name] for p in subject.parameters if p.name in given}
    found = {}
    for p in reference.parameters:
        if p.name in given:
            found[p.name] = given[p.name]
        elif p.role in roles:
            found[p.name] = roles[p.role]
    return found
