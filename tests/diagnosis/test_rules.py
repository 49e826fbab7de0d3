"""What a flag or a width asks of the rule of positions, in forms that the corpora do not have."""

from __future__ import annotations

from pathlib import Path

from subjects import Case, faults, judged

CODE = '''
import numpy as np

def softmax(s, axis=-1):
    e = np.exp(s - s.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)

def attention(q, k, v, {flag}):
    """{prose}; q, k, v: (seq, d)"""
    s = q @ k.T / np.sqrt(q.shape[-1])
    t = len(s)
    gap = np.arange(t)[:, None] - np.arange(t)
    {before}
    w = softmax(s)
    {after}
    return w @ v
'''
BEFORE = "It sees the {n} previous tokens and itself"
SUBJECTS = {
    "a product with infinity": (
        "causal=False", "", "s = s + (gap < 0) * -np.inf if causal else s", "", {"mask-nan"}),
    "infinity in the weights": (
        "causal=False", "", "", "w = np.where(gap < 0, -np.inf, w) if causal else w",
        {"mask-after-softmax"}),
    "a flag without effect": ("causal=False", "", "", "", {"causal-missing"}),
    "zero in place of infinity": (
        "causal=False", "", "s = np.where(gap < 0, 0.0, s) if causal else s", "",
        {"mask-multiplied"}),
    "the right flag": (
        "causal=False", "", "s = np.where(gap < 0, -np.inf, s) if causal else s", "", set()),
    "a window before the token": (
        "window", BEFORE.format(n="window"),
        "s = np.where((gap < 0) | (gap > window), -np.inf, s)", "", set()),
    "a window one too narrow": (
        "window", BEFORE.format(n="window"),
        "s = np.where((gap < 0) | (gap >= window), -np.inf, s)", "", {"window-off-by-one"}),
    "a window of its own": (
        "window", "It sees window tokens, itself included",
        "s = np.where((gap < 0) | (gap >= window), -np.inf, s)", "", set()),
    "lengths": (
        "valid_lens=None", "",
        "s = np.where(np.arange(t) < np.ravel(valid_lens)[:1], s, -np.inf)"
        " if valid_lens is not None else s", "", set()),
}  # fmt: skip


def test_rules_of_odd_forms_are_named(tmp_path: Path):
    cases = [
        Case(
            name,
            "attention",
            CODE.format(flag=flag, prose=prose, before=before or "pass", after=after or "pass"),
            frozenset(found),
        )
        for name, (flag, prose, before, after, found) in SUBJECTS.items()
    ]
    came = {c.name: faults(o) for c, o in zip(cases, judged(cases, tmp_path), strict=True)}
    assert came == {c.name: set(c.faults) for c in cases}
