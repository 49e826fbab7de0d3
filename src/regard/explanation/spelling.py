"""Words as vectors of how they are spelt: small, computed here, and no model of meaning.

Each word is written as ``<word>``; every two neighbouring letters add 1 or −1 to one of eight
numbers, which one and with which sign being told by a hash of the pair; then the vector is brought
to length 2.  So words that share letters point the same way, and words of like meaning do not,
unless they are spelt alike: it is fastText's subwords (Bojanowski et al. 2017, section 3.2) with
nothing learned.
"""

from __future__ import annotations

import re
import zlib
from itertools import pairwise

import numpy as np

from regard._errors import ValueRangeError
from regard.explanation.sheet import Floats

WIDTH = 8
LENGTH = 2.0
# A Chinese character is a word of its own; elsewhere letters and figures that stand together are.
WORD = re.compile(r"[\u3400-\u9fff]|[^\W\u3400-\u9fff]+(?:['’][^\W\u3400-\u9fff]+)*")


def embed(sentence: str) -> tuple[Floats, tuple[str, ...]]:
    """The words of ``sentence`` and their vectors (n, 8).

    >>> vectors, words = embed("cat cats 猫")
    >>> words
    ('cat', 'cats', '猫')
    """
    words = tuple(WORD.findall(sentence))
    if not words:
        raise ValueRangeError(f"x must hold at least one word, but it is {sentence!r}")
    return np.stack([vector(word) for word in words]), words


def vector(word: str) -> Floats:
    """The vector of one word, of length 2."""
    spelt = f"<{word.lower()}>"
    numbers = np.zeros(WIDTH)
    for pair in pairwise(spelt):
        code = zlib.crc32("".join(pair).encode())
        numbers[code % WIDTH] += 1.0 if code >> 16 & 1 else -1.0
    length = float(np.linalg.norm(numbers))
    if length == 0:  # all pairs cancelled
        numbers[zlib.crc32(spelt.encode()) % WIDTH] = length = 1.0
    return np.asarray(numbers * (LENGTH / length))
