"""Claims in words: by the facts of the field, or by a judge that works their numbers out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from regard.explanation.notes.claim import Status, Verdict
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.sizes import growth, models
from regard.explanation.notes.words import costs, judges, moments, tendencies, variance
from regard.explanation.notes.words.beliefs import BELIEFS
from regard.explanation.notes.words.facts import DENIED, FACTS
from regard.explanation.notes.words.judges import Judge
from regard.explanation.notes.words.mistakes import MORE

ASKS = re.compile(
    r"[?？]\s*$|吗\s*$|^(?:Is|Are|Why|Does|Do|What|How|Should|Can)\b|^(?:为什么|为何|如何|怎样)|\bwhether\b|是否"
)
"""A question, or a heading that is one, claims nothing."""
CLAUSE = re.compile(
    r"[;；]|,? (?:while|whereas|but)\b|, (?=(?:and )?its\b)|[，,]\s*(?=而(?!非|不)|但|不过)"
)
DISOWNED = re.compile(
    r"[;；,，]\s*(?:but )?(?:it|that|this|they) (?:does|do|is|are)(?:n't| not)\b", re.I
)
QUOTED = re.compile(r"[\s*_>\d.)-]*[\"“「](?=[^\"”」]*[.。!！]?[\"”」]?[*_]*\s*$)")
ITS = re.compile(
    r"^\W*(?:答|A:|Answer:|It|They|This|These|Its|Their|That|它们?|其|这)(?![A-Za-z])|\b(?:these|those|that) (?:\w+)|\bthis (?:form|kind|type|sort|layer|case|module|block|step)\b|the (?:encoding|mask|layer|cache|module|matrix|network|model)\b|这[些个种样]|该"
)
"""What speaks of what came before."""


@dataclass(frozen=True)
class Rule:
    """A pattern of a claim, and what judges it."""

    pattern: re.Pattern[str]
    judge: Judge


def check_sentence(line: int, text: str, names: Names, before: str = "") -> list[Verdict]:
    """A verdict for each kind of claim in words that ``text``, one sentence, makes.

    ``before`` is the sentence before it.
    """
    said = re.sub(
        r"\*\*|[`$]|(?<![\w*\\])[*](?=[A-Za-z\u4e00-\u9fff])|(?<=[A-Za-z\u4e00-\u9fff])[*](?![\w*])",
        "",
        text,
    ).strip()
    said = re.sub(r"[“”\"「」]", "", said)
    simple = re.sub(r"\b(?:num|n)_(?=heads?\b)", "", plain(said))
    if ASKS.search(said):
        return []
    verdicts: list[Verdict] = []
    seen: set[tuple[bool, str]] = set()
    context = f"{plain(before or names.before)} {names.heading}, " if ITS.search(said) else ""
    names.before = said
    named = [
        *_by_fact(simple, context),
        *models.check_models(simple),
        *costs.check_costs(simple),
        *moments.check_law(simple, names),
        *moments.check_moments(simple, names),
        *variance.check_spread(simple, names),
        *_by_rule(simple, names),
        *judges.slope(simple, names),
        *judges.share(simple),
    ]
    if all(found[0] for found in named):
        named += _by_belief(simple, context)
    for right, key, values in named:
        if (right, key) in seen and key != "note.wrong":
            continue
        if key == "note.growth" and any(one.status == "wrong" for one in verdicts):
            continue  # "twice as many heads, twice as many parameters" is wrong once
        if not right and any(
            one.status == "wrong" and values["right"] == one.values.get("right") for one in verdicts
        ):
            continue
        status: Status = "right" if right else "wrong"
        seen.add((right, key))
        verdicts.append(Verdict(line, said, status, "note.right" if right else key, values))
    wrong = [verdict for verdict in verdicts if verdict.status == "wrong"]
    if QUOTED.match(text):  # what somebody says, and the note goes on to judge
        return []
    return wrong or verdicts[:1]


def _by_fact(text: str, context: str) -> Iterator[judges.Found]:
    taken_back = DENIED.search(text) is not None
    before = context
    for clause in CLAUSE.split(text):
        for fact in (*FACTS, *MORE):
            denied = fact.judge(clause, context, before)
            if denied is not None:
                denied = denied or taken_back
                yield denied, fact.key, {} if denied else {"right": fact.right}
        context += clause


def _by_belief(text: str, context: str) -> Iterator[judges.Found]:
    if DENIED.search(text) or DISOWNED.search(text):
        return
    for clause in CLAUSE.split(text):
        for belief in BELIEFS:
            yield from belief.judge(clause, context)
        yield from tendencies.check_orders(clause, context)
        yield from tendencies.check_signs(clause)
        yield from tendencies.check_degree(clause)
        context += clause


def _by_rule(text: str, names: Names) -> Iterator[judges.Found]:
    for rule in RULES:
        for match in rule.pattern.finditer(text):
            if found := rule.judge(match, text, names):
                yield found


def _rule(pattern: str, judge: Judge) -> Rule:
    return Rule(re.compile(pattern, re.I), judge)


_NUMBER = r"(?P<number>-?\d+(?:\.\d+)?)"

RULES: tuple[Rule, ...] = (
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
        r"only non-?linear\w*[^.。]{0,40}softmax|softmax[^.。]{0,40}only non-?linear"
        r"|linear[^.。]{0,30}(?:except|apart from|besides)[^.。]{0,20}softmax"
        r"|(?:except|apart from|besides|aside from|other than)[^.。]{0,20}softmax[^.。]{0,70}\blinear\b"
        r"|除了?\s*softmax[^。]{0,20}线性|唯一的?非线性[^。]{0,16}softmax|softmax[^。]{0,16}唯一的?非线性",
        judges.only_softmax,
    ),
    _rule(
        r"without (?:the |a )?softmax[^.。]{0,60}\blinear\b|(?:去掉|没有|不用|除去)\s*softmax[^。]{0,30}线性",
        judges.unsoftened,
    ),
    _rule(judges.FACTOR.pattern + r"(?=.*(?:times|doubl|quadrupl|tripl|twice|倍))", judges.growth),
    _rule(growth.TIMES.pattern, growth.growing),
    _rule(
        r"(?:GQA|MQA|grouped|multi-query|query heads|查询头)[^。]*?(?:(\d+)\s*(?:times|x)?\s*(?:smaller|less|fewer)|factor of (\d+)|(?<![\d/])1/(\d+)|(\d+)\s*(?:query heads|queries) (?:per|share|for each)|(?:shared by|serves?|used by)\s*(\d+)\s*(?:query heads|queries)|每\s*(\d+)\s*个查询头)",
        judges.shared,
    ),
    _rule(
        r"(?:equal|same|balance|cross|meet|happens?|break-?even|相等|持平|一样)[^.。]{0,60}?\bn\s*=\s*(?P<factor>\d+(?![\d\s*]*d)|\d*\s*\*?\s*d\w*)",
        judges.equal_at,
    ),
    _rule(
        r"\bn\s*=\s*(?P<factor>\d+(?![\d\s*]*d)|\d*\s*\*?\s*d\w*)[^.。]{0,40}?(?:equal|same|balance|相等|持平|一样)",
        judges.equal_at,
    ),
    _rule(
        r"(?:\beach|\bevery|\bper|\bone|\bsingle)[- ](?:attention )?heads?\b[^\d.。;；→]{0,30}(?P<each>\d+)\b(?!\s*[*/]|\.\d)"
        r"|(?:\d+\s*heads?|个头)[^.。]{0,30}?(?:\beach|\bevery)\b[^\d.。;；→]{0,30}(?P<each2>\d+)\b(?!\s*[*/]|\.\d)"
        r"|(?:每个?头|单头|各头)[^\d.。;；→]{0,16}(?P<each3>\d+)\b(?!\s*[*/]|\.\d)",
        judges.heads,
    ),
    _rule(
        r"\d+\s*(?:\w+ )?(?:tokens|words|vectors|queries|keys|个)[^.。]{0,80}?(?:attention|score|weight|注意力|分数|权重)\w*\s*(?:matrix|矩阵)[^.。\d]{0,20}(?P<a>\d+)\s*(?:\*|x|by)\s*(?P<b>\d+)\b(?!\s*[*x=]|\s*[KMG]i?B)",
        judges.score_shape,
    ),
    _rule(
        r"(?:attention|scores?|weights?|注意力|分数|权重)\s*(?:matrix|矩阵)[^.。]{0,24}?(?:shape|size|形状|大小)[^.。\d]{0,10}?[\[(]?\s*\b(?P<a>[nNTL])\s*(?:\*|x|,|by)\s*(?P<b>d\w*|[nNTLSm])\b",
        judges.letters,
    ),
    _rule(
        r"(?P<up>\b(?:ris|increas|grow|grew|rose|go(?:es)? up|went up|climb)\w*|升|增加|上升|提高|增大|变大)?(?:[^\d.。;；]{0,16})(?:\bfrom|从)\s*(?P<a>\d+\.\d+)\s*(?:up |down )?(?:to|(?P<zh>升|增加|上升|提高|增大|降|下降|减小|减少)[到至为了]+|[到至])\s*(?P<b>\d+\.\d+)(?P<zh2>[^。，,.;；]{0,4}(?:升|降|增|减))?",
        judges.direction,
    ),
    _rule(
        r"(?:each|every) row\b[^.。]{0,40}sums? (?:up )?to (?:1|one)\b|每一?行[^。]{0,16}和(?:都)?(?:为|是|等于)\s*1\b",
        judges.always,
    ),
    _rule(
        rf"dot product of (?P<a>[A-Za-z]\w*) (?:and|with) (?P<b>\w+)(?: is| =| equals) {_NUMBER}",
        judges.dot,
    ),
    _rule(
        rf"(?P<a>[A-Za-z]\w*)\s*(?:和|与|跟)\s*(?P<b>[A-Za-z]\w*)\s*的(?:点积|内积)\s*(?:是|为|等于|=)\s*{_NUMBER}",
        judges.dot,
    ),
)
