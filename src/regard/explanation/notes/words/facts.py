"""Wrong things that are said of attention in words, in English and Chinese, and what is so.

A fact is about something, and names what is said of it wrongly: both stand in one clause, in any
order.  A clause that denies it ("is not linear", "不是线性的") is right, and one that compares, or
speaks of something else by name, says nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

DENIED = re.compile(
    r"[(（]\s*[*×✗✘]\s*[)）]|❌|\bwrong\b|\bmyth\b|\bmistake|\bincorrect|\bfalse\b|\bmisread|\bmisconception|错误|错的|误解|误以为|误区|不对|不正确|不成立|不严谨",
    re.I,
)
"""What denies the sentence that it stands in."""
NOT = re.compile(
    r"\bnot?\b|n't\b|\bnon-?(?!linear)|\bnever\b|\bnone\b|\bnothing\b|\brarely\b|\bseldom\b|\bhardly\b|很少|少有|\bneither\b|\bnor\b|\bcannot\b|\bunchanged\b|\brather than\b"
    r"|\bwithout\b(?! (?:any )?position)|\binstead of\b(?! (?:-|−|minus|negative)? ?inf| \d)"
    r"|不(?![同仅但只过断管论])|非(?!线性)|(?<!如果)没有(?!位置|softmax)|(?<![特分区级识类差])别|无关|无需|无法|"
    + DENIED.pattern,
    re.I,
)
"""What denies a claim."""
UNLIKE = re.compile(
    r"\bunlike\b|\bcompared\b|\bin contrast\b|\bdiffer(?:ent|s) from\b|(?<!rather )\bthan\b|不像|相比|不同于|[与和][^。，,]{1,40}不同|而不是|而非",
    re.I,
)
"""What compares: whose property it is cannot be told by its words."""


_LISTED = re.compile(r"(?<=\b[QKV]),(?= ?[QKV]\b)")
"""The comma of "Q, K and V"."""
OTHER = re.compile(r"flash|linear attention|\bKV\b|cache|window|sparse|RNN|窗口|缓存|稀疏", re.I)
"""What "it" may be, other than attention."""


@dataclass(frozen=True)
class Fact:
    """One wrong claim."""

    key: str
    """The catalogue's name of what is said of it."""
    right: str
    """What is so, in mathematics."""
    about: tuple[str, ...]
    """What a clause must speak of, each a pattern."""
    said: str
    """The pattern of what is said wrongly."""
    unless: str = r"(?!)"
    """What turns it into another claim."""
    denies: bool = False
    """Whether what is said wrongly is itself a denial."""

    def judge(self, clause: str, context: str, before: str) -> bool | None:
        """Whether ``clause`` denies it; None where it does not speak of it.

        ``context`` is what came before, for a clause that says "it"; its beginning, ``before``, is
        of other sentences.
        """
        found = re.search(self.said, clause, re.I)
        its = re.match(r"\W*(?:its|their|it|它的?)\b", clause, re.I) and OTHER.search(context)
        if not found or its or re.search(self.unless, clause, re.I):
            return None
        if not all(re.search(topic, context + clause, re.I) for topic in self.about):
            return None
        own = context.removeprefix(before) + clause
        if not all(re.search(topic, own, re.I) for topic in self.about) and (
            re.search(self.unless, before, re.I) or UNLIKE.search(before)
        ):
            return None  # what came before says what it is about, and more
        if UNLIKE.search(clause):
            return None
        # What another part of the sentence denies is not this.
        whole = _LISTED.sub(" ", clause)
        start = max(whole.rfind(comma, 0, found.start()) for comma in ",，") + 1
        ends = [whole.find(comma, found.end()) for comma in ",，"]
        end = min((end for end in ends if end >= 0), default=len(clause))
        part = f"{clause[start : found.start()]} {clause[found.end() : end]}"
        part = re.sub(r"[(（][^()（）]*[)）]", " ", part)
        if not self.denies:
            part += found[0]
        return NOT.search(part) is not None


_ATTENTION = r"attention|transformer|注意力"
_CROSS = r"cross-?attention|encoder[- –]decoder attention|交叉注意力|编码器[-–—]?解码器注意力"
_MASK = r"\bmask|\bhid(?:e|den)|padd|掩码|遮|屏蔽|填充"
_ROTARY = r"\brope\b|rotary|旋转(?:位置|编码)"
_FLASH = r"flash ?-?attention"
_RNN = r"\bRNNs?\b|LSTM|recurrent|循环神经网络"
_OTHERS = (
    r"RNN|LSTM|recurren|conv|CNN|linear attention|Linformer|Performer|Longformer|Reformer|arxiv|flash|window|sparse|local|KV|cache|循环|卷积|线性注意力|稀疏|窗口"
    r"|缓存|per token|每个词元|parallel|sequential|path|路径|project|投影|feed-?forward|FFN|前馈|parameter|参数|Mamba|state space|decompos|分解"
)

_MANY_TIMES = (
    r"(?:\d+|\bh|eight|four|several|many)[- ]?(?:times|fold)|\b(?:doubl|tripl|quadrupl)\w*|\btwice as\b|翻倍|加倍|\bmore (?:param|comput|FLOP|weights)|(?:more|most) expensive|(?:multiplies|increases?|grows?) (?:with|by) the (?:number of )?heads"
    r"|(?:\d+|h|数|几)\s*倍|(?:参数量?|计算量|代价|成本)[^。，,]{0,4}(?:越[大多高]|增加|变多|翻)"
)

FACTS = (
    Fact(
        "note.qkv", "X W_Q, X W_K, X W_V", (r"self-?attention|自注意力",),
        r"Q\s*=\s*K\s*=\s*V"
        r"|(?:Q|quer(?:y|ies)),? (?:the )?(?:K|keys?),? and (?:the )?(?:V|values?) (?:vectors |matrices )?are (?:all |exactly |simply |just |literally )*"
        r"(?:the same(?! (?:input|source|sequence|sentence|text|shape|size|length|width|X)\b)|identical|equal)"
        r"|(?:Q|查询)[、,， 和与]*(?:K|键)[、,， 和与]*(?:V|值)[^。，]{0,8}(?:同一个?(?:矩阵|张量|东西|向量)|相同(?!的?(?:形状|输入|来源))|相等|完全一样|一样)",
        r"in shape|in size|W_?Q = W_?K|= I\b|[令设取]\s*Q|\b(?:let|set|take) (?:us )?Q",
    ),
    Fact(
        "note.cross-mask", "j = 1 … S", (_CROSS,),
        r"(?:needs?|uses?|appl\w+|requires?|has|with|需要|使用|要用|要加|加上?)[^.。]{0,16}(?:causal|因果)",
    ),
    Fact(
        "note.sequential", "O(1)", (_ATTENTION, r"sequential|顺序操作|串行"),
        r"O\s*\(\s*n\s*\)|\bn sequential", r"RNN|recurr|循环|decod|generat|infer|解码|生成|推理",
    ),
    Fact(
        "note.order", "O(n²d)", (_ATTENTION, r"cost|complex|memory|time|compute|grow|scale|FLOP|quick|计算|复杂|代价|成本|显存|内存|时间|增长"),
        r"\blinear(?:ly)?\b[^.。]{0,40}(?:length|tokens?|sequence|\bn\b|context|input|words)|(?:length|tokens?|sequence|\bn\b)[^.。]{0,20}\blinearly"
        r"|\blinear (?:time|complexity|cost)|(?<!\bin )(?<!\bwith )\blinear memory|线性(?:的)?(?:增长|复杂度|时间|关系|增加)|(?:成|呈)(?:线性|正比)|(?:长度|词元|序列)[^。，]{0,8}是?线性",
        _OTHERS + r"|平方|二次|square|quadratic",
    ),
    *(
        Fact(
            key, right, (r"\bheads?\b|头", of), _MANY_TIMES,
            r"KV|cache|缓存|grouped|GQA|MQA|multi-query|\bleaves\b|of width d\b|full width|feed|前馈|(?:参数量?|计算量|代价)[^。，,]{0,4}不变|param\w*[^.,]{0,20}(?:unchanged|the same)|same (?:number of )?param|cost[^.,]{0,16}(?:unchanged|the same)|same cost",
        )
        for key, right, of in (
            ("note.heads-parameters", "4d²", r"param|number of weights|参数"),
            ("note.heads-cost", "h · 2n²(d/h) = 2n²d", r"cost|compute|comput|expens|slow|FLOP|计算|代价|成本"),
        )
    ),
    Fact(
        "note.parameters", "4d²", (r"attention|layer|注意力|层", r"parameters?\b|参数"),
        r"(?:grows?|increases?|depends?|scales?|proportional)[^.。]{0,24}(?:sequence|length|number of tokens|context|\bn\b)|(?:序列|长度|词数)[^。]{0,10}(?:增长|增加|成正比|有关|越[长大多])",
        r"position|embedding|\bKV\b|cache|memory|位置|嵌入|缓存|显存|内存",
    ),
    Fact(
        "note.axis", "Σⱼ a_ij = 1", (r"softmax",),
        r"(?:over|along|across) (?:the )?(?:quer(?:y|ies)|first (?:axis|dimension)|batch|heads?\b|features?|embedding|column)"
        r"|(?:dim|axis)\s*=\s*0|softmax[^。，,]{0,12}(?:沿着?|对|在)\s*(?:查询|列|第一个?维|特征|批)|(?:沿着?|对|在)\s*(?:查询|列|第一个?维|特征|批)[^。，,编]{0,12}(?:softmax|归一)",
        r"还是|如果|若|弄错|\bif\b|\bor\b|columns? (?:sums?|add)|instead of rows|rather|would|列之?和",
    ),
    Fact(
        "note.axis", "Σⱼ a_ij = 1", (r"column|列",),
        r"(?:each|every|all|the) columns?\b[^.。]{0,40}(?:sums?|adds?)[^.。]{0,6} to (?:1|one)\b(?!\.\d)|每一?列[^。]{0,16}和(?:[都也均总])*(?:为|是|等于)\s*1\b(?!\.\d)",
        r"还是|\bor\b|dim\s*=\s*0|axis\s*=\s*0|over the quer|would|first axis|conditional|如果|若|沿|条件概率",
    ),
    Fact(
        "note.shift", "softmax(s + c) = softmax(s)", (r"softmax|weights|权重|max|最大",),
        r"(?:add|subtract)\w* (?:a|the same|the|any) (?:constant|number|maximum|max)[^.。]{0,60}\bchang\w+|(?:减去|加上)(?:最大值|(?:同?一个)?(?:相同的)?(?:数|常数))[^。]{0,20}(?:改变|影响)",
    ),
    Fact(
        "note.multiple", "softmax(cs) ≠ softmax(s)", (r"softmax|attention weights|注意力权重",),
        r"invarian\w+ (?:to|under|when|if)[^.。]{0,30}(?:multipl|scal)\w*|(?:multipl|scal|doubl|halv)\w+[^.。]{0,80}(?:(?:not|n't|never|no)\b[^.。]{0,16}(?:change|affect|effect)|unchanged|(?:remains?|stays?) the same)|(?:乘以?|缩放|放大)(?:(?!不是|并非|不再)[^。]){0,16}(?:不变|不会?改变|不影响)",
        r"order|rank|argmax|largest|次序|顺序|排序|最大",
        denies=True,
    ),
    Fact(
        "note.rank", "argmax s / √d = argmax s", (r"\bscal(?:e|ing)\b|divid|temperature|缩放|除以|温度",),
        r"changes?[^.。]{0,20}(?:which|order|ranking|argmax)|改变[^。]{0,8}(?:次序|顺序|大小关系|排序|排名)",
    ),
    Fact(
        "note.gradient", "√d_k", (r"(?:after|with|by|due to|because of) (?:the )?(?:scal|divi)|scaling (?:makes|causes|lets)|缩放(?:之后|后|会|使|导致)",),
        r"gradients?[^.。]{0,30}(?:vanish|smaller|disappear)|vanishing gradients?|梯度[^。，]{0,6}(?:消失|变小)[^。]{0,8}",
        r"prevent|avoid|mitigat|lessen|reduce|防止|避免|缓解|减轻",
    ),
    Fact(
        "note.symmetric", "a_ij ≠ a_ji", (r"matrix|weights|矩阵|权重",),
        r"always (?:be )?symmetric|(?:weights?|attention)(?: weights?)?(?: matrix)? (?:is|are) symmetric|(?:总是|一定|必然|都)是?对称|注意力矩阵是?对称",
        r"X\s*X\^?T|because (?:we|Q|here)|\bhere\b|Q = K|W_Q = W_K|\bif\b|\bwhen\b|因为\s*(?:Q|这里|此处|用)|此处|这里|如果|若|时",
    ),
    Fact(
        "note.scale", "√d_k", (r"scores?|dot products?|QK\^T|q \* k|分数|点积|得分|softmax",),
        r"(?:divid\w*|scal\w+)(?: (?:the )?(?:scores?|dot products?|QK\^T|them|it))?[^.。]{0,12} by (?:1/)?(?:d_?k?|the (?:dimension|width)(?: d_?k?)?)(?![\w^/*])(?!\s*\^)"
        r"|除以\s*(?:键的|向量的)?\s*(?:维度|宽度|维数)?\s*d_?k?(?![\w^/])(?!\s*\^|的平方根)|\)\s*/\s*\(*\s*d(?:_?k)?\s*\)",
        r"\bD\s*(?:\\?left)?\s*\(|Var|\bif\b|would|had|variance|方差|如果|若|假如|head|heads|头",
    ),
    Fact(
        "note.scale", "√d_k", (r"softmax",), r"K\^T\s*\)*\s*/\s*\(*\s*d(?:_?k)?\s*\)",
    ),
    Fact(
        "note.formula", "softmax(QKᵀ / √d_k) V", (r"softmax",),
        r"softmax\s*\(\s*Q\s*\*?\s*K\^T\s*\)\s*\*?\s*V?\s*\)*\s*/\s*\(*\s*sqrt",
    ),
    Fact(
        "note.mask-zero", "−∞", (_MASK, r"scores?|logits?|position|instead of|before|softmax|entr(?:y|ies)|分数|得分|之前|位置|-inf"),
        r"(?:set|sett|fill|replac|becom|assign|chang)\w*[^.。]{0,24}(?:to|with|by|\be) (?:0|zeros?)\b(?!\.\d)|(?:are|is) (?:0|zero)\b(?!\.\d)"
        r"|(?:设为|设成|置为|置成|变成|变为|填成|填充为|填|赋值为|改为|乘以)\s*0(?![.\d])",
        r"其他|其余|未被|otherwise|the rest|elsewhere|others|length|长度|weight|probabilit|after (?:the )?softmax|权重|概率|softmax\s*之?后|bias|exp|e\^|output|输出",
    ),
    Fact(
        "note.true-drops", "True = drop", (r"MultiheadAttention|key_padding_mask",),
        r"True[^.。]{0,60}(?:keep|kept|may attend|allowed|attended|takes? part|participat|visible|保留|可以?(?:被)?(?:关注|看)|可见|允许|参与)",
        r"scaled_dot|SDPA",
    ),
    Fact(
        "note.true-keeps", "True = keep", (r"scaled_dot_product_attention|SDPA",),
        r"True[^.。]{0,60}(?:drop|masked|mask(?:s|ed)? out|hidden|hides|ignore|block|exclude|丢弃|屏蔽|遮|不可见|忽略|排除)",
        r"MultiheadAttention|padding",
    ),
    Fact(
        "note.future", "j ≤ i", (r"causal|autoregressive|因果|自回归|decoder(?:'s)? self|解码器的?自",),
        r"(?:sees?|attends?|looks?|access|focus)\w*[^.。]{0,40}(?:future|later|following|next|subsequent|after it|j\s*(?:≥|>=|>|geq?)\s*i)|(?:看到|关注|看见|访问)[^。]{0,12}(?:未来|后面|之后|后续)|j\s*(?:≥|>=|>)\s*i",
        r"without|cheat|could|没有掩码|prevent|stop|hid|block|forbid|keep.{0,20}from|only|mask(?:ed|s|ing) out|inf|防止|避免|禁止|看不到|阻止|遮|屏蔽|只能",
    ),
    Fact(
        "note.order-blind", "O(ΠX) = Π O(X)", (_ATTENTION, r"without (?:any )?position|by itself|on its own|\bitself\b|\balone\b|inherently|naturally|by nature|天然|本身|自带|没有位置|不加位置|无需位置"),
        r"(?:knows?|aware|tell|distinguish|keeps? track|understands?|captures?|sees?|sensitive|respects?)[^.。]{0,24}(?:order|position)|(?:知道|感知|区分|识别|捕捉|看出|包含|能)[^。]{0,10}(?:顺序|位置|次序|先后|词序)",
    ),
    Fact(
        "note.layernorm", "d", (r"layer ?norm|层归一化|\bLN\b",),
        r"(?:over|across|along|of|for|沿着?|对|在|跨)\s*(?:the |all |all the |whole |entire |整个|一个)*\s*(?:batch|tokens?\b|sequence|positions|examples|词元|序列|批)",
        r"initializ|checkpoint|shard|partition|切分|并行|batch ?norm|批归一化|each|every|token's|independent|per[- ]token|\bone token|\ba token|每个|单个",
    ),
    Fact(
        "note.rotary-length", "|R x| = |x|", (_ROTARY,), r"chang\w+ (?:the )?(?:length|norm|magnitude)|改变[^。]{0,6}(?:长度|模长|范数)",
    ),
    Fact(
        "note.flash-cost", "O(n²d)", (_FLASH, r"FLOP|operations|compute|computation|\btime|计算|时间|运算"),
        r"O\(n\)|\blinear(?:ly)?\b|线性", r"memory|显存|内存",
    ),
    Fact(
        "note.flash-memory", "O(n)", (_FLASH, r"memory|显存|内存"), r"O\(n\^2\)|quadratic|平方|二次",
        r"unless|avoid|除非|from|reduc|sav|standard|naive|multiplications|FLOP|operations|comput|time|从|降|减|标准|普通|计算|乘法|时间",
    ),
    Fact(
        "note.ffn", "f(xᵢ)", (r"feed-?forward|\bFFN\b|\bMLP\b|前馈",),
        r"(?:mix|exchang|communicat|interact)\w*[^.。]{0,24}(?:tokens|positions|words|information)|(?:tokens|positions|words|patches) (?:mix|exchange|communicate|interact|talk)|(?:between|across|among) (?:different |the )?(?:tokens|positions|words|patches)|(?:位置|词元|词)之间",
        r"attention|注意力",
    ),
    Fact(
        "note.positive", "a_ij ≥ 0", (r"softmax|attention|注意力",),
        r"(?:weights?|softmax)\b[^.,。，]{0,30}\bnegative\b(?! (?:number|inf|log|class|sampl))|(?:权重|softmax)[^。，]{0,10}(?:是|为|有)负(?!对数|样本)",
        r"\bloss|likelihood|gradient|损失|似然|梯度",
    ),
    Fact(
        "note.deviation", "√d", (r"standard deviation|标准差|\bstd\b", r"dot|product|scores?|点积|内积|分数"),
        r"(?:proportional to|linear(?:ly)? (?:in|with)|grows? (?:as|like|with)) (?:the )?(?:dimension|width|d\b|d_k)|与\s*(?:维度|维数|宽度|d_?k?)\s*成正比|随\s*(?:维度|维数|宽度|d_?k?)\s*线性",
        r"root|sqrt|平方根|根号|variance|方差",
    ),
    Fact("note.softmax-linear", "exp", (r"softmax",), r"softmax (?:itself |function )?is (?:a )?linear|softmax\s*(?:本身|函数)?是(?:一个)?线性", r"before|until|to the"),
    Fact(
        "note.deviation", "σ = √d", (r"sqrt\(d|sqrt\(\s*d",),
        r"sqrt\(d\w*\)[^.。,，]{0,30}?(?:\bis|=|是|即|就是|为) ?(?:the |its |their |点积的|分数的)*(?:variance|方差)", r"because|since|因为",
    ),
)  # fmt: skip
