"""Sizes that a sentence puts together, against how they belong together.

A sentence that names tokens and scores says how many scores there are, in whatever words.  Where
every size of a relation is told, what was told last must agree with the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.amounts import Amount, agrees, in_its_words, with_units
from regard.explanation.notes.sizes.clauses import number_widths
from regard.explanation.notes.sizes.quantities import check_quantities
from regard.explanation.notes.sizes.roles import sized
from regard.explanation.notes.sizes.symbols import check_ratios, check_symbols
from regard.explanation.notes.words.facts import DENIED, NOT

Sizes = Mapping[str, float]

HYPOTHETICAL = re.compile(
    r"[(（]\s*[*×✗✘]\s*[)）]|\bif (?:you|we|one) (?:forg|had|were|did)|\binstead\b|\bhad\b|\bforg[eo]t|\bsuppose\b.*\bonly\b|\bpeople who\b"
    r"|如果|若是?|要是|假如|忘|误",
    re.I,
)
"""What is not so, and only supposed."""
_CAUSAL = re.compile(r"causal|\btri[lu]\b|triang|autoregress|因果|三角|自回归", re.I)
_HIDDEN = re.compile(
    r"\bhid(?:es?|den)|(?<!causal )\bmask(?:s|ed)\b|block|remov|drop|forbid|discard|cut|saves?|skip|zeros\b|遮|屏蔽|去掉|隐藏|省|看不",
    re.I,
)
_KEPT = re.compile(
    r"\bkeep|\bkept|remain|left\b|leaves|visible|allow|attend|surviv|see|look|need|comput|\bones\b|保留|剩|可见|留下|允许|能看|计算|需要",
    re.I,
)
_UNIFORM = re.compile(
    r"uniform|equal|same (?:score|value)|all the same|均匀|相等|相同|一样|maximum|largest|at most|最大",
    re.I,
)


@dataclass(frozen=True)
class Relation:
    """One size out of others, where a sentence is about it."""

    claim: str
    """The role of what is claimed."""
    given: tuple[str, ...]
    """The roles that it follows from."""
    right: Callable[[Sizes], float]
    """What is so."""
    about: str
    """What the sentence must speak of."""
    others: tuple[Callable[[Sizes], float], ...] = ()
    """What else may be meant: of all heads, of one projection."""
    unless: str = r"(?!)"
    far: bool = True
    """Whether what it follows from may stand in an earlier sentence."""


RELATIONS = (
    Relation("params", ("_module",), lambda s: s["_module"], r"Linear\(|MultiheadAttention\(", far=False,
             others=(lambda s: s["_bare"],)),
    Relation("each", ("width", "heads"), lambda s: s["width"] / s["heads"], r"head|头", far=False,
             unless=r"KV|GQA|MQA|group|键值"),
    Relation("heads", ("width", "each"), lambda s: s["width"] / s["each"], r"head|头", far=False,
             unless=r"KV|GQA|MQA|group|键值"),
    Relation("width", ("heads", "each"), lambda s: s["heads"] * s["each"], r"concat|together|in all|total|joined|gives|拼|一共|总|合", far=False,
             unless=r"KV|GQA|MQA|group|键值"),
    Relation("entries", ("tokens",), lambda s: s["tokens"] * (s["tokens"] + 1) / 2, "kept"),
    Relation("entries", ("tokens",), lambda s: s["tokens"] * (s["tokens"] - 1) / 2, "hidden"),
    Relation("bytes", ("_width_of_number",), lambda s: s["_width_of_number"], r"(?:each|an?|one|every|per|single|每个?|一个)\s*(?:\w+ )?(?:number|value|float|entry|element|数|元素)|^(?:an? )?b?(?:float|fp|bf|int)\d+\b(?! instead)[^,，.]{0,20}(?:takes?|needs?|uses?|occup|is|占|需|用)|(?:float|fp|bf|int)\d+\s*每个数", far=False,
             unless=r"[KMGT]i?B\b|token|layer|cache|matrix|parameter|词元|层|缓存|矩阵|参数"),
    Relation("bits", ("_outcomes",), lambda s: float(np.log2(s["_outcomes"])), "uniform"),
    Relation("nats", ("_outcomes",), lambda s: float(np.log(s["_outcomes"])), "uniform"),
    Relation("entropy", ("_outcomes",), lambda s: float(np.log(s["_outcomes"])), "uniform", others=(lambda s: float(np.log2(s["_outcomes"])),)),
    Relation("perplexity", ("bits",), lambda s: 2.0 ** s["bits"], "perplexity|困惑", far=False),
    Relation("perplexity", ("nats",), lambda s: float(np.exp(s["nats"])), "perplexity|困惑", far=False),
    Relation("perplexity", ("loss",), lambda s: float(np.exp(s["loss"])), "perplexity|困惑", others=(lambda s: 2.0 ** s["loss"],), far=False),
    Relation("perplexity", ("entropy",), lambda s: float(np.exp(s["entropy"])), "perplexity|困惑", others=(lambda s: 2.0 ** s["entropy"],), far=False),
    Relation("weight", ("_outcomes",), lambda s: 1 / s["_outcomes"], "uniform", far=False, unless="maximum|largest|最大|at most"),
    Relation("scale", ("_head",), lambda s: s["_head"] ** -0.5, others=(lambda s: s["_head"] ** 0.5,), about=r"scor|dot|scal|logit|分数|点积|缩放", unless=r"embed|嵌入"),
    Relation("divisor", ("_head",), lambda s: s["_head"] ** 0.5, r"scor|dot|scal|logit|divid|分数|点积|缩放|除以", unless=r"embed|嵌入|\bheads\b|每个?头|\bh\s*=|variance|deviation|方差|标准差|个头", far=False),
    Relation("norm", ("square",), lambda s: s["square"] ** 0.5, r"squared|square|平方", far=False),
    Relation("frequencies", ("width",), lambda s: s["width"] / 2, r"sinus|position|sine|rotary|rope|正弦|位置|旋转"),
    Relation("slope", ("heads",), lambda s: 2 ** (-8 / s["heads"]), "alibi|slope|斜率"),
)  # fmt: skip
RESULTS = {relation.claim for relation in RELATIONS} - {"each", "heads", "width"}
"""Roles that are never given."""
_COMMA = re.compile(r"[,，;；:：](?!\d)")
_PART = re.compile(rf"{_COMMA.pattern}|\band\b|\bwhile\b|[和与、]")


_LEFT_OUT = re.compile(
    r"\b(?:without|not counting|no) (?:\w+ )?(?:bias\w*|embeddings?|norms?)\b|不[含带计算]+(?:偏置|嵌入)",
    re.I,
)
"""What is said to be left out, and denies nothing else."""


def check_sizes(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict for each size in ``sentence`` that follows from others."""
    said = re.sub(r"[`$]", "", sentence).strip()
    text = with_units(said)
    text = re.sub(
        r"the square root of (\d+)|(\d+)\s*的平方根", lambda m: f"sqrt({m[1] or m[2]})", text
    )
    told: dict[str, Amount] = {}
    found: list[Verdict] = []
    text = re.sub(
        r"[,，]? (?:\bnot|\brather than) (?:by )?\d[^,.;，。；]*|[，,]?(?:而不是|不是)\s*\d[^,.;，。；]*",
        " ",
        text,
    )
    denied = DENIED.search(text) or NOT.search(_LEFT_OUT.sub("", text))
    silent = bool(denied or HYPOTHETICAL.search(text))
    for name, amount in sized(text):
        if not name or re.match(r"\s*(?:[*/^]|[+-]\s*[\d(])", text[amount.end :]):
            continue
        known = {**names.sizes, **{role: each.value for role, each in told.items()}}
        worked_out = re.search(r"[\d)\]]\s*=\s*(?:about )?$", text[: amount.start]) is not None
        if not worked_out or name not in RESULTS:  # what is worked out is judged where it stands
            told[name] = amount
        if silent or worked_out:
            continue
        verdict = _judge(line, said, text, name, amount, known, told, names)
        if verdict:
            found.append(verdict)
    if not denied:
        for check in (check_quantities, check_symbols, check_ratios):
            told_so = check(line, said, text, names)
            found += [v for v in told_so if v.status == "right" or not silent]
    found += _unchanged(line, said, told, names) if not silent else []
    names.fresh = {name: amount.value for name, amount in sized(text) if name}
    names.sizes.update(names.fresh)
    wrong = [verdict for verdict in found if verdict.status == "wrong"]
    return wrong or found[:1]


def _unchanged(line: int, said: str, told: Mapping[str, Amount], names: Names) -> list[Verdict]:
    """With another number of heads the parameters are as many as before."""
    heads, params = told.get("heads"), told.get("params") or told.get("entries")
    before, known = names.sizes.get("heads"), names.sizes.get("params")
    if not (heads and params and before and known) or heads.value == before:
        return []
    if re.search(r"KV|GQA|MQA|键值|layers\b|层", said):
        return []
    if params.agrees(known):
        return [Verdict(line, said, "right", "note.right")]
    for ratio in (heads.value / before, before / heads.value):
        if abs(params.value / known / ratio - 1) < 0.01:
            return [Verdict(line, said, "wrong", "note.wrong", {"right": f"{known:,.0f}"})]
    return []


def _judge(
    line: int,
    said: str,
    text: str,
    name: str,
    amount: Amount,
    known: dict[str, float],
    told: dict[str, Amount],
    names: Names,
) -> Verdict | None:
    """What was told last, or a result that was told before what it follows from."""
    for relation in RELATIONS:
        claim = amount if relation.claim == name else told.get(relation.claim)
        backwards = relation.claim != name
        if backwards and not (
            relation.claim in RESULTS
            and claim
            and not _COMMA.search(text[claim.end : amount.start])
        ):
            continue
        if claim is None or not (relation.claim == name or name in _sources(relation)):
            continue
        if not _speaks(relation, text, claim, names):
            continue
        sizes = {**known, name: amount.value, "fresh each": names.fresh.get("each", 0.0)}
        sizes = _with_derived(sizes, text, told)
        if not all(sizes.get(given) for given in relation.given):
            continue
        near = all(
            given in told
            or (given == "entries" and given in names.fresh)
            or (given.startswith("_") and _local(given, told, text))
            for given in relation.given
        )
        if not near and not relation.far:
            continue
        try:
            right, others = relation.right(sizes), [other(sizes) for other in relation.others]
        except (OverflowError, ZeroDivisionError):
            continue
        about = (
            re.search(
                r"(?:≈|=|about|roughly|around|nearly|almost|over|more than|约|近|超过|大约)\s*$",
                text[: claim.start],
            )
            is not None
        )
        if agrees(claim, right, about):
            told.pop(relation.claim)
            return Verdict(line, said, "right", "note.right")
        if any(agrees(claim, other, about) for other in others):
            told.pop(relation.claim)
            return None
        if not near and not 0.7 < claim.value / right < 1.43:
            return None  # of something else, it may be
        told.pop(relation.claim)
        return Verdict(line, said, "wrong", "note.wrong", {"right": in_its_words(right, claim)})
    return None


def _sources(relation: Relation) -> Iterator[str]:
    for given in relation.given:
        yield from {
            "_outcomes": ("keys", "tokens", "entries"),
            "_head": ("each", "width", "components"),
        }.get(given, (given,))


def _local(given: str, told: Mapping[str, Amount], text: str) -> bool:
    if given == "_outcomes":
        return bool({"keys", "tokens", "entries"} & told.keys())
    if given == "_head":
        return bool({"each", "width", "components"} & told.keys())
    return _number_width(text) > 0 if given == "_width_of_number" else True


def _with_derived(
    sizes: dict[str, float], text: str, told: Mapping[str, Amount]
) -> dict[str, float]:
    """The sizes that a sentence tells in other words."""
    sizes["_module"], sizes["_bare"] = _module(text)
    for name, roles in (
        ("_outcomes", ("keys", "tokens", "entries")),
        ("_head", ("each", "width", "components")),
    ):
        role = next((each for each in roles if each in told), "")
        sizes[name] = told[role].value if role else 0.0
    if not sizes["_head"]:
        sizes["_head"] = sizes.get("fresh each", 0.0)
    if width := _number_width(text):
        sizes["_width_of_number"] = sizes["width of a number"] = width
    elif "width of a number" in sizes:
        sizes["_width_of_number"] = sizes["width of a number"]
    return sizes


def _module(text: str) -> tuple[float, float]:
    """The parameters of the one module of PyTorch that a text names, with biases and without."""
    linear = re.findall(r"Linear\((?:in_features=)?(\d+), ?(?:out_features=)?(\d+)", text)
    heads = re.findall(r"MultiheadAttention\((?:embed_dim=)?(\d+)", text)
    if len(linear) + len(heads) != 1 or re.search(r"四个|\bfour\b", text):
        return 0.0, 0.0
    if linear:
        a, b = map(float, linear[0])
        return a * b + b, a * b
    d = float(heads[0])
    return 4 * d * d + 4 * d, 4 * d * d


def _number_width(text: str) -> float:
    found = number_widths(text)
    return found[0] if len(found) == 1 else 0.0


def _speaks(relation: Relation, text: str, claim: Amount, names: Names) -> bool:
    if re.search(relation.unless, text, re.I):
        return False
    if relation.about in ("kept", "hidden"):
        if not _CAUSAL.search(" ".join([*names.headings, *names.recent, text])):
            return False
        near = _PART.split(text[: claim.start])[-1] + "#" + _PART.split(text[claim.end :])[0]
        kept, hidden = _KEPT.search(near) is not None, _HIDDEN.search(near) is not None
        return kept != hidden and kept == (relation.about == "kept")
    if relation.about == "uniform":
        return _UNIFORM.search(text) is not None
    return re.search(relation.about, text, re.I) is not None
