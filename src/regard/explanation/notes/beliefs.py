"""What is so, as choices: of the things that may be said here, which one is right.

A belief is about something, and says for each subject which value of a class is right; every other
value of the class is wrong of it.  A clause is cut into its parts, and subjects and values are
paired in the order in which they stand: "Q comes from the decoder, K and V from the encoder".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from regard.explanation.notes.concepts import names, places
from regard.explanation.notes.facts import NOT, UNLIKE

Found = tuple[bool, str, dict[str, str]]

_PARTS = re.compile(r"[,，;；:：(（)）]|\s-\s|——|\bso\b|\bbecause\b|\bsince\b|所以|因为|因此")
_CHINESE = re.compile(r"[一-鿿]")


@dataclass(frozen=True)
class Belief:
    """Of ``about``, where ``relation`` is spoken of: the right value of each subject."""

    about: tuple[str, ...]
    """What the clause, or what came before it, must name: each a concept, or several with ``|``."""
    relation: str
    """What the part itself must name; "" for nothing."""
    right: Mapping[str, str]
    """The right value of each subject; the subject "" is what the belief is about."""
    values: tuple[str, ...]
    """The class of values."""
    so: tuple[str, str] = ("", "")
    """What is so, in English and Chinese, where the value's own name does not say it."""
    unless: tuple[str, ...] = ()
    """What turns it into another claim."""
    own: bool = True
    """Whether the clause itself must name what it is about."""
    leading: bool = False
    """Whether the value stands before the relation: who shares."""
    near: int = 40
    """How many letters may stand between the relation and the value."""

    def judge(self, clause: str, context: str) -> Iterator[Found]:
        """A verdict on each value that a clause gives to a subject."""
        where = clause if self.own else context + clause
        if not all(_any(topic, where) for topic in self.about):
            return
        if names("supposed", clause) or UNLIKE.search(clause):
            return
        if any(names(other, clause) for other in self.unless):
            return
        before: tuple[str, ...] = ()
        for part in _PARTS.split(self._bare(clause)):
            subjects, pairs = self._pairs(part, before)
            before = subjects
            for subject, value in pairs:
                yield from self._verdict(part, subject, value)

    def _bare(self, clause: str) -> str:
        """The clause without the names of what it is about: "encoder-decoder attention"."""
        for topic in "|".join(self.about).split("|"):
            if any(
                topic != value and names(value, topic.replace("cross", "encoder"))
                for value in self.values
            ):
                for start, end in places(topic, clause):
                    clause = clause[:start] + "_" * (end - start) + clause[end:]
        return clause

    def _pairs(
        self, part: str, before: tuple[str, ...]
    ) -> tuple[tuple[str, ...], list[tuple[str, str]]]:
        """The subjects that wait for a value, and those that have one."""
        if self.leading:
            ends = [start for each in self.relation.split("|") for start, _ in places(each, part)]
            part = part[: ends[0]] if ends else ""
        if "" in self.right:
            found = {value for value in self.values if places(value, part)}
            return (), [("", value) for value in found] if len(found) == 1 else []
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
        if any(kind == "value" and len(set(each)) > 1 for kind, each in groups):
            return (), []
        if [kind for kind, _ in groups] == ["value"] and before:
            groups = [("subject", [*before]), *groups]
        if len(groups) == 1 and groups[0][0] == "subject":
            return tuple(groups[0][1]), []
        if len(groups) % 2:
            return (), []
        pairs = []
        for one, other in zip(groups[::2], groups[1::2], strict=True):
            subject, value = (one, other) if one[0] == "subject" else (other, one)
            pairs += [(each, value[1][0]) for each in dict.fromkeys(subject[1])]
        return (), pairs

    def _verdict(self, part: str, subject: str, value: str) -> Iterator[Found]:
        if self.relation and not self._related(part, value):
            return
        right = self.right[subject]
        denied = NOT.search(part) is not None
        if value in right.split("|"):
            if not denied:
                yield True, "note.right", {}
        elif denied:
            yield True, "note.right", {}
        else:
            chinese = _CHINESE.search(part) is not None
            so = self.so[chinese] or _named(right.split("|")[0], chinese)
            yield False, "note.wrong", {"right": so}

    def _related(self, part: str, value: str) -> bool:
        """Whether the relation is named near the value."""
        said = [span for each in self.relation.split("|") for span in places(each, part)]
        return any(
            start - end <= self.near and other_start - other_end <= self.near
            for start, other_end in places(value, part)
            for other_start, end in said
        )


def _any(topic: str, text: str) -> bool:
    return any(names(each, text) for each in topic.split("|"))


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
    Belief(("cross",), "from|gives", {"query": "decoder", "key": "encoder", "value": "encoder"}, ("encoder", "decoder"), own=False),
    Belief(("weights|softmax",), "mixed", {"": "value"}, ("value", "key", "query"), ("V (the values)", "V（值）"), unless=("scores",), near=6),
    Belief(("causal",), "hide", {"": "future"}, ("future", "past")),
    Belief(("mask",), "applied", {"": "before softmax"}, ("before softmax", "after softmax"), unless=("keep", "constant", "zero"), near=12),
    Belief(("mask",), "", {"": "before softmax"}, ("softmax first",), unless=("zero",)),
    Belief(("BERT",), "BERT", {"": "encoder-only"}, ("encoder-only", "decoder-only", "encoder-decoder"), unless=("GPT", "T5"), near=24),
    Belief(("GPT",), "GPT", {"": "decoder-only"}, ("encoder-only", "decoder-only", "encoder-decoder"), unless=("BERT", "T5"), near=24),
    Belief(("T5",), "T5", {"": "encoder-decoder"}, ("encoder-only", "decoder-only"), unless=("BERT", "GPT"), near=24),
    Belief(("original", "layernorm|sublayer"), "sublayer|layernorm", {"": "after"}, ("before", "after"), ("post-norm: after the sub-layer", "Post-Norm：子层之后"), unless=("GPT", "softmax")),
    Belief(("cache",), "speeds", {"": "inference"}, ("training", "inference")),
    Belief(("multiquery|grouped",), "shares", {"": "query"}, ("query", "key"), ("query heads share a key and a value head", "查询头共享键和值的头"), near=12, leading=True),
    Belief(("alibi",), "adds", {"": "scores"}, ("scores", "embedding")),
    Belief(("decoder", "inference"), "inference", {"": "one by one"}, ("together", "one by one"), ("one token at a time", "逐个生成"), unless=("training", "head", "encoder"), near=16),
    Belief(("network", "place"), "parameters", {"": "same"}, ("same", "different"), ("the same at every position", "各位置相同"), unless=("layer",), near=3),
)  # fmt: skip
