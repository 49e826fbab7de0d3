"""The words of the field, English and Chinese, by the concept that they name.

A claim is met by its concepts, in whatever words and order it comes.  A word that ends with ``*``
stands for all that begin so; a single capital is a matrix.
"""

from __future__ import annotations

import re
from functools import cache

LEXICON = {
    # what takes part
    "query": "quer*|Q|查询", "key": "key|keys|KV|K|键", "value": "KV|value vector*|value matri*|values|value|V|值",
    "encoder": "encoder*|source side|编码器", "decoder": "decoder*|target side|解码器",
    "cross": "cross-attention|encoder-decoder attention|交叉注意力|编码器-解码器注意力|编解码注意力",
    "attention": "attention|transformer*|注意力", "softmax": "softmax",
    "weights": "attention weight*|attention probabilit*|weights|注意力权重|权重",
    "scores": "q * k|QK^T|score|scores|logit*|similarit*|dot product*|分数|得分|相似度|点积",
    "head": "head|heads|头", "position": "the encoding|position* encod*|position* embed*|位置编码|位置嵌入|位置向量",
    "sinusoid": "sinus*|sine|正弦*|正余弦", "embedding": "token embedding*|word embedding*|input embedding*|embedding*|词向量|词嵌入|嵌入",
    "rope": "rope|rotary*|旋转位置编码|旋转编码", "alibi": "alibi", "flash": "flashattention|flash attention|flash-attention",
    "causal": "causal|autoregressive|look-ahead|因果|自回归|前瞻", "mask": "mask|masks|masked|masking|掩码|遮罩|掩蔽|遮",
    "padding": "padding|pad|填充", "layernorm": "layernorm|layer norm*|LN|层归一化", "batchnorm": "batch and layer|batchnorm|batch norm*|BN|批归一化",
    "network": "feed-forward|feedforward|FFN|MLP|前馈*", "residual": "residual*|skip connection*|残差*",
    "cache": "cache|caches|缓存", "grouped": "GQA|grouped-query|分组查询",
    "multiquery": "MQA|multi-query|多查询", "rnn": "RNN*|LSTM*|recurrent*|循环神经网络|循环层",
    "BERT": "BERT", "GPT": "GPT|GPT-1|GPT-2|GPT-3|GPT-4|LLaMA*", "T5": "T5|BART",
    "original": "original|paper|Vaswani*|Attention Is All You Need|原论文|原版|原始|论文",
    "sublayer": "sub-layer*|sublayer*|子层",
    # what is said of it
    "from": "from|come from|comes from|来自|来源于|取自|出自|由", "gives": "provide*|suppl*|produce*|give*|emit*|generate*|提供|给出|产生|生成",
    "mixed": "weighted sum of|weighted average of|weighted combination of|加权求和|加权平均|加权和", "multiplied": "multiplied with|multiplied by|applied to|times|相乘|乘以|乘上|乘",
    "see": "attend*|see|sees|look|looks|看到|看见|关注|访问", "hide": "hide*|hidden|mask|masks|masked|masking|block*|遮住|遮掉|遮盖|屏蔽|遮蔽|盖住",
    "keep": "keep*|kept|retain*|allow*|保留|留下|允许", "future": "future*|later|next|subsequent|following|after it|to the right|未来|之后|后面|后续|右边|以后",
    "past": "past|previous|earlier|preceding|before it|to the left|之前|前面|过去|左边|以前|先前",
    "after softmax": "after the softmax|after softmax|softmax 之后|softmax之后|softmax 后|softmax后", "softmax first": "先做 softmax|先做softmax|先 softmax|softmax first", "stores": "store*|hold*|keep|keeps|save*|contain*|存|存储|保存|缓存的是|缓存了|存放", "rotates": "rotat*|act|acts|turn*|appl*|旋转|作用|应用", "concatenates": "concatenat*|stacked|appended|拼接|串联",
    "multiplies": "multipli*|multiply|相乘|乘以|乘到|乘上", "averages": "averag*|mean of|取平均|求平均|平均", "summed": "加起来|summed|sum of|added|相加|求和", "root": "开方|开根号|sqrt|square root|根号|平方根",
    "sparse": "sparse|ignores small|drops small|lossy|稀疏|有损|丢弃", "alike": "similar*|nearly|both|versus|vs|类似|都", "dense": "DenseNet|U-Net|Inception|1 * 1|fully connected|scale*|系数|全连接",
    "hardly": "limit*|hinder*|difficult*|hard|prevent*|gate*|batch*|GPU*|matri*|难以|限制|受限|无法|批|门|状态|方向|矩阵|缺陷|缺点|不足|很差|较差", "applied": "appl*|add|adds|added|set|fill*|multipli*|multiply|施加|应用|加上|加|填|置|设|乘|使用", "zero": "0|zero*|变为|变成|ignor*|忽略|renormal*|重新归一|dropout",
    "before softmax": "before the softmax|before softmax|prior to the softmax|softmax 之前|softmax之前|softmax 前|softmax前",
    "encoder-only": "encoder-only|encoder only|only the encoder|仅编码器|只用编码器|纯编码器|编码器架构|只有编码器|只使用编码器", "decoder-only": "decoder-only|decoder only|only the decoder|仅解码器|只用解码器|纯解码器|解码器架构|只有解码器|只使用解码器",
    "encoder-decoder": "encoder-decoder|编码器-解码器|编解码",
    "one-way": "only the left|only the previous|only left|只看左边|只看前面|只看左侧|unidirectional|left-to-right|单向|从左到右", "both-ways": "bidirectional*|both directions|双向",
    "training": "training|train|训练", "inference": "inference|generat*|decoding|推理|生成|解码时|推断", "speeds": "speed*|faster|accelerat*|加速|加快|提速",
    "before": "before|pre-norm|pre-LN|pre-layer*|Pre-Norm|之前|前置", "after": "after|post-norm|post-LN|post-layer*|之后|后置",
    "share": "share*|sharing|共享|共用", "together": "in parallel|paralleli*|at once|all at the same time|simultaneously|并行|同时生成|同时输出|一次性", "one by one": "one after the other|one after another|strictly sequential*|一个接一个|one at a time|one by one|token by token|sequentially|step by step|逐个|逐词|一个一个|依次|串行",
    "shares": "share|shares|共享|共用", "adds": "add|adds|added|相加|加到|加上|加在|叠加", "place": "position|positions|token|tokens|位置|词元|词",
    "layer": "layer|layers|层",
    "different": "different|own|separate|不同|各自", "same": "same|identical*|shared|相同|同一*|共享|一样",
    "exact": "exact*|mathematically equivalent|identical|精确|完全一致|等价", "approximate": "approximat*|近似",
    "output": "output*|result*|输出|结果", "learned": "trained jointly|jointly trained|trained with|trained together|learned|learnt|learnable|trainable|可学习|学习得到|学出来|学来的|学到的|一起学习|一起训练|训练得到", "trained": "train*|learn*|学习|训练", "self": "self-attention|self attention|masked attention|自注意力", "every position": "every position|all positions|所有位置", "only past": "only the past|only earlier|only previous|only to previous|only tokens before|只能看到它前面|只能看到前面|只能看到之前|只能看前面|只看前面|只能关注前面|只能关注之前",
    "n by d": "n * d|n x d|n d", "transformer": "transformer*", "dot": "dot product*|inner product*|similarity|点积|内积|相似度", "value vectors": "value vector*|values|'s value|V|值向量", "normalised": "normali*|归一化|做",
    "each row": "each row|every row|row-wise|rows|每一行|每行|按行|逐行", "each column": "each column|every column|column-wise|columns|每一列|每列|按列|逐列", "more": "additional|extra|to form|half|halves|额外", "axis": "例|得到|gives|example|align*|对齐|axis|dim|if|sum|sums|之和",
    "symmetric": "symmetric|对称的|对称矩阵", "bare": "X*X^T|X X^T|Gram|because|here|QK^T|Q = K|W_Q = W_K|covariance|kernel|因为|此处|这里|时|协方差|score|分数",
    "relative": "relative|offset|相对", "absolute": "absolute|绝对", "ahead": "before|之前|前面", "behind": "after|behind|之后|后面", "pre-norm": "pre-norm|pre-LN|pre norm", "post-norm": "post-norm|post-LN|post norm",
    "statistics": "use|uses|comput*|statistic*|normali*|使用|统计量|归一化|计算", "features": "feature*|hidden|channel*|each token|every token|each position|d_model|特征|每个词|每个 token|每个位置|维度|单个", "batch": "batch|批次|整批", "size": "size|independent|parallel|大小|无关|依赖|并行",
    "predicts": "predict*|预测", "next token": "next token|next word|下一个词|下一个 token", "masked token": "masked token*|masked word*|masked language|掩码|遮住的|被遮", "single": "a single|one|single|同一个|一个|一组|共用|共享|同一组", "slope": "slope*|斜率", "fixed": "fixed|not learned|固定",
    # how much
    "constant": "independent of|constant|do not depend|does not depend|regardless|无关|不变|不随|固定不变",
    "logarithmic": "logarithmic*|log n|对数", "as the root": "square root|sqrt|平方根|根号|开方", "linearly": "linearly|linear in|linear with|linear growth|grows linear|proportional*|in proportion|线性增长|线性增加|线性地|线性关系|成线性|线性上升|线性|成正比|正比",
    "quadratically": "quadratic*|squared|square of|平方|二次", "cubically": "cubic*|third power|三次|立方", "exponentially": "exponential*|指数",
    "grows": "级|grow*|increas*|scale*|rise*|proportional*|depend*|quadratic in|linear in|cubic in|增长|增加|增大|成正比|正比|上升|变化|关系",
    "length": "number of generated tokens|生成的词数|生成长度|词元数|number of words|sequence length|context length|sequence|length|number of tokens|context|n|序列长度|序列长|长度|句长|词数|上下文",
    "width": "d_k|d_model|d|dimension*|width|维度|维数|宽度", "head count": "number of heads|heads|h|头数", "distance": "distance|距离",
    "deviation": "typical size|typical magnitude|典型大小|典型值|standard deviation|std|标准差", "variance": "variance|方差",
    "memory": "memory|显存|内存|空间", "cost": "cost|complexity|compute|computation*|FLOPs|time|计算量|复杂度|代价|时间|开销",
    "parameters": "parameter*|number of weights|参数*", "matrix": "score matrix|attention matrix|weight matrix|attention map*|分数矩阵|注意力矩阵|权重矩阵",
    "projections": "projection*|投影*", "window": "window*|local attention|sparse*|滑动窗口|窗口|稀疏", "linear attention": "linear attention|Performer*|Linformer*|Mamba*|state space*|线性注意力",
    "path": "path length*|path|路径*", "steps": "sequential operation*|sequential step*|顺序操作*|串行步*",
    # what turns a claim into another
    "supposed": "if|would|were|could|might|suppose|imagine|pretend|instead|rather|unlike|than|compared|sometimes|some|variant*|alternative*|either|or|如果|假如|若|假设|要是|不像|相比|比|有些|有的|某些|变体|或|或者|还是",
}  # fmt: skip


@cache
def _words(name: str) -> re.Pattern[str]:
    parts = []
    for word in sorted(LEXICON[name].split("|"), key=len, reverse=True):
        stem = re.sub(r"(?<=\w)\\\*", r"\\w*", re.escape(word))
        stem = stem.replace(r"\ ", r"[\s-]+").replace(r"\-", r"[\s\-–—]*")
        if re.match(r"[A-Za-z]", word):
            stem = rf"(?<![A-Za-z_]){stem}(?![A-Za-z_])"
        parts.append(f"(?-i:{stem})" if re.fullmatch(r"[A-Z]{1,3}", word) else stem)
    return re.compile("|".join(parts), re.I)


def places(name: str, text: str) -> list[tuple[int, int]]:
    """Where ``text`` names a concept.

    >>> places("query", "Q and the queries"), places("encoder", "来自编码器")
    ([(0, 1), (10, 17)], [(2, 5)])
    """
    return [match.span() for match in _words(name).finditer(text)]


def names(name: str, text: str) -> bool:
    """Whether ``text`` names a concept, or every one of several: "cross+causal"."""
    return all(_words(each).search(text) for each in name.split("+"))
