"""Faults put one by one, and in pairs, into right code of three styles, in NumPy and in torch.

A style is a text with a slot for each step; a fault is another text for one slot.  Each fault has
one text a library, whatever the style around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from subjects import Case

SLOTS: dict[str, dict[str, str]] = {
    "torch": {
        "doc": "",
        "act": "",
        "split": "y.view(B, -1, H, D).transpose(1, 2)",
        "scores": "s = q @ k.transpose(-2, -1)",
        "scale": "s = s / D ** 0.5",
        "mask": 's = s.masked_fill(~mask[:, None], float("-inf"))',
        "causal": "",
        "softmax": "w = torch.softmax(s, dim=-1)",
        "after": "",
        "mix": "y = w @ v",
        "merge": "y = y.transpose(1, 2).reshape(B, T, H * D)",
        "out": "return {o}",
    },
    "numpy": {
        "doc": "",
        "act": "",
        "split": "y.reshape(B, -1, H, D).transpose(0, 2, 1, 3)",
        "scores": "s = q @ k.swapaxes(-1, -2)",
        "scale": "s = s / np.sqrt(D)",
        "mask": "s = np.where(mask[:, None], s, -np.inf)",
        "causal": "",
        "softmax": "w = softmax(s, axis=-1)",
        "after": "",
        "mix": "y = w @ v",
        "merge": "y = y.transpose(0, 2, 1, 3).reshape(B, T, H * D)",
        "out": "return {o}",
    },
}

HEAD = {
    "torch": "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n",
    "numpy": (
        "import numpy as np\n\n"
        "def softmax(x, axis):\n"
        "    e = np.exp(x - x.max(axis=axis, keepdims=True))\n"
        "    return e / e.sum(axis=axis, keepdims=True)\n\n"
        "def relu(x):\n    return np.maximum(x, 0)\n"
    ),
}

CORE = """
{indent}{scores}
{indent}{scale}
{indent}if mask is not None:
{indent}    {mask}
{indent}{causal}
{indent}{softmax}
{indent}{after}
{indent}{mix}
{indent}{merge}
{indent}{out}
"""

STYLES: dict[tuple[str, str], tuple[str, str, str]] = {
    ("torch", "separate"): (
        "Attention",
        '''
class Attention(nn.Module):
    """Multi-head self-attention over x (batch, seq_len, d_model).

    mask (batch, seq_len, seq_len): True where a query may attend. {doc}
    """
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_model = d_model
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x, mask=None):
        B, T, C = x.shape
        H, D = self.num_heads, C // self.num_heads
        split = lambda y: {split}
        q, k, v = (split({act}(f(x))) for f in (self.q_proj, self.k_proj, self.v_proj))
''',
        "self.out_proj(y)",
    ),
    ("torch", "three"): (
        "MultiHead",
        '''
class MultiHead(nn.Module):
    """query, key, value: (batch, seq_len, dim); mask: (batch, queries, keys), 1 = keep. {doc}"""
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, query, key, value, mask=None):
        B, T, C = query.shape
        H = self.heads
        D = C // H
        mask = None if mask is None else mask.bool()
        q, k, v = [
            ({split}) for y in (
                {act}(self.W_q(query)), {act}(self.W_k(key)), {act}(self.W_v(value)))]
''',
        "self.W_o(y)",
    ),
    ("torch", "fused"): (
        "SelfAttention",
        '''
class SelfAttention(nn.Module):
    """mask: boolean (B, T, T), True positions take part in attention. {doc}"""
    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.n_embd = n_embd
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x, mask=None):
        B, T, C = x.size()
        H, D = self.n_head, C // self.n_head
        q, k, v = {act}(self.c_attn(x)).split(self.n_embd, dim=2)
        q, k, v = (({split}) for y in (q, k, v))
''',
        "self.c_proj(y)",
    ),
    ("numpy", "class"): (
        "Attention",
        '''
class Attention:
    """Multi-head self-attention over x (batch, seq_len, d_model).

    mask (batch, seq_len, seq_len): True where a query may attend. {doc}
    """
    def __init__(self, d_model, num_heads):
        self.num_heads = num_heads
        rng = np.random.default_rng(7)
        self.W_q, self.W_k, self.W_v, self.W_o = (
            rng.normal(size=(d_model, d_model)) / d_model ** 0.5 for _ in range(4))

    def forward(self, x, mask=None):
        B, T, C = x.shape
        H, D = self.num_heads, C // self.num_heads
        split = lambda y: {split}
        q, k, v = split({act}(x @ self.W_q)), split({act}(x @ self.W_k)), split({act}(x @ self.W_v))
''',
        "y @ self.W_o",
    ),
    ("numpy", "function"): (
        "multi_head_attention",
        '''
def multi_head_attention(x, W_q, W_k, W_v, W_o, num_heads, mask=None):
    """x: (batch, seq_len, d_model); mask: (batch, seq_len, seq_len), True = visible. {doc}"""
    B, T, C = x.shape
    H, D = num_heads, C // num_heads
    q, k, v = [({split}) for y in ({act}(x @ W_q), {act}(x @ W_k), {act}(x @ W_v))]
''',
        "y @ W_o",
    ),
    ("numpy", "three"): (
        "MHA",
        '''
class MHA:
    """q, k, v: (batch, length, dim). mask: (batch, length, length); 1s are kept. {doc}"""
    def __init__(self, dim, heads):
        self.heads = heads
        r = np.random.RandomState(5)
        self.wq, self.wk, self.wv, self.wo = (r.randn(dim, dim) / dim ** 0.5 for _ in range(4))

    def __call__(self, q, k, v, mask=None):
        B, T, C = q.shape
        H, D = self.heads, C // self.heads
        mask = None if mask is None else np.asarray(mask) != 0
        q, k, v = [({split}) for y in ({act}(q @ self.wq), {act}(k @ self.wk), {act}(v @ self.wv))]
''',
        "y @ self.wo",
    ),
}  # fmt: skip

FUTURE = {
    "torch": "torch.ones(T, T, dtype=torch.bool)",
    "numpy": "np.ones((T, T), dtype=bool)",
}


def _causal(library: str, keep: str) -> str:
    full = FUTURE[library]
    if library == "torch":
        return f's = s.masked_fill(~{full}.{keep}, float("-inf"))'
    name, _, rest = keep.partition("(")
    return f"s = np.where(np.{name}({full}, {rest.replace(')', '') or 0}), s, -np.inf)"


def _both(torch: str, numpy: str) -> dict[str, str]:
    return {"torch": torch, "numpy": numpy}


FAULTS: dict[str, tuple[str, dict[str, str]]] = {
    "scale-model-dim": ("scale", _both("s = s / C ** 0.5", "s = s / np.sqrt(C)")),
    "scale-missing": ("scale", _both("", "")),
    "scale-no-root": ("scale", _both("s = s / D", "s = s / D")),
    "scale-inverted": ("scale", _both("s = s * D ** 0.5", "s = s * np.sqrt(D)")),
    "scale-precedence": ("scale", _both("s = s / (D ** 1 / 2)", "s = s / (D ** 1 / 2)")),
    "scale-wrong-size": ("scale", _both("s = s / H ** 0.5", "s = s / np.sqrt(T)")),
    "scale-twice": (
        "scale",
        _both("s = s / D ** 0.5 / D ** 0.5", "s = s / np.sqrt(D) / np.sqrt(D)"),
    ),
    "softmax-axis": ("softmax", _both("w = torch.softmax(s, dim=-2)", "w = softmax(s, axis=-2)")),
    "softmax-heads": ("softmax", _both("w = torch.softmax(s, dim=1)", "w = softmax(s, axis=1)")),
    "softmax-single": (
        "softmax",
        _both(
            "w = torch.softmax(s.unsqueeze(-1), dim=-1).squeeze(-1)",
            "w = softmax(s[..., None], axis=-1)[..., 0]",
        ),
    ),
    "softmax-missing": ("softmax", _both("w = s", "w = s")),
    "split-no-transpose": ("split", _both("y.reshape(B, H, -1, D)", "y.reshape(B, H, -1, D)")),
    "merge-no-transpose": ("merge", _both("y = y.reshape(B, T, H * "
                                          "D)", "y = y.reshape(B, T, H * D)")),
    "output-projection-missing": ("out", _both("return y", "return y")),
    "projection-nonlinear": ("act", _both("F.relu", "relu")),
    "value-wrong-source": ("mix", _both("y = w @ k", "y = w @ k")),
    "query-key-swapped": (
        "scores",
        _both("s = k @ q.transpose(-2, -1)", "s = k @ q.swapaxes(-1, -2)"),
    ),
    "mask-inverted": (
        "mask",
        _both('s = s.masked_fill(mask[:, None], float("-inf")'
              ')', "s = np.where(mask[:, None], -np.inf, s)"),
    ),
    "mask-multiplied": ("mask", _both("s = s * mask[:, None]", "s = s * mask[:, None]")),
    "mask-nan": (
        "mask",
        _both('s = s + (~mask[:, None]) * float("-inf")', "s = s + (~mask[:, None]) * -np.inf"),
    ),
    "mask-ignored": ("mask", _both('s.masked_fill(~mask[:, None], float("-inf")'
                                   ')', "np.where(mask[:, None], s, -np.inf)")),
    "mask-added": ("mask", _both("s = s + mask[:, None]", "s = s + mask[:, None]")),
    "mask-too-weak": ("mask", _both("s = s.masked_fill(~mask[:, None], "
                                    "-5.0)", "s = np.where(mask[:, None], s, -5.0)")),
    "causal-transposed": ("causal", {x: _causal(x, "triu()") for x in SLOTS}),
    "causal-off-by-one": ("causal", {x: _causal(x, "tril(1)") for x in SLOTS}),
    "dropout-in-eval": (
        "after",
        _both("w = F.dropout(w, 0.2)", "w = w * (np.random.rand(*w.shape) > 0.2) / 0.8"),
    ),
}  # fmt: skip
"""A fault is a slot and its text in each library."""


@dataclass(frozen=True)
class Style:
    """One of the styles of right code."""

    library: str
    name: str

    def case(self, *faults: str) -> Case:
        """The style's code with these faults in it."""
        target, head, output = STYLES[self.library, self.name]
        slots = dict(SLOTS[self.library])
        if any(FAULTS[f][0] == "causal" for f in faults):
            slots["doc"] = "Causal."
        for fault in faults:
            slot, texts = FAULTS[fault]
            slots[slot] = texts[self.library]
        slots["out"] = slots["out"].format(o=output)
        indent = "    " if head.startswith("\ndef") else "        "
        code = HEAD[self.library] + head.format(**slots) + CORE.format(indent=indent, **slots)
        return Case("-".join((self.library, self.name, *faults)), target, code, frozenset(faults))


STYLES_ALL = [Style(*key) for key in STYLES]


def single() -> Iterator[Case]:
    """Every fault in every style."""
    for style in STYLES_ALL:
        for fault in FAULTS:
            yield style.case(fault)


def pairs() -> Iterator[Case]:
    """Every pair of faults that fill different slots, in every style."""
    for style in STYLES_ALL:
        for one, two in itertools.combinations(FAULTS, 2):
            if FAULTS[one][0] != FAULTS[two][0] and not {one, two} & ALONE:
                yield style.case(one, two)


ALONE = {"mask-nan", "softmax-single", "softmax-missing"}
"""What hides every other fault of the mask or the scores: in pairs nobody could name both."""
