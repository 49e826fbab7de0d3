"""Claims in words: variance, linearity, cost, axes, masks, shapes, in English and Chinese.

A pattern says what a sentence claims, its judge what is so.  A sentence that denies a wrong claim
("is not linear", "不是线性的") is right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from regard.explanation.notes import judges
from regard.explanation.notes.algebra import Names
from regard.explanation.notes.claim import Status, Verdict
from regard.explanation.notes.judges import Judge, denied, unlike
from regard.explanation.notes.mathtext import plain

ASKS = re.compile(
    r"[?？]\s*$|吗\s*$|^(?:Is|Are|Why|Does|Do|What|How|Should|Can)\b|^(?:为什么|为何|如何|怎样)|\bwhether\b|是否"
)
"""A question, or a heading that is one, claims nothing."""


@dataclass(frozen=True)
class Rule:
    """A pattern of a claim, and what judges it."""

    pattern: re.Pattern[str]
    judge: Judge


def check_sentence(line: int, text: str, names: Names) -> list[Verdict]:
    """A verdict for each kind of claim in words that ``text``, one sentence, makes."""
    said = re.sub(r"\*\*|[`$]", "", text).strip()
    simple = plain(said)
    if ASKS.search(said):
        return []
    verdicts: list[Verdict] = []
    seen: set[tuple[bool, str]] = set()
    for rule in RULES:
        for match in rule.pattern.finditer(simple):
            found = rule.judge(match, simple, names)
            if not found or (found[:2] in seen and found[1] != "note.wrong"):
                continue
            right, key, values = found
            status: Status = "right" if right else "wrong"
            seen.add((right, key))
            verdicts.append(Verdict(line, said, status, "note.right" if right else key, values))
    wrong = [verdict for verdict in verdicts if verdict.status == "wrong"]
    return wrong or verdicts[:1]


def _rule(pattern: str, judge: Judge) -> Rule:
    return Rule(re.compile(pattern, re.I), judge)


_IS = (
    r"\s*(?:is|are|was|equals?|=|of about|has|为|是|等于|约为|变为)\s*(?:about|roughly|约|大约)?\s*"
)
_NUMBER = r"(?P<number>-?\d+(?:\.\d+)?)"

RULES: tuple[Rule, ...] = (
    # Variance
    _rule(
        r"\b(?:Var|D|V)\s*[\[(]\s*X\s*\*?\s*Y\s*[\])]\s*=\s*(?P<right>.+)", judges.product_variance
    ),
    _rule(
        r"(?P<what>variance|standard deviation|std(?:dev)?|deviation|方差|标准差)"
        r"(?:[^.。;；]{0,70}?(?:\bis|\bare|\bwas|equals?|[=:]|of about|为|是|等于|约为)\s*(?:about |roughly |约|大约)?"
        r"|\s+(?:of\s+)?(?=sqrt|d_|d\b|\d))\s*(?P<amount>(?:sqrt|d|\d)[^,，。;；、]*)",
        judges.variance,
    ),
    _rule(
        r"sqrt\(d\w*\)[^.。,，]{0,30}?(?:\bis|=|是|即|就是|为) ?(?:the |its |their |点积的|分数的)*(?:variance|方差)",
        denied("note.deviation", right="σ = √d"),
    ),
    # Linearity
    _rule(
        r"(?:before|prior to|until|up to) (?:the )?softmax[^.。]{0,70}\blinear\b"
        r"|\blinear\b[^.。]{0,40}(?:before|prior to|until|up to) (?:the )?softmax"
        r"|attention (?:itself )?is (?:just |only |simply |purely )?(?:a |an )?(?:\w+ )?linear\b"
        r"|attention (?:\w+ )?is (?:not|cubic|non-?linear)[^.。]{0,30}"
        r"|X\s*X\^T\s*X[^.。]{0,60}(?:linear|cubic|线性|三次)"
        r"|softmax\s*之?前[^。]{0,30}线性|注意力[^。，]{0,20}是[^。，]{0,8}线性|output is linear in"
        r"|输出对\s*\S{1,4}\s*是线性",
        judges.linear,
    ),
    _rule(
        r"(?<!before the )(?<!before )(?<!to the )(?<!until the )softmax (?:itself )?is (?:a )?linear|softmax\s*(?:本身|函数)?是(?:一个)?线性",
        denied("note.softmax-linear", right="exp"),
    ),
    _rule(
        r"only non-?linear\w*[^.。]{0,40}softmax|softmax[^.。]{0,40}only non-?linear"
        r"|linear[^.。]{0,30}(?:except|apart from|besides)[^.。]{0,20}softmax"
        r"|除了?\s*softmax[^。]{0,20}线性|唯一的?非线性[^。]{0,16}softmax|softmax[^。]{0,16}唯一的?非线性",
        judges.only_softmax,
    ),
    _rule(
        r"without (?:the |a )?softmax[^.。]{0,60}\blinear\b|(?:去掉|没有|不用|除去)\s*softmax[^。]{0,30}线性",
        judges.unsoftened,
    ),
    # Q, K and V
    _rule(
        r"(?:self-?attention|自注意力)[^.。]{0,80}Q\s*=\s*K\s*=\s*V|Q\s*=\s*K\s*=\s*V[^.。]{0,60}(?:self-?attention|自注意力)"
        r"|Q, K,? and V are (?:all |exactly )?(?:the same|identical|equal)(?! in shape| in size)[^.。]{0,40}self-?attention"
        r"|self-?attention[^.。]{0,60}(?:queries|query|Q)\b,? (?:the )?(?:keys?|K)\b,? and (?:the )?(?:values?|V)\b"
        r" are (?:all |exactly )?(?:the same(?! input| sequence| source| sentence| text| X)|identical|equal)"
        r"|自注意力[^。]{0,20}Q[、, ]*K[、, 和]*V[^。]{0,6}(?:同一个(?:矩阵|张量|东西)|相同|相等|完全一样)",
        denied("note.qkv", right="X W_Q, X W_K, X W_V"),
    ),
    _rule(
        r"cross-?attention[^.。]{0,60}quer(?:y|ies)[^.,。]{0,20}from (?:the )?encoder"
        r"|cross-?attention[^.。]{0,60}(?:keys?|values?)[^.,。]{0,30}from (?:the )?decoder"
        r"|交叉注意力[^。]{0,20}(?:查询|Q)[^。，]{0,8}(?:来自|出自|由)\s*编码器",
        denied("note.cross", right="Q: decoder; K, V: encoder"),
    ),
    # Cost
    _rule(
        r"(?:attention|注意力)[^.。]{0,40}(?:path length|路径长?度?)[^.。]{0,30}?O\s*\((?P<inside>[^()]*)\)|path length[^.。]{0,40}attention[^.。]{0,20}?O\s*\((?P<inside2>[^()]*)\)",
        judges.path,
    ),
    _rule(
        r"(?:attention|注意力|weights|权重)[^.。]{0,80}?O\s*\((?P<inside>[^()]*)\)", judges.order
    ),
    _rule(
        r"(?<!linear )attention[^.。]{0,40}(?:scales linearly|linear (?:complexity|cost|time)|linear in (?:the )?(?:sequence|length|n\b|number of tokens))"
        r"|(?<!线性)注意力[^。]{0,16}线性(?:的)?(?:复杂度|时间|增长|关系)",
        judges.linear_cost,
    ),
    _rule(
        r"(?:sequence|length|\bn|context|input|number of tokens) (?:length )?(?:is |are )?doubl\w+[^.。]{0,60}?(?P<what>\bdoubles?|\btwice|two times|quadruples?|four times|4 times)(?P<what2>)"
        r"|twice as (?:long|many tokens)[^.。]{0,60}?(?:costs?|needs?|takes?|has|have)[^.。]{0,30}?(?P<what3>twice|double|four times|4 times)",
        judges.doubling,
    ),
    _rule(
        r"doubl\w+ (?:the )?(?:sequence|length|n\b|context|number of tokens|input)[^.。]{0,80}?\b(?P<what>doubles?|twice|two times|quadruples?|four times|4 times)\b"
        r"|(?:序列|长度|n|上下文)\S{0,6}?(?:翻倍|加倍|增加一倍|变为\s*(?:2|两)\s*倍)[^。]{0,40}?(?:变为|增加到|是|变成|也|只|成为|会|增至)[^。]{0,12}?(?P<what2>翻倍|加倍|一倍|两倍|2\s*倍|四倍|4\s*倍)",
        judges.doubling,
    ),
    _rule(
        r"(?:equal|same|balance|cross|meet|相等|持平|一样)[^.。]{0,60}?\bn\s*=\s*(?P<factor>\d*\s*\*?\s*d\w*)",
        judges.equal_at,
    ),
    _rule(
        r"\bn\s*=\s*(?P<factor>\d*\s*\*?\s*d\w*)[^.。]{0,40}?(?:equal|same|balance|相等|持平|一样)",
        judges.equal_at,
    ),
    _rule(
        r"(?:\d+|\bh|several|more|multiple) heads? (?:cost|costs|take|need|require)s? (?:about )?(?:\d+|h|eight|four|many) times"
        r"|(?:\d+|h|多)\s*个?头[^。]{0,16}(?:代价|计算量|成本)[^。]{0,8}(?:\d+|h|数)\s*倍",
        denied("note.heads-cost", right="h · 2n²(d/h) = 2n²d"),
    ),
    _rule(
        r"(?:RNN|LSTM|recurrent \w+|循环神经网络)[^.,，。]{0,40}(?:in parallel|并行)",
        unlike("note.rnn", right="n"),
    ),
    # Heads and shapes
    _rule(
        r"\bd(?:_?model)?\s*=\s*(?P<d>\d+)[^.。]{0,60}?(?P<h>\d+)\s*(?:heads|个头|头)[^.。]{0,50}?(?:each|width|dimension|每个?头|每头)[^\d.。]{0,30}(?P<each>\d+)\b(?!\s*\*)",
        judges.heads,
    ),
    _rule(
        r"(?P<h>\d+)\s*(?:heads|个头)[^.。]{0,40}?\bd(?:_?model)?\s*(?:=|of|为|是)?\s*(?P<d>\d+)[^.。]{0,40}?(?:each|width|dimension|每个?头|每头)[^\d.。]{0,30}(?P<each>\d+)\b(?!\s*\*)",
        judges.heads,
    ),
    _rule(
        r"(?P<n>\d+)\s*(?:tokens|words|vectors|个(?:词元|词|向量|token))[^.。]{0,80}?(?:attention|score|weight|注意力|分数|权重)\w*\s*(?:matrix|矩阵)[^.。\d]{0,20}(?P<a>\d+)\s*(?:\*|x|by)\s*(?P<b>\d+)",
        judges.score_shape,
    ),
    _rule(
        r"(?:attention|scores?|weights?|注意力|分数|权重)\s*(?:matrix|矩阵)[^.。]{0,24}?(?:shape|size|形状|大小)[^.。\d]{0,10}?[\[(]?\s*\b(?P<a>[nNTL])\s*(?:\*|x|,|by)\s*(?P<b>d\w*|[nNTLSm])\b",
        judges.letters,
    ),
    _rule(
        r"outputs? of (?:the |all |all the )?heads (?:are|is) (?:then )?(?:averaged|added|summed)"
        r"|头的?输出[^。，]{0,6}(?:取平均|求平均|相加|求和)",
        denied("note.concat", right="[O₁ … Oₕ] W_O"),
    ),
    # Softmax
    _rule(
        r"softmax[^.。]{0,50}(?:over|along|across) (?:the )?(?:quer(?:y|ies)|first (?:axis|dimension)|batch|heads\b|features?|embedding)"
        r"|softmax[^.。]{0,30}(?:dim|axis)\s*=\s*0|(?:each|every) column\b[^.。]{0,40}sums? (?:up )?to (?:1|one)\b"
        r"|columns of the (?:attention|weight)s?[^.。]{0,30}sum to (?:1|one)\b"
        r"|每一?列[^。]{0,16}和(?:都)?(?:为|是|等于)\s*1\b|softmax[^。]{0,12}(?:沿着?|对|在)\s*(?:查询|列|第一个?维|特征|批)",
        denied("note.axis", right="Σⱼ a_ij = 1"),
    ),
    _rule(
        r"(?:each|every) row\b[^.。]{0,40}sums? (?:up )?to (?:1|one)\b|每一?行[^。]{0,16}和(?:都)?(?:为|是|等于)\s*1\b",
        judges.always,
    ),
    _rule(
        r"(?:higher|larger|raising|increasing|rais\w+)(?: the)? temperature[^.。]{0,50}(?:sharper|peak\w*|more confident|concentrat\w*)"
        r"|温度\S{0,4}(?:越高|升高|越大|提高)[^。]{0,16}(?:尖锐|集中|确定)",
        denied("note.temperature", right="τ → ∞: 1/n"),
    ),
    _rule(
        r"(?:adding|subtracting) (?:a|the same|the) (?:constant|number|maximum|max)[^.。]{0,60}chang\w+"
        r"|(?:减去|加上)(?:最大值|同一个(?:数|常数)|常数)[^。]{0,20}(?:改变|影响)",
        denied("note.shift", right="softmax(s + c) = softmax(s)"),
    ),
    # Scale
    _rule(
        r"(?:scores?|dot products?|QK\^T|q \* k)[^.。]{0,50}divid\w*[^.。]{0,12} by (?:d_?k?|the (?:dimension|width)(?: d_?k?)?)(?![\w^/])(?!\s*\^)"
        r"|divid\w* (?:the )?(?:scores?|dot products?|QK\^T|them)[^.。]{0,12} by (?:d_?k?|the (?:dimension|width)(?: d_?k?)?)(?![\w^/])(?!\s*\^)"
        r"|(?:分数|点积|得分|QK\^T)[^。]{0,16}除以\s*(?:维度\s*)?d_?k?(?![\w^/])(?!\s*\^|的平方根)",
        denied("note.scale", right="√d_k"),
    ),
    _rule(
        r"embeddings? (?:\w+ ){0,4}divid\w+ by sqrt\(d|嵌入[^。]{0,8}除以\s*sqrt\(d",
        denied("note.embedding", right="x · √d_model"),
    ),
    _rule(
        r"softmax\s*\(\s*\(*\s*Q\s*\*?\s*K\^T\s*\)*\s*/\s*\(*\s*d(?:_?k)?\s*\)|scal\w+ (?:\w+ ){0,3}by 1/d_?k?(?![\w^])",
        denied("note.scale", right="√d_k"),
    ),
    _rule(
        r"softmax\s*\(\s*Q\s*\*?\s*K\^T\s*\)\s*\*?\s*V?\s*\)*\s*/\s*\(*\s*sqrt",
        denied("note.formula", right="softmax(QKᵀ / √d_k) V"),
    ),
    # Masks and order
    _rule(
        r"(?:masked|hidden)(?: \w+){0,3} scores? (?:\w+ ){0,3}(?:set to|become|are|replaced (?:by|with)|filled with) (?:0|zero)\b(?!\.)"
        r"|(?:掩码|遮盖|屏蔽|遮住|被遮)\S{0,8}分数[^。]{0,10}(?:设为|置为|变成|变为|填成|填充为|填)\s*0(?![.\d])",
        denied("note.mask-zero", right="−∞"),
    ),
    _rule(
        r"MultiheadAttention[^.。]{0,80}True[^.。]{0,30}(?:keep|kept|may attend|allowed|保留|可以关注|可见)",
        denied("note.true-drops", right="True = drop"),
    ),
    _rule(
        r"scaled_dot_product_attention[^.。]{0,80}True[^.。]{0,30}(?:drop|masked|mask out|hidden|ignore|丢弃|屏蔽|遮住|不可见|忽略)",
        denied("note.true-keeps", right="True = keep"),
    ),
    _rule(
        r"causal[^.。]{0,50}(?:see|attend to|look at|access)[^.。]{0,24}(?:future|later|following|next)"
        r"|因果掩码[^。]{0,24}(?:看到|关注|看见)[^。]{0,8}(?:未来|后面|之后)",
        judges.future,
    ),
    _rule(
        r"attention[^.。]{0,24}(?:knows|aware of|keeps track of|understands|captures|sees) (?:the )?(?:word |token )?(?:order|positions?)[^.。]{0,40}(?:by itself|on its own|without (?:any )?position)"
        r"|attention (?:by itself|itself|alone)[^.。]{0,24}(?:knows|aware of|keeps track of|understands|captures) (?:the )?(?:word |token )?(?:order|positions?)"
        r"|注意力(?:本身|天然|自带)[^。]{0,10}(?:知道|感知|包含|区分|能)[^。]{0,10}(?:顺序|位置|次序)",
        denied("note.order-blind", right="O(ΠX) = Π O(X)"),
    ),
    _rule(
        r"layer ?norm\w*[^.。]{0,60}(?:over|across) (?:the )?batch|层归一化[^。]{0,16}(?:对|沿着?|在)\s*(?:batch|批)",
        denied("note.layernorm", right="d"),
    ),
    # Numbers in words
    _rule(
        rf"dot product of (?P<a>[A-Za-z]\w*) (?:and|with) (?P<b>\w+)(?: is| =| equals) {_NUMBER}",
        judges.dot,
    ),
    _rule(
        rf"(?P<a>[A-Za-z]\w*)\s*(?:和|与|跟)\s*(?P<b>[A-Za-z]\w*)\s*的(?:点积|内积)\s*(?:是|为|等于|=)\s*{_NUMBER}",
        judges.dot,
    ),
)
