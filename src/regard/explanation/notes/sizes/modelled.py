"""The sizes of the model that a note speaks of, by one letter each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.amounts import Amount, amounts
from regard.explanation.notes.sizes.roles import role

LETTERS = {
    "width": "d", "heads": "h", "layers": "L", "tokens": "n", "inner": "f", "vocabulary": "V", "each": "k", "groups": "g",
    "batch": "B", "positions": "P",
}  # fmt: skip
"""The letter of a size, by its role in a sentence."""
MOST = {
    "d": 65536,
    "h": 512,
    "L": 512,
    "n": 1e7,
    "f": 3e5,
    "V": 1e6,
    "k": 256,
    "g": 256,
    "B": 1e5,
    "P": 1e6,
}
"""What is more is no such size."""
NAMES = {
    "d": "d d_model dmodel D hidden_size n_embd embed_dim d_emb dim emb_dim model_dim",
    "h": "h H n_heads num_heads n_head num_attention_heads nhead heads",
    "L": "L n_layers num_layers n_layer num_hidden_layers layers",
    "n": "n T N S seq_len block_size context_length max_len n_ctx seq_length",
    "f": "d_ff dff ff d_ffn ffn_dim intermediate_size hidden_dim d_hidden",
    "V": "V vocab_size vocab n_vocab",
    "k": "d_k dk d_head head_dim d_h dh",
    "g": "n_kv_heads num_kv_heads n_kv h_kv kv_heads num_key_value_heads G",
    "B": "B batch_size batch b",
    "P": "max_position_embeddings n_positions max_len block_size n_ctx",
}
"""The names that a note gives to them."""


def sizes_of(
    text: str, names: Names, place: int | None = None
) -> tuple[dict[str, float], set[str]]:
    """The sizes that hold at a place of ``text``, and those that the note has given several values."""
    here: dict[str, float] = {}
    for letter, amount in sizes_in(text):
        if letter not in here or place is None or amount.start < place:
            here[letter] = amount.value
    if re.search(r"\bMQA\b|multi-query|多查询", text, re.I):
        here.setdefault("g", 1.0)
    sizes: dict[str, float] = {}
    doubtful = set()
    for letter, aliases in NAMES.items():
        kind = next(kind for kind, other in LETTERS.items() if other == letter)
        told = [
            float(v)
            for name in aliases.split()
            if (v := names.values.get(name)) is not None and v.ndim == 0
        ]
        told = [here.get(letter, 0.0), names.sizes.get(kind, 0.0), *told]
        told = [each for each in told if 1 <= each <= MOST[letter]]
        if letter == "k" and "d" in sizes:
            told = [each for each in told if sizes["d"] % each == 0]
        if letter == "f":
            told = [each for each in told if each >= sizes.get("d", 16)]
        if told:
            sizes[letter] = told[0]
        past = names.past.get(letter, [])
        if letter == "k":  # a width that the whole does not divide into was a slip
            past = [each for each in past if sizes.get("d", 0.0) % each[0] == 0]
        of_section = {value for value, section in past if section == len(names.headings)}
        several = len({value for value, _ in past}) > 1 or len({*told}) > 1
        if letter not in here and several and len(of_section) != 1:
            doubtful.add(letter)
    if "d" not in sizes and {"h", "k"} <= here.keys():
        sizes["d"] = here["h"] * here["k"]
    shown = names.find("W_Q")
    if shown is not None and shown.ndim == 2 and sizes.get("d", len(shown)) in shown.shape:
        sizes["p"], sizes["q"] = float(shown.size), float(shown.shape[1])
    return _completed(sizes), doubtful


def sizes_in(text: str) -> Iterator[tuple[str, Amount]]:
    """The sizes that ``text`` tells, with their letters."""
    for amount in amounts(text):
        letter = LETTERS.get(role(amount, text), "")
        if (
            letter
            and 1 <= amount.value <= MOST[letter]
            and not re.match(r"[A-Za-z]|\s*\^", text[amount.start + len(amount.said) :])
        ):
            yield letter, amount


def remember(told: Iterable[tuple[str, float]], names: Names) -> None:
    """Keeps the sizes that were told, with the section that tells them."""
    for letter, value in told:
        section = len(names.headings)
        if (value, section) not in names.past.setdefault(letter, []):
            names.past[letter].append((value, section))


def _completed(sizes: dict[str, float]) -> dict[str, float]:
    """With the sizes that follow from others, or are the usual ones."""
    if "k" not in sizes and sizes.get("h") and "d" in sizes:
        sizes["k"] = sizes["d"] / sizes["h"]
    if "h" not in sizes and sizes.get("k") and "d" in sizes:
        sizes["h"] = sizes["d"] / sizes["k"]
    if "f" not in sizes and "d" in sizes:
        sizes["f"] = 4 * sizes["d"]
    sizes.setdefault("g", sizes.get("h", 0.0))
    sizes.setdefault("P", sizes.get("n", 0.0))
    return sizes


def remember_columns(head: Sequence[str], rows: Sequence[Sequence[str]], names: Names) -> None:
    """The sizes that the columns of a table tell, one value in each row."""
    names.counts = [
        told[0]
        for row in reversed(rows)
        for cell in reversed(row)
        if len(told := [*amounts(cell)]) == 1
    ][:10] + names.counts[:10]
    for column, title in enumerate(head):
        kind = role(Amount(len(title) + 1, len(title) + 2, 8.0, 1.0, "", "8"), f"{title} 8")
        letter = LETTERS.get(kind, "")
        cells = [[*amounts(row[column])] for row in rows if column < len(row)]
        if letter:
            values = (told[0].value for told in cells if len(told) == 1)
            remember(((letter, value) for value in values if value <= MOST[letter]), names)
