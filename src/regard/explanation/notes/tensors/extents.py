"""How long the axes of attention's tensors are, as far as a note tells: batch, heads, tokens, widths.

An axis goes by one letter, as in a shape's name ``Bhij``: B sequences, h heads, g heads of keys and
values, i queries, j keys, d the width of the model, k and v that of a head's keys and values, f the
hidden width of the feed-forward network, V the vocabulary, P the longest input.  Lengths are told as
those of the source (s), of the target (t), or of neither (n).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

Extents = dict[str, set[str]]
"""For each axis what it may be: numbers, or letters that stand for one."""

LETTERS: Mapping[str, frozenset[str]] = {
    "B": frozenset(["B", "b", "N", "bs", "bsz", "batch", "batch_size", "batchsize"]),
    "n": frozenset(
        ["n", "N", "T", "L", "S", "t", "l", "m", "M", "seq", "seq_len", "seq_length", "seqlen", "length", "len", "n_tokens", "tokens", "num_tokens", "Tq", "Tk", "T_q", "T_k", "Lq", "Lk", "L_q", "L_k", "n_q", "n_k", "n_kv", "q_len", "k_len", "kv_len", "src_len", "tgt_len", "src_seq_len", "tgt_seq_len", "source_len", "target_len", "S_len", "T_len", "block_size", "context_length", "ctx", "num_queries", "num_keys", "queries", "keys"]
    ),
    "h": frozenset(["h", "H", "heads", "num_heads", "n_heads", "n_head", "nh", "nhead", "num_head", "head", "A"]),
    "g": frozenset(["g", "G", "n_kv_heads", "num_kv_heads", "kv_heads", "h_kv", "n_kv"]),
    "k": frozenset(["d_k", "dk", "d_q", "dq", "d_h", "dh", "d_head", "dhead", "head_dim", "hd", "D_h", "hs", "head_size", "head_width"]),
    "v": frozenset(["d_v", "dv", "d_value"]),
    "d": frozenset(
        ["d", "D", "C", "E", "d_model", "dmodel", "dim", "embed_dim", "hidden_size", "hidden_dim", "hidden", "model_dim", "d_m", "n_embd", "emb_dim", "embedding_dim", "embed_size", "emb_size", "d_emb", "width"]
    ),
    "f": frozenset(["d_ff", "dff", "ffn_dim", "d_ffn", "d_hidden", "ff_dim", "intermediate_size", "4d", "4*d"]),
    "V": frozenset(["V", "vocab", "vocab_size", "|V|", "n_vocab"]),
    "P": frozenset(["max_len", "max_seq_len", "max_length", "max_position", "n_positions", "n_ctx"]),
}  # fmt: skip
"""What the axes are called in shapes that are written in letters."""
_BEFORE = {
    "B": ("batch size", "batch", "batch_size", "批大小", "批次大小", "批量大小", "批量", "批次", "batch of", "batches of"),
    "s": ("source length", "source", "source sentence", "源句长度", "源长度", "源端长度", "源句", "源序列长度", "源序列", "源语言句子", "src_len", "memory length", "encoder length", "编码器长", "源长", "编码器长度", "编码器序列长度", "键的个数", "键的数量"),
    "t": ("target length", "target", "target sentence", "目标句长度", "目标长度", "目标端长度", "目标句", "目标序列长度", "目标序列", "tgt_len", "decoder length", "解码器长", "目标长", "解码器长度", "解码器序列长度", "查询的个数", "查询的数量"),
    "n": ("sequence length", "seq_len", "length", "sequence of", "序列长度", "序列长", "句子长度", "句长", "长度", "输入长度", "词数", "上下文长度", "context length", "context of", "prompt of"),
    "h": ("number of heads", "num_heads", "n_heads", "n_head", "nhead", "头数", "注意力头数", "头的个数", "头的数量", "attention heads"),
    "g": ("num_kv_heads", "n_kv_heads", "KV heads", "KV 头数"),
    "k": ("head dimension", "head_dim", "head size", "head width", "width of each head", "dimension of each head", "heads of width", "head of width", "per-head dimension", "size per head", "dimension per head", "dim per head", "width per head", "每头的维度", "每个头的大小", "每个头的维度", "每个头的维数", "每头维度", "每头", "单头维度", "头维度", "头宽", "每个头", "heads of", "头各"),
    "d": ("hidden size", "hidden dimension", "embedding dimension", "embedding size", "model dimension", "model width", "embed_dim", "hidden_size", "模型维度", "嵌入维度", "隐藏维度", "词向量维度", "向量维度", "模型宽度", "embedding dim", "width", "of width"),
    "f": ("intermediate size", "feed-forward width", "feed-forward dimension", "inner dimension", "inner size", "inner width", "ffn dimension", "FFN hidden size", "前馈层的隐藏维度", "前馈维度", "前馈层维度", "中间维度", "中间层维度", "FFN 维度", "前馈网络的隐藏维度", "前馈层维数", "hidden layer of"),
    "V": ("vocabulary size", "vocabulary", "vocabulary of", "vocab size", "词表大小", "词表", "词汇表大小", "词汇表", "vocab"),
    "P": ("maximum length", "max length", "最大长度", "max_len", "context window"),
}  # fmt: skip
_AFTER = {
    "B": ("sentences", "sequences", "examples", "samples", "个句子", "句话", "个样本", "条样本", "条句子", "条序列", "个序列"),
    "s": ("source tokens", "source words", "source positions", "encoder tokens", "encoder positions", "encoder states", "keys", "memory tokens", "个源词", "个源端词", "个键", "个源词元"),
    "t": ("target tokens", "target words", "target positions", "decoder tokens", "decoder positions", "queries", "个目标词", "个查询", "个目标词元"),
    "n": ("tokens", "words", "positions", "time steps", "timesteps", "token", "个词", "个词元", "个 token", "个token", "个位置", "个单词", "个字", "个时间步", "patches", "input vectors"),
    "g": ("KV heads", "key/value heads", "key-value heads", "kv heads", "个 KV 头", "个KV头", "个键值头"),
    "h": ("heads", "attention heads", "query heads", "parallel heads", "个头", "个注意力头", "个查询头", "头注意力"),
    "k": ("dimensions per head", "dimensions each", "dimensions per head", "dims per head"),
    "V": ("words in the vocabulary",),
    "d": ("dimensional", "-dimensional", "dimensions", "dimensional vectors", "维", "features"),
}  # fmt: skip
"""Words before and behind a number that tell of which axis it is."""
_WORDS = dict(zip(["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "sixteen"], map(str, (*range(2, 11), 12, 16)), strict=True))  # fmt: skip
_WORDS |= dict(zip("两二三四五六七八九十", map(str, (2, *range(2, 11))), strict=True))
_DIGITS = r"\d{1,3}(?:,\d{3})+(?!\d)|\d+"
_NUMBER = rf"(?P<number>{_DIGITS}|{'|'.join(_WORDS)})(?![\w]*[.^]\w|\d|\s*[*/+^=])"
_LINK = r"[\s:：=,，(（]*(?:(?:size|length|is|are|of|to|has|with|为|还?是|仍是|取|设为|共|有|共有|分别为)[\s:：=]*)*(?:[A-Za-z]\w*\s*[=＝为是:]\s*)?(?:[\d\s*/]+=\s*)?"


def _pattern(words: Iterable[str], form: str) -> re.Pattern[str]:
    longest_first = sorted(map(re.escape, words), key=len, reverse=True)
    return re.compile(form.replace("WORDS", "|".join(longest_first)), re.I)


_BY_WORDS = [
    *((axis, _pattern(words, r"(?<![A-Za-z0-9_-])(?:WORDS)" + _LINK + _NUMBER)) for axis, words in _BEFORE.items()),
    *((axis, _pattern(words, r"(?<![\w.×*/^=-])(?<![×*/^=-] )" + _NUMBER + r"[\s-]*(?:WORDS)(?![a-z])")) for axis, words in _AFTER.items()),
]  # fmt: skip
_EQUATION = re.compile(
    rf"(?<![\w^*/(])([A-Za-z]\w*)\s*(?:=|为|是|is)\s*(?:[\d\s*/]+=\s*)?({_DIGITS})(?![\w(]|,\d{{3}}|\s*[*/^+]|\.\d)"
)

_SEVERAL = frozenset(
    ["N", "L", "A", "M", "l", "t", "b", "C", "E", "head", "tokens", "width", "len"]
)
"""Letters that are the number of layers, or anything, in sentences."""


def axes_called(size: str) -> set[str]:
    """The axes that a letter, or a small expression of letters, may stand for."""
    size = size.replace(" ", "").replace("//", "/").replace("\\", "")
    if found := {axis for axis, letters in LETTERS.items() if size in letters}:
        return found
    parts = (
        [axes_called(part) for part in re.split(r"[*/]", size)] if re.search(r"[*/]", size) else []
    )
    if len(parts) != 2:
        return {"3"} if size[:1] == "3" and "d" in axes_called(size[1:]) else set()
    one, other = parts
    if "/" in size:
        return {"k", "v"} if "d" in one and "h" in other else set()
    if ("h" in one and other & {"k", "v"}) or ("h" in other and one & {"k", "v"}):
        return {"D", "d"}
    if size.startswith("3*") and "d" in other:
        return {"3"}
    return {"H"} if "B" in one and "h" in other else set()


def sizes_told(text: str) -> Iterator[tuple[str, str]]:
    """Each axis that ``text``, in the plain spelling, tells the extent of, with that extent.

    What a letter is said to be comes beside it, under "=" and the letter.
    """
    longest: dict[int, tuple[int, str, str]] = {}
    for axis, pattern in _BY_WORDS:
        for match in pattern.finditer(text):
            size = _WORDS.get(match["number"].lower(), match["number"].replace(",", ""))
            here = match.start("number")
            longest[here] = max(longest.get(here, (0, "", "")), (len(match[0]), axis, size))
    for _, axis, size in longest.values():
        yield axis, size
    for match in _EQUATION.finditer(text):
        if axes_called(match[1]):
            yield f"={match[1]}", match[2].replace(",", "")
        if match.start(2) not in longest and match[1] not in _SEVERAL:
            for axis in axes_called(match[1]):
                yield axis, match[2].replace(",", "")


def with_derived(told: Mapping[str, set[str]]) -> Extents:
    """What is told, and what follows from it: a head's width is d / h, and so on."""
    found = {
        **{axis: set() for axis in (*LETTERS, "s", "t")},
        **{axis: set(values) for axis, values in told.items()},
    }
    numbers = {axis: {int(x) for x in values if x.isdigit()} for axis, values in found.items()}
    found["k"] |= {str(d // h) for d, h in product(numbers["d"], numbers["h"]) if h and d % h == 0}
    numbers["k"] = {int(x) for x in found["k"] if x.isdigit()}
    if not found["d"]:
        found["d"] = {str(h * k) for h, k in product(numbers["h"], numbers["k"])}
        numbers["d"] = {int(x) for x in found["d"]}
    explicit = bool(found["v"]) and found["v"] != found["k"]
    found["v"] = found["v"] or set(found["k"])
    found["g"] = found["g"] or set(found["h"])
    found["f"] = found["f"] or {str(4 * d) for d in numbers["d"]}
    values = {int(x) for x in found["v"] if x.isdigit()}
    found["D"] = {str(h * v) for h, v in product(numbers["h"], values)} if explicit else set()
    found["D"] |= found["d"]
    found["G"] = {
        str(int(g) * k) for g, k in product(filter(str.isdigit, found["g"]), numbers["k"])
    }
    found["H"] = {str(b * h) for b, h in product(numbers["B"], numbers["h"])}
    found["3"] = {str(3 * d) for d in numbers["d"]}
    return found
