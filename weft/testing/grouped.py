"""The aggregation that the oracle puts around a join, written out for DuckDB.

Three steps: the joined rows; each of them once for every window of event time that holds it; the groups.  A window is
found by whole-number arithmetic on microseconds.  A row comes too late for a window that has ended at or before the
watermark at the start of the batch in which the newest of its members came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from weft.errors import HostError
from weft.expr.model import Expr
from weft.expr.types import sql_name
from weft.query.grouping import Aggregate, Grouping, TimeWindow, value_field

BATCH = '"#b"'
"""Name of the column with the batch of a row."""
_SIZE = 'count(*) AS "#n"'
Marks = Sequence[int | None]
"""The watermark at the start of each batch, in microseconds."""


def grouped_sql(grouping: Grouping, joined: str, write: Callable[[Expr], str], marks: Marks) -> str:
    """The statement around the one that joins; a window's key is microseconds there."""
    columns = [*map(_quote, grouping.keys), *_values(grouping)]
    outputs = ", ".join(f"{write(output.expr)} AS {_quote(output.name)}" for output in grouping.outputs)
    by = f"\n  GROUP BY {', '.join(map(_quote, grouping.keys))}" if grouping.keys else ""
    having = f"\nWHERE {write(grouping.having)}" if grouping.having is not None else ""
    rows = "rows" if grouping.window is None else "windows"
    return (
        f"WITH rows AS (\n{joined}),\n"
        + (f"windows AS (\n  {_windows_sql(grouping.window, marks)}),\n" if grouping.window is not None else "")
        # A group without keys is there even if it has no row, and an aggregate makes it so.
        + f"groups AS (\n  SELECT {', '.join([*columns, _SIZE])} FROM {rows}{by})\n"
        + f"SELECT {outputs} FROM groups{having}"
    )


def _values(grouping: Grouping) -> list[str]:
    return [f"{_aggregate_sql(one)} AS {_quote(value_field(at))}" for at, one in enumerate(grouping.aggregates)]


def _aggregate_sql(aggregate: Aggregate) -> str:
    if aggregate.kind == "list":
        raise HostError(
            "the oracle has no aggregates over all values of a group",
            detail="ARRAY_AGG, MEDIAN and their like have an order of their own where DuckDB has none.",
            hint="put the text of the query to DuckDB itself, with ORDER BY in the call.",
        )
    argument = "*" if aggregate.argument is None else _quote(aggregate.argument)
    call = f"count(DISTINCT {argument})" if aggregate.kind == "distinct" else f"{aggregate.kind}({argument})"
    return f"CAST({call} AS {sql_name(aggregate.type)})"


def _windows_sql(window: TimeWindow, marks: Marks) -> str:
    time, length, slide = f"rows.{_quote(window.key)}", window.length, window.slide
    last = f"{time} - (({time} % {slide}) + {slide}) % {slide}"
    starts = f"LATERAL (SELECT unnest(range({last}, {time} - {length}, -{slide})) AS s) AS w"
    open_ = f" WHERE {_open_sql(length, marks)}" if marks else ""
    return f"SELECT rows.* REPLACE (make_timestamp(w.s) AS {_quote(window.key)}) FROM rows, {starts}{open_}"


def _open_sql(length: int, marks: Marks) -> str:
    listed = ", ".join("NULL" if mark is None else str(mark) for mark in marks)
    return f"coalesce(w.s + {length} > (CAST([{listed}] AS BIGINT[]))[rows.{BATCH} + 1], TRUE)"


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
