"""What an expression becomes where some of its columns are NULL.

What must hold: the result has the same value for all rows in which those columns are NULL.  Only operators that are
known to give NULL for NULL are computed; a function of the user, or one that is not listed, stays as it is.  So a
condition that folds to NULL or FALSE is never true there, and one that does not may or may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, Literal, Udf, transform

_STRICT = frozenset([
    "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "div", "neg", "not", "like", "ilike", "||", "cast",
    "try_cast", "regexp_matches", "regexp_full_match", "struct_extract", "list_extract", "power",
])  # fmt: skip
"""Operators that give NULL if one argument is NULL."""
_STRICT_NAMES = frozenset(["abs", "floor", "ceil", "round", "upper", "lower", "length", "sqrt", "substring", "substr"])
"""Functions that do, by name."""


def null(kind: pa.DataType | None) -> Expr:
    """NULL of a type."""
    return Literal(None) if kind is None else Call("cast", (Literal(None),), kind)


def is_null(expr: Expr) -> bool:
    """Whether the expression is the constant NULL."""
    if isinstance(expr, Call) and expr.op == "cast":
        return is_null(expr.args[0])
    return isinstance(expr, Literal) and expr.value is None


def is_never_true(condition: Expr) -> bool:
    """Whether a folded condition lets no row through."""
    return is_null(condition) or _is(condition, False)


def is_always_true(condition: Expr) -> bool:
    """Whether a folded condition lets all rows through."""
    return _is(condition, True)


def rejects(conditions: Iterable[Expr], absent: Callable[[Column], bool]) -> bool:
    """Whether one of the conditions is never true of rows in which all those columns are NULL."""

    def blank(node: Expr) -> Expr:
        return null(None) if isinstance(node, Column) and absent(node) else node

    return any(is_never_true(fold(transform(condition, blank))) for condition in conditions)


def fold(expr: Expr) -> Expr:
    """The expression with what NULL decides computed."""
    return transform(expr, _fold)


def _fold(node: Expr) -> Expr:
    if isinstance(node, Udf):
        known = node.name.lower() in _STRICT_NAMES
        return null(node.type) if known and any(map(is_null, node.args)) else node
    if not isinstance(node, Call):
        return node
    rule = _RULES.get(node.op)
    if rule is not None:
        return rule(node)
    return null(node.type) if node.op in _STRICT and any(map(is_null, node.args)) else node


def _and(node: Call) -> Expr:
    if any(_is(arg, False) for arg in node.args):
        return Literal(False)
    return _rest(node, True)


def _or(node: Call) -> Expr:
    if any(_is(arg, True) for arg in node.args):
        return Literal(True)
    return _rest(node, False)


def _rest(node: Call, neutral: bool) -> Expr:
    """The arguments that matter; all NULL is NULL."""
    kept = tuple(arg for arg in node.args if not _is(arg, neutral))
    if not kept:
        return Literal(neutral)
    if all(map(is_null, kept)):
        return Literal(None)
    return kept[0] if len(kept) == 1 else Call(node.op, kept, node.type, node.span)


def _not(node: Call) -> Expr:
    if is_null(node.args[0]):
        return Literal(None)
    known = [value for value in (True, False) if _is(node.args[0], value)]
    return Literal(not known[0]) if known else node


def _is_null(node: Call) -> Expr:
    inner = node.args[0]
    if is_null(inner):
        return Literal(True)
    return Literal(False) if isinstance(inner, Literal) else node


def _coalesce(node: Call) -> Expr:
    kept = tuple(arg for arg in node.args if not is_null(arg))
    if not kept:
        return node.args[0]
    return kept[0] if isinstance(kept[0], Literal) else Call(node.op, kept, node.type, node.span)


def _case(node: Call) -> Expr:
    """Arms whose condition is never true are left out."""
    args: list[Expr] = []
    for at in range(0, len(node.args) - 1, 2):
        if not is_never_true(node.args[at]):
            args += node.args[at : at + 2]
    if args and _is(args[0], True):
        return args[1]
    return Call(node.op, (*args, node.args[-1]), node.type, node.span) if args else node.args[-1]


def _in(node: Call) -> Expr:
    return Literal(None) if is_null(node.args[0]) else node


def _same(node: Call) -> Expr:
    if all(map(is_null, node.args)):
        return Literal(True)
    constant = any(map(is_null, node.args)) and any(isinstance(a, Literal) and a.value is not None for a in node.args)
    return Literal(False) if constant else node


def _equal(node: Call) -> Expr:
    """IS TRUE is written coalesce(x, FALSE) = TRUE, so constants are compared here."""
    if any(map(is_null, node.args)):
        return Literal(None)
    left, right = node.args
    if isinstance(left, Literal) and isinstance(right, Literal) and type(left.value) is type(right.value):
        return Literal(left.value == right.value) if type(left.value) in (bool, int) else node
    return node


_RULES: dict[str, Callable[[Call], Expr]] = {
    "and": _and, "or": _or, "not": _not, "is_null": _is_null, "coalesce": _coalesce, "case": _case, "in": _in,
    "same": _same, "=": _equal,
}  # fmt: skip


def _is(expr: Expr, value: bool) -> bool:
    return isinstance(expr, Literal) and expr.value is value
