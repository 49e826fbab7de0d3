"""Every way in which torch computes attention is seen, and computes what it did."""

from __future__ import annotations

from typing import Any

import pytest

import regard

torch = pytest.importorskip("torch", reason="needs torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402
from torch.nn.attention import flex_attention as flexible  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention as bound_by_name  # noqa: E402

from regard.recording.recording import Recording  # noqa: E402


def watched(model: Any, *args: Any, **kwargs: Any) -> tuple[Recording, Any]:
    """The recording and the output of one call, which is what it is unwatched, bit for bit."""
    points = kwargs.pop("points", None)
    model.eval()
    with torch.no_grad():
        plain = model(*args, **kwargs)
        with regard.watch(model, points=points) as seen:
            output = model(*args, **kwargs)
    same = zip(*([o] if torch.is_tensor(o) else o for o in (plain, output)), strict=True)
    assert all(torch.equal(a, b) for a, b in same if a is not None)
    return seen, output


def formula(q: Any, k: Any, mask: Any = None, scale: Any = None) -> Any:
    """(…, T, S) in float64; ``mask`` says with True who may attend, or is added."""
    scores = q.double() @ k.double().mT * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        hidden = ~mask if mask.dtype == torch.bool else None
        scores = scores.masked_fill(hidden, -torch.inf) if hidden is not None else scores + mask
    return scores.softmax(-1).nan_to_num()


def close(layer: Any, want: Any, tolerance: float = 1e-5) -> None:
    got = layer.weights.dense()
    assert got.shape == want.shape
    assert (got - want).abs().max() < tolerance


class Splitting(nn.Module):
    """Heads from one projection, and attention by ``how(q, k, v)``."""

    def __init__(self, how: Any, heads: int = 4, width: int = 32) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.qkv = nn.Linear(width, 3 * width)
        self.how, self.heads = how, heads

    def qkv_of(self, x: Any) -> Any:
        return self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv_of(x)
        return self.how(q, k, v).transpose(1, 2).flatten(2)


def x(batch: int = 2, length: int = 9, width: int = 32) -> Any:
    return torch.randn(batch, length, width, generator=torch.Generator().manual_seed(3))


ODD = torch.rand(2, 1, 9, 9, generator=torch.Generator().manual_seed(4)) < 0.5
LOWER = torch.ones(9, 9, dtype=torch.bool).tril()


def by_name(q: Any, k: Any, v: Any) -> Any:
    return bound_by_name(q, k, v)


CALLS = {
    "held by the module": (F.scaled_dot_product_attention, None, None),
    "by name": (by_name, None, None),
    "causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        LOWER,
        None,
    ),
    "scale": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), None, 0.3),
    "mask": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, ODD), ODD, None),
    "bias": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=ODD.float()),
        ODD.float(),
        None,
    ),
    "regard": (lambda q, k, v: regard.attend(q, k, v, regard.causal()), LOWER, None),
    "regard by torch": (lambda q, k, v: regard.attend(q, k, v, engine="sdpa"), None, None),
    "flex": (lambda q, k, v: flexible.flex_attention(q, k, v, scale=0.3), None, 0.3),
    "flex, causal": (
        lambda q, k, v: flexible.flex_attention(
            q,
            k,
            v,
            block_mask=flexible.create_block_mask(
                lambda b, h, i, j: i >= j, None, None, 9, 9, device="cpu", BLOCK_SIZE=16
            ),
        ),
        LOWER,
        None,
    ),
    "flex, each its own": (
        lambda q, k, v: flexible.flex_attention(
            q,
            k,
            v,
            block_mask=flexible.create_block_mask(
                lambda b, h, i, j: ODD[b, 0, i, j], 2, None, 9, 9, device="cpu", BLOCK_SIZE=16
            ),
        ),
        ODD,
        None,
    ),
    "flex, bias": (
        lambda q, k, v: flexible.flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s - 0.1 * (h + 1) * (i - j).abs()
        ),
        -0.1
        * torch.arange(1, 5).view(4, 1, 1)
        * (torch.arange(9)[:, None] - torch.arange(9)).abs(),
        None,
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
def test_every_function_of_attention_is_seen(name: str) -> None:
    how, mask, scale = CALLS[name]
    model = nn.Sequential(Splitting(how), Splitting(how))
    seen, _ = watched(model, x())
    assert not seen.missed
    assert [layer.name for layer in seen] == ["0", "1"]
    q, k, _ = model[0].qkv_of(x())
    close(seen[0], formula(q, k, mask, scale))


def test_what_a_score_mod_does_beyond_adding_is_listed_as_missed() -> None:
    def how(q: Any, k: Any, v: Any) -> Any:
        return flexible.flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: torch.tanh(s))

    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        seen, _ = watched(Splitting(how), x())
    assert len(seen) == 0
    (missed,) = seen.missed
    assert "does more to a score than to add to it" in str(missed)


@pytest.mark.parametrize("axes", [2, 3, 5])
def test_queries_of_any_number_of_axes(axes: int) -> None:
    shape = {2: (9, 8), 3: (6, 9, 8), 5: (2, 3, 4, 9, 8)}[axes]

    class Shaped(nn.Module):
        def forward(self, q: Any) -> Any:
            mask = LOWER if axes < 5 else LOWER.expand(3, 1, 9, 9)
            return F.scaled_dot_product_attention(q, q, q, mask)

    q = torch.randn(shape)
    seen, _ = watched(Shaped(), q)
    want = formula(q, q, LOWER)
    assert seen[0].weights.shape == {2: (1, 1, 9, 9), 3: (6, 1, 9, 9), 5: (6, 4, 9, 9)}[axes]
    close(seen[0], want.reshape(seen[0].weights.shape))


def test_heads_that_share_keys() -> None:
    class Grouped(nn.Module):
        def forward(self, q: Any, k: Any) -> Any:
            return F.scaled_dot_product_attention(q, k, k, enable_gqa=True)

    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8)
    seen, _ = watched(Grouped(), q, k)
    assert seen[0].k.shape == (2, 2, 7, 8)
    close(seen[0], formula(q, k.repeat_interleave(2, 1)))


# nn.MultiheadAttention, whose paths are many.

MULTI = {
    "fast": ({"batch_first": True}, {}),
    "fast, no weights": ({"batch_first": True}, {"need_weights": False}),
    "sequence first": ({}, {}),
    "no weights": ({}, {"need_weights": False}),
    "bias_k and zeros": ({"add_bias_kv": True, "add_zero_attn": True}, {}),
    "other widths": ({"kdim": 16, "vdim": 12, "batch_first": True}, {}),
    "without bias": ({"bias": False, "batch_first": True}, {}),
    "odd heads": ({"num_heads": 1, "batch_first": True}, {}),
}
MASKS = {
    "none": {},
    "padding": {"key_padding_mask": torch.arange(9).expand(2, 9) >= torch.tensor([[9], [6]])},
    "causal": {"attn_mask": ~LOWER},
    "both": {
        "attn_mask": ~LOWER,
        "key_padding_mask": torch.arange(9).expand(2, 9) >= torch.tensor([[9], [6]]),
    },
    "floats": {"attn_mask": torch.randn(9, 9, generator=torch.Generator().manual_seed(1))},
    "of each head": {
        "attn_mask": torch.rand(8, 9, 9, generator=torch.Generator().manual_seed(1)) < 0.3
    },
}


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("how", MULTI)
def test_multihead_attention_on_all_its_paths(how: str, masks: str) -> None:
    made, called = MULTI[how]
    options = {"embed_dim": 32, "num_heads": 4, **made}
    if masks == "of each head" and options["num_heads"] != 4:
        pytest.skip("its mask is for four heads")
    torch.manual_seed(0)
    model = nn.MultiheadAttention(**options)
    for parameter in model.parameters():  # its biases begin at zero, which would show no fault
        nn.init.normal_(parameter, std=0.3)
    first = made.get("batch_first", False)
    inputs = [x(), x(width=made.get("kdim", 32)), x(width=made.get("vdim", 32))]
    if "kdim" not in made:
        inputs = [inputs[0]] * 3
    if not first:
        inputs = [inputs[0].transpose(0, 1)] * 3
    seen, _ = watched(model, *inputs, **called, **MASKS[masks])
    with torch.no_grad():
        model.train()  # so that no fast path is taken
        want = model(*inputs, need_weights=True, average_attn_weights=False, **MASKS[masks])[1]
    close(seen[0], want)
    assert not seen.missed
    assert seen[0].name == ""
    assert seen[0].kind == ("cross" if "kdim" in made else "self")


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage")
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_the_fast_path_of_an_encoder_is_taken_and_seen(norm_first: bool, padded: bool) -> None:
    # pytorch#88810: on this path torch calls no hook of self_attn.
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    inputs: dict[str, Any] = {}
    if padded:
        inputs["src_key_padding_mask"] = torch.arange(9).expand(2, 9) >= torch.tensor([[9], [6]])
    taken = []
    whole = torch._transformer_encoder_layer_fwd

    def counting(*args: Any) -> Any:
        taken.append(1)
        return whole(*args)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(torch, "_transformer_encoder_layer_fwd", counting)
        plain = model(x(), **inputs)
        assert len(taken) == 2
    seen, fast = watched(model, x(), **inputs)
    assert torch.equal(fast, plain)
    assert [layer.name for layer in seen] == ["layers.0.self_attn", "layers.1.self_attn"]
    assert not seen.missed
    with regard.watch(model) as slow:  # with gradients torch takes the slow path
        model(x(), **inputs)
    rows = slice(None) if not padded else slice(0, 6)  # what padding asks differs on both paths
    for one, other in zip(seen, slow, strict=True):
        assert other.name == one.name
        difference = one.weights.dense() - other.weights.dense()
        assert difference[..., rows, :].abs().max() < 1e-5
        assert one.kind == "self"


def test_a_bare_encoder_layer_keeps_its_fast_path() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    seen, _ = watched(layer, x())
    assert [one.name for one in seen] == ["self_attn"]


def test_an_encoder_and_decoder_of_torch() -> None:
    torch.manual_seed(0)
    model = nn.Transformer(32, 4, 2, 2, 48, batch_first=True)
    source, target = x(length=9), x(length=5)
    mask = nn.Transformer.generate_square_subsequent_mask(5)
    seen, _ = watched(model, source, target, tgt_mask=mask)
    kinds = [(layer.kind, layer.queries, layer.keys) for layer in seen]
    assert kinds == [
        *[("encoder", "src", "src")] * 2,
        *[("decoder", "tgt", "tgt"), ("cross", "tgt", "src")] * 2,
    ]
    assert not seen.missed
    assert seen[2].weights.dense().triu(1).abs().max() == 0


# By hand.


class ByHand(Splitting):
    def __init__(self) -> None:
        super().__init__(None)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv_of(x)
        scores = (q @ k.mT * 8**-0.5).masked_fill(~LOWER, -torch.inf)
        return (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)


class Separate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.to_q, self.to_k = nn.Linear(32, 32), nn.Linear(32, 16)

    def forward(self, x: Any, there: Any) -> Any:
        q = self.to_q(x).unflatten(-1, (4, 8)).transpose(1, 2)
        k = self.to_k(x).unflatten(-1, (2, 8)).transpose(1, 2).repeat_interleave(2, 1)
        scores = (q @ k.mT * 0.5).masked_fill(~there[:, None, None], -torch.inf)
        return F.softmax(scores, -1) @ k


def test_hand_written_attention_is_listed_and_seen_at_its_points() -> None:
    model = nn.Sequential(ByHand(), ByHand())
    seen, _ = watched(model, x())
    assert len(seen) == 0
    assert [missed.name for missed in seen.missed] == ["0", "1"]
    why = "ByHand takes a softmax over 2 × 4 × 9 × 9 by hand; say with watch(model, points={…})"
    assert why in str(seen.missed[0])
    point = regard.Point(qkv="qkv", heads=4, mask=regard.causal())
    seen, _ = watched(model, x(), points={"*": point})
    assert not seen.missed
    q, k, _ = model[0].qkv_of(x())
    close(seen[0], formula(q, k, LOWER))


def test_points_by_two_modules_by_order_and_by_a_function() -> None:
    torch.manual_seed(0)
    model = Separate()
    there = torch.arange(9).expand(2, 9) < torch.tensor([[9], [6]])
    wanted = {"q": "to_q", "k": "to_k", "heads": 4, "key_heads": 2, "scale": 0.5}
    seen, _ = watched(model, x(), there, points={"": regard.Point(**wanted)})
    q = model.to_q(x()).unflatten(-1, (4, 8)).transpose(1, 2)
    k = model.to_k(x()).unflatten(-1, (2, 8)).transpose(1, 2)
    close(seen[0], formula(q, k.repeat_interleave(2, 1), None, 0.5))

    def look(module: Any, inputs: dict[str, Any], output: Any) -> Any:
        assert output.shape == (2, 4, 9, 8)
        q = module.to_q(inputs["x"]).unflatten(-1, (4, 8)).transpose(1, 2)
        k = module.to_k(inputs["x"]).unflatten(-1, (2, 8)).transpose(1, 2)
        return q, k, regard.keep(inputs["there"][:, None, None]), {"scale": 0.5}

    seen, _ = watched(model, x(), there, points={"": look})
    close(seen[0], formula(q, k.repeat_interleave(2, 1), there[:, None, None], 0.5))

    mixed = regard.Point(qkv="qkv", heads=4, order="H3D")
    seen, _ = watched(nn.Sequential(ByHand()), x(), points={"0": mixed})
    assert seen[0].q.shape == (2, 4, 9, 8)


def test_what_is_no_point_says_so() -> None:
    model = nn.Sequential(ByHand())
    with pytest.raises(regard.ValueRangeError, match=r"names of two modules, q and k, or that of"):
        regard.Point(q="to_q", heads=2)
    with pytest.raises(regard.ValueRangeError, match=r"order must be '3HD' or 'H3D', but 'x' came"):
        regard.Point(qkv="qkv", order="x")
    with pytest.raises(regard.ValueRangeError, match=r"no module's name fits 'blocks.\*'.*'0'"):
        regard.watch(model, points={"blocks.*": regard.Point(qkv="qkv")}).__enter__()
    with pytest.raises(
        regard.KindError, match=r"points\['0'\] must be a Point or a function .* int"
    ):
        regard.watch(model, points={"0": 3}).__enter__()
    with pytest.raises(regard.ShapeError, match=r"output of 'qkv' must be .* multiple of 15, but"):
        watched(model, x(), points={"0": regard.Point(qkv="qkv", heads=5)})
    with pytest.raises(regard.KindError, match=r"must return \(q, k\), .* returned a Tensor"):
        watched(model, x(), points={"0": lambda module, inputs, output: output})
    with pytest.raises(
        regard.ShapeError, match=r"q must be \(B, heads, length, D\), .* \(2, 9, 32"
    ):
        watched(model, x(), points={"0": lambda module, inputs, output: (output, output)})
    assert not model[0]._forward_hooks


def test_a_processor_that_is_no_module_is_named_by_the_module_that_calls_it() -> None:
    class Processor:
        def __call__(self, attn: Any, x: Any) -> Any:
            q, k, v = attn.qkv_of(x)
            return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)

    class Attention(Splitting):
        def __init__(self) -> None:
            super().__init__(None)
            self.processor = Processor()

        def forward(self, x: Any) -> Any:
            return self.processor(self, x)

    seen, _ = watched(nn.ModuleDict({"attn1": Attention()})["attn1"], x())
    assert len(seen) == 1
    model = nn.Sequential()
    model.add_module("attn1", Attention())
    seen, _ = watched(model, x())
    assert [layer.name for layer in seen] == ["attn1"]
    assert not seen.missed


def test_our_own_modules_are_seen_also_while_they_write() -> None:
    from regard.nn import LanguageModel, MultiHeadAttention, generate

    torch.manual_seed(0)
    seen, _ = watched(nn.Sequential(MultiHeadAttention(32, 4)), x())
    assert [(layer.name, layer.weights.shape) for layer in seen] == [("0", (2, 4, 9, 9))]
    assert not seen.missed
    model = LanguageModel(50, 32, 4, 2).eval()
    with torch.no_grad():
        with regard.watch(model) as steps:
            written = generate(model, torch.tensor([[3, 7, 9]]), new=6)
        with regard.watch(model) as whole:
            model(torch.cat([torch.tensor([[3, 7, 9]]), written], 1)[:, :-1])
    assert steps.run.calls == 6
    for one, other in zip(steps, whole, strict=True):
        assert (one.weights.dense() - other.weights.dense()).abs().max() < 1e-5
