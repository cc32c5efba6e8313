"""Selections: which rows of a stream a relation wants, in terms of the stream or of the relation's label."""

from __future__ import annotations

import pyarrow as pa

from weft.expr.implied import Selection
from weft.expr.model import Call, Column, Expr, text_of, transform, without_alias
from weft.expr.safe import cannot_fail
from weft.query.model import Query


def find_selections(query: Query, *, clocked: bool) -> dict[str, Selection]:
    """Alias -> the selections of its rows, in an order that does not depend on the query's."""
    return {
        alias: (
            *sorted(map(without_alias, query.selections(alias)), key=lambda one: (not cannot_fail(one), text_of(one))),
            *(() if clocked else _require_time(query, alias)),
        )
        for alias in query.aliases
    }


def _require_time(query: Query, alias: str) -> Selection:
    """A row without event time is in no window.  Edges with a clock drop it; without one this selection does."""
    relation = query.relation(alias)
    if relation.window is None or len(query.relations) == 1:
        return ()
    name = str(relation.stream.event_time)
    missing = Call("is_null", (Column("", name, relation.stream.schema.field(name).type),), pa.bool_())
    return (Call("not", (missing,), pa.bool_()),)


def labelled(chosen: Selection, label: str) -> Selection:
    """The selection as a predicate over the fields of tuples."""

    def name(node: Expr) -> Expr:
        return Column(label, node.name, node.type, node.span) if isinstance(node, Column) else node

    return tuple(transform(part, name) for part in chosen)
