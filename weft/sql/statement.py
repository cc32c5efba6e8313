"""The grammar of a continuous query.

    [WITH name AS (SELECT ...), ...] SELECT item, ... FROM ... [WHERE condition] [GROUP BY key, ...]
    [HAVING condition] [WINDOW name AS (...), ...] [QUALIFY condition] [WITHIN length]
    [UNION [ALL] [BY NAME] | EXCEPT | INTERSECT SELECT ...] [ORDER BY key, ... LIMIT n] [;]

WITHIN after a table factor is the window of that alias; at the very end, or before GROUP BY, it is the default of all
others.
Everything else SQL knows is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.expr.model import Column, Expr, columns, conjuncts
from weft.query.bags import counted_rows
from weft.query.derived import add_branch, all_rows, different_rows
from weft.query.draft import Condition, Draft, Item, Join, JoinKind, Source, Star, Using
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition
from weft.sql.forms import arguments, is_select, values
from weft.sql.grouped import read_groups
from weft.sql.interval import window_length
from weft.sql.named import read_with
from weft.sql.over import first_of_each, read_limit, read_order
from weft.sql.refused import refuse_clause
from weft.sql.sources import Found, read_condition, read_from, read_parenthesised
from weft.sql.taken import taken_apart
from weft.sql.tokens import Token
from weft.sql.window import find_windows, read_windows


def parse_select(text: str, depth: int = 0) -> Draft:
    """One SELECT statement as a draft, as it stands in so many others."""
    cursor = Cursor(text, read_body)
    cursor.depth = depth
    draft = read_select(cursor)
    while cursor.accept(";"):
        pass
    if not cursor.at_end:
        raise cursor.fail(cursor.token.span, "there is more than one statement", hint="register one query for each.")
    return draft


def read_select(cursor: Cursor) -> Draft:
    """Read a SELECT up to the end of its statement."""
    draft = read_body(cursor)
    if not cursor.ends_statement:
        raise _leftover(cursor)
    return draft


def read_body(cursor: Cursor) -> Draft:
    """Read SELECTs that UNION joins, as far as they go."""
    named, start = read_with(cursor, read_body), cursor.at
    draft = _intersection(cursor)
    while cursor.sees_any("UNION", "EXCEPT"):
        if cursor.sees("EXCEPT"):
            draft = _by_rows(cursor, draft, "anti", _intersection)
            continue
        cursor.next()
        is_all = cursor.accept("ALL") or (cursor.accept("DISTINCT") and False)
        unite = _by_name if cursor.accept("BY", "NAME") else add_branch
        cursor.depth += 1
        draft = unite(_closed(draft), _closed(_intersection(cursor)))
        cursor.depth -= 1
        if not is_all:
            draft = different_rows(draft, cursor.source(cursor.span_from(start)))
    draft = read_limit(cursor, draft, parse_condition)
    return replace(draft, named=(*named, *draft.named)) if named else draft


def _intersection(cursor: Cursor) -> Draft:
    """SELECTs that INTERSECT joins: it binds tighter than UNION and EXCEPT."""
    draft = _branch(cursor)
    while cursor.sees("INTERSECT"):
        draft = _by_rows(cursor, draft, "semi", _branch)
    return draft


def _by_rows(cursor: Cursor, draft: Draft, kind: JoinKind, read: Callable[[Cursor], Draft]) -> Draft:
    """The different rows of a SELECT that another one has, or has not: a semi or an anti join by all columns."""
    start = cursor.at
    cursor.next()
    is_all = cursor.accept("ALL") or (cursor.accept("DISTINCT") and False)
    span = cursor.span_from(start)
    cursor.depth += 1
    other = read(cursor)
    cursor.depth -= 1
    if is_all:
        return counted_rows(draft, other, kind == "semi", span)
    using = Using((), range(1), range(1, 2), span, places=True)
    sources = (Source("the rows", "rows", derived=draft), Source("others", "others", derived=other))
    star = Item(Star(), None, cursor.text)
    tree = Join(kind, 0, 1, (), using, span)
    return Draft(sources, (), (star,), None, cursor.text, distinct=True, tree=tree)


def _by_name(draft: Draft, other: Draft) -> Draft:
    """All rows of both, with the columns of both; no further SELECT is one of the same UNION."""
    first, second = (all_rows(one, one.text) if one.unions else one for one in (draft, other))
    return all_rows(replace(add_branch(first, second), by_name=True), draft.text)


def _closed(draft: Draft) -> Draft:
    """A SELECT of a UNION: what a WITH in its own parentheses names, no other one sees."""
    return all_rows(draft, draft.text) if draft.named else draft


def _branch(cursor: Cursor) -> Draft:
    """One SELECT of a UNION, or VALUES."""
    if cursor.sees("VALUES"):
        return values(cursor, parse_condition)
    return read_parenthesised(cursor, read_body) if cursor.sees("(") and is_select(cursor) else _select(cursor)


def _select(cursor: Cursor) -> Draft:
    distinct, on = _begin(cursor)
    outside, cursor.windows = cursor.windows, find_windows(cursor)
    items = _items(cursor)
    found = _from(cursor, items)
    conditions = found.conditions
    if cursor.accept("WHERE"):
        conditions.extend(Condition(part, cursor.text) for part in conjuncts(read_condition(cursor, "WHERE")))
    default = window_length(cursor) if cursor.accept("WITHIN") else None
    groups = read_groups(cursor)
    read_windows(cursor, parse_condition, read_order)
    qualify = conjuncts(parse_condition(cursor)) if cursor.accept("QUALIFY") else ()
    if default is None and cursor.accept("WITHIN"):
        default = window_length(cursor)
    draft = Draft(
        tuple(found.sources),
        tuple(conditions),
        items,
        default,
        cursor.text,
        usings=tuple(found.usings),
        group_by=groups.by,
        having=groups.having,
        sets=groups.sets,
        distinct=distinct,
        qualify=tuple(Condition(part, cursor.text) for part in qualify),
        tree=found.tree,
    )
    cursor.windows = outside
    draft = taken_apart(draft)
    return first_of_each(cursor, draft, on, parse_condition) if on else draft


def _from(cursor: Cursor, items: tuple[Item, ...]) -> Found:
    """FROM; a SELECT inside of another one, and one of constants and subqueries, may have none."""
    if cursor.sees("FROM") or (cursor.depth == 0 and any(map(_reads_column, items))):
        cursor.expect("FROM", "a query reads FROM at least one stream.")
        return read_from(cursor, read_body)
    return Found()


def _reads_column(item: Item) -> bool:
    return isinstance(item.expr, Star | str) or bool(columns(item.expr))


def _begin(cursor: Cursor) -> tuple[bool, tuple[Expr, ...]]:
    """Read SELECT, and say whether DISTINCT follows, and of what only one row is wanted."""
    cursor.expect("SELECT", "a query begins with SELECT.")
    if cursor.accept("ALL"):
        return False, ()
    if cursor.accept("DISTINCT", "ON"):
        cursor.expect("(", "DISTINCT ON (key, ...) value, ...")
        return False, arguments(cursor, parse_condition)
    return cursor.accept("DISTINCT"), ()


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
    if cursor.sees("FROM") or cursor.at_end:
        raise cursor.unexpected("the SELECT list is empty or ends with a comma", "name a column, or write *.")
    expr = parse_condition(cursor)
    source = cursor.source(cursor.span_from(start))
    return Item(expr, _item_name(cursor), cursor.text, source)


def _item_name(cursor: Cursor) -> str | None:
    if cursor.accept("AS"):
        return (cursor.name("a name after AS") if cursor.sees_any("FROM", "AS") else _label(cursor)).text
    if cursor.is_name():
        return cursor.next().text
    if cursor.sees("WITHIN"):
        raise cursor.fail(cursor.token.span, "WITHIN cannot stand here", hint=_WITHIN_HINT)
    return None


def _label(cursor: Cursor) -> Token:
    """Behind AS any word is a name."""
    return cursor.word("a name after AS", "a name is a word, or anything in double quotes.")


def _star(cursor: Cursor) -> Star | None:
    start = cursor.at
    alias = ""
    if cursor.is_name() and cursor.peek(1).upper == "." and cursor.peek(2).upper == "*":
        alias = cursor.next().text
        cursor.next()
    elif not cursor.sees("*"):
        return None
    cursor.next()
    without = _without(cursor)
    if cursor.sees_any("REPLACE", "RENAME"):
        raise cursor.fail(cursor.token.span, f"* {cursor.token.upper} is not supported", hint="list the columns.")
    if cursor.sees("AS") or cursor.is_name():
        raise cursor.fail(cursor.token.span, "* cannot be renamed", hint="list the columns.")
    return Star(alias, cursor.span_from(start), without)


def _without(cursor: Cursor) -> tuple[Column, ...]:
    """EXCLUDE (column, ...) behind *, in other systems EXCEPT (column, ...); one column needs no parentheses."""
    if not cursor.sees("EXCLUDE") and not (cursor.sees("EXCEPT", "(") and not is_select(cursor, 1)):
        return ()
    cursor.next()
    if not cursor.accept("("):
        return (_excluded(cursor),)
    found = [_excluded(cursor)]
    while cursor.accept(","):
        found.append(_excluded(cursor))
    cursor.expect(")", "* EXCLUDE (column, ...).")
    return tuple(found)


def _excluded(cursor: Cursor) -> Column:
    name = cursor.name("the name of a column")
    if not cursor.accept("."):
        return Column("", name.text, None, name.span)
    return Column(name.text, cursor.name("the name of a column").text, None, name.span)


def parse_item(text: str) -> Item:
    """One entry of a SELECT list, as the builder takes it."""
    cursor = Cursor(text, read_body)
    item = _item(cursor)
    if not cursor.at_end:
        raise cursor.unexpected("the expression should end here", _END_HINT)
    return item


def parse_expression(text: str) -> Expr:
    """One expression, its names not looked up.

    >>> parse_expression("o.price")
    Column(alias='o', name='price', type=None)
    """
    cursor = Cursor(text, read_body)
    expr = parse_condition(cursor)
    if not cursor.at_end:
        refuse_clause(cursor)
        raise cursor.unexpected("the expression should end here", _END_HINT)
    return expr
