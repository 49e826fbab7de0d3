"""The numbers that everyone knows: of the paper's Transformer, of BERT, GPT, LLaMA, ViT."""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.explanation.notes.mathematics.amounts import Amount, amounts
from regard.explanation.notes.sizes.roles import role
from regard.explanation.notes.words.facts import DENIED, NOT

Found = tuple[bool, str, dict[str, str]]

_PAPER = {
    "width": "512",
    "heads": "8",
    "layers": "6",
    "inner": "2048",
    "each": "64",
    "warm-up": "4000",
    "dropout": "0.1",
    "smoothing": "0.1",
    "year": "2017",
}
MODELS: tuple[tuple[str, dict[str, str]], ...] = (
    (r"(?:base Transformer|Transformer[- ]?\(?base|original Transformer|base model(?= |$)|原版 ?Transformer|原始 ?Transformer|base 模型|原论文)", _PAPER),
    (r"(?:(?:original|Transformer) paper|Attention Is All You Need|Vaswani|Transformer ?论文)", {k: v for k, v in _PAPER.items() if k in ("warm-up", "smoothing", "year")}),
    (r"(?:Transformer[- ]?\(?big|big Transformer|big model|big 模型)", {"width": "1024", "heads": "16", "layers": "6", "inner": "4096", "dropout": "0.3"}),
    (r"(?:encoder (?:layer|block)|编码器层|编码器的?每一?层)(?=.*(?:sub-?layer|子层))", {"sub-layers": "2"}),
    (r"(?:decoder (?:layer|block)|解码器层|解码器的?每一?层)(?=.*(?:sub-?layer|子层))", {"sub-layers": "3"}),
    (r"BERT[- ]?\(?base", {"width": "768", "heads": "12", "layers": "12", "inner": "3072", "params": "110M 109M 108M 109.5M", "context": "512", "vocabulary": "30522 30000 30K"}),
    (r"BERT[- ]?\(?large", {"width": "1024", "heads": "16", "layers": "24", "inner": "4096", "params": "340M 335M 336M", "context": "512"}),
    (r"GPT-2[- ]?\(?(?:small|base)|(?:smallest|small) GPT-2", {"width": "768", "heads": "12", "layers": "12", "inner": "3072", "params": "124M 117M 124.4M", "context": "1024", "vocabulary": "50257"}),
    (r"GPT-2[- ]?\(?medium", {"width": "1024", "heads": "16", "layers": "24", "params": "355M 345M 350M", "context": "1024"}),
    (r"GPT-2[- ]?\(?large", {"width": "1280", "heads": "20", "layers": "36", "params": "774M 762M", "context": "1024"}),
    (r"GPT-2[- ]?\(?XL", {"width": "1600", "heads": "25", "layers": "48", "params": "1.5B 1.56B 1558M 1.6B", "context": "1024"}),
    (r"GPT-2", {"context": "1024", "vocabulary": "50257"}),
    (r"GPT-3", {"width": "12288", "heads": "96", "layers": "96", "params": "175B", "context": "2048", "each": "128"}),
    (r"LLaMA[- ]?7B", {"width": "4096", "heads": "32", "layers": "32", "inner": "11008", "each": "128", "vocabulary": "32000 32K", "context": "2048"}),
    (r"LLaMA[- ]?13B", {"width": "5120", "heads": "40", "layers": "40", "inner": "13824", "each": "128", "context": "2048"}),
    (r"LLaMA[- ]?2[- ]?70B", {"width": "8192", "heads": "64", "layers": "80", "groups": "8", "inner": "28672", "each": "128", "context": "4096"}),
    (r"Mistral[- ]?7B", {"width": "4096", "heads": "32", "layers": "32", "groups": "8", "inner": "14336", "each": "128"}),
    (r"ViT[- ]?(?:Base|B)\b", {"width": "768", "heads": "12", "layers": "12", "params": "86M"}),
)  # fmt: skip
"""Each model's numbers, those that are told of it in several ways apart by a space."""
_ANY = re.compile(
    r"BERT|GPT|LLaMA|Mistral|ViT|T5\b|Transformer|Qwen|DeepSeek|Falcon|RoBERTa|\b(?:tiny|small|base|medium|large|big|XL)\b",
    re.I,
)
_OTHERS = (
    ("context", r"context(?: window| length| size)?|上下文(?:长度|窗口)?|最大长度|maximum (?:sequence )?length", r"(?:tokens?|词元|个 ?token)?(?: of)? context"),
    ("warm-up", r"warm(?:s|ed)?[- ]?up(?: steps| for)*|预热(?:步数|了)?", r"(?:warm-?up )?steps of warm-?up|warm-?up steps|步?预热"),
    ("layers", r"", r"(?:identical |stacked |such |encoder |decoder )+(?:layers|blocks)\b|个(?:相同的|编码器|解码器)+层"),
    ("sub-layers", r"", r"(?:main )?sub-?layers|个?子层"),
    ("dropout", r"dropout(?: rate| probability|率)?(?: of the [\w ]+?| 的)?", r"dropout"),
    ("smoothing", r"label smoothing|标签平滑", r"label smoothing"),
    ("year", r"(?:published|presented|introduced|proposed|appeared|发表|提出|发布)\w*(?: in| at NeurIPS| at NIPS| by \w+ in|于|在)*", r"年(?:发表|提出|发布)"),
)  # fmt: skip
"""What the sizes have no role for: the words before the number, and behind it."""
_LINK = r"\s*(?:[=:：]|is|are|was|of|to|for|为|是|等于|取|设为|约|about|only|\s)*$"
_SUPPOSED = re.compile(
    r"\b(?:if|suppose|would|were|let|like|similar|than|toy|our|my|we|your|I|double|twice|half|from|instead|e\.g|fewer|more|except|original(?:ly)? (?:had|was))\b|如果|假如|若|类似|相比|我们|缩小|从|变[成为]|改[成为]|相当|例如|比",
    re.I,
)


def check_models(text: str) -> Iterator[Found]:
    """What a sentence says of known models, against their numbers."""
    if _SUPPOSED.search(text) or DENIED.search(text) or NOT.search(text):
        return
    found = [each for each in MODELS if re.search(each[0], text, re.I)]
    several = len(found) > 1 and not found[1][0].startswith(("(?:(?:original", "GPT-2"))
    for part in re.split(r"[,，;；]|\bwhile\b|\band\b", text) if several else [text]:
        here = [each for each in found if re.search(each[0], part, re.I)]
        if len(here) == 1 or (here and not several):
            yield from _of_model(part, *here[0])


def _of_model(text: str, name: str, known: dict[str, str]) -> Iterator[Found]:
    rest = re.sub(name, " ", text, count=1, flags=re.I)
    if _ANY.search(
        re.sub(
            r"GPT-2\b|(?:encoder|decoder)-only|Transformers? (?:layers?|blocks?)|transformer",
            " ",
            rest,
        )
    ):
        return  # several are spoken of
    text = re.sub(name, lambda match: "_" * len(match[0]), text, flags=re.I)
    said: dict[str, list[Amount]] = {}
    for amount in amounts(text):
        said.setdefault(_role(amount, text), []).append(amount)
    for kind, told in said.items():
        if kind not in known or len(told) != 1:
            continue
        also = known.get("width", "") if kind == "inner" else ""  # both are called hidden
        rights = [next(amounts(each)) for each in f"{known[kind]} {also}".split()]
        if any(_same(told[0], right) for right in rights):
            yield True, "note.right", {}
        elif rights[0].value / 40 < told[0].value < rights[0].value * 40:
            yield False, "note.so", {"right": known[kind].split()[0]}


def _role(amount: Amount, text: str) -> str:
    before, after = text[: amount.start], text[amount.end :]
    if before.rstrip().endswith("第"):
        return ""
    for name, words, behind in _OTHERS:
        if (words and re.search(rf"(?:{words}){_LINK}", before, re.I)) or re.match(
            rf"\s*(?:{behind})", after, re.I
        ):
            return name
    return role(amount, text)


def _same(told: Amount, right: Amount) -> bool:
    """Whether a number is the known one, as far as its digits go: 1.1 亿 is 110M."""
    return abs(told.value - right.value) <= max(
        1e-9, 0.5 * told.unit * (told.value >= 1e4), 0.012 * right.value * (right.value >= 1e4)
    )
