"""How a subject wants to be called: which inputs, in which layout, with which weights.

A *setup* is one way that may work: the arguments, and the same data in canonical form.  The first
that runs and is explained is how the subject is called; the report says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.diagnosis.reference import Case
from regard.diagnosis.source import stated_layout
from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Subject

PLAIN = ("BTC", "TBC", "TC", "BCT", "CT")
ONE = "-one"
"""The end of a variant's name where the query has no axis for its length."""
HEADED = ("BTD", "TD", "BHTD", "BTHD", "TBD", "HTD", "DT")


@dataclass(frozen=True)
class Setup:
    """Arguments by name, and what they are in the reference's terms."""

    layout: str
    form: str
    """self (one tensor), cross (two), three, or latent (one, and learned queries)."""
    arguments: Mapping[str, Any]
    case: Case
    names: Mapping[str, str]
    """Which parameter takes q, k, v or x."""
    rng: int
    variant: str = "plain"
    """In which of the forms that weights may have they are given."""

    @property
    def batch(self) -> int:
        """How many samples are given."""
        return int(self.case.q.shape[0])


def place(x: Array, layout: str) -> Array:
    """Canonical (B, T, C) or (B, H, T, D) in the subject's layout."""
    match layout:
        case "BTC" | "BHTD":
            return x
        case "TBC":
            return x.swapaxes(0, 1)
        case "BCT":
            return x.swapaxes(1, 2)
        case "TC":
            return x[0]
        case "TD":
            return x[0, 0]
        case "CT":
            return x[0].T
        case "DT":
            return x[0, 0].T
        case "BTD":
            return x[:, 0]
        case "HTD":
            return x[0]
        case "BTHD":
            return x.swapaxes(1, 2)
        case "TBD":
            return x[:, 0].swapaxes(0, 1)
    raise ValueError(layout)


def given_back(y: Array, layout: str, observed: Array) -> Array:
    """The reference's output in the form that the subject's has, as far as shapes tell."""
    if y.ndim == 3 and layout in HEADED:  # the subject merged the heads by itself
        placed = {"BTHD": y, "BHTD": y, "HTD": y[0]}.get(layout)
        return y if placed is None else placed
    placed = place(y, layout)
    if placed.shape != observed.shape and y.ndim == 4 and y.shape[1] > 1:
        b, h, t, d = y.shape
        merged = y.swapaxes(1, 2).reshape(b, t, h * d)
        if layout == "HTD":
            merged = merged[0]
        if merged.shape == observed.shape:
            return merged
    turned = y.swapaxes(1, 2) if y.ndim == 4 else placed
    if placed.shape != observed.shape == turned.shape:
        return turned  # heads behind time: ready to be merged
    if placed.shape != observed.shape and placed.size == observed.size:
        squeezed = tuple(n for n in observed.shape if n != 1)
        if squeezed == tuple(n for n in placed.shape if n != 1):
            return placed.reshape(observed.shape)
    return placed


def output_of(result: Any, shape_hint: tuple[int, ...] | None = None) -> Array | None:
    """The output among what a subject returned: an array, the first of a tuple, a named one."""
    if isinstance(result, np.ndarray):
        return result if result.ndim >= 1 and result.dtype.kind in "fc" else None
    if isinstance(result, Mapping):
        for name in (
            "output",
            "out",
            "context",
            "last_hidden_state",
            "hidden_states",
            "attn_output",
        ):
            if isinstance(result.get(name), np.ndarray):
                return result[name]
        return output_of(tuple(result.values()), shape_hint)
    if isinstance(result, tuple):
        arrays = [a for a in result if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        if shape_hint is not None:
            for a in arrays:
                if a.shape == shape_hint:
                    return a
        return arrays[0] if arrays else None
    for name in ("output", "context", "last_hidden_state"):
        value = getattr(result, name, None)
        if isinstance(value, np.ndarray):
            return value
    return None


def forms(subject: Subject) -> list[str]:
    """The forms that the parameters allow."""
    roles = {p.role for p in subject.parameters}
    required = {p.role for p in subject.parameters if p.required}
    if {"q", "k", "v"} <= roles:
        return ["three"]
    if "q" in roles and roles & {"context", "k", "v", "x"}:
        return ["cross"]
    if "x" in roles and "context" in required:
        return ["cross"]
    if "x" in roles and "context" in roles:
        return ["self", "cross"]
    if "x" in roles:
        return ["self"]
    return []


def layouts_of(subject: Subject, *, weighted: bool, said: str | None) -> list[str]:
    """Layouts to try, the stated one first."""
    heads = subject.role("heads") is not None
    pool: tuple[str, ...] = PLAIN if weighted or heads else HEADED
    stated = said or stated_layout(subject.source)
    if stated is not None:
        if stated.startswith("..."):
            stated = "BTD"
        alias = {"BTC": "BTD", "TBC": "TBD", "TC": "TD"}
        back = {v: k for k, v in alias.items()}
        stated = (back if pool is PLAIN else alias).get(stated, stated)
    first = [stated] if stated in pool else []
    if pool is PLAIN:
        rest = ["BTC", "TC", "BCT", "TBC", "CT"]
        if subject.library == "numpy" and re.search(r"\.T\b", subject.source.joined):
            rest = ["TC", "BTC", "TBC", "BCT", "CT"]
        if not _batched(subject):
            rest = ["TC", "BTC", "TBC", "BCT", "CT"]
    else:
        code = subject.source.joined
        rest = ["BTD", "BHTD", "TD", "HTD", "BTHD", "TBD", "DT"]
        if re.search(r"\.T\b|axis\s*=\s*1\b|axis\s*=\s*0\b", code) and subject.library == "numpy":
            rest = ["TD", "BTD", "BHTD", "HTD", "BTHD", "TBD", "DT"]
        elif re.search(r"\bheads?\b|\bH\b|n_head|repeat_interleave", code + subject.source.prose):
            rest = ["BHTD", "BTD", "BTHD", "TD", "HTD", "TBD", "DT"]
    return list(dict.fromkeys([*first, *rest]))


def _batched(subject: Subject) -> bool:
    code = subject.source.joined
    if subject.library == "torch":
        return True
    return not re.search(r"^\s*(?:\w+)\s*,\s*(?:\w+)\s*=\s*\w+\.shape\s*$", code, re.MULTILINE)
