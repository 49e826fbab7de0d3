"""What a docstring or a comment says of masks, windows and intent, in English and in Chinese."""

from __future__ import annotations

import re

from regard.diagnosis.source import Source

_KEEP = (
    r"(?:may|can|should|to|allowed to|able to|do|does|is|are|be|will be)?\s*(?:be\s+)?"
    r"(?:attend(?:ed)?(?:\s+to)?\b|keep\b|kept\b|visible|valid\b|real\b|allow(?:ed|s)?\b|see\b|"
    r"seen\b|"
    r"unmasked|participat\w+|tak(?:e|es|ing) part|contribut\w+|count(?:s|ed)?\b|look(?:ed)? at|"
    r"actual\b|non-?pad\w*|not pad\w*|true tokens|use[ds]?\b|"
    r"present\b|observed|retain\w*|include[ds]?\b|live\b|readable|active|permitted|genuine|legal)"
    r"|可见|保留|可以?关注|允许|有效|真实|能看|可以看|可被关注|参与|可注意|非填充"
)
_DROP = (
    r"(?:ignor\w+|masked(?: out| off)?\b|mask(?:s|ing)? out|hid(?:den|e|es)\b|drop(?:s|ped)?\b|"
    r"pad(?:ding|ded|s)?\b|block\w*|exclud\w+|disallow\w*|forbid\w*|forbidden|suppress\w*|"
    r"invalid\b|"
    r"may not|must not|cannot|can not|should not|not allowed|not be attended|not attend\w*|"
    r"remov\w+|unavailable|prevent\w*|invisible|discard\w*|skip\w*|off-limits|illegal|"
    r"blank\b|not to be|never\b)"
    r"|屏蔽|遮蔽|遮挡|遮住|掩盖|掩掉|忽略|填充|不可见|禁止|不能|不可|隐藏|被掩|盖住|无效|丢弃|"
    r"不允许|不参与|挡住|去掉"
)
_ONE = (
    r"(?:\bTrue\b|(?<![\d.\-–/e])\b1(?:\.0)?s?\b(?!\.\d|\s*[e/]|-D|\))|\bones?\b|"
    r"\bnon-?zero\b|为真|为\s*1|真值)"
)
_ZERO = r"(?:\bFalse\b|(?<![\d.\-–/e])\b0(?:\.0)?s?\b(?!\.\d|\s*[e/])|\bzeros?\b|为假|为\s*0|假值)"
_ADDITIVE = (
    r"additive|added to (?:the )?(?:raw |attention )?(?:scores|logits)|加性|加到(?:分数|得分|打分)|"
    r"0[^\n]{0,40}(?:-\s*inf|−∞|-∞|minus infinity|-1e9|-1e4|负无穷|large negative)"
    r"|(?:-\s*inf|−∞|-∞|-1e9)[^\n]{0,40}\b0\b"
)


_THINGS = (
    r"^\W*(?:(?:is|are|for|at|on|marks?|means?|为|是|表示)\W*)?(?:(?:an?|the) )?"
    r"(?:words?|tokens?|characters?|frames?|items?|单词|词|字)\W*$"
)
"""What a mask of keys that are there calls them."""


def _clauses(text: str) -> list[str]:
    parts = re.split(
        r"[;,，。；\n|]|\.(?!\d)|\band\b|\bwhile\b|\bbut\b|\botherwise\b|、|/|\belse\b", text
    )
    return [p for p in parts if p.strip()]


def mask_meaning(text: str) -> str | None:
    """keep, drop or additive, as the prose about a mask says; None where it is silent or torn."""
    if re.search(_ADDITIVE, text, re.IGNORECASE):
        return "additive"
    votes = {"keep": 0, "drop": 0}
    other = {"keep": "drop", "drop": "keep"}
    for line in re.split(r"\n\s*\n|(?<=[.。])\s", text):
        for clause in _clauses(line):
            one, zero = re.search(_ONE, clause), re.search(_ZERO, clause)
            number = zero or one
            if number is None or (one and zero):
                continue
            action = _action(re.sub(_ZERO if zero else _ONE, " ", clause))
            if action is None and re.search(_THINGS, clause[number.end() :], re.IGNORECASE):
                action = "keep"  # True = word
            if action is not None:
                votes[other[action] if zero else action] += 1
    if votes["keep"] == votes["drop"]:
        return None
    return max(votes, key=lambda action: votes[action])


def _action(clause: str) -> str | None:
    """Whether a clause speaks of keeping or of dropping."""
    drop = re.search(_DROP, clause, re.IGNORECASE)
    keep = re.search(_KEEP, clause, re.IGNORECASE)
    if keep is None:
        return "drop" if drop else None
    if re.search(r"non-?pad|not pad|un-?masked|非填充", clause, re.IGNORECASE):
        return "keep"
    denied = re.search(r"(?:not|n't|no|never|不)\W*(?:\w+\W+){0,2}$", clause[: keep.start()])
    return "drop" if denied or (drop and drop.start() <= keep.start()) else "keep"


def about_masks(source: Source, parameter: str) -> str:
    """The sentences of the prose that speak of a mask."""
    pieces = []
    for doc in (*source.docs, *source.comments):
        lines = doc.splitlines() or [doc]
        for n, line in enumerate(lines):
            if re.search(
                rf"mask|pad|掩码|遮罩|屏蔽|遮|填充|\b{re.escape(parameter)}\b", line, re.IGNORECASE
            ):
                tail = [
                    following
                    for following in lines[n + 1 : n + 3]
                    if not re.match(r"\s*\w+\s*(?:\(.*\))?\s*:", following)
                ]
                pieces.append("\n".join([line, *tail]))
    return "\n\n".join(pieces)


_CAUSAL = (
    r"causal|autoregress|auto-regress|look[-_ ]?ahead|\bfuture\b|subsequent|decoder[- ]only|"
    r"\bgpt\b|"
    r"masked self|left-to-right|earlier (?:tokens|positions)|因果|自回归|下三角|未来|单向"
)
_NOT_CAUSAL = (
    r"(?:non-?|not |no |without |bi-?directional|un|非|无)\s*(?:causal|因果|mask)|"
    r"bidirectional|双向"
)


def means_causal(source: Source, name: str) -> bool:
    """Whether the name, the prose or the code itself says that the future is hidden."""
    text = f"{name}\n{source.prose}"
    if re.search(_NOT_CAUSAL, text, re.IGNORECASE):
        return False
    # A parameter that turns it on is off where nobody gives it.
    if re.search(r"\b(?:is_)?causal\w*\s*(?::\s*bool\s*)?=\s*False\b", source.joined):
        return False
    if re.search(_CAUSAL, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text), re.IGNORECASE):
        return True
    return re.search(r"\btri[lu]\b|\.tri\b|\bcausal", source.joined) is not None


def stated_window(source: Source) -> str:
    """``before`` where the window counts the keys before the query's own, else ``own``."""
    if source.says(
        r"(?:in addition to|besides|plus|excluding|not counting) (?:itself|the current|its own)|"
        r"(?:previous|preceding|earlier) (?:tokens|keys|positions)(?:,)? (?:and|plus) (?:itself|"
        r"the current)|"
        r"and (?:to )?itself|不含自身|不包括自身|以及自身|和自身|外加自身"
    ) and not source.says(
        r"(?:including|itself included|counting itself|inclusive)|包括自身|含自身"
    ):
        return "before"
    return "own"
