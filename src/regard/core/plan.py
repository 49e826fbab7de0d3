"""Which engine computes a call, and why: the choice is visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

from regard._errors import EngineError
from regard._shapes import Array
from regard.core.call import Call
from regard.core.engines import flex, formula, native, sdpa, tiles
from regard.core.known import recall
from regard.core.modes import exactly, refuse_old_vmap
from regard.core.reducers import Reducer

Want: TypeAlias = Literal["output", "lse", "weights"]
Compute: TypeAlias = Callable[[Array, Array, Array], Array]
"""From q, k and v to the output: a call's form apart from its arrays."""

ENGINES: Mapping[str, ModuleType] = {e.name: e for e in (native, sdpa, flex, tiles, formula)}
"""In the order in which ``auto`` tries them; it never gets as far as ``formula``."""


@dataclass(frozen=True)
class Plan:
    """The engine that a call gets."""

    engine: str
    """Its name, which ``engine=`` takes."""
    why: str
    """Why this one."""
    refused: Mapping[str, str]
    """The engines that were passed over, each with the reason."""


def check_engine(engine: Any) -> str:
    """``engine`` if there is one of that name."""
    if not isinstance(engine, str) or engine not in ("auto", *ENGINES):
        raise EngineError(
            f"engine must be 'auto' or one of {', '.join(map(repr, ENGINES))}, but it is {engine!r}"
        )
    return engine


def choose(call: Call, engine: str, want: Want) -> Plan:
    """The first engine that can and likes to; one asked for by name never falls back."""
    if check_engine(engine) != "auto":
        if reason := ENGINES[engine].refuses(call, want):
            raise EngineError(
                f"engine={engine!r} cannot do this call: {reason}; engine='auto' finds one that can"
            )
        return Plan(engine, f"asked for by name; {ENGINES[engine].why}", {})
    refused: dict[str, str] = {}
    for name, module in ENGINES.items():
        reason = module.refuses(call, want)
        if reason is None and (dislikes := getattr(module, "dislikes", None)):
            reason = dislikes(call)
        if reason is None:
            return Plan(name, module.why, refused)
        refused[name] = reason
    raise AssertionError("tiles takes every call")


def answering(call: Call, chosen: str, asked: str, reducers: Sequence[Reducer]) -> str:
    """The engine ``chosen`` for a call's weights, or tiles where it cannot answer ``reducers``."""
    lacks = getattr(ENGINES[chosen], "lacks", None)
    reason = lacks(call, reducers) if lacks else None
    if reason is None:
        return chosen
    if asked != "auto":
        raise EngineError(
            f"engine={asked!r} cannot answer this: {reason}; engine='auto' finds one that can"
        )
    return "tiles"


def run(call: Call, engine: str, reducers: Sequence[Reducer]) -> list[Any]:
    """The reducers' answers by ``engine``, through torch's derivatives where these are wanted."""
    if call.differentiated:
        from regard.core import derivatives

        found = derivatives.compute(call, ENGINES[engine], reducers)
    else:
        with exactly(call.q):
            found = ENGINES[engine].compute(call, reducers)
    if len(found) == len(reducers) == 1:
        return [reducers[0].result(*found)]
    rest = iter(found)
    return [reducer.result(*(next(rest) for _ in reducer.outputs())) for reducer in reducers]


def remember(call: Call, asked: str, chosen: str) -> None:
    """Note how the output is computed where ``asked`` has led to the engine ``chosen``."""
    repeat = getattr(ENGINES[chosen], "repeat", None)
    if repeat is None or call.differentiated or asked in call.notes:
        return
    if compute := repeat(call):
        call.notes[asked] = compute


def again(engine: Any, q: Array, k: Array, v: Array, *rest: Any) -> Array | None:
    """The output, computed as that of a call of the same form was before; None if none was.

    ``rest`` are the arguments that ``recall`` takes after q, k and v.
    """
    _, known = recall(q, k, v, *rest)  # held here, for the addresses in its notes are of its own
    if known is None or not isinstance(engine, str):
        return None
    compute: Compute | None = known.notes.get(engine)
    try:
        return None if compute is None else compute(q, k, v)
    except RuntimeError:  # to ask before each call would take longer than to fail
        refuse_old_vmap((q, k, v))
        raise
