"""What is so, as choices: of the things that may be said here, which one is right.

A belief is about something, and says for each subject which value of a class is right; every other
value of the class is wrong of it.  A clause is cut into its parts, and subjects and values are
paired in the order in which they stand: "Q comes from the decoder, K and V from the encoder".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regard.explanation.notes.words.concepts import names, places
from regard.explanation.notes.words.facts import NOT, UNLIKE

Found = tuple[bool, str, dict[str, str]]

_PARTS = re.compile(r"[,，;；:：(（)）]|\s-\s|——|\bso\b|\bbecause\b|\bsince\b|所以|因为|因此")
_CHINESE = re.compile(r"[一-鿿]")


@dataclass(frozen=True)
class Belief:
    """Of ``about``, where ``relation`` is spoken of: the right value of each subject."""

    about: tuple[str, ...]
    """What the clause must name: each a concept, or several with ``|``."""
    relation: str
    """What the part itself must name; "" for nothing."""
    right: Mapping[str, str]
    """The right values of each subject; the subject "" is what the belief is about."""
    values: tuple[str, ...]
    """The class of values."""
    so: tuple[str, str] = ("", "")
    """What is so, in English and Chinese, where the value's own name does not say it."""
    unless: tuple[str, ...] = ()
    """What turns it into another claim."""
    near: int = 40
    """How many letters may stand between the relation and the value."""
    leading: bool = False
    """Whether the value stands before the relation: who shares."""
    whole: bool = False
    """Whether a wrong value is wrong beside right ones too: queries, keys and values."""
    inherits: bool = False
    """Whether what came before may say what it is about."""

    def judge(self, clause: str, context: str) -> Iterator[Found]:
        """A verdict on each value that a clause gives to a subject."""
        where = context + clause if self.inherits else clause
        if not all(_any(topic, where) for topic in self.about):
            return
        if (
            names("supposed", clause)
            or UNLIKE.search(clause)
            or _any("|".join(self.unless), clause)
        ):
            return
        before: tuple[str, ...] = ()
        for part in _PARTS.split(_bare(clause)):
            before, pairs = self._pairs(part, before)
            for subject, values in pairs:
                if not self.relation or self.leading or self._related(part, values):
                    yield from self._verdict(part, self.right[subject].split("|"), values)

    def _pairs(
        self, part: str, before: tuple[str, ...]
    ) -> tuple[tuple[str, ...], list[tuple[str, list[str]]]]:
        """The subjects that wait for a value, and those that have some."""
        if self.leading:
            ends = [start for each in self.relation.split("|") for start, _ in places(each, part)]
            part = part[max(0, ends[0] - self.near - 6) : ends[0]] if ends else ""
        if "" in self.right:
            return (), [("", found)] if (
                found := [v for v in self.values if places(v, part)]
            ) else []
        marks = sorted(
            [(start, "subject", name) for name in self.right for start, _ in places(name, part)]
            + [(start, "value", name) for name in self.values for start, _ in places(name, part)]
        )
        groups: list[tuple[str, list[str]]] = []
        for _, kind, name in marks:
            if groups and groups[-1][0] == kind:
                groups[-1][1].append(name)
            else:
                groups.append((kind, [name]))
        if [kind for kind, _ in groups] == ["value"] and before:
            groups = [("subject", [*before]), *groups]
        if len(groups) == 1 and groups[0][0] == "subject":
            return tuple(groups[0][1]), []
        if len(groups) % 2:
            return (), []
        pairs = []
        for one, other in zip(groups[::2], groups[1::2], strict=True):
            subjects, values = (one, other) if one[0] == "subject" else (other, one)
            pairs += [(each, [*dict.fromkeys(values[1])]) for each in dict.fromkeys(subjects[1])]
        return (), pairs

    def _verdict(self, part: str, right: list[str], values: list[str]) -> Iterator[Found]:
        wrong = [value for value in values if value not in right]
        if wrong and len(wrong) < len(values) and not self.whole:
            return  # the one, not the other
        if NOT.search(part):
            if wrong:
                yield True, "note.right", {}
        elif wrong:
            chinese = _CHINESE.search(part) is not None
            yield False, "note.so", {"right": self.so[chinese] or _named(right[0], chinese)}
        else:
            yield True, "note.right", {}

    def _related(self, part: str, values: list[str]) -> bool:
        """Whether the relation is named near the values, or behind them."""
        said = [span for each in self.relation.split("|") for span in places(each, part)]
        return any(
            start - end <= self.near and other_start - other_end <= self.near
            for value in values
            for start, other_end in places(value, part)
            for other_start, end in said
        )


def _bare(clause: str) -> str:
    """The clause without the names in which other words stand: "encoder-decoder attention"."""
    clause = re.sub(r",(?=\s(?:the )?\w+,? and\b)", " and", clause)
    for start, end in places("cross", clause):
        clause = clause[:start] + "_" * (end - start) + clause[end:]
    return clause


def _any(topic: str, text: str) -> bool:
    return bool(topic) and any(names(each, text) for each in topic.split("|"))


_NAMES = {
    "encoder": "编码器", "decoder": "解码器", "query": "查询 Q", "key": "键 K", "value": "值 V",
    "past": "之前的位置", "future": "之后的位置", "encoder-only": "仅编码器", "decoder-only": "仅解码器",
    "before softmax": "softmax 之前", "inference": "推理", "training": "训练", "together": "并行", "one by one": "逐个",
    "before": "之前", "after": "之后", "same": "相同", "different": "不同", "exact": "精确", "fixed": "固定", "learned": "可学习",
    "one-way": "单向", "both-ways": "双向", "constant": "无关", "linearly": "线性", "quadratically": "平方", "as the root": "√（平方根）",
}  # fmt: skip


def _named(value: str, chinese: bool) -> str:
    return _NAMES.get(value, value) if chinese else value


BELIEFS = (
    Belief(("cross",), "from|gives", {"query": "decoder", "key": "encoder", "value": "encoder"}, ("encoder", "decoder"), ("Q: decoder; K, V: encoder", "Q: decoder; K, V: encoder（Q 来自解码器，K、V 来自编码器）"), inherits=True),
    Belief(("encoder", "decoder"), "from|gives", {"query": "decoder", "key": "encoder", "value": "encoder"}, ("encoder", "decoder"), ("Q: decoder; K, V: encoder", "Q: decoder; K, V: encoder"), ("self", "cross")),
    Belief(("encoder",), "", {"": "every position"}, ("only past",), ("every position: no causal mask", "所有位置：不需要因果掩码"), ("decoder", "GPT", "causal", "mask", "self")),
    Belief(("sinusoid",), "parameters", {"": "zero"}, ("zero", "n by d"), ("0", "0"), ("learned",)),
    Belief(("weights|softmax",), "multiplied", {"": "value"}, ("value", "key", "query"), ("V (the values)", "V（值）"), ("scores", "query", "rope", "dot"), near=6),
    Belief(("attention|output",), "mixed", {"": "value"}, ("value", "key", "query"), ("V (the values)", "V（值）"), ("scores",), near=6),
    Belief(("scores", "query"), "dot", {"": "key"}, ("key", "value vectors"), ("Q and K", "Q 与 K"), ("mixed",)),
    Belief(("softmax",), "applied|normalised", {"": "each row"}, ("each row", "each column"), ("each row: Σⱼ a_ij = 1", "每一行：Σⱼ a_ij = 1"), ("axis",), near=24),
    Belief(("causal",), "hide", {"": "future"}, ("future", "past")),
    Belief(("mask",), "applied", {"": "before softmax"}, ("before softmax", "after softmax"), ("before the softmax: −∞ → softmax", "softmax 之前：−∞ → softmax"), ("keep", "constant", "zero"), near=12),
    Belief(("mask",), "", {"": "before softmax"}, ("softmax first",), ("before the softmax: −∞ → softmax", "softmax 之前：−∞ → softmax"), ("zero",)),
    Belief(("BERT",), "BERT", {"": "encoder-only|both-ways"}, ("encoder-only", "decoder-only", "encoder-decoder", "one-way", "causal", "both-ways"), ("encoder-only: j = 1 … n", "仅编码器，双向：j = 1 … n"), ("GPT", "T5"), near=24),
    Belief(("GPT",), "GPT", {"": "decoder-only|one-way|causal"}, ("encoder-only", "decoder-only", "encoder-decoder", "one-way", "causal", "both-ways"), ("decoder-only: j ≤ i", "仅解码器，单向：j ≤ i"), ("BERT", "T5"), near=24),
    Belief(("T5",), "T5", {"": "encoder-decoder"}, ("encoder-only", "decoder-only"), unless=("BERT", "GPT"), near=24),
    Belief(("original", "layernorm|sublayer"), "sublayer|layernorm", {"": "after"}, ("before", "after"), ("post-norm: after the sub-layer", "Post-Norm：子层之后"), ("GPT", "softmax")),
    Belief(("pre-norm",), "sublayer", {"": "ahead"}, ("ahead", "behind"), ("before the sub-layer", "子层之前")),
    Belief(("post-norm",), "sublayer", {"": "behind"}, ("ahead", "behind"), ("after the sub-layer", "子层之后")),
    Belief(("layernorm",), "statistics", {"": "features"}, ("features", "batch"), ("over the d features of each token", "每个词的 d 个特征"), ("batchnorm", "size")),
    Belief(("BERT", "predicts"), "BERT", {"": "masked token"}, ("masked token", "next token"), ("masked tokens", "被遮住的词")),
    Belief(("transformer", "training"), "", {"": "together"}, ("together", "one by one"), ("all positions in parallel", "所有位置并行"), ("rnn", "inference", "layer")),
    Belief(("cache",), "speeds", {"": "inference"}, ("training", "inference")),
    Belief(("cache",), "stores", {"": "key|value"}, ("key", "value", "query", "scores"), ("K, V", "K, V"), ("grouped",), whole=True),
    Belief(("multiquery|grouped",), "shares", {"": "query"}, ("query", "key"), ("query heads share a key and a value head", "查询头共享键和值的头"), near=12, leading=True),
    Belief(("multiquery",), "single", {"": "key|value"}, ("key", "value", "query"), ("one key and one value head", "一个键头和一个值头"), near=8),
    Belief(("alibi",), "adds", {"": "scores"}, ("scores", "embedding"), ("S + B: to the scores", "S + B：加在分数上")),
    Belief(("alibi",), "slope", {"": "fixed"}, ("trained", "fixed"), ("fixed: 2^(−8h/H)", "固定：2^(−8h/H)")),
    Belief(("alibi",), "alibi", {"": "fixed"}, ("learned", "fixed"), ("fixed: 2^(−8h/H)", "固定：2^(−8h/H)")),
    Belief(("rope",), "", {"": "fixed"}, ("learned", "fixed"), ("fixed: θ = i / 10000^(2m/d)", "固定：θ = i / 10000^(2m/d)")),
    Belief(("rope",), "rotates", {"": "query|key"}, ("query", "key", "value"), ("Q, K", "Q, K"), whole=True),
    Belief(("rope",), "grows", {"": "relative"}, ("relative", "absolute"), ("relative positions", "相对位置")),
    Belief(("rope",), "adds", {"": "query|key"}, ("embedding", "query", "key"), ("rotates Q, K", "旋转 Q, K")),
    Belief(("sinusoid",), "sinusoid", {"": "fixed"}, ("learned", "fixed"), ("fixed: sin, cos", "固定：sin, cos"), ("alike",)),
    Belief(("sinusoid",), "", {"": "fixed"}, ("learned", "fixed"), ("fixed: sin, cos", "固定：sin, cos"), ("alike", "sinusoid", "BERT", "GPT"), inherits=True),
    Belief(("position|sinusoid",), "position|embedding", {"": "adds"}, ("adds", "concatenates", "multiplies"), ("added: X + P", "相加：X + P"), ("root", "query", "key", "value", "relative", "rope", "head", "layer", "more"), inherits=True),
    Belief(("flash",), "", {"": "exact"}, ("exact", "approximate", "sparse"), ("exact: softmax(QKᵀ/√d) V", "精确：softmax(QKᵀ/√d) V")),
    Belief(("head",), "head|output", {"": "concatenates"}, ("concatenates", "averages", "summed"), ("concatenated: [O₁ … Oₕ] W_O", "拼接：[O₁ … Oₕ] W_O"), ("weights", "residual", "value", "parameters", "projections", "scores", "key"), near=24),
    Belief(("residual",), "", {"": "adds"}, ("adds", "concatenates", "multiplies", "averages"), ("x + f(x)", "x + f(x)"), ("network", "head", "dense")),
    Belief(("rnn",), "", {"": "one by one"}, ("together", "one by one"), ("n steps, one by one", "n 步，逐个进行"), ("attention", "hardly", "head", "alike", "decoder")),
    Belief(("decoder", "inference"), "inference", {"": "one by one"}, ("together", "one by one"), ("one token at a time", "逐个生成"), ("training", "head", "encoder"), near=16),
    Belief(("network", "place"), "parameters", {"": "same"}, ("same", "different"), ("the same at every position", "各位置相同"), ("layer",), near=3),
)  # fmt: skip
