"""From a subject to its explanation: how it is called, and which steps reproduce its output."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.diagnosis.calling import Setup, given_back, output_of
from regard.diagnosis.chance import HIGH, LOW, drawn_entries, recording
from regard.diagnosis.entries import entries_of
from regard.diagnosis.failure import Failure, failure_of
from regard.diagnosis.hypotheses import (
    Deviation,
    dropped,
    rule_deviations,
    scale_deviations,
    structure_deviations,
)
from regard.diagnosis.prose import means_causal
from regard.diagnosis.reference import Case
from regard.diagnosis.search import Explanation, distance
from regard.diagnosis.setups import setups
from regard.diagnosis.source import stated_layout
from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Subject
from regard.diagnosis.use import named_by_use
from regard.diagnosis.watching import bias_in, held_while, slopes_in
from regard.diagnosis.weights import Found
from regard.diagnosis.weights import read as read_weights

_DRAWS = re.compile(
    r"randn|\.rand\(|\.normal\(|\.uniform\(|standard_normal|random\.random|nn\.Linear\("
)
_BY_HAND = re.compile(r"1(?:\.0?)?\s*-\s*(?:self\.)?\w*(?:p|rate|drop\w*|prob)\b|keep_?(?:p|rate)")
"""Code that weighs by a keep rate."""
SECONDS = 4.0
"""How long all searches of one examination may take together."""
HALF = 1e-2
"""The same as ``ROUNDING`` for output in float16, where only the right formula is tried."""
SINGLE = 2e-5
"""The same as ``ROUNDING`` for subjects that compute in float32 whatever they are given."""


@dataclass
class Base:
    """How the subject is called and what explains it without a mask."""

    setup: Setup
    explanations: list[Explanation]
    observed: Array
    result: Any
    tolerance: float
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that every call is given, such as a mask that hides nothing."""

    @property
    def best(self) -> Explanation | None:
        """The first explanation, if there is one."""
        return self.explanations[0] if self.explanations else None


class Judge:
    """Runs the subject and searches; holds what all rounds share."""

    def __init__(self, subject: Subject, said: Mapping[str, Any]) -> None:
        self.subject = subject
        self.said = said
        self.failures: list[Failure] = []
        entries, norms = entries_of(subject.owner) if subject.owner is not None else ([], [])
        model = said.get("model") or _model(subject)
        self.found: Found = read_weights(
            named_by_use(entries, subject.source),
            norms,
            subject.sizes.heads,
            subject.sizes.groups,
            model,
            subject.source.joined,
        )
        text = f"{subject.name}\n{subject.source.prose}\n{subject.source.joined}"
        low = text.lower()
        hints = set()
        if any(w in low for w in ("rotary", "rope", "rotate", "freqs", "cos(", ".cos()")):
            hints.add("rotary")
        if any(w in low for w in ("alibi", "slope")):
            hints.add("alibi")
        if said.get("layout") or stated_layout(subject.source):
            hints.add("layout")
        if "alibi" not in hints and re.search(r"rel\w*_?(?:pos|bias|emb)|pos\w*_?bias", low):
            hints.add("bias")
        if not subject.source.text or re.search(r"softmax|exp", low):
            hints.add("softmax")
        if not subject.source.text or re.search(
            r"relu|gelu|tanh|sigmoid|silu|elu\b|softplus|swish|maximum|activation|\bact\b", low
        ):
            hints.add("activation")
        self.hints = frozenset(hints)
        self.deadline = time.thread_time() + SECONDS
        self.random = 0.0
        """How far two equal calls differ in evaluation."""
        self.slopes: Array | None = None
        """What the subject was seen to use as ALiBi's slopes."""
        self.own_bias: Array | None = None
        """What the subject was seen to add to its scores, by relative position."""
        self._settled = False
        switched_off = any(
            getattr(subject.owner, name, None) is False
            for name in ("causal", "is_causal", "masked", "autoregressive")
        )
        self.causal = bool(said.get("causal")) or (
            not switched_off and means_causal(subject.source, subject.name)
        )

    def call(self, setup: Setup, more: Mapping[str, Any] | None = None) -> tuple[Array, Any] | None:
        """The output and all that was returned; None, and a failure on record, where it raises."""
        try:
            result = self.subject.run({**setup.arguments, **(more or {})})
        except Exception as error:  # whatever somebody's code may raise
            self.failures.append(failure_of(setup, error, self.subject))
            return None
        output = output_of(result)
        if output is None:
            return None
        return output, result

    def seconds(self, share: float) -> float:
        """How long one search may take: a share of ``SECONDS``, less where little of it is left."""
        left = self.deadline - time.thread_time()
        return min(share * SECONDS, max(0.15 * SECONDS, left))

    def settle(self, setup: Setup, fixed: Mapping[str, Any]) -> bool:
        """Looks for chance in a call that runs; True where it found weights or slopes inside."""
        if self._settled:
            return False
        self._settled = True
        subject = self.subject
        arguments = {**setup.arguments, **fixed}
        if "alibi" in self.hints:
            self.slopes = slopes_in(held_while(subject, arguments), setup.case.heads)
            if self.slopes is not None:
                return True
        if "bias" in self.hints:
            case = setup.case
            sizes = case.q.shape[-2], case.k.shape[-2]
            self.own_bias = bias_in(held_while(subject, arguments), case.heads, *sizes)
            if self.own_bias is not None:
                return True
        if self.found.width_in is None and _DRAWS.search(subject.source.joined):
            with recording(subject.owner) as record:
                subject.run(arguments)
            entries = drawn_entries(record, subject.source)
            found = read_weights(
                entries, (), subject.sizes.heads if subject.role("heads") else 1, 1, None
            )
            if found.width_in is not None:
                self.found = found
                return True
        one, two = (output_of(subject.run(arguments, n)) for n in (1, 2))
        assert one is not None
        assert two is not None
        if not np.array_equal(one, two, equal_nan=True):
            for value in (HIGH, LOW):
                subject.keep = value
                a, b = (output_of(subject.run(arguments, n)) for n in (1, 2))
                if (
                    a is not None
                    and b is not None
                    and np.array_equal(a, b)
                    and a.any()
                    and np.isfinite(a).all()
                ):
                    self.random = float(np.abs(one - two).max() / (np.abs(one).max() + 1e-300))
                    break
            else:
                subject.keep = None
        return False

    def far(self, setup: Setup, observed: Array) -> Any:
        """The distance of a reference output from ``observed``."""
        wide = observed.astype(float)

        def measure(y: Array) -> float:
            return distance(given_back(y, setup.layout, wide), wide)

        return measure

    def deviations(self, setup: Setup, *, rules: bool = True) -> list[Deviation]:
        """What may be otherwise in this setup."""
        case = setup.case
        first = {"TBC": {"time-first"}, "TBD": {"time-first"}, "BCT": {"channels-first"}}
        hints = self.hints | first.get(setup.layout, set())
        found = structure_deviations(case, setup.form, hints)
        found += scale_deviations(dict(case.scales))
        if self.random or _BY_HAND.search(self.subject.source.joined):
            found += dropped()
        if rules:
            found += rule_deviations(
                case, window=case.window is not None, code=self.subject.source.joined
            )
        return found

    def prepared(self, seed: int, queries: int, keys: int) -> Iterator[Setup]:
        """The setups, with what the judge knows of windows and biases added to their cases."""
        for setup in setups(
            self.subject,
            self.found,
            said=self.said.get("layout"),
            seed=seed,
            queries=queries,
            keys=keys,
        ):
            case = replace(setup.case, window=self.window(), biases=self.biases(setup.case))
            yield replace(setup, case=case)

    def window(self) -> int | None:
        """The width of the window that is meant, if any."""
        said = self.said.get("window")
        if said is not None:
            return int(said)
        given = self.subject.given
        from regard.diagnosis.roles import size_role

        for name, value in given.items():
            if size_role(name) == "window" and isinstance(value, int):
                return value
        for name in ("window", "window_size", "w", "sliding_window", "left"):
            value = (
                getattr(self.subject.owner, name, None) if self.subject.owner is not None else None
            )
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        parameter = self.subject.role("window")
        if parameter is not None:
            return 3
        return None

    def biases(self, case: Case) -> dict[str, Array]:
        """ALiBi's biases, right and wrong, where the source speaks of it."""
        t, s = case.q.shape[-2], case.k.shape[-2]
        if self.own_bias is not None:
            return {"own": self.own_bias} if self.own_bias.shape[-2:] == (t, s) else {}
        if "alibi" not in self.hints:
            return {}
        from regard.diagnosis.positions import alibi_variants

        variants = alibi_variants(case.heads)
        if self.slopes is not None and len(self.slopes) == case.heads:
            variants["wrong-own"] = self.slopes
        gap = np.arange(s)[None, :] - (np.arange(t)[:, None] + s - t)
        found = {}
        for name, slopes in variants.items():
            found[name] = slopes[:, None, None] * np.minimum(gap, 0)
            found[f"{name}-signed"] = slopes[:, None, None] * gap  # the future raised
            found[f"{name}-both"] = -slopes[:, None, None] * np.abs(gap)
        return found

    def neutral(self, setup: Setup) -> Sequence[Mapping[str, Any]]:
        """Masks that may hide nothing: none at all, else all ones, else all zeros."""
        fixed: dict[str, Any] = {}
        causal = self.subject.role("causal")
        if (
            causal is not None
            and causal.default is not None
            and isinstance(causal.default, bool | int)
        ):
            fixed[causal.name] = (bool(self.said.get("causal", False)) and causal.default) or False
        window = self.subject.role("window")
        if (
            window is not None
            and isinstance(window.default, int)
            and not isinstance(window.default, bool)
        ):
            fixed[window.name] = self.window()
        masks = [
            p
            for p in self.subject.parameters
            if p.role in ("mask", "pad", "lengths") and p.required
        ]
        if not masks:
            return [fixed]
        t, s, b = setup.case.q.shape[-2], setup.case.k.shape[-2], setup.batch
        options: list[dict[str, Any]] = [{**fixed, **{p.name: None for p in masks}}]
        for kind in (np.bool_, np.float64):
            for value in (1, 0):
                for shape in ((t, s), (b, t, s), (b, 1, t, s), (b, s), (b, 1, 1, s)):
                    options.append(
                        {
                            **fixed,
                            **{
                                p.name: np.full(b, s)
                                if p.role == "lengths"
                                else np.full(shape, value, kind)
                                for p in masks
                            },
                        }
                    )
        return options

    def again(self, setup: Setup, seed: int, queries: int, keys: int) -> Setup | None:
        """The same way of calling with other numbers or sizes, and the same readings of weights."""
        if self.own_bias is not None and self.own_bias.shape[-2:] != (queries, keys):
            return None
        for other in self.prepared(seed, queries, keys):
            if (other.layout, other.form, other.variant) == (
                setup.layout,
                setup.form,
                setup.variant,
            ):
                if self.found.width_in is None:
                    return other  # weights that are arguments are drawn with the rest
                return replace(other, case=replace(other.case, weights=setup.case.weights))
        return None


def _model(subject: Subject) -> int | None:
    from regard.diagnosis.roles import size_role

    for name, value in subject.given.items():
        if size_role(name) == "model_dim" and isinstance(value, int):
            return value
    owner = subject.owner
    for name in (
        "embed_size",
        "d_model",
        "embed_dim",
        "n_embd",
        "dim",
        "hidden_size",
        "emb_dim",
        "model_dim",
    ):
        value = getattr(owner, name, None)
        if isinstance(value, int):
            return value
    return None
