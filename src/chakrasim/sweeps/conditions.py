"""Conditions on the values of a point, such as ``dp * tp * pp == gpus``: arithmetic and comparisons, nothing else."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from chakrasim.errors import InputError

_BINARY: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARED: Final[dict[type, Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_KNOWN: Final = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Compare, ast.Name,
    ast.Load, ast.Constant, ast.Tuple, ast.List, *_BINARY, *_COMPARED,
)  # fmt: skip
_LONGEST: Final = 1000


@dataclass(frozen=True)
class Condition:
    """A condition, as it was written, and read."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def holds(self, values: Mapping[str, Any]) -> bool:
        """Whether it does. Raises InputError where a value is not known or does not go with the others."""
        try:
            return bool(_value(self.tree, values))
        except (TypeError, ValueError, ZeroDivisionError, OverflowError) as fault:
            raise InputError("cannot be worked out", place=f"where: {self.text}", found=str(fault)) from None


def condition_of(text: object, file: str, place: str) -> Condition:
    """Read a condition. Raises InputError."""
    expected = "arithmetic and comparisons of keys, such as dp * tp * pp == gpus"
    try:
        if not isinstance(text, str) or len(text) > _LONGEST:
            raise SyntaxError
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError("not a condition", file=file, place=place, found=repr(text)[:80], expected=expected) from None
    for node in ast.walk(tree):
        big = isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str)
        if not isinstance(node, _KNOWN) or big:
            found = ast.unparse(node)[:80] if hasattr(node, "lineno") else type(node).__name__
            raise InputError("not allowed in a condition", file=file, place=place, found=found, expected=expected)
    names = frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))
    return Condition(text, tree.body, names)


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        if values.get(node.id) is None:
            raise InputError("a condition names what has no value", place="where", found=node.id,
                             expected=", ".join(sorted(name for name, value in values.items() if value is not None)),
                             remedy="give it in base or vary")  # fmt: skip
        return values[node.id]
    if isinstance(node, ast.BoolOp):
        parts = (bool(_value(part, values)) for part in node.values)
        return all(parts) if isinstance(node.op, ast.And) else any(parts)
    if isinstance(node, ast.UnaryOp):
        inner = _value(node.operand, values)
        return not inner if isinstance(node.op, ast.Not) else -inner
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, values), _value(node.right, values)
        # Of texts and lists, these are other things than arithmetic, and may take any amount of memory.
        if not (isinstance(left, int | float) and isinstance(right, int | float)):
            raise TypeError(f"{type(node.op).__name__.lower()} of {left!r:.30} and {right!r:.30}")
        return _BINARY[type(node.op)](left, right)
    if isinstance(node, ast.Compare):
        sides = [_value(part, values) for part in (node.left, *node.comparators)]
        pairs = zip(node.ops, sides, sides[1:], strict=False)
        return all(_COMPARED[type(op)](left, right) for op, left, right in pairs)
    assert isinstance(node, ast.Tuple | ast.List)
    return [_value(part, values) for part in node.elts]
