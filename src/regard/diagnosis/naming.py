"""What the source decides: between names that numbers cannot tell apart, and what is meant."""

from __future__ import annotations

import re

from regard.diagnosis.judge import Base, Judge
from regard.diagnosis.lines import line_of
from regard.diagnosis.source import Source


def named(judge: Judge, base: Base) -> tuple[str, ...]:
    """The faults of the best explanation, where the source has decided between like ones."""
    best = base.best
    assert best is not None
    source = judge.subject.source
    candidates = {e.faults: e for e in reversed(base.explanations)}
    faults = best.faults
    if len(candidates) > 1:
        seen = [f for f in candidates if all(line_of(source, x) is not None for x in f)]
        if faults not in seen and seen:
            faults = seen[-1]
    out = []
    for found in faults:
        twice = found == "scale-no-root" and scaled_twice(source)
        fault = "scale-twice" if twice else found
        if fault == "kv-head-order" and source.text and not _meant_in_blocks(source):
            continue  # its heads are repeated elsewhere: an order of its own
        if fault == "mask-after-softmax" and source.text and not _MASKED.search(source.joined):
            continue  # what comes later does not exist yet: nothing is masked
        if fault == "scale-missing" and unscaled_on_purpose(source, judge):
            continue
        out.append(fault)
    return tuple(dict.fromkeys(out))


def _meant_in_blocks(source: Source) -> bool:
    """Whether each key head is to serve a block of heads: it says so, or it repeats key heads."""
    return source.line(_TILING) is not None or source.says(
        r"(?:consecutive|adjacent|contiguous|neighbou?ring|successive)[^.\n]*heads?|"
        r"heads?[^.\n]*(?:consecutive|adjacent|contiguous|neighbou?ring|successive)|"
        r"(?:连续|相邻)[^。\n]*头"
    )


_TILING = (
    r"(?<!einops)\b\w+\.repeat\(|tile\(|\]\s*\*|\.expand\(|\.unsqueeze\(\d\).*expand|"
    r"%\s*(?:self\.)?(?:\w*kv\w*|G|g|\w*groups?)\b"
)


_MASKED = re.compile(r"mask|tri[lu]?\b|where|inf\b|[<>]=?|arange|is_causal")
"""What code that masks has."""


def scaled_twice(source: Source) -> bool:
    """Whether the source scales in two places, so that 1/D is √D twice."""
    sites = 0
    for _, text in source.code:
        if re.match(r"\s*(?:def|class|import|from)\b", text):
            continue
        sites += len(
            re.findall(
                r"(?:/|\*)=?\s*\(?(?:\w+\.)*(?:sqrt\s*\(|scal(?:e|ing)\b)|"
                r"\*\*\s*\(?\s*-?\s*\(?\s*(?:0?\.5|1\s*/\s*2)|scaled_dot_product_attention\s*\(|"
                r"(?:math|np|torch)\.pow\(.*0?\.5",
                text,
            )
        )
    defined = source.line(r"^\s*(?:self\.)?\w*scal\w*\s*=")
    if defined is not None and sites:
        sites -= (
            1
            if re.search(r"sqrt|\*\*", source.at(defined))
            and re.search(r"(?:/|\*)=?\s*(?:self\.)?scal", source.joined)
            else 0
        )
    return sites >= 2


def unscaled_on_purpose(source: Source, judge: Judge) -> bool:
    """Whether the source says that scores are not scaled by design."""
    if source.says(
        r"unscaled|not scaled|no scaling|without (?:any )?scal|scal\w* (?:is|are|was|were|has "
        r"been|folded|absorbed|lives?)[^.]*(?:fold|absorb|baked|init|inside|into)|"
        r"fold(?:s|ed|ing)?\b[^.]*(?:scal|sqrt|W_?q|query)|absorb|(?<!\w)T5|不缩放|折叠|并入|"
        r"吸收|无缩放"
    ):
        return True
    if re.search(r"T5", judge.subject.name):
        return True
    return (
        source.line(
            r"(?:weight|W_?q\w*|w_?q\w*)(?:\.data)?(?:\.mul_|\.div_|\s*\*=|\s*/=).*|(?:W_?q|w_?q|"
            r"q_proj|query)\w*.*=.*(?:\*\*\s*-0?\.5|/\s*(?:np|math)\.sqrt\((?:self\.)"
            r"?(?:head_dim|d_k|d_head)\))"
        )
        is not None
        and source.line(r"scal|sqrt|\*\*\s*\(?-") is not None
    )


def elsewhere(judge: Judge) -> bool:
    """Whether the output projection stands outside the subject, by what the file says."""
    source = judge.subject.source
    if source.says(
        r"(?:no|without(?: an?| the)?|omits?|leaves? out) (?:the |an? )?(?:final |output )"
        r"?(?:output )?(?:projection|W_?O|W\^O|linear)|"
        r"output projection (?:is |lives |stands |happens |follows )?(?:applied |done |left )"
        r"?(?:outside|elsewhere|later|in|by|to the|follows)|(?:caller|block|parent|outer)"
        r"\b[^.]*(?:output )?project|无输出投影|不含输出|输出投影在"
    ):
        return True
    name = judge.subject.name
    return (
        re.search(rf"\b{re.escape(name)}\(", source.others) is not None
        and re.search(r"Linear\(|self\.(?:output|out|dense|proj|o_proj|W_?o)\b", source.others)
        is not None
    ) or re.search(r"class \w*SelfOutput\b", source.others) is not None


def rotates(judge: Judge) -> bool:
    """Whether the code itself rotates by sines and cosines, with no table passed in."""
    if judge.subject.role("freqs", "position") is not None:
        return False
    code = judge.subject.source.joined
    return re.search(r"rot|rope", code, re.IGNORECASE) is not None and (
        re.search(r"\bcos\b", code) is not None and re.search(r"\bsin\b", code) is not None
    )
