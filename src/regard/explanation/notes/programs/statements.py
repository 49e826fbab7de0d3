"""A note's programs followed by reading them: what each statement makes and what it prints.

Nothing is run: a small reader of Python's tree knows the arithmetic of NumPy and PyTorch and nothing
of files, processes or time.  What it does not know stays unknown, with all that comes of it.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Mapping

from regard.explanation.notes.mathematics.parsing import NotUnderstood
from regard.explanation.notes.programs.arrays import Value
from regard.explanation.notes.programs.calling import Caller
from regard.explanation.notes.programs.evaluating import (
    LIBRARIES,
    Function,
    Instance,
    Library,
    Made,
    Returned,
)

FAULTS = (
    NotUnderstood,
    ArithmeticError,
    ValueError,
    TypeError,
    IndexError,
    KeyError,
    AttributeError,
    RecursionError,
    StopIteration,
)


class Program(Caller):
    """A note's programs, block after block."""

    def read(
        self, tree: list[ast.stmt], source: str, first: int, given: Mapping[str, Value]
    ) -> list[Made]:
        """What the statements of a block make, and print, in order."""
        self.given, self.out = given, []
        self.torch = re.search(r"\btorch\b", source) is not None
        for node in tree:
            count = len(self.out)
            try:
                value = self.statement(node, self.env)
            except FAULTS:
                value = NotUnderstood
                lost = _changed(node) | _handed_on(node, self.env)
                self.env.update(dict.fromkeys(lost, NotUnderstood))
                if _prints(node):
                    self.out.append(
                        Made(node.end_lineno or node.lineno, "print", NotUnderstood, printed=True)
                    )
            except Returned:
                continue
            if len(self.out) == count and isinstance(
                node, ast.Expr | ast.Assign | ast.AnnAssign | ast.AugAssign
            ):
                written = node.value if node.value is not None else node
                text = ast.get_source_segment(source, written) or ""
                self.out.append(Made(node.end_lineno or node.lineno, text, value, False))
        return [
            Made(each.line + first - 1, each.text, each.value, each.printed) for each in self.out
        ]

    def statement(self, node: ast.stmt, env: dict[str, Value]) -> Value:  # noqa: PLR0912
        """Does ``node``; the value of an assignment or an expression."""
        self.step()
        match node:
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    if isinstance(node, ast.Import) or alias.name in LIBRARIES:
                        env[name] = Library()
                    else:
                        env.pop(name, None)
            case ast.Assign(targets=targets, value=source):
                value = self.value(source, env)
                for target in targets:
                    self.bind(target, value, env)
                return value
            case ast.AnnAssign(target=target, value=ast.expr() as source):
                value = self.value(source, env)
                self.bind(target, value, env)
                return value
            case ast.AugAssign(target=target, op=op, value=source):
                read = ast.copy_location(ast.parse(ast.unparse(target), mode="eval").body, target)
                before = self.value(read, env)
                value = self._operate(op, before, self.value(source, env))
                self.bind(target, value, env)
                self.part(before, value, env)
                return value
            case ast.Expr(value=ast.Constant(value=str())):
                return NotUnderstood
            case ast.Expr(value=source):
                value = self.value(source, env)
                match source:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if (
                        attr.endswith("_")
                    ):
                        before, env[name] = env.get(name), value  # PyTorch changes it in place
                        self.part(before, value, env)
                return value
            case ast.FunctionDef():
                env[node.name] = Function(node, env)
            case ast.ClassDef():
                methods = {
                    each.name: each for each in node.body if isinstance(each, ast.FunctionDef)
                }
                env[node.name] = lambda *rest, **words: self.made(methods, env, rest, words)
            case ast.Return(value=source):
                raise Returned(None if source is None else self.value(source, env))
            case ast.For(target=target, iter=source, body=body):
                for item in self.items_of(self.value(source, env)):
                    self.bind(target, item, env)
                    self.body(body, env)
            case ast.If(test=test, body=body, orelse=orelse):
                self.body(body if self.truth(test, env) else orelse, env)
            case ast.With(body=body):
                self.body(body, env)
            case ast.Pass() | ast.Assert():
                pass
            case _:
                raise NotUnderstood(type(node).__name__)
        return NotUnderstood

    def body(self, nodes: list[ast.stmt], env: dict[str, Value]) -> None:
        for node in nodes:
            self.statement(node, env)


def _changed(node: ast.AST) -> set[str]:
    """The names that a statement gives a value, or changes."""
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name | ast.Subscript | ast.Attribute) and isinstance(
            each.ctx, ast.Store
        ):
            found |= {name.id for name in ast.walk(each) if isinstance(name, ast.Name)}
        if (
            isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and (each.func.attr == "append" or each.func.attr.endswith("_"))
        ):
            found |= {name.id for name in ast.walk(each.func) if isinstance(name, ast.Name)}
    return found


def _handed_on(node: ast.AST, env: Mapping[str, Value]) -> set[str]:
    """The names of what calls that were not followed may have changed: objects, lists, tables."""
    found = set()
    for call in (each for each in ast.walk(node) if isinstance(each, ast.Call)):
        parts = [*call.args, *(each.value for each in call.keywords)]
        if isinstance(call.func, ast.Attribute):
            parts.append(call.func.value)
        elif isinstance(call.func, ast.Name) and call.func.id in dir(builtins):
            continue
        for each in (name for part in parts for name in ast.walk(part)):
            if isinstance(each, ast.Name) and isinstance(env.get(each.id), Instance | list | dict):
                found.add(each.id)
    return found


def _prints(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "print" for each in ast.walk(node))
