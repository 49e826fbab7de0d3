"""``fact_check``: the numbers, formulas, claims and code of a note, worked out again."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile

import numpy as np

from regard._words import Language
from regard.explanation.notes.claim import FactCheck, Verdict
from regard.explanation.notes.digits.figures import distinct
from regard.explanation.notes.digits.listed import check_lists
from regard.explanation.notes.digits.series import check_series
from regard.explanation.notes.digits.worked import settled
from regard.explanation.notes.doubts import without_doubtful
from regard.explanation.notes.mathematics.algebra import Names
from regard.explanation.notes.mathematics.equations import check_line
from regard.explanation.notes.mathematics.instances import check_instances, known
from regard.explanation.notes.mathematics.mathtext import plain
from regard.explanation.notes.mathematics.parsing import parsed
from regard.explanation.notes.mathematics.spoken import written_out
from regard.explanation.notes.programs.blocks import check_block_of_code, check_inline
from regard.explanation.notes.programs.checked import check_attention, check_masks
from regard.explanation.notes.programs.evaluating import Made
from regard.explanation.notes.programs.outputs import check_output
from regard.explanation.notes.sizes import growth
from regard.explanation.notes.sizes.models import check_models
from regard.explanation.notes.sizes.proportions import check_proportions
from regard.explanation.notes.sizes.references import check_reference, lengths_of, with_sizes
from regard.explanation.notes.sizes.relations import check_sizes
from regard.explanation.notes.tables.columns import check_items
from regard.explanation.notes.tables.rows import check_rows, check_table
from regard.explanation.notes.tensors.naming import check_tensors
from regard.explanation.notes.tensors.shapes import check_shapes
from regard.explanation.notes.words.sentences import check_sentence

__all__ = ["FactCheck", "fact_check"]

FENCE = re.compile(r"^\s*(```+|~~~+)\s*\{?\.?([\w+-]*)")
ZERO = re.compile(
    r"\bmeans? (?:of )?(?:0|zero)|zero[- ]mean|E\([XY]\) ?= ?(?:E\([XY]\) ?= ?)?0"
    r"|均值(?:都|均|皆)?(?:为|是) ?0|零均值|期望(?:都|均)?(?:为|是) ?0",
    re.I,
)
THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|\\[,;:!]|[\u2009\u202f])(?=\d{3}(?!\d))")
"""How LaTeX parts 1{,}000."""
WORK = re.compile(r"(\d)(\$?)(?:\\?[ ,~]|\\text\{\s*)*([MGT])(?:FLOP|MAC)s?")
SCALES = {"M": "million", "G": "billion", "T": "thousand billion"}
"""4.83 GFLOPs are so many billion."""
UNIT = re.compile(r"(\d)\$(\s*[KMGT]i?B)\b")
"""A unit behind the formula that its number stands in."""
PYTHON = ("python", "py", "python3", "pycon")
ANSWER = re.compile(r"^\W*(?:答|A|Answer)\s*[:：]\s*\**\s*")
QUOTED = re.compile(r"^\W*(?:Q|问|提问|Question)\s*\d*\s*[:：]")
"""What opens a question."""
ASKED = re.compile(r"(.*\d.*?)[?？]\W*", re.S)
BOLD = re.compile(r"(?<![A-Za-z0-9_)\]])\*\*(?=\S)(.+?)(?<=\S)\*\*(?![A-Za-z0-9_])")
ASKED_WHICH = re.compile(
    r"(?:where|when|what|which|how|whose|who|what if|if)\b|什么|哪|多少|谁|何时|何处|怎样|怎么|几倍|会如何|呢[?？]",
    re.I,
)
"""A question whose answer is no yes or no."""
ASKING = re.compile(
    r"\b(?:(?:where|when|what|which|how) (?:do|does|is|are|did|happens)|where|when|what|which|how)\b|(?:\b(?:come )?(?:from|to|over|in|by|with)\W*)?[?？]|^\W*(?:Q|问)?\s*\d*\s*[.:：、]",
    re.I,
)
"""What a question has beside its subject."""
TAKEN_BACK = re.compile(
    r"^\W*[(（]\s*[×✗✘]\s*[)）]|^\W*(?:(?:but |and )?(?:that|this|it|which) (?:is|was|turns out to be)"
    r" (?:wrong|false|not|incorrect|a mistake|a myth)|(?:wrong|false|not so|nope?)\b|no[,!.:]"
    r"|(?:but |and )?(?:it|that|this|they) (?:does|do|is|are|was|were)(?: not|n't)\b"
    r"|这(?:是|种说法是)?(?:错|不对|不正确)|(?:其实|事实上)[，,]?(?:并)?(?:不|错)|错[！。!了误]|并非如此|不对)",
    re.I,
)
"""What says that the sentence before it is wrong."""


def fact_check(note: str, lang: Language = "en") -> FactCheck:
    """Every claim of ``note`` (Markdown or plain text) that can be worked out, by line.

    >>> report = fact_check("x1 = [0.1, 0.5]. Then x1 · x1 = 0.25.")
    >>> [(claim.status, claim.values["right"]) for claim in report.verdicts]
    [('wrong', '0.26')]
    """
    with np.errstate(all="ignore"):  # a note may speak of any number
        return FactCheck(tuple(_verdicts(note, lang)), note)


def _verdicts(note: str, lang: Language) -> list[Verdict]:
    names = Names()
    verdicts: list[Verdict] = []
    printed: list[Made] = []
    prelude: list[str] = []
    note = WORK.sub(lambda found: f"{found[1]} {SCALES[found[3]]} {found[2]} operations ", note)
    lines = UNIT.sub(r"\1\2$", THOUSANDS.sub(",", note)).splitlines()
    place = 0
    while place < len(lines):
        fence = FENCE.match(lines[place])
        if fence:
            end = _end_of_fence(lines, place, fence[1])
            block = "\n".join(lines[place + 1 : end])
            if fence[2].lower() in PYTHON:
                said, printed, spoken = check_block_of_code(place + 2, block, names)
                names.formulas = [*known(block), *names.formulas]
                said += [v for each in spoken for v in _prose(each.line, each.text, names)]
                said += check_masks(place + 2, block)
                said += check_attention(place + 2, block, prelude, lang)
            else:
                said, printed = check_output(place + 2, block, names, printed), []
            verdicts += said
            place = end + 1
        elif len(list(takewhile(lambda line: line.lstrip().startswith("|"), lines[place:]))) > 1:
            end = place
            while end < len(lines) and lines[end].lstrip().startswith("|"):
                end += 1
            verdicts += check_table([(i + 1, lines[i]) for i in range(place, end)], names)
            place = end
        else:
            text, end = _whole(lines, place)
            said = _prose(place + 1, text, names)
            verdicts += _at_their_lines(said, place + 1, lines[place:end])
            place = end
    verdicts = distinct(verdicts)
    judged = {(verdict.line, verdict.claim) for verdict in verdicts}
    verdicts += [
        verdict for verdict in settled(names) if (verdict.line, verdict.claim) not in judged
    ]
    items = [*check_items(lines)]
    lawful = {verdict.line for verdict in items}
    verdicts = [v for v in verdicts if v.status != "wrong" or v.line not in lawful]
    verdicts += [verdict for verdict in items if verdict.status == "wrong"]
    wrong = {verdict.line for verdict in verdicts if verdict.status == "wrong"}
    verdicts += [verdict for verdict in check_tensors(lines, names) if verdict.line not in wrong]
    return without_doubtful(verdicts, lines)


def _end_of_fence(lines: list[str], place: int, mark: str) -> int:
    for end in range(place + 1, len(lines)):
        if lines[end].strip().startswith(mark) and lines[end].strip(" `~") == "":
            return end
    return len(lines)


def _whole(lines: list[str], place: int) -> tuple[str, int]:
    """The line at ``place`` with those that close its brackets or its formula, and what is next."""
    text, end = lines[place], place + 1
    while end < len(lines) and end - place < 12 and lines[end].strip():
        if (
            text.count("[") <= text.count("]")
            and text.count("$$") % 2 == 0
            and text.count(r"\begin{") <= text.count(r"\end{")
        ):
            break
        text += " " + lines[end].strip()
        end += 1
    return text, end


def _at_their_lines(said: list[Verdict], first: int, lines: list[str]) -> list[Verdict]:
    """Verdicts of a formula that is written over several lines, each where its value stands."""
    if len(lines) == 1:
        return said
    spelled = [re.sub(r"[\s\\]", "", plain(line)) for line in lines]
    found = []
    for verdict in said:
        value = re.sub(r"[\s\\]", "", plain(verdict.claim.rpartition("=")[2]))
        places = [i for i, line in enumerate(spelled) if value and value in line]
        line = first + places[0] if len(places) == 1 else verdict.line
        found.append(replace(verdict, line=line))
    return found


def _prose(line: int, text: str, names: Names) -> list[Verdict]:
    found: list[Verdict] = []
    if re.match(r"\s*#+ ", text) or re.fullmatch(r"\W*\*\*[^*]+\*\*\W*", text):
        names.heading = text
        names.headings.append(text)
    text = re.sub(r"(?<!\\)\\[\[\]()]", "$", text)
    text = BOLD.sub(r"\1", re.sub(r"\\text(?:bf|it)\{([^{}]*)\}", r"\1", text))
    text = re.sub(r"^\s*(?:#+|[-*+]|\d+[.)、]|>|\([a-z\d]\))\s+(?:\[[ xX]\]\s+)?", "", text)
    sentences = [each for each in _with_questions(_sentences(text)) if len(each) <= LONGEST]
    for sentence, before, after in zip(
        sentences, ["", *sentences], [*sentences[1:], ""], strict=False
    ):
        if ZERO.search(sentence):
            names.said.add("zero mean")
        names.call(sentence)
        if re.search(r"position|PE\b|10000|位置", sentence):
            names.said.add("positions")
        shapes, rest = check_shapes(line, sentence)
        answer = _answered(names, rest)
        in_words = _said_in_words(line, rest, before, names)
        equations = check_line(line, written_out(rest), names) if not _spoken(in_words) else []
        if ASSUMED.search(rest):  # "let |x| = 1" is no claim of this note's x
            equations = [
                v
                for v in equations
                if v.status != "wrong" or re.search(r"\d", v.claim.partition("=")[0])
            ]
        words_say = {v.values.get("right", "") for v in in_words} - {""}
        equations = [v for v in equations if v.values.get("right", "") not in words_say]
        said = shapes + in_words + [v for v in equations if v.status != "unknown" or not in_words]
        said += check_instances(line, rest, names) + check_inline(line, sentence, names)
        sized = check_sizes(line, answer, names)
        known = any(verdict.status == "right" for verdict in sized)
        said = said or ([] if known else check_reference(line, rest, names))
        said = said or check_rows(line, sentence, names)
        sized = _sized(line, rest, names, sized)
        if not said and answer is not rest:
            said = check_line(line, answer, names)
        if all(verdict.status != "wrong" for verdict in said):
            said += sized
        growth.remember(rest, names)
        names.waiting = text if text.rstrip("*_ ").endswith(("?", "？")) else ""
        names.asked = sentence if sentence.rstrip("*_ ").endswith(("?", "？")) else ""
        if len(rest) > 8:
            names.recent = [*names.recent[-3:], with_sizes(rest)]
            names.lengths = [*lengths_of(names.recent[-1]), *names.lengths][:6]
        if re.search(r"(?:dim|axis) ?= ?(?:0|-2)", before):  # of the wrong axis, and said to be so
            said = [verdict for verdict in said if verdict.key != "note.axis"]
        if TAKEN_BACK.search(after):
            said = [verdict for verdict in said if verdict.status != "wrong"]
        found += said
    return found


def _sized(line: int, text: str, names: Names, sized: list[Verdict]) -> list[Verdict]:
    """What a sentence says of sizes; the rounded numbers of a known model are right."""
    for check in (check_lists, check_proportions, check_series):
        sized += check(line, text, names)
    counted = re.search(r"param|参数", text) and not re.search(r"B\b|bytes|字节", text)
    if counted and any(right for right, _, _ in check_models(plain(text))):
        return [verdict for verdict in sized if verdict.status != "wrong"]
    return sized


def _said_in_words(line: int, sentence: str, before: str, names: Names) -> list[Verdict]:
    """The claims in words of a sentence, alone or as the answer to the question before it."""
    asked = names.asked
    found = check_sentence(line, sentence, names, before)
    if not found and asked and (ASKED_WHICH.search(asked) or not YES_OR_NO.search(asked)):
        about = ASKING.sub(" ", re.sub(r"[,，][^,，]*吗\s*[?？]\s*$", "", asked)).strip()
        answer, link = ANSWER.sub("", sentence), "是" if re.search("[一-鿿]", about) else "is"
        found = check_sentence(line, f"{about} {answer}", names)
        found = found or check_sentence(line, f"{about} {link} {answer}", names)
    if not found and (statement := _affirmed(asked, sentence)):
        found = check_sentence(line, statement, names)
    if QUOTED.match(sentence):  # what somebody asks is no claim of the note
        return [verdict for verdict in found if verdict.status != "wrong"]
    return found


YES = re.compile(
    r"\W*(?:Solution:|A:|答[:：]|A[:：])?\W*(?:Yes|Right|Correct|Of course|是的?|对的?|会的?|能|可以|必须|当然|没错)(?![A-Za-z不])",
    re.I,
)
YES_OR_NO = re.compile(
    r"\b(?P<verb>Is|Are|Does|Do|Can|Must|Will)\b (?P<rest>[^?？]+)[?？]|(?P<zh>[^?？。]+?)吗[?？]"
)
SUBJECT = re.compile(
    r"(?:the |a |an )?(?:[\w-]+ ){0,3}?(?:self-|cross-)?(?:attention|softmax|matrix|encodings?|masks?|layers?|networks?|output|complexity|cost|weights|RoPE|ALiBi|transformers?|scores?|variance|RNNs?|GPT|BERT|FFN)\b(?: (?:matrix|weights|mask|scores))?",
    re.I,
)


def _affirmed(asked: str, answer: str) -> str:
    """The statement that a "yes" makes of the question before it."""
    found = [*YES_OR_NO.finditer(asked), *YES_OR_NO.finditer(answer)]
    if not found:
        return ""
    last = found[-1]
    said = answer[answer.find(last[0]) + len(last[0]) :] if last[0] in answer else answer
    if not YES.match(said):
        return ""
    if last["zh"]:
        return f"{last['zh'].replace('是不是', '是')}。"
    rest = last["rest"].strip()
    if last["verb"].lower() in ("is", "are") and (subject := SUBJECT.match(rest)):
        rest = f"{subject[0]} is{rest[subject.end() :]}"
    return f"{rest}."


def _answered(names: Names, sentence: str) -> str:
    """A bare number after a question, with what it answers."""
    number = re.match(
        r"\W*(?:A|答|Answer)?\W{0,3}(?:It is |It's |about |约|是)*(-?\d[\d,.]*\d|\d)(?![\d.]*\s*[·×*/^=+(])",
        sentence,
    )
    if not number or not names.waiting or len(sentence) > 60:
        return sentence
    asked = re.sub(r"^\W*(?:Q|问)\s*\d*\s*[.:：]\s*", "", names.waiting.rstrip("*_ "))
    expression = re.fullmatch(
        r"[^\w(|√\[]*(?:What is |Compute |计算)?([\w(|√\[][^?？]*)[?？]", asked
    )
    alone = expression is not None and parsed(plain(expression[1])) is not None
    if alone and expression is not None:
        return f"{expression[1]} = {number[1]}"
    counted = re.search(r"[Hh]ow many (\w+)|多少个?(参数|分数|元素|头|维|词)", asked)
    noun = next(filter(None, counted.groups())) if counted else ""
    return f"{asked.rstrip('?？')} {number[1]} {noun}"


SUPPOSED = re.compile(
    r"^\W*(?:(?:But |And |So )?(?:what (?:happens )?if|what about|how about|and with|and if)) ",
    re.I,
)
LONGEST = 1500
"""Letters of a sentence that somebody has written; what is longer is a dump of data."""
ASSUMED = re.compile(r"\b(?:assum|suppos|satisf|such that\b|let\b)|假设|假定|满足|令", re.I)
NUMBERED = re.compile(r"^\W*\d+\s*[).:、]|\(\d+ ?(?:pts?|points?|分)\)")


def _with_questions(sentences: list[str]) -> list[str]:
    """A question that holds numbers is a part of its answer."""
    joined: list[str] = []
    for sentence in sentences:
        if joined and (asked := ASKED.fullmatch(NUMBERED.sub("", joined[-1]))):
            supposed = SUPPOSED.sub("", asked[1])
            joined[-1] = f"{supposed}，{ANSWER.sub('', sentence)}"
        else:
            joined.append(sentence)
    return joined


def _spoken(verdicts: list[Verdict]) -> bool:
    """Whether what is said in words is the equation itself."""
    return any(verdict.status == "wrong" and "variance" in verdict.key for verdict in verdicts)


def _sentences(text: str) -> list[str]:
    return [
        part
        for part in re.split(r"(?<=[.!?])[\"”*]*\s+(?=[A-Z\[(`$*x])|(?<=[。！？；])", text)
        if part.strip()
    ]
