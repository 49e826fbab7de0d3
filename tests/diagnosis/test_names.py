"""What the parameters of a call are: by their names, their company, and what the code does."""

from __future__ import annotations

import pytest

from regard.diagnosis.parameters import parameters_of
from regard.diagnosis.source import letters, read
from regard.diagnosis.subject import to_numpy
from regard.diagnosis.use import roles_by_use
from subjects import Case, faults, judged, risks

CALLS = {
    "def f(token_features, n_attn_heads): pass": "x heads",
    "def f(dec_state, enc_states): pass": "x context",
    "def f(a, b): pass": "q context",
    "def f(memory, a): pass": "context q",
    "def f(alpha, beta, gamma, delta): pass": "q k v mask",
    "def f(a): pass": "x",
    "def f(h): pass": "x",
    "def f(x, h): pass": "x heads",
    "def f(x, y_in, h): return y_in": "x other heads",
    "def f(q, k, v, h): pass": "q k v heads",
    "def f(q, k, v, x): pass": "q k v pad",
    "def f(q, cache_k, cache_v): pass": "q k v",
    "def f(q): pass": "x",
    "def f(tgt, src): pass": "x context",
    "def f(tgt, src_k, value): pass": "q k v",
    "def f(x, k: int): pass": "x head_dim",
    "def f(x, heads):\n    for one in heads: pass": "x other",
    "def f(x, parts):\n    for h in range(parts): pass": "x heads",
    "def f(x, mask):\n    return mask @ x": "x context",
    "def f(x, where_to_look=None):\n    return x.masked_fill(where_to_look == 0, 0)": "x mask",
    "def f(x, causal=2): pass": "x other",
    "def f(x, one, two, three):\n    q, k = x @ one, x @ two\n    v = x @ three": "x wq wk wv",
    "def f(x, one, two, three):\n    q, k, v = (x @ m for m in (one, two, three))": "x wq wk wv",
    "def f(v, here, there):\n    k = there[:, None]\n    q = here[:, None]": "v q k",
}


@pytest.mark.parametrize(("code", "roles"), CALLS.items(), ids=CALLS)
def test_parameters_have_roles(code: str, roles: str):
    space: dict = {}
    exec(code, space)
    found = parameters_of(space["f"], read(code, "f"))
    assert " ".join(p.role for p in found) == roles


def test_a_callable_without_a_signature_is_torchs():
    names = [p.name for p in parameters_of(type, read("", "type"))]
    assert names[:4] == ["query", "key", "value", "attn_mask"]


def test_the_last_projection_left_is_the_output():
    code = """
class A:
    def forward(self, x):
        q, k, v = self.a(x).chunk(3, -1)
        y = self.mix(q, k, v)
        return self.b(y)
"""
    assert roles_by_use(read(code, "A"), {"a", "b"}) == {"a": "qkv", "b": "o"}


@pytest.mark.parametrize(
    ("words", "shape"),
    [
        ("batch, seq_len, model_width", "BTC"),
        ("n_sentences, n_words, emb_width", "BTC"),
        ("batch, attn_heads, query_len, size_per_head", "BHTD"),
        ("batch, tokens, d_query", "BTD"),
    ],
)
def test_words_of_several_parts_are_letters(words: str, shape: str):
    assert letters(words.split(", ")) == shape


WEAK = '''
import numpy as np

def causal_attention(q, k, v):
    """Causal; q, k, v: (seq, d)"""
    s = q @ k.T / np.sqrt(q.shape[-1])
    s = np.where(np.tri(*s.shape), s, FILL)
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v
'''


@pytest.mark.parametrize(("fill", "found"), [("-1e4", {"mask-too-weak"}), ("-np.inf", set())])
def test_a_rule_of_its_own_is_poisoned(fill: str, found: set[str], tmp_path):
    case = Case("weak", "causal_attention", WEAK.replace("FILL", fill))
    (outcome,) = judged([case], tmp_path)
    assert (faults(outcome), risks(outcome) & {"mask-too-weak"}) == (set(), found)


LOST = '''
import numpy as np

def causal_heads(q, k, v):
    """Causal; q, k, v: (batch, heads, seq, d_head)"""
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    s = np.where(np.tri(s.shape[-1], k=1), s, -np.inf)
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v
'''


def test_rows_that_are_lost_tell_which_scores_were_hidden(tmp_path):
    (outcome,) = judged([Case("lost", "causal_heads", LOST)], tmp_path)
    assert faults(outcome) == {"softmax-heads", "causal-off-by-one"}


def test_numbers_in_lists_are_arrays():
    assert to_numpy([[1, 2], [3, 4]]).shape == (2, 2)
