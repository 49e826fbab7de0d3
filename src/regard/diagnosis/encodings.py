"""Positional encodings as subjects of their own: sinusoidal, learned, rotary and ALiBi."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from regard.diagnosis.building import build
from regard.diagnosis.calling import output_of
from regard.diagnosis.encoding import Answer, B, D, T, inputs_of, is_whole, subject_of
from regard.diagnosis.positions import alibi_slopes, sinusoids
from regard.diagnosis.roles import plain, size_role
from regard.diagnosis.rotary import rotary
from regard.diagnosis.source import Source, stated_layout
from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Refused, Sizes, Subject

_ATTENTION = re.compile(
    r"attention|attn|mha|block|layer$|transformer|encoder$|decoder$|head$", re.IGNORECASE
)


def kind_of(name: str, thing: Any, source: Source) -> str | None:
    """rotary, alibi or table for a positional encoding by its name; None for another subject."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    table = re.search(
        r"posit|sinusoid|(?:^|_)pe(?:$|_)|pos_?(?:enc|emb)|(?:^|_)pos(?:$|_)|timing_signal|sin_?cos|位置",
        words,
    )
    if re.search(r"attention|attn", words) or (_ATTENTION.search(words) and not table):
        return None
    if re.search(r"alibi|slope", plain(name)):
        return "alibi"
    if re.search(r"rotary|rope|rotate|rotation|freqs|rot_emb", words):
        return "rotary"
    return "table" if table else None


def examine(thing: Any, source: Source, said: Mapping[str, Any], name: str) -> Answer | None:
    """The answer for a positional encoding; None where the subject is none."""
    kind = kind_of(name, thing, source)
    if kind is None:
        return None
    answer = Answer(how={"layout": kind, "form": kind, "call": "", "init": {}})
    try:
        {"alibi": _alibi, "rotary": rotary, "table": _table}[kind](thing, source, said, answer)
    except Refused as refused:
        answer.verdict = "unknown"
        answer.undetermined.append((refused.key, dict(refused.values)))
        return answer
    except Exception as error:  # whatever somebody's code may raise
        answer.verdict = "unknown"
        text = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        answer.undetermined.append(("check.init-raises", {"name": name, "error": text}))
        return answer
    if any(not f[1] for f in answer.faults):
        answer.verdict = "wrong"
    elif answer.choices and answer.verdict == "right":
        answer.verdict = "different"
    return answer


# Tables


def _number_arguments(subject: Subject, length: int, width: int) -> dict[str, Any] | None:
    """Arguments for a function of sizes: the first is the length unless names say otherwise."""
    found: dict[str, Any] = {}
    numbers = [p for p in subject.parameters if p.required]
    for p in numbers:
        word, role = plain(p.name), size_role(p.name)
        if re.fullmatch(
            r"(?:positions?|pos|idx|indices|timesteps?|t|steps?)", word
        ) and word not in ("t",):
            found[p.name] = np.arange(length).astype(float)
        elif role in ("model_dim", "head_dim") or re.match(
            r"d(?!ata)|.*(?:dim|hid|emb|width|channels|size)", word
        ):
            found[p.name] = width
        elif role in ("length", "exact_length") or re.search(
            r"len|pos|seq|n|t|max|end|size|steps", word
        ):
            found[p.name] = length
        else:
            return None
    return found


def _table(thing: Any, source: Source, said: Mapping[str, Any], answer: Answer) -> None:
    subject = subject_of(thing, source, _without_width(said), width=D)
    inputs = inputs_of(subject)
    sized = [p for p in subject.parameters if p.required and p not in inputs]
    if inputs and not (
        len(subject.parameters) >= 2 and subject.owner is None and len(sized) >= 1 and not inputs
    ):
        _added(thing, subject, source, said, answer, inputs[0].name)
        return
    arguments = _number_arguments(subject, T, D)
    if arguments is None:
        raise Refused("check.no-call", names=", ".join(p.name for p in subject.parameters))
    if not arguments and subject.owner is None:
        raise Refused("check.no-call", names=", ".join(p.name for p in subject.parameters))
    table = subject.run(arguments)
    table = table if isinstance(table, np.ndarray) else output_of(table)
    answer.how["call"] = ", ".join(f"{k}={v}" for k, v in arguments.items())
    _judge_table(_rows(table), source, answer)
    _odd(lambda: subject.run(_number_arguments(subject, T, D - 1) or {}), answer)


def _without_width(said: Mapping[str, Any]) -> dict[str, Any]:
    """What the constructor is to be given, but for its width: the probe has one of its own."""
    init = said.get("init") or {}
    return {k: v for k, v in init.items() if size_role(k) not in ("model_dim", "head_dim")}


def _rows(table: Any) -> Array:
    if table is None:
        raise Refused("check.no-call", names="")
    table = np.asarray(table, float)
    while table.ndim > 2:
        axis = next((a for a in range(table.ndim) if table.shape[a] == 1), 0)
        table = np.take(table, 0, axis)
    if table.shape == (D, T):  # features come first
        table = table.T
    return table[:T] if table.shape[0] >= T else table


def _judge_table(table: Array, source: Source, answer: Answer, *, tolerance: float = 1e-5) -> None:
    """Names the faults of a (T, D) table of sinusoids."""
    if table.ndim != 2 or table.shape[-1] != D:
        answer.unexplained()
        return
    constants = {
        float(m) for m in re.findall(r"(?<![\w.])\d+(?:\.\d*)?(?:e\d+)?(?![\w])", source.joined)
    }
    bases = (10000.0, *sorted(c for c in constants if 50 <= c <= 1e7 and c != 10000.0))
    right = next(sinusoids(T, D)).table
    best = None
    for wave in sinusoids(len(table), D, bases):
        if np.abs(wave.table - table).max() < tolerance:
            best = wave
            break
    if best is None:
        if not table.any() or is_whole(table) or _of_whole_exponents(table):
            answer.add("position-integer", right=float(np.abs(table - right[: len(table)]).max()))
            return
        answer.unexplained()
        return
    for fault in best.faults:
        answer.add(fault, right=float(np.abs(table - right[: len(table)]).max()))
    if best.note:
        answer.choices.append(f"table-{best.note}")


def _of_whole_exponents(table: Array) -> bool:
    """Whether it is made of sines and cosines whose frequencies are whole powers of e."""
    half = D // 2
    places = np.arange(len(table))[:, None]
    pairs = [(table[:, 0::2], table[:, 1::2]), (table[:, :half], table[:, half:])]
    for s, c in (*pairs, *((c, s) for s, c in pairs)):
        frequencies = np.arctan2(s[1], c[1])
        if (frequencies <= 0).any():
            continue
        powers = np.log(frequencies)
        waves = np.allclose(s, np.sin(places * frequencies), atol=1e-5)
        if waves and np.allclose(powers, np.round(powers), atol=1e-6):
            return True
    return False


def _odd(run: Callable[[], Any], answer: Answer) -> None:
    try:
        run()
    except Exception as error:  # whatever somebody's code may raise
        text = f"{type(error).__name__}: {error}".split("\n")[0][:160]
        answer.add("position-odd-width", "check.evidence-odd", risk=True, width=D - 1, error=text)


def _added(
    thing: Any,
    subject: Subject,
    source: Source,
    said: Mapping[str, Any],
    answer: Answer,
    name: str,
) -> None:
    """An encoding that is added to what it is given."""
    stated = said.get("layout") or stated_layout(source)
    if _takes_ids(subject, source):
        raise Refused("check.no-call", names=", ".join(p.name for p in subject.parameters))
    zero, error = _of_zeros(subject, name, (B, T, D))
    if zero is not None:
        answer.how.update(call=f"{name}: {B}×{T}×{D}")
        _judge_added(subject, source, answer, zero, stated)
        _odd(_width_runner(thing, source, said, name), answer)
        return
    square, _ = _of_zeros(subject, name, (T, T, D))
    if square is not None and square.shape == (T, T, D):  # it fits where the batch is as long
        text = str(error).split("\n")[0][:160]
        answer.add("position-by-batch", "check.evidence-by-batch", error=text)
        _judge_rows(subject, source, answer, square[0])
        return
    flat, _ = _of_zeros(subject, name, (T, D))
    if flat is None:
        raise error or Refused("check.no-call", names=name)
    answer.how.update(call=f"{name}: {T}×{D}")
    _judge_rows(subject, source, answer, flat.reshape(-1, flat.shape[-1])[:T])
    _odd(_width_runner(thing, source, said, name), answer)


def _of_zeros(
    subject: Subject, name: str, shape: tuple[int, ...]
) -> tuple[Array | None, Exception | None]:
    """What is added to zeros of this shape, or the error that is raised."""
    try:
        out = output_of(subject.run({name: np.zeros(shape)}))
    except Exception as error:  # whatever somebody's code may raise
        return None, error
    return (None if out is None else np.asarray(out, float)), None


def _takes_ids(subject: Subject, source: Source) -> bool:
    return (
        source.line(r"self\.(?:token_emb|tok_emb|word_emb|tokens?)\w*\(") is not None
        and subject.library == "torch"
    )


def _width_runner(
    thing: Any, source: Source, said: Mapping[str, Any], name: str
) -> Callable[[], Any]:
    def run() -> Any:
        odd = subject_of(thing, source, _without_width(said), width=D - 1)
        return odd.run({name: np.zeros((B, T, D - 1))})

    if not inspect.isclass(thing):
        return lambda: None
    return run


def _judge_added(
    subject: Subject, source: Source, answer: Answer, zero: Array, stated: str | None
) -> None:
    if zero.ndim == 2 and zero.shape[0] == T:
        zero = np.broadcast_to(zero, (B, *zero.shape))
    if zero.ndim == 3 and zero.shape[0] == 1:
        zero = np.broadcast_to(zero, (B, *zero.shape[1:]))
    if zero.ndim == 2:
        _judge_rows(subject, source, answer, zero)
        return
    if zero.shape != (B, T, D):
        answer.unexplained()
        return
    same_over_batch = np.allclose(zero[0], zero[1])
    same_over_time = np.allclose(zero, zero[:, :1])
    if same_over_time and not same_over_batch:
        if stated is not None and stated.startswith("B"):
            answer.add("position-by-batch", "check.evidence-by-batch", error="")
            rows = zero[:, 0]
        else:
            answer.how["layout"] = "TBC"
            x = np.zeros((T, B, D))
            name = inputs_of(subject)[0].name
            again = output_of(subject.run({name: x}))
            rows = np.asarray(again, float)[:, 0]
        _judge_rows(subject, source, answer, rows)
        return
    if same_over_time and same_over_batch and not zero.any():
        if _integer_table(subject):
            answer.add("position-integer")
            return
        answer.unexplained()
        return
    if stated is not None and stated.startswith("T") and same_over_batch and not same_over_time:
        answer.how["layout"] = "BTC"
        answer.add("position-by-batch", "check.evidence-by-batch", error="")
    _judge_rows(subject, source, answer, zero[0])


def _integer_table(subject: Subject) -> bool:
    for value in vars(subject.owner).values() if subject.owner is not None else ():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            return True
    if (
        subject.library == "torch"
        and subject.owner is not None
        and hasattr(subject.owner, "buffers")
    ):
        return any(not b.is_floating_point() or not b.any() for b in subject.owner.buffers())
    return True


def _judge_rows(subject: Subject, source: Source, answer: Answer, rows: Array) -> None:
    """Rows by position: sinusoids, or those of a learned table."""
    owner = subject.owner
    if subject.library == "torch" and owner is not None and hasattr(owner, "named_parameters"):
        for _, p in owner.named_parameters():
            table = p.detach().numpy().reshape(-1, p.shape[-1]) if p.ndim >= 2 else None
            head = None if table is None else table[: len(rows)]
            if head is not None and head.shape == rows.shape and np.allclose(head, rows):
                answer.how["form"] = "learned"
                return
    _judge_table(rows, source, answer)


# ALiBi


def _alibi(thing: Any, source: Source, said: Mapping[str, Any], answer: Answer) -> None:
    wrong = 0.0
    seen = 0
    for heads in (8, 4, 6, 12):
        slopes = _slopes(thing, source, said, heads)
        if slopes is None:
            continue
        seen += 1
        expected = [alibi_slopes(heads), 2.0 ** (-8.0 * np.arange(1, heads + 1) / heads)]
        got = np.sort(np.abs(slopes))[::-1]
        errors = [float(np.abs(got - np.sort(e)[::-1]).max()) for e in expected]
        same_order = [float(np.abs(np.abs(slopes) - e).max()) for e in expected]
        if min(errors) > 1e-5 or min(same_order) > 1e-5:
            wrong = max(wrong, min(same_order))
    if not seen:
        raise Refused("check.no-call", names="")
    if wrong:
        answer.add("alibi-slopes", right=wrong)


def _slopes(thing: Any, source: Source, said: Mapping[str, Any], heads: int) -> Array | None:
    """The slopes of ``heads`` heads, read from what the subject returns."""
    subject = build(thing, source, said.get("init"), Sizes(heads=heads, groups=heads))
    try:
        result = subject.run(_slope_arguments(subject, heads))
    except Exception:  # whatever somebody's code may raise
        return None
    if isinstance(result, tuple) and result and all(np.ndim(r) == 0 for r in result):
        result = np.asarray(result, float)
    out = output_of(result)
    if out is None:
        return None
    slopes = np.asarray(out, float).reshape([n for n in out.shape if n != 1] or [1])
    while slopes.ndim > 3:
        slopes = slopes[0]
    if slopes.ndim == 0 or slopes.shape[0] != heads:
        return None
    if slopes.ndim == 3:
        slopes = slopes[:, -1]  # the last query's biases: they fall by the slope from key to key
    return slopes if slopes.ndim == 1 else slopes[:, -1] - slopes[:, -2]


def _slope_arguments(subject: Subject, heads: int) -> dict[str, Any]:
    required = [p for p in subject.parameters if p.required]
    if len(required) == 1 and subject.owner is None:
        return {required[0].name: heads}
    found: dict[str, Any] = {}
    for p in subject.parameters:
        if size_role(p.name) == "heads" or (p.required and plain(p.name) in ("n", "h")):
            found[p.name] = heads
        elif p.required:
            found[p.name] = np.zeros((B, heads, T, T)) if p.role in ("x", "q") else T
    return found
