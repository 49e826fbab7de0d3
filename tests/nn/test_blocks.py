"""Laws of every module: batch entries apart, order, causality, caches, saving, learning."""

from __future__ import annotations

import copy
import io
import math
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

import regard

torch = pytest.importorskip("torch")

from regard.nn import (  # noqa: E402
    LLAMA,
    ORIGINAL,
    T5,
    ALiBi,
    Cache,
    DecoderBlock,
    Encoder,
    EncoderBlock,
    LanguageModel,
    Learned,
    Memory,
    MultiHeadAttention,
    RelativeBias,
    Rotary,
    Seq2Seq,
    Sinusoidal,
    StaticCache,
    Style,
    YaRNScaling,
)

C, H, T, V = 16, 4, 7, 23
STYLES: dict[str, Style] = {
    "plain": Style(),
    "2017": ORIGINAL,
    "Llama": LLAMA,
    "T5": T5,
    "ALiBi": Style(relative=ALiBi),
    "learned": Style(positions=partial(Learned, 64)),
    "rotary, neighbours": Style(rotary=partial(Rotary, pairing="neighbours")),
    "norms on q and k": Style(query_norm=torch.nn.RMSNorm),
    "sinusoidal": Style(positions=Sinusoidal, embedding_norm=True),
}
ATTENTIONS: dict[str, Callable[..., MultiHeadAttention]] = {
    "plain": MultiHeadAttention,
    "grouped": partial(MultiHeadAttention, key_heads=2),
    "one key head": partial(MultiHeadAttention, key_heads=1, bias=False),
    "wide heads": partial(MultiHeadAttention, head_width=6, value_width=5),
    "gated": partial(MultiHeadAttention, gate=True),
    "normed": partial(MultiHeadAttention, norm=torch.nn.LayerNorm),
    "rotary": partial(MultiHeadAttention, position=Rotary(4)),
    "rotary, in part": partial(MultiHeadAttention, position=Rotary(2, pairing="neighbours")),
    "rotary, stretched": partial(
        MultiHeadAttention, position=Rotary(4, scaling=YaRNScaling(4.0, 16))
    ),
    "alibi": partial(MultiHeadAttention, position=ALiBi(H)),
    "relative": partial(MultiHeadAttention, position=RelativeBias(H, buckets=8, max_distance=6)),
    "sink and softcap": partial(MultiHeadAttention, sink=True, softcap=5.0, scale=0.2),
    "window": partial(MultiHeadAttention, mask=regard.causal() & regard.window(3)),
}
attentions = pytest.mark.parametrize("make", ATTENTIONS.values(), ids=ATTENTIONS)
IN_EVERY_RUN = ("plain", "grouped", "wide heads", "rotary", "relative", "sink and softcap")
"""What is trained and compiled in every run; a campaign does it with all."""
some = pytest.mark.parametrize(
    "make",
    [
        pytest.param(make, id=name, marks=[] if name in IN_EVERY_RUN else pytest.mark.campaign)
        for name, make in ATTENTIONS.items()
    ],
)
styles = pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)


def by_hand(m: MultiHeadAttention, x: Any, y: Any, mask: Any) -> Any:
    """The paper's equation, head by head: concat(head_1 …) W_o with head_h = attention(x W_q …)."""
    D, E, group = m.head_width, m.value.out_features // m.key_heads, m.heads // m.key_heads
    heads = []
    for h in range(m.heads):
        g = h // group

        def own(linear: Any, x: Any, n: int, width: int) -> Any:
            rows = slice(n * width, (n + 1) * width)
            bias = 0 if linear.bias is None else linear.bias[rows]
            return x @ linear.weight[rows].T + bias

        q, k = m.query_norm(own(m.query, x, h, D)), m.key_norm(own(m.key, y, g, D))
        v = own(m.value, y, g, E)
        s = q @ k.mT * (m.scale or D**-0.5)
        if m.softcap:
            s = m.softcap * torch.tanh(s / m.softcap)
        if mask is not None:
            s = s.masked_fill(~mask, float("-inf"))
        if m.sink is not None:
            s = torch.cat([s, m.sink[h].expand(*s.shape[:-1], 1)], -1)
        heads.append(s.softmax(-1)[..., : y.shape[-2]] @ v)
    found = torch.cat(heads, -1)
    if m.gate is not None:
        found = found / (1 + torch.exp(-(x @ m.gate.weight.T + m.gate.bias)))
    out = found @ m.output.weight.T
    return out if m.output.bias is None else out + m.output.bias


@pytest.mark.parametrize(
    "name", ["plain", "grouped", "one key head", "wide heads", "gated", "normed"]
)
@pytest.mark.parametrize("cross", [False, True])
def test_multi_head_attention_is_the_papers_equation(name: str, cross: bool) -> None:
    m = ATTENTIONS[name](C, H).double()
    x = torch.randn(2, T, C, dtype=torch.float64)
    y = torch.randn(2, 5, C, dtype=torch.float64) if cross else x
    found = m(x, y if cross else None, mask=None if cross else regard.causal())
    seen = None if cross else torch.ones(T, T, dtype=torch.bool).tril()
    torch.testing.assert_close(found, by_hand(m, x, y, seen))


def test_sinks_and_softcaps_are_in_the_equation_too() -> None:
    m = ATTENTIONS["sink and softcap"](C, H).double()
    x = torch.randn(2, T, C, dtype=torch.float64)
    torch.nn.init.normal_(m.sink)
    torch.testing.assert_close(m(x), by_hand(m, x, x, None))


def test_keys_of_another_width_and_values_of_their_own() -> None:
    m = MultiHeadAttention(C, H, key_from=9, value_from=11)
    x, y, z = torch.randn(2, T, C), torch.randn(2, 5, 9), torch.randn(2, 5, 11)
    W = m.weights(x, y)
    v = m.value(z).reshape(2, 5, H, -1).transpose(1, 2)
    torch.testing.assert_close(m(x, y, z), m.output((W @ v).transpose(1, 2).flatten(-2)))
    assert MultiHeadAttention(C, H, key_from=9)(x, y).shape == x.shape


@attentions
def test_the_weights_of_a_module_are_those_it_uses(make: Any) -> None:
    m, x = make(C, H), torch.randn(2, T, C)
    W = m.weights(x)
    v = m.value(x).reshape(2, T, m.key_heads, -1).transpose(1, 2)
    torch.testing.assert_close(m.joined(W @ v, x), m(x))


@attentions
def test_batch_entries_do_not_know_each_other(make: Any) -> None:
    m, x = make(C, H), torch.randn(3, T, C)
    torch.testing.assert_close(m(x)[1:2], m(x[1:2]))
    lone = x.clone()
    lone[0] = torch.nan
    torch.testing.assert_close(m(lone)[1:], m(x)[1:])


def turned(x: Any, base: float = 10000.0) -> Any:
    """Su et al.: the pair (i, i + D/2) of the token at t is a complex number times e^(i t θ)."""
    t, half = torch.arange(x.shape[-2], dtype=torch.float64), x.shape[-1] // 2
    angle = t[:, None] * base ** (-torch.arange(half, dtype=torch.float64) / half)
    pairs = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([pairs.real, pairs.imag], -1)


def bucket(distance: int) -> int:
    """Raffel et al., both ways, 8 buckets for 6 tokens: on each side 2 exact and 2 in powers."""
    far = abs(distance)
    if far >= 2:
        far = min(2 + int(math.log(far / 2) / math.log(6 / 2) * 2), 3)
    return far + (4 if distance > 0 else 0)


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative"])
def test_positions_in_attention_are_their_papers(name: str) -> None:
    """Scores of turned q and k; or q · k / √D − 2^(−8 (h+1) / H) |i − j|; or + b[bucket(j − i)]."""
    m = ATTENTIONS[name](C, H).double()
    x, D = torch.randn(2, T, C, dtype=torch.float64), C // H
    q, k, v = (made(x).reshape(2, T, H, D).transpose(1, 2) for made in (m.query, m.key, m.value))
    if name == "rotary":
        q, k = turned(q), turned(k)
    scores = q @ k.mT / D**0.5
    for h, i, j in product(range(H), range(T), range(T)):
        if name == "alibi":
            scores[:, h, i, j] -= 2 ** (-8 * (h + 1) / H) * abs(i - j)
        if isinstance(m.position, RelativeBias):
            scores[:, h, i, j] += m.position.weight[bucket(j - i), h]
    want = m.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(-2))
    torch.testing.assert_close(m(x), want)


@some
def test_each_attention_learns_and_is_saved_copied_halved_and_compiled(make: Any) -> None:
    """A gradient step or 60 lower the loss of saying which of two tokens a text began with."""
    m, tokens, answer = make(C, H), torch.nn.Embedding(6, C), torch.nn.Linear(C, 2)
    parameters = [*m.parameters(), *tokens.parameters(), *answer.parameters()]
    step, losses = torch.optim.Adam(parameters, lr=0.01), []
    for _ in range(60):
        text, first = torch.randint(2, 6, (32, 4)), torch.randint(2, (32,))
        text[:, 0] = first
        found = answer(m(tokens(text)))[:, :3]
        wanted = first[:, None].expand(32, 3).flatten()
        loss = torch.nn.functional.cross_entropy(found.flatten(0, 1), wanted)
        step.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in m.parameters())
        step.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])
    x = torch.randn(2, T, C)
    want, other = m(x).detach(), make(C, H)
    other.load_state_dict(m.state_dict())
    torch.testing.assert_close(other(x), want)
    torch.testing.assert_close(copy.deepcopy(m)(x), want)
    torch._dynamo.reset()
    compiled = torch.compile(m, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), want)
    for dtype, near in ((torch.float16, 0.02), (torch.bfloat16, 0.1)):
        low = copy.deepcopy(m).to(dtype)(x.to(dtype))
        assert low.dtype == dtype
        torch.testing.assert_close(
            low.float(), want, rtol=near, atol=near * float(want.abs().max())
        )


@pytest.mark.parametrize("name", ["plain", "grouped", "normed", "sink and softcap", "gated"])
def test_without_positions_the_order_of_tokens_means_nothing(name: str) -> None:
    m, x, order = ATTENTIONS[name](C, H), torch.randn(2, T, C), torch.randperm(T)
    torch.testing.assert_close(m(x)[:, order], m(x[:, order]))
    torch.testing.assert_close(m(x, x[:, order]), m(x))


@pytest.mark.parametrize("name", ["rotary", "rotary, stretched", "alibi", "relative", "window"])
def test_with_positions_it_does(name: str) -> None:
    m, x = ATTENTIONS[name](C, H), torch.randn(2, T, C)
    order = torch.tensor([3, 0, 4, 1, 6, 2, 5])
    assert (m(x)[:, order] - m(x[:, order])).abs().max() > 1e-3


@attentions
@pytest.mark.parametrize("kind", [Cache, partial(StaticCache, T)], ids=["growing", "static"])
def test_a_cached_step_is_the_full_run(make: Any, kind: Any) -> None:
    m, x, cache = make(C, H), torch.randn(2, T, C), kind()
    whole, parts = m(x, mask=regard.causal()), []
    for piece in (x[:, :3], x[:, 3:4], x[:, 4:6], x[:, 6:]):
        parts.append(m(piece, mask=regard.causal(), cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    assert cache.length == T
    sum(part.sum() for part in parts).backward()  # type: ignore[union-attr]


def test_a_cache_without_gradient_is_written_in_place() -> None:
    cache, k = Cache(), torch.randn(1, 1, 4, 2)
    with torch.no_grad():
        for _ in range(40):
            keys, values, _, start = cache.add(k, 2 * k, None)
    assert torch.equal(keys, k.repeat(1, 1, 40, 1))
    assert torch.equal(values, 2 * keys)
    assert start == 39 * 4
    with pytest.raises(regard.ShapeError, match="begin another text with a new cache"):
        cache.add(torch.zeros(2, 1, 1, 2), torch.zeros(2, 1, 1, 2), None)
    static = StaticCache(5)
    static.add(k, k, None)
    with pytest.raises(regard.ValueRangeError, match="has 5 slots, but 8 tokens came"):
        static.add(k, k, None)


def ids(batch: int = 2, length: int = T) -> Any:
    return torch.randint(V, (batch, length))


def language_model(style: Style, **options: Any) -> LanguageModel:
    return LanguageModel(V, C, H, 2, style=style, **options).eval()


@styles
def test_no_token_knows_those_to_come(style: Style) -> None:
    model, text = language_model(style), ids()
    other = text.clone()
    other[:, 4:] = (other[:, 4:] + 1) % V
    before, after = model(text), model(other)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert (before[:, 4:] - after[:, 4:]).abs().max() > 1e-3


@styles
@pytest.mark.parametrize("slots", [None, 12])
def test_a_text_token_by_token_is_the_text_at_once(style: Style, slots: int | None) -> None:
    model, text = language_model(style, key_heads=2), ids()
    cache, parts = model.cache(slots), []
    with torch.no_grad():
        for t in range(T):
            parts.append(model(text[:, t : t + 1], cache=cache))
        torch.testing.assert_close(torch.cat(parts, 1), model(text))


@styles
def test_padding_on_either_side_changes_nothing(style: Style) -> None:
    model, text = language_model(style), ids()
    right = torch.cat([text, ids(2, 3)], 1)
    torch.testing.assert_close(model(right, regard.lengths(T))[:, :T], model(text))
    left = torch.cat([ids(2, 3), text], 1)
    at = torch.cat([torch.zeros(3, dtype=torch.int64), torch.arange(T)])
    found = model(left, regard.lengths(T + 3, start=3), positions=at)[:, 3:]
    torch.testing.assert_close(found, model(text))


@styles
def test_an_encoder_and_a_decoder_together(style: Style) -> None:
    model = Seq2Seq(V, V + 2, C, H, 2, style=style).eval()
    source, target = ids(2, 5), ids(2, 6)
    whole = model(source, target)
    assert whole.shape == (2, 6, V + 2)
    padded = torch.cat([source, ids(2, 2)], 1)
    torch.testing.assert_close(model(padded, target, regard.lengths(5)), whole)
    memory, cache, parts = model.encoder(source), model.cache(), []
    with torch.no_grad():
        for t in range(6):
            parts.append(model.decode(target[:, t : t + 1], memory, cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), whole)
    assert isinstance(cache[0][1], Memory)
    torch.testing.assert_close(model(source[1:], target[1:]), whole[1:])  # entries apart
    other = target.clone()
    other[:, 4:] = (other[:, 4:] + 1) % V
    torch.testing.assert_close(model(source, other)[:, :4], whole[:, :4])  # no future
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    again = Seq2Seq(V, V + 2, C, H, 2, style=style).eval()
    again.load_state_dict(torch.load(file))
    torch.testing.assert_close(again(source, target), whole)
    torch.testing.assert_close(copy.deepcopy(model)(source, target), whole)
    low = copy.deepcopy(model).bfloat16()(source, target).float()
    most = float(whole.detach().abs().max())
    torch.testing.assert_close(low, whole, rtol=0.1, atol=0.1 * most)
    if style is ORIGINAL:  # language models of every style are compiled below
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(source, target), whole)
    shared = Seq2Seq(V, V, C, H, 1, style=style, shared=True)
    assert shared.encoder.tokens is shared.decoder.tokens


@styles
def test_it_learns_to_copy_a_text(style: Style) -> None:
    model = LanguageModel(V, 32, H, 2, style=style)
    step = torch.optim.Adam(model.parameters(), lr=3e-3)
    text = torch.randint(V, (8, 5)).repeat(1, 2)
    losses = []
    for _ in range(60):
        logits = model(text[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        step.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        step.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.6 * losses[0]


@styles
def test_a_pair_learns_to_copy_what_it_reads(style: Style) -> None:
    model = Seq2Seq(V, V, 32, H, 1, style=style, dropout=0.0)
    step, losses = torch.optim.Adam(model.parameters(), lr=3e-3), []
    text = torch.randint(V, (8, 5))
    written = torch.cat([torch.zeros(8, 1, dtype=torch.int64), text], 1)
    for _ in range(60):
        logits = model(text, written[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), text.flatten())
        step.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in model.parameters())
        step.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.6 * losses[0]


@styles
def test_texts_of_a_batch_do_not_know_each_other(style: Style) -> None:
    model, text = language_model(style), ids(3)
    torch.testing.assert_close(model(text)[1:2], model(text[1:2]))


@styles
def test_saved_copied_halved_and_compiled(style: Style) -> None:
    model, text = language_model(style), ids()
    want = model(text).detach()
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = language_model(style)
    assert (other(text) - want).abs().max() > 1e-3
    other.load_state_dict(torch.load(file))
    torch.testing.assert_close(other(text), want)
    torch.testing.assert_close(copy.deepcopy(model)(text), want)
    torch._dynamo.reset()
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(text), want)
    low = copy.deepcopy(model).bfloat16()(text)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), want, rtol=0.1, atol=0.1 * float(want.abs().max()))


def test_a_block_is_its_parts() -> None:
    x = torch.randn(2, T, C)
    for order in ("pre", "post"):
        block = EncoderBlock(C, H, style=Style(order=order))  # type: ignore[arg-type]
        first, second = block.attention_residual.norm, block.feed_forward_residual.norm
        if order == "pre":
            middle = x + block.attention(first(x))
            want = middle + block.feed_forward(second(middle))
        else:
            middle = first(x + block.attention(x))
            want = second(middle + block.feed_forward(middle))
        torch.testing.assert_close(block(x), want)
        memory = torch.randn(2, 5, C)
        reader = DecoderBlock(C, H, style=Style(order=order), mask=regard.causal())  # type: ignore[arg-type]
        norms = (reader.attention_residual, reader.cross_residual, reader.feed_forward_residual)
        parts = (
            lambda x, m=reader: m.attention(x, mask=regard.causal()),
            lambda x, m=reader, memory=memory: m.cross(x, memory),
            reader.feed_forward,
        )
        want = x
        for residual, part in zip(norms, parts, strict=True):
            if order == "pre":
                want = want + part(residual.norm(want))
            else:
                want = residual.norm(want + part(want))
        torch.testing.assert_close(reader(x, memory), want)
    gated = EncoderBlock(C, H, style=LLAMA).feed_forward
    assert gated.gate is not None
    silu = torch.nn.functional.silu
    torch.testing.assert_close(gated(x), gated.down(silu(gated.gate(x)) * gated.up(x)))


def test_one_bias_of_distance_is_shared_by_all_layers() -> None:
    model = Encoder(V, C, H, 3, style=T5)
    assert [name for name, _ in model.named_parameters() if "relative" in name] == [
        "relative.weight"
    ]


def test_dropout_is_for_training_alone() -> None:
    model = LanguageModel(V, C, H, 1, dropout=0.5)
    text = ids()
    assert not torch.equal(model(text), model(text))
    model.eval()
    assert torch.equal(model(text), model(text))


def test_what_cannot_be_says_why() -> None:
    x = torch.randn(2, T, C)
    for call, words in (
        (lambda: MultiHeadAttention(10, 4), "width must be a multiple of heads"),
        (lambda: MultiHeadAttention(C, 4, key_heads=3), "heads must be a multiple of key_heads"),
        (lambda: MultiHeadAttention(C, H)(x[..., :3]), "query must be 16 wide"),
        (lambda: MultiHeadAttention(C, H, position=Rotary(4))(x, x), "a cross attention has two"),
        (lambda: EncoderBlock(C, H, style=Style(order="mid")), "order must be 'pre' or 'post'"),  # type: ignore[arg-type]
    ):
        with pytest.raises(regard.RegardError, match=words):
            call()
    assert "key_heads=2" in str(MultiHeadAttention(C, H, key_heads=2, softcap=2.0, dropout=0.1))
