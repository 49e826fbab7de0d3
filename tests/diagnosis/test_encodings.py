"""Positional encodings in forms that the corpora do not have: tables, constants, odd calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from subjects import Case, faults, judged

pytest.importorskip("torch")

WAVES = """
import numpy as np
import torch

def waves(positions, d):
    angle = np.asarray(positions)[:, None] / 10000.0 ** (np.arange(0, d, 2) / d)
    return np.stack([np.sin(angle), np.cos(angle)], -1).reshape(len(angle), -1)

"""
SUBJECTS: dict[str, tuple[str, str, set[str]]] = {
    "def rope_tables(seq_len, dim):\n"
    "    angle = np.arange(seq_len)[:, None] * (1 // 10000 ** (np.arange(0, dim, 2) / dim))\n"
    "    return np.cos(angle), np.sin(angle)": ("rope_tables", "wrong", {"position-integer"}),
    "def rope_tables(seq_len, dim):\n"
    "    angle = np.ones((seq_len, 1)) * 10000.0 ** (-np.arange(0, dim, 2) / dim)\n"
    "    return np.cos(angle), np.sin(angle)": ("rope_tables", "wrong", {"rotary-axis"}),
    "def rope_tables(seq_len, dim):\n"
    "    angle = np.arange(seq_len)[:, None] * 777.7 ** (-np.arange(0, dim, 2) / dim)\n"
    "    return np.cos(angle), np.sin(angle)": ("rope_tables", "unknown", set()),
    "def rope_tables(seq_len, dim):\n    raise KeyError(dim)": ("rope_tables", "unknown", set()),
    "def positional_encoding(seq_len, d_model):\n"
    "    return waves(range(seq_len), d_model).T": ("positional_encoding", "right", set()),
    "def sinusoidal_encoding(positions, d_model):\n"
    "    return waves(positions, d_model)": ("sinusoidal_encoding", "right", set()),
    "def positional_encoding():\n    return 1": ("positional_encoding", "unknown", set()),
    "def positional_encoding(zeal, d_model):\n    return 1": (
        "positional_encoding", "unknown", set()),
    "def add_positions(x):\n"
    "    return x + waves(range(x.shape[-2]), x.shape[-1])": ("add_positions", "right", set()),
    "def position_table(x):\n"
    "    return waves(range(x.shape[-2]), x.shape[-1])": ("position_table", "right", set()),
    "def position_table(x):\n"
    "    return waves(range(x.shape[-2]), x.shape[-1])[None]": ("position_table", "right", set()),
    "def position_table(x):\n    return np.ones((3, 3, 3))": ("position_table", "unknown", set()),
    "def add_positions(x):\n    raise KeyError('x')": ("add_positions", "unknown", set()),
    'def add_positions(x):\n    """x: (seq_len, batch, d_model)"""\n'
    "    return x + waves(range(x.shape[1]), x.shape[2])": (
        "add_positions", "wrong", {"position-by-batch"}),
    "class PositionalEncoding(torch.nn.Module):\n"
    "    def __init__(self, d_model, max_len=32):\n"
    "        super().__init__()\n"
    "        table = torch.zeros(max_len, d_model).long()\n"
    "        self.register_buffer('table', table)\n"
    "    def forward(self, x):\n"
    "        return x + self.table[: x.size(1)]": (
        "PositionalEncoding", "wrong", {"position-integer"}),
    "def alibi_slopes(n):\n    raise KeyError(n)": ("alibi_slopes", "unknown", set()),
    "def alibi_slopes(n):\n    return np.ones((n + 1, 2))": ("alibi_slopes", "unknown", set()),
    "def rope(x, offset=0):\n"
    "    assert offset == 0\n"
    "    d, t = x.shape[-1], x.shape[-2]\n"
    "    angle = np.arange(t)[:, None] * 10000.0 ** (-np.arange(0, d, 2) / d)\n"
    "    a, b, c, s = x[..., : d // 2], x[..., d // 2 :], np.cos(angle), np.sin(angle)\n"
    "    return np.concatenate([a * c - b * s, a * s + b * c], -1)": ("rope", "right", set()),
    "def rope(x):\n    return np.tanh(x) * 3": (
        "rope", "wrong", {"rotary-axis"}),
    "def rope(x):\n    return x[..., :3]": ("rope", "unknown", set()),
    "def rope(x):\n    return None": ("rope", "unknown", set()),
}  # fmt: skip


def test_encodings_of_odd_forms_are_judged(tmp_path: Path):
    cases = [
        Case(f"{n}-{name}", name, WAVES + code, frozenset(found))
        for n, (code, (name, _, found)) in enumerate(SUBJECTS.items())
    ]
    outcomes = judged(cases, tmp_path)
    came = {c.name: (o.verdict, faults(o)) for c, o in zip(cases, outcomes, strict=True)}
    meant = {
        c.name: (verdict, found)
        for c, (_, verdict, found) in zip(cases, SUBJECTS.values(), strict=True)
    }
    assert came == meant
