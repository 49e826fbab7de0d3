"""Every way to call a subject that its signature allows, and the same in the reference's terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regard.diagnosis.calling import HEADED, ONE, Setup, forms, layouts_of, place
from regard.diagnosis.holders import WEIGHT_ROLES, Holder, holders_of
from regard.diagnosis.hypotheses import scales
from regard.diagnosis.reference import Case, Linear, Weights
from regard.diagnosis.source import shapes_in, states_square_weights
from regard.diagnosis.steps import Array
from regard.diagnosis.subject import Parameter, Sizes, Subject
from regard.diagnosis.weights import Found


def setups(
    subject: Subject, found: Found, *, said: str | None, seed: int, queries: int, keys: int
) -> Iterator[Setup]:
    """Every way to call the subject that its signature allows, the likeliest first."""
    argument_weights = [p for p in subject.parameters if p.role in WEIGHT_ROLES]
    has_args = bool(argument_weights or holders_of(subject))
    has_weights = has_args or found.width_in is not None
    single = (True, False) if _says_one_query(subject) else (False, True)
    ways = forms(subject)
    if found.latents is not None and ways == ["self"]:
        ways = ["latent", "self"]
    for one in single:
        for form in ways:
            if one and form in ("self", "latent"):
                continue
            for layout in layouts_of(subject, weighted=has_weights, said=said):
                for variant in _variants(subject, has_weights=has_weights, args=has_args):
                    length = 1 if one else queries
                    made = _setup(subject, found, form, layout, variant, seed, length, keys)
                    yield from (_of_one_query(setup) for setup in made) if one else made


def _says_one_query(subject: Subject) -> bool:
    """Whether the prose gives the query a shape without an axis for its length."""
    query = subject.role("q")
    if query is None:
        return False
    told = re.search(
        rf"\b{re.escape(query.name)}\b\W{{0,4}}(?:\w+ ){{0,3}}([\(\[][^\)\]]*[\)\]])",
        subject.source.prose,
    )
    shapes = shapes_in(told.group(1)) if told else []
    return bool(shapes) and "T" not in shapes[0]


def _of_one_query(setup: Setup) -> Setup:
    """The same, the query given without an axis for its length."""
    name = setup.names["q"]
    squeezed = setup.arguments[name].squeeze(setup.layout.index("T"))
    arguments = {**setup.arguments, name: squeezed}
    return replace(setup, arguments=arguments, variant=f"{setup.variant}{ONE}")


def _variants(subject: Subject, *, has_weights: bool, args: bool) -> list[str]:
    if args:
        code = subject.source.joined + subject.source.prose
        many = ["plain", "square", "turned", "stack", "list", "shared"]
        if any(h.listed for h in holders_of(subject)):
            many = ["list"]
        elif subject.role("heads") is None and re.search(
            r"\bfor\b.*\bin\s+(?:range|zip|enumerate)|head", code
        ):
            many = ["stack", "plain", "square", "list", "turned"]
        elif states_square_weights(subject.source):
            many = ["square", "plain", "turned", "stack", "list", "shared"]
        return many
    if not has_weights and re.search(
        r"group|kv_head|n_kv|repeat_kv|repeat_interleave|np\.repeat|\bG\b|gqa|multi-?query",
        subject.source.joined + subject.source.prose, re.IGNORECASE,
    ):  # fmt: skip
        return ["grouped", "plain"]
    return ["plain"]


@dataclass(frozen=True)
class _Build:
    """What a way of calling is made of: sizes, weights, and the arguments that hold them."""

    heads: int
    groups: int
    width_in: int
    width_context: int
    weights: tuple[Weights, ...]
    arguments: Mapping[str, Any] = field(default_factory=dict)


_WITH_HEADS = ("BHTD", "BTHD", "HTD")


def _build(
    subject: Subject, found: Found, layout: str, variant: str, rng: np.random.Generator
) -> _Build | None:
    """The build of one layout and variant; None where the two do not go together."""
    width = subject.sizes.width
    if layout in HEADED:
        several = subject.sizes.heads if subject.sizes.heads > 1 else Sizes().heads
        heads = groups = several if layout in _WITH_HEADS else 1
        if variant == "grouped":
            if layout not in _WITH_HEADS:
                return None
            heads, groups = 6, 3
        return _Build(heads, groups, width, width, found.readings)
    holders = holders_of(subject)
    held = {h.parameter.name for h in holders}
    args = [p for p in subject.parameters if p.role in WEIGHT_ROLES and p.name not in held]
    args += [p for holder in holders for p in holder.parameters()]
    if args:
        return _with_weights(subject, args, holders, variant, rng)
    if found.width_in is not None:
        context = found.context_in or found.width_in
        return _Build(found.heads, found.groups, found.width_in, context, found.readings)
    heads = groups = subject.sizes.heads if subject.role("heads") is not None else 1
    if subject.role("groups") is not None:
        heads, groups = 6, 3
    return _Build(heads, groups, heads * width, groups * width, found.readings)


def _with_weights(
    subject: Subject,
    args: Sequence[Parameter],
    holders: Sequence[Holder],
    variant: str,
    rng: np.random.Generator,
) -> _Build | None:
    """The build of a function whose weights are arguments."""
    width, counted = subject.sizes.width, subject.role("heads") is not None
    if (counted and variant == "list") or (variant == "shared" and not counted):
        return None
    heads = subject.sizes.heads if counted or variant in ("stack", "list") else 1
    groups = heads
    if subject.role("groups") is not None:
        heads, groups = 6, 3
    model = heads * width if heads > 1 else 3 * width
    made = _argument_weights(args, variant, model, width, heads, groups, rng)
    if made is None:
        return None
    arguments, weights = made
    arguments |= {h.parameter.name: h.filled(arguments) for h in holders}
    return _Build(heads, groups, model, model, (weights,), arguments)


_INPUTS = {
    "self": ("x",),
    "cross": ("q", "x", "context", "k", "v"),
    "three": ("q", "k", "v"),
    "latent": ("x",),
}


def _placed(
    subject: Subject, form: str, layout: str, data: Mapping[str, Array]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The inputs as arguments, and which parameter takes which."""
    arguments: dict[str, Any] = {}
    names: dict[str, str] = {}
    for p in subject.parameters:
        if p.role not in _INPUTS[form]:
            continue
        role = p.role
        if form == "cross" and role in ("q", "x"):  # the second of its kind is what is attended to
            role = "context" if "q" in names else "q"
        elif form == "latent":
            role = "context"
        names[role] = p.name
        arguments[p.name] = place(data[role], layout)
    return arguments, names


def _setup(
    subject: Subject,
    found: Found,
    form: str,
    layout: str,
    variant: str,
    seed: int,
    queries: int,
    keys: int,
) -> Iterator[Setup]:
    rng = np.random.default_rng(seed + 1000)
    built = _build(subject, found, layout, variant, rng)
    headed = layout in HEADED
    if built is None or (form == "self" and headed and built.heads != built.groups):
        return
    keys = queries if form == "self" else keys
    batch = 1 if layout in ("TD", "TC", "HTD", "CT", "DT") else subject.sizes.batch
    heads, groups = built.heads, built.groups
    inner = ((heads,), (groups,)) if headed else ((), ())
    q = rng.standard_normal((batch, *inner[0], queries, built.width_in))
    k, v = (rng.standard_normal((batch, *inner[1], keys, built.width_context)) for _ in range(2))
    if form == "self":
        k = v = q
    elif form in ("cross", "latent"):
        v = k
    if form == "latent":
        q = np.broadcast_to(found.latents, (batch, *found.latents.shape))
        queries = len(found.latents)
    arguments, names = _placed(
        subject, form, layout, {"q": q, "x": q, "k": k, "v": v, "context": k}
    )
    first = built.weights[0]
    d = q.shape[-1] if headed else (q.shape[-1] if first.q is None else first.q.w.shape[1]) // heads
    e = (
        v.shape[-1]
        if headed
        else (v.shape[-1] if first.v is None else first.v.w.shape[1]) // groups
    )
    model = heads * d if headed else q.shape[-1]
    factors = scales({"B": batch, "H": heads, "T": queries, "S": keys, "D": d, "E": e, "C": model})
    norm = found.norms[0] if found.norms else None
    case = Case(q, k, v, heads, groups, headed, built.weights, scales=factors, norm=norm)
    sizes = replace(
        subject.sizes, heads=heads, groups=groups, width=d, batch=batch, queries=queries
    )
    for more in _other_arguments(subject, sizes, model):
        given = {**more, **built.arguments, **arguments}
        yield Setup(layout, form, given, case, names, seed, variant)


def _argument_weights(
    args: Sequence[Parameter],
    variant: str,
    c: int,
    d: int,
    heads: int,
    groups: int,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], Weights] | None:
    """Random weights for the parameters that ask for them, and what they are."""
    roles = {p.role: p for p in args}
    if "wqkv" in roles:
        w = rng.standard_normal((c, 3 * heads * d)) * c**-0.5
        q, k, v = np.split(w, 3, 1)
        mats = {"q": q, "k": k, "v": v}
    else:
        inner = {"q": heads * d, "k": groups * d, "v": groups * d}
        if variant == "square" and heads == 1:
            inner = dict.fromkeys(inner, c)
        mats = {r: rng.standard_normal((c, n)) * c**-0.5 for r, n in inner.items()}
    small = {r: rng.standard_normal((d, d)) * d**-0.5 for r in mats if variant == "shared"}
    mats |= {r: np.kron(np.eye(heads), w) for r, w in small.items()}
    o = rng.standard_normal((heads * (mats["v"].shape[1] // groups), c)) * c**-0.5
    if variant in ("stack", "list", "shared") and (heads == 1 or "wqkv" in roles):
        return None
    whole = {**mats, "o": o}
    if "wqkv" in roles:
        whole["qkv"] = np.concatenate(list(mats.values()), 1)
    if "wkv" in roles:
        whole["kv"] = np.concatenate([mats["k"], mats["v"]], 1)
    counts = {"q": heads, "k": groups, "v": groups}
    arguments: dict[str, Any] = {
        roles[f"w{r}"].name: _shaped(small.get(r, m), variant, counts.get(r))
        for r, m in whole.items()
        if f"w{r}" in roles
    }
    fused = rng.standard_normal(whole["qkv"].shape[1]) if "bqkv" in roles else None
    if fused is not None:
        arguments[roles["bqkv"].name] = fused
    linear: dict[str, Linear] = {}
    for r, holders in {"q": "qkv", "k": "qkv kv", "v": "qkv kv", "o": ""}.items():
        bias = rng.standard_normal(whole[r].shape[1]) if f"b{r}" in roles else None
        if fused is not None and r != "o":
            bias = np.split(fused, 3)["qkv".index(r)]
        elif bias is not None:
            arguments[roles[f"b{r}"].name] = bias
        if any(f"w{holder}" in roles for holder in (r, *holders.split())):
            linear[r] = Linear(whole[r], bias)
    return arguments, Weights(**linear)


def _shaped(m: Array, variant: str, count: int | None) -> Any:
    """A matrix as the variant has it: turned, or a stack or list with one for each of the heads."""
    if variant == "turned":
        return m.T
    if variant in ("stack", "list") and count is not None:
        per_head = m.reshape(len(m), count, -1).transpose(1, 0, 2)
        return list(per_head) if variant == "list" else per_head
    return m


def _other_arguments(subject: Subject, sizes: Sizes, model: int) -> list[dict[str, Any]]:
    """Values for the parameters that are neither inputs nor weights; several where shapes vary."""
    values: dict[str, Any] = {
        "heads": sizes.heads,
        "groups": sizes.groups,
        "head_dim": sizes.width,
        "model_dim": model,
        "exact_length": sizes.queries,
        "scale": sizes.width**-0.5,
        "length": 16,
        "window": 3,
        "dropout": 0.0,
        "training": False,
        "causal": True,
        "position": 0,
        "returns": True,
    }
    found: dict[str, Any] = {}
    several: list[dict[str, Any]] = [{}]
    for p in subject.parameters:
        if p.role == "freqs" and (p.required or p.default is None):
            options = _no_rotation(p.name, sizes)
            several = several if len(several) > 1 else [{} for _ in options]
            for one, option in zip(several, options, strict=False):
                one[p.name] = option
        elif p.role in ("heads", "groups") or (p.required and p.role in values):
            found[p.name] = values[p.role]
        elif p.required and p.role in ("mask", "pad", "lengths", "cache", "bias", "other"):
            found[p.name] = sizes.width if p.name in ("d", "n_dim") else _number(p, subject)
    return [{**found, **one} for one in several]


_NUMBERS = {"temp": 1.0, "tau": 1.0, "eps": 1e-9, "neg": -1e9, "fill": -1e9}


def _number(p: Parameter, subject: Subject) -> float | None:
    """A number for a parameter that the code calculates with; None for another."""
    if p.role != "other":
        return None
    told = next((n for word, n in _NUMBERS.items() if p.name.lower().startswith(word)), None)
    word = rf"(?<![\w.]){re.escape(p.name)}\b(?![.\[(])"
    counted = rf"[-+/*]\s*{word}(?!\s*@)|{word}\s*[-+/*]|range\({word}|\[:\s*{word}|[<>]=?\s*{word}"
    if told is None and re.search(counted, subject.source.joined):
        return 3
    return told


def _no_rotation(name: str, sizes: Sizes) -> list[Any]:
    """Tables of cosines and sines that turn nothing, in the shapes that code asks for."""
    ones = np.ones((sizes.queries, sizes.width))
    half = ones[:, : sizes.width // 2]
    word = name.lower()
    if "cis" in word or "complex" in word:
        return [half.astype(complex)]
    if word.startswith("cos"):
        return [ones, half, ones[None], ones[None, None]]
    if word.startswith("sin"):
        return [0 * ones, 0 * half, 0 * ones[None], 0 * ones[None, None]]
    return [(ones[None], 0 * ones[None]), (ones, 0 * ones), half.astype(complex)]
