"""Norm-weighted importance and gradient × attention equal a dense computation in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from attending import IDS, bert, encoder, gpt2, llama, ours, vectors, watched
from regard.recording.recording import Recording
from small import GROUPED, SMALL

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")


def dense_importance(seen: Recording, values: list[Any], weights: list[Any]) -> list[Any]:
    """(B, H, T, S) for each layer, every vector v_j W_O made."""
    found = []
    for layer, value, into in zip(seen, values, weights, strict=True):
        v = value.double().repeat_interleave(layer.heads // value.shape[1], 1)
        vectors = torch.einsum("bhse,hed->bhsd", v, into.double())
        w = regard.weights(layer.q.double(), layer.k.double(), layer.mask, start=layer.start,
                           **layer.options).dense()  # fmt: skip
        found.append((w * vectors.norm(dim=-1)[:, :, None]).numpy())
    return found


def values_of(model: Any, names: list[str], heads: int, ids: Any = IDS) -> list[Any]:
    """(B, G, S, E) what the value projections of these names give."""
    kept: list[Any] = []
    parts = dict(model.named_modules())
    hooks = [
        parts[name].register_forward_hook(lambda m, a, output: kept.append(output.detach()))
        for name in names
    ]
    with torch.no_grad():
        model(ids)
    for hook in hooks:
        hook.remove()
    return [one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in kept]


def close(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    want = np.asarray(want)
    np.testing.assert_allclose(got, want, rtol=0, atol=tolerance * np.abs(want).max())


def test_importance_is_that_of_every_vector_made() -> None:
    model, projections = llama()
    seen, _ = watched(model)
    told: list[tuple[int, int]] = []
    found = seen.importance([7, -3], sample=1, progress=lambda *at: told.append(at))
    assert told == [(1, 2), (2, 2)]
    names = [f"model.layers.{n}.self_attn.v_proj" for n in range(2)]
    into = [part.weight.detach().T.reshape(4, 8, -1) for part in projections]
    want = dense_importance(seen, values_of(model, names, 2), into)
    for mine, dense in zip(found, want, strict=True):
        assert mine.projected
        close(mine.received, dense[1].sum(1))
        close(mine.targets, dense[1][:, [7, 5]])
        assert mine.norms.shape == (4, 8)
    assert repr(found[0]) == "Importance('model.layers.0.self_attn', 4 × 2 × 8)"
    with pytest.raises(regard.ValueRangeError, match="a target must lie in 0 … 7"):
        seen.importance([8])


def test_targets_are_of_the_argument_that_a_layer_looks_from() -> None:
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 1, "num_heads": 4}
    model = transformers.T5ForConditionalGeneration(
        transformers.T5Config(**sizes, vocab_size=99)
    ).eval()
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=IDS, decoder_input_ids=IDS[:, :3])
    kinds = [layer.kind for layer in seen]
    assert kinds == ["encoder", "decoder", "cross"]
    for targets, counts in (
        ([7, -1], [2, 0, 0]),
        ({"input_ids": [7], "decoder_input_ids": [2, 0]}, [1, 2, 2]),
        ({"decoder_input_ids": [2]}, [0, 1, 1]),
    ):
        weighed = seen.importance(targets)
        assert [one.targets.shape[1] for one in weighed] == counts
        added = seen.attribution((2, 5), targets)
        assert [one.targets.shape[1] for one in added.layers] == counts
    with pytest.raises(regard.ValueRangeError, match="one of input_ids, decoder_input_ids"):
        seen.importance({"labels": [0]})
    with pytest.raises(regard.ValueRangeError, match="a target must lie in 0 … 2"):
        seen.attribution((2, 5), {"decoder_input_ids": [3]})


def test_without_a_projection_that_can_be_seen_the_values_count_alone() -> None:
    model, _ = ours()
    model.out = torch.nn.Sequential(torch.nn.LayerNorm(32), model.out).eval()
    seen, _ = watched(model)
    (found,) = seen.importance([3])
    assert not found.projected
    assert "by the values alone" in repr(found)
    with torch.no_grad():
        v = model.qkv(model.embed(IDS)).unflatten(-1, (3, 4, 8))[0, :, 2]
    np.testing.assert_allclose(found.norms, v.norm(dim=-1).T, rtol=1e-5)


@pytest.mark.parametrize("make", [llama, gpt2, bert, encoder, ours])
def test_a_projection_is_met_in_every_kind_of_model(make: Any) -> None:
    seen, _ = watched(make()[0])  # the model is gone at once
    with pytest.raises(regard.KindError, match="its model is gone"):
        seen.importance()
    model, _ = make()
    seen, _ = watched(model)
    assert all(one.projected for one in seen.importance())


def eager(seen: Recording, model: Any, y: Any) -> list[np.ndarray]:
    """(B, H, T, S) weight times gradient of each layer, by autograd, all in float64."""
    model.set_attn_implementation("eager")
    output = model(IDS, output_attentions=True)
    gradients = torch.autograd.grad(y(output), output.attentions)
    model.set_attn_implementation("sdpa")
    return [(a * g).detach().numpy() for a, g in zip(output.attentions, gradients, strict=True)]


def double_llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED)).double().eval()


def double_bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(**SMALL)).double().eval()


@pytest.mark.parametrize(
    ("make", "tolerance"),
    [(double_llama, 1e-6), (double_bert, 1e-12)],  # Llama's own softmax is in float32
)
def test_gradient_times_attention_is_autograds(make: Any, tolerance: float) -> None:
    model = make()
    seen, output = watched(model)

    def y(given: Any) -> Any:
        return vectors(given)[1, 4, 17]

    found = seen.attribution(y, [2, 7], sample=1)
    want = eager(seen, model, y)
    close(found.value, float(y(output)), 1e-9)
    for layer, dense in zip(found.layers, want, strict=True):
        close(layer.targets, dense[1][:, [2, 7]], tolerance)
        close(layer.received, dense[1].sum(1), tolerance)
        close(layer.heads, dense[1].sum((1, 2)), tolerance)
    assert all(one.requires_grad for one in model.parameters())
    assert all(one.grad is None for one in model.parameters())


def test_attribution_in_bfloat16_is_that_of_the_same_numbers() -> None:
    model, _ = llama()
    model.bfloat16()
    found = watched(model)[0].attribution((6, 17), [3, 6])
    want = watched(model.double())[0].attribution((6, 17), [3, 6])
    for mine, other in zip(found.layers, want.layers, strict=True):
        for name in ("heads", "received", "targets"):
            exact = getattr(other, name)
            np.testing.assert_allclose(
                getattr(mine, name), exact, rtol=0.05, atol=0.02 * np.abs(exact).max()
            )


def test_a_number_may_be_told_by_position_and_token() -> None:
    model, _ = llama()
    seen, output = watched(model)
    best = output.logits[0, -1].argmax()
    by_default, told = seen.attribution(), seen.attribution((-1, int(best)))
    assert by_default.value == told.value
    np.testing.assert_array_equal(by_default.layers[1].received, told.layers[1].received)
    assert repr(told).startswith("Attribution(")


def test_what_has_no_attribution() -> None:
    model, _ = bert()
    seen, _ = watched(model)
    with pytest.raises(regard.KindError, match="has no logits"):
        seen.attribution()
    with pytest.raises(regard.KindError, match="of must give one number"):
        seen.attribution(lambda output: output.last_hidden_state)
    with pytest.raises(regard.KindError, match="no attention that was recorded"):
        seen.attribution(lambda output: torch.zeros(()))


def test_statistics_say_that_they_do_not_hold_what_is_asked() -> None:
    model, _ = llama()
    with torch.no_grad(), regard.watch(model, keep=regard.Statistics()) as seen:
        model(IDS)
    whole, _ = watched(model)
    asked = [
        seen.importance,
        seen.attribution,
        lambda: seen.without(layer=0, head=0),
        lambda: seen.rollout([1]),
        lambda: seen.flow(3, 1),
        lambda: seen.compare(whole),
        lambda: whole.compare(seen),
        lambda: seen.align([" a"]),
    ]
    for ask in asked:
        with pytest.raises(regard.KindError, match=r"statistics only.*watch without keep=Stat"):
            ask()
    assert len(seen.roles()) == 8


def test_attention_by_hand_is_named_and_no_layer_takes_anothers_place() -> None:
    class ByHand(type(ours()[0])):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            q, k, v = self.qkv(x).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
            return self.out(((q @ k.mT / 8**0.5).softmax(-1) @ v).transpose(1, 2).flatten(2))

    model = torch.nn.Sequential(ours()[0], ByHand()).eval()
    points = {"1": regard.Point(qkv="qkv", heads=4)}
    for keep, layers in ((None, 2), (regard.QueriesAndKeys(layers=["0"]), 1)):
        with torch.no_grad(), regard.watch(model, points=points, keep=keep) as seen:
            model(IDS)
        assert len(seen) == layers
        for ask in (seen.importance, lambda seen=seen: seen.attribution(lambda o: o.sum()).layers):
            if keep is None:
                with pytest.raises(regard.KindError, match=r"by hand in 1, .*leave it out"):
                    ask()
            else:
                assert [one.layer for one in ask()] == [0]


def test_a_projection_is_met_where_time_comes_before_the_batch() -> None:
    class TimeFirst(type(ours()[0])):  # type: ignore[misc]
        def forward(self, input_ids: Any) -> Any:
            x = self.qkv(self.embed(input_ids)).unflatten(-1, (3, 4, 8))  # (B, T, 3, H, D)
            q, k, v = x.permute(2, 0, 3, 1, 4)
            return self.out(regard.attend(q, k, v).permute(2, 0, 1, 3).flatten(2))

    model = TimeFirst().eval()
    seen, _ = watched(model)
    (found,) = seen.importance(sample=1)
    assert found.projected
    v = model.qkv(model.embed(IDS)).unflatten(-1, (3, 4, 8))[1, :, 2]
    into = model.out.weight.T.reshape(4, 8, -1)
    norms = torch.einsum("she,hed->hsd", v, into).norm(dim=-1)
    np.testing.assert_allclose(found.norms, norms.detach(), rtol=1e-4)
