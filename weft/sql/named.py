"""WITH: SELECTs under a name, before the one that reads them."""

from __future__ import annotations

from weft.query.draft import Named
from weft.sql.cursor import Cursor
from weft.sql.sources import ReadSelect, read_names, read_parenthesised


def read_with(cursor: Cursor, read: ReadSelect) -> tuple[Named, ...]:
    """Read WITH name [(column, ...)] AS (SELECT ...), ..., or nothing."""
    if not cursor.accept("WITH"):
        return ()
    if cursor.sees("RECURSIVE") or cursor.sees("MUTUALLY", "RECURSIVE"):
        _ = cursor.accept("MUTUALLY")
        hint = "a recursive result has no bound; join a stream with itself as often as needed."
        raise cursor.fail(cursor.token.span, "WITH RECURSIVE is not supported", hint=hint)
    named = [_named(cursor, read, ())]
    while cursor.accept(","):
        named.append(_named(cursor, read, named))
    return tuple(named)


def _named(cursor: Cursor, read: ReadSelect, before: list[Named] | tuple[()]) -> Named:
    form = "WITH name AS (SELECT ...) SELECT ..."
    name = cursor.name("a name behind WITH")
    if any(name.text.lower() == other.name.lower() for other in before):
        raise cursor.fail(name.span, f"WITH has two {name.text}", hint="give one of them another name.")
    columns = read_names(cursor, form) if cursor.sees("(") else ()
    cursor.expect("AS", form)
    _ = cursor.accept("MATERIALIZED") or cursor.accept("NOT", "MATERIALIZED")  # how it runs is chosen by cost
    return Named(name.text, read_parenthesised(cursor, read), columns)
