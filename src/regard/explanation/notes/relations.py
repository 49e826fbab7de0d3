"""Sizes that a sentence puts together, against how they belong together.

A sentence that names tokens and scores says how many scores there are, in whatever words.  Where
every size of a relation is told, what was told last must agree with the others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from regard.explanation.notes.algebra import Names
from regard.explanation.notes.amounts import Amount
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.facts import DENIED, NOT
from regard.explanation.notes.mathtext import plain
from regard.explanation.notes.references import WIDTHS
from regard.explanation.notes.sizes import sized
from regard.explanation.numbers import written

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


def _projections(text: str) -> float:
    for count, words in (
        (1.0, r"\bW_?[QKVO]\b|\b(?:a|one|each|every|single) projection|每个(?:投影|矩阵)|一个(?:投影|矩阵)"),
        (3.0, r"\bthree\b|\b3 (?:proj|matri)|三个|Q, K(?:,| and) V|QKV"),
    ):  # fmt: skip
        if re.search(words, text):
            return count
    return 4.0


_ATTENTION = r"attention|projection|注意力|投影|W_?[QKVO]\b"
_SCORES = r"scores?\b|attention|weight|dot products|pairs|matrix|分数|注意力|权重|点积|矩阵"
_CACHE = r"KV|cache|缓存"
_SQUARES = tuple((lambda s, k=k: k * s["width"] ** 2) for k in (1, 2, 3, 4, 8, 12))
_BIASED = tuple(
    (lambda s, k=k, j=j: k * s["width"] ** 2 + j * s["width"])
    for k, j in ((1, 1), (3, 3), (4, 4), (4, 3), (8, 5), (12, 9), (12, 13))
)

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
    Relation("entries", ("tokens",), lambda s: s["tokens"] ** 2, _SCORES,
             others=(lambda s: s["tokens"] ** 2 * s.get("heads", 1), lambda s: s["tokens"] ** 2 * s.get("heads", 1) * s.get("layers", 1),
                     lambda s: s["tokens"], lambda s: s.get("keys", 0), lambda s: s["tokens"] * (s["tokens"] - 1) / 2,
                     lambda s: s["tokens"] * (s["tokens"] + 1) / 2, lambda s: s["tokens"] * (s["tokens"] - 1)),
             unless=r"causal|triang|window|local|sparse|cross|source|target|encoder|\brow\b|each token|every token|per token|one token|new token|for each (?:token|query|row|word)|因果|三角|窗口|稀疏|交叉|每个(?:词|位置|查询|token)|每一?行|新"),
    Relation("params", ("vocabulary", "width"), lambda s: s["vocabulary"] * s["width"], r"embed|嵌入|词表|vocab"),
    Relation("params", ("tokens", "width"), lambda s: s["tokens"] * s["width"], r"position|learned table|位置", unless=r"layer|block|projection|层|投影", far=False),
    Relation("params", ("width",), lambda s: s["_projections"] * s["width"] ** 2, r"projection|W_?[QKVO]\b|attention (?:layer|block|sub-?layer)|投影|注意力层",
             others=(*_SQUARES, *_BIASED), unless=r"feed|FFN|MLP|embed|vocab|layers\b|KV|low-?rank|LoRA|前馈|嵌入|词表|\bheads?\b|头"),
    Relation("params", ("width", "inner"), lambda s: 2 * s["width"] * s["inner"], r"feed|FFN|MLP|前馈",
             others=(lambda s: 2 * s["width"] * s["inner"] + s["width"] + s["inner"], lambda s: 3 * s["width"] * s["inner"], lambda s: s["width"] * s["inner"])),
    Relation("params", ("width",), lambda s: 8 * s["width"] ** 2, r"feed|FFN|MLP|前馈", others=(*_SQUARES, *_BIASED), unless=r"inner|hidden|gated|SwiGLU|layers\b|中间|门控"),
    Relation("bytes", ("_width_of_number",), lambda s: s["_width_of_number"], r"(?:each|an?|one|every|per|single|每个?|一个)\s*(?:\w+ )?(?:number|value|float|entry|element|数|元素)|^(?:an? )?b?(?:float|fp|bf|int)\d+\b(?! instead)[^,，.]{0,20}(?:takes?|needs?|uses?|occup|is|占|需|用)|(?:float|fp|bf|int)\d+\s*每个数", far=False,
             unless=r"[KMGT]i?B\b|token|layer|cache|matrix|parameter|词元|层|缓存|矩阵|参数"),
    Relation("bytes", ("tokens", "_width_of_number"), lambda s: s["tokens"] ** 2 * s["_width_of_number"], r"score|attention (?:matri|weights)|分数|注意力矩阵|权重矩阵",
             others=(lambda s: s["tokens"] ** 2 * s["_width_of_number"] * s.get("heads", 1), lambda s: s["tokens"] ** 2 * s["_width_of_number"] * s.get("heads", 1) * s.get("layers", 1)),
             unless=_CACHE + r"|flash|window|per token"),
    Relation("bytes", ("entries", "_width_of_number"), lambda s: s["entries"] * s["_width_of_number"], r"score|matrix|tensor|numbers|that|it\b|分数|矩阵|张量|元素|个数|个数字",
             others=(lambda s: s["entries"] * s["_width_of_number"] * s.get("heads", 1), lambda s: s["entries"] * s["_width_of_number"] * s.get("heads", 1) * s.get("layers", 1)), unless=_CACHE + r"|[*]|parameter|参数"),
    Relation("bytes", ("params", "_width_of_number"), lambda s: s["params"] * s["_width_of_number"], r"parameter|weights|model|参数|模型", unless=_CACHE + r"|Adam|gradient|optimi|梯度|优化|score|token|词元"),
    Relation("bits", ("_outcomes",), lambda s: float(np.log2(s["_outcomes"])), "uniform"),
    Relation("nats", ("_outcomes",), lambda s: float(np.log(s["_outcomes"])), "uniform"),
    Relation("entropy", ("_outcomes",), lambda s: float(np.log(s["_outcomes"])), "uniform", others=(lambda s: float(np.log2(s["_outcomes"])),)),
    Relation("perplexity", ("bits",), lambda s: 2.0 ** s["bits"], "perplexity|困惑", far=False),
    Relation("perplexity", ("nats",), lambda s: float(np.exp(s["nats"])), "perplexity|困惑", far=False),
    Relation("perplexity", ("loss",), lambda s: float(np.exp(s["loss"])), "perplexity|困惑", others=(lambda s: 2.0 ** s["loss"],), far=False),
    Relation("perplexity", ("entropy",), lambda s: float(np.exp(s["entropy"])), "perplexity|困惑", others=(lambda s: 2.0 ** s["entropy"],), far=False),
    Relation("weight", ("_outcomes",), lambda s: 1 / s["_outcomes"], "uniform", far=False, unless="maximum|largest|最大|at most"),
    Relation("scale", ("_head",), lambda s: s["_head"] ** -0.5, others=(lambda s: s["_head"] ** 0.5,), about=r"scor|dot|scal|logit|分数|点积|缩放", unless=r"embed|嵌入"),
    Relation("divisor", ("_head",), lambda s: s["_head"] ** 0.5, r"scor|dot|scal|logit|divid|分数|点积|缩放|除以", unless=r"embed|嵌入|\bheads\b|variance|deviation|方差|标准差|个头", far=False),
    Relation("norm", ("square",), lambda s: s["square"] ** 0.5, r"squared|square|平方", far=False),
    Relation("frequencies", ("width",), lambda s: s["width"] / 2, r"sinus|position|sine|rotary|rope|正弦|位置|旋转"),
    Relation("slope", ("heads",), lambda s: 2 ** (-8 / s["heads"]), "alibi|slope|斜率"),
)  # fmt: skip
RESULTS = {relation.claim for relation in RELATIONS} - {"each", "heads", "width"}
"""Roles that are never given."""
_COMMA = re.compile(r"[,，;；:：](?!\d)")
_PART = re.compile(rf"{_COMMA.pattern}|\band\b|\bwhile\b|[和与、]")


def check_sizes(line: int, sentence: str, names: Names) -> list[Verdict]:
    """A verdict for each size in ``sentence`` that follows from others."""
    said = re.sub(r"[`$]", "", sentence).strip()
    text = plain(re.sub(r"(\d)\s*([KMGT]i?B\b|bytes?\b|字节)", r"\1 _\2", said)).replace(" _", " ")
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
    silent = bool(DENIED.search(text) or HYPOTHETICAL.search(text) or NOT.search(text))
    for name, amount in sized(text):
        if not name or (
            name in RESULTS and re.match(r"\s*(?:[*/^]|[+-]\s*[\d(])", text[amount.end :])
        ):
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
    found += _of_matrices(line, said, text, names) if not silent else []
    found += _unchanged(line, said, told, names) if not silent else []
    names.fresh = {name: amount.value for name, amount in sized(text) if name}
    names.sizes.update(names.fresh)
    wrong = [verdict for verdict in found if verdict.status == "wrong"]
    return wrong or found[:1]


_MATRICES = re.compile(
    r"(?:three|3) (?:weight |projection )?matrices (?:together )?(?:hold|have|contain|are)[^\d.]{0,16}(\d[\d,]*)(?= |$)|(?:三个|3 ?个)(?:权重|投影)?矩阵[^\d。]{0,8}(?:有|是|共)\s*(\d[\d,]*)\s*个"
)


def _of_matrices(line: int, said: str, text: str, names: Names) -> list[Verdict]:
    """The numbers of the three matrices that the note has shown."""
    told = _MATRICES.search(text)
    weights = [names.find(f"W_{letter}") for letter in "QKV"]
    if not told or any(weight is None for weight in weights):
        return []
    right = sum(weight.size for weight in weights if weight is not None)
    if float((told[1] or told[2]).replace(",", "")) in (right, right / 3):
        return [Verdict(line, said, "right", "note.right")]
    return [Verdict(line, said, "wrong", "note.wrong", {"right": f"{right:,}"})]


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
        if _agrees(claim, right, about):
            told.pop(relation.claim)
            return Verdict(line, said, "right", "note.right")
        if any(_agrees(claim, other, about) for other in others):
            told.pop(relation.claim)
            return None
        if not near and not 0.7 < claim.value / right < 1.43:
            return None  # of something else, it may be
        told.pop(relation.claim)
        return Verdict(line, said, "wrong", "note.wrong", {"right": _shown(right, claim)})
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
    sizes["_projections"] = _projections(text)
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
    found = [
        size
        for size, names in WIDTHS.items()
        if re.search(rf"(?<!\w)(?:{names})(?!\w)", text, re.I)
    ]
    told = re.search(
        r"\b(?:at|with|using) (\d) bytes?\b|(\d) bytes? (?:each|per (?:number|value|score|entry|parameter|weight|element)|a (?:number|score|piece))|(\d)\s*个?字节(?:存)?(?:一个|每个)|每个?(?:数|元素|分数|参数)(?:占|用|是|为|需)?\s*(\d)\s*个?字节",
        text,
        re.I,
    )
    if not found and told:
        return float(next(filter(None, told.groups())))
    return float(found[0]) if len(found) == 1 else 0.0


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


def _agrees(claim: Amount, right: float, about: bool) -> bool:
    if claim.agrees(right, about):
        return True
    # Many write MB where 1024² bytes are meant.
    unit = re.search(r"([KMGT])B$", claim.said)
    return unit is not None and claim.agrees(
        right * (1000 / 1024) ** ("KMGT".index(unit[1]) + 1), about
    )


def _shown(right: float, claim: Amount) -> str:
    """The right value in the unit of the claim."""
    unit = re.search(r"[KMGT]i?B$", claim.said)
    times = re.search(r"百万|千万|万|亿|million|billion|thousand|[kKMB]$", claim.said)
    by = 1.0
    if unit:
        by = (1024.0 if "i" in unit[0] else 1000.0) ** ("KMGT".index(unit[0][0]) + 1)
    elif times:
        by = {
            "百万": 1e6,
            "千万": 1e7,
            "万": 1e4,
            "亿": 1e8,
            "million": 1e6,
            "billion": 1e9,
            "thousand": 1e3,
        }.get(times[0], 1.0)
    number = right / by
    digits = 4 if abs(number) < 1000 and number != int(number) else 0
    return f"{written(number, digits) if digits else f'{number:,.0f}'}" + (
        f" {unit[0]}" if unit else f" {times[0]}" if times and by != 1 else ""
    )
