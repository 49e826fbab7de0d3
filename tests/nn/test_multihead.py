"""torch's layer and ours, both ways, in every combination that we claim."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import regard

torch = pytest.importorskip("torch")

from regard.nn import MultiHeadAttention, Rotary  # noqa: E402
from regard.nn.conversion.multihead import from_multihead, replace, to_multihead  # noqa: E402

C, H, B, T, S = 12, 2, 2, 4, 5


def layer(**options: Any) -> Any:
    made = torch.nn.MultiheadAttention(C, H, **options)
    for p in made.parameters():
        torch.nn.init.normal_(p, std=0.5)
    return made.eval()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [(C, C), (7, 9), (7, 7)])
def test_the_same_outputs_and_weights_both_ways(bias: bool, widths: tuple[int, int]) -> None:
    theirs = layer(bias=bias, kdim=widths[0], vdim=widths[1], batch_first=True)
    q, k, v = torch.randn(B, T, C), torch.randn(B, S, widths[0]), torch.randn(B, S, widths[1])
    want, weights = theirs(q, k, v, average_attn_weights=False)
    ours = from_multihead(theirs)
    torch.testing.assert_close(ours(q, k, v), want)
    torch.testing.assert_close(ours.weights(q, k).dense(), weights)
    again = to_multihead(ours)
    for one, other in zip(again.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
    with torch.no_grad():
        ours.query.weight.zero_()
    assert not torch.equal(theirs(q, k, v)[0], ours(q, k, v))  # a copy, not a view


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    ("padding", "mask"),  # of one kind each: torch deprecates two
    [
        (None, None),
        (None, "bool"),
        (None, "float"),
        (None, "by head"),
        ("bool", None),
        ("float", None),
        ("bool", "bool"),
        ("bool", "by head"),
        ("float", "float"),
    ],
)
@pytest.mark.parametrize("average", [True, False])
def test_replaced_it_is_called_as_before(
    batch_first: bool, padding: str | None, mask: str | None, average: bool
) -> None:
    theirs = layer(batch_first=batch_first)
    model = torch.nn.Sequential(theirs)
    ours = copy.deepcopy(model)
    assert replace(ours) == 1
    q, k = torch.randn(B, T, C), torch.randn(B, S, C)
    q, k = (a if batch_first else a.transpose(0, 1) for a in (q, k))
    hidden = torch.arange(S) >= torch.tensor([[4], [5]])
    seen = torch.rand(T, S) < 0.7
    seen[:, 0] = True
    masks = {
        None: None,
        "bool": ~seen,
        "float": torch.randn(T, S),
        "by head": (~seen).expand(B * H, T, S),
    }
    paddings = {None: None, "bool": hidden, "float": torch.randn(B, S)}
    options = {"key_padding_mask": paddings[padding], "attn_mask": masks[mask]}
    want = theirs(q, k, k, **options, average_attn_weights=average)
    found = ours[0](q, k, k, **options, average_attn_weights=average)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other)
    assert ours[0](q, k, k, need_weights=False)[1] is None


def test_plain_sequences_without_a_batch() -> None:
    theirs = layer()
    ours = torch.nn.Sequential(copy.deepcopy(theirs))
    replace(ours)
    q, k = torch.randn(T, C), torch.randn(S, C)
    hidden = torch.tensor([False, False, False, True, True])
    for one, other in zip(
        ours[0](q, k, k, key_padding_mask=hidden),
        theirs(q, k, k, key_padding_mask=hidden),
        strict=True,
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_a_whole_transformer_of_torch_is_replaced(training: bool, causal: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "enable_nested_tensor")  # of no use where it is causal
        model = torch.nn.Transformer(C, H, 2, 2, 24, dropout=0.0, batch_first=True)
    model.train(training)
    source, target = torch.randn(B, S, C), torch.randn(B, T, C)
    options: dict[str, Any] = {}
    if causal:
        options = {
            "tgt_mask": torch.nn.Transformer.generate_square_subsequent_mask(T),
            "tgt_is_causal": True,
        }
    want = model(source, target, **options)
    assert replace(model) == 6
    assert not any(isinstance(m, torch.nn.MultiheadAttention) for m in model.modules())
    torch.testing.assert_close(model(source, target, **options), want)
    encoder = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(C, H, 24, dropout=0.0, batch_first=True),
        2,
        enable_nested_tensor=False,
    ).train(training)
    pad = torch.arange(S) >= torch.tensor([[3], [5]])
    want = encoder(source, src_key_padding_mask=pad)
    replace(encoder)
    shown = ~pad[..., None].expand(want.shape if want.shape[1] == S else (B, 3, C))
    found = encoder(source, src_key_padding_mask=pad)
    torch.testing.assert_close(found[shown], want[shown])


def test_an_empty_row_is_0_where_torch_says_nan() -> None:
    theirs = layer(batch_first=True)
    model = torch.nn.Sequential(copy.deepcopy(theirs))
    replace(model)
    x, hidden = torch.randn(B, T, C), torch.ones(B, T, dtype=torch.bool)
    assert torch.isnan(theirs(x, x, x, key_padding_mask=hidden)[0]).all()
    out, weights = model[0](x, x, x, key_padding_mask=hidden)
    assert torch.equal(out, model[0].attention.output.bias.expand_as(out))
    assert not weights.any()


@pytest.mark.parametrize("bias_kv", [True, False])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("masks", [None, "bool", "float", "causal"])
@pytest.mark.parametrize("widths", [(C, C), (7, 9)])
def test_keys_of_no_token_stay(
    bias_kv: bool, zero: bool, masks: str | None, widths: tuple[int, int]
) -> None:
    theirs = layer(
        add_bias_kv=bias_kv, add_zero_attn=zero, kdim=widths[0], vdim=widths[1], batch_first=True
    )
    model = torch.nn.Sequential(copy.deepcopy(theirs))
    assert replace(model) == 1
    q, k, v = torch.randn(B, T, C), torch.randn(B, S, widths[0]), torch.randn(B, S, widths[1])
    hidden = torch.arange(S) >= torch.tensor([[4], [5]])
    seen = torch.rand(T, S) < 0.7
    seen[:, 0] = True
    options: dict[str, Any] = {
        None: {},
        "bool": {"key_padding_mask": hidden, "attn_mask": ~seen},
        "float": {"key_padding_mask": torch.randn(B, S), "attn_mask": torch.randn(B * H, T, S)},
        "causal": {"attn_mask": torch.ones(T, T, dtype=torch.bool).triu(1), "is_causal": True},
    }[masks]
    if masks == "causal":
        k, v = k[:, :T], v[:, :T]
    want = theirs(q, k, v, **options)
    found = model[0](q, k, v, **options)
    for one, other in zip(found, want, strict=True):
        torch.testing.assert_close(one, other)
    assert found[1].shape[-1] == k.shape[1] + bias_kv + zero
    found[0].sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_torchs_encoder_takes_its_own_way_no_longer() -> None:
    """In evaluation, with padding: where torch would go on with nested tensors."""
    encoder = torch.nn.TransformerEncoder(
        torch.nn.TransformerEncoderLayer(C, H, 24, batch_first=True), 2
    ).eval()
    x, pad = torch.randn(B, S, C), torch.arange(S) >= torch.tensor([[3], [5]])
    with torch.no_grad():
        replace(encoder)
        found = encoder(x, src_key_padding_mask=pad)
        alone = encoder(x[:1, :3])
    torch.testing.assert_close(found[:1, :3], alone)
    assert found.shape == x.shape


def test_arrays_that_do_not_fit_are_refused_by_name() -> None:
    model = torch.nn.Sequential(layer(batch_first=True))
    replace(model)
    q, k = torch.randn(B, T, C), torch.randn(B, S, C)
    for options, words in (
        ({"query": q[None]}, "query must have 3 axes, or 2 without a batch"),
        ({"key": k[0]}, "key must have as many axes as query, 3"),
        ({"value": k[0]}, "value must have as many axes as query, 3"),
        ({"key_padding_mask": torch.ones(S) > 0}, r"key_padding_mask must be \(2, 5\) here"),
        ({"attn_mask": torch.ones(S) > 0}, r"attn_mask must be \(4, 5\) or \(4, 4, 5\) here"),
        ({"attn_mask": torch.zeros(B, T, S)}, r"but its shape is \(2, 4, 5\)"),
    ):
        with pytest.raises(regard.ShapeError, match=words):
            model[0](**{"query": q, "key": k, "value": k, **options})
    nested = torch.nested.nested_tensor([q[0], k[0]], layout=torch.jagged)
    with pytest.raises(regard.KindError, match="pad them, and say so by key_padding_mask"):
        model[0](nested, nested, nested)


def test_what_one_of_them_has_not_is_refused() -> None:
    for options in ({"add_bias_kv": True}, {"add_zero_attn": True}):
        with pytest.raises(regard.KindError, match=r"keys of no token.*replace\(model\) keeps"):
            from_multihead(layer(**options))
    for options, word in (
        ({"key_heads": 1}, "key_heads"),
        ({"position": Rotary(4)}, "position"),
        ({"sink": True}, "sink"),
        ({"gate": True}, "gate"),
        ({"output_width": 5}, "output_width"),
        ({"head_width": 5}, "head_width"),
        ({"output_bias": False}, "output_bias"),
    ):
        with pytest.raises(regard.KindError, match=f"has no {word}"):
            to_multihead(MultiHeadAttention(C, H, **options))  # type: ignore[arg-type]
    model = torch.nn.Sequential(layer())
    replace(model)
    with pytest.raises(regard.KindError, match="give that too"):
        model[0](*[torch.randn(T, B, C)] * 3, is_causal=True)
