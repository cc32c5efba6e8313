"""Groups that are final at some time: their rows come once, when the watermark says that no more rows can come to them.

The event time of such a group is one of its keys.  It may have come through derived streams: then it is followed back
to the stream that it is an event time of, which says what one step of it is.

What must hold: rows that are late for a part of a query are late for all of it.  So where a group closes, or partners
are counted and rows of some part expire, all parts go by the watermark of all streams of the query (`Query.late_by`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.errors import InternalError
from weft.expr.model import Column, Expr
from weft.query.derived import hidden
from weft.query.draft import Closes
from weft.query.grouping import Closing
from weft.query.model import Output, Query
from weft.query.timebounds import expires, step_of


def find_closing(query: Query, keys: Mapping[str, Expr], outputs: Sequence[Output], closes: Closes) -> Closing:
    """When the groups of a query are final."""
    shown = {output.name: output.expr for output in outputs}.get(closes.column)
    if not isinstance(shown, Column) or shown.name not in keys:
        raise InternalError(f"groups close by {closes.column}, which is none of their keys")
    step = _step(query, keys[shown.name])
    if step is None:
        raise InternalError(f"groups close by {closes.column}, which is no event time")
    return Closing(shown.name, closes.length, step)


def _step(query: Query, expr: Expr) -> int | None:
    """Microseconds in one step of an expression that is an event time; None if it is none."""
    if not isinstance(expr, Column):
        return None
    stream = query.relation(expr.alias).stream
    if not stream.made:
        return step_of(stream) if expr.name == stream.event_time else None
    inner = stream.made[0]
    made = inner.outputs if inner.grouping is None else inner.grouping.outputs
    found = next(output.expr for output in made if output.name == expr.name)
    if inner.grouping is not None and isinstance(found, Column):
        found = next((output.expr for output in inner.outputs if output.name == found.name), found)
    return _step(inner, found)


def has_one_watermark(query: Query) -> bool:
    """Whether all parts of a query go by one watermark: a part has groups that are final at some time, or rows that
    expire, while others read the same streams to count partners."""
    parts = (query, *hidden({"": query}).values())
    if any(part.grouping is not None and part.grouping.closing is not None for part in parts):
        return True
    counts = any(r.stream.weight is not None for part in parts for r in part.relations if r.stream.made)
    return counts and any(map(expires, parts))


def _has_versions(query: Query) -> bool:
    """Whether it gives versions; only then a table takes part in the watermark."""
    return query.grouping is not None and query.grouping.versions is not None


def timed_streams(query: Query) -> tuple[tuple[str, int], ...]:
    """(Stream, lateness) of all streams with an event time that a query reads, also through derived streams."""
    parts = (query, *hidden({"": query}).values())
    streams = [r.stream for part in parts for r in part.relations if not r.stream.table or _has_versions(part)]
    return tuple(sorted({stream.name: stream.lateness for stream in streams if stream.event_time is not None}.items()))
