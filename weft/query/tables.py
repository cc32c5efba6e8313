"""Tables that change, and what cannot stand beside them.

A row of a stream meets a table as it is in the batch in which the row comes; of several streams, in which the last of
their rows comes.  What changes in the table later changes no result.  So results are only added.

What must hold: a result is never taken back by a row that meets another version of the table than the row that gave it.
So streams whose rows are taken back, and outer joins whose partners come later, are refused beside such a table.
"""

from __future__ import annotations

from weft.errors import QueryError, Span
from weft.query.model import Query, Stream

_CURE = (
    "leave out key= if the table does not change; else declare it as a stream with a key, "
    "s.stream(name, source, key=[...]): then its changes change results"
)


def refuse_changes_beside_tables(query: Query) -> None:
    """Refuse a query in which rows of a stream that are taken back meet a table that changes."""
    tables = [relation.alias for relation in query.relations if _may_differ(relation.stream)]
    if tables and query.is_changing and any(not relation.stream.table for relation in query.relations):
        changing = next(r for r in query.relations if not r.stream.table and r.stream.changes is not None)
        raise QueryError(
            f'rows of "{changing.alias}" may be taken back, and table "{tables[0]}" changes',
            detail="a row that is taken back would meet another version of the table than when it came.",
            hint=f"{_CURE}.",
            span=changing.span,
        )


def _may_differ(stream: Stream) -> bool:
    """Whether a row may meet other rows of it later; of all versions it always meets the same."""
    return stream.is_looked_up and not stream.is_final


def refuse_partners_that_come(alias: str, span: Span | None) -> QueryError:
    """The error for an outer join whose partners come later, beside a table that changes."""
    return QueryError(
        f'an outer join or a subquery with "{alias}" cannot stand beside a table that changes',
        detail="partners that come later would meet another version of the table.",
        hint=f"join the table in a query of its own; or {_CURE}.",
        span=span,
    )
