"""A text as a model reads it: its tokens, as people can read them too."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from regard._errors import UserError
from regard.recording.models import Loaded
from regard.recording.quiet import quiet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# How SentencePiece vocabularies write a byte of a character that they have no token for.
_BYTE = re.compile("<0x([0-9A-F]{2})>")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


@dataclass(frozen=True)
class Reading:
    """A text cut into T tokens."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    """What each token is called, see ``labels``."""
    spelled: tuple[str, ...]
    """What each token adds to the text; ``""`` for one that only continues a character."""
    separators: tuple[int, ...]
    """Positions of punctuation, line ends and special tokens."""
    unknown: int
    """How many tokens stand for something that the vocabulary does not know."""

    def find(self, word: str) -> tuple[int, ...]:
        """Positions of every token that takes part in spelling ``word``, wherever it stands."""
        word = word.strip().casefold()
        found: set[int] = set()
        for start, piece in enumerate(self.spelled):
            if not piece.strip():
                continue
            spelled = ""
            for stop in range(start, len(self.spelled)):
                spelled = (spelled + self.spelled[stop].casefold()).lstrip()
                if spelled == word:
                    found.update(range(start, stop + 1))
                elif not word.startswith(spelled):
                    break
        return tuple(sorted(found))


def read(loaded: Loaded, text: str) -> Reading:
    """``text`` cut by the model's own tokenizer, special tokens included."""
    with quiet():  # else it warns of a long text, which is the caller's to judge
        ids: list[int] = loaded.tokenizer(text)["input_ids"]
    if not ids:
        raise UserError("look.no-tokens", model=loaded.name)
    return read_ids(loaded, ids, text)


def go_on(loaded: Loaded, reading: Reading, count: int) -> Reading:
    """``reading`` and up to ``count`` tokens that the model writes after it, the likeliest each."""
    import torch

    writer: Any = loaded.writer
    assert writer is not None, "it was loaded to write"
    ids = torch.tensor([reading.ids])
    with quiet():
        written = writer.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            do_sample=False,
            use_cache=True,
        )
    return read_ids(loaded, written[0].tolist(), str(loaded.tokenizer.decode(written[0])))


def plain(tokens: Sequence[str]) -> Reading:
    """Positions that are known by their names only, such as those of a recording."""
    pieces = [token.replace("Ġ", " ").replace("▁", " ").replace("Ċ", "\n") for token in tokens]
    return Reading(
        ids=(),
        tokens=tuple(pieces),
        spelled=tuple(pieces),
        separators=tuple(at for at, piece in enumerate(pieces) if _separates(piece)),
        unknown=0,
    )


def spoken(tokenizer: Any, ids: Sequence[int]) -> list[str]:
    """What the tokens ``ids`` are called: as people read them, as far as the tokenizer can say."""
    if tokenizer is None:
        return [str(number) for number in ids]
    if hasattr(tokenizer, "get_added_vocab"):
        return labels(_pieces(tokenizer, list(ids)))[0]
    return list(plain(tokenizer.convert_ids_to_tokens(list(ids))).tokens)


def read_ids(loaded: Loaded, ids: list[int], text: str) -> Reading:
    """The tokens ``ids`` of ``text``."""
    tokenizer = loaded.tokenizer
    rows: Any = loaded.model.get_input_embeddings()
    if max(ids) >= rows.num_embeddings:
        raise UserError("look.foreign-tokenizer", model=loaded.name)
    tokens, spelled = labels(_pieces(tokenizer, ids))
    if "WordPiece" in _decoder(tokenizer):
        spelled = [piece.removeprefix("##") if "##" in piece else f" {piece}" for piece in spelled]
    # GPT-2 and its kin name one token unknown, first and last; none of their text is unknown, so
    # where that token comes from the text itself, it was meant.
    meant = (tokenizer.unk_token or "") in text
    special = set(tokenizer.all_special_ids) - (set() if meant else {tokenizer.unk_token_id})
    return Reading(
        ids=tuple(ids),
        tokens=tuple(tokens),
        spelled=tuple(spelled),
        separators=tuple(
            position
            for position, (number, label) in enumerate(zip(ids, tokens, strict=True))
            if number in special or _separates(label)
        ),
        unknown=0 if meant else ids.count(tokenizer.unk_token_id),
    )


def labels(pieces: Sequence[bytes]) -> tuple[list[str], list[str]]:
    r"""What each token is called and what it adds to the text, from the bytes of each.

    A character that several tokens share (most Chinese ones, for a small vocabulary) stands at
    the first of them; the rest are called by it too, with their number:

    >>> labels([b" the", b"\xe7", b"\x95", b"\x8c"])
    ([' the', '界', '界₂', '界₃'], [' the', '界', '', ''])
    """
    owners = [number for number, piece in enumerate(pieces) for _ in piece]
    spelled = [""] * len(pieces)
    called = [""] * len(pieces)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    start = 0
    for stop, byte in enumerate(b"".join(pieces), 1):
        if character := decoder.decode(bytes([byte]), final=stop == len(owners)):
            first, *rest = dict.fromkeys(owners[start:stop])
            spelled[first] += character
            for number, owner in enumerate(rest, 2):
                called[owner] = character + str(number).translate(_SUBSCRIPTS)
            start = stop
    return [text or call for text, call in zip(spelled, called, strict=True)], spelled


def _pieces(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[bytes]:
    """The bytes of text that each token stands for, whichever way the vocabulary writes them."""
    added = tokenizer.get_added_vocab()
    letters = _byte_letters() if "ByteLevel" in _decoder(tokenizer) else {}
    pieces = []
    for token in tokenizer.convert_ids_to_tokens(ids):
        if token not in added and all(letter in letters for letter in token):
            pieces.append(bytes(letters[letter] for letter in token))
        elif token not in added and (byte := _BYTE.fullmatch(token)):
            pieces.append(bytes.fromhex(byte[1]))
        else:
            pieces.append(token.replace("▁", " ").encode())
    return pieces


def _decoder(tokenizer: PreTrainedTokenizerBase) -> str:
    """How the tokenizer says that its tokens become text, ``""`` where it cannot."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    return repr(backend.decoder) if backend else ""


@cache
def _byte_letters() -> dict[str, int]:
    """GPT-2's alphabet, in which byte-level vocabularies are written: a letter for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {
        chr(256 + number): byte for number, byte in enumerate(others)
    }


def _separates(token: str) -> bool:
    """Whether ``token`` holds punctuation or a line end, and besides at most spaces."""
    letters = [letter for letter in token if letter == "\n" or not letter.isspace()]
    return bool(letters) and all(
        letter == "\n" or unicodedata.category(letter).startswith("P") for letter in letters
    )
