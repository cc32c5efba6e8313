"""A stream of upserts: the last row of every key counts.

What comes is a log: rows in their order, some of which only say that their key is gone.  What queries read is a derived
stream: the changes of the present rows.  It is made by a query that groups the log by its key and has, for each group,
the last row: when another one comes, the old row is taken back and the new one is added.  So joins, aggregates, stores
and sinks know nothing of upserts.
"""

from __future__ import annotations

import pyarrow as pa

from weft.expr.model import Column
from weft.query.changes import GONE, ORDER
from weft.query.derived import derive
from weft.query.grouping import Grouping, argument_field, key_field
from weft.query.model import Output, Query, Relation, Stream


def log_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of the log of a stream: its own, the place of a row in the order, and whether its key is gone."""
    return pa.schema([*schema, (ORDER, pa.int64()), (GONE, pa.bool_())])


def present(log: Stream) -> Stream:
    """The stream that queries read, given its log."""
    assert log.changes is not None
    names = {
        name: key_field(at) if name in log.changes.key else name if name in (ORDER, GONE) else argument_field(at)
        for at, name in enumerate(log.schema.names)
    }
    made = tuple(Output(to, Column(log.name, name, log.schema.field(name).type)) for name, to in names.items())
    shown = tuple(Output(name, Column("", to, log.schema.field(name).type)) for name, to in names.items() if name != to)
    keys = tuple(names[name] for name in log.changes.key)
    grouping = Grouping(keys, (), shown, changing=True, latest=True)
    return derive((Query((Relation(log.name, log),), (), made, grouping=grouping),))
