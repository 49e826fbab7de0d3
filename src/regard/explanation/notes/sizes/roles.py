"""What a number in a sentence is: tokens, heads, a width, bytes, weights, nats.

The words beside a number tell its role, whatever the sentence says of it; which roles belong
together, and how, stands in ``relations``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from regard.explanation.notes.mathematics.amounts import Amount, amounts

_IS = r"\s*(?:=|:|is|are|of|to|was|has|have|holds|gives|contains|为|是|有|等于|达|到|从|共|设为|取|：|[?？]|A:|答)*\s*(?:about |roughly |around |only |exactly |a total of |[一总]共有?|约为?|大约|大概|只有|分别为)*"


def _role(before: str, after: str) -> tuple[re.Pattern[str] | None, re.Pattern[str] | None]:
    return (
        re.compile(rf"(?:{before}){_IS}\s*$", re.I) if before else None,
        re.compile(rf"\s*(?:{after})", re.I) if after else None,
    )


ROLES = {
    "groups": _role(
        r"(?:KV|key[-/ ]value)[- ](?:heads|groups)",
        r"(?:KV|key[-/ ]?(?:and[- ])?value|key)[- ](?:heads?|groups?)|groups\b|个?\s*(?:KV|键值|键)\s*头|组",
    ),
    "each": _role(
        r"\bd_?(?:k|head|h|v|q)|\bhead_dim|(?:per[- ]head|head|key|query|每个?头的?|单头的?|头的?)[- ]?(?:width|size|dim\w*|宽度?|维度|维数)"
        r"|(?:width|size|dimension\w*) of (?:a|each|every|one|the) (?:single )?head|(?:each|every|per|one) (?:attention )?head(?: (?:is|has|gets|sees|works (?:in|on|with)|only))?(?: a| with)?(?: width| dimension\w*| size)?"
        r"|\bheads (?:of|with)(?: (?:width|dimension|size))?|每个?头(?:只?[有占得]|的?宽度?|的?维度)?|头[宽维]|单头",
        r"[- ]?(?:dimension\w*|dims?|wide|numbers|components)?,? (?:per|for each|in each|for every|each\b(?! head has))(?: head)?|维的头|[- ]dimensional heads",
    ),
    "vocabulary": _role(r"vocabulary(?: size)?|vocab(?:_size)?|词表(?:大小)?|词汇表(?:大小)?", r"(?:words|tokens|entries|subwords) in the vocabulary|个?词的词表"),
    "inner": _role(r"(?:inner|hidden|FFN|feed-?forward|MLP|intermediate)[- ](?:layer |hidden )?(?:width|size|dimension\w*|dim)|d_?ff|(?:中间|前馈|FFN|隐藏层)\s*(?:的?隐藏)?(?:层|网络)?的?\s*(?:维度|宽度|维数)|前馈隐藏层|中间层", r"[- ]wide (?:hidden|inner)"),
    "width": _role(
        r"\bd(?:_?model)?|\b(?:embed_dim|hidden_size|n_embd|width|dimension(?:ality)?|model size|embedding size|隐藏维度|d_model)|(?:宽度?|维度|维数)",
        r"[- ]?(?:dimension(?:al|s)?|dims?|wide)\b|[- ](?:numbers|components) (?:wide|long)|维",
    ),
    "layers": _role(r"\b(?:layers|n_layers?|L)|层数", r"(?:decoder |encoder |transformer )?(?:layers?|blocks)\b|个?层"),
    "batch": _role(r"batch(?: size)?(?: of)?|批(?:次|量)?(?:大小)?", r"(?:such )?(?:sequences|sentences|examples)\b|个?(?:序列|句子|样本)"),
    "heads": _role(
        r"\b(?:number of heads|n_?heads?|num_heads|h|H)|头数", r"(?:attention |query |parallel |such )*heads?\b|个?(?:注意力|查询|并行)?头"
    ),
    "params": _role(
        r"(?:parameters?|params)(?: count)?|参数(?:量|数|总数)?", r"(?:trainable |learnable |learned )?(?:parameters|params|weights)\b|个?(?:可学习|可训练)?参数"
    ),
    "components": _role(r"", r"(?:independent )?(?:entries|components|terms|numbers)(?=[^.;]{0,40}(?:divid|variance|independent|normal))"),
    "entries": _role(
        r"(?:number of (?:scores|entries|pairs|elements))|(?:元素|分数)个?数|(?:遮住|屏蔽|遮掉|允许|保留)(?:的?位置)?(?:了|有)?",
        r"(?:attention |raw |different |pairwise |allowed |visible |kept |masked |hidden |blocked |remaining |forbidden |non-?zero |possible )*(?:scores|entries|elements|cells|pairs|ones|zeros|dot products|numbers|similarities)\b|个?(?:注意力)?(?:分数|元素|单元|格子?|点积|数(?![据组])|对)|(?=of (?:(?:the|its|all) )?\d[\d,]* (?:scores|entries|pairs|cells|positions))",
    ),
    "keys": _role(r"", r"(?:equal(?:ly likely)? |different |possible |uniform )*(?:keys|choices|options|classes|outcomes|candidates|scores|values)\b|个?(?:相等的|相同的|等概率的?)?(?:键|选项|类别|结果|候选|分数)"),
    "tokens": _role(
        r"\b[nNTL]|(?:sequence|context|window|input|prompt)(?: length| size)?|\blength|(?:长度|序列长|上下文|输入长度?)",
        r"[- ]?(?:input |source |target )?(?:tokens?|words|positions|time ?steps|vectors|rows)\b|个?\s*(?:词元|词|位置|token|tokens|词向量|向量|时间步|单词|字(?!节))(?!表)",
    ),
    "nats": _role(r"", r"nats?\b|奈特"),
    "bits": _role(r"", r"bits?\b(?! (?:float|number|integer|precision))|比特"),
    "perplexity": _role(r"perplexity|困惑度", r"(?:of |in )?perplexity"),
    "loss": _role(r"(?:cross[- ]entropy|loss|log[- ]likelihood)|(?:损失|交叉熵)", ""),
    "entropy": _role(r"(?:entropy)(?:(?!ln|log)[^,，.;；\d]){0,40}|熵(?:值|最大)?", ""),
    "weight": _role(r"(?:each|every|all|the|its)? ?(?:attention )?(?:weights?|probability|probabilities)(?: (?:each|all|then|of each(?: key)?))?|(?:each|every) (?:token|key|word|position) gets(?: an?)?(?: weight| probability)?|(?:权重|概率)(?:都|均|各|就)?|各[得占分]到?|每个[词键]?(?:各?[得占]|分到)", ""),
    "scale": _role(r"(?:scal(?:e|ing) factor|scale)(?: for [^,.;]*)?|scores? (?:are |is )?(?:multiplied|scaled) by|缩放(?:因子|系数)|乘以", ""),
    "divisor": _role(r"(?:divid\w+|scal\w+ down)(?: (?:the|all|our|these|raw|scores?|dot|products?|logits|them|it|results?))* by|除以", ""),
    "frequencies": _role(r"", r"(?:different )?(?:frequencies|wavelengths|sine[-/ ](?:and[- ])?cosine pairs)\b|[个种]?(?:不同的?)?(?:频率|波长)"),
    "variance": _role(r"variance|方差", ""),
    "square": _role(r"squared (?:norm|length)|(?:模长|范数|长度)的?平方", ""),
    "norm": _role(r"(?<!squared )(?:\bnorm|\blength)|模长|范数", ""),
    "slope": _role(r"first (?:head's )?slope|slope of the first head|第一个(?:头的)?斜率", ""),
}  # fmt: skip
"""Each role's pattern before the number, and behind it."""


def role(amount: Amount, text: str) -> str:
    """What ``amount`` is in ``text``; "" where its words do not tell."""
    before, after = text[max(0, amount.start - 160) : amount.start], text[amount.end :]
    if amount.kind == "bytes":
        of_one = re.search(r"\b(?:at|with|using)\s*$", before) or re.match(
            r"\s*(?:each|per|an? (?:number|score)|一个|每个)", after
        )
        return "" if amount.value <= 8 and of_one else "bytes"
    if re.search(r"\b(?:ln|log\w*|exp)\s*\(?$", before):
        return ""
    if re.match(r"\s*(?:倍|times\b|-?fold|x\b)", after):
        return ""
    # "4096 / 32 = 128": what is worked out is what stands before the sum.
    before = re.sub(r"(?:[\d\s*/^+().,-]|sqrt|d_\w+)*\d[\s)]*=\s*$", " ", before)
    if re.search(r"\bof (?:the|its|all|these)\s*$|\d of\s*$", before):
        return ""
    if (vocabulary := ROLES["vocabulary"][0]) and vocabulary.search(before[-70:]):
        return "vocabulary"
    of_head = ROLES["each"][0]
    if of_head and of_head.search(before[-70:]) and re.match(r"[- ]?(?:wide|dim)|\s*维", after):
        return "each"
    for name, (_, pattern) in ROLES.items():
        if (
            pattern
            and pattern.match(after)
            and not (name == "each" and not 1 <= amount.value <= 8192)
        ):
            return name
    if amount.said.isalpha() and amount.said.isascii():
        return ""  # "parameters: three projections"
    for name, (pattern, _) in ROLES.items():
        if (
            pattern
            and pattern.search(before[-70:])
            and not (name == "each" and amount.value > 8192)
        ):
            return name
    return ""


def sized(text: str) -> Iterator[tuple[str, Amount]]:
    """The amounts of ``text`` with their roles, those without one too."""
    for amount in amounts(text):
        yield role(amount, text), amount
