"""A head that is off is a head whose columns of the output projection are zero."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import regard
from attending import IDS, MODELS, llama, ours, vectors, watched
from regard.recording.answers.written import written
from regard.recording.capture.replay import CACHES
from regard.recording.capture.taps import TAPS
from regard.recording.recording import Recording, Run

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")


@pytest.mark.parametrize("make", MODELS)
def test_the_change_is_that_of_a_model_whose_projection_has_zeros(make: Any) -> None:
    model, projections = make()
    with torch.no_grad():
        for part in projections:
            part.weight.normal_()
    seen, output = watched(model)
    pairs = [(len(projections) - 1, 2), (0, 1)]
    found = seen.without(pairs)
    assert found.heads == tuple(sorted(pairs))
    with torch.no_grad():
        for n, h in pairs:
            weight = projections[n].weight
            turned = type(projections[n]).__name__ == "Conv1D"
            (weight if turned else weight.T)[8 * h : 8 * h + 8] = 0.0
        model.train()  # which torch's fast path is not taken in
        for part in model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        other = model.eval()(IDS)
    before, after = (vectors(one).double() for one in (output, other))
    change = (after - before).norm(dim=-1) / before.norm(dim=-1)
    assert change.mean() > 1e-3
    np.testing.assert_allclose(found.change, change, rtol=1e-3, atol=1e-6)
    if not hasattr(output, "logits"):
        assert found.divergence is None
        assert found.last is None
        with pytest.raises(regard.KindError, match="with its language-model head"):
            found.likeliest()
        return
    p, q = before.log_softmax(-1), after.log_softmax(-1)
    divergence = (p.exp() * (p - q)).sum(-1)
    np.testing.assert_allclose(found.divergence, divergence, rtol=1e-3, atol=1e-6)
    assert found.loss is not None
    for mine, side in zip(found.loss, (p, q), strict=True):
        want = -side[:, :-1].gather(-1, IDS[:, 1:, None])[..., 0]
        np.testing.assert_allclose(mine, want, rtol=1e-4, atol=1e-5)
    likely = found.likeliest(3, sample=1)
    top = {*p[1, -1].topk(3).indices.tolist(), *q[1, -1].topk(3).indices.tolist()}
    assert {one.token for one in likely} == top
    for one in likely:
        np.testing.assert_allclose(one.before, p[1, -1, one.token].exp(), rtol=1e-4)
        np.testing.assert_allclose(one.after, q[1, -1, one.token].exp(), rtol=1e-3)


@pytest.mark.parametrize("make", MODELS)
def test_what_a_head_writes_is_the_length_of_its_part_of_the_projection(make: Any) -> None:
    model, projections = make()
    seen, _ = watched(model)
    inputs: list[Any] = []
    hooks = [p.register_forward_pre_hook(lambda m, a: inputs.append(a[0])) for p in projections]
    fast = torch.backends.mha.get_fastpath_enabled()
    found = written(seen.run)
    assert torch.backends.mha.get_fastpath_enabled() == fast
    for hook in hooks:
        hook.remove()
    assert sorted(found) == list(range(len(projections)))
    for n, x in enumerate(inputs):  # not nn.MultiheadAttention, which calls no module
        part = projections[n]
        weight = part.weight if type(part).__name__ == "Conv1D" else part.weight.T
        each = torch.einsum("bthe,hed->bhtd", x.unflatten(-1, (4, 8)), weight.unflatten(0, (4, 8)))
        np.testing.assert_allclose(found[n], each.detach().norm(dim=-1).mean(-1), rtol=1e-4)


def test_attention_that_gives_its_weights_is_the_same_without_a_head() -> None:
    class Weighing(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: Any) -> Any:
            output, weights = self.attention(x, x, x)
            return output + weights.mean()

    model, x = Weighing().eval(), torch.randn(1, 5, 32)
    seen, _ = watched(model, x)
    assert seen.without(layer=0, head=3).change.shape == (1, 5)
    assert not seen.without(layer=0, head=-1).divergence


def test_a_plain_tensor_may_be_logits() -> None:
    model, _ = ours()
    seen, output = watched(model)
    found = seen.without(layer=0, head=0, logits=lambda given: given)
    assert found.last is not None
    np.testing.assert_allclose(found.last[0], output[:, -1].softmax(-1), atol=1e-6)
    assert "divergence" in repr(found)
    with pytest.raises(regard.ShapeError, match=r"logits must be \(B, T, V\)"):
        seen.without(layer=0, head=0, logits=lambda given: given[0])
    with pytest.raises(regard.KindError, match="must be a tensor, or have logits"):
        seen.without(layer=0, head=0, logits=lambda given: "none")


def test_what_cannot_be_had_without_a_head() -> None:
    model, _ = llama()
    seen, _ = watched(model)
    for given in ({}, {"layer": 1}, {"head": 1}):
        with pytest.raises(regard.ValueRangeError, match="without takes a layer and a head"):
            seen.without(**given)
    with pytest.raises(regard.ValueRangeError, match="layer must lie in 0 … 1, but 2 came"):
        seen.without(layer=2, head=0)
    with pytest.raises(regard.KindError, match=r"heads must hold pairs .* but \(0,\) is none"):
        seen.without([(0,)])
    with pytest.raises(regard.ValueRangeError, match="head must lie in 0 … 3, but -5 came"):
        seen.without(layer=0, head=-5)
    with regard.watch(model) as written_on:
        model.generate(IDS, max_new_tokens=3, do_sample=False, pad_token_id=0)
    with pytest.raises(regard.KindError, match="passes joined"):
        written_on.without(layer=0, head=0)
    named = inspect.signature(model.model.forward).parameters  # by one name or the other
    cache = {name: transformers.DynamicCache() for name in CACHES if name in named}
    with torch.no_grad(), regard.watch(model.model) as cached:
        model.model(IDS, **cache)
    with pytest.raises(regard.KindError, match="given a cache"):
        cached.without(layer=0, head=0)
    del model
    with pytest.raises(regard.KindError, match="its model is gone"):
        seen.without(layer=0, head=0)
    opened = Recording()
    opened.runs.append(Run(layers=list(seen.layers)))
    with pytest.raises(regard.KindError, match="opened from a file"):
        opened.without(layer=0, head=0)
    opened.runs[0].layers.clear()
    with pytest.raises(regard.ValueRangeError, match="holds no layers"):
        opened.without(layer=0, head=0)


def test_attention_by_hand_cannot_be_taken_away() -> None:
    class ByHand(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv = torch.nn.Linear(8, 24)

        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
            return ((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2)

    model = torch.nn.Sequential(ByHand()).eval()
    points = {"*": regard.Point(qkv="qkv", heads=2)}
    with torch.no_grad(), regard.watch(model, points=points) as seen:
        model(torch.randn(1, 5, 8))
    with pytest.raises(regard.KindError, match="attention is computed by hand in 0,"):
        seen.without(layer=0, head=0)


def test_a_model_is_left_as_it_was_whatever_happens() -> None:
    model, _ = llama()
    seen, output = watched(model)
    hooks = sum(len(part._forward_pre_hooks) for part in model.modules())

    def broken(*_: Any) -> None:
        raise KeyboardInterrupt

    hook = model.model.norm.register_forward_pre_hook(broken)
    with pytest.raises(KeyboardInterrupt):
        seen.without(layer=0, head=0)
    hook.remove()
    assert not TAPS.writers
    assert sum(len(part._forward_pre_hooks) for part in model.modules()) == hooks
    with torch.no_grad():
        assert torch.equal(model(IDS).logits, output.logits)


def test_a_model_in_training_is_left_alone() -> None:
    """Dropout would draw anew, and a norm that averages over its inputs would count them twice."""
    model, _ = ours()
    model.norm = torch.nn.BatchNorm1d(len(IDS[0]))
    seen, _ = watched(model)
    model.qkv.register_forward_pre_hook(lambda *_: pytest.fail("the model ran"))
    model.norm.train()
    asked = [lambda: seen.without(layer=0, head=1), seen.importance, seen.attribution]
    for ask in asked:
        with pytest.raises(regard.KindError, match=r"but norm is training; call model\.eval\(\)"):
            ask()
    assert "dead" not in seen.roles()[0].scores


def test_what_is_asked_inside_the_block_is_not_recorded_again() -> None:
    model, _ = llama()
    with torch.no_grad(), regard.watch(model) as seen:
        model(IDS)
        steps = seen.follow(2)
        inside = seen.roles()
        seen.without(layer=0, head=1)
        seen.importance()
        seen.attribution()
        assert len(seen.runs) == 1
        assert not seen.missed
        assert not steps.received
        assert inside == seen.roles()
        model(IDS[:, ::2])
    assert [run.ids.shape for run in seen.runs] == [(2, 8), (2, 4)]


def test_one_of_several_runs_answers_by_itself() -> None:
    model, _ = llama()
    with torch.no_grad(), regard.watch(model) as seen:
        model(IDS)
        model(IDS[:, ::2])
    with pytest.raises(regard.ValueRangeError, match=r"choose one: seen\.only\(0\)"):
        seen.roles()
    alone, _ = watched(model, IDS[:, ::2])
    for one in (seen.only(1), seen.only(-1)):
        assert one.roles() == alone.roles()
        np.testing.assert_array_equal(
            one.without(layer=1, head=2).change, alone.without(layer=1, head=2).change
        )
    with pytest.raises(regard.ValueRangeError, match="a run must lie in 0 … 1, but 2 came"):
        seen.only(2)
    with pytest.raises(regard.ValueRangeError, match="holds no run yet"):
        Recording().only(0)


def test_the_inputs_are_those_of_the_pass_though_their_array_is_filled_anew() -> None:
    model, _ = llama()
    ids = IDS.clone()
    seen, _ = watched(model, ids)
    before = seen.without(layer=0, head=1)
    ids[:] = 7
    np.testing.assert_array_equal(seen.without(layer=0, head=1).change, before.change)
    np.testing.assert_array_equal(seen.run.ids, IDS)


class Summed(torch.nn.Module):
    def forward(self, x: Any) -> Any:
        return x.sum((1, 2))


def test_the_loss_that_labels_give_is_no_vector() -> None:
    model, _ = llama()
    want = watched(model)[0].without(layer=0, head=1)
    with torch.no_grad(), regard.watch(model) as seen:
        model(IDS, labels=IDS, return_dict=False)
    np.testing.assert_array_equal(seen.without(layer=0, head=1).change, want.change)
    summed = torch.nn.Sequential(ours()[0], Summed()).eval()
    seen, _ = watched(summed)
    with pytest.raises(regard.KindError, match=r"must hold vectors .* its shape is \(2,\)"):
        seen.without(layer=0, head=1)


def test_roles_do_without_a_model_that_has_moved() -> None:
    model, _ = llama()
    seen, _ = watched(model)
    model.to("meta")
    assert "dead" not in seen.roles()[0].scores


def test_a_number_that_is_not_there_is_named() -> None:
    model, _ = llama()
    seen, _ = watched(model)
    changed = seen.without(layer=0, head=1)
    asked = [
        lambda: seen.roles(sample=2),
        lambda: seen.importance(sample=2),
        lambda: seen.attribution(sample=2),
        lambda: seen.rollout([1], sample=2),
        lambda: seen.flow(3, 1, sample=2),
        lambda: changed.likeliest(sample=2),
    ]
    for ask in asked:
        with pytest.raises(regard.ValueRangeError, match="sample must lie in 0 … 1, but 2 came"):
            ask()
    assert seen.roles(sample=-1) == seen.roles(sample=1)
    with pytest.raises(regard.ValueRangeError, match="of's token must lie in 0 … 98, but 400 came"):
        seen.attribution((3, 400))
    with pytest.raises(regard.KindError, match=r"or \(position, token\), but it is \(3,\)"):
        seen.attribution((3,))
    with pytest.raises(regard.ValueRangeError, match="n must be 0 or more, but -1 came"):
        seen.find("first", -1)
