"""What is remembered of a call's form changes nothing but the time: every later call is its own."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import regard
from regard.core import attention, known, plan

TIMES = 4
"""Calls of a form: the first is checked and finds its engine, the others remember."""


def qkv(*shape: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(*shape).to(dtype) for _ in range(3)]


def well_known(*args: Any, **options: Any) -> Any:
    """The last of some calls of a form; it is one whose computation is remembered."""
    found = [regard.attend(*args, **options) for _ in range(TIMES)]
    kept = [call.notes for call in known.KNOWN.values()]
    assert any(options.get("engine", "auto") in notes for notes in kept)
    return found[-1]


def anew(*args: Any, **options: Any) -> Any:
    """A call of which nothing is remembered."""
    known.KNOWN.clear()
    return regard.attend(*args, **options)


LAYOUTS = {
    "whole": lambda a: a,
    "heads after rows": lambda a: a.swapaxes(-3, -2).copy().swapaxes(-3, -2),
    "columns first": lambda a: a.swapaxes(-1, -2).copy().swapaxes(-1, -2),
    "every second row": lambda a: a.repeat(2, -2)[..., ::2, :],
    "one head for all": lambda a: np.broadcast_to(a[..., :1, :, :], a.shape),
    "backwards": lambda a: a[..., ::-1, :].copy()[..., ::-1, :],
}


@given(
    bare=st.booleans(),
    library=st.sampled_from([np.asarray, torch.from_numpy]),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    layouts=st.lists(
        st.tuples(*[st.sampled_from(sorted(LAYOUTS))] * 3), min_size=TIMES, max_size=TIMES
    ),
    options=st.sampled_from(
        [{}, {"mask": regard.causal()}, {"start": 3}, {"scale": 0.3, "softcap": 2.0}]
    ),
)
@settings(max_examples=60)
def test_a_call_of_a_known_form_is_computed_as_one_that_nobody_knows(
    bare: bool, library: Any, dtype: str, layouts: list[Any], options: dict[str, Any]
) -> None:
    known.KNOWN.clear()
    shapes = [(5, 8), (7, 8), (7, 4)] if bare else [(2, 4, 5, 8), (2, 2, 7, 8), (2, 2, 7, 4)]
    draw = np.random.default_rng(0)
    for layout in layouts:
        arrays = [draw.normal(size=shape).astype(dtype) for shape in shapes]
        if not bare:
            arrays = [LAYOUTS[name](a) for name, a in zip(layout, arrays, strict=True)]
        if library is torch.from_numpy:  # which takes no steps below 1 and nothing read-only
            arrays = [a.copy() if min(a.strides) < 1 else a for a in arrays]
        args = [library(a) for a in arrays]
        found = regard.attend(*args, **options)
        want = regard.attend(*[library(a.copy()) for a in arrays], **options, engine="native")
        assert type(found) is type(args[0])
        assert found.shape == (*shapes[0][:-1], 4)
        assert found.dtype == args[0].dtype
        assert np.array_equal(np.asarray(found), np.asarray(want))
        truth = regard.attend(*args, **options, engine="formula")
        np.testing.assert_allclose(np.asarray(found), np.asarray(truth), rtol=0.02, atol=0.02)


def test_the_engine_that_is_asked_for_computes_it() -> None:
    q, k, v = qkv(2, 2, 40, 8)
    assert torch.equal(well_known(q, k, v), regard.attend(q, k, v, engine="native"))
    for engine in ("formula", "tiles", "sdpa"):
        want = anew(q, k, v, engine=engine)
        well_known(q, k, v)
        found = [regard.attend(q, k, v, engine=engine) for _ in range(TIMES)]
        assert all(torch.equal(one, want) for one in found)
    for wrong in ("fastest", ["auto"], None, 3):
        with pytest.raises(regard.EngineError, match="engine must be 'auto' or one of"):
            regard.attend(q, k, v, engine=wrong)  # type: ignore[arg-type]


def test_what_stands_beside_a_known_form_is_not_forgotten() -> None:
    q, k, v = qkv(1, 2, 6, 8)
    plain = well_known(q, k, v)
    for more in ({"bias": regard.alibi(2)}, {"sink": 0.5}, {"dropout": 0.5, "generator": 1}):
        found = [regard.attend(q, k, v, **more) for _ in range(TIMES)]
        truth = regard.attend(q, k, v, **more, engine="formula")
        assert all(torch.allclose(one, truth, atol=1e-5) for one in found)
        assert not torch.allclose(plain, truth, atol=1e-5)
    drawn = [regard.attend(q, k, v, dropout=0.5) for _ in range(TIMES)]
    assert not torch.equal(drawn[-1], drawn[-2])
    for wrong in ({"scale": True}, {"softcap": False}, {"dropout": False}, {"start": True}):
        with pytest.raises(regard.KindError):
            regard.attend(q, k, v, **wrong)
    with pytest.raises(regard.KindError, match="v must be an array, but it is None"):
        regard.attend(q, k, None)


def test_a_mode_of_torch_that_begins_after_a_known_call_is_kept() -> None:
    q, k, v = qkv(2, 2, 6, 8)
    plain = well_known(q, k, v)
    with torch.autocast("cpu", torch.bfloat16):
        cast = regard.attend(q, k, v)
    assert cast.dtype == torch.bfloat16
    with torch.inference_mode():
        assert regard.attend(q, k, v).is_inference()
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(v, torch.ones_like(v))
        tangent = torch.autograd.forward_ad.unpack_dual(regard.attend(q, k, dual)).tangent
    assert torch.allclose(tangent, torch.ones_like(v))
    mapped = torch.func.vmap(lambda one: regard.attend(one, k, v))(torch.stack([q, 2 * q]))
    assert torch.allclose(mapped[0], plain, atol=1e-6)
    assert torch.allclose(mapped[1], anew(2 * q, k, v), atol=1e-6)
    well_known(q, k, v)
    meta = [a.to("meta") for a in (q, k, v)]
    assert regard.attend(*meta).is_meta
    with pytest.raises(regard.EngineError, match="torch's old vmap"):
        torch._vmap_internals._vmap(lambda one: regard.attend(one, k, v))(torch.stack([q, q]))
    assert torch.equal(regard.attend(q, k, v), plain)


def test_gradients_are_asked_of_a_known_form_too() -> None:
    for dtype in (torch.float32, torch.float64):
        q, k, v = qkv(2, 2, 6, 8, dtype=dtype)
        plain = well_known(q, k, v)
        for a in (q, k, v):
            a.requires_grad_()
            output = regard.attend(q, k, v)
            assert output.requires_grad
            assert torch.allclose(output, plain, atol=1e-6)
            (found,) = torch.autograd.grad(output.sum(), a)
            (want,) = torch.autograd.grad(regard.attend(q, k, v, engine="formula").sum(), a)
            assert torch.allclose(found, want, atol=1e-5)
            with torch.no_grad():
                assert not well_known(q, k, v).requires_grad
            a.requires_grad_(False)


def test_a_subclass_stays_what_it_is_beside_plain_tensors() -> None:
    class Named(torch.Tensor):
        pass

    q, k, v = qkv(1, 2, 6, 8)
    plain = well_known(q, k, v)
    named = [a.as_subclass(Named) for a in (q, k, v)]
    for args in (named, [named[0], k, v], [q, k, named[2]]):
        want = anew(*args)
        found = well_known(*args)
        assert type(found) is type(want)
        assert torch.equal(torch.Tensor(found), plain)
    parameters = [torch.nn.Parameter(a) for a in (q, k, v)]
    assert regard.attend(*parameters).requires_grad
    assert type(regard.attend(q, k, v)) is torch.Tensor


def test_whoever_listens_hears_known_calls_too(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = qkv(1, 2, 6, 8)
    well_known(q, k, v, regard.causal())
    heard: list[Any] = []
    monkeypatch.setattr(attention, "HEARD", [lambda q, k, mask, options: heard.append(q)])
    regard.attend(q, k, v, regard.causal())
    assert heard[0] is q
    monkeypatch.setattr(attention, "HEARD", [])
    regard.attend(q, k, v, regard.causal())
    assert len(heard) == 1


def test_a_known_call_asks_for_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = qkv(1, 2, 6, 8)
    for arrays in ((q, k, v), [a.numpy() for a in (q, k, v)], [a[0, 0] for a in (q, k, v)]):
        want = well_known(*arrays)
        with monkeypatch.context() as nobody:
            nobody.setattr(attention, "check", None)
            nobody.setattr(attention, "choose", None)
            nobody.setattr(plan, "ENGINES", {})
            assert (np.asarray(regard.attend(*arrays)) == np.asarray(want)).all()


def test_nothing_of_the_arrays_is_kept() -> None:
    q, k, v = qkv(1, 2, 6, 8)
    well_known(q, k, v, regard.causal())
    gone = [weakref.ref(a) for a in (q, k, v)]
    del q, k, v
    gc.collect()
    assert [one() for one in gone] == [None] * 3


def test_no_more_calls_are_remembered_than_fit() -> None:
    for n in range(1, 2 * known.MANY):
        regard.plan(np.ones((n, 2)), np.ones((3, 2)), np.ones((3, 2)))
    assert len(known.KNOWN) <= known.MANY
    assert all(call.q is call.k is call.v is None for call in known.KNOWN.values())


def test_keys_that_there_are_none_of_lie_anywhere() -> None:
    """A cache stored (…, D, S), at its first step."""
    q, v = torch.randn(1, 2, 20, 8), torch.empty(1, 2, 0, 8)
    for k in (torch.empty(1, 2, 8, 64)[..., :0].mT, torch.empty(1, 2, 6, 16)[:, :, :0, ::2]):
        for _ in range(TIMES):
            assert not regard.attend(q, k, v).any()


def test_fields_of_records_are_read_where_they_lie() -> None:
    record = np.dtype([("x", "f4", (8,)), ("y", "i1")])
    x = np.zeros((2, 20), record)["x"]
    x[:] = np.random.default_rng(0).normal(size=x.shape)
    want = regard.attend(*[x.copy()] * 3)
    for _ in range(TIMES):
        np.testing.assert_array_equal(regard.attend(x, x, x), want)


@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_what_lies_nowhere_is_refused() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    q = torch.randn(1, 2, 20, 8)
    for _ in range(2):
        nowhere = pytest.raises(regard.EngineError, match="no place in memory")
        with FakeTensorMode(allow_non_fake_inputs=True), nowhere:
            regard.attend(q, q, q)
        well_known(q, q, q)
