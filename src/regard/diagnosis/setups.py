"""Every way to call a subject that its signature allows: arguments, and the same in the reference's terms."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.diagnosis.calling import HEADED, Setup, forms, layouts_of, place
from regard.diagnosis.hypotheses import scales
from regard.diagnosis.reference import Array, Case, Linear, Weights
from regard.diagnosis.roles import parameter_role, weight_role
from regard.diagnosis.subject import Parameter, Sizes, Subject
from regard.diagnosis.weights import Found


def setups(
    subject: Subject, found: Found, *, said: str | None, seed: int, queries: int, keys: int
) -> Iterator[Setup]:
    """Every way to call the subject that its signature allows, the likeliest first."""
    argument_weights = [p for p in subject.parameters if p.role in WEIGHT_ROLES]
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
            if (r := parameter_role(k)) in WEIGHT_ROLES or (r := _bare(k))
        }
        if roles:
            return p, roles, bool(keys)
    return None


def _bare(key: str) -> str:
    role = weight_role(key)
    return f"w{role}" if role else ""


WEIGHT_ROLES = ("wq", "wk", "wv", "wo", "wqkv", "wkv", "bq", "bk", "bv", "bo")


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
        args = [p for p in subject.parameters if p.role in WEIGHT_ROLES]
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
        yield Setup(layout, form, {**more, **arguments}, case, names, seed, variant)


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
                value = sizes.width if p.name in ("d", "n_dim") else None
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
