"""Words get the seconds at which cross attention looks at their sound."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.recording import shelf
from regard.recording.answers import alignment
from regard.recording.answers.alignment import align
from regard.recording.recording import Layer, Recording, Run
from small import need_package, silent

torch = pytest.importorskip("torch", reason="needs torch")

CLIP = Path("/usr/share/asterisk/sounds/en_US_f_Allison/conf-invalid.wav")


def speech(where: np.ndarray, frames: int, layers: int = 2) -> Recording:
    """Cross attention whose every head looks at frame ``where[t]`` from query t."""
    keys = torch.eye(frames, dtype=torch.float64)
    near = -((torch.arange(frames)[None] - torch.as_tensor(where)[:, None]) ** 2) / 8.0
    near = near.double()
    q, k = near[None, None].repeat(1, 2, 1, 1), keys[None, None].repeat(1, 2, 1, 1)
    made = [
        Layer(f"cross.{n}", q, k, None, None, {"scale": 1.0}, kind="cross") for n in range(layers)
    ]
    seen = Recording()
    seen.runs.append(Run(layers=made))
    return seen


def test_a_word_begins_where_its_first_token_looks() -> None:
    where = np.array([5, 20, 30, 44, 60, 75])
    words = align(speech(where, 80), [" the", " an", "imal", " is", " tired"], first=1)
    assert [word.text for word in words] == ["the", "animal", "is", "tired"]
    assert [word.tokens for word in words] == [(0, 1), (1, 3), (3, 4), (4, 5)]
    assert words[0].start == 0.0
    assert words[-1].stop == 80 * 0.02
    for word, at in zip(words[1:], (30, 60, 75), strict=True):
        assert at * 0.02 - 0.2 <= word.start <= at * 0.02
        assert word.start < word.stop


def cheapest(cost: np.ndarray) -> float:
    """The least sum of any way through, by trying all."""
    n, m = cost.shape
    best = np.inf
    for length in range(max(n, m), n + m):
        for steps in itertools.product(((1, 1), (1, 0), (0, 1)), repeat=length - 1):
            at = np.cumsum([(0, 0), *steps], axis=0)
            if tuple(at[-1]) == (n - 1, m - 1):
                best = min(best, cost[at[:, 0], at[:, 1]].sum())
    return float(best)


@pytest.mark.parametrize("shape", [(3, 4), (2, 5), (4, 2)])
def test_no_way_through_time_is_cheaper(shape: tuple[int, int]) -> None:
    cost = np.random.default_rng(0).normal(size=shape)
    starts = alignment._warped(cost)
    assert starts[0] == 0
    assert (np.diff(starts) >= 0).all()
    # Between the starts that were found the cheapest way costs what the cheapest of all does.
    free = cheapest(cost)
    held = cost.copy()
    for token, start in enumerate(starts):
        held[token, :start] += 100.0
    np.testing.assert_allclose(cheapest(held), free)


def test_what_cannot_be_aligned() -> None:
    seen = speech(np.array([3, 9]), 20)
    with pytest.raises(regard.ShapeError, match="at most the 1 tokens that queries 1 … 1 predict"):
        align(seen, ["a", "b"], first=1)
    for wrong, why in (
        ({"heads": [(2, 0)]}, "a cross layer must lie in 0 … 1, but 2 came"),
        ({"heads": [(0, 2)]}, "head must lie in 0 … 1, but 2 came"),
        ({"heads": []}, "heads must hold"),
        ({"first": -1}, "first must be 0 or more, but -1 came"),
    ):
        with pytest.raises(regard.ValueRangeError, match=why):
            align(seen, ["a"], **wrong)
    seen.run.layers[:] = [replace(layer, kind="self") for layer in seen.run.layers]
    with pytest.raises(regard.KindError, match="this recording has none"):
        align(seen, ["a"])


@pytest.mark.campaign
@pytest.mark.models
def test_whisper_hears_when_a_sentence_begins_again() -> None:
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    need_package("whisper")
    if not CLIP.exists():
        pytest.skip("the clip is of Debian's asterisk-core-sounds-en-wav")
    from regard.recording.sound import samples_of

    place, samples = shelf.find("whisper", silent), samples_of(CLIP, 16_000)
    kind: Any = transformers.WhisperForConditionalGeneration
    model = kind.from_pretrained(place, dtype=torch.float32).eval()
    processor = transformers.WhisperProcessor.from_pretrained(place)
    sound = processor.feature_extractor(samples, sampling_rate=16_000, return_tensors="pt")
    said = " That is not a valid conference number. Please try again."
    ids = processor.tokenizer(said, add_special_tokens=False).input_ids
    start = processor.tokenizer.convert_tokens_to_ids(["<|startoftranscript|>", "<|notimestamps|>"])
    given = {"decoder_input_ids": torch.tensor([[*start, *ids]])}
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_features=sound.input_features, **given)
    pieces = [processor.tokenizer.decode([one]) for one in ids]
    words = align(seen, pieces, first=len(start) - 1, length=len(samples) / 16_000)
    please = next(word for word in words if word.text == "Please")
    # The clip is silent from 2.38 to 2.68 s, and the second sentence begins then.
    assert abs(please.start - 2.68) < 0.15
