"""A session as it shows itself: at most ten lines, whatever it holds; and its plan.

Showing a session reads nothing and plans nothing; explaining it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from weft.explain import Subject, explain
from weft.observe.markup import block, table
from weft.session.adapting import show_switches
from weft.session.planning import read_measured

if TYPE_CHECKING:
    from weft.session.query import QueryHandle
    from weft.session.session import Session

MOST = 4
"""So many streams and queries are named."""
ROWS = 5
"""So many rows of a query are shown."""


def show_session(session: Session) -> str:
    """What a session holds and whether it runs."""
    state = "running" if session.is_running else "not running"
    head = f"<session, checkpoint {session.checkpoint.shown}, {state}>"
    streams = (repr(stream) for stream in session.streams.values())
    queries = (repr(query) for query in session.queries.values())
    return "\n".join([head, *_first(streams, "stream", "streams"), *_first(queries, "query", "queries")])


def explain_session(session: Session, stage: str, form: str, analyze: bool) -> str:
    """The plan of a session after a stage of planning; with what was measured, the plans that followed the data too."""
    subject = Subject(
        {name: handle.query for name, handle in session.queries.items()},
        {name: handle.draft for name, handle in session.queries.items()},
        lambda: session.choices,
        lambda: session.topology,
        analyze,
        read_measured(session.checkpoint) if analyze else None,
    )
    shown = explain(subject, stage, form)
    made = show_switches(session.checkpoint.root) if analyze and form == "text" else []
    return "\n".join([shown, "", "plans that followed the data", *(f"  {line}" for line in made)]) if made else shown


def markup_session(session: Session) -> str:
    """The same as HTML, for notebooks."""
    state = "running" if session.is_running else "not running"
    streams = [
        (stream.name, "table" if stream.table else "stream", ", ".join(stream.schema.names), stream.event_time or "")
        for stream in session.streams.values()
    ]
    parts = [table(("stream", "", "columns", "event time"), streams)]
    if session.queries:
        parts.append(table(("query", "reads", "into"), [_line(query) for query in session.queries.values()]))
    return block(f"session, checkpoint {session.checkpoint.shown}, {state}", *parts)


def markup_query(query: QueryHandle) -> str:
    """A query as HTML: what it reads, where its results go, and the last of them if they are in memory."""
    rows = next((found for sink in query.sinks if (found := sink.table()) is not None), None)
    shown = "" if rows is None else _rows(rows)
    return block(f"query {query.name}", table(("query", "reads", "into"), [_line(query)]), shown)


def _line(query: QueryHandle) -> tuple[str, str, str]:
    reads = ", ".join(f"{relation.stream.name} {relation.alias}" for relation in query.query.relations)
    return query.name, reads, ", ".join(str(sink) for sink in query.sinks) or "no sink yet"


def _rows(rows: pa.Table) -> str:
    """The last rows of a table."""
    some = rows.slice(max(0, rows.num_rows - ROWS))
    said = [tuple(row.values()) for row in some.to_pylist()]
    return f"<p style='margin:4px 0'>{rows.num_rows:,} rows, the last ones:</p>" + table(rows.schema.names, said)


def _first(shown: Iterable[str], one: str, many: str) -> Iterator[str]:
    found = list(shown)
    named = len(found) if len(found) <= MOST else MOST - 1
    yield from (f"  {line}" for line in found[:named])
    if rest := len(found) - named:
        yield f"  and {rest} more {one if rest == 1 else many}"
