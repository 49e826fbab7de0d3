"""Equations that are said in words, written with an equals sign."""

from __future__ import annotations

import re

from regard.explanation.notes.mathematics.mathtext import FUNCTIONS

_FUNCTION = "|".join(FUNCTIONS)
_LIST = r"(?:\[[^\[\]=]+\]|\(\s*-?\d[\d.]*(?:\s*[,，]\s*-?\d[\d.]*)+\s*\))"
_VECTOR = rf"(?:{_LIST}|[A-Za-z]\w{{0,2}})"
_N = r"-?\d+(?:\.\d+)?"
_MAKES = r"\s*(?:is|equals|=|gives|comes to|是|为|等于|得到?|约为?|约等于)\s*(?:about |roughly |approximately |only |just |exactly |约|大约|等于)?\s*(?=-?\d)"
_SAID = (
    ("var", r"variance|方差"), ("std", r"standard deviation|标准差"), ("mean", r"mean|average|均值|平均值|平均数"),
    ("norm", r"norm|length|magnitude|模长|范数|长度|模"), ("sum", r"sum|total|总和|之和|和"),
    ("max", r"maximum|largest|最大值"), ("min", r"minimum|smallest|最小值"),
)  # fmt: skip
_ANY = "|".join(pattern for _, pattern in _SAID)
_EQUALS = r"\s*(?:is|equals|gives|of|=|≈|is about|等于|约为|为|是|得到?)\s*"
_PATTERNS = (
    # "applying softmax to [1, 2] gives [0.27, 0.73]"
    (rf"\b({_FUNCTION}) (?:to|of|on|over) ({_LIST}|\w+),? (?:is|equals|gives|yields|results in|=) (?=[\[-]|\d)", r"\1(\2) = "),
    (rf"对\s*({_LIST}|\w+)\s*(?:做|应用|求|取)\s*({_FUNCTION})\s*，?(?:得到?|结果)?(?:为|是|等于)?\s*(?=\[)", r"\2(\1) = "),
    (rf"\b({_FUNCTION}) of \$?({_LIST})\$? (?:is|equals|gives|=|comes (?:out as|to)) (?:about |roughly )?(?=\$?[\[(-]|\$?\d)", r" ; \1(\2) = "),
    (rf"\b({_FUNCTION}) of (\S[^=]*?) (?:is|equals|gives) (?=[\[-]|\d)", r"\1(\2) = "),
    (rf"({_LIST})\$?\s*的\s*({_FUNCTION})\s*(?:值|结果)?(?:约?为|是|等于|得到?|=)\s*(?=\$?[\[(-]|\d)", r" ; \2(\1) = "),
    (rf"(?:dot|inner|scalar) product (?:of|between) ({_VECTOR}) (?:and|with) ({_VECTOR}){_MAKES}", r"dot(\1, \2) = "),
    (rf"({_VECTOR})\s*(?:和|与|跟)\s*({_VECTOR})\s*的(?:点积|内积){_MAKES}", r"dot(\1, \2) = "),
    (rf"cosine(?: similarity| of the angle)? (?:of|between) ({_VECTOR}) (?:and|with) ({_VECTOR}){_MAKES}", r"cos(\1, \2) = "),
    (rf"({_VECTOR})\s*(?:和|与|跟)\s*({_VECTOR})\s*的(?:夹角)?余弦(?:相似度|值)?{_MAKES}", r"cos(\1, \2) = "),
    (rf"({_N}|\be) squared{_MAKES}", r"\1^2 = "), (rf"({_N}|\be) cubed{_MAKES}", r"\1^3 = "),
    (rf"({_N}|\be) to the (?:power(?: of)? )?({_N})(?:th|rd|nd)?(?: power)?{_MAKES}", r"\1^\2 = "),
    (rf"({_N}|\be)\s*的\s*({_N})\s*次[方幂]{_MAKES}", r"\1^\2 = "), (rf"({_N}|\be)\s*的平方{_MAKES}", r"\1^2 = "),
    (rf"\b((?:exp|ln|log|sqrt|sin|cos|softmax|sigmoid|max|min|sum|mean)\([^()]*\)){_MAKES}", r"\1 = "),
    (r"\bsquare root of (\S+) (?:is|equals) (?=-?\d)", r"sqrt(\1) = "),
    (r"(\S+?)\s*的平方根\s*(?:是|为|等于)\s*(?=-?\d)", r"sqrt(\1) = "),
    # "512 × 512, which is 262,144"
    (
        r"(\d[\d,]*(?:\.\d+)?(?:\s*[×*·/+−-]\s*\d[\d,]*(?:\.\d+)?)+)(?:,|，)?\s*(?:which |that |this |and that |也就是|就是|即)?(?:is|makes|gives|equals|comes to|for a total of|in total|so|得到?|是|为|等于|即|[一总]共(?:有|是)?)\s*(?=-?\d)",
        r"\1 = ",
    ),
    (
        r"\((\d+), (\d+)(?:, (\d+))?(?:, (\d+))?\)[,，;；:：]?\s*(?:that is|i\.e\.|or|so|in total|for a total of|[一总]?共有?|也?就?是|即)\s*(?=\d[\d,]*\s*(?:elements|entries|numbers|values|scores|个(?:数|元素|分数|权重|值|单元)))",
        lambda m: " ; " + " * ".join(filter(None, m.groups())) + " = ",
    ),
    # A bare number before it is none: "key 3 gives 0.08" is no equation of 3.
    (
        r"(\b[A-Za-z_]\w*|[)ᵀ₀-₉²³])\s*(?:is|equals|gives|等于|得到|得|为|是)\s*(?=\[|-?\d)",
        r"\1 = ",
    ),
)  # fmt: skip
_ROW = re.compile(
    rf"\b((?:mean|average|sum|variance|standard deviation|norm|maximum) of (?:the (?:numbers|values) )?\$?)({_N}(?:, {_N})+(?:,? and {_N})?)(?=\$? (?:is|=|equals))"
)
_ROW_ZH = re.compile(
    rf"(?<![\w.])({_N}(?:[、,，]\s*{_N})+(?:\s*和\s*{_N})?)(\$?\s*的(?:平均值|均值|方差|标准差|总和|和))"
)


def written_out(text: str) -> str:
    """``text`` with "is" between mathematics and a value as "=".

    >>> written_out("the mean of [2, 4] is 3")
    'the  ; mean([2, 4]) = 3'
    """
    text = re.sub(
        r"(?<=\d)(?:,? and| 和|、) ?(?=-?\d[\d., ]*(?:\$? (?:is|=)|\$?\s*的(?:平均|均|方|标|总|和)))",
        ", ",
        text,
    )
    text = _statistics(_ROW.sub(r"\1[\2]", _ROW_ZH.sub(r"[\1]\2", text)))
    for pattern, other in _PATTERNS:
        text = re.sub(pattern, other, text)
    return text


def _statistics(text: str) -> str:
    """``[2, 4, 6] 的均值为 4，标准差为 1.633`` as an equation for each."""
    of_list = re.search(rf"\b({_ANY}) of ({_LIST})", text, re.I)
    lists = re.findall(_LIST, text)
    if of_list is None and not re.search(rf"{_LIST}\s*的(?:{_ANY})", text):
        return text
    if len(lists) != 1:
        return text
    for name, pattern in _SAID:
        text = re.sub(
            rf"(?<![A-Za-z(])(?:{pattern})(?: of {re.escape(lists[0])})?(?:is|=)?{_EQUALS}(?=-?\d|sqrt|√)",
            f" ; {name}({lists[0]}) = ", text, count=1, flags=re.I,
        )  # fmt: skip
    return text
