"""Models are loaded whole and ready to be watched, or refused in one sentence."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from regard._errors import UserError
from regard.recording.models import load
from regard.recording.reading import read
from small import need_package, refusal, silent

torch = pytest.importorskip("torch", reason="needs torch")
transformers = pytest.importorskip("transformers", reason="needs transformers")


@pytest.fixture
def broken(tiny: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model, to break."""
    return shutil.copytree(tiny, tmp_path / "broken")


# The two packaged models


@pytest.mark.models
def test_smollm2_is_loaded_for_watching():
    need_package("smollm2")
    loaded = load("smollm2", silent)
    assert (loaded.layers, loaded.heads, loaded.context, loaded.extends) == (30, 9, 8192, True)
    assert type(loaded.model).__name__ == "LlamaModel"
    assert {p.dtype for p in loaded.model.parameters()} == {torch.float32}
    assert loaded.model.config._attn_implementation == "sdpa"
    assert not loaded.model.training
    text = "猫在看书。 It's a cat;\n"
    reading = read(loaded, text)
    assert "".join(reading.spelled) == text
    assert [reading.tokens[p] for p in reading.find("书")] == ["书", "书₂"]
    assert [reading.tokens[p] for p in reading.separators] == ["。", ";", "\n"]
    assert reading.unknown == 0


@pytest.mark.models
def test_minilm_tells_what_it_does_not_know():
    need_package("minilm")
    loaded = load("minilm", silent)
    assert (loaded.layers, loaded.heads, loaded.context, loaded.extends) == (6, 12, 512, False)
    reading = read(loaded, "Tokenizing 书!")
    assert reading.tokens == ("[CLS]", "token", "##izing", "[UNK]", "!", "[SEP]")
    assert [reading.tokens[p] for p in reading.separators] == ["[CLS]", "!", "[SEP]"]
    assert reading.find("tokenizing") == (1, 2)
    assert reading.unknown == 1
    assert read(loaded, "plain words").unknown == 0
    assert read(loaded, "an [UNK] that was written").unknown == 0


def test_transformers_is_left_as_it_was_found(tiny: Path, capfd: pytest.CaptureFixture[str]):
    logging = transformers.utils.logging
    before = logging.get_verbosity()
    logging.set_verbosity_info()
    try:
        load(str(tiny), silent)
        assert logging.get_verbosity() == logging.INFO
        assert logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity(before)
    assert capfd.readouterr() == ("", "")


# Refusals


def test_a_model_without_tokenizer_is_refused(broken: Path):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    assert "tokenizer.save_pretrained" in refusal(broken)


def test_a_tokenizer_that_transformers_makes_up_is_refused(broken: Path):
    for file in broken.glob("tokenizer*"):
        file.unlink()
    transformers.BertModel(
        transformers.BertConfig(
            vocab_size=9,
            hidden_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=8,
        )
    ).save_pretrained(broken)
    assert "tokenizer.save_pretrained" in refusal(broken)


def edit(directory: Path, **changes: object) -> None:
    file = directory / "config.json"
    config = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in config.items() if v is not None}))


def test_a_config_of_no_known_model_is_refused(broken: Path):
    edit(broken, model_type="nonesuch")
    assert "has model type `nonesuch`" in refusal(broken)
    edit(broken, auto_map={"AutoConfig": "own.Config", "AutoModel": "own.Model"})
    assert "custom code" in refusal(broken)
    (broken / "config.json").write_text("{")
    assert "not a valid JSON file" in refusal(broken)


def test_damaged_weights_are_refused(broken: Path):
    with (broken / "model.safetensors").open("r+b") as file:
        file.truncate(1000)
    assert "cannot be loaded" in refusal(broken)
    (broken / "model.safetensors").unlink()
    assert "model.safetensors" in refusal(broken)


def test_a_model_that_would_be_partly_random_is_refused(broken: Path):
    edit(broken, num_hidden_layers=3)
    assert "lacks 9 of its weights (layers.2." in refusal(broken)


def test_an_encoder_decoder_is_refused(broken: Path):
    edit(broken, model_type="t5", architectures=None)
    assert "regard.watch" in refusal(broken)


def test_a_tokenizer_of_another_model_is_refused(tiny: Path):
    loaded = load(str(tiny), silent)
    loaded.model.resize_token_embeddings(100)
    with pytest.raises(UserError, match="belongs to another model"):
        read(loaded, "the text")


def test_a_text_without_tokens_is_refused(tiny: Path):
    with pytest.raises(UserError, match="finds no tokens"):
        read(load(str(tiny), silent), "")


def test_the_models_own_end_token_is_a_separator(tiny: Path):
    reading = read(load(str(tiny), silent), " the<|end|>it")
    assert reading.tokens == (" the", "<|end|>", "it")
    assert reading.separators == (1,)
    assert reading.unknown == 0
