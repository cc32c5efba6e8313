"""Expressions as plain data.

An expression is a tree of four kinds of node.  Trees are frozen and compare by content; the position in
the SQL text is kept for error messages only and is ignored in comparisons.  Before names are resolved
`type` is None and a column's alias may be empty; afterwards every node has a type.  A column without
alias in a *resolved* tree refers to a store's own column, so that aliases of one stream can share it.

Logic is three-valued as in SQL.  A comparison with NULL or with NaN is NULL, so neither ever matches.

The optimizer asks for the hash, the text, the columns and the bare form of the same few nodes thousands of times, so a
node caches them.  They are not part of its value and are not pickled: a hash of text differs between processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeVar

import pyarrow as pa

from weft.errors import Span

_AnyNode = TypeVar("_AnyNode", bound="_Node")


class _Node:
    """What a node caches."""

    __slots__ = ("_aliases", "_bare", "_columns", "_hash", "_text")
    _aliases: frozenset[str]
    _bare: Expr
    _columns: frozenset[Column]
    _hash: int
    _text: str


def _hashed_once(node: type[_AnyNode]) -> type[_AnyNode]:
    """The class of nodes with a hash that is computed once."""
    work_out = node.__hash__

    def once(self: _AnyNode) -> int:
        try:
            return self._hash
        except AttributeError:
            object.__setattr__(self, "_hash", work_out(self))
            return self._hash

    node.__hash__ = once  # type: ignore[assignment]
    return node


@_hashed_once
@dataclass(frozen=True, slots=True)
class Column(_Node):
    """A column of one alias of a query."""

    alias: str
    name: str
    type: pa.DataType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def field(self) -> str:
        """The name of this column in a flowing record batch."""
        return f"{self.alias}.{self.name}" if self.alias else self.name


@_hashed_once
@dataclass(frozen=True, slots=True)
class Literal(_Node):
    """A constant; `value` is a Python object that pyarrow can turn into `type`."""

    value: object
    type: pa.DataType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        """To Python 1, 1.0 and True are one, and so are the decimals 1.0 and 1.00."""
        is_inexact = isinstance(self.value, float | Decimal)
        return type(self.value), repr(self.value) if is_inexact else self.value, self.type


@_hashed_once
@dataclass(frozen=True, slots=True)
class Call(_Node):
    """An operator or function of `weft.expr.functions` applied to arguments."""

    op: str
    args: tuple[Expr, ...]
    type: pa.DataType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@_hashed_once
@dataclass(frozen=True, slots=True)
class Udf(_Node):
    """A call of a Python function of the user; it takes Arrow arrays and returns one of equal length."""

    name: str
    args: tuple[Expr, ...]
    type: pa.DataType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


Expr = Column | Literal | Call | Udf
"""Any expression."""


def children(expr: Expr) -> tuple[Expr, ...]:
    """The direct sub-expressions."""
    return expr.args if isinstance(expr, Call | Udf) else ()


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything below it, parents first."""
    yield expr
    for child in children(expr):
        yield from walk(child)


def place_of(expr: Expr) -> Span | None:
    """Where an expression stands, or the first part of it that stands anywhere."""
    return next((node.span for node in walk(expr) if node.span is not None), None)


def columns(expr: Expr) -> frozenset[Column]:
    """All columns the expression reads."""
    if isinstance(expr, Column):
        return frozenset((expr,))
    try:
        return expr._columns
    except AttributeError:
        found: frozenset[Column] = frozenset().union(*map(columns, children(expr)))
        object.__setattr__(expr, "_columns", found)
        return found


def aliases(expr: Expr) -> frozenset[str]:
    """All aliases the expression reads."""
    try:
        return expr._aliases
    except AttributeError:
        found = frozenset(column.alias for column in columns(expr))
        object.__setattr__(expr, "_aliases", found)
        return found


def text_of(expr: Expr) -> str:
    """A text that is equal for equal expressions, types included."""
    try:
        return expr._text
    except AttributeError:
        object.__setattr__(expr, "_text", repr(expr))
        return expr._text


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The tree with `change` applied to every node, children first."""
    if isinstance(expr, Call):
        expr = Call(expr.op, tuple([transform(arg, change) for arg in expr.args]), expr.type, expr.span)
    elif isinstance(expr, Udf):
        expr = Udf(expr.name, tuple([transform(arg, change) for arg in expr.args]), expr.type, expr.span)
    return change(expr)


def without_alias(expr: Expr) -> Expr:
    """The expression over a store's own columns: every alias removed."""
    try:
        return expr._bare
    except AttributeError:
        object.__setattr__(expr, "_bare", transform(expr, _strip))
        return expr._bare


def _strip(node: Expr) -> Expr:
    return Column("", node.name, node.type, node.span) if isinstance(node, Column) else node


def chained(op: str, left: Expr, right: Expr) -> tuple[Expr, ...]:
    """The arguments of an operator; a chain of AND or OR is one call, however long it is."""
    if isinstance(left, Call) and left.op == op and op in ("and", "or"):
        return (*left.args, right)
    return (left, right)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The expression split at its top-level ANDs."""
    if isinstance(expr, Call) and expr.op == "and":
        return tuple(part for arg in expr.args for part in conjuncts(arg))
    return (expr,)
