"""What may be otherwise at each step, with the name of the fault that it is, and the search.

A *deviation* changes one step of the reference (now and then two that belong together).  The search
tries none, then one, two and three of them at once, and returns every combination of the lowest
cost that reproduces what the subject gave.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from regard.diagnosis.reference import Case
from regard.diagnosis.steps import ACTIVATIONS


@dataclass(frozen=True)
class Deviation:
    """One way in which a step may be taken otherwise."""

    changes: tuple[tuple[str, Any], ...]
    faults: tuple[str, ...] = ()
    """The faults that it is; none for a choice that is not one."""
    cost: float = 1.0
    tier: int = 3
    """Among how many at once it is tried at most."""
    note: str = ""
    """The choice's own name where it is no fault."""

    @property
    def steps(self) -> frozenset[str]:
        """The steps that it changes."""
        return frozenset(step for step, _ in self.changes)


def _d(
    step: str, value: Any, *faults: str, cost: float = 1.0, tier: int = 3, note: str = ""
) -> Deviation:
    return Deviation(((step, value),), faults, cost, tier, note)


SCALES: dict[str, tuple[str, ...]] = {
    "one": ("scale-missing",),
    "model-root": ("scale-model-dim",),
    "width": ("scale-no-root",),
    "inverted": ("scale-inverted",),
    "half": ("scale-precedence",),
    "half-inverse": ("scale-precedence",),
    "heads-root": ("scale-wrong-size",),
    "queries-root": ("scale-wrong-size",),
    "keys-root": ("scale-wrong-size",),
    "batch-root": ("scale-wrong-size",),
    "value-root": ("scale-wrong-size",),
    "model": ("scale-model-dim", "scale-no-root"),
    "half-model": ("scale-model-dim", "scale-precedence"),
    "half-inverse-model": ("scale-model-dim", "scale-precedence"),
    "model-inverted": ("scale-model-dim", "scale-inverted"),
    "times-width": ("scale-inverted",),
    "heads": ("scale-wrong-size",),
    "queries": ("scale-wrong-size",),
    "keys": ("scale-wrong-size",),
    "head-and-model": ("scale-twice", "scale-model-dim"),
    "three-halves": ("scale-twice",),
    "width-squared": ("scale-twice", "scale-no-root"),
}


def scales(case_sizes: dict[str, int]) -> dict[str, float]:
    """The factor by name for sizes B, H, T, S, D, E and C."""
    b, h, t, s, d, e, c = (case_sizes[x] for x in "BHTSDEC")
    return {
        "head": d**-0.5, "one": 1.0, "model-root": c**-0.5, "width": 1 / d, "inverted": d**0.5,
        "half": 2 / d, "heads-root": h**-0.5, "queries-root": t**-0.5, "keys-root": s**-0.5,
        "batch-root": b**-0.5, "value-root": e**-0.5, "model": 1 / c, "half-model": 2 / c,
        "half-inverse": 0.5 / d, "half-inverse-model": 0.5 / c,
        "model-inverted": c**0.5, "times-width": float(d), "heads": 1 / h, "queries": 1 / t,
        "keys": 1 / s, "head-and-model": (d * c) ** -0.5, "three-halves": d**-1.5,
        "width-squared": d**-2.0,
    }  # fmt: skip


def scale_deviations(factors: dict[str, float]) -> list[Deviation]:
    """Each scale that is not equal to one of a simpler name."""
    found, seen = [], [factors["head"]]
    for name, faults in SCALES.items():
        if any(math.isclose(factors[name], other) for other in seen):
            continue
        seen.append(factors[name])
        rare = name not in (
            "one",
            "model-root",
            "width",
            "inverted",
            "half",
            "half-inverse",
            "queries-root",
            "heads-root",
        )
        found.append(_d("scale", name, *faults, cost=1.2 if rare else 1.0, tier=2 if rare else 3))
    return found


def structure_deviations(case: Case, form: str, hints: frozenset[str]) -> list[Deviation]:
    """What may be otherwise but for scale and masks.

    ``form`` is self, three or cross; ``hints`` are the words that the source gave reason to try.
    """
    return [
        *_axes(case, hints),
        *_sources(case, form),
        *_projections(case, hints),
        *_heads(case, hints),
        *_around(case, hints),
        *(_positions() if "rotary" in hints else ()),
        *_biases(case),
    ]


def _axes(case: Case, hints: frozenset[str]) -> Iterator[Deviation]:
    axes = [("none", "softmax-missing", 3), ("matrix", "softmax-heads", 3)]
    if "softmax" in hints:
        axes.append(("single", "softmax-single", 2))
    if case.q.shape[-2] > 1:  # else it is the axis of size 1
        axes.append(("queries", "softmax-axis", 3))
    if case.heads > 1:
        axes += [("heads", "softmax-heads", 3), ("sample", "softmax-heads", 2),
                 ("flat-heads", "softmax-heads", 2)]  # fmt: skip
    if case.q.shape[0] > 1:
        axes += [("batch", "softmax-axis", 3), ("all", "softmax-heads", 2)]
    for axis, fault, tier in axes:
        yield _d("axis", axis, fault, tier=tier)


def _sources(case: Case, form: str) -> Iterator[Deviation]:
    """Which input and which projection makes queries, keys and values."""
    weighted = any(w.q is not None for w in case.weights)
    if form == "self" and not weighted:
        return
    yield _d("qk", "exchanged", "query-key-swapped")
    yield _d("value", "key", "value-wrong-source")
    if case.q.shape[-2] == case.k.shape[-2]:  # else one cannot stand in the other's place
        for how in ("query", "exchanged"):
            yield _d("value", how, "value-wrong-source")
        for how in ("both-query", "both-key"):
            yield _d("qk", how, "key-wrong-source", cost=1.3, tier=2)
    if form != "self":
        yield _d("qk", "inputs-swapped", "query-key-swapped")
        if weighted:
            yield _d("value", "input-query", "value-wrong-source")
    if form == "three":
        yield _d("qk", "inputs-swapped-alone", "query-key-swapped", tier=2)
        if weighted:
            yield _d("value", "input-key", "value-wrong-source")


def _projections(case: Case, hints: frozenset[str]) -> Iterator[Deviation]:
    if any(w.v is not None for w in case.weights):
        yield _d("value", "unprojected", "value-wrong-source")
    if any(w.o is not None for w in case.weights):
        yield _d("out", "missing", "output-projection-missing")
    if "activation" in hints and any(w.q is not None for w in case.weights):
        for name in ACTIVATIONS:
            for where in ("qkv", "v", "qk", "q", "k", "kv"):
                often = where == "qkv" and name in ("relu", "tanh", "gelu")
                tier = 3 if often else 2
                yield _d("activation", (name, where), "projection-nonlinear", tier=tier)


def _heads(case: Case, hints: frozenset[str]) -> Iterator[Deviation]:
    if case.heads > 1 and case.explicit:
        yield _d("merge", "explicit-flat", "merge-no-transpose")
    elif case.heads > 1:
        yield _d("split", "flat", "split-no-transpose")
        yield _d("merge", "flat", "merge-no-transpose")
        yield _d("split", "keys-flat", "split-no-transpose", cost=1.2, tier=2)
        for first in ("time-first", "channels-first"):
            if first in hints:
                yield _d("split", f"flat-{first}", "split-no-transpose", cost=1.1)
                yield _d("merge", f"flat-{first}", "merge-no-transpose", cost=1.1)
        yield Deviation((("split", "last"), ("merge", "last")), (), 0.4, 1, "heads-last")
    if 1 < case.groups < case.heads:
        yield _d("groups", "tiled", "kv-head-order")


def _around(case: Case, hints: frozenset[str]) -> Iterator[Deviation]:
    """What the batch axis is taken for, norms and residuals."""
    if case.q.shape[0] > 1:
        yield _d("sequence", "both", "batch-as-sequence")
        known = "layout" in hints  # else the time axis may well come first
        if (
            known
            and case.q.shape[-2] == case.k.shape[-2]
            and not (case.explicit and case.heads > 1)
        ):
            yield _d("sequence", "batch", "batch-as-sequence")
    yield _d("around", "residual", cost=0.3, tier=1, note="residual")
    if case.norm is not None:
        for how in ("pre", "pre-residual", "post"):
            yield _d("around", how, cost=0.3, note=how)


def _positions() -> Iterator[Deviation]:
    for pairing in ("halves", "pairs"):
        yield _d("rotary", (pairing, "time"), cost=0.2, note=f"rotary-{pairing}")
        for axis in ("heads", "batch"):
            yield _d("rotary", (pairing, axis), "rotary-axis")
    for pairing in ("mixed-halves", "mixed-pairs", "no-sign"):
        yield _d("rotary", (pairing, "time"), "rotary-pairing")


def _biases(case: Case) -> Iterator[Deviation]:
    for name in case.biases:
        if "wrong" in name:
            yield _d("bias", name, "alibi-slopes")
        else:
            yield _d("bias", name, cost=0.2, note=name)


def dropped() -> list[Deviation]:
    """What keep rates do to weights that are all kept."""
    return [
        _d("factor", factor, cost=0.3, note="rescaled")
        for rate in (0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.9)
        for factor in (1 / (1 - rate), 1 - rate)
    ]


_PLACES: tuple[tuple[Any, str], ...] = (
    ("after", "mask-after-softmax"),
    ("zero", "mask-multiplied"),
    ("added", "mask-added"),
    ("added-hidden", "mask-added"),
    ("subtracted", "mask-added"),
)
_NUMBER = re.compile(r"(?<![\w.])-?\s*\d+(?:\.\d*)?(?:e[+-]?\d+)?\b", re.IGNORECASE)
WEAK = 30.0
"""A fill of less than this loses against ordinary scores."""


def places(code: str) -> list[tuple[Any, str]]:
    """Where and with what a mask may act; the constants of the code are among the fills."""
    found = list(_PLACES)
    constants = {float(m.replace(" ", "")) for m in _NUMBER.findall(code)}
    for value in sorted({-abs(c) for c in constants if c}):
        if -WEAK <= value <= -0.5:
            found += [(("weak", value), "mask-too-weak"), (("weak-added", value), "mask-too-weak")]
        if value <= -1e3:
            found.append((("after", value), "mask-after-softmax"))
    return found


def rule_deviations(case: Case, *, window: bool, code: str = "") -> list[Deviation]:
    """Rules of position that the subject may follow by itself, and where it applies them."""
    rules: list[tuple[str, tuple[str, ...], float]] = [
        ("causal", (), 0.05),
        ("transposed", ("causal-transposed",), 1.0),
        ("inverted", ("mask-inverted",), 1.0),
        ("one-more", ("causal-off-by-one",), 1.0),
        ("one-less", ("causal-off-by-one",), 1.0),
    ]
    if case.q.shape[-2] != case.k.shape[-2]:
        rules.append(("top-left", ("causal-misaligned",), 1.0))
    if window:
        rules += [
            ("window", (), 0.05),
            ("window-one-more", ("window-off-by-one",), 1.0),
            ("window-one-less", ("window-off-by-one",), 1.0),
            ("window-both", (), 0.1),
            ("window-both-less", (), 0.2),
            ("window-centred", (), 0.1),
        ]
    if case.q.shape[-2] == 1:  # the one query is the last: only a window hides anything
        rules = [rule for rule in rules if rule[0].startswith("window")]
    found = []
    for rule, faults, cost in rules:
        found.append(_d("rule", rule, *faults, cost=cost, note="" if faults else f"rule-{rule}"))
        for place, fault in places(code):
            tier = 3 if rule == "causal" and isinstance(place, str) else 2
            found.append(
                Deviation((("rule", rule), ("place", place)), (*faults, fault), cost + 1.0, tier)
            )
    return found


def mask_deviations(code: str = "") -> list[Deviation]:
    """What a mask that is given may mean, where it acts and on what."""
    turns: list[tuple[str, tuple[str, ...]]] = [
        ("keys", ()),
        ("queries", ("mask-on-queries",)),
        ("heads", ("mask-head-order",)),
        ("heads-first", ("mask-head-order",)),
    ]
    acts: list[tuple[Any, str]] = [("fill", ""), ("after-renormalised", ""), *places(code)]
    found = []
    for meaning, cost in (("keep", 0.0), ("drop", 0.01)):
        for turn, turned in turns:
            for place, fault in acts:
                faults = (*turned, *((fault,) if fault else ()))
                found.append(
                    Deviation(
                        (("meaning", meaning), ("turn", turn), ("given", place)),
                        faults,
                        cost + len(faults),
                        note="after-renormalised" if place == "after-renormalised" else "",
                    )
                )
    found.append(_d("meaning", "ignored", "mask-ignored", cost=0.9))
    return found
