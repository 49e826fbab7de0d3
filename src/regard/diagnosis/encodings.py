"""Positional encodings as subjects of their own: sinusoidal, learned, rotary and ALiBi."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.diagnosis.calling import output_of
from regard.diagnosis.positions import alibi_slopes, sinusoids
from regard.diagnosis.reference import Array, rotate
from regard.diagnosis.roles import plain, size_role
from regard.diagnosis.source import Source, stated_layout
from regard.diagnosis.subject import Refused, Sizes, Subject, build

B, T, H, D = 2, 5, 3, 8


@dataclass
class Answer:
    """What was found of an encoding."""

    faults: list[tuple[str, bool, str, dict[str, Any], float, float]] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    undetermined: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    how: dict[str, Any] = field(default_factory=dict)
    verdict: str = "right"

    def add(
        self,
        fault: str,
        key: str = "check.evidence-reproduced",
        right: float = 1.0,
        *,
        risk: bool = False,
        **values: Any,
    ) -> None:
        """Takes a fault in, once."""
        if all(f[0] != fault for f in self.faults):
            self.faults.append((fault, risk, key, values, 0.0, right))


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
    if re.search(r"alibi|slope", words):
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
        {"alibi": _alibi, "rotary": _rotary, "table": _table}[kind](thing, source, said, answer)
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


def _subject(
    thing: Any, source: Source, init: Mapping[str, Any], sizes: Sizes, *, width: int, said: Any
) -> Subject:
    """Builds a class with ``width`` for its width and room for 16 positions."""
    given = dict(init)
    if inspect.isclass(thing):
        for p in inspect.signature(thing).parameters.values():
            if p.name in given or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                continue
            role = size_role(p.name)
            if role in ("model_dim", "head_dim") and isinstance(
                p.default, int | type(inspect.Parameter.empty)
            ):
                given[p.name] = width
            elif role in ("length", "exact_length") and p.default is p.empty:
                given[p.name] = 16
    return build(thing, source, given, sizes)


def _call(subject: Subject, arguments: Mapping[str, Any]) -> Any:
    subject_result = subject.run(arguments)
    return subject_result


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
    subject = _subject(thing, source, said.get("init") or {}, Sizes(), width=D, said=said)
    inputs = [
        p for p in subject.parameters if p.role in ("x", "q", "context", "k", "v") and p.required
    ]
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
    table = output_of(_call(subject, arguments))
    answer.how["call"] = ", ".join(f"{k}={v}" for k, v in arguments.items())
    _judge_table(_rows(table), source, answer)
    _odd(lambda: _call(subject, _number_arguments(subject, T, D - 1) or {}), answer)


def _rows(table: Any) -> Array:
    if table is None:
        raise Refused("check.no-call", names="")
    table = np.asarray(table, float)
    while table.ndim > 2:
        axis = next((a for a in range(table.ndim) if table.shape[a] == 1), 0)
        table = np.take(table, 0, axis)
    return table[:T] if table.shape[0] >= T else table


def _judge_table(table: Array, source: Source, answer: Answer, *, tolerance: float = 1e-5) -> None:
    """Names the faults of a (T, D) table of sinusoids."""
    if table.ndim != 2 or table.shape[-1] != D:
        answer.verdict = "unknown"
        answer.undetermined.append(("check.no-hypothesis", {}))
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
        if not table.any() or _is_whole(table):
            answer.add("position-integer", right=float(np.abs(table - right[: len(table)]).max()))
            return
        answer.verdict = "unknown"
        answer.undetermined.append(("check.no-hypothesis", {}))
        return
    for fault in best.faults:
        answer.add(fault, right=float(np.abs(table - right[: len(table)]).max()))
    if best.note:
        answer.choices.append(f"table-{best.note}")


def _is_whole(table: Array) -> bool:
    return bool(np.array_equal(table, np.round(table)))


def _odd(run: Callable[[], Any], answer: Answer) -> None:
    try:
        run()
    except Exception as error:  # whatever somebody's code may raise
        text = f"{type(error).__name__}: {error}".split("\n")[0][:160]
        answer.add("position-odd-width", "check.evidence-odd", risk=True, width=D - 1, error=text)


def _added(
    thing: Any, subject: Subject, source: Source, said: Mapping[str, Any], answer: Answer, name: str
) -> None:
    """An encoding that is added to what it is given."""
    stated = said.get("layout") or stated_layout(source)
    rng = np.random.default_rng(3)
    if _takes_ids(subject, source):
        raise Refused("check.no-call", names=", ".join(p.name for p in subject.parameters))
    error: Exception | None = None
    for shape in ((B, T, D), (T, D)):
        x = rng.standard_normal(shape)
        try:
            with_x = output_of(_call(subject, {name: x}))
            zero = output_of(_call(subject, {name: np.zeros(shape)}))
        except Exception as raised:  # whatever somebody's code may raise
            error = error or raised
            continue
        if zero is None or with_x is None:
            continue
        answer.how.update(call=f"{name}: {'×'.join(map(str, shape))}")
        _judge_added(thing, subject, source, answer, np.asarray(zero, float), shape, stated)
        width_error = _width_runner(thing, source, said, name)
        _odd(width_error, answer)
        return
    square = np.zeros((T, T, D))
    try:
        zero = output_of(_call(subject, {name: square}))
    except Exception:
        zero = None
    if zero is not None and error is not None:
        answer.add(
            "position-by-batch", "check.evidence-by-batch", error=str(error).split("\n")[0][:160]
        )
        _judge_rows(subject, source, answer, np.asarray(zero, float)[0])
        return
    raise error or Refused("check.no-call", names=name)


def _takes_ids(subject: Subject, source: Source) -> bool:
    return (
        source.line(r"token_emb|tok_emb|word_emb|self\.tokens?\(") is not None
        and subject.library == "torch"
    )


def _width_runner(
    thing: Any, source: Source, said: Mapping[str, Any], name: str
) -> Callable[[], Any]:
    def run() -> Any:
        odd = _subject(thing, source, said.get("init") or {}, Sizes(), width=D - 1, said=said)
        return _call(odd, {name: np.zeros((B, T, D - 1))})

    if not inspect.isclass(thing):
        return lambda: None
    return run


def _judge_added(
    thing: Any,
    subject: Subject,
    source: Source,
    answer: Answer,
    zero: Array,
    shape: tuple[int, ...],
    stated: str | None,
) -> None:
    if zero.ndim == 2 and len(shape) == 3:
        zero = np.broadcast_to(zero, (B, *zero.shape)) if zero.shape[0] == T else zero
    if zero.ndim == 3 and zero.shape[0] == 1:
        zero = np.broadcast_to(zero, (B, *zero.shape[1:]))
    if zero.ndim == 2:
        _judge_rows(subject, source, answer, zero)
        return
    if zero.shape != (B, T, D):
        answer.verdict = "unknown"
        answer.undetermined.append(("check.no-hypothesis", {}))
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
            name = next(p.name for p in subject.parameters if p.role == "x")
            again = output_of(_call(subject, {name: x}))
            rows = np.asarray(again, float)[:, 0]
        _judge_rows(subject, source, answer, rows)
        return
    if same_over_time and same_over_batch and not zero.any():
        if _integer_table(subject):
            answer.add("position-integer")
            return
        answer.verdict = "unknown"
        answer.undetermined.append(("check.no-hypothesis", {}))
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
            if table is not None and table.shape[-1] == rows.shape[-1] and len(table) >= len(rows):
                if np.allclose(table[: len(rows)], rows):
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
    sizes = Sizes(heads=heads, groups=heads)
    subject = build(thing, source, said.get("init"), sizes)
    arguments: dict[str, Any] = {}
    for p in subject.parameters:
        role = size_role(p.name)
        if not p.required and role != "heads":
            continue
        if role == "heads" or plain(p.name) in ("n", "h", "heads", "nheads", "numheads"):
            arguments[p.name] = heads
        elif p.role in ("x", "q"):
            arguments[p.name] = np.zeros((B, heads, T, T))
        else:
            arguments[p.name] = T
    if len([p for p in subject.parameters if p.required]) == 1 and subject.owner is None:
        arguments = {next(p.name for p in subject.parameters if p.required): heads}
    try:
        result = _call(subject, arguments)
    except Exception:
        return None
    if isinstance(result, list | tuple) and result and all(np.ndim(r) == 0 for r in result):
        result = np.asarray(result, float)
    out = output_of(result)
    if out is None:
        return None
    out = np.asarray(out, float)
    squeezed = out.reshape([n for n in out.shape if n != 1] or [1])
    if squeezed.shape == (heads,):
        return squeezed
    while squeezed.ndim > 3:
        squeezed = squeezed[0]
    if squeezed.ndim == 3 and squeezed.shape[0] == heads:
        last = squeezed[:, -1]
        finite = np.isfinite(last)
        return (
            np.where(finite, last, 0)[:, -1] - last[:, -2]
            if finite.all()
            else last[:, -1] - last[:, -2]
        )
    if squeezed.ndim == 2 and squeezed.shape[0] == heads:
        return squeezed[:, -1] - squeezed[:, -2]
    return None


# Rotary


def _rotary(thing: Any, source: Source, said: Mapping[str, Any], answer: Answer) -> None:
    subject = _subject(thing, source, said.get("init") or {}, Sizes(), width=D, said=said)
    inputs = [
        p
        for p in subject.parameters
        if p.role in ("x", "q", "k", "v", "context", "heads") and p.required
    ]
    inputs = [p for p in inputs if p.role != "heads" or p.name in ("h",)]
    number_only = subject.owner is None and all(
        size_role(p.name) in ("model_dim", "head_dim", "length", "exact_length") or p.role in ("position",)
        for p in subject.parameters if p.required
    )  # fmt: skip
    if number_only or not inputs:
        _tables_of_rotary(subject, source, answer)
        return
    stated = said.get("layout") or stated_layout(source)
    if subject.owner is not None and _gives_tables(subject, inputs[0].name):
        _tables_of_rotary(subject, source, answer)
        return
    layouts = ["BHTD", "BTHD", "BTD", "TD", "THD", "HTD"]
    if stated in ("BTC", "TBC", "TC"):
        stated = stated.replace("C", "D")
    if stated in layouts:
        layouts = [stated, *[x for x in layouts if x != stated]]
    error: Exception | None = None
    unexplained: tuple[Subject, list[str], str, Mapping[str, Any]] | None = None
    wrong: tuple[tuple[str, ...], str] | None = None
    for layout in layouts:
        for tables in _given_tables(subject, layout):
            try:
                faults = _rotation(subject, [p.name for p in inputs], layout, tables)
            except Exception as raised:  # whatever somebody's code may raise
                error = error or raised
                continue
            if faults is None:
                unexplained = unexplained or (subject, [p.name for p in inputs], layout, tables)
                continue
            if faults and layout != stated and wrong is None:
                wrong = (faults, layout)
                continue
            if faults and tables and wrong is None:
                wrong = (faults, layout)  # other tables may be what it wants
                continue
            answer.how.update(layout=layout)
            for fault in faults:
                answer.add(fault)
            _offset(subject, [p.name for p in inputs], layout, tables, answer)
            return
        if wrong is not None and layout == stated:
            break
    if wrong is not None:
        answer.how.update(layout=wrong[1])
        for fault in wrong[0]:
            answer.add(fault)
        return
    if unexplained is not None:
        names = _by_property(*unexplained)
        if names is None:
            answer.verdict = "unknown"
            answer.undetermined.append(("check.no-hypothesis", {}))
        for fault in names or ():
            answer.add(fault)
        return
    raise error or Refused("check.no-call", names="")


def _input(layout: str, rng: np.random.Generator) -> Array:
    size = {"B": B, "T": T, "H": H, "D": D}
    return rng.standard_normal([size[c] for c in layout])


def _angles(exponent: float = 1.0) -> Array:
    return np.arange(16)[:, None] * 10000.0 ** (-exponent * np.arange(0, D, 2) / D)


def _given_tables(subject: Subject, layout: str) -> Iterator[dict[str, Any]]:
    """cos and sin, or complex numbers, in the shapes that functions ask for."""
    wanted = [p for p in subject.parameters if p.role == "freqs" and p.required]
    length = [
        p
        for p in subject.parameters
        if p.required and size_role(p.name) in ("length", "exact_length")
    ]
    places = [p for p in subject.parameters if p.required and p.role == "position"]
    base: dict[str, Any] = {p.name: T for p in length}
    base.update(
        {
            p.name: np.arange(T)
            if "pos" in p.name and "start" not in p.name and "off" not in p.name
            else 0
            for p in places
        }
    )
    base.update({
        p.name: D for p in subject.parameters
        if p.required and p.role in ("model_dim", "head_dim") and p.name not in base
    })  # fmt: skip
    if not wanted:
        yield base
        return
    angle = _angles()[:T]
    shapes = [np.concatenate([angle, angle], -1), np.repeat(angle, 2, -1), angle]
    spread = [
        x
        for x in (
            lambda a: a,
            lambda a: a[None],
            lambda a: a[None, None],
            lambda a: a[None, :, None],
            lambda a: a[:, None],
        )
    ]
    if len(wanted) >= 2:
        for a in shapes:
            for f in spread:
                yield {**base, wanted[0].name: f(np.cos(a)), wanted[1].name: f(np.sin(a))}
        return
    word = wanted[0].name.lower()
    if "cis" in word or "complex" in word or subject.source.line(r"view_as_complex|complex|1j"):
        for f in spread:
            yield {**base, wanted[0].name: f(np.exp(1j * angle))}
    for a in shapes:
        for f in spread:
            yield {**base, wanted[0].name: f(a)}


def _rotation(
    subject: Subject, names: list[str], layout: str, tables: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """The faults of one way of calling it; None where no rotation explains the output."""
    rng = np.random.default_rng(5)
    inputs = {n: _input(layout, rng) for n in names}
    out = output_of(_call(subject, {**inputs, **tables}))
    if out is None:
        raise ValueError("no output")
    x = inputs[names[0]]
    got = np.asarray(out, float)
    if got.shape != x.shape:
        raise ValueError("shape")
    axis = layout.index("T")
    tolerance = 2e-5

    def rotated(pairing: str, along: int, doubled: bool) -> Array:
        moved = np.moveaxis(x, along, -2)
        base = 10000.0**2 if doubled else 10000.0
        return np.moveaxis(rotate(moved, np.arange(moved.shape[-2]), pairing, base), -2, along)

    for doubled in (False, True):
        more = ("position-exponent-doubled",) if doubled else ()
        for pairing in (
            "halves",
            "pairs",
            "mixed-halves",
            "mixed-pairs",
            "no-sign",
            "halves-back",
            "pairs-back",
        ):
            back = pairing.endswith("-back")
            for along, letter in (
                (axis, "T"),
                *((i, c) for i, c in enumerate(layout[:-1]) if c != "T"),
            ):
                if back:
                    moved = np.moveaxis(x, along, -2)
                    expected = np.moveaxis(
                        rotate(
                            moved,
                            -np.arange(moved.shape[-2]),
                            pairing.removesuffix("-back"),
                            10000.0,
                        ),
                        -2,
                        along,
                    )
                else:
                    expected = rotated(pairing, along, doubled)
                if np.abs(expected - got).max() < tolerance:
                    faults = [] if letter == "T" else ["rotary-axis"]
                    if pairing in ("mixed-halves", "mixed-pairs", "no-sign"):
                        faults.append("rotary-pairing")
                    return (*faults, *more)
    return None


def _by_property(
    subject: Subject, names: list[str], layout: str, tables: Mapping[str, Any]
) -> tuple[str, ...] | None:
    """What the laws of rotation say: a vector keeps its norm, and q·k depends on the distance."""
    rng = np.random.default_rng(6)
    axis = layout.index("T")

    def run(vector: Array) -> Array:
        x = np.broadcast_to(vector, _input(layout, rng).shape).copy()
        out = output_of(_call(subject, {**{n: x for n in names}, **tables}))
        rows = np.moveaxis(np.asarray(out, float), axis, 0)
        return rows.reshape(len(rows), -1, D)[:, 0]

    q, k = run(rng.standard_normal(D)), run(rng.standard_normal(D))
    norms = np.linalg.norm(q, axis=-1)
    if np.allclose(q, q[:1]):
        return ("rotary-axis",)
    products = q @ k.T
    level = all(
        np.allclose(np.diag(products, n), np.diag(products, n)[0]) for n in range(-T + 2, T - 1)
    )
    if not np.allclose(norms, norms[0]) or not level:
        return ("rotary-pairing",)
    return None


def _offset(
    subject: Subject, names: list[str], layout: str, tables: Mapping[str, Any], answer: Answer
) -> None:
    """Whether a position that is passed moves the rotation."""
    place = next((p for p in subject.parameters if p.role in ("position", "cache")), None)
    if place is None or (isinstance(tables.get(place.name), np.ndarray)):
        return
    rng = np.random.default_rng(5)
    inputs = {n: _input(layout, rng) for n in names}
    axis = layout.index("T")
    try:
        at_zero = output_of(_call(subject, {**inputs, **tables, place.name: 0}))
        at_three = output_of(_call(subject, {**inputs, **tables, place.name: 3}))
    except Exception:
        return
    if at_zero is None or at_three is None:
        return
    x = inputs[names[0]]
    got = np.asarray(at_three, float)
    moved = np.moveaxis(x, axis, -2)
    for pairing in ("halves", "pairs"):
        expected = np.moveaxis(rotate(moved, np.arange(T) + 3, pairing), -2, axis)
        if np.abs(expected - got).max() < 2e-5:
            return
    if np.allclose(at_zero, got):
        answer.add("rotary-offset", "check.evidence-offset", offset=3)


def _gives_tables(subject: Subject, name: str) -> bool:
    try:
        x = np.zeros((B, H, T, D))
        more = {p.name: T for p in subject.parameters if p.required and p.name != name}
        result = _call(subject, {name: x, **more})
    except Exception:
        return True
    first = output_of(result)
    return first is None or first.shape != x.shape or bool(first.any())


def _tables_of_rotary(subject: Subject, source: Source, answer: Answer) -> None:
    """A function of sizes that gives cos and sin, angles or complex numbers."""
    options: list[dict[str, Any]] = []
    arguments: dict[str, Any] = {}
    for p in subject.parameters:
        if not p.required:
            continue
        role = size_role(p.name)
        if p.role in ("x", "q", "k", "v", "context"):
            arguments[p.name] = np.zeros((B, H, T, D))
        elif role in ("model_dim", "head_dim"):
            arguments[p.name] = D
        elif p.role == "position":
            arguments[p.name] = np.arange(T)
        else:
            arguments[p.name] = T
    options = [
        arguments,
        {
            k: (np.zeros((B, T, D)) if isinstance(v, np.ndarray) and v.ndim == 4 else v)
            for k, v in arguments.items()
        },
    ]
    result: Any = None
    error: Exception | None = None
    for option in options:
        try:
            result = _call(subject, option)
            break
        except Exception as raised:  # whatever somebody's code may raise
            error = raised
    if result is None:
        raise error or Refused("check.no-call", names="")
    arrays = [
        np.asarray(a)
        for a in (result if isinstance(result, tuple) else (result,))
        if isinstance(a, np.ndarray)
    ]
    if not arrays:
        raise Refused("check.no-call", names="")
    flat = [a.reshape([n for n in a.shape if n != 1]) for a in arrays]
    if len(flat) == 1 and flat[0].ndim == 3:
        flat = (
            [flat[0][0], flat[0][1]]
            if flat[0].shape[0] == 2
            else [flat[0][..., 0], flat[0][..., 1]]
        )
    if np.iscomplexobj(flat[0]):
        flat = [flat[0].real, flat[0].imag]
    cos = flat[0][:T]
    for exponent, faults in ((1.0, ()), (2.0, ("position-exponent-doubled",))):
        angle = _angles(exponent)[: len(cos)]
        forms = [angle, np.concatenate([angle, angle], -1), np.repeat(angle, 2, -1)]
        for a in forms:
            for expected in (np.cos(a), a, np.sin(a)):
                if expected.shape == cos.shape and np.abs(expected - cos).max() < 2e-5:
                    for fault in faults:
                        answer.add(fault)
                    return
    if np.allclose(cos, cos[:1]):
        answer.add("rotary-axis")
        return
    if _is_whole(_inverse(cos)):
        answer.add("position-integer")
        return
    answer.verdict = "unknown"
    answer.undetermined.append(("check.no-hypothesis", {}))


def _inverse(cos: Array) -> Array:
    with np.errstate(invalid="ignore"):
        return np.round(np.nan_to_num(np.arccos(np.clip(cos, -1, 1)))[1:2], 6)
