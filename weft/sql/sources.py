"""The grammar of FROM.

    item {, item}       item: factor {JOIN factor [ON condition | USING (column, ...)]}
    factor: name [[AS] alias [(column, ...)]] [WITHIN length] | (SELECT ...) [AS] alias ... | (item)

A comma binds weaker than JOIN.  Joins are inner joins, so they need no tree: parentheses are read and forgotten, but
for USING and NATURAL, which merge columns of what stands left and right of them.  `read` reads the SELECT of a derived
table up to its parenthesis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from weft.expr.model import Expr, Span, conjuncts
from weft.query.draft import Draft, Named, Source, Using, Within
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition
from weft.sql.interval import window_length
from weft.sql.refused import JOINS, outer_join, refuse_clause, unsupported_clause

ReadSelect = Callable[[Cursor], Draft]

_ENDS = ("JOIN", "WHERE", "GROUP", "HAVING", "WITHIN", "INNER", "CROSS", "UNION", ";", ",", ")")


@dataclass(slots=True)
class Found:
    """What FROM says, as far as it is read."""

    sources: list[Source] = field(default_factory=list)
    conditions: list[Expr] = field(default_factory=list)
    usings: list[Using] = field(default_factory=list)


def read_from(cursor: Cursor, read: ReadSelect) -> Found:
    """Read what stands behind FROM."""
    found = Found()
    _item(cursor, read, found)
    while cursor.accept(","):
        _item(cursor, read, found)
    refuse_clause(cursor)
    return found


def _item(cursor: Cursor, read: ReadSelect, found: Found) -> None:
    """One factor and all that is joined to it."""
    first = len(found.sources)
    _factor(cursor, read, found)
    while cursor.sees("CROSS") or cursor.sees("INNER") or cursor.sees("JOIN") or cursor.sees("NATURAL"):
        middle, start = len(found.sources), cursor.at
        kind = cursor.next().upper
        if kind == "NATURAL" and not cursor.accept("INNER") and not cursor.sees("JOIN"):
            raise outer_join(cursor, start)
        if kind != "JOIN":
            cursor.expect("JOIN", "write CROSS JOIN, NATURAL JOIN or INNER JOIN.")
        span = cursor.span_from(start)
        _factor(cursor, read, found)
        sides = range(first, middle), range(middle, len(found.sources))
        if kind == "NATURAL":
            found.usings.append(Using(None, *sides, span))
        elif kind != "CROSS":
            _join_condition(cursor, found, *sides)


def _join_condition(cursor: Cursor, found: Found, left: range, right: range) -> None:
    start = cursor.at
    if cursor.sees("USING") and not cursor.sees("USING", "SAMPLE"):
        cursor.next()
        columns = read_names(cursor, "USING (column, ...).")
        found.usings.append(Using(columns, left, right, cursor.span_from(start)))
        return
    refuse_clause(cursor)
    if not cursor.accept("ON"):
        raise cursor.unexpected(
            f'JOIN "{found.sources[-1].alias}" has no ON',
            hint="write ON condition or USING (column), or CROSS JOIN and the condition in WHERE.",
        )
    found.conditions.extend(conjuncts(read_condition(cursor, "ON")))


def read_names(cursor: Cursor, form: str) -> tuple[str, ...]:
    """Read names in parentheses."""
    cursor.expect("(", form)
    names = [cursor.name("a column").text]
    while cursor.accept(","):
        names.append(cursor.name("a column").text)
    cursor.expect(")", form)
    return tuple(names)


def read_condition(cursor: Cursor, clause: str) -> Expr:
    """Read the condition of a clause."""
    ends = cursor.at_end or cursor.sees_any(*_ENDS)
    if ends or unsupported_clause(cursor) or (cursor.token.upper in JOINS and cursor.peek().upper != "("):
        raise cursor.unexpected(f"{clause} has no condition", f"write a comparison after {clause}.")
    return parse_condition(cursor)


def _factor(cursor: Cursor, read: ReadSelect, found: Found) -> None:
    if cursor.sees("LATERAL"):
        raise outer_join(cursor, cursor.at)
    if not cursor.sees("("):
        found.sources.append(_stream(cursor))
    elif is_select(cursor):
        found.sources.append(_derived(cursor, read))
    else:
        _parenthesis(cursor, read, found)


def is_select(cursor: Cursor, at: int = 0) -> bool:
    """Whether a SELECT stands in the parenthesis that opens `at` tokens ahead; if not, a join does."""
    inside = cursor.peek(at + 1).upper
    if inside != "(":
        return inside in ("SELECT", "WITH", "VALUES")
    return is_select(cursor, at + 1) and cursor.peek(_behind(cursor, at + 1)).upper in (")", "UNION")


def _behind(cursor: Cursor, at: int) -> int:
    """How far ahead the token behind a whole parenthesis is."""
    depth = 0
    while cursor.peek(at).kind != "end":
        depth += {"(": 1, ")": -1}.get(cursor.peek(at).upper, 0)
        at += 1
        if depth == 0:
            break
    return at


def _parenthesis(cursor: Cursor, read: ReadSelect, found: Found) -> None:
    cursor.next()
    _item(cursor, read, found)
    refuse_clause(cursor)
    cursor.expect(")", "the parenthesis is never closed.")
    if cursor.is_name() or cursor.sees("AS"):
        hint = "give each stream in it an alias, or write (SELECT * FROM ...) AS name."
        raise cursor.fail(cursor.token.span, "a join in parentheses has no alias", hint=hint)


def _derived(cursor: Cursor, read: ReadSelect) -> Source:
    """(SELECT ...) AS alias."""
    start = cursor.at
    draft = read_parenthesised(cursor, read)
    text = cursor.source(cursor.span_from(start))
    alias, columns = _alias(cursor)
    if alias is None:
        alias = f"unnamed_subquery{start}"
    span = cursor.span_from(start)
    within, within_span = _window(cursor)
    return Source(text, alias, within, span, within_span, draft, columns)


def read_parenthesised(cursor: Cursor, read: ReadSelect) -> Draft:
    """Read a SELECT in parentheses."""
    cursor.expect("(", "a SELECT inside another one stands in parentheses.")
    if cursor.sees("VALUES"):
        raise cursor.fail(cursor.token.span, "VALUES is not supported", hint="declare a table: s.table(name, source).")
    draft = read(cursor)
    refuse_clause(cursor)
    cursor.expect(")", "the parenthesis is never closed.")
    return draft


def _stream(cursor: Cursor) -> Source:
    start = cursor.at
    name = cursor.name("the name of a stream")
    if cursor.sees("("):
        raise cursor.fail(
            cursor.span_from(start), "table functions are not supported", hint="register a stream under a name."
        )
    if cursor.sees("."):
        raise cursor.fail(
            cursor.token.span, "a stream's name has one part", hint="put it in double quotes if it has a dot."
        )
    alias, columns = _alias(cursor)
    span = cursor.span_from(start)
    within, within_span = _window(cursor)
    return Source(name.text, alias or name.text, within, span, within_span, None, columns)


def _alias(cursor: Cursor) -> tuple[str | None, tuple[str, ...]]:
    """An alias, and new names of columns; both may be missing."""
    if cursor.accept("AS"):
        alias = cursor.name("an alias after AS").text
    elif cursor.is_name():
        alias = cursor.next().text
    else:
        return None, ()
    return alias, read_names(cursor, "alias (column, ...).") if cursor.sees("(") else ()


def _window(cursor: Cursor) -> tuple[Within, Span | None]:
    """WITHIN directly behind a table factor."""
    if not cursor.sees("WITHIN"):
        return None, None
    start = cursor.at
    cursor.next()
    length = window_length(cursor)
    return length, cursor.span_from(start)


def read_with(cursor: Cursor, read: ReadSelect) -> tuple[Named, ...]:
    """Read WITH name [(column, ...)] AS (SELECT ...), ..., or nothing."""
    if not cursor.accept("WITH"):
        return ()
    if cursor.sees("RECURSIVE"):
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
