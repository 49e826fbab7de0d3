"""What the tensors of attention are called, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterator

_T = r"(?:\^T|\^\(T\)|\^top|ᵀ|⊤|\.T|的?转置)"
_FIRST = r"(?:first|第一|1st)"
_SECOND = r"(?:second|第二|2nd)"
_LAYER = r"(?:\s*(?:个|层|FFN|feed-?forward|linear|weight|matrix|layer|线性层?|的?权重|矩阵|projection))+"
KINDS: tuple[tuple[str, str], ...] = (
    ("", r"\bconv|卷积|image|图像|patch|LSTM|RNN|\bcach|缓存|new token|新词|\bCLS\b|pool|window|窗口|gradient|梯度|broadcast|广播|reverse|\bper row|one-hot|pixel|expert"),
    ("torch W_1", r"(?:fc1|w_?1|linear1|intermediate\.dense|c_fc|ffn?\.0|net\.0)\.weight"),
    ("torch W_2", r"(?:fc2|w_?2|linear2|(?<!attention\.)output\.dense|ffn?\.2|net\.2)\.weight"),
    ("torch qkv", r"in_proj_weight|qkv\.weight"),
    ("torch W", r"(?:q|k|v|query|key|value|out|o)(?:_proj|_linear)?\.weight|w_?[qkvo]\.weight"),
    ("table", r"(?:emb\w*|lm_head|decoder|wte)\.weight"),
    ("", r"\.weight|\.bias|\bbias\b|偏置"),
    ("", rf"(?<![\w^])K\s*_?[i1]?\s*{_T}\s*[*@·]?\s*V"),
    ("scores", rf"(?<![\w^])Q_?[i1hj]?\s*[*@·]?\s*K_?[i1hj]?\s*(?:{_T}|\.transpose)|(?<![\w^])X\s*[*@·]?\s*X\s*{_T}"),
    ("x transposed", rf"(?<![\w^])(?<!X )X\s*{_T}(?!\s*\w)"),
    ("transposed", rf"(?<![\w^])(?<!Q )(?<!Q \* )K\s*{_T}(?!\s*\w)|keys?,? transposed|transposed keys?|^\s*\^T\s*$|转置后的\s*(?:K|键)|K 转置|(?<![\w^])K,? transposed|transpose of (?:the )?(?:K\b|keys?)|K\.transpose"),
    ("mixed", r"(?:times|\*|@|×|乘以?|multipl\w+ (?:by|with)) ?(?:the )?(?:V\b|values?\b|值)|weighted (?:sum|average|values?)|加权|\bA ?V\b|\)\s*V\b|\bcontext\b|Attention ?\(|上下文向量"),
    ("head", r"(?:output|result|context)s? (?:of|per|in|for) (?:each|every|one|a|the)? ?(?:single )?head|per-?head output|head outputs?|(?:each|every|one) head(?:'s)? output|(?:每|单)个?头的?(?:输出|结果)|head_?[1i]\b"),
    ("merged", r"concat|merg|joined? (?:the )?heads|join(?:ed|ing)?\b|合并|拼接|拼起来|拼回|拼到"),
    ("scores", rf"Q\s*\*?\s*K(?!\s*V)\s*{_T}?|\bscor\w*|(?<!of )\b(?:attention )?weights\b(?! (?:of the|matri|W))|softmax|attention (?:matri\w+|maps?|probabilit\w+|weights)|分数|得分|打分|注意力(?:权重|矩阵|图|概率)|权重矩阵 ?A\b"),
    ("hidden", rf"(?:FFN|feed-?forward|MLP|前馈)\S*\s*(?:\w+ )?(?:\w+ )?(?:hidden|inner|intermediate|inside|expan\w+|中间|隐藏|内部|升维)|(?:inside|hidden|intermediate|inner)\b.*(?:FFN|feed-?forward|MLP)|中间层|\bintermediate\b|{_FIRST} linear"),
    ("W_1", rf"\bW_?1\b|(?:FFN|feed-?forward|MLP|前馈)\S*\s*(?:{_FIRST}){_LAYER}|{_FIRST} (?:FFN|feed-?forward|MLP) (?:matrix|weight)|fc1|c_fc"),
    ("W_2", rf"\bW_?2\b|(?:FFN|feed-?forward|MLP|前馈)\S*\s*(?:{_SECOND}){_LAYER}|{_SECOND} (?:FFN|feed-?forward|MLP) (?:matrix|weight)|fc2"),
    ("logits", r"\blogits?\b|vocab\w* (?:scores|projection output)|词表上的"),
    ("x", r"(?:after|out of|times|through|multipl\w+ (?:by|with)|\*|@|乘以?|经过|通过)\s*(?:the )?(?:W\^?_?O\b|output proj\w*|输出投影)|(?:out(?:put)? proj\w*|输出投影)(?: output| 之?后| 的输出)?\s*$"),
    ("matrix", r"output matrix|输出矩阵"),
    ("W_O", r"\bW\s*[_^]?\s*\(?O\)?\b|\bW_?out\b|输出投影矩阵|output projection matrix|^o_proj"),
    ("weight", r"\bW\s*[_^]?\s*\(?(?:[QKVqkv])\)?(?![A-Za-z])|\bw[qkv]\b|projection matri(?:x|ces)|weight matrices|投影矩阵|[三四]个(?:权重)?矩阵|(?<!注意力)权重矩阵都"),
    ("table", r"(?<!position )(?<!positional )embedding (?:matrix|table|weights?)|(?<!位置)(?<!位置编码)(?:词?嵌入|词向量)(?:矩阵|表)|embedding lookup table"),
    ("positions", r"position\w* (?:encod|embed)\w*(?: (?:matrix|table))?\s*$|\bPE\b(?:\s*(?:matrix|矩阵))?|位置(?:编码|嵌入)(?:矩阵|表)?(?:的?形状)?\s*$"),
    ("causal", r"causal mask|look-?ahead mask|因果(?:掩码|遮罩)|下三角|上三角|triang"),
    ("mask", r"\bmask\b|掩码|遮罩"),
    ("fused", r"\bqkv\b|fused|c_attn"),
    ("turned", r"(?:transpos|swap|permut|转置|交换)"),
    ("split", r"split|\bview\b|reshap|多头|分头|拆"),
    ("qkv", r"(?:(?<![\w^])Q(?![A-Za-z]).{0,8}(?<![\w^])K(?![A-Za-z])|quer(?:y|ies)\b.{0,8}\bkeys?\b|查询.{0,4}键)(?:.{0,8}(?:V|values?|值))?"),
    ("q", r"(?<![\w^])[Qq](?![A-Za-z])|\bquer(?:y|ies)\b|查询"),
    ("k", r"(?<![\w^])[Kk](?![A-Za-z_])|\bkeys?\b|键"),
    ("v", r"(?<![\w^])[Vv](?![A-Za-z_])|\bvalues?\b|(?<![数权])值"),
    ("ids", r"\b(?:input |token )?ids?\b|token indices|词元? ?ID|索引|编号"),
    ("x", r"(?:FFN|feed-?forward|MLP|前馈|encoder|decoder|layer|block|编码器|解码器|层)\S* ?(?:outputs?|输出)"),
    ("out", r"\boutputs?\b|\bresults?\b|输出|结果|\bZ\b|\bO\b"),
    ("x", r"\binputs?\b|\bembed\w*|layer ?norm|residual|add & norm|hidden states?|\bX\b|\bx\b|encoder states|decoder states|输入|嵌入|词向量|层归一化|残差|归一化|memory|FFN|feed-?forward|前馈|MLP"),
)  # fmt: skip
"""What a label says of its tensor, the narrowest first; the first kind is of no tensor that is known."""
_COMPILED = [(kind, re.compile(words, re.I)) for kind, words in KINDS]
_ASIDE = re.compile(r"(?<!softmax)(?<!ttention)(?<!oncat)[(（][^()（）]*[)）]")
_CROSS = re.compile(r"cross|encoder[- –]decoder|交叉|编码器[-–—]?解码器", re.I)
_ENCODER = re.compile(r"(?<!cross )\bencod|编码器|source|源", re.I)
_DECODER = re.compile(r"\bdecod|解码器|target|目标", re.I)
ONE_HEAD = re.compile(r"(?:each|every|one|per|single|a)[- ]head(?!s)|[每单一]个?头", re.I)


def names_in(text: str) -> Iterator[tuple[str, re.Match[str]]]:
    """Every name of a tensor in ``text``, the narrowest kinds first."""
    for kind, pattern in _COMPILED:
        for match in pattern.finditer(text):
            yield kind, match


def kind_of(label: str) -> str:
    """What ``label`` is the name of; "" where it cannot be told."""
    name, equals, _ = label.partition("=")
    if equals and (kind := kind_of(name)):
        return kind
    for text in (_ASIDE.sub(" ", label), label):
        for kind, pattern in _COMPILED:
            if pattern.search(text):
                return kind
    return ""


def side_of(*texts: str) -> str:
    """The side that the first of ``texts`` that speaks of one speaks of."""
    for text in texts:
        if _CROSS.search(text):
            return "ts"
        encoder, decoder = _ENCODER.search(text), _DECODER.search(text)
        if bool(encoder) != bool(decoder):
            return "s" if encoder else "t"
    return ""
