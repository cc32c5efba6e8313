"""Expressions as plain data.

An expression is a tree of four kinds of node.  Trees are frozen and compare by content; the position in
the SQL text rides along for error messages and takes no part in comparisons.  Before names are resolved
`type` is None and a column's alias may be empty; afterwards every node has a type.  A column without
alias in a *resolved* tree refers to a store's own column, so that aliases of one stream can share it.

Logic is three-valued as in SQL.  A comparison with NULL or with NaN is NULL, so neither ever matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Span:
    """Where a construct stands in the SQL text: offsets of its first and last character."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one alias of a query."""

    alias: str
    name: str
    type: pa.DataType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def field(self) -> str:
        """The name of this column in a flowing record batch."""
        return f"{self.alias}.{self.name}" if self.alias else self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; `value` is a Python object that pyarrow can turn into `type`."""

    value: object
    type: pa.DataType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Call:
    """An operator or function of `weft.expr.functions` applied to arguments."""

    op: str
    args: tuple[Expr, ...]
    type: pa.DataType | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Udf:
    """A Python function registered by the user; it gets Arrow arrays and gives one of equal length."""

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


def columns(expr: Expr) -> frozenset[Column]:
    """All columns the expression reads."""
    return frozenset(node for node in walk(expr) if isinstance(node, Column))


def aliases(expr: Expr) -> frozenset[str]:
    """All aliases the expression reads."""
    return frozenset(column.alias for column in columns(expr))


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The tree with `change` applied to every node, children first."""
    if isinstance(expr, Call | Udf):
        expr = replace(expr, args=tuple(transform(arg, change) for arg in expr.args))
    return change(expr)


def without_alias(expr: Expr) -> Expr:
    """The expression over a store's own columns: every alias removed."""
    return transform(expr, lambda node: replace(node, alias="") if isinstance(node, Column) else node)


def conjuncts(expr: Expr) -> tuple[Expr, ...]:
    """The expression split at its top-level ANDs."""
    if isinstance(expr, Call) and expr.op == "and":
        return tuple(part for arg in expr.args for part in conjuncts(arg))
    return (expr,)
