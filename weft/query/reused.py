"""Outputs that are used by those behind them: SELECT a.x + 1 AS y, y * 2 AS z FROM a.

A bare name in a SELECT list that is no column is the expression of an output before it.  So it is put in its place,
and nothing behind this step knows of it.  What must hold: a column of FROM comes first, and the columns of a query
around come last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.expr.model import Column, Expr, columns, transform
from weft.query.draft import Item, Star
from weft.query.names import find


def without_reuse(items: Sequence[Item], has: Callable[[Column], bool]) -> tuple[Item, ...]:
    """The SELECT list without names of its own outputs; `has` says whether FROM shows a column."""
    known: dict[str, Expr] = {}
    found: list[Item] = []

    def put(node: Expr) -> Expr:
        if not isinstance(node, Column) or node.alias or has(node):
            return node
        name = find(node.name, known)
        return node if name is None else known[name]

    for item in items:
        made = item
        if not isinstance(item.expr, Star | str):
            if known and any(not column.alias for column in columns(item.expr)):
                made = replace(item, expr=transform(item.expr, put))
            if item.name:
                known.setdefault(item.name, made.expr)  # type: ignore[arg-type]
        found.append(made)
    return tuple(found)
