"""More wrong things that are said of attention, by what they are about.

The classes of words stand above, so that a claim is met in whatever words it comes.
"""

from __future__ import annotations

from regard.explanation.notes.words.facts import Fact

_SCORES = r"scores?\b|logits?|dot products?|similarit|QK\^?T|分数|得分|点积|打分|相似度"
_WEIGHTS = r"weights?\b|softmax|probabilit|distribution|output|result|权重|概率|分布|结果|输出"
_CAUSAL = r"causal|autoregressive|decoder|GPT|因果|自回归|解码器"
_POSITIONS = r"the encoding\b[^.]{0,20}embedding|position(?:al)?[- ](?:encod|embed|vector|informat)|\bsinusoid|位置(?:编码|向量|嵌入|信息)"
_NETWORK = r"feed-?forward|\bFFN\b|\bMLP\b|前馈"
_CROSS = r"cross-?attention|encoder[- –]decoder attention|交叉注意力|编码器[-–—]?解码器注意力"
_CHANGES = r"\b(?:chang|alter|affect|shift|influenc|modif|distort)\w*|(?:weights?|probabilities|result|output)[^.。,]{0,12} (?:bigger|larger|differ\w*|increase)|会?(?:改变|变[了化大小]?(?![为成换])|影响)"
_SAME = r"\bunchanged|(?:stay|remain|leav|keep|are|is|give)\w*[^.。,，]{0,24}(?:the same|identical|as (?:it|they) (?:was|were))|(?:not|n't|never|no)\b[^.。,，]{0,16}(?:chang|affect|alter|matter|effect|influenc)|不变|不会?(?:改变|变化|影响)|没有(?:变化|影响)|相同|一样"
_FLAT = r"uniform|flat|even\b|evenly|spread out|smooth|均匀|平缓|平坦|平滑"
_SHARP = r"one-hot|sharp|peaked|argmax|hard max|尖锐|独热|argmax|集中"

MORE = (
    Fact("note.shift", "softmax(s + c) = softmax(s)", (_WEIGHTS,),
        rf"(?:add|subtract|rais|shift|increas)\w* (?:[^.。,，]{{0,30}})?(?:(?:to|from|by) )?(?:(?:all|every|each|the)(?: of)? (?:the )?(?:scores?|logits?|entr\w+|inputs?)|(?:the )?(?:same|a) (?:constant|number|amount))[^.。]{{0,60}}?(?:{_CHANGES})"
        rf"|(?:所有|每个|各个?|全部)(?:的)?(?:分数|得分|输入|logit)[^。]{{0,8}}(?:都|同时|一起)?(?:加上?|减去?)[^。]{{0,24}}?(?:{_CHANGES})|(?:分数|输入|得分)[^。]{{0,6}}(?:整体|都|同时)?(?:加上?|减去?)[^。]{{0,24}}?(?:{_CHANGES})",
        r"position|bias|mask|\binf|different|单独|位置|偏置|掩码|无穷"),
    Fact("note.multiple", "softmax(cs) ≠ softmax(s): it changes", (_WEIGHTS + r"|score",),
        r"(?:multipl|scal|doubl|halv|divid)\w+ (?:all|every|each|the)[^.。,]{0,30}(?:does (?:so )?too|does as well|does the same|likewise|has no effect|as well)\b|(?:乘以?|缩放|放大)[^。]{0,14}(?:也(?:是)?(?:一样|如此|不变)|同样)",
        r"chang|order|rank|改变"),
    Fact("note.true-drops", "True = drop (pad)", (r"key_padding_mask|MultiheadAttention|that module",),
        r"True[^.。]{0,40}(?:real|actual|valid|non-?pad|content)|(?:real|actual|valid)[^.。,]{0,20}True|True[^。]{0,16}(?:真实|有效|实际|非填充)", r"scaled_dot|SDPA"),
    Fact("note.wrong", "d_v ≠ d_k", (r"\bV\b|values?\b|值", r"\bK\b|keys?\b|键|\bQ\b|quer"),
        r"(?:values?|\bV\b)[^.。,]{0,40}(?:must|have to|has to|need to|needs to)[^.。,]{0,24}(?:same|equal|as wide|match)|(?:V|值)[^。，,]{0,12}(?:必须|一定要?|只能)[^。，,]{0,10}(?:一样|相同|相等|一致)",
        r"number of|as many|length|rows|个数|数量|长度"),
    Fact("note.wrong", "a_ij > 0", (r"softmax",),
        r"(?:exact(?:ly)?|true) (?:0|zero)s?\b|(?:精确|严格|恰好)(?:的|地|为|等于|输出)*\s*0",
        r"mask|inf|sparsemax|entmax|underflow|掩码|遮|无穷"),
    Fact("note.wrong", "1/n", (r"(?:all|every) (?:the )?(?:scores|logits|dot products)[^.。]{0,16}(?:equal|same|identical)|(?:分数|得分)(?:都|全|全部)?(?:相等|相同|一样)",),
        r"(?:all (?:its |the )?weight|everything)[^.。]{0,20} (?:on|to) (?:the )?(?:first|last|one|a single)|one-hot|集中在|只(?:关注|看)"),
    Fact("note.future", "j ≤ i", (_CAUSAL,),
        r"(?:each|every|a|the|one) (?:token|word|position|query)\b[^.。,]{0,30}(?:sees?|attends?|looks?)[^.。,]{0,16} (?:only )?(?:(?:to |at )?all (?:the )?(?:other )?(?:tokens|positions|words)|(?:the )?(?:whole|entire|full) (?:sequence|sentence|input))(?! (?:before|up to|so far|that came|to (?:its|the) left|preceding|on (?:its|the) left))"
        r"|(?:每个|一个)?(?:位置|词元?|token|查询)(?:都|就)?(?:能|可以?)?(?:看到|关注|看见)(?:了)?(?:所有|全部|整个)(?:的)?(?:位置|词|序列|句子|输入)|(?:只能|可以?|能)(?:看到|关注|看见)[^。，,]{0,10}(?:后面|之后|未来|右边)|(?:sees?|attends?|looks?|focus\w*)\b[^.。,]{0,40}(?:after it|to (?:its|the) right|in the future)",
        r"without|encoder|BERT|cross|first token|last|prevent|hid|mask(?:ed|s) out|not|never|never|before|没有掩码|编码器|交叉|最后|不能|无法|防止|避免|之前|前面"),
    Fact("note.future", "j ≤ i", (r"causal|decoder-only|GPT|因果",),
        r"\bsees?\b[^.。]{0,40}(?:all of them|everything|every token)|(?:看到|看见|关注)[^。]{0,20}(?:哪些|什么)[^。]{0,4}(?:全部|所有)", r"last|before|not|\byou\b|\bwe\b|最后|之前"),
    Fact("note.future", "j ≤ i", (r"causal|因果",),
        r"(?:keeps?|retains?|allows?|leaves?)[^.。,]{0,24}upper[- ]triang|upper[- ]triang\w*[^.。,]{0,50}(?:allow|kept|visible|may attend|ones where)|(?:保留|留下|允许)[^。，,]{0,6}上三角|上三角[^。，,]{0,6}(?:保留|可见|允许)"
        r"|(?:hides?|masks|removes?|blocks?)[^.。,:]{0,16}(?:the )?lower[- ]triang|(?:遮住|屏蔽|遮掉|去掉)[^。，,]{0,6}下三角",
        r"transpos|k_?\s*=\s*1|转置"),
    Fact("note.future", "i = 1: j = 1", (_CAUSAL, r"first (?:token|position|word|query)|第一个(?:词|位置|token|查询)"),
        r"(?:sees?|attends?|looks?)[^.。,]{0,12} (?:all|every|the (?:whole|entire))|(?:看到|关注)(?:所有|全部|整个)", r"by all|from all|所有[^。]{0,6}(?:关注|看到)第一个"),
    Fact("note.mask-zero", "s + (−∞)", (r"\bmask|掩码",),
        r"\bmask\w* (?:is|are|gets?) multiplied|multipl\w+ (?:the )?(?:scores|logits)[^.。]{0,16}(?:by|with) (?:the )?mask|(?:分数|得分)[^。]{0,6}(?:乘以?[^。]{0,4}掩码|与[^。]{0,4}掩码相乘)|掩码[^。]{0,6}(?:与|和)[^。]{0,4}分数相乘",
        r"after|weights|之后|权重|dropout"),
    Fact("note.scale", "√d_k", (_SCORES, r"softmax|attention|scal|divid|normali|除|缩放|注意力"),
        r"(?:divid\w+|scal\w+)[^.。,]{0,24} by (?:the )?(?:(?:key|query|head|vector|model)[- ]?)*(?:dimension\w*|width|length of the sequence|sequence length|number of (?:keys|tokens|heads)|d_?k?|d_model|n|sqrt\(n\)|1/d_?k?|variance)(?![\w^/(])"
        r"|除以\s*(?:键|查询|向量|模型|序列)*的?(?:维度|维数|宽度|长度|方差|头数|词数)(?!的?(?:平方根|开方))",
        r"sqrt|square root|root of|\bif\b|would|instead|had|variance|deviation|norm|cos|alibi|embed|\bheads\b[^.]{0,20}(?:each|width)|平方根|开方|根号|如果|若|方差|标准差|余弦|嵌入"),
    Fact("note.scale", "1/√d_k", (r"scor|dot|logit|softmax|scal|分数|点积|缩放",),
        r"(?:scor\w+|products?|logits?)(?: (?:is|are|get|gets|should be|must be))* (?:then )?multiplied (?:by|with) sqrt\(d|multipl\w+ (?:the )?(?:scores?|dot products?|logits?)[^.。,]{0,8} (?:by|with) sqrt\(d|(?:分数|点积|得分)[^。，,]{0,8}(?:要|应|需|会|都|再)*乘以?\s*sqrt\(d"
        r"|scal(?:e|ing) (?:factor )?(?:is|=|of|by) (?:1/)?d_?k?(?![\w^/(])|scal(?:e|ing)(?: factor)? is (?:the )?(?:square of )?(?:the )?(?:dimension|d_k|width)|缩放(?:因子|系数)(?:为|是|=)\s*(?:1/)?d_?k?(?![\w^/(])",
        r"embed|嵌入|\bif\b|would|1/\s*sqrt|如果|若"),
    Fact("note.scale", "√d_k", (r"divid|scal|除以|缩放",),
        r"(?:divid\w+|scal\w+)[^.。,]{0,24} by (?:1/)?sqrt\(d_model\)|除以\s*sqrt\(d_model\)", r"single|one head|embed|单头|嵌入"),
    Fact("note.heads-parameters", "4d²", (r"\bheads?\b|头", r"param|参数"),
        r"(?:proportional|linear\w*|grows?|increases?|scales?|depends?)[^.。,]{0,16}(?:with|to|on|in|by) (?:the )?(?:number of )?heads?|more heads[^.。]{0,24}more param|(?:与|和|随)头数[^。，,]{0,6}(?:成正比|增长|增加|有关)|头数?越多[^。]{0,8}参数[^。]{0,4}越",
        r"KV|cache|GQA|MQA|group|width of (?:each|a) head (?:is|stays) fixed|fixed head|缓存|固定"),
    Fact("note.wrong", "W_Qⁱ, W_Kⁱ, W_Vⁱ", (r"\bheads?\b|头",),
        r"(?:all|every|each) (?:the )?heads?[^.。,]{0,16}(?:shares?|uses?|has|have) (?:exactly )?the same (?:projection|weight|W_?[QKV]|matri|parameter|Q)|(?:所有|每个|各个?)头(?:都)?(?:共享|共用|使用|用)(?:着|了)?(?:同一[组个套]|相同的?)(?:投影|权重|矩阵|参数|W)",
        r"MQA|GQA|multi-query|grouped|key(?:s)? and value|KV|键值|input|输入|X\b"),
    Fact("note.qkv", "X W_Q, X W_K, X W_V", (r"quer|\bQ\b|查询", r"keys?\b|\bK\b|键"),
        r"(?:are|is) (?:all |exactly |simply |just |literally |really )*(?:the same|identical|one and the same|equal)(?: vectors?| matri\w+| thing| tensor)?(?! (?:input|source|sequence|sentence|text|shape|size|length|width|X|number|dimension|space|as))|\bQ (?:equals|is equal to|=) K\b|(?:是|就是|完全)(?:同一个?(?:向量|矩阵|东西|张量)|完全?(?:一样|相同)的?(?:向量|矩阵)?)",
        r"shape|size|length|width|dimension|source|symmetric|W_Q = W_K|= I\b|(?:as|since|because|here) Q = K|\bif\b|when|would|with Q = K|multi-query|grouped|MQA|GQA|tied|space|number|形状|长度|维度|如果|当|若|宽度|来源|输入|[令设取]\s*Q|\b(?:let|set|take) (?:us )?Q"),
    Fact("note.wrong", "n × n", (r"attention|score|weight|QK\^?T|注意力|分数|权重",),
        r"(?:attention|score|weight)s? (?:matrix|map)(?: (?:is|has|of|with|shape|size|a|the|of shape))* \(?\[?n (?:\*|x|by|,) d\w*|QK\^T[^.。,]{0,20} \(?\[?d\w* (?:\*|x|by|,) d|(?:注意力|分数|权重)矩阵[^。，,]{0,8}n\s*(?:\*|x|,)\s*d|QK\^T[^。，,]{0,12}d\w*\s*\*\s*d",
        r"K\^TQ|linear"),
    Fact("note.wrong", "n × d", (r"output|输出",),
        r"output(?: of (?:self-?)?attention)?(?: (?:is|has|of|with|shape|size|a|the|matrix))* \(?\[?n (?:\*|x|by|,) n\b|注意力的?输出[^。，,]{0,8}n\s*\*\s*n", r"QK|score|weights|matrix is (?:then )?multipl|分数"),
    Fact("note.wrong", "O(1)", (r"self-?attention|自注意力",),
        r"(?:needs?|takes?|requires?)[^.。,]{0,10} (?:n|\d+|many|several|O\(n\)) (?:steps|hops|layers)|(?:需要|要|经过)\s*(?:n|[2-9]|\d{2,}|很多|多)\s*(?:步|层|跳)",
        r"RNN|LSTM|recurr|decod|generat|循环|生成|解码"),
    Fact("note.flash-memory", "O(n)", (r"flash",), r"(?:still )?(?:stores?|keeps?|writes?|materiali[sz]es?|builds?|saves?)[^.。,]{0,20}(?:n (?:\*|x|by) n|full|whole|entire|score|attention|weight)[^.。,]{0,16}(?:matrix|scores|weights)|(?:存储?|保存|写入|构造)[^。，,]{0,10}(?:n\s*\*\s*n|完整的?|整个)[^。，,]{0,4}矩阵",
        r"without|never|not|avoid|standard|instead|无需|不|避免|标准"),
    Fact("note.wrong", "X W_Q W_Kᵀ Xᵀ: 2", (r"Q\s*K\^?T|X\s*X\^?T|scores?\b|分数",),
        r"(?:QK\^T|XX\^T|scores?)[^.。,]{0,12}(?:is|are) (?:a )?linear (?:function )?(?:in|of) (?:the input )?X|(?:关于|对)\s*X\s*(?:是|为)线性", r"三次|二次|quadratic"),
    Fact("note.wrong", "d/2", (_POSITIONS + r"|sinus|RoPE|rotary|旋转|正弦",), r"\b(?:d|2d) (?:different |distinct )?(?:frequencies|wavelengths|angles)|d\s*[个种](?:不同的?)?(?:频率|波长|角度)"),
    Fact("note.layernorm", "d: mean 0, variance 1", (r"layer ?norm|层归一化|\bLN\b|normali[sz]",), r"(?:mean|average) (?:of |is |= ?|becomes )*(?:1|one)\b(?![.\d])[^.。]{0,16}|variance (?:of |is |= ?|becomes )*(?:0|zero)\b(?![.\d])|均值(?:为|是|变为|变成)?\s*1(?![.\d])|方差(?:为|是|变为|变成)?\s*0(?![.\d])", r"before|score|dot|分数|点积|之前"),
    Fact("note.wrong", "H ≤ ln n", (r"entropy|熵",), r"(?:one-hot|peaked|sharp)[^.。,]{0,40}(?:largest|highest|maxim\w+|most) ?|(?:largest|highest|maxim\w+)[^.。,]{0,30}(?:one-hot|peaked|a single key)|(?:uniform)[^.。,]{0,40}(?:smallest|lowest|minim\w+|zero|least)|(?:smallest|lowest|minim\w+)[^.。,]{0,30}uniform|均匀[^。，,]{0,14}熵(?:值)?(?:最小|最低|为 ?0)|熵(?:值)?(?:最小|最低)[^。，,]{0,10}均匀|(?:one-hot|独热|尖锐)[^。，,]{0,14}熵(?:值)?最[大高]|熵(?:值)?最[大高][^。，,]{0,10}(?:one-hot|独热|尖锐)",
        r"cross|loss|交叉熵|损失|\band\b[^.]{0,30}(?:one-hot|uniform)"),
    Fact("note.wrong", "H = 0", (r"entropy|熵", r"one-hot|single key|独热|only one key|一个键"), r"entropy(?: of)?[^.。,\d]{0,24} (?:1|one|ln n|log n)\b(?![.\d])|熵(?:为|是|等于)\s*(?:1|ln|log)(?![.\d])|infinite|无穷", r"cross|uniform|交叉|均匀"),
    Fact("note.embedding", "x · √d_model", (r"embedding|嵌入",), r"divid\w+ by (?:the )?(?:square root|sqrt)|除以[^。，,]{0,6}(?:平方根|sqrt)", r"score|dot|logit|分数|点积"),
)  # fmt: skip
