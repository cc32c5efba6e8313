"""Versions: rows that follow each other by their times, each with the times at which it is the one to be met.

    k  ts  x              k  ts  x   #from  #to
    1  10  a      gives   1  10  a   10     14          where  time >= ts  asks for the last row before a time
    1  15  b              1  15  b   15     (greatest)

What comes is grouped by keys.  Of several rows of a key with one time the greatest one counts, by its columns in their
order: so versions depend on the rows alone, and not on the order in which they came.  When another row comes, or one
is taken back, the times of its neighbours change: their old versions are taken back and new ones are added.

What must hold: for every key and every time there is at most one version with #from <= time <= #to, and it is the one
whose own time is nearest.  Both bounds belong to the version, so that a bound can be the greatest value of its type.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
from pyarrow import types as pt

from weft.errors import QueryError
from weft.expr.model import Column, Expr
from weft.expr.types import sql_name
from weft.query.changes import GONE, ORDER
from weft.query.derived import derive
from weft.query.grouping import FROM, TO, Grouping, Versions, argument_field, key_field
from weft.query.model import BATCH, Output, Query, Relation, Stream
from weft.query.timebounds import step_of

CAME = "#came"
"""The batch in which a row of a log came."""


def keep_versions(query: Query, outputs: tuple[Output, ...], wanted: Versions) -> Query:
    """The query whose rows are versions of what it selects."""
    named = {output.name: at for at, output in enumerate(outputs)}
    fields = {name: key_field(at) if name in wanted.keys else argument_field(at) for name, at in named.items()}
    time = outputs[named[wanted.time]].expr
    _require_time(time)
    shown = tuple(Output(output.name, Column("", fields[output.name], output.expr.type)) for output in outputs)
    shown += tuple(Output(name, Column("", name, time.type)) for name in (FROM, TO))
    keys = tuple(fields[name] for name in wanted.keys)
    how = replace(wanted, keys=keys, time=fields[wanted.time])
    grouping = Grouping(keys, (), shown, changing=True, versions=how)
    made = tuple(Output(fields[output.name], output.expr) for output in outputs)
    return replace(query, outputs=made, grouping=grouping)


def history(log: Stream, late_by: tuple[tuple[str, int], ...], until: int) -> Stream:
    """All versions of a table with a key and an event time, given its log: FOR SYSTEM_TIME AS OF meets one of them."""
    assert log.changes is not None
    assert log.event_time is not None
    names = {
        name: key_field(at) if name in log.changes.key else name if name in (ORDER, GONE) else argument_field(at)
        for at, name in enumerate(log.schema.names)
    }
    kinds = {name: log.schema.field(name).type for name in names}
    made = [Output(to, Column(log.name, name, kinds[name])) for name, to in names.items()]
    made.append(Output(CAME, Column(log.name, BATCH, pa.int64())))
    shown = [Output(name, Column("", to, kinds[name])) for name, to in names.items() if name != to]
    shown += [Output(name, Column("", name, kinds[log.event_time])) for name in (FROM, TO)]
    keys = tuple(names[name] for name in log.changes.key)
    how = Versions(keys, names[log.event_time], ">=", until, step_of(log), GONE, (CAME, ORDER))
    grouping = Grouping(keys, (), tuple(shown), changing=True, versions=how)
    return derive((Query((Relation(log.name, log),), (), tuple(made), grouping=grouping, late_by=late_by),))


def _require_time(time: Expr) -> None:
    """Refuse times that have no next one."""
    kind = time.type
    if pt.is_integer(kind) or pt.is_floating(kind) or pt.is_timestamp(kind) or pt.is_date(kind):
        return
    raise QueryError(
        f"rows cannot follow each other by a {sql_name(kind)}",
        detail="versions have times that are whole numbers, floats, dates or timestamps.",
        hint="cast both sides of the comparison, for example to TIMESTAMP or DOUBLE.",
        span=time.span,
    )
