"""Sixteen questions about attention, each answered by an experiment that runs."""

from __future__ import annotations

from collections.abc import Mapping

from regard._errors import UserError
from regard.explanation.questions import depth, inputs, roles, scores
from regard.explanation.questions.question import Experiment, Numbers, Question
from regard.explanation.trace import Trace

__all__ = ["QUESTIONS", "Question", "ask"]


def _question(name: str, run: object, **numbers: tuple[float, float, float]) -> Question:
    """``numbers``: what may be set, as (unless set, least, most)."""
    assert callable(run)
    first, least, most = (
        {number: values[i] for number, values in numbers.items()} for i in range(3)
    )
    return Question(name, run, first, least, most)


QUESTIONS: Mapping[str, Question] = {
    question.name: question
    for question in (
        _question(
            "why-sqrt", scores.why_sqrt,
            width=(64, 1, 1024), keys=(8, 2, 32), draws=(500, 10, 2000),
        ),
        _question("why-three", roles.why_three, strength=(4, 0, 20), tries=(2000, 1, 100_000)),
        _question(
            "why-heads", roles.why_heads,
            strength=(6, 0, 20), length=(512, 1, 10**6), width=(512, 8, 10**5),
        ),
        _question("what-qkv", roles.what_qkv, strength=(3, 0, 50)),
        _question("true-keeps", scores.true_keeps, hidden=(1, 1, 2)),
        _question("why-add", inputs.why_add, width=(512, 2, 4096)),
        _question("cost", roles.cost, length=(512, 1, 10**6), width=(512, 1, 10**5)),
        _question(
            "dot-or-additive", scores.dot_or_additive,
            length=(64, 2, 512), width=(128, 1, 512),
        ),
        _question("why-softmax", scores.why_softmax, first=(1, -5, 5)),
        _question("cross-or-self", roles.cross_or_self, queries=(2, 1, 12)),
        _question("what-wo", roles.what_wo, heads=(2, 1, 6)),
        _question("why-embed-scale", inputs.why_embed_scale, width=(512, 2, 4096)),
        _question("linear", inputs.linear, factor=(2, -5, 5)),
        _question(
            "parallel", depth.parallel,
            length=(256, 2, 4096), width=(512, 1, 1024), path=(17, 2, 65),
        ),
        _question("why-norm", depth.why_norm, layers=(16, 1, 64), width=(64, 2, 512)),
        _question("weights-explain", inputs.weights_explain, sink=(4, -5, 20)),
    )
}  # fmt: skip


def ask(name: str, **numbers: float) -> Trace:
    """Runs the experiment that answers ``name``, with other ``numbers`` where they are given.

    >>> trace = ask("why-sqrt", width=256)
    >>> trace.steps[0].name
    'drawn'
    """
    if name not in QUESTIONS:
        raise UserError("explain.no-question", name=name, names=", ".join(QUESTIONS))
    question = QUESTIONS[name]
    for number, value in numbers.items():
        if number not in question.numbers:
            names = ", ".join(question.numbers)
            raise UserError("explain.no-number", name=number, question=name, names=names)
        least, most = question.least[number], question.most[number]
        if not least <= value <= most:
            raise UserError(
                "explain.number-range", name=number, value=value, least=least, most=most
            )
    chosen: Numbers = {**question.numbers, **numbers}
    return question.run(Experiment(name, chosen))
