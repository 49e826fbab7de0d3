"""How a subject wants to be called: which inputs, in which layout, with which weights.

A *setup* is one way that may work: the arguments, and the same data in canonical form.  The first
that runs and is explained is how the subject is called; the report says so.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from regard.diagnosis.hypotheses import scales
from regard.diagnosis.reference import Array, Case, Linear, Weights
from regard.diagnosis.roles import parameter_role, weight_role
from regard.diagnosis.source import stated_layout
from regard.diagnosis.subject import Parameter, Sizes, Subject
from regard.diagnosis.weights import Found

PLAIN = ("BTC", "TBC", "TC", "BCT")
HEADED = ("BTD", "TD", "BHTD", "BTHD", "TBD", "HTD")


@dataclass(frozen=True)
class Setup:
    """Arguments by name, and what they are in the reference's terms."""

    layout: str
    form: str
    """self (one tensor), cross (two) or three."""
    arguments: Mapping[str, Any]
    case: Case
    names: Mapping[str, str]
    """Which parameter takes q, k, v or x."""
    rng: int

    @property
    def batch(self) -> int:
        """How many samples are given."""
        return int(self.case.q.shape[0])


def place(x: Array, layout: str) -> Array:
    """Canonical (B, T, C) or (B, H, T, D) in the subject's layout."""
    match layout:
        case "BTC" | "BHTD":
            return x
        case "TBC":
            return x.swapaxes(0, 1)
        case "BCT":
            return x.swapaxes(1, 2)
        case "TC":
            return x[0]
        case "TD":
            return x[0, 0]
        case "BTD":
            return x[:, 0]
        case "HTD":
            return x[0]
        case "BTHD":
            return x.swapaxes(1, 2)
        case "TBD":
            return x[:, 0].swapaxes(0, 1)
    raise ValueError(layout)


def given_back(y: Array, layout: str, observed: Array) -> Array:
    """The reference's output in the form that the subject's has, as far as shapes tell."""
    if y.ndim == 3 and layout in HEADED:  # the subject merged the heads by itself
        placed = {"BTHD": y, "BHTD": y, "HTD": y[0]}.get(layout)
        return y if placed is None else placed
    placed = place(y, layout)
    if placed.shape != observed.shape and y.ndim == 4 and y.shape[1] > 1:
        b, h, t, d = y.shape
        merged = y.swapaxes(1, 2).reshape(b, t, h * d)
        if layout == "HTD":
            merged = merged[0]
        if merged.shape == observed.shape:
            return merged
    if placed.shape != observed.shape and placed.size == observed.size:
        squeezed = tuple(n for n in observed.shape if n != 1)
        if squeezed == tuple(n for n in placed.shape if n != 1):
            return placed.reshape(observed.shape)
    return placed


def output_of(result: Any, shape_hint: tuple[int, ...] | None = None) -> Array | None:
    """The output among what a subject returned: an array, the first of a tuple, a named one."""
    if isinstance(result, np.ndarray):
        return result if result.ndim >= 1 and result.dtype.kind in "fc" else None
    if isinstance(result, Mapping):
        for name in (
            "output",
            "out",
            "context",
            "last_hidden_state",
            "hidden_states",
            "attn_output",
        ):
            if isinstance(result.get(name), np.ndarray):
                return result[name]
        return output_of(tuple(result.values()), shape_hint)
    if isinstance(result, tuple):
        arrays = [a for a in result if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        if shape_hint is not None:
            for a in arrays:
                if a.shape == shape_hint:
                    return a
        return arrays[0] if arrays else None
    for name in ("output", "context", "last_hidden_state"):
        value = getattr(result, name, None)
        if isinstance(value, np.ndarray):
            return value
    return None


def extra_of(result: Any, output: Array) -> Array | None:
    """The weights that a subject returned beside its output."""
    if isinstance(result, tuple):
        for a in result:
            if (
                isinstance(a, np.ndarray)
                and a is not output
                and a.dtype.kind == "f"
                and a.ndim >= 2
            ):
                return a
    return None


def forms(subject: Subject) -> list[str]:
    """The forms that the parameters allow."""
    roles = {p.role for p in subject.parameters}
    required = {p.role for p in subject.parameters if p.required}
    if {"q", "k", "v"} <= roles:
        return ["three"]
    if "q" in roles and roles & {"context", "k", "v", "x"}:
        return ["cross"]
    if "x" in roles and "context" in required:
        return ["cross"]
    if "x" in roles and "context" in roles:
        return ["self", "cross"]
    if "x" in roles:
        return ["self"]
    return []


def layouts_of(subject: Subject, *, weighted: bool, said: str | None) -> list[str]:
    """Layouts to try, the stated one first."""
    heads = subject.role("heads") is not None
    pool: tuple[str, ...] = PLAIN if weighted or heads else HEADED
    stated = said or stated_layout(subject.source)
    if stated is not None:
        if stated.startswith("..."):
            stated = "BTD"
        alias = {"BTC": "BTD", "TBC": "TBD", "TC": "TD"}
        back = {v: k for k, v in alias.items()}
        stated = (back if pool is PLAIN else alias).get(stated, stated)
    first = [stated] if stated in pool else []
    if pool is PLAIN:
        rest = ["BTC", "TC", "BCT", "TBC"]
        if subject.library == "numpy" and re.search(r"\.T\b", subject.source.joined):
            rest = ["TC", "BTC", "TBC", "BCT"]
        if not _batched(subject):
            rest = ["TC", "BTC", "TBC", "BCT"]
    else:
        code = subject.source.joined
        rest = ["BTD", "BHTD", "TD", "HTD", "BTHD", "TBD"]
        if re.search(r"\.T\b|axis\s*=\s*1\b|axis\s*=\s*0\b", code) and subject.library == "numpy":
            rest = ["TD", "BTD", "BHTD", "HTD", "BTHD", "TBD"]
        elif re.search(r"\bheads?\b|\bH\b|n_head|repeat_interleave", code + subject.source.prose):
            rest = ["BHTD", "BTD", "BTHD", "TD", "HTD", "TBD"]
    return list(dict.fromkeys([*first, *rest]))


def _batched(subject: Subject) -> bool:
    code = subject.source.joined
    if subject.library == "torch":
        return True
    return not re.search(r"^\s*(?:\w+)\s*,\s*(?:\w+)\s*=\s*\w+\.shape\s*$", code, re.MULTILINE)


def setups(
    subject: Subject, found: Found, *, said: str | None, seed: int, queries: int, keys: int
) -> Iterator[Setup]:
    """Every way to call the subject that its signature allows, the likeliest first."""
    argument_weights = [p for p in subject.parameters if p.role in _WEIGHT_ROLES]
    packed = weights_in_dict(subject)
    if packed is not None:
        argument_weights = [packed[0]]
    has_weights = bool(argument_weights) or found.width_in is not None
    for form in forms(subject):
        for layout in layouts_of(subject, weighted=has_weights, said=said):
            for variant in _variants(subject, has_weights=has_weights, args=bool(argument_weights)):
                made = _setup(subject, found, form, layout, variant, seed, queries, keys)
                yield from made


def weights_in_dict(subject: Subject) -> tuple[Parameter, dict[str, str], bool] | None:
    """A parameter that holds the weights by name: which keys are which, and whether it is a dict."""
    for p in subject.parameters:
        if p.role not in ("other", "context", "head_dim") or not p.required:
            continue
        name = re.escape(p.name)
        code = subject.source.joined
        keys = re.findall(rf"\b{name}\[\s*['\"](\w+)['\"]\s*\]", code)
        fields = re.findall(rf"\b{name}\.(\w+)\b(?!\()", code)
        roles = {
            k: r
            for k in keys or fields
            if (r := parameter_role(k)) in _WEIGHT_ROLES or (r := _bare(k))
        }
        if roles:
            return p, roles, bool(keys)
    return None


def _bare(key: str) -> str:
    role = weight_role(key)
    return f"w{role}" if role else ""


_WEIGHT_ROLES = ("wq", "wk", "wv", "wo", "wqkv", "wkv", "bq", "bk", "bv", "bo")


def _variants(subject: Subject, *, has_weights: bool, args: bool) -> list[str]:
    if args:
        code = subject.source.joined + subject.source.prose
        many = ["plain", "square", "turned", "stack", "list"]
        if subject.role("heads") is None and re.search(
            r"\bfor\b.*\bin\s+(?:range|zip|enumerate)|head", code
        ):
            many = ["stack", "plain", "square", "list", "turned"]
        return many
    if not has_weights and re.search(
        r"group|kv_head|n_kv|repeat_kv|repeat_interleave|np\.repeat|\bG\b|gqa|multi-?query",
        subject.source.joined + subject.source.prose, re.IGNORECASE,
    ):  # fmt: skip
        return ["grouped", "plain"]
    return ["plain"]


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
    sizes = subject.sizes
    if form == "self":
        keys = queries
    headed = layout in HEADED
    explicit = headed
    batch = 1 if layout in ("TD", "TC", "HTD") else sizes.batch
    weights: tuple[Weights, ...] = found.readings
    heads, groups = found.heads, found.groups
    names: dict[str, str] = {}
    arguments: dict[str, Any] = {}
    width = sizes.width
    if headed:
        heads = sizes.heads if layout in ("BHTD", "BTHD", "HTD") else 1
        groups = heads
        if variant == "grouped":
            if layout not in ("BHTD", "BTHD", "HTD"):
                return
            heads, groups = 6, 3
        shapes = [(batch, heads, queries, width), *[(batch, groups, keys, width)] * 2]
    else:
        param = subject.role("heads")
        packed = weights_in_dict(subject)
        args = [p for p in subject.parameters if p.role in _WEIGHT_ROLES]
        if packed is not None:
            args = [replace(packed[0], name=key, role=role) for key, role in packed[1].items()]
        if args:
            heads = sizes.heads if param is not None or variant in ("stack", "list") else 1
            if param is not None and variant in ("list",):
                return
            grouped = subject.role("groups")
            groups = heads
            if grouped is not None:
                heads, groups = 6, 3
            model = heads * width if heads > 1 else 3 * width
            made = _argument_weights(args, variant, model, width, heads, groups, rng)
            if made is None:
                return
            more, one = made
            if packed is not None:
                more = {packed[0].name: dict(more) if packed[2] else types.SimpleNamespace(**more)}
            arguments.update(more)
            weights = (one,)
            width_in = width_context = model
        elif found.width_in is not None:
            width_in = found.width_in
            width_context = found.context_in or width_in
        else:
            heads = groups = sizes.heads if param is not None else 1
            if subject.role("groups") is not None:
                heads, groups = 6, 3
            width_in = heads * width
            width_context = groups * width
        shapes = [(batch, queries, width_in), *[(batch, keys, width_context)] * 2]
    q = rng.standard_normal(shapes[0])
    k = rng.standard_normal(shapes[1])
    v = rng.standard_normal(shapes[2])
    if form == "self":
        if headed and heads != groups:
            return
        k = v = q
    elif form == "cross":
        v = k
    roles = {"self": ("x",), "cross": ("q", "x", "context", "k", "v"), "three": ("q", "k", "v")}[
        form
    ]
    data = {"q": q, "x": q, "k": k, "v": v, "context": k}
    seen_query = False
    for p in subject.parameters:
        if p.role in roles:
            if form == "cross" and p.role in ("q", "x"):
                value = k if seen_query else q
                names["context" if seen_query else "q"] = p.name
                seen_query = True
            else:
                value = data[p.role]
                names[p.role] = p.name
            arguments[p.name] = place(value, layout)
    d = width if headed or weights[0].q is None else weights[0].q.w.shape[1] // heads
    e = width if headed or weights[0].v is None else weights[0].v.w.shape[1] // groups
    model = heads * d if headed else q.shape[-1]
    if found.width_in is None and not headed and weights[0].q is None:
        d = e = q.shape[-1] // heads
    factors = scales({"B": batch, "H": heads, "T": queries, "S": keys, "D": d, "E": e, "C": model})
    extra = _other_arguments(
        subject,
        replace(sizes, heads=heads, groups=groups, width=d, batch=batch, queries=queries),
        model,
        keys,
    )
    if extra is None:
        return
    case = Case(
        q, k, v, heads, groups, explicit, weights, scales=factors,
        norm=found.norms[0] if found.norms else None,
    )  # fmt: skip
    for more in extra:
        yield Setup(layout, form, {**more, **arguments}, case, names, seed)


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
    if "wkv" in roles:
        roles_kv = np.concatenate([mats["k"], mats["v"]], 1)
    o = rng.standard_normal((heads * (mats["v"].shape[1] // groups), c)) * c**-0.5
    arguments: dict[str, Any] = {}
    biases = {r: rng.standard_normal(m.shape[1]) for r, m in {**mats, "o": o}.items()}

    def shaped(m: Array, role: str) -> Any:
        if variant == "turned":
            return m.T
        if variant in ("stack", "list") and role in ("q", "k", "v"):
            n = heads if role == "q" else groups
            per_head = m.reshape(c, n, -1).transpose(1, 0, 2)
            return list(per_head) if variant == "list" else per_head
        return m

    if variant in ("stack", "list") and (heads == 1 or "wqkv" in roles):
        return None
    if "wqkv" in roles:
        p = roles["wqkv"]
        arguments[p.name] = w.T if variant == "turned" else w
    if "wkv" in roles:
        arguments[roles["wkv"].name] = roles_kv.T if variant == "turned" else roles_kv
    for r in ("q", "k", "v"):
        if f"w{r}" in roles:
            arguments[roles[f"w{r}"].name] = shaped(mats[r], r)
    if "wo" in roles:
        arguments[roles["wo"].name] = shaped(o, "o")
    linear: dict[str, Linear] = {}
    for r, m in {**mats, "o": o}.items():
        bias = None
        if f"b{r}" in roles:
            bias = biases[r]
            arguments[roles[f"b{r}"].name] = bias
        given = (
            f"w{r}" in roles or (r in "qkv" and "wqkv" in roles) or (r in "kv" and "wkv" in roles)
        )
        if given:
            linear[r] = Linear(m, bias)
    return arguments, Weights(**linear)


def _other_arguments(
    subject: Subject, sizes: Sizes, model: int, keys: int
) -> list[dict[str, Any]] | None:
    """Values for the required parameters that are neither inputs nor weights nor masks."""
    found: dict[str, Any] = {}
    several: list[dict[str, Any]] = [{}]
    ones = np.ones((sizes.queries, sizes.width))
    for p in subject.parameters:
        if p.role in ("heads", "groups", "head_dim", "model_dim", "exact_length", "scale") or (
            p.required and p.role in ("length", "window", "dropout", "training", "causal", "position",
                                      "cache", "returns", "bias", "other")
        ):  # fmt: skip
            if not p.required and p.role not in ("heads", "groups"):
                continue
            value = {
                "heads": sizes.heads, "groups": sizes.groups, "head_dim": sizes.width,
                "model_dim": model, "exact_length": sizes.queries, "length": 16, "window": 3,
                "dropout": 0.0, "training": False, "causal": True, "position": 0, "cache": None,
                "returns": True, "bias": None, "scale": sizes.width**-0.5,
            }.get(p.role)  # fmt: skip
            if p.role == "other":
                if p.name in ("d", "n_dim"):
                    value = sizes.width
                else:
                    value = None
            found[p.name] = value
        elif p.role == "freqs" and (p.required or p.default is None):
            word = p.name.lower()
            half = ones[:, : sizes.width // 2]
            if "cis" in word or "complex" in word:
                options: list[Any] = [half.astype(complex)]
            elif word.startswith("cos"):
                options = [ones, half, ones[None], ones[None, None]]
            elif word.startswith("sin"):
                options = [0 * ones, 0 * half, 0 * ones[None], 0 * ones[None, None]]
            else:
                options = [(ones[None], 0 * ones[None]), (ones, 0 * ones), half.astype(complex)]
            if len(several) == 1:
                several = [dict(several[0]) for _ in options]
            for one, option in zip(several, options, strict=False):
                one[p.name] = option
        elif p.role in ("mask", "pad", "lengths") and p.required:
            found[p.name] = None
    return [{**found, **one} for one in several]
