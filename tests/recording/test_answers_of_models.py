"""Answers about models whose weights were learnt, against the dense matrices in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import regard
from regard.recording import shelf
from regard.recording.answers.flow import flow
from regard.recording.answers.rollout import rollout
from regard.recording.recording import Recording
from small import need_package, silent

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

T = 256


def minilm() -> tuple[Any, list[Any], list[Any]]:
    model = transformers.AutoModel.from_pretrained(shelf.find("minilm", silent)).eval()
    parts = [layer.attention for layer in model.encoder.layer]
    return model, [part.self.value for part in parts], [part.output.dense for part in parts]


def smollm2() -> tuple[Any, list[Any], list[Any]]:
    place = shelf.find("smollm2", silent)
    model = transformers.AutoModel.from_pretrained(place, dtype=torch.float32).eval()
    parts = [layer.self_attn for layer in model.layers]
    return model, [part.v_proj for part in parts], [part.o_proj for part in parts]


def read(name: str, make: Any) -> tuple[Any, Recording, list[Any], list[Any]]:
    need_package(name)
    model, makers, projections = make()
    ids = torch.randint(1000, 20_000, (1, T), generator=torch.Generator().manual_seed(0))
    values: list[Any] = []
    hooks = [one.register_forward_hook(lambda m, a, v: values.append(v[0])) for one in makers]
    with torch.no_grad(), regard.watch(model) as seen:
        model(ids)
    for hook in hooks:
        hook.remove()
    return model, seen, values, projections


def dense(seen: Recording) -> list[np.ndarray]:
    """(H, T, T) of each layer, from its queries and keys in float64."""
    return [
        regard.weights(
            layer.q.double(), layer.k.double(), layer.mask, start=layer.start, **layer.options
        ).dense()[0].numpy()
        for layer in seen
    ]  # fmt: skip


def pipes(matrices: list[np.ndarray]) -> list[np.ndarray]:
    return [(m.mean(0) + np.eye(T)) / (m.mean(0) + np.eye(T)).sum(1)[:, None] for m in matrices]


def most(network: list[np.ndarray], target: int, source: int) -> float:
    """The largest flow through every pipe there is."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import maximum_flow

    places = [np.nonzero(m) for m in network]
    tops = np.concatenate([(n + 1) * T + rows for n, (rows, _) in enumerate(places)])
    bottoms = np.concatenate([n * T + keys for n, (_, keys) in enumerate(places)])
    widths = np.concatenate([m[at] for m, at in zip(network, places, strict=True)])
    nodes = (len(network) + 1) * T
    units = np.round(widths * 2**30).astype(np.int32)
    whole = coo_array((units, (tops, bottoms)), shape=(nodes, nodes)).tocsr()
    begin = len(network) * T + target
    return float(maximum_flow(whole, begin, source).flow_value) / 2**30


def check(name: str, make: Any) -> None:
    model, seen, values, projections = read(name, make)
    matrices = dense(seen)
    network, whole = pipes(matrices), np.eye(T)
    for one in network:
        whole = one @ whole
    targets = [T - 1, 100]
    np.testing.assert_allclose(rollout(list(seen), targets), whole[targets], rtol=0, atol=1e-5)
    found = flow(list(seen), T - 1, 3)
    want = most(network, T - 1, 3)
    assert found.value - 1e-5 <= want <= found.bound + 1e-5
    assert found.bound - found.value <= 1e-5
    weighed = seen.importance(targets)
    for one, w, v, part in zip(weighed, matrices, values, projections, strict=True):
        H, E = w.shape[0], v.shape[-1] // (v.shape[-1] // seen[0].q.shape[-1])
        of_group = v.double().unflatten(-1, (-1, E)).transpose(0, 1)
        of_head = of_group.repeat_interleave(H // len(of_group), 0)
        into = part.weight.detach().double().T.reshape(H, E, -1)
        norms = (of_head @ into).norm(dim=-1).numpy()
        close = {"rtol": 0, "atol": 1e-5 * (w * norms[:, None]).max()}
        np.testing.assert_allclose(one.targets, (w * norms[:, None])[:, targets], **close)
        close["atol"] = 1e-5 * (w.sum(1) * norms).max()
        np.testing.assert_allclose(one.received, w.sum(1) * norms, **close)
    assert model is not None  # it must live until its run was had again


@pytest.mark.models
def test_minilm_at_256_tokens() -> None:
    check("minilm", minilm)


@pytest.mark.campaign
@pytest.mark.models
def test_smollm2_at_256_tokens() -> None:
    check("smollm2", smollm2)
