"""What the parts of a Transformer hold and cost: quantity = measure × object, over the note's sizes.

A formula is a sum of products in letters, "4dd+4d": n tokens, d wide, h heads of width k, g of them
for keys, L layers, f wide within the feed-forward, V words, P positions, B sequences.  Every object
has the readings that people give it, the plainest first; what a clause says of heads, layers and
batches chooses among them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

Sizes = Mapping[str, float]

NOUNS = {
    "biases": "bias(?:es)?|bias terms?|bias parameters|个?偏置",
    "params": "weights?|parameters?|params|个?参数量?|个?权重",
    "work": "multiplications|multiply-adds?|multiply-accumulates?|multiplies|MACs?|FLOPs?|operations|mults|次?乘法|次?乘加|次?浮点运算|次?运算|次?计算|次(?![方幂元数])",
    "entries": "entries|elements|numbers|values|scores|cells|floats|dot products|learnable numbers|个?元素|个?数(?:字|值)?(?![据组])|个?分数|个?注意力分数|个?点积",
}
"""What is counted, by its nouns."""

OBJECTS = {
    "head": "output head|LM head|lm_head|unembedding|output embedding|输出层|语言模型头|输出头",
    "query": "W_?Q|W_?q|query projections?|query weights|query matri(?:x|ces)|查询投影|Q 投影|q_proj",
    "key": "W_?[KVkv]|(?:key|value) projections?|(?:key|value) weights|[键值]投影|[KV] 投影|[kv]_proj",
    "keys": "K and V projections|W_?K(?: and |, | 和 ?|、|与)W_?V|key and value projections|K、V ?投影|键值投影",
    "output": "output projections?|output matrix|final projection|W_?[Oo]|输出投影|out_proj|o_proj",
    "each": "(?:each|every|one|a|single) (?:projection|matrix|weight matrix|of (?:them|these|the (?:three|four|projections)))|[每一单]个(?:投影|权重|权重矩阵|矩阵|投影矩阵)",
    "three": "(?:the )?three (?:input )?(?:projections|matrices|weight matrices|projection matrices)|QKV(?: projections?)?|qkv|c_attn|W_?Q(?:, ?| and |, and |、|和)W_?K(?:, ?| and |, and |、|和)W_?V|Q(?:, | and |, and |、|和)K(?:, | and |, and |、|和)V|三个(?:投影)?(?:权重)?矩阵|三个投影",
    "four": "W_?Q(?:, ?|、| )W_?K(?:, ?|、| )W_?V(?:, ?|、| |,? and |和)W_?O|(?:all |the )?four (?:linear )?(?:projections|matrices|projection matrices|weight matrices)|四个(?:投影)?(?:权重)?(?:矩阵|投影)",
    "attention": "(?:linear |attention )?projections|(?:multi-head )?(?:self-|cross-)?attention(?: block| layer| sub-?layer| module| part)?|(?:线性)?投影(?:部分|层|矩阵)?|(?:多头)?(?:自|交叉)?注意力(?:层|块|部分|子层|模块)?|MHA|(?:nn\\.)?MultiheadAttention",
    "ffn": "(?:position-?wise )?feed-?forward(?: network| layer| block| part| sub-?layer)?|FFN|MLP|feedforward|前馈(?:网络|层|部分|神经网络)?",
    "first": "(?:the )?first (?:linear )?(?:layer|matrix|projection)|up[- ]projection|FFN up|W_?1|W_up|第一(?:个线性)?层|第一个矩阵|升维",
    "second": "(?:the )?second (?:linear )?(?:layer|matrix|projection)|down[- ]projection|FFN down|W_?2|W_down|第二(?:个线性)?层|第二个矩阵|降维",
    "norms": "two (?:layer ?norms?|LayerNorms|RMSNorms|norms)|(?:layer ?norms|LayerNorms|norms) together|两个 ?(?:LayerNorm|RMSNorm|层归一化)",
    "norm": "layer ?norms?|LayerNorms?|RMSNorms?|norms?|layer normali[sz]ation|层归一化",
    "decoder": "decoder (?:layers?|blocks?)|解码器(?:的每一?)?(?:层|块)",
    "layer": "(?:encoder |transformer |decoder-only |whole |entire |complete |Transformer )?(?:layers?|blocks?)|(?:编码器|Transformer ?)?(?:层|块)",
    "model": "(?:whole |entire |full )?(?:model|network)|整个模型|模型",
    "embedding": "(?:token|word|input|subword) embeddings?(?: table| matrix)?|embedding (?:table|matrix|layer)|embeddings?|(?:词|词元|输入|token)嵌入(?:表|层|矩阵)?|嵌入(?:表|层|矩阵)|词嵌入",
    "positions": "position(?:al)? (?:embeddings?|encodings?|table|vectors)(?: table)?|learned (?:positions|table)|位置(?:嵌入|编码)(?:表|矩阵)?|位置表",
    "segment": "segment embeddings?|token[- ]type embeddings?|段嵌入|句段嵌入|分段嵌入",
    "scores": "(?:attention )?scores?(?: matri(?:x|ces)| tensor)?|Q ?\\* ?K\\^T|QK\\^T|Q K\\^T|attention (?:matri(?:x|ces)|maps?|weights?|weight matri(?:x|ces))|score matri(?:x|ces)|(?:注意力)?分数(?:矩阵)?|注意力(?:矩阵|图|权重(?:矩阵)?)|权重矩阵",
    "both": "(?:two |the )?n\\^2 (?:part|terms?|products)|quadratic (?:part|terms?)|(?:两个 ?)?n\\^2 ?的?[项部]分?|attention maps",
    "mix": "A ?V|weighted (?:sum|average)|(?:multiplying|weights) (?:with|times|by) V|加权(?:求和|平均|和)|乘以? ?V",
    "cache": "(?:K(?:/|-| ?and ?)?V|key[-/ ]value)[- ]?caches?|caches?|(?:KV|键值) ?缓存|缓存",
    "input": "inputs?(?: tensor| matrix)?|activations?|hidden states|输入(?:张量|矩阵)?",
}
"""The parts, by their names; the longest name that fits is meant."""

PARAMS = {
    "query": ("dd", "dd+d"), "each": ("dd", "dd+d"), "output": ("dd", "dd+d"), "key": ("dd", "dd+d", "dgk", "dgk+gk"),
    "keys": ("2dd", "2dd+2d", "2dgk", "2dgk+2gk", "dgk", "dgk+gk", "dd", "dd+d"),
    "three": ("3dd", "3dd+3d", "dd+2dgk"), "four": ("4dd", "4dd+4d", "2dd+2dgk", "2dd+2dgk+2d+2gk"),
    "attention": ("4dd", "4dd+4d", "4dd+3d", "2dd+2dgk", "3dd", "3dd+3d"),
    "ffn": ("2df", "2df+f+d", "3df", "3df+2f+d"), "first": ("df", "df+f"), "second": ("df", "df+d"),
    "norm": ("2d", "4d", "6d", "d"), "norms": ("4d", "2d"),
    "layer": ("4dd+2df", "4dd+2df+9d+f", "4dd+2df+5d+f", "4dd+2df+4d", "4dd+3df", "4dd+3df+2d", "2dd+2dgk+3df", "2dd+2dgk+3df+2d", "2dd+2dgk+2df"),
    "decoder": ("8dd+2df", "8dd+2df+15d+f", "8dd+2df+9d+f", "8dd+2df+6d", "4dd+2df", "4dd+2df+9d+f", "4dd+3df"),
    "model": ("Vd+Pd+4Ldd+2Ldf+9Ld+Lf+2d", "Vd+4Ldd+2Ldf", "Vd+Pd+4Ldd+2Ldf", "2Vd+4Ldd+3Ldf", "2Vd+4Ldd+3Ldf+2Ld+d"),
    "embedding": ("Vd", "2Vd", "Vd+Pd", "Vd+Pd+2d", "Vd+Pd+4d"), "positions": ("Pd", "nd"), "segment": ("2d",), "head": ("Vd", "Vd+V"),
}  # fmt: skip
"""The numbers that are learned."""
OF_A_HEAD = {
    "query": ("dk", "dk+k"), "key": ("dk", "dk+k"), "each": ("dk", "dk+k"), "output": ("dk",), "keys": ("2dk", "2dk+2k"),
    "three": ("3dk", "3dk+3k"), "four": ("4dk",), "attention": ("4dk", "3dk", "3dk+3k"),
}  # fmt: skip
"""Those of one head."""
OF_A_MATRIX = {
    **dict.fromkeys(("query", "key", "output", "each", "first", "second"), ("p", "p+q")), "keys": ("2p", "2p+2q"),
    "three": ("3p", "3p+3q", "p", "p+q"), "four": ("4p", "4p+4q"), "attention": ("4p", "4p+4q", "3p", "3p+3q", "p", "p+q"),
}  # fmt: skip
"""Those of a matrix whose shape was told, p numbers in q columns."""
BIASES = {
    "query": ("d",), "each": ("d",), "output": ("d",), "key": ("d", "gk"), "keys": ("2d",), "three": ("3d",), "four": ("4d",), "attention": ("4d", "3d"),
    "ffn": ("f+d",), "first": ("f",), "second": ("d",), "norm": ("d",), "layer": ("5d+f", "9d+f"),
}  # fmt: skip
WORK = {
    "query": ("ndd",), "each": ("ndd",), "output": ("ndd",), "key": ("ndd", "ndgk"), "keys": ("2ndd", "2ndgk"), "three": ("3ndd", "ndd"),
    "four": ("4ndd",), "attention": ("4ndd+2nnd", "4ndd", "2nnd", "3ndd", "nnd", "3ndd+2nnd"), "ffn": ("2ndf", "3ndf"), "first": ("ndf",), "second": ("ndf",),
    "both": ("2nnd",), "scores": ("nnd", "2nnd"), "mix": ("nnd",), "layer": ("4ndd+2ndf+2nnd", "4ndd+2ndf", "4ndd+3ndf+2nnd"), "head": ("nVd",),
}  # fmt: skip
"""Multiplications; twice as many operations."""
ENTRIES = {
    "scores": ("nn",), "input": ("nd",), "three": ("nd", "3nd"), "cache": ("2d", "2gk", "d", "gk"),
}  # fmt: skip
"""The numbers that pass through; those of the cache for one token."""
AXES = {
    "params": {"layers": "L"},
    "biases": {"layers": "L"},
    "work": {"layers": "L", "batch": "B", "operations": "2"},
    "scores": {"heads": "h", "layers": "L", "batch": "B"},
    "input": {"batch": "B", "layers": "L"},
    "three": {"batch": "B", "layers": "L"},
    "cache": {"tokens": "n", "layers": "L", "batch": "B"},
}
"""By what a measure, or the entries of an object, may be multiplied."""


def total(formula: str, sizes: Sizes) -> float:
    """What a formula comes to; 0 where a letter of it is not known.

    >>> total("4dd+4d", {"d": 512.0})
    1050624.0
    """
    result = 0.0
    for term in formula.split("+"):
        product = 1.0
        for times, letter in re.findall(r"(\d+)|([A-Za-z])", term):
            product *= float(times) if times else sizes.get(letter, 0.0)
        if not product:
            return 0.0
        result += product
    return result


def times(formula: str, letters: str) -> str:
    """Every term of a formula times some letters."""
    return "+".join(f"{letters}·{term}" for term in formula.split("+"))


def readings(measure: str, thing: str, fixed: Mapping[str, bool]) -> Iterable[str]:
    """The formulas that a measure of an object may have, the plainest first.

    ``fixed`` says of heads, layers, tokens and batch whether all of them are meant, or one.
    """
    tables = {"params": PARAMS, "biases": BIASES, "work": WORK, "entries": ENTRIES}
    found: tuple[str, ...] = tables[measure].get(thing, ())
    if measure == "params" and fixed.get("heads") is False:
        found = OF_A_HEAD.get(thing, ())
    if thing == "model":
        return found
    axes = dict(AXES[thing] if measure == "entries" and thing in AXES else AXES.get(measure, {}))
    if measure == "entries" and thing in ("input", "three") and fixed.get("heads") is False:
        found = tuple(each.replace("d", "k") for each in found)
    if measure == "work" and thing in ("scores", "mix") and fixed.get("heads") is False:
        found = tuple(each.replace("d", "k") for each in found)
    if measure == "work" and fixed.get("tokens") is False:
        found = tuple("+".join(t.replace("n", "", 1) for t in each.split("+")) for each in found)
    for axis, letter in axes.items():
        one, every = list(found), [times(each, letter) for each in found]
        wanted = fixed.get(axis)
        found = tuple(every if wanted else one if wanted is False else one + every)
    return found


SUPERSCRIPTS = {2: "²", 3: "³", 4: "⁴"}


def shown(formula: str) -> str:
    """A formula as it is written: ``4dd+4d`` is 4d² + 4d."""
    terms = []
    for term in formula.split("+"):
        by = 1
        letters: Counter[str] = Counter()
        for number, letter in re.findall(r"(\d+)|([A-Za-z])", term):
            by *= int(number or 1)
            letters[letter] += 1
        del letters[""]
        powers = "".join(f"{x}{SUPERSCRIPTS.get(n, '')}" for x, n in letters.items())
        terms.append(f"{by if by > 1 else ''}{powers}")
    return " + ".join(terms)
