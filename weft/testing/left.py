"""The rows of a stream that are left after its changes, as DuckDB finds them in one statement."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from weft.query.model import Stream

ADDED = ("insert", "update_after", "update_postimage", "+i", "+u", "i", "c", "r", "+1", "1")


REMOVED = ("delete", "-d", "d", "-1")
BEFORE = ("update_before", "update_preimage", "-u")


def input_of(stream: Stream) -> Stream:
    """The stream whose rows are fed: of the present rows of keys, the log."""
    made = stream.made[0] if stream.made else None
    return made.relations[0].stream if made and made.grouping and made.grouping.latest else stream


def left(duck: Any, table: pa.Table, stream: Stream) -> pa.Table:
    """The rows that are left; columns of the source that say what happened are gone."""
    log = input_of(stream)
    if log is not stream:
        return _last(duck, table, log)
    return table if stream.changes is None or stream.changes.op is None else _counted(duck, table, stream)


def _last(duck: Any, table: pa.Table, log: Stream) -> pa.Table:
    """The last row of every key, in the order of the table, unless the key is gone."""
    assert log.changes is not None
    key, op = log.changes.key, log.changes.op
    names = [name for name in log.schema.names if not name.startswith("#")]
    others = [f"{_quote(name)} IS NULL" for name in names if name not in key]
    gone, said = " AND ".join(others) or "FALSE", "TRUE"
    if op is not None and pa.types.is_integer(table.schema.field(op).type):
        gone = f"{_quote(op)} < 0"
    elif op is not None:
        gone, said = f"lower({_quote(op)}) IN {REMOVED}", f"lower({_quote(op)}) NOT IN {BEFORE}"
    shown = ", ".join(_quote(name) for name in (*names, *(n for n in table.schema.names if n.startswith("#"))))
    by = ", ".join(_quote(name) for name in key)
    duck.register("log", table.append_column("#i", pa.array(range(table.num_rows), pa.int64())))
    found: pa.Table = duck.sql(
        f'SELECT {shown} FROM (SELECT *, row_number() OVER (PARTITION BY {by} ORDER BY "#i" DESC) AS "#r" '
        f'FROM log WHERE {said}) AS t WHERE "#r" = 1 AND NOT ({gone})'
    ).to_arrow_table()
    duck.unregister("log")
    return found


def _counted(duck: Any, table: pa.Table, stream: Stream) -> pa.Table:
    """Every row as often as it was added and not taken back."""
    assert stream.changes is not None
    op = stream.changes.op
    assert op is not None
    kind, column = table.schema.field(op).type, _quote(op)
    words = ", ".join(f"'{word}'" for word in ADDED)
    weight = column if pa.types.is_integer(kind) else f"CASE WHEN lower({column}) IN ({words}) THEN 1 ELSE -1 END"
    names = ", ".join(_quote(name) for name in stream.schema.names)
    more = "".join(f", min({_quote(name)}) AS {_quote(name)}" for name in table.schema.names if name.startswith("#"))
    duck.register("changes", table)
    counted = f'SELECT {names}{more}, sum({weight}) AS "#n" FROM changes GROUP BY {names}'
    each = 'SELECT unnest(range(CAST("#n" AS BIGINT))) AS "#i"'
    found: pa.Table = duck.sql(
        f'SELECT * EXCLUDE ("#n", "#i") FROM ({counted}) AS t, LATERAL ({each}) AS u'
    ).to_arrow_table()
    duck.unregister("changes")
    return found


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
