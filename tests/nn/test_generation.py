"""What a model writes: greedy, drawn, and the best of several texts."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

import regard

torch = pytest.importorskip("torch")

from regard.nn import (  # noqa: E402
    LLAMA,
    Beam,
    Greedy,
    LanguageModel,
    Sample,
    Seq2Seq,
    Style,
    generate,
)

V, END = 5, 0


def model(seed: int = 0, style: Style = LLAMA) -> LanguageModel:
    torch.manual_seed(seed)
    made = LanguageModel(V, 16, 2, 2, style=style)
    for p in made.parameters():
        p.data.mul_(3)  # so that it has opinions
    return made


def seq2seq(seed: int = 0) -> Seq2Seq:
    torch.manual_seed(seed)
    made = Seq2Seq(V, V, 16, 2, 1)
    for p in made.parameters():
        p.data.mul_(2)
    return made


def test_greedy_is_the_likeliest_of_the_whole_text_each_time() -> None:
    m, text = model().eval(), torch.tensor([[1, 2, 3], [4, 1, 1]])
    want = text
    for _ in range(9):
        want = torch.cat([want, m(want)[:, -1:].argmax(-1)], 1)
    m.train()
    found = generate(m, text, new=9)
    assert torch.equal(found, want[:, 3:])
    assert m.training
    assert generate(m, text, new=0).shape == (2, 0)


def test_padding_on_the_left_changes_no_text() -> None:
    m = model()
    alone = [generate(m, t, new=6) for t in (torch.tensor([[3, 1]]), torch.tensor([[1, 2, 3, 4]]))]
    both = torch.tensor([[0, 0, 3, 1], [1, 2, 3, 4]])
    assert torch.equal(generate(m, both, new=6, padding=[2, 0]), torch.cat(alone))
    several = generate(m, both, new=6, padding=[2, 0], how=Beam(3))
    assert torch.equal(several[:1], generate(m, both[:1, 2:], new=6, how=Beam(3)))


def test_what_follows_the_end_is_the_end() -> None:
    for seed in range(20):
        m, text = model(seed), torch.tensor([[1], [2], [3]])
        free = generate(m, text, new=12)
        found = generate(m, text, new=12, end=END)
        for one, other in zip(free, found, strict=True):
            at = one.tolist().index(END) if END in one else 12
            assert other.tolist()[: at + 1] == one.tolist()[: min(at + 1, found.shape[1])]
            assert all(token == END for token in other.tolist()[at:])


def test_top_k_and_top_p_leave_the_likeliest() -> None:
    logits = torch.log(torch.tensor([[0.5, 0.3, 0.15, 0.05]]))
    for how, left in (
        (Sample(top_k=2), 2),
        (Sample(top_p=0.5), 1),
        (Sample(top_p=0.51), 2),
        (Sample(top_p=0.95), 3),
        (Sample(top_p=1.0), 4),
        (Sample(top_k=99), 4),
        (Sample(top_k=3, top_p=0.6), 2),
    ):
        assert torch.isfinite(how.left(logits)).sum() == left
    sharper = Sample(temperature=0.5).left(logits).softmax(-1)
    torch.testing.assert_close(sharper, logits.softmax(-1) ** 2 / (logits.softmax(-1) ** 2).sum())


def test_tokens_are_drawn_by_their_probability() -> None:
    m, text = model(), torch.tensor([[1, 2]]).expand(4000, 2)
    p = m.eval()(text[:1])[0, -1].softmax(-1)
    drawn = generate(m, text, new=1, how=Sample(), generator=torch.Generator().manual_seed(0))
    share = torch.bincount(drawn[:, 0], minlength=V) / 4000
    assert (share - p).abs().max() < 4 * (p * (1 - p) / 4000).sqrt().max()
    again = generate(m, text, new=1, how=Sample(), generator=torch.Generator().manual_seed(0))
    assert torch.equal(drawn, again)


def score_of(m: Any, text: Any, new: tuple[int, ...], penalty: float) -> float:
    whole = torch.cat([text, torch.tensor([new])], 1)
    logp = m(whole)[0].log_softmax(-1)
    start = text.shape[1] - 1
    total = sum(float(logp[start + i, token]) for i, token in enumerate(new))
    return total / ((5 + len(new)) / 6) ** penalty


@pytest.mark.parametrize("penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_with_beams_for_all_the_best_text_is_found(seed: int, penalty: float) -> None:
    """With a beam for each text, a beam search is a search of everything."""
    m, text, new = model(seed).eval(), torch.tensor([[1, 2]]), 3
    texts = {t[: t.index(END) + 1] if END in t else t for t in product(range(V), repeat=new)}
    with torch.no_grad():
        best = max(texts, key=lambda t: score_of(m, text, t, penalty))
    found = generate(m, text, new=new, how=Beam(V**new, penalty), end=END)[0].tolist()
    assert tuple(found) == best


def test_one_beam_is_greedy_and_more_are_no_worse() -> None:
    for seed in range(8):
        m, text = model(seed).eval(), torch.tensor([[1, 2], [3, 3]])
        greedy = generate(m, text, new=5)
        assert torch.equal(generate(m, text, new=5, how=Beam(1)), greedy)
        several = generate(m, text, new=5, how=Beam(6, 0.0))
        with torch.no_grad():
            for b in range(2):
                one, other = (
                    score_of(m, text[b : b + 1], tuple(t[b].tolist()), 0.0)
                    for t in (greedy, several)
                )
                assert other >= one - 1e-5


@pytest.mark.parametrize("how", [Greedy(), Beam(3), Sample(top_k=1)])
def test_a_seq2seq_writes_what_it_has_read(how: Any) -> None:
    m = seq2seq().eval()
    source = torch.tensor([[1, 2, 3, 4], [4, 3, 0, 0]])
    found = generate(m, source, new=5, begin=1, padding=[0, 2], how=how)
    for b, one in enumerate((source[:1], source[1:, :2])):
        assert torch.equal(generate(m, one, new=5, begin=1, how=how)[0], found[b])
    if not isinstance(how, Beam):
        text = torch.tensor([[1]])
        for _ in range(5):
            text = torch.cat([text, m(source[:1], text)[:, -1:].argmax(-1)], 1)
        assert torch.equal(found[0], text[0, 1:])


def test_what_cannot_be_says_why() -> None:
    text = torch.tensor([[1]])
    for call, words in (
        (lambda: generate(seq2seq(), text, new=2), "begin is the first token"),
        (lambda: generate(model(), text, new=2, begin=1), "begin is the first token"),
        (lambda: generate(model(), text, new=-1), "new must be 0 or more"),
        (lambda: Sample(temperature=0.0), "temperature must be above 0"),
        (lambda: Sample(top_p=1.5), "top_p must be above 0"),
        (lambda: Sample(top_k=0), "top_k must be 1 or more"),
        (lambda: Beam(0), "beams must be 1 or more"),
    ):
        with pytest.raises(regard.RegardError, match=words):
            call()
