"""Mechanisms with scores of their own: each against its paper's formula, in loops."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest

import regard

torch = pytest.importorskip("torch")

from regard.nn import (  # noqa: E402
    AdditiveAttention,
    HardAttention,
    LinearAttention,
    LocalAttention,
    MultiplicativeAttention,
    ScaledDotProductAttention,
    TopKAttention,
)
from regard.nn.scored import Scored  # noqa: E402

B, T, S, CQ, CK, E = 2, 3, 5, 4, 6, 7


def three() -> tuple[Any, Any, Any]:
    return tuple(torch.randn(B, n, c, dtype=torch.float64) for n, c in ((T, CQ), (S, CK), (S, E)))


def mixed(scores: np.ndarray, v: np.ndarray, seen: np.ndarray | None = None) -> np.ndarray:
    """Each row's exp(s) / Σ exp(s), times v, one row at a time."""
    out = np.zeros((*scores.shape[:-1], v.shape[-1]))
    for b, t in np.ndindex(*scores.shape[:2]):
        keys = [j for j in range(scores.shape[-1]) if seen is None or seen[t, j]]
        e = np.array([math.exp(scores[b, t, j]) for j in keys])
        for w, j in zip(e / e.sum() if keys else [], keys, strict=True):
            out[b, t] += w * v[b, j]
    return out


def doubled(module: Any) -> Any:
    return module.double()


def additive(m: AdditiveAttention, q: np.ndarray, k: np.ndarray) -> np.ndarray:
    W, U, v = (x.weight.detach().numpy() for x in (m.query, m.key, m.score))
    out = np.zeros((B, len(q[0]), len(k[0])))
    for b, t, s in np.ndindex(out.shape):
        out[b, t, s] = v[0] @ np.tanh(W @ q[b, t] + U @ k[b, s])
    return out


@pytest.mark.parametrize("masked", [False, True])
def test_bahdanaus_additive_attention(masked: bool) -> None:
    q, k, v = three()
    m = doubled(AdditiveAttention(CQ, CK, 8))
    mask = regard.causal() if masked else None
    seen = np.tri(T, S, S - T, dtype=bool) if masked else None
    want = mixed(additive(m, q.numpy(), k.numpy()), v.numpy(), seen)
    np.testing.assert_allclose(m(q, k, v, mask).detach().numpy(), want, atol=1e-12)
    W = m.weights(q, k, mask)
    np.testing.assert_allclose((W @ v[:, None])[:, 0].detach().numpy(), want, atol=1e-12)


def test_additive_scores_are_the_same_however_many_rows_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    q, k, v = three()
    m = doubled(AdditiveAttention(CQ, CK, 8))
    want = m(q, k, v)
    monkeypatch.setattr("regard.nn.scored.SCORES_AT_ONCE", 1)
    torch.testing.assert_close(m(q, k, v), want)


def test_luongs_scores() -> None:
    q, _, v = three()
    k = torch.randn(B, S, CQ, dtype=torch.float64)
    dot = MultiplicativeAttention(CQ, "dot")
    general = doubled(MultiplicativeAttention(CQ, "general"))
    concat = doubled(MultiplicativeAttention(CQ, "concat"))
    W = general.between.weight.detach().numpy()  # type: ignore[union-attr]
    a, b = q.numpy(), k.numpy()
    np.testing.assert_allclose(dot(q, k, v).numpy(), mixed(a @ b.mT, v.numpy()), atol=1e-12)
    want = np.einsum("btc,dc,bsd->bts", a, W, b)
    found = general(q, k, v).detach().numpy()
    np.testing.assert_allclose(found, mixed(want, v.numpy()), atol=1e-12)
    both = concat.joint
    assert both is not None
    # W [q ; k] is one matrix of both, as W_q q + W_k k.
    found = concat(q, k, v).detach().numpy()
    np.testing.assert_allclose(found, mixed(additive(both, a, b), v.numpy()), atol=1e-12)


@pytest.mark.parametrize("predicted", [False, True])
def test_luongs_local_attention(predicted: bool) -> None:
    q, _, v = three()
    k, D = torch.randn(B, S, CQ, dtype=torch.float64), 2
    m = doubled(LocalAttention(MultiplicativeAttention(CQ, "dot"), CQ, D, predicted=predicted))
    found = m(q, k, v).detach().numpy()
    scores, out = q.numpy() @ k.numpy().mT, np.zeros((B, T, E))
    for b, t in np.ndindex(B, T):
        centre = float(t + S - T)  # the last query stands at the last key
        if predicted:
            W, u = m.hidden.weight.detach().numpy(), m.position.weight.detach().numpy()
            centre = S / (1 + math.exp(-(u[0] @ np.tanh(W @ q[b, t].numpy()))))
        keys = [s for s in range(S) if abs(s - centre) <= D]
        e = np.array([math.exp(scores[b, t, s]) for s in keys])
        for w, s in zip(e / e.sum(), keys, strict=True):
            bell = math.exp(-((s - centre) ** 2) / (2 * (D / 2) ** 2)) if predicted else 1.0
            out[b, t] += w * bell * v[b, s].numpy()
    np.testing.assert_allclose(found, out, atol=1e-12)
    hidden = m(q, k, v, regard.lengths([0, S]))
    assert not hidden[0].any()
    torch.testing.assert_close(hidden[1], m(q, k, v)[1])


def heads() -> tuple[Any, Any, Any]:
    return (
        torch.randn(B, 4, T, 8, dtype=torch.float64, requires_grad=True),
        torch.randn(B, 2, S, 8, dtype=torch.float64, requires_grad=True),
        torch.randn(B, 2, S, 3, dtype=torch.float64, requires_grad=True),
    )


def test_top_k_is_softmax_over_the_k_best() -> None:
    q, k, v = heads()
    found = TopKAttention(2)(q, k, v)
    for b, h, t in np.ndindex(B, 4, T):
        s = (q[b, h, t] @ k[b, h // 2].T / 8**0.5).detach().numpy()
        best = np.argsort(s)[-2:]
        w = np.exp(s[best]) / np.exp(s[best]).sum()
        want = w @ v[b, h // 2, best].detach().numpy()
        np.testing.assert_allclose(found[b, h, t].detach().numpy(), want, atol=1e-12)
    all_of_them = TopKAttention(99)(q, k, v, regard.causal())
    torch.testing.assert_close(all_of_them, regard.attend(q, k, v, regard.causal()))
    assert (TopKAttention(2).weights(q, k).dense() > 0).sum(-1).eq(2).all()


def test_hard_attention_takes_the_best_and_learns_as_soft_does() -> None:
    q, k, v = heads()
    found = HardAttention()(q, k, v)
    best = (q @ k.repeat_interleave(2, 1).mT).argmax(-1)
    for b, h, t in np.ndindex(B, 4, T):
        torch.testing.assert_close(found[b, h, t], v[b, h // 2, best[b, h, t]])
    along = torch.randn_like(found)
    soft = regard.attend(q, k, v)
    for mine, theirs in zip(
        torch.autograd.grad((found * along).sum(), (q, k)),
        torch.autograd.grad((soft * along).sum(), (q, k)),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs)
    assert not HardAttention()(q, k, v, regard.lengths([0, S]))[0].any()


def phi(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x + 1, np.exp(x))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("length", [1, 5, 64, 131])
def test_katharopoulos_linear_attention(causal: bool, length: int) -> None:
    q = torch.randn(2, 4, length, 3, dtype=torch.float64)
    k = torch.randn(2, 2, length, 3, dtype=torch.float64)
    v = torch.randn(2, 2, length, 5, dtype=torch.float64)
    found = LinearAttention(causal=causal)(q, k, v).numpy()
    s = phi(q.numpy()) @ phi(k.numpy()).repeat(2, 1).mT
    s = np.tril(s) if causal else s
    want = s / s.sum(-1, keepdims=True) @ v.numpy().repeat(2, 1)
    np.testing.assert_allclose(found, want, atol=1e-12)


def test_causal_linear_attention_is_a_recurrent_network() -> None:
    m, state = LinearAttention(causal=True), None
    q, k, v = (torch.randn(2, 4, 70, n, dtype=torch.float64) for n in (3, 3, 5))
    whole = m(q, k, v)
    for t in range(70):
        state, out = m.step(state, q[:, :, t], k[:, :, t], v[:, :, t])
        torch.testing.assert_close(out, whole[:, :, t])
    with pytest.raises(regard.KindError, match=r"go on from a state with step"):
        m(q[:, :, :3], k, v)


def test_linear_attention_passes_padding_over() -> None:
    q, k, v = (torch.randn(2, 4, 6, 3, dtype=torch.float64) for _ in range(3))
    there = torch.arange(6) < torch.tensor([[4], [0]])
    found = LinearAttention()(q, k, v, there)
    torch.testing.assert_close(found[0], LinearAttention()(q, k[:, :, :4], v[:, :, :4])[0])
    assert not found[1].any()


def test_the_plain_one_is_attend() -> None:
    q, k, v = heads()
    m = ScaledDotProductAttention(dropout=0.5)
    m.eval()
    assert torch.equal(m(q, k, v, regard.causal()), regard.attend(q, k, v, regard.causal()))
    torch.testing.assert_close(m.weights(q, k) @ v, m(q, k, v))
    m.train()
    assert not torch.equal(m(q, k, v), m(q, k, v))


def test_what_cannot_be_says_why() -> None:
    for make, words in (
        (lambda: MultiplicativeAttention(4, "sum"), "score must be"),  # type: ignore[arg-type]
        (lambda: MultiplicativeAttention(4, "dot", key_width=5), "one width"),
        (lambda: TopKAttention(0), "k must be 1 or more"),
    ):
        with pytest.raises(regard.RegardError, match=words):
            make()
    for module in (
        AdditiveAttention(2, 2, 2),
        MultiplicativeAttention(2),
        LocalAttention(MultiplicativeAttention(2), 2, 3),
        TopKAttention(2),
        HardAttention(),
        LinearAttention(),
    ):
        assert str(module)


MECHANISMS: dict[str, Any] = {
    "additive": lambda: AdditiveAttention(8, 8, 16),
    "dot": lambda: MultiplicativeAttention(8, "dot"),
    "general": lambda: MultiplicativeAttention(8, "general"),
    "concat": lambda: MultiplicativeAttention(8, "concat"),
    "local, own": lambda: LocalAttention(MultiplicativeAttention(8), 8, 2, predicted=False),
    "local, predicted": lambda: LocalAttention(MultiplicativeAttention(8), 8, 4),
    "plain": ScaledDotProductAttention,
    "top k": lambda: TopKAttention(4),
    "hard": HardAttention,
    "linear": LinearAttention,
    "linear, causal": lambda: LinearAttention(causal=True),
}
every_mechanism = pytest.mark.parametrize("make", MECHANISMS.values(), ids=MECHANISMS)


class Reader(torch.nn.Module):
    """Says at each place which of two tokens the text began with: a task for attention alone."""

    def __init__(self, mechanism: Any) -> None:
        super().__init__()
        self.tokens = torch.nn.Embedding(10, 8)
        self.mechanism = mechanism
        self.q, self.k, self.v = (torch.nn.Linear(8, 8) for _ in range(3))
        self.answer = torch.nn.Linear(8, 2)

    def forward(self, ids: Any) -> Any:
        x = self.tokens(ids)
        qkv = [made(x)[:, None] for made in (self.q, self.k, self.v)]  # one head
        if isinstance(self.mechanism, Scored | LocalAttention):
            return self.answer(self.mechanism(*(a[:, 0] for a in qkv)))
        return self.answer(self.mechanism(*qkv)[:, 0])


@every_mechanism
def test_each_mechanism_learns(make: Any) -> None:
    torch.manual_seed(0)
    model = Reader(make())
    step, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
    for _ in range(80):
        ids = torch.randint(2, 10, (32, 6))
        first = torch.randint(2, (32,))
        ids[:, 0] = first
        logits = model(ids)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), first.repeat_interleave(6))
        step.zero_grad()
        loss.backward()
        step.step()
        losses.append(float(loss.detach()))
    assert sum(losses[-10:]) < 0.8 * sum(losses[:10])


@every_mechanism
# Torch looks at what goes from one graph to the next, and warns of its own look.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_laws_of_each_mechanism(make: Any) -> None:
    """Batch entries apart; the same when saved, copied, halved, compiled."""
    m = make()
    shape = (3, 2, 5, 8) if isinstance(m, LinearAttention) else (3, 5, 8)
    q, k, v = (torch.randn(shape) for _ in range(3))
    want = m(q, k, v).detach()
    torch.testing.assert_close(m(q[1:2], k[1:2], v[1:2]), want[1:2])
    torch.testing.assert_close(copy.deepcopy(m)(q, k, v), want)
    other = make()
    other.load_state_dict(m.state_dict())
    torch.testing.assert_close(other(q, k, v), want)
    for dtype, near in ((torch.float16, 0.02), (torch.bfloat16, 0.1)):
        low = copy.deepcopy(m).to(dtype)(*(a.to(dtype) for a in (q, k, v)))
        assert low.dtype == dtype
        if not isinstance(m, TopKAttention | HardAttention):  # these jump between near scores
            torch.testing.assert_close(low.float(), want, rtol=near, atol=near)
    if not isinstance(m, LocalAttention | LinearAttention) or getattr(m, "causal", True) is False:
        order = torch.randperm(5)
        torch.testing.assert_close(m(q, k[..., order, :], v[..., order, :]), want)
    asks = isinstance(m, TopKAttention | HardAttention) or getattr(m, "position", None) is not None
    torch._dynamo.reset()  # questions to the weights are asked between two graphs
    graph = torch.compile(m, fullgraph=not asks, backend="aot_eager")
    torch.testing.assert_close(graph(q, k, v), want)
