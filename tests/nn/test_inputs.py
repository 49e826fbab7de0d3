"""Odd arguments of modules are refused by name, with the remedy, before torch stumbles."""

from __future__ import annotations

from typing import Any

import pytest

import regard

torch = pytest.importorskip("torch")

from regard import nn  # noqa: E402

x, ids = torch.randn(2, 5, 16), torch.ones(2, 3, dtype=torch.int64)
attention = nn.MultiHeadAttention(16, 4)
rotary = nn.MultiHeadAttention(16, 4, position=nn.Rotary(4))


def model() -> nn.LanguageModel:
    return nn.LanguageModel(10, 16, 4, 1)


odd: Any = None
CALLS = {
    "width must be 1 or more": lambda: nn.MultiHeadAttention(0, 4),
    "head_width must be 1 or more": lambda: nn.MultiHeadAttention(16, 4, head_width=-1),
    r"query is torch.int64, .* with query.to\(torch.float32\)$": lambda: attention(x.long()),
    r"query is torch.float64.* or module.to\(torch.float64\)": lambda: attention(x.double()),
    "query must be 16 wide": lambda: attention(x[..., :3]),
    r"query must be \(B, T, 16\)": lambda: attention(x[0]),
    "key must be 16 wide": lambda: attention(x, x[..., :8]),
    "value must be 16 wide": lambda: attention(x, x, x[..., :8]),
    "query must be a torch tensor, but it is a ndarray": lambda: attention(x.numpy()),
    "cache must be Cache, Memory, but it is a list": lambda: attention(x, cache=[nn.Cache()]),
    "position must be Rotary, ALiBi, RelativeBias": lambda: nn.MultiHeadAttention(
        16, 4, position="rotary"
    ),
    r"Rotary\(8\) turns more numbers than the 4": lambda: nn.MultiHeadAttention(
        16, 4, position=nn.Rotary(8)
    ),
    "position is for 2 heads, but there are 4": lambda: nn.MultiHeadAttention(
        16, 4, position=nn.ALiBi(2)
    ),
    "position is for 3 heads, but there are 4": lambda: nn.MultiHeadAttention(
        16, 4, position=nn.RelativeBias(3)
    ),
    "positions must be one a token": lambda: rotary(x, positions=torch.arange(3)),
    "key must be 8 wide": lambda: nn.AdditiveAttention(16, 8, 4)(x, x),
    "key must be 16 wide, but its shape is": lambda: nn.MultiplicativeAttention(16, "dot")(
        x, x[..., :8]
    ),
    "query must be 16 wide, but its shape is": lambda: nn.MultiplicativeAttention(16)(
        x[..., :8], x
    ),
    "attention must be Scored": lambda: nn.LocalAttention(odd, 16, 2),
    r"one head is q\[None\]": lambda: nn.LinearAttention()(x[0], x[0], x[0]),
    "k must be 16 wide": lambda: nn.LinearAttention()(x, x[..., :3], x),
    "style must be Style, but it is a str": lambda: nn.EncoderBlock(16, 4, style="llama"),
    "layers must be 1 or more": lambda: nn.LanguageModel(10, 16, 4, 0),
    "tokens' numbers, int64 or int32": lambda: model()(torch.randn(2, 3)),
    r"one text is ids\[None\]": lambda: model()(ids[0]),
    "ids must be a torch tensor": lambda: model()([[1, 2]]),
    "shared=True needs one vocabulary": lambda: nn.Seq2Seq(10, 12, 16, 4, 1, shared=True),
    "ids must hold at least one token": lambda: nn.generate(model(), ids[:, :0], new=2),
    "how must be Greedy, Sample, Beam": lambda: nn.generate(model(), ids, new=2, how="greedy"),
    "model must be LanguageModel, Seq2Seq": lambda: nn.generate(odd, ids, new=2),
    "theirs must be MultiheadAttention": lambda: nn.from_multihead(odd),
    "ours must be MultiHeadAttention": lambda: nn.to_multihead(odd),
    r"from_multihead\(layer\) makes ours": lambda: nn.replace(torch.nn.MultiheadAttention(8, 2)),
}  # type: ignore[arg-type, dict-item]


@pytest.mark.parametrize("words", CALLS)
def test_odd_arguments_are_refused_by_name(words: str) -> None:
    with pytest.raises(regard.RegardError, match=words):
        CALLS[words]()


def test_under_autocast_dtypes_may_differ() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert attention(x).dtype == torch.bfloat16
        assert attention(x.bfloat16()).dtype == torch.bfloat16
