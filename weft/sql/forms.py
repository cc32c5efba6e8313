"""Expressions with a syntax of their own: calls, CASE, CAST, EXTRACT, SUBSTRING, TRIM, EXISTS and other subqueries.

Each function reads one form; `read` reads an expression inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from weft.errors import Span
from weft.expr.dates import UNITS, unit_of
from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.query.draft import Draft, Item
from weft.query.gathering import KNOWN, ORDERED, PLACED
from weft.sql.cursor import Cursor
from weft.sql.over import read_order, read_over
from weft.sql.refused import refuse_clause
from weft.sql.typename import read_type

Read = Callable[[Cursor], Expr]
_BEHIND = (")", "UNION", "EXCEPT", "INTERSECT", "ORDER", "LIMIT")
"""What may stand behind a SELECT in parentheses that is part of another one."""
MOST_ROWS = 256
"""VALUES has at most so many rows."""

_TIMED = ("DATE_TRUNC", "DATETRUNC", "TIMESTAMP_TRUNC", "DATE_DIFF", "DATEDIFF")
"""Functions that begin with a unit."""
_LISTED = ("STRING_AGG", "LISTAGG", "GROUP_CONCAT", "ARRAY_AGG", "LIST")
"""Functions whose values WITHIN GROUP puts in order."""
_ORDER = "ORDER BY in a call is not supported"
_ORDER_HINT = "leave it out: nothing here depends on an order."


def sees_subquery(cursor: Cursor) -> bool:
    """Whether a SELECT begins here, behind a parenthesis."""
    if cursor.sees_any("SELECT", "WITH", "VALUES"):
        return True
    return cursor.sees("(") and is_select(cursor) and cursor.peek(behind(cursor, 0)).upper in _BEHIND


def is_select(cursor: Cursor, at: int = 0) -> bool:
    """Whether a SELECT stands in the parenthesis that opens `at` tokens ahead; if not, a join or an expression does."""
    inside = cursor.peek(at + 1).upper
    if inside != "(":
        return inside in ("SELECT", "WITH", "VALUES")
    return is_select(cursor, at + 1) and cursor.peek(behind(cursor, at + 1)).upper in _BEHIND


def behind(cursor: Cursor, at: int) -> int:
    """How far ahead the token behind a whole parenthesis is."""
    depth = 0
    while cursor.peek(at).kind != "end":
        depth += {"(": 1, ")": -1}.get(cursor.peek(at).upper, 0)
        at += 1
        if depth == 0:
            break
    return at


def values(cursor: Cursor, read: Read) -> Draft:
    """VALUES (...), ...: a SELECT without FROM for each row, joined by UNION ALL."""
    start = cursor.at
    cursor.next()
    rows: list[Draft] = []
    while not rows or cursor.accept(","):
        cursor.expect("(", "VALUES (1, 'a'), (2, 'b').")
        cells = arguments(cursor, read)
        items = (Item(cell, f"col{at}", cursor.text) for at, cell in enumerate(cells))
        rows.append(Draft((), (), tuple(items), None, cursor.text))
    if len(rows) > MOST_ROWS:
        hint = "declare a table: s.table(name, source)."
        raise cursor.fail(cursor.span_from(start), f"VALUES has more than {MOST_ROWS} rows", hint=hint)
    return replace(rows[0], unions=tuple(rows[1:]))


def subquery(cursor: Cursor) -> Literal:
    """A SELECT up to and with its closing parenthesis, as a constant that holds its draft."""
    start = cursor.at
    cursor.depth += 1
    draft = cursor.select(cursor)
    cursor.depth -= 1
    refuse_clause(cursor)
    cursor.expect(")", "the parenthesis is never closed.")
    return Literal(draft, None, cursor.span_from(start))


def function(cursor: Cursor, read: Read) -> Expr:
    """A call by name."""
    start = cursor.at
    name = cursor.next()
    cursor.next()
    if cursor.sees("*", ")"):
        return filtered(cursor, read, _count_all(cursor, name.text, start), start)
    inside = cursor.at
    distinct = cursor.accept("DISTINCT")
    args = () if cursor.accept(")") else _ordered_arguments(cursor, read, name.text)
    if distinct:
        span = cursor.tokens[inside].span.to(cursor.tokens[cursor.at - 2].span)
        args = _distinct(args, span)
    args = _within_group(cursor, read, name.upper, args)
    args = _known(args) if _ignores_nulls(cursor, name.text) else args
    args = _with_unit(name.upper, args)
    made = _window(name.upper, args, cursor.span_from(start))
    return made or filtered(cursor, read, Udf(name.text, args, None, cursor.span_from(start)), start)


def _distinct(args: tuple[Expr, ...], span: Span) -> tuple[Expr, ...]:
    """DISTINCT before the first argument, of those that know more than one; before all of others."""
    if len(args) == 1 and isinstance(args[0], Call) and args[0].op == ORDERED:
        first, *rest = args[0].args
        return (replace(args[0], args=(Call("distinct", (first,), None, span), *rest)),)
    if len(args) == 2 and isinstance(args[1], Literal):
        return Call("distinct", args[:1], None, span), args[1]
    return (Call("distinct", args, None, span),)


def _with_unit(name: str, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """DATE_TRUNC(DAY, time), and, as in BigQuery, DATE_TRUNC(time, DAY): a unit may be a word, and stand behind."""
    if name not in _TIMED or len(args) < 2:
        return args
    if len(args) == 2 and not (isinstance(args[0], Literal) or _is_unit(args[0])) and _is_unit(args[1]):
        args = args[::-1]
    unit = args[0]
    return (Literal(unit.name, None, unit.span), *args[1:]) if isinstance(unit, Column) and _is_unit(unit) else args


def _is_unit(expr: Expr) -> bool:
    return isinstance(expr, Column) and not expr.alias and unit_of(expr.name) in UNITS


def _window(name: str, args: tuple[Expr, ...], span: Span) -> Expr | None:
    """TUMBLE(time, length) and HOP(time, slide, length) in GROUP BY, TUMBLE_START(...) and the like beside it."""
    kind, _, part = name.partition("_")
    if len(args) != {"TUMBLE": 2, "HOP": 3}.get(kind) or part not in ("", "START", "END"):
        return None
    return Column("window", part.lower(), None, span) if part else Udf("window", (args[0], *args[:0:-1]), None, span)


def _count_all(cursor: Cursor, name: str, start: int) -> Expr:
    cursor.read("*", ")")
    if name.upper() != "COUNT":
        raise cursor.fail(cursor.span_from(start), f"{name} does not take *", hint="only COUNT does; name a column.")
    return Udf(name, (), None, cursor.span_from(start))


def filtered(cursor: Cursor, read: Read, call: Expr, start: int) -> Expr:
    """The call with FILTER (WHERE condition) behind it, if it is there."""
    if cursor.accept("FILTER", "("):
        cursor.expect("WHERE", "FILTER (WHERE condition).")
        test = read(cursor)
        cursor.expect(")", "FILTER (WHERE condition).")
        call = Call("filter", (call, test), None, cursor.span_from(start))
    if cursor.sees("OVER"):
        return read_over(cursor, read, call, start)
    return call


def arguments(cursor: Cursor, read: Read) -> tuple[Expr, ...]:
    """Expressions up to the closing parenthesis."""
    args = [read(cursor)]
    while cursor.accept(","):
        args.append(read(cursor))
    if cursor.sees("ORDER", "BY"):
        raise cursor.fail(cursor.read("ORDER", "BY"), _ORDER, hint=_ORDER_HINT)
    cursor.expect(")", "the list of arguments is never closed.")
    return tuple(args)


def _ordered_arguments(cursor: Cursor, read: Read, name: str) -> tuple[Expr, ...]:
    """The arguments of a call; ORDER BY in them makes them one."""
    start = cursor.at
    args = [read(cursor)]
    while cursor.accept(","):
        args.append(read(cursor))
    ignores = _ignores_nulls(cursor, name)
    if cursor.accept("ORDER", "BY"):
        args = [
            Call(ORDERED, (*args, *(key.call() for key in read_order(cursor, read))), None, cursor.span_from(start))
        ]
    ignores = _ignores_nulls(cursor, name) or ignores
    cursor.expect(")", "the list of arguments is never closed.")
    return _known(tuple(args)) if ignores else tuple(args)


def _ignores_nulls(cursor: Cursor, name: str) -> bool:
    """Read IGNORE NULLS, in a call or behind it; RESPECT NULLS says nothing."""
    if not cursor.sees("IGNORE", "NULLS"):
        return cursor.accept("RESPECT", "NULLS") and False
    if name.lower() not in PLACED:
        hint = "leave it out, and select rows without NULL in a derived table."
        raise cursor.fail(cursor.token.span, f"IGNORE NULLS is not supported in {name.upper()}", hint=hint)
    return cursor.accept("IGNORE", "NULLS")


def _known(args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The arguments of a call that ignores NULL."""
    first, *rest = args
    if isinstance(first, Call) and first.op == ORDERED:
        return (replace(first, args=_known(first.args)),)
    return (Call(KNOWN, (first,), None, first.span), *rest)


def _within_group(cursor: Cursor, read: Read, name: str, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """WITHIN GROUP (ORDER BY key, ...) behind a call: what its values are, or, where there are some, their order."""
    start = cursor.at
    if not cursor.accept("WITHIN", "GROUP"):
        return args
    form = "PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY value)."
    cursor.expect("(", form)
    cursor.expect("ORDER", form)
    cursor.expect("BY", form)
    order = read_order(cursor, read)
    cursor.expect(")", form)
    if name in _LISTED:
        return (Call(ORDERED, (*args, *(key.call() for key in order)), None, cursor.span_from(start)),)
    (key, *more) = order
    if more:
        raise cursor.fail(cursor.span_from(start), "WITHIN GROUP takes one value", hint=form)
    args = (key.expr, *args)
    return (Call(ORDERED, (*args, key.call()), None, cursor.span_from(start)),) if key.descending else args


def cast(cursor: Cursor, read: Read) -> Expr:
    """CAST(value AS type), and TRY_CAST, which is NULL where CAST would fail."""
    start = cursor.at
    word = cursor.next().upper
    form = f"{word}(value AS type)."
    cursor.expect("(", form)
    value = read(cursor)
    cursor.expect("AS", form)
    kind = read_type(cursor)
    cursor.expect(")", form)
    return Call(word.lower(), (value,), kind, cursor.span_from(start))


def case(cursor: Cursor, read: Read) -> Expr:
    """CASE with or without a subject."""
    start = cursor.at
    cursor.next()
    subject = None if cursor.sees("WHEN") else read(cursor)
    args: list[Expr] = []
    while cursor.accept("WHEN"):
        test = read(cursor)
        args.append(test if subject is None else Call("=", (subject, test), None, test.span))
        cursor.expect("THEN", "CASE WHEN condition THEN value ... END.")
        args.append(read(cursor))
    if not args:
        raise cursor.unexpected("WHEN is missing", "CASE WHEN condition THEN value ... END.")
    args.append(read(cursor) if cursor.accept("ELSE") else Literal(None))
    cursor.expect("END", "CASE is closed by END.")
    return Call("case", tuple(args), None, cursor.span_from(start))


def extract(cursor: Cursor, read: Read) -> Expr:
    """EXTRACT(unit FROM value)."""
    start = cursor.at
    cursor.next()
    cursor.expect("(", "EXTRACT(unit FROM value).")
    unit = cursor.next()
    cursor.expect("FROM", "EXTRACT(unit FROM value).")
    value = read(cursor)
    cursor.expect(")", "EXTRACT(unit FROM value).")
    return Call("date_part", (Literal(unit.text, None, unit.span), value), None, cursor.span_from(start))


def position(cursor: Cursor, read: Read) -> Expr:
    """POSITION(part IN text); `read` must not read IN."""
    start, form = cursor.at, "POSITION(part IN text)."
    cursor.next(), cursor.next()
    part = read(cursor)
    cursor.expect("IN", form)
    value = read(cursor)
    cursor.expect(")", form)
    return Call("strpos", (value, part), None, cursor.span_from(start))


def substring(cursor: Cursor, read: Read) -> Expr:
    """SUBSTRING with commas, or with FROM and FOR."""
    start = cursor.at
    name = cursor.next()
    cursor.next()
    value = read(cursor)
    if cursor.sees(","):
        cursor.next()
        return Udf(name.text, (value, *arguments(cursor, read)), None, cursor.span_from(start))
    args = [value]
    if cursor.accept("FROM"):
        args.append(read(cursor))
    if cursor.accept("FOR"):
        args = [*args, *([Literal(1)] * (len(args) == 1)), read(cursor)]
    cursor.expect(")", "SUBSTRING(text FROM start FOR length).")
    return Udf(name.text, tuple(args), None, cursor.span_from(start))


def trim(cursor: Cursor, read: Read) -> Expr:
    """TRIM as a function, or with BOTH, LEADING, TRAILING."""
    start = cursor.at
    if cursor.peek(2).upper not in ("BOTH", "LEADING", "TRAILING"):
        return function(cursor, read)
    cursor.next(), cursor.next()
    op = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[cursor.next().upper]
    characters = [] if cursor.sees("FROM") else [read(cursor)]
    cursor.expect("FROM", "TRIM(BOTH characters FROM text).")
    value = read(cursor)
    cursor.expect(")", "TRIM(BOTH characters FROM text).")
    return Call(op, (value, *characters), None, cursor.span_from(start))


def exists(cursor: Cursor, _: Read) -> Expr:
    """EXISTS (SELECT ...)."""
    start = cursor.at
    cursor.next(), cursor.next()
    if not sees_subquery(cursor):
        raise cursor.unexpected("EXISTS takes a SELECT", "write EXISTS (SELECT ... FROM ... WHERE ...).")
    return Call("exists", (subquery(cursor),), None, cursor.span_from(start))


def if_(cursor: Cursor, read: Read) -> Expr:
    """if(condition, value, value otherwise)."""
    start = cursor.at
    cursor.next(), cursor.next()
    args = arguments(cursor, read)
    if len(args) != 3:
        raise cursor.fail(
            cursor.span_from(start), "if takes 3 arguments", hint="if(condition, value, value otherwise)."
        )
    return Call("case", args, None, cursor.span_from(start))
