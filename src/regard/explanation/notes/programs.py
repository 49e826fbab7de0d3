"""Shapes of arrays, followed through a program.

Nothing is run: a view, a transposition and a matrix product tell their shapes by themselves.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

import numpy as np

from regard.explanation.notes.algebra import Names
from regard.explanation.notes.claim import Verdict
from regard.explanation.notes.layouts import Shape, compared, split_shape

_NEW = ("randn", "rand", "zeros", "ones", "empty", "standard_normal", "random", "normal", "uniform")
_SAME = (
    "softmax", "exp", "tanh", "relu", "gelu", "sigmoid", "dropout", "masked_fill", "contiguous", "float", "double",
    "round", "copy", "clone", "detach", "sqrt", "cos", "sin", "tril", "triu", "to", "half", "abs", "log_softmax", "layer_norm",
)  # fmt: skip
_COMMENT = re.compile(
    r"^\W*(?:(?:the )?shape\s*(?:is|:|=)?|形状\s*[为是:：]?|->|→|=>)?\s*(?:torch\.Size\(\[(?P<size>[^\]]*)\]\)|\((?P<plain>[\w, ×x*/]+)\)|\[(?P<list>\d+(?:, ?\d+)+)\](?=\s*$))\s*(?:$|[,，;；:：.。—-]|\s[\u4e00-\u9fff(a-z])"
)


class _Unknown(Exception):
    """A shape that cannot be told."""


def check_code_shapes(first: int, code: str, names: Names) -> list[Verdict]:
    """A verdict for each shape that a comment of a program tells."""
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return []
    lines = code.split("\n")
    reader = _Reader(names)
    found: list[Verdict] = []
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.Expr | ast.AnnAssign):
            continue
        shape = reader.statement(node)
        if node.end_lineno is None:
            continue
        said = lines[node.end_lineno - 1]
        comment = said.partition("#")[2]
        match = _COMMENT.match(comment)
        if shape is None or not match:
            continue
        claimed = split_shape(match["size"] or match["plain"] or match["list"])
        verdict = compared(first + node.end_lineno - 1, said.strip(), claimed, shape, names)
        if verdict:
            found.append(verdict)
    return found


class _Reader:
    """The shapes of a program's names, statement by statement."""

    def __init__(self, names: Names) -> None:
        self.names = names

    def statement(self, node: ast.stmt) -> Shape | None:
        """What the statement makes, or shows."""
        assert isinstance(node, ast.Assign | ast.Expr | ast.AnnAssign)
        source = node.value
        if isinstance(node, ast.Expr):
            assert source is not None
            if (
                isinstance(source, ast.Call)
                and isinstance(source.func, ast.Name)
                and source.func.id == "print"
                and source.args
            ):
                source = source.args[0]
            if isinstance(source, ast.Attribute) and source.attr == "shape":
                source = source.value
            return self._tell(source)
        assert not isinstance(node, ast.Expr)
        shape = self._tell(source) if source is not None else None
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name):
                self.names.shapes.pop(target.id, None)
                if isinstance(source, ast.Call) and (layer := self._layer(source)):
                    self.names.shapes[target.id] = layer
                    shape = None
                elif shape is not None:
                    self.names.shapes[target.id] = shape
            elif isinstance(target, ast.Tuple):
                self._unpack(target, source)
                shape = None
        return shape

    def _unpack(self, target: ast.Tuple, source: ast.expr | None) -> None:
        parts: Sequence[str] = ()
        if isinstance(source, ast.Attribute) and source.attr == "shape":
            parts = self._tell(source.value) or ()
        for i, each in enumerate(target.elts):
            if isinstance(each, ast.Name):
                self.names.shapes.pop(each.id, None)
                if i < len(parts) and len(parts) == len(target.elts) and parts[i].isdigit():
                    self.names.tell(each.id, np.array(float(parts[i])))

    def _tell(self, node: ast.expr) -> Shape | None:
        try:
            return self._shape(node)
        except (_Unknown, IndexError, ValueError):
            return None

    def _layer(self, node: ast.Call) -> Shape | None:
        """``nn.Linear(a, b)``, remembered by what it makes of the last axis."""
        name = _name(node.func)
        try:
            if name == "Linear" and len(node.args) >= 2:
                return ("->", self._size(node.args[0]), self._size(node.args[1]))
            if name == "Embedding" and len(node.args) >= 2:
                return ("+>", self._size(node.args[1]))
        except _Unknown:
            return None
        return None

    def _size(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return str(node.value)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return f"-{self._size(node.operand)}"
        if isinstance(node, ast.Name) and node.id in self.names.values:
            found = self.names.values[node.id]
            if found.ndim == 0 and found == int(found):
                return str(int(found))
        if isinstance(node, ast.BinOp):
            a, b = int(self._size(node.left)), int(self._size(node.right))
            if isinstance(node.op, ast.Mult):
                return str(a * b)
            if isinstance(node.op, ast.FloorDiv) and b:
                return str(a // b)
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.value, ast.Attribute)
            and node.value.attr == "shape"
        ):
            return self._shape(node.value.value)[int(self._size(node.slice))]
        if (
            isinstance(node, ast.Call)
            and _name(node.func) == "size"
            and isinstance(node.func, ast.Attribute)
            and node.args
        ):
            return self._shape(node.func.value)[int(self._size(node.args[0]))]
        raise _Unknown

    def _sizes(self, nodes: Sequence[ast.expr]) -> Shape:
        if len(nodes) == 1 and isinstance(nodes[0], ast.Tuple | ast.List):
            nodes = nodes[0].elts
        return tuple(self._size(each) for each in nodes)

    def _shape(self, node: ast.expr) -> Shape:
        if isinstance(node, ast.Name):
            found = self.names.shapes.get(node.id)
            if found is None and node.id in self.names.values:
                return tuple(map(str, self.names.values[node.id].shape))
            if found is None or found[:1] in (("->",), ("+>",)):
                raise _Unknown
            return found
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            return ()
        if isinstance(node, ast.UnaryOp):
            return self._shape(node.operand)
        if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            shape = self._shape(node.value)
            return shape[::-1] if node.attr == "T" else (*shape[:-2], shape[-1], shape[-2])
        if isinstance(node, ast.BinOp):
            if isinstance(node.op, ast.MatMult):
                return _product(self._shape(node.left), self._shape(node.right))
            return self._both(node.left, node.right)
        if isinstance(node, ast.Call):
            return self._called(node)
        raise _Unknown

    def _both(self, left: ast.expr, right: ast.expr) -> Shape:
        shapes = []
        for each in (left, right):
            try:
                shapes.append(self._shape(each))
            except _Unknown:  # a number that is not known, beside an array
                if isinstance(
                    each, ast.Call | ast.BinOp | ast.Name | ast.Attribute
                ) and not _is_scalar(each):
                    raise
                shapes.append(())
        return _spread(*shapes)

    def _called(self, node: ast.Call) -> Shape:  # noqa: PLR0912
        name = _name(node.func)
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        method = (
            of is not None
            and not (isinstance(of, ast.Name) and of.id in ("torch", "np", "F", "numpy"))
            and not isinstance(of, ast.Attribute)
        )
        args = node.args
        if (
            isinstance(node.func, ast.Name)
            and (layer := self.names.shapes.get(node.func.id))
            and args
        ):
            shape = self._shape(args[0])
            if layer[0] == "->" and shape[-1] == layer[1]:
                return (*shape[:-1], layer[2])
            if layer[0] == "+>":
                return (*shape, layer[1])
            raise _Unknown
        if name in _NEW and args and not method:
            return self._sizes(args)
        if name in ("eye",) and args:
            return (self._size(args[0]),) * 2
        if name == "arange" and len(args) == 1:
            return (self._size(args[0]),)
        if name in ("tensor", "array", "asarray") and args:
            return _of_list(args[0])
        if method and of is not None:
            args, subject = node.args, of
        elif args:
            subject, args = args[0], args[1:]
        else:
            raise _Unknown
        if name in ("matmul", "bmm", "dot", "mm") and args:
            return _product(self._shape(subject), self._shape(args[0]))
        shape = self._shape(subject)
        if name in _SAME:
            return shape
        if name in ("view", "reshape"):
            return _viewed(shape, self._sizes(args))
        if name in ("transpose", "swapaxes") and len(args) == 2:
            a, b = (int(self._size(each)) for each in args)
            axes = list(range(len(shape)))
            axes[a], axes[b] = axes[b], axes[a]
            return tuple(shape[i] for i in axes)
        if name in ("permute", "transpose") and len(args) == len(shape):
            return tuple(shape[int(each)] for each in self._sizes(args))
        if name == "unsqueeze" and args:
            place = int(self._size(args[0]))
            place += len(shape) + 1 if place < 0 else 0
            return (*shape[:place], "1", *shape[place:])
        raise _Unknown


def _name(node: ast.expr) -> str:
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def _is_scalar(node: ast.expr) -> bool:
    """``math.sqrt(d)``, ``d ** 0.5``, ``k.shape[-1]`` and a lone name of a size."""
    text = ast.unparse(node)
    return (
        re.fullmatch(
            r"(?:math|np)\.sqrt\([\w.\[\]()-]+\)|[\w.\[\]()-]+ \*\* -?0\.5|d_?\w*|scale|\w+\.size\(-1\) \*\* 0\.5",
            text,
        )
        is not None
    )


def _of_list(node: ast.expr) -> Shape:
    shape: list[str] = []
    while isinstance(node, ast.List | ast.Tuple) and node.elts:
        shape.append(str(len(node.elts)))
        node = node.elts[0]
    if not shape:
        raise _Unknown
    return tuple(shape)


def _product(a: Shape, b: Shape) -> Shape:
    if len(a) < 2 or len(b) < 2:
        if len(a) == 2 and len(b) == 1 and a[1] == b[0]:
            return a[:1]
        raise _Unknown
    if a[-1] != b[-2]:
        raise _Unknown
    return (*_spread(a[:-2], b[:-2]), a[-2], b[-1])


def _spread(a: Shape, b: Shape) -> Shape:
    size = max(len(a), len(b))
    a, b = (("1",) * (size - len(each)) + each for each in (a, b))
    if any(x != y and "1" not in (x, y) for x, y in zip(a, b, strict=True)):
        raise _Unknown
    return tuple(y if x == "1" else x for x, y in zip(a, b, strict=True))


def _viewed(shape: Shape, sizes: Shape) -> Shape:
    if "-1" not in sizes:
        return sizes
    if not all(each.isdigit() for each in (*shape, *(s for s in sizes if s != "-1"))):
        raise _Unknown
    rest = int(np.prod([int(each) for each in shape])) // max(
        int(np.prod([int(s) for s in sizes if s != "-1"])), 1
    )
    return tuple(str(rest) if each == "-1" else each for each in sizes)
