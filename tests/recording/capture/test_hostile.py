"""Nothing of a watch outlives it, and nobody is recorded by mistake."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import regard
from regard.recording.capture.taps import TAPS
from small import GROUPED

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402


class Attending(nn.Module):
    """Attention by torch's function, and a failure where it is wanted."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.failing: type[BaseException] | None = None

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        found = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        if self.failing is not None:
            raise self.failing("on purpose")
        return found


def llama(how: str = "sdpa", **options: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**GROUPED, **options)
    return transformers.AutoModelForCausalLM.from_config(config, attn_implementation=how)


def x(batch: int = 1, length: int = 5) -> Any:
    return torch.randn(batch, length, 8)


def clean(model: Any) -> bool:
    hooks = any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    return (
        not hooks
        and not TAPS.writers
        and not hasattr(F.scaled_dot_product_attention, "__wrapped__")
    )


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_model_that_raises_in_the_middle(error: type[BaseException]) -> None:
    model = nn.Sequential(Attending(), Attending())
    with regard.watch(model) as seen:
        model[1].failing = error
        with pytest.raises(error):
            model(x())
        model[1].failing = None
        model(x())
        model(x())
    assert clean(model)
    whole = [run for run in seen.runs if len(run.layers) == 2]
    assert len(whole) == 2 or (len(whole) == 3 and error is RuntimeError)
    assert not seen.missed
    model(x())
    assert len([run for run in seen.runs if len(run.layers) == 2]) == len(whole)


def test_watches_nest_and_end_in_any_order() -> None:
    model = nn.Sequential(Attending())
    one, two = regard.watch(model), regard.watch(model)
    seen = one.__enter__()
    model(x())
    other = two.__enter__()
    model(x(length=6))
    one.__exit__(None, None, None)
    model(x(length=7))
    two.__exit__(None, None, None)
    model(x())
    assert clean(model)
    assert [run.layers[0].q.shape[-2] for run in seen.runs] == [5, 6]
    assert [run.layers[0].q.shape[-2] for run in other.runs] == [6, 7]


def test_another_threads_model_is_not_recorded_and_ones_own_is_in_any_thread() -> None:
    mine, theirs = nn.Sequential(Attending()), nn.Sequential(Attending())
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            theirs(x(length=9))

    other = threading.Thread(target=run)
    other.start()
    try:
        with regard.watch(mine) as seen:
            threads = [threading.Thread(target=mine, args=(x(length=n),)) for n in (3, 4, 5, 6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        stop.set()
        other.join()
    lengths = [layer.q.shape[-2] for run in seen.runs for layer in run.layers]
    assert sorted(lengths) == [3, 4, 5, 6]
    assert clean(mine)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    model = llama().to(getattr(torch, dtype)).eval()
    ids = torch.arange(9)[None]
    with torch.no_grad():
        plain = model(ids).logits
        with regard.watch(model) as seen:
            assert torch.equal(plain, model(ids).logits)
    for layer in seen:
        assert layer.q.dtype == getattr(torch, dtype)
        rows = layer.weights.dense()
        q, k = layer.q.double(), layer.k.double().repeat_interleave(2, 1)
        scores = (q @ k.mT * 8**-0.5).masked_fill(~torch.ones(9, 9).tril().bool(), -torch.inf)
        assert (rows - scores.softmax(-1)).abs().max() < 2e-2


def test_a_model_that_trains_gives_the_same_gradients() -> None:
    found = []
    for watching in (False, True):
        model = llama(attention_dropout=0.0).train()
        ids = torch.arange(9)[None]
        if watching:
            with regard.watch(model) as seen:
                model(input_ids=ids, labels=ids).loss.backward()
        else:
            model(input_ids=ids, labels=ids).loss.backward()
        found.append([p.grad for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    assert len(seen) == 2
    assert not any(layer.q.requires_grad or layer.k.requires_grad for layer in seen)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_runs_a_forward_twice_and_is_recorded_once(reentrant: bool) -> None:
    model = llama().train()
    model.activation_checkpointing_enable({"use_reentrant": reentrant})
    ids = torch.arange(9)[None]
    with regard.watch(model) as seen:
        embedded = model.get_input_embeddings()(ids).detach().requires_grad_()
        model(inputs_embeds=embedded, labels=ids).loss.backward()
    assert [len(run.layers) for run in seen.runs] == [2]
    assert embedded.grad is not None


def test_a_part_that_is_called_by_itself_is_a_run() -> None:
    model = nn.Sequential(Attending(), Attending())
    with regard.watch(model) as seen:
        model[1](x())
    assert [layer.name for layer in seen] == ["1"]


def test_a_compiled_function_inside_a_model_is_listed_as_missed() -> None:
    def plain(q: Any, k: Any, v: Any) -> Any:
        return F.scaled_dot_product_attention(q, k, v)

    attend = torch.compile(plain, backend="aot_eager", fullgraph=True)

    class CompiledAttention(nn.Module):
        def forward(self, q: Any) -> Any:
            return attend(q, q, q)

    model = nn.Sequential(CompiledAttention())
    q = torch.randn(1, 2, 5, 4)
    with torch.no_grad(), regard.watch(model) as seen:
        model(q)
    assert len(seen.runs[0].layers) == 0
    (missed,) = seen.missed
    assert missed.name == "0"
    assert "CompiledAttention is attention by its name, and called no function" in missed.why


def test_a_compiled_forward_is_refused_by_name() -> None:
    class Compiled(nn.Module):
        @torch.compile(backend="eager")
        def forward(self, x: Any) -> Any:
            return x

    with pytest.raises(regard.KindError, match=r"the forward of 0 \(Compiled\) is compiled"):
        regard.watch(nn.Sequential(Compiled())).__enter__()
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.script(nn.Linear(2, 2))
    with pytest.raises(regard.KindError, match="the model is a ScriptModule"):
        regard.watch(scripted).__enter__()


@pytest.mark.filterwarnings("ignore:There is a performance drop because")
def test_a_transform_of_torch_func_is_listed_as_missed() -> None:
    model = nn.Sequential(Attending())
    with torch.no_grad(), regard.watch(model) as seen:
        torch.func.vmap(model)(torch.randn(3, 1, 5, 8))
    assert len(seen.runs[0].layers) == 0
    assert "inside a transform of torch.func" in str(seen.missed[0])


def test_a_mask_for_each_layer_is_not_held_until_the_end() -> None:
    import weakref

    alive: list[Any] = []

    class Masked(nn.Module):
        def forward(self, q: Any) -> Any:
            mask = torch.ones(40, 40, dtype=torch.bool).tril()
            alive.append(weakref.ref(mask))
            return F.scaled_dot_product_attention(q, q, q, mask)

    with regard.watch(model := nn.Sequential(*(Masked() for _ in range(3)))) as seen:
        model(torch.randn(1, 2, 40, 4))
        assert [one() for one in alive] == [None] * 3
    assert [repr(layer.mask) for layer in seen] == ["Spans(<40 ranges>)"] * 3
