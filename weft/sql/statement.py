"""The grammar of a continuous query.

    SELECT item, ... FROM stream [AS] alias [WITHIN length] {, ... | [INNER|CROSS] JOIN ... [ON condition]}
    [WHERE condition] [GROUP BY key, ...] [HAVING condition] [WITHIN length] [;]

WITHIN after a table factor is the window of that alias; at the very end, or before GROUP BY, it is the default of all
others.
Everything else SQL knows is refused by name.
"""

from __future__ import annotations

from weft.expr.model import Expr, Span, conjuncts
from weft.query.draft import Condition, Draft, Item, Source, Star, Within
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition
from weft.sql.forms import refuse_subquery
from weft.sql.grouped import read_groups
from weft.sql.interval import window_length

_NOT_YET: dict[str, tuple[str, str]] = {
    "ORDER BY": ("ORDER BY is not supported", "a continuous result never ends; sort it where it is read."),
    "LIMIT": ("LIMIT is not supported", "a continuous result never ends; cut it where it is read."),
    "OFFSET": ("OFFSET is not supported", "a continuous result never ends; cut it where it is read."),
    "FETCH": ("FETCH is not supported", "a continuous result never ends; cut it where it is read."),
    "QUALIFY": ("QUALIFY is not supported: there are no window functions", "select where the result is read."),
    "WINDOW": ("WINDOW is not supported: there are no window functions", "a stream's window is written WITHIN."),
    "UNION": ("UNION is not supported", "register one query for each part."),
    "INTERSECT": ("INTERSECT is not supported", "join the streams on all columns."),
    "EXCEPT": ("EXCEPT is not supported", "register one query for each part."),
    "USING SAMPLE": ("USING SAMPLE is not supported", "select rows in WHERE."),
    "USING": ("USING is not supported", "write the condition out: ON a.key = b.key."),
    "TABLESAMPLE": ("TABLESAMPLE is not supported", "select rows in WHERE."),
    "FOR": ("FOR is not supported", "leave it out: a query only reads."),
    "INTO": ("INTO is not supported", "give the query a sink: q.to_parquet(...)."),
    "PIVOT": ("PIVOT is not supported", "pivot the result downstream."),
    "UNPIVOT": ("UNPIVOT is not supported", "unpivot the result downstream."),
}
_JOINS = ("LEFT", "RIGHT", "FULL", "OUTER", "SEMI", "ANTI", "NATURAL", "ASOF", "POSITIONAL", "LATERAL")


def parse_select(text: str) -> Draft:
    """One SELECT statement as a draft."""
    cursor = Cursor(text)
    draft = read_select(cursor)
    while cursor.accept(";"):
        pass
    if not cursor.at_end:
        raise cursor.fail(cursor.token.span, "there is more than one statement", hint="register one query for each.")
    return draft


def read_select(cursor: Cursor) -> Draft:
    """Read a SELECT up to the end of its statement."""
    distinct = _begin(cursor)
    items = _items(cursor)
    cursor.expect("FROM", "a query reads FROM at least one stream.")
    sources, conditions = _from(cursor)
    if cursor.accept("WHERE"):
        conditions.extend(conjuncts(_condition(cursor, "WHERE")))
    default = window_length(cursor) if cursor.accept("WITHIN") else None
    groups = read_groups(cursor)
    if default is None and cursor.accept("WITHIN"):
        default = window_length(cursor)
    if not cursor.ends_statement:
        raise _leftover(cursor)
    stated = tuple(Condition(condition, cursor.text) for condition in conditions)
    return Draft(
        tuple(sources), stated, items, default, cursor.text, group_by=groups.by, having=groups.having, distinct=distinct
    )


def _begin(cursor: Cursor) -> bool:
    """Read SELECT, and say whether DISTINCT follows."""
    if cursor.sees("WITH"):
        raise cursor.fail(cursor.token.span, "WITH is not supported", hint="join the streams in one FROM clause.")
    cursor.expect("SELECT", "a query begins with SELECT.")
    if cursor.accept("ALL"):
        return False
    distinct = cursor.accept("DISTINCT")
    if distinct and cursor.sees("ON"):
        raise cursor.fail(cursor.token.span, "DISTINCT ON is not supported", hint="use GROUP BY with MIN or MAX.")
    return distinct


def _leftover(cursor: Cursor) -> Exception:
    refuse_clause(cursor)
    if cursor.sees("WITHIN"):
        return cursor.fail(cursor.token.span, "WITHIN cannot stand here", hint=_WITHIN_HINT)
    return cursor.unexpected("the query should end here", _hint_behind_within(cursor))


def _hint_behind_within(cursor: Cursor) -> str:
    """What to do about words behind a WITHIN that was taken for the last clause."""
    words = [token.upper for token in cursor.tokens[: cursor.at]]
    if "WITHIN" not in words[-8:]:
        return _END_HINT
    if cursor.sees_any("WHERE", "AND", "OR", "ON", "JOIN"):
        return "the WITHIN before it is the last clause: move it to the end, or directly behind a stream and its alias."
    return "WITHIN stands behind a stream and its alias: write the alias before it."


_END_HINT = "leave the rest out, or join it to what stands before it by an operator or a comma."
_WITHIN_HINT = "write it directly after a stream and its alias, or once at the end of the query."


def refuse_clause(cursor: Cursor) -> None:
    """Refuse a clause of SQL that Weft does not have; each has its own message."""
    clause = _unsupported_clause(cursor)
    if clause is not None:
        message, hint = _NOT_YET[clause]
        raise cursor.fail(cursor.read(*clause.split()), message, hint=hint)
    if cursor.token.upper in _JOINS:
        raise _outer_join(cursor)


def _unsupported_clause(cursor: Cursor) -> str | None:
    if cursor.sees("WINDOW") and cursor.peek().upper in ("(", "."):
        return None  # a window of event time
    return next((clause for clause in _NOT_YET if cursor.sees(*clause.split())), None)


def _outer_join(cursor: Cursor) -> Exception:
    start, words = cursor.at, []
    while cursor.token.upper in (*_JOINS, "INNER", "JOIN"):
        words.append(cursor.next().upper)
    kind = " ".join(word for word in words if word != "JOIN")
    hint = (
        "write ON with the columns to compare."
        if kind == "NATURAL"
        else "only inner joins are continuous here: write JOIN ... ON."
    )
    return cursor.fail(cursor.span_from(start), f"{kind} joins are not supported", hint=hint)


def _items(cursor: Cursor) -> tuple[Item, ...]:
    items = [_item(cursor)]
    while cursor.accept(","):
        items.append(_item(cursor))
    return tuple(items)


def _item(cursor: Cursor) -> Item:
    start = cursor.at
    star = _star(cursor)
    if star is not None:
        return Item(star, None, cursor.text, cursor.source(cursor.span_from(start)))
    refuse_subquery(cursor)
    if cursor.sees("FROM") or cursor.at_end:
        raise cursor.unexpected("the SELECT list is empty or ends with a comma", "name a column, or write *.")
    expr = parse_condition(cursor)
    source = cursor.source(cursor.span_from(start))
    return Item(expr, _item_name(cursor), cursor.text, source)


def _item_name(cursor: Cursor) -> str | None:
    if cursor.accept("AS"):
        return cursor.name("a name after AS").text
    if cursor.is_name():
        return cursor.next().text
    if cursor.sees("WITHIN"):
        raise cursor.fail(cursor.token.span, "WITHIN cannot stand here", hint=_WITHIN_HINT)
    return None


def _star(cursor: Cursor) -> Star | None:
    start = cursor.at
    alias = ""
    if cursor.is_name() and cursor.peek(1).upper == "." and cursor.peek(2).upper == "*":
        alias = cursor.next().text
        cursor.next()
    elif not cursor.sees("*"):
        return None
    cursor.next()
    if cursor.sees_any("EXCLUDE", "REPLACE", "RENAME", "EXCEPT"):
        raise cursor.fail(cursor.token.span, f"* {cursor.token.upper} is not supported", hint="list the columns.")
    if cursor.sees("AS") or cursor.is_name():
        raise cursor.fail(cursor.token.span, "* cannot be renamed", hint="list the columns.")
    return Star(alias, cursor.span_from(start))


def _from(cursor: Cursor) -> tuple[list[Source], list[Expr]]:
    sources = [_source(cursor)]
    conditions: list[Expr] = []
    while True:
        if cursor.accept(","):
            sources.append(_source(cursor))
        elif cursor.sees("CROSS") or cursor.sees("INNER") or cursor.sees("JOIN"):
            crossed = cursor.accept("CROSS")
            if not crossed:
                cursor.accept("INNER")
            cursor.expect("JOIN", "write CROSS JOIN or INNER JOIN.")
            sources.append(_source(cursor))
            conditions.extend(() if crossed else _on(cursor, sources[-1]))
        else:
            refuse_clause(cursor)
            return sources, conditions


def _on(cursor: Cursor, source: Source) -> tuple[Expr, ...]:
    refuse_clause(cursor)
    if not cursor.accept("ON"):
        raise cursor.unexpected(
            f'JOIN "{source.alias}" has no ON', hint="write ON condition, or CROSS JOIN and the condition in WHERE."
        )
    return conjuncts(_condition(cursor, "ON"))


def _condition(cursor: Cursor, clause: str) -> Expr:
    ends = cursor.at_end or cursor.sees_any(*_ENDS)
    if ends or _unsupported_clause(cursor) or (cursor.token.upper in _JOINS and cursor.peek().upper != "("):
        raise cursor.unexpected(f"{clause} has no condition", f"write a comparison after {clause}.")
    return parse_condition(cursor)


_ENDS = ("JOIN", "WHERE", "GROUP", "HAVING", "WITHIN", "INNER", "CROSS", ";", ",", ")")


def _source(cursor: Cursor) -> Source:
    start = cursor.at
    if cursor.sees("("):
        cursor.next()
        refuse_subquery(cursor)
        raise cursor.fail(
            cursor.span_from(start), "parentheses in FROM are not supported", hint="list the joins one by one."
        )
    if cursor.sees("LATERAL"):
        raise _outer_join(cursor)
    name = cursor.name("the name of a stream")
    if cursor.sees("("):
        raise cursor.fail(
            cursor.span_from(start), "table functions are not supported", hint="register a stream under a name."
        )
    if cursor.sees("."):
        raise cursor.fail(
            cursor.token.span, "a stream's name has one part", hint="put it in double quotes if it has a dot."
        )
    alias = _alias(cursor) or name.text
    span = cursor.span_from(start)
    within, within_span = _window(cursor)
    return Source(name.text, alias, within, span, within_span)


def _alias(cursor: Cursor) -> str | None:
    if cursor.accept("AS"):
        alias = cursor.name("an alias after AS").text
    elif cursor.is_name():
        alias = cursor.next().text
    else:
        return None
    if cursor.sees("("):
        raise cursor.fail(cursor.token.span, "renaming the columns of a stream is not supported", hint=_RENAME)
    return alias


_RENAME = "rename them in the SELECT list: column AS name."


def _window(cursor: Cursor) -> tuple[Within, Span | None]:
    """WITHIN directly behind a table factor."""
    if not cursor.sees("WITHIN"):
        return None, None
    start = cursor.at
    cursor.next()
    length = window_length(cursor)
    return length, cursor.span_from(start)


def parse_item(text: str) -> Item:
    """One entry of a SELECT list, as the builder takes it."""
    cursor = Cursor(text)
    item = _item(cursor)
    if not cursor.at_end:
        raise cursor.unexpected("the expression should end here", _END_HINT)
    return item


def parse_expression(text: str) -> Expr:
    """One expression, its names not looked up.

    >>> parse_expression("o.price")
    Column(alias='o', name='price', type=None)
    """
    cursor = Cursor(text)
    expr = parse_condition(cursor)
    if not cursor.at_end:
        refuse_clause(cursor)
        raise cursor.unexpected("the expression should end here", _END_HINT)
    return expr
