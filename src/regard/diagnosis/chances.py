"""Rounds for training: dropout in evaluation, dropout that does not rescale, a missing gradient."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.diagnosis.calling import output_of
from regard.diagnosis.chance import HIGH, LOW, keeping
from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.rounds import Hit
from regard.diagnosis.steps import Array


def drops(judge: Judge, base: Base) -> list[Hit]:
    """Dropout in evaluation, and dropout that does not divide by the keep rate."""
    subject = judge.subject
    hits = []
    if judge.random:
        hits.append(Hit("dropout-in-eval", False, "check.evidence-dropout", {}, 0.0, judge.random))
    if base.best is None:
        return hits
    if not judge.random and (moved := _drops_when_told(judge, base)) > 0:
        hits.append(Hit("dropout-in-eval", False, "check.evidence-dropout", {}, 0.0, moved))
    factor = base.best.steps.get("factor", 1.0)
    by_hand = subject.source.line(r"rand|bernoulli|binomial", avoid=r"randn|^\s*def ") is not None
    if not by_hand:
        return hits
    kept = subject.keep
    training = subject.role("training")
    rate = subject.role("dropout")
    more = dict(base.fixed)
    if training is not None:
        more[training.name] = True
    if rate is not None and not (isinstance(rate.default, int | float) and rate.default):
        more[rate.name] = 0.25
    subject.train(True)
    subject.keep = None
    try:
        one, two = (_draw(judge, base, more, n) for n in (1, 2))
        moves = one is not None and two is not None and not np.array_equal(one, two)
        results = []
        for value in (HIGH, LOW):
            with keeping(value, *subject.spaces()):
                got = _draw(judge, base, more, 1)
            if got is not None and np.isfinite(got).all() and got.any():
                results.append(got)
    finally:
        subject.train(False)
        subject.keep = kept
    if not moves or not results:
        return hits
    plain = base.observed.astype(float)
    whole = results[0]
    if judge.random and factor != 1.0:
        return hits
    if np.allclose(whole, plain, rtol=1e-9, atol=1e-12) and not _keeps_in_eval(base):
        hits.append(Hit("dropout-no-rescale", False, "check.evidence-no-rescale", {}, 0.0, 1.0))
    return hits


def _drops_when_told(judge: Judge, base: Base) -> float:
    """How far two equal calls differ that ask for dropout, but not for training."""
    rate, training = judge.subject.role("dropout"), judge.subject.role("training")
    if rate is None or training is None:
        return 0.0
    more = {**base.fixed, rate.name: 0.5, training.name: False}
    one, two = (_draw(judge, base, more, n) for n in (1, 2))
    if one is None or two is None:
        return 0.0
    return float(np.abs(one - two).max() / (np.abs(one).max() + 1e-300))


def _keeps_in_eval(base: Base) -> bool:
    assert base.best is not None
    return bool(base.best.steps.get("factor", 1.0) < 1.0)


def _draw(judge: Judge, base: Base, more: Mapping[str, Any], number: int) -> Array | None:
    try:
        return output_of(judge.subject.run({**base.setup.arguments, **more}, number))
    except Exception:  # whatever somebody's code may raise
        return None


def no_gradient(judge: Judge, base: Base) -> Hit | None:
    """Whether the output projection is left without a gradient."""
    subject = judge.subject
    if subject.library != "torch" or judge.found.output_named is None or base.best is None:
        return None
    if base.best.steps.get("out", "right") != "right":
        return None
    import torch

    if not isinstance(subject.owner, torch.nn.Module):
        return None
    parameters = dict(subject.owner.named_parameters())
    path = judge.found.output_named
    own = [p for n, p in parameters.items() if n == path or n.startswith(path + ".")]
    subject.owner.zero_grad()
    try:
        arguments = {
            k: subject.to_library(v) for k, v in {**base.setup.arguments, **base.fixed}.items()
        }
        with torch.enable_grad():
            result = subject.call(**arguments)
            output = result[0] if isinstance(result, tuple | list) else result
            if not isinstance(output, torch.Tensor):
                return None
            if output.requires_grad:
                torch.autograd.backward(output.square().sum())
            elif not re.search(r"with torch\.no_grad|detach\(\)|\.data\b", subject.source.joined):
                return None
    except Exception:  # whatever somebody's code may raise
        return None
    if own and all(p.grad is None for p in own):
        return Hit(
            "output-projection-missing",
            False,
            "check.evidence-no-gradient",
            {"path": path},
            0.0,
            1.0,
        )
    return None
