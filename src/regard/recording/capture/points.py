"""Attention that is computed by hand: where its queries and keys are to be found."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from regard._errors import KindError, ShapeError, ValueRangeError
from regard._shapes import count
from regard.recording.capture.calls import Found, Masks, Unreadable
from regard.rules import Mask

if TYPE_CHECKING:
    from regard.recording.capture.writer import Writer

ORDERS = ("3HD", "H3D")


@dataclass(frozen=True)
class Point:
    """How a module that computes attention by hand gets its queries and keys.

    Either by two modules, ``q`` and ``k``, or by one that gives queries, keys and values, ``qkv``;
    each is named as the module's attribute, and gives (B, T, features).

    ::

        weights = softmax( scale · q kᵀ  (masked) )

    Args:
        q, k: such as ``"q_proj"`` and ``"k_proj"``: H · D and G · D features, head after head.
        qkv: such as ``"qkv"``, in place of both.
        heads: H, how many heads the queries have.
        key_heads: G, how many the keys have; H unless given.
        order: how the features of ``qkv`` lie: ``"3HD"`` all queries, all keys, all values, as in
            GPT-2 and timm; ``"H3D"`` head after head, as in GPT-NeoX and BLOOM.
        mask: who may attend to whom; all unless given.
        scale: 1/√D unless given.

    Raises:
        KindError, ValueRangeError: an argument that does not fit, by its name.

    >>> import regard, torch
    >>> class ByHand(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.qkv = torch.nn.Linear(8, 24)
    ...     def forward(self, x):
    ...         q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
    ...         return ((q @ k.mT / 2).softmax(-1) @ v).transpose(1, 2).flatten(2)
    >>> model = torch.nn.Sequential(ByHand(), ByHand())
    >>> points = {"*": regard.Point(qkv="qkv", heads=2)}
    >>> with torch.no_grad(), regard.watch(model, points=points) as seen:
    ...     _ = model(torch.randn(1, 5, 8))
    >>> len(seen), seen[1].weights.shape
    (2, (1, 2, 5, 5))
    """

    q: str | None = None
    k: str | None = None
    qkv: str | None = None
    heads: int = 1
    key_heads: int | None = None
    order: str = "3HD"
    mask: Mask | None = None
    scale: float | None = None

    def __post_init__(self) -> None:
        named = (self.q is not None, self.k is not None, self.qkv is not None)
        if named not in ((True, True, False), (False, False, True)):
            raise ValueRangeError(
                "a Point takes the names of two modules, q and k, or that of one, qkv, but "
                f"q={self.q!r}, k={self.k!r}, qkv={self.qkv!r} came"
            )
        count("heads", self.heads, at_least=1)
        if self.key_heads is not None:
            count("key_heads", self.key_heads, at_least=1)
        if self.order not in ORDERS:
            raise ValueRangeError(f"order must be '3HD' or 'H3D', but {self.order!r} came")

    @property
    def parts(self) -> list[str]:
        """The names of the modules whose outputs are wanted."""
        return [name for name in (self.q, self.k, self.qkv) if name is not None]

    def read(self, outputs: Mapping[str, Any]) -> Found:
        """What those modules gave, as queries and keys."""
        missing = [name for name in self.parts if name not in outputs]
        if missing:
            raise Unreadable(f"its part {missing[0]!r} did not run, which a Point waits for")
        if self.qkv is not None:
            flat = outputs[self.qkv]
            _check(self.qkv, flat, 3 * self.heads)
            if self.order == "3HD":
                q, k, _ = flat.unflatten(-1, (3, self.heads, -1)).unbind(-3)
            else:
                q, k, _ = flat.unflatten(-1, (self.heads, 3, -1)).unbind(-2)
        else:
            assert self.q is not None
            assert self.k is not None
            q, k = outputs[self.q], outputs[self.k]
            groups = self.key_heads or self.heads
            _check(self.q, q, self.heads)
            _check(self.k, k, groups)
            q, k = q.unflatten(-1, (self.heads, -1)), k.unflatten(-1, (groups, -1))
        scale = {} if self.scale is None else {"scale": self.scale}
        return Found(q.transpose(-3, -2), k.transpose(-3, -2), self.mask, None, scale)


def _check(name: str, given: Any, parts: int) -> None:
    if getattr(given, "ndim", 0) != 3 or given.shape[-1] % parts:
        shape = tuple(getattr(given, "shape", ())) or type(given).__name__
        raise ShapeError(
            f"the output of {name!r} must be (B, T, features) with features a multiple of {parts}, "
            f"but it is {shape}"
        )


def place(writer: Writer, points: Mapping[str, Any]) -> list[Any]:
    """Hooks on every module that a pattern of ``points`` fits."""
    hooks: list[Any] = []
    for pattern, point in points.items():
        if not isinstance(point, Point) and not callable(point):
            raise KindError(
                f"points[{pattern!r}] must be a Point or a function (module, inputs, output) -> "
                f"(q, k, mask), but it is a {type(point).__name__}"
            )
        found = [m for m, name in writer.names.items() if _fits(name, pattern)]
        if not found:
            some = ", ".join(repr(name) for name in list(writer.names.values())[1:6])
            raise ValueRangeError(
                f"points: no module's name fits {pattern!r} ('*' is any one part of a name); names "
                f"in this model are such as {some}"
            )
        for module in found:
            hooks += _watched(writer, module, point)
    return hooks


def _fits(name: str, pattern: str) -> bool:
    if not name:  # the model itself
        return not pattern
    parts, wanted = name.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _watched(writer: Writer, module: Any, point: Any) -> list[Any]:
    """The hooks that note ``module``'s calls as ``point`` says."""
    here = writer.here
    names = _parts(writer.names[module], module, point) if isinstance(point, Point) else {}
    signature = inspect.signature(module.forward)

    def begin(*_: Any) -> None:
        here.owners = (*here.owners, (module, {}))

    def part(which: Any, _args: Any, output: Any) -> None:
        if here.owners:
            here.owners[-1][1][names[which]] = output.detach()

    def end(_module: Any, args: Any, kwargs: Any, output: Any) -> None:
        if not here.owners or here.owners[-1][0] is not module:
            return
        outputs = here.owners[-1][1]
        here.owners = here.owners[:-1]
        if output is None:  # it raised
            return

        def read(masks: Masks, *_: Any) -> Found:
            if isinstance(point, Point):
                return point.read(outputs)
            return _given(point(module, signature.bind(*args, **kwargs).arguments, output))

        writer.note(module, read, (), {})

    return [
        module.register_forward_pre_hook(begin),
        *(one.register_forward_hook(part) for one in names),
        module.register_forward_hook(end, with_kwargs=True, always_call=True),
    ]


def _parts(name: str, module: Any, point: Point) -> dict[Any, str]:
    """The modules that a point names, and how."""
    found = {}
    for part in point.parts:
        try:
            found[module.get_submodule(part)] = part
        except AttributeError:
            has = ", ".join(repr(child) for child, _ in module.named_children()) or "none"
            raise ValueRangeError(
                f"points: {name!r} ({type(module).__name__}) has no module {part!r}; it has {has}"
            ) from None
    return found


def _given(found: Any) -> Found:
    """What a user's function gave."""
    sizes = (2, 3, 4)
    if not isinstance(found, tuple) or len(found) not in sizes:
        raise KindError(
            "a point's function must return (q, k), (q, k, mask) or (q, k, mask, options), but it "
            f"returned a {type(found).__name__}"
        )
    q, k, *rest = found
    mask = rest[0] if rest else None
    options = dict(rest[1]) if len(rest) > 1 else {}
    for name, array in (("q", q), ("k", k)):
        if getattr(array, "ndim", 0) != 4:
            raise ShapeError(
                f"a point's {name} must be (B, heads, length, D), but its shape is "
                f"{tuple(getattr(array, 'shape', ()))}"
            )
    start = options.pop("start", None)
    return Found(q.detach(), k.detach(), mask, start, options)
