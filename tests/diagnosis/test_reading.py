"""What is read from text: masks, layouts, names; and the small steps that numbers go through."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from regard.diagnosis.calling import given_back, output_of, place
from regard.diagnosis.chance import HIGH, LOW, keeping
from regard.diagnosis.isolate import run
from regard.diagnosis.lines import line_of, mend_of
from regard.diagnosis.prose import mask_meaning, means_causal, stated_window
from regard.diagnosis.roles import parameter_role, size_role, weight_role
from regard.diagnosis.search import distance
from regard.diagnosis.source import (
    Source,
    letters,
    read,
    shapes_in,
    stated_layout,
    states_square_weights,
)
from regard.diagnosis.steps import rotate, rule_of, softmax
from regard.diagnosis.subject import to_numpy


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("mask: True where a query may attend", "keep"),
        ("mask: True means the position is masked", "drop"),
        ("1 = keep, 0 = drop", "keep"),
        ("mask (B, S): 1 for padding, 0 for tokens", "drop"),
        ("1.0 for valid keys and 0.0 for padded ones", "keep"),
        ("positions with False are ignored", "keep"),
        ("True positions must not be attended to", "drop"),
        ("True for real tokens. Some have no real token at all (mask all False)", "keep"),
        ("nonzero entries are hidden", "drop"),
        ("src_mask: (batch, seq) True = word", "keep"),
        ("0 for tokens to skip over", "keep"),
        ("0 where attention is allowed and -inf where not", "additive"),
        ("additive mask", "additive"),
        ("mask 中 1 表示有效位置，0 表示被屏蔽的填充位置", "keep"),
        ("True 表示需要屏蔽", "drop"),
        ("加性掩码", "additive"),
        ("an attention mask", None),
        ("", None),
    ],
)
def test_the_meaning_of_a_mask_is_read(text: str, meaning: str | None):
    assert mask_meaning(text) == meaning


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ('"""x: (batch, seq_len, d_model)"""', "BTC"),
        ('"""x: [seq_len, batch_size, embedding_dim]"""', "TBC"),
        ("B, T, C = x.shape", "BTC"),
        ("tgt_len, bsz, embed_dim = x.size()", "TBC"),
        ('"""q: (B, H, T, D)"""', "BHTD"),
        ('"""X: (n_tokens, d_model)"""', "TC"),
        ("N = x.shape[0]", "BTC"),
        ("pass", None),
    ],
)
def test_a_layout_is_read(text: str, layout: str | None):
    assert stated_layout(read(f"def f(x):\n    {text}\n", "f")) == layout


def test_shapes_are_letters():
    assert letters(["batch", "heads", "seq", "dim"]) == "BHTD"
    assert shapes_in("x (批大小, 序列长度, 模型维度)") == ["BTC"]
    assert shapes_in("(foo, bar)") == []


@pytest.mark.parametrize(
    ("name", "role"),
    [("Q", "q"), ("keys", "k"), ("W_q", "wq"), ("w_out", "wo"), ("hidden_states", "x"),
     ("encoder_output", "context"), ("src_mask", "mask"), ("key_padding_mask", "pad"),
     ("my_pad_mask", "pad"), ("valid_lens", "lengths"), ("num_heads", "heads"),
     ("kv_nheads", "groups"),
     ("query_vec", "q"), ("key_vec", "k"), ("value_vec", "v"), ("bq", "bq"), ("zeal", "other")],
)  # fmt: skip
def test_parameters_have_roles(name: str, role: str):
    assert parameter_role(name) == role


@pytest.mark.parametrize(
    ("name", "role"),
    [("embed_size", "model_dim"), ("h", "heads"), ("n_kv_heads", "groups"), ("head_num", "heads"),
     ("drop_path", "dropout"), ("some_bias", "bias"), ("my_dim", "model_dim"), ("maxlen", "length"),
     ("the_len", "length"), ("zeal", "other")],
)  # fmt: skip
def test_sizes_have_roles(name: str, role: str):
    assert size_role(name) == role


@pytest.mark.parametrize(
    ("name", "role"),
    [("q_proj", "q"), ("W_key", "k"), ("tovalues", "v"), ("c_attn", "qkv"), ("to_kv", "kv"),
     ("unifyheads", "o"), ("c_proj", "o"), ("norm", None)],
)  # fmt: skip
def test_weights_have_roles(name: str, role: str | None):
    assert weight_role(name) == role


def test_intent_is_read():
    assert means_causal(Source(), "CausalSelfAttention")
    assert not means_causal(Source(docs=("Bidirectional, not causal.",)), "f")
    code = "def attend(q, k, v, is_causal: bool = False):\n    return q"
    assert not means_causal(Source(code, spans=((1, 2),)), "attend")
    assert means_causal(Source("mask = np.tril(np.ones((n, n)))", spans=((1, 1),)), "f")
    assert stated_window(Source(docs=("n previous tokens and itself",))) == "before"
    assert stated_window(Source(docs=("n tokens, itself included",))) == "own"


@pytest.mark.parametrize("text", ["def f(:", "x = '"])
def test_what_does_not_parse_is_no_source(text: str):
    assert read(text, "f") == Source()


def test_an_alias_is_followed_to_its_class():
    source = read("class A:\n    '''(batch, seq, dim)'''\n\nmine = A()\nalso = A\n", "mine")
    assert source.name == "A"
    assert read("x = 3\n", "x").spans == ((1, 1),)


def test_a_fault_has_a_line_and_a_mend():
    source = read(
        "def f(q, k, v):\n    d = q.shape[-1]\n    s = q @ k.T / d\n    return s @ v\n", "f"
    )
    assert line_of(source, "scale-no-root") == 3
    assert mend_of(source, "scale-no-root", 3) == "s = q @ k.T / d ** 0.5"
    assert mend_of(source, "scale-no-root", None) is None
    assert line_of(Source(), "scale-no-root") is None


@pytest.mark.parametrize("layout", ["BTC", "TBC", "BCT", "TC"])
def test_plain_layouts_go_there_and_back(layout: str):
    x = np.arange(30.0).reshape(2, 5, 3) if layout != "TC" else np.arange(15.0).reshape(1, 5, 3)
    placed = place(x, layout)
    assert np.array_equal(given_back(x, layout, placed), placed)


@pytest.mark.parametrize("layout", ["BHTD", "BTHD", "HTD", "BTD", "TD", "TBD"])
def test_headed_layouts_go_there_and_back(layout: str):
    batch, heads = (1 if layout in ("HTD", "TD") else 2), (3 if "H" in layout else 1)
    x = np.arange(batch * heads * 20.0).reshape(batch, heads, 5, 4)
    assert np.array_equal(given_back(x, layout, place(x, layout)), place(x, layout))
    if heads > 1:
        merged = x.swapaxes(1, 2).reshape(batch, 5, heads * 4)
        merged = merged[0] if layout == "HTD" else merged
        assert np.array_equal(given_back(x, layout, merged), merged)


def test_a_layout_that_is_none_is_refused():
    with pytest.raises(ValueError, match="XYZ"):
        place(np.zeros((2, 3)), "XYZ")


def test_the_output_is_found_among_what_is_returned():
    x, w = np.zeros((2, 3)), np.ones((3, 3))
    assert output_of((x, w)) is x
    assert output_of((w, x), (2, 3)) is x
    assert output_of({"attn_output": x}) is x
    assert output_of({"other": w}) is w
    assert output_of(3) is None
    assert output_of(np.zeros((2, 3), int)) is None
    assert output_of(type("Output", (), {"last_hidden_state": x})()) is x


def test_anything_becomes_numpy():
    assert to_numpy([[1, 2], [3, 4]]).shape == (2, 2)
    assert to_numpy([[1], [2, 3]]) == ((1,), (2, 3))
    assert to_numpy(np.float64(3)).shape == ()
    assert to_numpy({"a": [1]}) == {"a": (1,)}
    assert to_numpy(None) is None


def test_every_draw_is_kept():
    mine = {"rng": np.random.default_rng(0)}
    for value in (HIGH, LOW):
        with keeping(value, mine):
            assert (np.random.rand(2, 3) == value).all()  # noqa: NPY002
            assert np.random.random() == value  # noqa: NPY002
            assert (np.random.uniform(0, 2, (2,)) == 2 * value).all()  # noqa: NPY002
            assert (np.random.binomial(1, 0.5, (3,)) == 1).all()  # noqa: NPY002
            assert (np.random.choice([0, 1], 4) == 1).all()  # noqa: NPY002
            assert (np.random.default_rng(1).random((2,)) == value).all()
            assert mine["rng"].uniform() == value
            assert (mine["rng"].binomial(1, 0.5, (2,)) == 1).all()
    assert mine["rng"].random() != HIGH


def test_steps_refuse_what_they_cannot():
    with pytest.raises(ValueError, match="even"):
        rotate(np.zeros((2, 3)), np.arange(2), "halves")
    with pytest.raises(ValueError, match="thirds"):
        rotate(np.zeros((2, 4)), np.arange(2), "thirds")
    with pytest.raises(KeyError):
        rule_of("sometimes", 2, 2, None, None)


@pytest.mark.parametrize("pairing", ["halves", "pairs"])
def test_a_rotation_keeps_norms_and_depends_on_distance_alone(pairing: str):
    random = np.random.default_rng(0)
    at = np.arange(6)
    q, k = (rotate(np.tile(random.standard_normal(8), (6, 1)), at, pairing) for _ in range(2))
    assert np.allclose(np.linalg.norm(q, axis=-1), np.linalg.norm(q[0]))
    products = q @ k.T
    assert np.allclose(np.diag(products, 2), products[0, 2])


def test_distance_forgives_empty_rows_and_no_others():
    reference = np.array([[np.nan, np.nan], [1.0, 2.0], [3.0, 4.0]])
    assert distance(reference, np.array([[9.0, 9.0], [1.0, 2.0], [3.0, 4.0]])) == 0
    assert distance(reference, np.array([[9.0, 9.0], [1.0, np.nan], [3.0, 4.0]])) == np.inf
    assert distance(reference[:1], np.zeros((1, 2))) == np.inf
    assert distance(reference, np.zeros((2, 2))) == np.inf


def test_a_softmax_of_a_row_sums_to_one():
    s = np.random.default_rng(1).standard_normal((3, 4))
    assert np.allclose(softmax(s).sum(-1), 1)


@pytest.mark.parametrize(
    ("text", "layout"),
    [
        ("Input shape: Batch x Time x Channel.", "BTC"),
        ("shape: time, batch, channels", "TBC"),
        ("形状：batch x seq x d_model", "BTC"),
        ("the shape of things to come", None),
    ],
)
def test_a_shape_without_brackets_is_read(text: str, layout: str | None):
    assert stated_layout(Source(docs=(text,))) == layout


def test_a_matrix_of_equal_sides_is_read():
    assert states_square_weights(Source(docs=("weights (channels, channels)",)))
    assert not states_square_weights(Source(docs=("scores (seq, seq); w (d_model, d_k)",)))


def test_a_missing_resource_module_limits_nothing(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert run(lambda: 3, 10) == 3
