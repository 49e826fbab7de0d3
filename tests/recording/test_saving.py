"""What is saved comes back as it was, and what was altered since is refused."""

from __future__ import annotations

import errno
import functools
import json
import operator
import os
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from safetensors import safe_open
from transformers import BertConfig, BertModel, LlamaConfig, LlamaModel

import regard
from regard._errors import KindError, UserError
from regard.recording import container
from regard.recording.places import Frames, Patches
from regard.recording.recording import Layer, Missed, Recording, Run
from regard.rules.masks import Spans
from regard.rules.rule import Rule
from small import GROUPED, SMALL

T, S, H, G, D = 5, 7, 4, 2, 8
BATCH = 2


class Words:
    """As much of a tokenizer as a recording asks of it."""

    def convert_ids_to_tokens(self, ids: Any) -> list[str]:
        return [f"word{i}" for i in ids]


def one(mask: Any = None, **options: Any) -> Recording:
    """A recording of one layer with these rules."""
    torch.manual_seed(0)
    start = options.pop("start", None)
    seen = Recording()
    q, k = torch.randn(BATCH, H, T, D), torch.randn(BATCH, G, S, D)
    seen.runs.append(Run([Layer("a", q, k, mask, start, options)]))
    return seen


def again(seen: Recording, path: Path) -> Recording:
    seen.save(path)
    return regard.load(path)


def same(one: Recording, other: Recording) -> bool:
    """Whether both say the same of every weight."""
    return all(
        torch.equal(a.weights.dense(), b.weights.dense())
        for a, b in zip(one.layers, other.layers, strict=True)
    )


HIDDEN = torch.rand(BATCH, 1, T, S, generator=torch.Generator().manual_seed(1)) < 0.7
KNOWN = [
    regard.causal(),
    regard.window(3),
    regard.window(before=2, after=1),
    regard.prefix(2),
    regard.lengths([4, 7], [1, 0]),
    regard.documents([0, 0, 1, 1, 1, 2, 2]),
    regard.documents(lengths=[3, 4]),
    regard.keep(HIDDEN),
    Spans(np.array([0, 0, 1, 2, 3]), np.array([1, 2, 3, 4, 5])),
]
SCORES = [
    regard.alibi(H),
    regard.relative(torch.randn(H, 2 * S + 1, generator=torch.Generator().manual_seed(2))),
    regard.t5_relative(torch.randn(32, H, generator=torch.Generator().manual_seed(3))),
    regard.dense(torch.randn(H, T, S, generator=torch.Generator().manual_seed(4))),
]
masks = st.recursive(
    st.sampled_from(KNOWN),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda two: two[0] & two[1]),
        st.tuples(inner, inner).map(lambda two: two[0] | two[1]),
        inner.map(lambda rule: ~rule),
    ),
    max_leaves=4,
)
scores = st.lists(st.sampled_from(SCORES), min_size=1, max_size=3).map(
    lambda all: functools.reduce(operator.add, all)
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("saved") / "x.regard"


@given(mask=st.none() | masks, bias=st.none() | scores, data=st.data())
def test_every_rule_comes_back(place: Path, mask: Any, bias: Any, data: st.DataObject):
    options = data.draw(
        st.fixed_dictionaries(
            {},
            optional={
                "scale": st.floats(0.1, 2),
                "softcap": st.floats(1, 30),
                "sink": st.just(torch.arange(H) / 3),
                "start": st.sampled_from([0, 2, np.array([0, 2])]),
            },
        )
    )
    seen = one(mask, **options, **({} if bias is None else {"bias": bias}))
    back = again(seen, place)
    assert same(seen, back)
    assert repr(back[0].mask) == repr(mask)
    assert set(back[0].options) == set(seen[0].options)


def test_every_kind_of_rule_is_among_those():
    abstract = {"Mask", "Score", "Pair", "Apart"}
    used = " ".join(repr(rule.__class__.__name__) for rule in [*KNOWN, *SCORES])
    joined = {"And", "Or", "Not", "Sum", "Where"}  # made by the strategies; the last has its test
    missing = {
        name
        for name, kind in Rule.kinds.items()
        if name not in abstract | joined and kind.__module__.startswith("regard.rules")
        if repr(name) not in used
    }
    assert missing == set()


def test_a_function_is_saved_as_the_array_that_it_makes(tmp_path: Path):
    odd = regard.where(lambda i, j: (i - j) % 2 == 0)
    seen = one(odd & regard.causal() | regard.prefix(1))
    back = again(seen, tmp_path / "x.regard")
    assert same(seen, back)
    assert repr(back[0].mask) == "(keep(<5 × 7 bool>) & causal()) | prefix(1)"


def test_a_function_over_too_many_pairs_is_refused_by_name(tmp_path: Path):
    def odd(i: Any, j: Any) -> Any:
        return (i - j) % 2 == 0

    seen = Recording()
    q = torch.zeros(1, 1, 4097, 1)
    seen.runs.append(Run([Layer("far", q, q, regard.where(odd), None)]))
    with pytest.raises(KindError, match=r"the mask of far is where\(odd\), a Python function") as e:
        seen.save(tmp_path / "x.regard")
    assert "above 16,777,216" in str(e.value)
    assert "keep=Statistics()" in str(e.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_every_dtype_comes_back(tmp_path: Path, dtype: torch.dtype):
    seen = Recording()
    q = torch.randn(1, 2, 3, 5).to(dtype)
    seen.runs.append(Run([Layer("a", q, q[:, :1], None, None)]))
    back = again(seen, tmp_path / "x.regard")
    assert back[0].q.dtype == dtype
    assert torch.equal(back[0].q, q)


def test_a_dtype_that_has_no_name_is_refused(tmp_path: Path):
    seen = Recording()
    q = torch.zeros(1, 1, 2, 2, dtype=torch.complex64)
    seen.runs.append(Run([Layer("a", q, q, None, None)]))
    with pytest.raises(KindError, match="an array of it is complex64"):
        seen.save(tmp_path / "x.regard")


def llama() -> LlamaModel:
    torch.manual_seed(0)
    return LlamaModel(LlamaConfig(**GROUPED)).eval()


def test_a_watched_model_comes_back_whole(tmp_path: Path):
    model, ids = llama(), torch.arange(24).reshape(2, 12)
    padding = torch.ones(2, 12, dtype=torch.long)
    padding[0, :3] = 0
    with torch.no_grad(), regard.watch(model, Words()) as seen:
        model(input_ids=ids, attention_mask=padding)
    seen.missed.append(Missed("b", "why"))
    back = again(seen, tmp_path / "x.regard")
    assert same(seen, back)
    assert back.tokens == [f"word{i}" for i in range(12)]
    assert [layer.name for layer in back] == [layer.name for layer in seen]
    assert [layer.kind for layer in back] == [layer.kind for layer in seen]
    assert back.missed == [Missed("b", "why")]
    assert repr(back).startswith("Recording(2 layers")
    # And once more: what was loaded can be saved.
    assert same(seen, again(back, tmp_path / "y.regard"))


def test_tokens_are_numbers_without_a_tokenizer_and_none_without_ids(tmp_path: Path):
    model = llama()
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=torch.arange(4)[None])
    assert again(seen, tmp_path / "x.regard").tokens == ["0", "1", "2", "3"]
    assert again(one(), tmp_path / "x.regard").tokens is None


def test_several_runs_and_none(tmp_path: Path):
    model = llama()
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=torch.arange(4)[None])
        model(input_ids=torch.arange(6)[None])
    back = again(seen, tmp_path / "x.regard")
    assert [run.layers[1].q.shape[-2] for run in back.runs] == [4, 6]
    assert again(Recording(), tmp_path / "x.regard").runs == []


def test_places_and_statistics_come_back(tmp_path: Path):
    torch.manual_seed(0)
    model = BertModel(BertConfig(**SMALL)).eval()
    with torch.no_grad(), regard.watch(model, keep=regard.Statistics(pixels=4)) as seen:
        model(input_ids=torch.arange(9)[None])
    places = {"pixel_values": Patches(2, 3, ("[CLS]",)), "input_features": Frames(4, 0.02)}
    seen.runs[0].places.update(places)
    back = again(seen, tmp_path / "x.regard")
    assert back.runs[0].places == places
    for a, b in zip(seen.statistics, back.statistics, strict=True):
        assert (a.name, a.shape, a.role(1)) == (b.name, b.shape, b.role(1))
        for part in ("entropy", "received", "top_keys", "top_weights", "image"):
            assert np.array_equal(getattr(a, part), getattr(b, part))


def test_an_array_that_layers_share_is_written_once(tmp_path: Path):
    seen = Recording()
    mask = regard.keep(torch.ones(300, 300, dtype=torch.bool).tril())
    q = torch.randn(1, 1, 300, 1)
    seen.runs.append(Run([Layer(name, q, q, mask, None) for name in "abcd"]))
    seen.save(tmp_path / "x.regard")
    assert (tmp_path / "x.regard").stat().st_size < 300 * 300 + 300 * 4 + 4096


# What the file is


def test_any_reader_of_safetensors_opens_it(tmp_path: Path):
    seen = one(regard.causal())
    seen.save(tmp_path / "x.regard")
    with safe_open(tmp_path / "x.regard", "pt") as file:
        found = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        text = json.loads(file.metadata()["recording"])
    layer = text["runs"][0]["layers"][0]["of"]
    assert torch.equal(found[layer["q"]["torch"]], seen[0].q)
    assert layer["mask"]["rule"]["text"] == "Causal"


def test_nothing_is_read_before_a_layer_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    model = llama()
    with torch.no_grad(), regard.watch(model) as seen:
        model(input_ids=torch.arange(4)[None])
    seen.save(tmp_path / "x.regard")
    taken: list[str] = []
    take = container.Container._take
    monkeypatch.setattr(
        container.Container, "_take", lambda self, name: (taken.append(name), take(self, name))[1]
    )
    back = regard.load(tmp_path / "x.regard")
    at_first = len(taken)
    _ = repr(back), len(back)
    assert len(taken) == at_first <= 1  # the token numbers
    _ = back[1]
    assert len(taken) == at_first + 2
    _ = back[1]
    assert len(taken) == at_first + 2


# What is refused


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    one(regard.causal()).save(tmp_path / "x.regard")
    return tmp_path / "x.regard"


def refusal(path: Path) -> UserError:
    """The error with which opening and reading all of ``path`` is refused."""
    with pytest.raises(UserError) as caught:
        list(regard.load(path))
    assert any("\u4e00" <= letter <= "\u9fff" for letter in caught.value.say("zh"))
    return caught.value


def test_every_altered_byte_is_found(saved: Path):
    whole = saved.read_bytes()
    for at in range(0, len(whole), 97):
        saved.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert refusal(saved).key.startswith("recording.")
    saved.write_bytes(whole)
    assert len(list(regard.load(saved))) == 1


def test_an_altered_array_is_named(saved: Path):
    whole = bytearray(saved.read_bytes())
    whole[-1] ^= 1
    saved.write_bytes(whole)
    assert refusal(saved).key == "recording.altered"
    assert "its checksum does not fit: a" in str(refusal(saved))


def test_every_cut_file_is_refused(saved: Path):
    whole = saved.read_bytes()
    for length in (*range(0, len(whole), 131), len(whole) - 1):
        saved.write_bytes(whole[:length])
        refused = refusal(saved)
        assert refused.key == ("recording.truncated" if length > 40 else "recording.foreign")
    saved.write_bytes(whole + b"\0")
    assert refusal(saved).key == "recording.altered"


def test_foreign_files_are_refused(tmp_path: Path):
    from safetensors.torch import save_file

    path = tmp_path / "x.regard"
    for content in (b"", b"hello", b"\xff" * 100, b"\x02\0\0\0\0\0\0\0{}", b"\x02\0\0\0\0\0\0\0[]"):
        path.write_bytes(content)
        assert refusal(path).key == "recording.foreign"
    save_file({"a": torch.zeros(3)}, path)
    assert "is no recording of regard" in str(refusal(path))
    assert refusal(tmp_path).key == "recording.unreadable"
    assert refusal(tmp_path / "none").key == "recording.unreadable"
    assert refusal(Path("a\0b")).key == "recording.unreadable"


def test_a_later_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as later:
        later.setattr(container, "VERSION", 2)
        one().save(tmp_path / "x.regard")
    assert "version 2 of the format, and this regard reads version 1" in str(
        refusal(tmp_path / "x.regard")
    )


def layer_of(**fields: Any) -> dict[str, Any]:
    held = {"name": "a", "q": None, "k": None, "mask": None, "start": None, **fields}
    return {"is": "Layer", "of": held}


def text_of(layer: Any) -> dict[str, Any]:
    run = {"ids": None, "places": {"dict": {}}, "layers": [layer], "statistics": {"list": []}}
    return {"runs": [run], "missed": {"list": []}, "names": None}


def rule(text: str) -> dict[str, Any]:
    return {"rule": {"text": text, "numbers": [], "positions": [], "arrays": []}}


@pytest.mark.parametrize(
    "text",
    [
        None,
        [],
        {"runs": 3},
        text_of(None),
        text_of({"is": "Recording", "of": {}}),
        text_of({"is": "os.system", "of": {"command": "true"}}),
        text_of(layer_of(q={"torch": "none"})),
        text_of(layer_of(surprise=1)),
        text_of(layer_of(mask=rule("Where"))),
        text_of(layer_of(mask=rule("Window"))),
        text_of(layer_of(mask=rule("Nothing"))),
        text_of(layer_of(mask=rule(""))),
        text_of(layer_of(mask=rule("Mask"))),
        text_of(layer_of(mask=rule("Causal Causal"))),
        text_of(layer_of(mask=rule("Not " * 5000 + "Causal"))),
    ],
)
def test_a_file_with_right_checksums_and_wrong_words_is_refused(tmp_path: Path, text: Any):
    container.write(tmp_path / "x.regard", text, {"a0": torch.zeros(2)})
    assert refusal(tmp_path / "x.regard").key == "recording.foreign"


# What cannot be written


def test_a_folder_that_is_not_there_is_named(tmp_path: Path):
    with pytest.raises(UserError, match="cannot write"):
        one().save(tmp_path / "none" / "x.regard")


def test_a_protected_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # Said, not done: whoever runs the tests may be allowed to write anywhere.
    def protected(self: Path, *_: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", protected)
    with pytest.raises(UserError, match=r"cannot write .*: Permission denied"):
        one().save(tmp_path / "x.regard")


def test_a_full_disk_leaves_what_was_there(saved: Path, monkeypatch: pytest.MonkeyPatch):
    before = saved.read_bytes()
    turns = iter([None])

    def full(tensor: Any) -> Any:
        if tensor.numel() == BATCH * H * T * D and next(turns, 1):  # the first time, to be summed
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return raw(tensor)

    raw = container.raw
    monkeypatch.setattr(container, "raw", full)
    with pytest.raises(UserError, match="No space left on device"):
        one(regard.window(2)).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]
