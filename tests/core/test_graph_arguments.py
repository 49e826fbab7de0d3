"""What a graph does with numbers, lists and arrays that are not known while it is made."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import regard
from graphs import H, assert_same, compiled, x

torch = pytest.importorskip("torch")

WRONG: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "a window of none": (lambda: regard.window(0), regard.ValueRangeError),
    "a negative window": (lambda: regard.window(before=-3, after=1), regard.ValueRangeError),
    "half a window": (lambda: regard.window(2.5), regard.KindError),  # type: ignore[arg-type]
    "a negative prefix": (lambda: regard.prefix(-3), regard.ValueRangeError),
    "keep of numbers": (lambda: regard.keep(torch.full((5, 5), -3.0)), regard.KindError),
    "keep of bytes": (lambda: regard.keep(torch.ones(5, 5, dtype=torch.uint8)), regard.KindError),
    "where of numbers": (lambda: regard.where(lambda i, j: (i - j) * 1.0), regard.KindError),
}


@pytest.mark.parametrize(("mask", "error"), WRONG.values(), ids=WRONG)
def test_a_mask_is_checked_in_a_graph_as_outside(
    mask: Callable[[], Any], error: type[Exception]
) -> None:
    def fn(q: Any) -> Any:
        return regard.attend(q, q, q, mask())

    with pytest.raises(error) as outside:
        fn(x(5))
    with pytest.raises(Exception) as inside:  # noqa: PT011 - torch wraps some of them
        compiled(fn)[0](x(5))
    assert str(outside.value) in str(inside.value)


@pytest.mark.parametrize(
    "options",
    [
        {"sink": float("nan")},
        {"sink": float("inf")},
        {"sink": True},
        {"scale": True},
        {"scale": torch.tensor(0.5)},
        {"softcap": "x"},
        {"bias": np.ones((5, 5))},
        {"sink": np.ones(2)},
        {"engine": None},
        {"mask": regard.where(lambda i, j: (i > j)[..., :2])},
    ],
    ids=lambda options: "-".join(map(str, next(iter(options.items())))),
)
def test_other_arguments_are_checked_in_a_graph_as_outside(options: dict[str, Any]) -> None:
    def fn(q: Any) -> Any:
        return regard.attend(q, q, q, **options)

    with pytest.raises(regard.RegardError) as outside:
        fn(x(5))
    with pytest.raises(Exception) as inside:  # noqa: PT011 - torch wraps some of them
        compiled(fn)[0](x(5))
    told = str(inside.value) + str(inside.value.__cause__)
    assert type(outside.value).__name__ in told or isinstance(inside.value, type(outside.value))


FROM_THE_LENGTH: dict[str, Callable[[Any], Any]] = {
    "a start": lambda q: regard.attend(q, q, q, regard.causal(), start=q.shape[-2] - 3),
    "a length": lambda q: regard.attend(q, q, q, regard.lengths(q.shape[-2] - 1)),
    "lengths": lambda q: regard.attend(q, q, q, regard.lengths([q.shape[-2] - 1, 3])),
    "documents by length": lambda q: regard.attend(
        q, q, q, regard.documents(lengths=[q.shape[-2] - 2, 2])
    ),
    "documents by edge": lambda q: regard.attend(
        q, q, q, regard.documents(cumulative=[0, 2, q.shape[-2]])
    ),
    "a seed": lambda q: regard.attend(q, q, q, dropout=0.3, generator=q.shape[-2]),
}


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("fn", FROM_THE_LENGTH.values(), ids=FROM_THE_LENGTH)
def test_an_exported_program_reads_positions_from_the_length(fn: Any, strict: bool) -> None:
    class Module(torch.nn.Module):
        def forward(self, q: Any) -> Any:
            return fn(q)

    shapes = {"q": {2: torch.export.Dim("T", min=4, max=64)}}
    q = x(7).detach()
    program = torch.export.export(Module(), (q,), dynamic_shapes=shapes, strict=strict).module()
    for n in (5, 7, 30):
        q = x(n).detach()
        torch.testing.assert_close(program(q), fn(q))


def test_sizes_that_are_all_open() -> None:
    def fn(q: Any) -> Any:
        return regard.attend(q, q, q, bias=regard.alibi(q.shape[-3]), scale=0.5, softcap=2.0)

    torch._dynamo.reset()
    graph = torch.compile(fn, fullgraph=True, backend="aot_eager", dynamic=True)
    assert_same(fn, graph, x(5))


def test_a_start_and_lists_of_numbers_need_no_graph_each() -> None:
    """A decoder counts on: its start is another number at every step."""

    def decode(q: Any, n: int) -> Any:
        return regard.attend(q[:, :, :1], q, q, regard.causal(), start=n)

    def lists(q: Any, n: int) -> Any:
        mask = regard.lengths([n, n + 1]) & regard.documents([n // 3, n // 3, n, n, n + 1])
        return regard.attend(q, q, q, mask, start=[n - 2, 0])

    for fn, numbers in ((decode, range(12)), (lists, range(5))):
        graph, counter = compiled(fn)
        for n in [*numbers][:4] if fn is lists else numbers:
            assert_same(fn, graph, x(5), n)
        assert counter.frame_count <= 2


@pytest.mark.parametrize("shape", [(), (1,)])
def test_one_sink_for_all_heads(shape: tuple[int, ...]) -> None:
    sink = torch.full((), 0.5, requires_grad=True) if shape == () else torch.ones(1)

    def fn(q: Any, sink: Any) -> Any:
        heads = q if shape == () else q[0, 0]  # plain 2-D arrays have one head
        return regard.attend(heads, heads, heads, sink=sink)

    def mapped(q: Any, sink: Any) -> Any:
        return torch.func.vmap(fn, in_dims=(0, None))(q[None], sink)

    assert_same(fn, compiled(fn)[0], x(5), sink)
    assert_same(mapped, compiled(mapped)[0], x(5), sink)


def test_a_number_as_sink_is_not_rounded_to_the_queries_dtype() -> None:
    q = x(5).detach().half()
    fn: Callable[[Any], Any] = lambda q: regard.attend(q, q, q, sink=1e5)  # noqa: E731
    for found in (fn(q), compiled(fn)[0](q)):
        assert found.abs().max() == 0  # the sink takes all; float16 has no 1e5


@pytest.mark.parametrize("engine", ["auto", "sdpa", "tiles", "formula"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_inductor_reads_every_dtype_of_a_partial(engine: str, dtype: str) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler: apt-get install g++")

    def fn(q: Any) -> Any:
        part = regard.partial(q, q, q, regard.causal(), engine=engine)
        return part.output * 2, part.lse * 2  # so that inductor makes code of its own for both

    torch._dynamo.reset()
    q = torch.randn(2, H, 6, 4, dtype=getattr(torch, dtype))
    for found, want in zip(torch.compile(fn, fullgraph=True)(q), fn(q), strict=True):
        torch.testing.assert_close(found, want)


def test_tensors_without_data_are_checked_as_others() -> None:
    q, k = (torch.empty(2, 4, n, 8, device="meta") for n in (6, 7))
    for mask, options, words in (
        (None, {"bias": torch.empty(4, 5, 7, device="meta")}, "bias must fit"),
        (None, {"bias": regard.alibi(3)}, "one slope a query head"),
        (None, {"sink": torch.empty(3, device="meta")}, "one logit per query head"),
        (None, {"start": [1, 2, 3]}, "one per batch entry"),
        (None, {"softcap": -1.0}, "softcap must be above 0"),
        (None, {"engine": "fast"}, "engine must be"),
        (regard.lengths(99), {}, "must count keys from 0 to S = 7"),
        (regard.keep(np.ones((5, 5), bool)), {}, "the array of keep"),
    ):
        with pytest.raises(regard.RegardError, match=words):
            regard.attend(q, k, k, mask, **options)  # type: ignore[arg-type]
