"""A join over streams that change is a view: the multiset of its rows.

Rows may be taken back, so its results are counted like the groups of an aggregate: a group is a row with all its
columns, and it is in the view as often as it counts.  Stores, plans, sinks and migrations need nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from weft.expr.model import Column
from weft.query.grouping import Grouping, key_field
from weft.query.model import Output, Query


def as_join(query: Query) -> Query:
    """The join whose rows a view counts; other queries as they are."""
    grouping = query.grouping
    if grouping is None or not grouping.multiset:
        return query
    outputs = tuple(Output(shown.name, key.expr) for shown, key in zip(grouping.outputs, query.outputs, strict=True))
    return replace(query, outputs=outputs, grouping=None)


def as_view(query: Query) -> Query:
    """The query with its rows counted, if they may be taken back; else the query itself."""
    if not query.is_changing or query.grouping is not None:
        return query
    keys = tuple(Output(key_field(at), output.expr) for at, output in enumerate(query.outputs))
    shown = tuple(
        Output(output.name, Column("", key.name, key.expr.type))
        for output, key in zip(query.outputs, keys, strict=True)
    )
    grouping = Grouping(tuple(key.name for key in keys), (), shown, changing=True, multiset=True)
    return replace(query, outputs=keys, grouping=grouping)
