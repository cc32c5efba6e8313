"""A join over streams that change is a view: the multiset of its rows.

Rows may be taken back, so its results are counted like the groups of an aggregate: a group is a row with all its
columns, and it is in the view as often as it counts.  Stores, plans, sinks and migrations need nothing else.
What may fail in such a query (`weft.query.settled`) is worked out of the columns of groups that are there.
"""

from __future__ import annotations

from dataclasses import replace

from weft.expr.model import Column, Expr, transform
from weft.query.grouping import Grouping, key_field
from weft.query.model import Output, Query
from weft.query.settled import as_groups


def as_join(query: Query) -> Query:
    """The join whose rows a view counts; other queries as they are."""
    grouping = query.grouping
    if grouping is None or not grouping.multiset:
        return query
    keys = {key.name: key.expr for key in query.outputs}

    def put(node: Expr) -> Expr:
        return keys[node.name] if isinstance(node, Column) else node

    outputs = tuple(Output(shown.name, transform(shown.expr, put)) for shown in grouping.outputs)
    late = () if grouping.having is None else (transform(grouping.having, put),)
    return replace(query, predicates=(*query.predicates, *late), outputs=outputs, grouping=None)


def as_view(query: Query) -> Query:
    """The query with its rows counted, if they may be taken back; else the query itself."""
    if not query.is_changing or query.grouping is not None:
        return query
    grouped = as_groups(query) or _as_groups(query)
    assert grouped.grouping is not None
    return replace(grouped, grouping=replace(grouped.grouping, multiset=True))


def _as_groups(query: Query) -> Query:
    keys = tuple(Output(key_field(at), output.expr) for at, output in enumerate(query.outputs))
    shown = tuple(
        Output(output.name, Column("", key.name, key.expr.type))
        for output, key in zip(query.outputs, keys, strict=True)
    )
    grouping = Grouping(tuple(key.name for key in keys), (), shown, changing=True)
    return replace(query, outputs=keys, grouping=grouping)
