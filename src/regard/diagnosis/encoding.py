"""What the examinations of positional encodings share: sizes, a subject, an answer."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.diagnosis.building import build
from regard.diagnosis.roles import parameter_role, size_role
from regard.diagnosis.source import Source
from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Parameter, Sizes, Subject

B, T, H, D = 2, 5, 3, 8
"""The sizes of a probe."""


@dataclass
class Answer:
    """What was found of an encoding."""

    faults: list[tuple[str, bool, str, dict[str, Any], float, float]] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    undetermined: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    how: dict[str, Any] = field(default_factory=dict)
    verdict: str = "right"

    def add(
        self,
        fault: str,
        key: str = "check.evidence-reproduced",
        right: float = 1.0,
        *,
        risk: bool = False,
        **values: Any,
    ) -> None:
        """Takes a fault in, once."""
        if all(f[0] != fault for f in self.faults):
            self.faults.append((fault, risk, key, values, 0.0, right))

    def unexplained(self) -> None:
        """No hypothesis gives its numbers."""
        self.verdict = "unknown"
        self.undetermined.append(("check.no-hypothesis", {}))


def subject_of(thing: Any, source: Source, init: Mapping[str, Any], *, width: int) -> Subject:
    """Builds a class with ``width`` for its width and room for 16 positions."""
    given = dict(init)
    if inspect.isclass(thing):
        for p in inspect.signature(thing).parameters.values():
            if p.name in given or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                continue
            role = size_role(p.name)
            if role in ("model_dim", "head_dim"):
                given[p.name] = width
            elif role in ("length", "exact_length") and p.default is p.empty:
                given[p.name] = 16
    return build(thing, source, given, Sizes())


def is_whole(table: Array) -> bool:
    """Whether every number of a table is a whole one."""
    return bool(np.array_equal(table, np.round(table)))


def inputs_of(subject: Subject) -> list[Parameter]:
    """The required parameters that take arrays of features: by their names, else by their use."""
    return [
        p
        for p in subject.parameters
        if p.required
        and (
            parameter_role(p.name) in ("x", "q", "k", "v", "context")
            or (p.role in ("x", "other") and _is_measured(p.name, subject.source))
        )
    ]


def _is_measured(name: str, source: Source) -> bool:
    """Whether the code takes a parameter's shape, or unpacks it."""
    word = rf"(?<![\w.]){re.escape(name)}"
    return (
        re.search(rf"{word}\.(?:shape|size\()|{word}\[[^\]]*(?::|\.\.\.)", source.joined)
        is not None
    )
