"""Words as vectors: a small table of a real embedding, and the spelling of what is not in it.

The table, ``embedding.npz``, is made by ``scripts/embedding.py``: what MiniLM
(sentence-transformers/all-MiniLM-L6-v2, Apache-2.0) makes of 3,000 frequent English words, and of
1,500 frequent Chinese characters by their English glosses (Unihan, Unicode License v3), brought to
8 numbers by their principal components.  Any other word is told by its letters: every two that are
neighbours add 1 or −1 to one of the eight, by a hash of the pair (fastText's subwords, Bojanowski
et al. 2017, section 3.2, with nothing learned).  Every vector is brought to length 2.
"""

from __future__ import annotations

import re
import zlib
from functools import cache
from importlib.resources import as_file, files
from itertools import pairwise

import numpy as np

from regard._errors import ValueRangeError
from regard.explanation.sheet import Floats

WIDTH = 8
LENGTH = 2.0
# A Chinese character is a word of its own; elsewhere letters and figures that stand together are.
WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:['’][^\W\u3400-\u9fff]+)*")


def embed(sentence: str) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:
    """The words of ``sentence``, their vectors (n, 8), and the words that the table lacks.

    >>> vectors, words, spelt = embed("cat zzyzx 猫")
    >>> words, spelt
    (('cat', 'zzyzx', '猫'), ('zzyzx',))
    """
    words = tuple(WORD.findall(sentence))
    if not words:
        raise ValueRangeError(f"x must hold at least one word, but it is {sentence!r}")
    known = table()
    found = [known.get(word.lower()) for word in words]
    vectors = [
        _long(spelt(word) if vector is None else vector)
        for word, vector in zip(words, found, strict=True)
    ]
    lacking = [word for word, vector in zip(words, found, strict=True) if vector is None]
    return np.stack(vectors), words, tuple(dict.fromkeys(lacking))


@cache
def table() -> dict[str, Floats]:
    """The vector of every word that was learned."""
    with as_file(files("regard.explanation") / "embedding.npz") as path, np.load(path) as read:
        words = bytes(read["words"]).decode().split("\n")
        vectors = read["vectors"].astype(np.float64)
    return dict(zip(words, vectors, strict=True))


def spelt(word: str) -> Floats:
    """The vector of a word by its letters."""
    letters = f"<{word.lower()}>"
    numbers = np.zeros(WIDTH)
    for pair in pairwise(letters):
        code = zlib.crc32("".join(pair).encode())
        numbers[code % WIDTH] += 1.0 if code >> 16 & 1 else -1.0
    if not numbers.any():  # all pairs cancelled
        numbers[zlib.crc32(letters.encode()) % WIDTH] = 1.0
    return numbers


def _long(vector: Floats) -> Floats:
    # Two decimals, so that a reader can follow by hand.
    return np.asarray((vector * (LENGTH / np.linalg.norm(vector))).round(2))
