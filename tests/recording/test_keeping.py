"""What a watch keeps: which layers, where, in which dtype, or statistics only."""

from __future__ import annotations

import errno
import gc
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaModel

import regard
from regard._errors import KindError, UserError, ValueRangeError
from regard.recording import keeping
from regard.recording.chosen import choose
from regard.recording.overview import overview_of
from regard.recording.recording import Layer, Recording, Run
from regard.recording.summary import give_back
from small import GROUPED

IDS = torch.arange(24).reshape(2, 12)
PADDING = torch.tensor([[0] * 3 + [1] * 9, [1] * 12])


def llama() -> LlamaModel:
    torch.manual_seed(0)
    return LlamaModel(LlamaConfig(**GROUPED)).eval()


def watched(model: Any, keep: Any = None, **inputs: Any) -> Recording:
    with torch.no_grad(), regard.watch(model, keep=keep) as seen:
        model(**(inputs or {"input_ids": IDS, "attention_mask": PADDING}))
    return seen


def test_layers_are_chosen_by_number_or_name():
    model = llama()
    assert [layer.name for layer in watched(model, regard.QueriesAndKeys(layers=[1]))] == [
        "layers.1.self_attn"
    ]
    named = regard.Statistics(layers=["layers.0.self_attn"])
    assert [layer.name for layer in watched(model, named).statistics] == ["layers.0.self_attn"]
    assert len(watched(model, regard.QueriesAndKeys(layers=[]))) == 0


def test_numbers_begin_anew_with_each_run():
    model = llama()
    with torch.no_grad(), regard.watch(model, keep=regard.QueriesAndKeys(layers=[1])) as seen:
        model(input_ids=IDS)
        model(input_ids=IDS)
    assert [[layer.name for layer in run.layers] for run in seen.runs] == [
        ["layers.1.self_attn"]
    ] * 2


def test_a_dtype_rounds_queries_and_keys():
    model = llama()
    whole, half = watched(model), watched(model, regard.QueriesAndKeys(dtype=torch.bfloat16))
    assert half[0].q.dtype == half[0].k.dtype == torch.bfloat16
    assert torch.equal(half[0].q, whole[0].q.bfloat16())
    assert half.nbytes < whole.nbytes


def test_what_is_kept_is_a_copy():
    model = llama()
    held: list[Any] = []
    seen = watched(model)
    for layer in seen:
        for array in (layer.q, layer.k):
            held.append(array.untyped_storage().data_ptr())
            assert array.untyped_storage().nbytes() == array.nbytes
    assert len(set(held)) == len(held)


def test_what_is_on_disk_says_the_same_and_has_no_name(tmp_path: Path):
    model = llama()
    seen = watched(model, regard.QueriesAndKeys(folder=tmp_path))
    assert list(tmp_path.iterdir()) == []
    for here, there in zip(watched(model), seen, strict=True):
        assert torch.equal(here.weights.dense(), there.weights.dense())
    seen.save(tmp_path / "x.regard")
    assert len(regard.load(tmp_path / "x.regard")) == 2
    del seen
    gc.collect()
    assert [path.name for path in tmp_path.iterdir()] == ["x.regard"]


def test_nothing_stays_on_disk_of_a_model_that_raises(tmp_path: Path):
    model = llama()
    model.layers[1].mlp.forward = lambda x: 1 / 0
    with (
        pytest.raises(ZeroDivisionError),
        torch.no_grad(),
        regard.watch(model, keep=regard.QueriesAndKeys(folder=tmp_path)) as seen,
    ):
        model(input_ids=IDS)
    assert list(tmp_path.iterdir()) == []
    assert len(seen) == 2  # both layers' attention had run
    assert seen[1].weights.entropy().shape == (2, 4, 12)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES])
def test_a_folder_that_takes_nothing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
):
    def refused(**_: Any) -> Any:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    with pytest.raises(UserError, match="the layers cannot be kept in") as caught:
        watched(llama(), regard.QueriesAndKeys(folder=tmp_path))
    assert os.strerror(code) in str(caught.value)
    assert "只保留统计量" in caught.value.say("zh")
    assert list(tmp_path.iterdir()) == []


def test_layers_of_nothing_are_kept_on_disk_too(tmp_path: Path):
    nothing = torch.zeros(1, 2, 0, 8)
    layer = regard.QueriesAndKeys(folder=tmp_path).of(
        Layer("a", nothing, nothing, None, None), 0, Run()
    )
    assert layer is not None
    assert layer.q.shape == layer.k.shape == (1, 2, 0, 8)


def test_statistics_are_what_the_weights_say():
    model = llama()
    whole, summed = watched(model), watched(model, regard.Statistics(strongest=3, pixels=4))
    assert len(summed.layers) == 0
    for layer, found in zip(whole, summed.statistics, strict=True):
        W = layer.weights.dense().double().numpy()
        assert found.shape == W.shape
        logs = np.log(W, out=np.zeros_like(W), where=W > 0)
        assert np.allclose(found.entropy, -(W * logs).sum(-1), atol=1e-5)
        assert np.allclose(found.received, W.sum(-2), atol=1e-5)
        assert np.allclose(found.top_weights, -np.sort(-W, axis=-1)[..., :3], atol=1e-6)
        assert np.allclose(found.image, W.reshape(2, 4, 4, 3, 4, 3).mean((3, 5)), atol=1e-6)


def test_statistics_keep_the_weights_between_chosen_tokens():
    model = llama()
    keep = regard.Statistics(chosen=[7, 2, 11, 2, 400])
    assert keep.chosen == (2, 7, 11, 400)
    whole, summed = watched(model), watched(model, keep)
    far = np.abs(np.arange(12)[:, None] - np.arange(12))
    for layer, found in zip(whole, summed.statistics, strict=True):
        W = layer.weights.dense().double().numpy()
        assert found.chosen is not None
        assert found.chosen.tolist() == [2, 7, 11]
        assert np.allclose(found.links, W[..., [[2], [7], [11]], [2, 7, 11]], atol=1e-6)
        distance = (W * far).sum((-2, -1)) / W.sum((-2, -1))
        assert np.allclose(found.distance, distance, atol=1e-5)
    view = overview_of(summed, model="m", tokens=[str(n) for n in range(12)])
    assert view.chosen.tolist() == [2, 7, 11]
    assert np.array_equal(view.layers[1][3].exact, summed.statistics[1].links[0, 3])


def test_tokens_asked_for_are_among_the_chosen():
    tokens = [" a", ",", " Ann", " b", " Ann", " c", " b", " b", " d"]
    assert choose(tokens, {1}, asked=[5], count=4) == (0, 5, 7, 8)
    assert choose(tokens, {1}, count=5) == (0, 2, 4, 7, 8)
    assert choose(tokens) == tuple(range(9))
    many = choose([str(n % 700) for n in range(5000)])
    assert len(many) == 200
    assert set(range(4940, 5000)) <= set(many)


def test_statistics_may_leave_the_strongest_out():
    for found in watched(llama(), regard.Statistics(strongest=0)).statistics:
        assert found.top_keys.shape == found.top_weights.shape == (2, 4, 12, 0)
        assert found.received.shape == (2, 4, 12)


def test_statistics_give_the_overview_that_a_whole_recording_gives():
    model, tokens = llama(), [str(n) for n in range(12)]
    ids = {"input_ids": IDS[:1]}
    whole = overview_of(watched(model, **ids), model="m", tokens=tokens, separators=[5])
    summed = overview_of(
        watched(model, regard.Statistics(separators=(5,)), **ids), model="m", tokens=tokens
    )
    assert len(whole.chosen) == 12
    assert len(summed.chosen) == 0
    for a, b in zip(whole.heads(), summed.heads(), strict=True):
        assert (a.role, a.scores, a.entropy) == (b.role, b.scores, b.entropy)
        assert np.array_equal(a.image, b.image)


def test_each_sample_has_its_role():
    """A sample's padding must not count in another's scores."""
    model = llama()
    both = watched(model, regard.Statistics()).statistics
    alone = watched(model, regard.Statistics(), input_ids=IDS[1:]).statistics
    for a, b in zip(both, alone, strict=True):
        assert [a.role(h, 1) for h in range(4)] == [b.role(h) for h in range(4)]
        for role, of in a.scores.items():
            assert np.allclose(of[1], b.scores[role][0], atol=1e-5)


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"layers": "all"}, KindError, "layers must be a list of numbers or names"),
        ({"layers": [-1]}, ValueRangeError, "a number of layers must be 0 or more"),
        ({"layers": [0.5]}, KindError, "a number of layers must be"),
        ({"dtype": "float16"}, KindError, "must be a floating-point dtype of torch"),
        ({"dtype": torch.int8}, KindError, "must be a floating-point dtype of torch"),
        ({"folder": "/none/there"}, ValueRangeError, "must be a directory that is there"),
        ({"folder": "/tmp", "device": "cpu"}, ValueRangeError, "are two places"),
    ],
)
def test_what_cannot_be_kept_is_refused(fields: Any, error: type[Exception], says: str):
    with pytest.raises(error, match=says):
        regard.QueriesAndKeys(**fields)


def test_statistics_refuse_too():
    with pytest.raises(ValueRangeError, match="strongest must be 0 or more"):
        regard.Statistics(strongest=-1)
    with pytest.raises(ValueRangeError, match="pixels must be 1 or more"):
        regard.Statistics(pixels=0)


def test_keep_must_be_such_a_value():
    with (
        pytest.raises(KindError, match=r"regard.Statistics\(…\), but it is a str"),
        regard.watch(llama(), keep="statistics"),  # type: ignore[arg-type]
    ):
        pass


@pytest.mark.parametrize(("long", "times"), [(12, 2), (13, 0)])
def test_a_long_layer_gives_free_memory_back(
    long: int, times: int, monkeypatch: pytest.MonkeyPatch
):
    given: list[None] = []
    monkeypatch.setattr(keeping, "LONG", long)
    monkeypatch.setattr(keeping, "give_back", lambda: given.append(give_back()))
    watched(llama(), regard.Statistics())
    assert len(given) == times
