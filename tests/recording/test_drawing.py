"""Pictures of recordings: their numbers are the weights', their names the places'."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import regard
from regard._errors import KindError, ValueRangeError
from regard.pictures import Heads, Matrix, Numbers, Patches, Seconds, Strip
from regard.recording.drawing import best
from regard.recording.overview import overview_of
from small import GROUPED

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")

WORDS = ["The", "Ġcat", "Ġsat", "Ċ", "on", "Ġit", "."]
NAMES = ("The", " cat", " sat", "\n", "on", " it", ".")
TOKENIZER = SimpleNamespace(convert_ids_to_tokens=lambda ids: [WORDS[n] for n in ids])


def seen_by(model: Any, tokenizer: Any = None, **inputs: Any) -> Any:
    with torch.no_grad(), regard.watch(model.eval(), tokenizer) as seen:
        model(**inputs)
    return seen


@pytest.fixture(scope="module")
def read() -> Any:
    """A recording of a small grouped decoder over seven tokens."""
    torch.manual_seed(0)
    model = transformers.LlamaModel(transformers.LlamaConfig(**GROUPED))
    return seen_by(model, TOKENIZER, input_ids=torch.arange(7)[None])


@pytest.fixture(scope="module")
def sights() -> Any:
    """A recording of a small ViT over six patches and a class token."""
    torch.manual_seed(0)
    sizes = {name: GROUPED[name] for name in ("hidden_size", "intermediate_size")}
    config = transformers.ViTConfig(**sizes, num_hidden_layers=2, num_attention_heads=4,
                                    image_size=(8, 12), patch_size=4)  # fmt: skip
    model = transformers.ViTModel(config, add_pooling_layer=False)
    return seen_by(model, pixel_values=torch.randn(1, 3, 8, 12))


@pytest.fixture(scope="module")
def heard() -> Any:
    """A recording of a small Whisper: 700 frames of sound, three words."""
    torch.manual_seed(0)
    config = transformers.WhisperConfig(
        vocab_size=9, d_model=8, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
        decoder_attention_heads=2, encoder_ffn_dim=8, decoder_ffn_dim=8, num_mel_bins=3,
        max_source_positions=700, max_target_positions=7, pad_token_id=0, bos_token_id=0,
        eos_token_id=0, decoder_start_token_id=1,
    )  # fmt: skip
    model = transformers.WhisperModel(config)
    ids = torch.tensor([[1, 2, 4]])
    return seen_by(model, TOKENIZER, input_features=torch.randn(1, 3, 1400), decoder_input_ids=ids)


def dense(seen: Any, layer: int) -> Any:
    return seen[layer].weights.dense()[0].numpy()


def test_one_head_is_its_matrix_with_the_tokens_as_people_read_them(read):
    picture = read.pictures.head(1, 2)
    np.testing.assert_allclose(picture.weights, dense(read, 1)[2], atol=1e-6)
    assert picture.rows.names == picture.columns.names == NAMES
    assert picture.exact
    assert str(picture.title) == "Layer 1, head 2"
    mean = read.pictures.head(1)
    np.testing.assert_allclose(mean.weights, dense(read, 1).mean(0), atol=1e-6)
    assert str(mean.title) == "Layer 1, mean of 4 heads"
    part = read.pictures.head(-1, 2, rows=slice(2, 5), keys=slice(1, 4))
    np.testing.assert_allclose(part.weights, dense(read, 1)[2, 2:5, 1:4], atol=1e-6)
    assert part.rows.names == NAMES[2:5]


def test_links_are_the_strongest_of_each_query(read):
    W = dense(read, 0)[1]
    links = read.pictures.links(0, 1).links
    assert len(links) == 28  # seven queries that see 1 … 7 keys
    assert all(weight == pytest.approx(W[q, k], abs=1e-6) for q, k, weight in links)
    assert {q for q, _, _ in read.pictures.links(0, 1, -1).links} == {6}


def test_a_strip_holds_what_is_received(read):
    W = np.stack([dense(read, n) for n in range(2)])
    pictures = read.pictures
    np.testing.assert_allclose(pictures.strip(1, 2).weights, W[1, 2].mean(0), atol=1e-6)
    np.testing.assert_allclose(pictures.strip(1, 2, 5).weights, W[1, 2, 5], atol=1e-6)
    np.testing.assert_allclose(pictures.strip().weights, W.mean((0, 1, 2)), atol=1e-6)
    asked = pictures.strip(None, [0, 3], [2, 5])
    np.testing.assert_allclose(asked.weights, W[:, [0, 3]][:, :, [2, 5]].mean((0, 1, 2)), atol=1e-6)
    assert asked.marked == [2, 5]
    assert str(asked.title) == "2 layers, mean of 4 heads: what “sat it” looks at"


def test_distances_are_shares_of_the_weight(read):
    picture = read.pictures.distances(1, [0, 2])
    W = dense(read, 1)
    assert [str(name) for name in picture.shares] == ["head 0", "head 2"]
    for head, share in zip((0, 2), picture.shares.values(), strict=True):
        assert share.sum() == pytest.approx(1)
        found = dict(zip(picture.distance.tolist(), share.tolist(), strict=True))
        assert found[1] == pytest.approx(np.diagonal(W[head], -1).sum() / 7, abs=1e-6)
    assert len(read.pictures.distances(1).shares) == 4


def test_the_grid_holds_every_head_and_tells_its_progress(read):
    told: list[tuple[int, int]] = []
    grid = read.pictures.heads(progress=lambda *at: told.append(at))
    assert [(head.layer, head.head) for head in grid.heads] == [
        (layer, head) for layer in range(2) for head in range(4)
    ]
    assert told == [(0, 2), (1, 2), (2, 2)]
    np.testing.assert_allclose(grid.heads[6].image, dense(read, 1)[2], atol=1e-6)
    assert {head.layer for head in read.pictures.heads([-1]).heads} == {1}


def test_a_change_is_drawn_over_what_both_texts_share(read):
    torch.manual_seed(0)
    model = transformers.LlamaModel(transformers.LlamaConfig(**GROUPED))
    other = seen_by(model, TOKENIZER, input_ids=torch.tensor([[0, 1, 3, 3, 4, 5, 6]]))
    change = read.compare(other)
    picture = read.pictures.change(change, 1, 2)
    at = [0, 1, 3, 4, 5, 6]
    want = (dense(other, 1) - dense(read, 1))[2][np.ix_(at, at)]
    np.testing.assert_allclose(picture.weights, want, atol=1e-6)
    assert picture.rows.names == tuple(NAMES[n] for n in at)
    with pytest.raises(regard.ValueRangeError, match="layer=1 and head=None came"):
        read.pictures.change(change, layer=1)
    whole = read.pictures.change(change)
    assert whole.weights.shape == (2, 4)
    assert isinstance(whole.rows, Numbers)


def test_patches_are_laid_over_the_image(sights):
    W = dense(sights, 1)
    image = np.zeros((8, 12, 3))
    first = sights.pictures.patches(image, 1, 3)
    np.testing.assert_allclose(first.weights.ravel(), W[3, 0, 1:], atol=1e-6)
    assert (first.weights.shape, first.query) == ((2, 3), None)
    assert str(first.title) == "Layer 1, head 3: what “[CLS]” looks at"
    there = sights.pictures.patches(image, 1, None, (1, 2))
    np.testing.assert_allclose(there.weights.ravel(), W[:, 6, 1:].mean(0), atol=1e-6)
    assert there.query == (1, 2)
    assert sights.pictures.patches(image, 1, 3, 6).query == (1, 2)
    with pytest.raises(ValueRangeError, match=r"a row of 2 and a column of 3"):
        sights.pictures.patches(image, 1, 3, (2, 0))


def test_words_look_at_seconds(heard):
    cross = next(n for n, layer in enumerate(heard) if layer.kind == "cross")
    picture = heard.pictures.head(cross, 1)
    assert picture.rows.names == (" cat", " sat", "on")
    assert isinstance(picture.columns, Seconds)
    assert picture.entries == (1, 2)
    assert picture.weights.shape == (3, 350)
    want = dense(heard, cross)[1].reshape(3, 350, 2).mean(-1)
    np.testing.assert_allclose(picture.weights, want, atol=1e-6)
    spoken = heard.pictures.head(cross, 1, keys=slice(50, 100))
    assert spoken.columns.ticks(1) == [(0.0, "1")]
    assert {head.role for head in heard.pictures.heads([cross]).heads} == {"none"}
    with pytest.raises(KindError, match="have no distance"):
        heard.pictures.distances(cross)


def test_places_that_nobody_named_are_numbers(read):
    layer = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    x = torch.randn(1, 5, 8)
    with torch.no_grad(), regard.watch(layer) as seen:
        layer(x, x, x)
    assert isinstance(seen.pictures.head(0, 1).rows, Numbers)
    bare = seen_by(transformers.LlamaModel(transformers.LlamaConfig(**GROUPED)),
                   input_ids=torch.tensor([[5, 12]]))  # fmt: skip
    assert bare.pictures.head(0, 1).rows.names == ("5", "12")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda p: p.head(1, 4), "head must lie in 0 … 3, but 4 came"),
        (lambda p: p.head(1, "x"), "head must be a whole number, but it is 'x'"),
        (lambda p: p.head(2, 0), "layer must lie in 0 … 1, but 2 came"),
        (lambda p: p.links(1, 0, 7), "query must lie in 0 … 6, but 7 came"),
        (lambda p: p.strip(1, []), "head must hold a number, but there is none"),
        (lambda p: p.patches(None, 1), "the keys of layer 1 are input_ids"),
    ],
)
def test_what_is_not_there_is_refused(read, call, words: str):
    with pytest.raises((KindError, ValueRangeError), match=words):
        call(read.pictures)


def test_statistics_have_a_grid_and_no_more():
    model = transformers.LlamaModel(transformers.LlamaConfig(**GROUPED)).eval()
    with torch.no_grad(), regard.watch(model, keep=regard.Statistics(pixels=4)) as seen:
        model(input_ids=torch.arange(7)[None])
    grid = seen.pictures.heads()
    assert [head.image.shape for head in grid.heads] == [(4, 4)] * 8
    for draw in (lambda p: p.head(0, 0), lambda p: p.strip(), lambda p: p.links(0, 0)):
        with pytest.raises(KindError, match="statistics only"):
            draw(seen.pictures)
    assert isinstance(best(overview(seen, NAMES, queries=[2]), seen), Heads)


def overview(seen: Any, names: Any, **chosen: Any) -> Any:
    return overview_of(seen, model="tiny", tokens=names, **chosen)


def test_the_best_picture_of_what_was_asked_for(read, sights):
    one = {"layers": [1], "heads": [2]}
    assert isinstance(best(overview(read, NAMES), read), Heads)
    assert isinstance(best(overview(read, NAMES, **one), read), Matrix)
    asked = best(overview(read, NAMES, **one, queries=[5]), read)
    assert isinstance(asked, Strip)
    np.testing.assert_allclose(asked.weights, dense(read, 1)[2, 5], atol=1e-6)
    assert isinstance(best(overview(read, NAMES, **one, queries=[5])), Matrix)
    names = sights.run.places["pixel_values"].names()
    image = torch.randn(1, 3, 8, 12)
    laid = best(overview(sights, names, **one), sights, image)
    assert isinstance(laid, Patches)
    np.testing.assert_allclose(laid.weights.ravel(), dense(sights, 1)[2, 0, 1:], atol=1e-6)
    assert isinstance(best(overview(sights, names), sights, image), Heads)
