"""Every cell of the contract: (mask × score × dtype × engine × what torch asks of it).

A cell either agrees with the formula, written out here in torch's own words in float64, or is
refused by name.  Nothing of the library is used to say what is right: masks are arrays made from
predicates, scores are gathered by loops over positions.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch

import regard
from regard.core.engines import flex
from tolerance import EPS, loss, softmax

B, H, G, T, S, D, E = 2, 4, 2, 5, 6, 4, 3
START = S - T
RATE = 0.3
Leaves = dict[str, torch.Tensor]


@dataclass(frozen=True)
class Cell:
    """One combination."""

    mask: str
    score: str
    dtype: str
    engine: str
    asked: str

    def __str__(self) -> str:
        return " ".join((self.engine, self.asked, self.mask, self.score, self.dtype))


_kept = np.random.default_rng(5).random((H, T, S)) < 0.6

MASKS: dict[str, tuple[Callable[[], Any], Callable[[int, int, int, int], bool]]] = {
    "none": (lambda: None, lambda b, h, i, j: True),
    "causal": (regard.causal, lambda b, h, i, j: j <= i),
    "window": (lambda: regard.window(2), lambda b, h, i, j: i - 2 < j <= i),
    "prefix": (
        lambda: regard.causal() | regard.prefix(3),
        lambda b, h, i, j: j <= i or j < 3,
    ),
    "lengths": (lambda: regard.lengths([0, 4]), lambda b, h, i, j: j < (0, 4)[b]),
    "documents": (
        lambda: regard.documents([0, 0, 1, 1, 1, 2]),
        lambda b, h, i, j: (0, 0, 1, 1, 1, 2)[i] == (0, 0, 1, 1, 1, 2)[j],
    ),
    "keep": (
        lambda: regard.keep(torch.tensor(_kept)),
        lambda b, h, i, j: bool(_kept[h, i - START, j]),
    ),
    "where": (
        lambda: regard.where(lambda i, j: (i + 2 * j) % 3 != 0),
        lambda b, h, i, j: (i + 2 * j) % 3 != 0,
    ),
    "and": (
        lambda: regard.causal() & regard.lengths([6, 3], [2, 0]),
        lambda b, h, i, j: j <= i and (2, 0)[b] <= j < (6, 3)[b],
    ),
    "not": (lambda: ~regard.window(before=1, after=1), lambda b, h, i, j: abs(i - j) > 1),
}
"""The mask, and whether (batch entry, head, position of the query, key) is allowed."""

SCORES = ("plain", "scale", "softcap", "bias", "alibi", "relative", "t5", "sum", "sink", "dropout")
DTYPES = ("float16", "bfloat16", "float32", "float64")
ENGINES = ("formula", "tiles", "native", "sdpa", "flex")
ASKED = ("output", "gradient", "second", "forward", "vmap", "compile")


def every() -> Iterator[Cell]:
    """All of them; of flex, which compiles for seconds a cell, every mask and every score.

    In float32 and without a derivative they are every mask with every score for flex too.
    """
    for engine, asked, mask, score, dtype in product(ENGINES, ASKED, MASKS, SCORES, DTYPES):
        whole = engine != "flex" or (asked, dtype) == ("output", "float32")
        if whole or mask == "causal" or score == "plain":
            yield Cell(mask, score, dtype, engine, asked)


def pairwise(engines: tuple[str, ...]) -> list[Cell]:
    """Few cells in which every pair of values from two axes is met: greedy, the same each time."""
    axes = (tuple(MASKS), SCORES, DTYPES, engines, ASKED)
    spots = [(a, b) for a in range(5) for b in range(a)]
    open_pairs = {(a, b, x, y) for a, b in spots for x in axes[a] for y in axes[b]}
    rng, chosen = np.random.default_rng(0), []
    while open_pairs:
        a, b, x, y = min(open_pairs)
        best: tuple[int, list[str]] = (-1, [])
        for _ in range(40):
            row = [axis[int(rng.integers(len(axis)))] for axis in axes]
            row[a], row[b] = x, y
            new = sum((i, j, row[i], row[j]) in open_pairs for i, j in spots)
            best = max(best, (new, row))
        row = best[1]
        open_pairs -= {(i, j, row[i], row[j]) for i, j in spots}
        chosen.append(Cell(*row))
    return chosen


def leaves_of(cell: Cell, seed: int = 0) -> Leaves:
    """The cell's numbers, rounded to its dtype."""
    rng = np.random.default_rng(seed)
    shapes = {"q": (B, H, T, D), "k": (B, G, S, D), "v": (B, G, S, E)}
    more = {
        "bias": {"bias": (B, 1, T, S)},
        "alibi": {"slopes": (H,)},
        "relative": {"table": (H, 5)},
        "t5": {"weight": (8, H)},
        "sum": {"slopes": (H,), "bias": (H, 1, S), "table": (H, 3)},
        "sink": {"sink": (H,)},
    }
    shapes |= more.get(cell.score, {})
    dtype = getattr(torch, cell.dtype)
    return {name: torch.tensor(rng.normal(size=shape)).to(dtype) for name, shape in shapes.items()}


def ours(cell: Cell) -> Callable[..., torch.Tensor]:
    """The cell's call of the library, as a function of its numbers."""
    mask = MASKS[cell.mask][0]()
    options: dict[str, Any] = {
        "scale": {"scale": -0.7},
        "softcap": {"softcap": 1.5},
        "dropout": {"dropout": RATE, "generator": 11},
    }.get(cell.score, {})

    def call(**x: torch.Tensor) -> torch.Tensor:
        bias: Any = None
        if cell.score == "sum":
            bias = regard.alibi(x["slopes"]) + regard.relative(x["table"]) + regard.dense(x["bias"])
        elif cell.score == "alibi":
            bias = regard.alibi(x["slopes"])
        elif cell.score == "relative":
            bias = regard.relative(x["table"])
        elif cell.score == "t5":
            bias = regard.t5_relative(x["weight"], max_distance=4)
        elif cell.score == "bias":
            bias = x["bias"]
        found = regard.attend(
            x["q"],
            x["k"],
            x["v"],
            mask,
            bias=bias,
            sink=x.get("sink"),
            engine=cell.engine,
            **options,
        )
        return torch.as_tensor(found)

    return call


def formula(cell: Cell, wide: torch.dtype, narrow: torch.dtype) -> Callable[..., torch.Tensor]:
    """The formula with scores and sums in ``wide`` and the weights rounded to ``narrow``."""
    allowed = MASKS[cell.mask][1]
    seen = torch.zeros(B, H, T, S, dtype=torch.bool)
    for b, h, t, j in np.ndindex(B, H, T, S):
        seen[b, h, t, j] = allowed(b, h, t + START, j)
    far = torch.tensor([[j - (t + START) for j in range(S)] for t in range(T)])
    kept = _kept_by_dropout() if cell.score == "dropout" else 1.0

    def call(**x: torch.Tensor) -> torch.Tensor:
        w = {name: a.to(wide) for name, a in x.items()}
        k, v = (w[name].repeat_interleave(H // G, 1) for name in "kv")
        s = w["q"] @ k.mT * (-0.7 if cell.score == "scale" else D**-0.5)
        if cell.score == "softcap":
            s = 1.5 * torch.tanh(s / 1.5)
        if "bias" in w:
            s = s + w["bias"]
        if "slopes" in w:
            s = s - w["slopes"][:, None, None] * far.abs()
        if "table" in w:
            n = w["table"].shape[1] // 2
            s = s + w["table"][:, far.clamp(-n, n) + n]
        if "weight" in w:
            s = s + w["weight"].T[:, torch.tensor([[_bucket(int(d)) for d in row] for row in far])]
        if "probe" in w:
            s = s + w["probe"]
        p = softmax(s, seen, w.get("sink")) * kept
        return (p.to(narrow).to(wide) @ v).to(narrow)

    return call


def _bucket(distance: int) -> int:
    """T5's bucket of 8, both ways, with the farthest at 4: 0, 1 | 2, 3 and beyond."""
    after, near = (4 if distance > 0 else 0), abs(distance)
    if near < 2:
        return after + near
    return after + min(3, 2 + int(math.log(near / 2) / math.log(4 / 2) * 2))


def _kept_by_dropout() -> torch.Tensor:
    """What dropout leaves of each weight, read off even weights and unit values."""
    q, k = torch.zeros(B, H, T, 1), torch.zeros(B, G, S, 1)
    one = torch.eye(S).expand(B, G, S, S)
    left = regard.attend(q, k, one, dropout=RATE, generator=11, engine="tiles") * S * (1 - RATE)
    assert set(left.round(decimals=4).unique().tolist()) == {0.0, 1.0}
    return left.double().round() / (1 - RATE)


def ask(cell: Cell, fn: Callable[..., torch.Tensor], leaves: Leaves) -> list[torch.Tensor]:
    """What the cell asks of ``fn``."""
    names = list(leaves)
    if cell.asked == "output":
        return [fn(**leaves)]
    if cell.asked == "forward":
        ahead = leaves_of(cell, 1)
        forward = torch.autograd.forward_ad
        with forward.dual_level(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
            dual = {n: forward.make_dual(a, ahead[n].to(a.dtype)) for n, a in leaves.items()}
            value, tangent = forward.unpack_dual(fn(**dual))
        return [value, tangent]
    if cell.asked == "vmap":
        more = [leaves_of(cell, seed) for seed in (2, 3)]
        stacked = [
            torch.stack([leaves[n], *(m[n].to(leaves[n].dtype) for m in more)]) for n in names
        ]

        def one(*arrays: torch.Tensor) -> torch.Tensor:
            return fn(**dict(zip(names, arrays, strict=True)))

        if fn.__qualname__.startswith("formula"):
            return [torch.stack([one(*(a[i] for a in stacked)) for i in range(3)])]
        return [torch.func.vmap(one, randomness="same")(*stacked)]
    leaves = {name: a.clone().requires_grad_() for name, a in leaves.items()}
    if cell.asked == "compile" and not fn.__qualname__.startswith("formula"):
        torch._dynamo.reset()
        fn = torch.compile(fn, fullgraph=True, backend="aot_eager")
    output = fn(**leaves)
    total = loss(output)
    grads = torch.autograd.grad(total, list(leaves.values()), create_graph=cell.asked == "second")
    if cell.asked != "second":
        return [output, *grads]
    along = leaves_of(cell, 1)
    total = sum((g.double() * along[n].double()).sum() for n, g in zip(names, grads, strict=True))
    return [*grads, *torch.autograd.grad(total, list(leaves.values()))]


def sizes(cell: Cell, leaves: Leaves) -> list[float]:
    """How large the terms are that each score's gradient is a sum of: these may cancel."""
    if cell.asked not in ("gradient", "second", "compile"):
        return [0.0]
    probe = torch.zeros(B, H, T, S, dtype=torch.float64, requires_grad=True)
    output = formula(cell, torch.float64, torch.float64)(**leaves, probe=probe)
    (ds,) = torch.autograd.grad(loss(output), probe)
    far = torch.tensor([[abs(j - (t + START)) for j in range(S)] for t in range(T)])
    term = {"slopes": float((ds.abs() * far).sum((0, 2, 3)).max())}
    most = float(ds.abs().sum((0, 2, 3)).max())
    grads = [term.get(n, 0.0 if n in "qkv" else most) for n in leaves]
    return grads if cell.asked == "second" else [0.0, *grads]


def outcome(cell: Cell) -> str:
    """Either "agrees" or the words of the refusal; an assertion fails if it is wrong."""
    leaves = leaves_of(cell)
    if cell.engine == "flex":  # what it has compiled is held to a number of shapes
        flex._kernel.cache_clear()
        flex.compiled.clear()
        torch._dynamo.reset()
    try:
        found = ask(cell, ours(cell), leaves)
    except regard.EngineError as error:
        return str(error)
    narrow = getattr(torch, cell.dtype)
    double = {name: a.double() for name, a in leaves.items()}
    truth = ask(cell, formula(cell, torch.float64, torch.float64), double)
    sums = torch.float64 if cell.dtype == "float64" else torch.float32
    rounded = ask(cell, formula(cell, sums, narrow), leaves)
    derived = cell.asked in ("gradient", "second", "forward", "compile")
    floors = sizes(cell, double)
    for i, arrays in enumerate(zip(found, truth, rounded, strict=True)):
        got, want, near = (a.detach() for a in arrays)
        error = (near.double() - want).abs().max().item()
        size = max(float(want.abs().max()), 1.0, floors[i % len(floors)] if derived else 0.0)
        bound = (3 if derived and i else 2) * error + 4 * EPS[cell.dtype] * size
        bound = max(bound, 1e-12)
        far = (got.double() - want).abs().max().item()
        assert got.shape == want.shape, f"{cell}: {got.shape}, not {want.shape}"
        assert far <= bound, f"{cell}: array {i} is off by {far:.3g}, allowed {bound:.3g}"
    return "agrees"
