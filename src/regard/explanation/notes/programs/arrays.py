"""What NumPy's and PyTorch's functions do to arrays, and to those of which only the shape is known.

Random numbers are such arrays: their shapes can be followed, their numbers not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.core import formula
from regard.explanation.notes.mathematics.parsing import NotUnderstood

MOST = 200_000
"""Numbers of an array that is still followed number by number."""


@dataclass(frozen=True)
class Ghost:
    """An array of which only the shape is known."""

    shape: tuple[int, ...]
    whole: int | None = None
    """The axis, counted from the last, along which its numbers are weights that sum to 1."""


Value = Any
"""A number, a text, a tuple, an array, a ghost, a layer or a function of the note."""


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of an array, a ghost, a number or a list of numbers."""
    return value.shape if isinstance(value, Ghost) else array(value).shape


def array(value: Value) -> Any:
    """``value`` as NumPy's array; a ghost is one without memory."""
    if isinstance(value, Ghost):
        return np.broadcast_to(np.float64(np.nan), value.shape)
    found = np.asarray(value)
    if found.dtype == object:
        raise NotUnderstood("array")
    if found.size > MOST:
        raise NotUnderstood("it is too large")
    return found


def has_ghost(*values: Value) -> bool:
    """Whether one of ``values`` is a ghost, or holds one."""
    return any(
        isinstance(each, Ghost)
        or (isinstance(each, list | tuple) and has_ghost(*each))
        for each in values
    )  # fmt: skip


def each_number(function: Callable[..., Any]) -> Callable[..., Value]:
    """``function`` of numbers, number by number."""

    def apply(*values: Value) -> Value:
        if has_ghost(*values):
            return Ghost(np.broadcast_shapes(*map(shape_of, values)))
        with np.errstate(all="ignore"):
            return function(*map(array, values))

    return apply


def viewing(function: Callable[..., Any]) -> Callable[..., Value]:
    """``function`` that only puts numbers elsewhere."""

    def apply(value: Value, *rest: Any, **words: Any) -> Value:
        found = function(array(value), *rest, **words)
        if not isinstance(value, Ghost):
            return found
        if isinstance(found, list | tuple):
            return tuple(Ghost(each.shape) for each in found)
        return Ghost(found.shape)

    return apply


def reducing(function: Callable[..., Any]) -> Callable[..., Value]:
    """``function`` that makes one number of an axis, or of all."""

    def apply(value: Value, axis: Any = None, keepdims: bool = False, **words: Any) -> Value:
        if not isinstance(value, Ghost):
            with np.errstate(all="ignore"):
                return function(array(value), axis=axis, keepdims=keepdims, **words)
        dims = len(value.shape)
        axes = range(dims) if axis is None else [axis] if isinstance(axis, int) else axis
        gone = {a % dims for a in axes}
        if function is np.sum and value.whole is not None and gone == {value.whole % dims}:
            return function(
                np.full(value.shape, 1 / value.shape[value.whole]),
                axis=value.whole,
                keepdims=keepdims,
            )
        sizes = [1 if i in gone else size for i, size in enumerate(value.shape)]
        return Ghost(tuple(s for i, s in enumerate(sizes) if keepdims or i not in gone))

    return apply


def product(a: Value, b: Value) -> Value:
    """``a @ b``, also of vectors and of batches."""
    if not has_ghost(a, b):
        return array(a) @ array(b)
    first, second = shape_of(a), shape_of(b)
    one, other = (1, *first) if len(first) == 1 else first, second
    other = (*second, 1) if len(second) == 1 else second
    if one[-1] != other[-2]:
        raise NotUnderstood("the shapes do not fit")
    shape = [*np.broadcast_shapes(one[:-2], other[:-2]), one[-2], other[-1]]
    if len(second) == 1:
        del shape[-1]
    if len(first) == 1:
        del shape[-1 if len(second) == 1 else -2]
    return Ghost(tuple(shape))


def softmax(value: Value, axis: int = -1) -> Value:
    """Softmax over an axis, the last one where none is named."""
    if isinstance(value, Ghost):
        return Ghost(value.shape, axis - len(value.shape) if axis >= 0 else axis)
    turned = np.moveaxis(array(value).astype(float), axis, -1)
    return np.moveaxis(np.asarray(formula.normalise(turned)[0]), -1, axis)


def attention(
    q: Value, k: Value, v: Value, attn_mask: Value = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None,
) -> Value:  # fmt: skip
    """``scaled_dot_product_attention``, in which True keeps."""
    scores = product(q, viewing(np.swapaxes)(k, -1, -2))
    if has_ghost(scores, v) or has_ghost(attn_mask):
        return product(scores if isinstance(scores, Ghost) else Ghost(scores.shape), v)
    scores = scores * (shape_of(q)[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:])) > 0, scores, -np.inf)
    elif attn_mask is not None:
        mask = array(attn_mask)
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return softmax(scores) @ array(v)


def einsum(pattern: str, *values: Value) -> Value:
    """Einstein's sum, of ghosts by its letters."""
    if not has_ghost(*values):
        return np.einsum(pattern, *map(array, values))
    inputs, _, output = pattern.replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for letters, value in zip(inputs.split(","), values, strict=True):
        sizes.update(zip(letters, shape_of(value), strict=True))
    return Ghost(tuple(sizes[letter] for letter in output))


def reshape(value: Value, *sizes: Any) -> Value:
    """The same numbers in another shape; one size may be −1."""
    wanted = _sizes(sizes)
    if not isinstance(value, Ghost):
        return array(value).reshape(wanted)
    known = math.prod(s for s in wanted if s != -1)
    whole = math.prod(value.shape)
    if (-1 not in wanted and known != whole) or not known or whole % known:
        raise NotUnderstood("the sizes do not fit")
    return Ghost(tuple(whole // known if s == -1 else s for s in wanted))


def flatten(value: Value, start: int = 0) -> Value:
    """The axes from ``start`` on as one."""
    shape = shape_of(value)
    return reshape(value, (*shape[:start], -1))


def transpose(value: Value, *axes: Any) -> Value:
    """PyTorch's swap of two axes, NumPy's order of all of them, or all turned round."""
    axes = _sizes(axes)
    if len(axes) == 2:
        return viewing(np.swapaxes)(value, *axes)
    return viewing(np.transpose)(value, axes or None)


def permute(value: Value, *axes: Any) -> Value:
    """The axes in another order."""
    return viewing(np.transpose)(value, _sizes(axes))


def joined(function: Callable[..., Any]) -> Callable[..., Value]:
    """``function`` that puts arrays together."""

    def apply(values: Sequence[Value], axis: int = 0) -> Value:
        if not has_ghost(*values) and sum(math.prod(shape_of(each)) for each in values) > MOST:
            raise NotUnderstood("it is too large")
        if has_ghost(*values):
            return _joined_shape(function, [shape_of(each) for each in values], axis)
        return function([array(each) for each in values], axis=axis)

    return apply


def _joined_shape(function: Callable[..., Any], shapes: list[tuple[int, ...]], axis: int) -> Ghost:
    """The shape that ``function`` makes of arrays of these shapes."""
    if function is np.concatenate and len({len(shape) for shape in shapes}) == 1:
        rest = {(*shape[:axis], *shape[axis:][1:]) for shape in shapes}
        if len(rest) == 1:
            long = sum(shape[axis] for shape in shapes)
            return Ghost(
                tuple(long if i == axis % len(shapes[0]) else n for i, n in enumerate(shapes[0]))
            )
    if sum(map(math.prod, shapes)) > MOST:
        raise NotUnderstood("it is too large")
    return Ghost(function([np.empty(shape) for shape in shapes], axis=axis).shape)


def filled(value: Value, mask: Value, number: float) -> Value:
    """``masked_fill``: ``number`` where the mask is true."""
    if has_ghost(value, mask):
        return Ghost(np.broadcast_shapes(shape_of(value), shape_of(mask)))
    return np.where(array(mask).astype(bool), number, array(value))


def new(function: Callable[..., Any]) -> Callable[..., Value]:
    """``function`` that makes an array of a shape."""

    def apply(*sizes: Any, **words: Any) -> Value:
        shape = _sizes(sizes)
        return Ghost(shape) if math.prod(shape) > MOST else function(shape)

    return apply


def random(*sizes: Any, size: Any = None, **words: Any) -> Value:
    """Random numbers: nobody knows which."""
    shape = _sizes([size] if size is not None else sizes)
    return Ghost(shape) if shape else np.nan


def drawn(*bounds: Any, size: Any = None, **words: Any) -> Value:
    """Random numbers whose arguments are bounds, or a mean and a deviation, and then a shape."""
    if size is None and bounds and isinstance(bounds[-1], tuple | list):
        size = bounds[-1]
    return Ghost(_sizes([size])) if size is not None else np.nan


def _sizes(sizes: Sequence[Any]) -> tuple[int, ...]:
    if len(sizes) == 1 and isinstance(sizes[0], tuple | list):
        sizes = sizes[0]
    found = tuple(int(size) for size in sizes)
    if math.prod(max(size, 1) for size in found) > 10**12:
        raise NotUnderstood("it is too large")
    return found


def _same(value: Value, *rest: Any, **words: Any) -> Value:
    return value


def _whole(value: Value, *rest: Any, **words: Any) -> Value:
    return each_number(lambda a: a.astype(int))(value)


def of_kind(value: Value, kind: Any) -> Value:
    """``value`` as truths or as whole numbers, where ``kind`` says so."""
    name = str(getattr(kind, "name", getattr(kind, "__name__", kind)))
    if name in ("bool", "bool_"):
        return each_number(lambda a: a.astype(bool))(value)
    return _whole(value) if name in ("int", "long", "int32", "int64") else value


def _log_softmax(value: Value, axis: int = -1) -> Value:
    return each_number(np.log)(softmax(value, axis))


def _chunk(value: Value, parts: int, axis: int = 0) -> Value:
    return viewing(np.array_split)(value, parts, axis)


def _split(value: Value, size: Any, axis: int = 0) -> Value:
    cuts = (
        range(size, shape_of(value)[axis], size) if isinstance(size, int) else np.cumsum(size)[:-1]
    )
    return viewing(np.split)(value, list(cuts), axis)


def _erf(value: Any) -> Any:
    return np.vectorize(math.erf, otypes=[float])(value)


def _numbers_like(number: float) -> Callable[..., Value]:
    return lambda value, **words: new(lambda shape: np.full(shape, number))(shape_of(value))


SAME = (
    "contiguous", "detach", "float", "double", "numpy", "cpu", "cuda", "half", "round",
    "requires_grad_", "from_numpy", "as_tensor", "asarray", "array", "tensor", "FloatTensor", "Tensor", "eval", "train", "bfloat16",
    "around", "squeeze_", "dropout", "array2string",
)  # fmt: skip
FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    **{name: each_number(getattr(np, name)) for name in ("exp", "log", "log2", "log10", "sqrt", "sin", "cos", "tanh", "floor", "ceil", "maximum", "minimum", "isinf", "isnan", "where", "square", "logical_not")},
    **{name: reducing(getattr(np, name)) for name in ("sum", "mean", "max", "min", "prod", "any", "all", "argmax", "argmin")},
    **dict.fromkeys(SAME, _same), **dict.fromkeys(("clone", "copy"), lambda value, **words: value.copy() if isinstance(value, list | dict | np.ndarray) else value), **dict.fromkeys(("long", "int", "int64"), _whole),
    **dict.fromkeys(("randn", "rand", "standard_normal", "random"), random),
    **dict.fromkeys(("normal", "uniform", "randint", "integers", "randperm", "choice", "randn_like", "rand_like", "multinomial"), drawn),
    **dict.fromkeys(("to", "astype", "type"), lambda value, *rest, **words: of_kind(value, rest[0] if rest else words.get("dtype"))), "abs": each_number(np.abs), "sigmoid": each_number(lambda a: 1 / (1 + np.exp(-a))), "relu": each_number(lambda a: np.maximum(a, 0)),
    "gelu": each_number(lambda a: 0.5 * a * (1 + _erf(a / math.sqrt(2)))), "pow": each_number(np.power), "power": each_number(np.power), "erf": each_number(_erf),
    "bool": each_number(lambda a: a.astype(bool)), "mul": each_number(np.multiply), "add": each_number(np.add), "div": each_number(np.divide), "sub": each_number(np.subtract),
    "rad2deg": each_number(np.rad2deg), "deg2rad": each_number(np.deg2rad), "radians": each_number(np.radians), "degrees": each_number(np.degrees),
    "amax": reducing(np.max), "amin": reducing(np.min), "nanmean": reducing(np.nanmean),
    "softmax": softmax, "log_softmax": _log_softmax, "matmul": product, "bmm": product, "mm": product, "dot": product, "mv": product, "inner": lambda a, b: product(a, transpose(b)),
    "vdot": product, "outer": lambda a, b: product(reshape(a, -1, 1), reshape(b, 1, -1)), "einsum": einsum,
    "scaled_dot_product_attention": attention, "reshape": reshape, "view": reshape, "flatten": flatten, "ravel": flatten,
    "transpose": transpose, "permute": permute, "swapaxes": viewing(np.swapaxes), "t": transpose, "moveaxis": viewing(np.moveaxis),
    "unsqueeze": viewing(np.expand_dims), "expand_dims": viewing(np.expand_dims), "squeeze": viewing(np.squeeze),
    "tril": viewing(np.tril), "triu": viewing(np.triu), "diag": viewing(np.diag), "diagonal": viewing(np.diagonal), "expand": lambda value, *sizes: viewing(np.broadcast_to)(value, _sizes(sizes)),
    "chunk": _chunk, "split": _split, "roll": viewing(np.roll), "flip": viewing(np.flip), "trace": viewing(np.trace), "cumsum": viewing(np.cumsum), "sort": viewing(np.sort), "repeat_interleave": viewing(np.repeat),
    "cat": joined(np.concatenate), "concat": joined(np.concatenate), "concatenate": joined(np.concatenate), "stack": joined(np.stack),
    "vstack": joined(lambda values, axis: np.vstack(values)), "hstack": joined(lambda values, axis: np.hstack(values)), "column_stack": joined(lambda values, axis: np.column_stack(values)),
    "masked_fill": filled, "masked_fill_": filled, "zeros": new(np.zeros), "ones": new(np.ones), "empty": new(lambda shape: np.full(shape, np.nan)), "zeros_like": _numbers_like(0.0), "ones_like": _numbers_like(1.0),
    "full_like": lambda value, number, **words: _numbers_like(number)(value), "full": lambda shape, number, **words: new(lambda s: np.full(s, number))(shape),
    "eye": lambda n, *rest, **words: np.eye(min(int(n), 400)), "identity": lambda n: np.eye(min(int(n), 400)), "arange": lambda *bounds, **words: array(range(*bounds)) if all(isinstance(b, int) for b in bounds) else np.arange(*bounds),
    "linspace": lambda *bounds, **words: np.linspace(*bounds), "norm": lambda value, axis=None, keepdims=False: each_number(np.sqrt)(reducing(np.sum)(each_number(np.square)(value), axis, keepdims)),
    "item": lambda value: array(value).item() if not isinstance(value, Ghost) else np.nan, "tolist": lambda value: value, "size": lambda value, axis=None: shape_of(value) if axis is None else shape_of(value)[axis],
    "numel": lambda value: math.prod(shape_of(value)), "dim": lambda value: len(shape_of(value)), "count_nonzero": reducing(np.count_nonzero),
    "allclose": lambda a, b, **words: None if has_ghost(a, b) else bool(np.allclose(array(a), array(b), **words)), "array_equal": lambda a, b: None if has_ghost(a, b) else bool(np.array_equal(array(a), array(b))),
    "equal": lambda a, b: None if has_ghost(a, b) else bool(np.array_equal(array(a), array(b))), "factorial": math.factorial,
}  # fmt: skip
"""By the names that both libraries use; ``dim`` is called axis."""
