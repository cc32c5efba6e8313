"""Orders and numbers of rows.

    function() OVER window                  for windows see weft.sql.window
    ORDER BY expression [ASC | DESC] [NULLS FIRST | LAST], ...
    ORDER BY ... LIMIT n [OFFSET m]         LIMIT n may be FETCH FIRST n ROWS ONLY; inside of a query, without ORDER BY
    DISTINCT ON (expression, ...) ... [ORDER BY ...]      QUALIFY ROW_NUMBER() OVER (PARTITION BY ... ORDER BY ...) = 1

NULL comes last, in either direction, unless NULLS FIRST is written.  What other window functions do is refused, each
with what to write instead.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace

from weft.errors import QueryError
from weft.expr.model import Call, Expr, Literal, Udf, walk
from weft.expr.typing import add_types
from weft.query.aggregates import AGGREGATES, calls_aggregate
from weft.query.draft import Draft, Item
from weft.query.grouping import RankKind
from weft.query.ordered import around
from weft.query.overcall import OverCall, SortKey, is_over
from weft.query.ranking import first_of_groups, first_rows, is_ranking
from weft.sql.cursor import Cursor
from weft.sql.shares import PLACES, place
from weft.sql.window import FORM, read_window

Read = Callable[[Cursor], Expr]

_RANKS: dict[str, RankKind] = {"row_number": "row_number", "rank": "rank", "dense_rank": "dense_rank"}
_GROUP = "group the rows: SELECT key, COUNT(*) ... GROUP BY key, and join the groups where rows need them."
_OTHERS = {"lag": 3, "lead": 3, "first_value": 1, "last_value": 1, "nth_value": 2}
"""Functions that find other rows -> how many arguments they take."""
_SIGNS = ("+", "-", "*")
"""What LIMIT may work out; `/` gives no whole number, and `%` a share of the rows elsewhere."""


def read_over(cursor: Cursor, read: Read, call: Expr, start: int) -> Expr:
    """Read OVER behind a call."""
    where = call.args[1] if isinstance(call, Call) else None
    call = call.args[0] if isinstance(call, Call) else call
    assert isinstance(call, Udf)
    name = call.name.lower()
    if not any(name in known for known in (_RANKS, PLACES, _OTHERS, AGGREGATES)):
        raise cursor.fail(
            cursor.token.span,
            f"{name.upper()} ... OVER is not supported",
            detail=f"window functions are: {', '.join((*_RANKS, *PLACES, *_OTHERS)).upper()}, and aggregates.",
            hint=_GROUP,
        )
    if name in _RANKS and call.args:
        raise cursor.fail(cursor.span_from(start), f"{name.upper()} takes no argument", hint=f"write {name}() {FORM}")
    if name in PLACES and (len(call.args) != PLACES[name] or where is not None):
        hint = f"write {name}({'4' if PLACES[name] else ''}) {FORM}"
        raise cursor.fail(cursor.span_from(start), f"{name.upper()} cannot be called so", hint=hint)
    if name in _OTHERS and (not 1 <= len(call.args) <= _OTHERS[name] or where is not None):
        hint = f"write {name}(value) {FORM}"
        raise cursor.fail(cursor.span_from(start), f"{name.upper()} cannot be called so", hint=hint)
    cursor.next()
    window = read_window(cursor, read, read_order)
    if name in _RANKS:  # all rows are numbered, whatever the frame
        return OverCall(_RANKS[name], window.by, window.order).call(cursor.span_from(start))
    if name in PLACES:
        return place(name, call.args, window, cursor.span_from(start))
    if cursor.sees("IGNORE", "NULLS") or cursor.sees("RESPECT", "NULLS"):
        hint = "write it before OVER."
        raise cursor.fail(cursor.token.span, f"{cursor.token.upper} NULLS cannot stand here", hint=hint)
    return OverCall(None, window.by, window.order, name, call.args, where, window.frame).call(cursor.span_from(start))


def read_order(cursor: Cursor, read: Read) -> tuple[SortKey, ...]:
    """Read what stands behind ORDER BY."""
    keys = [*_sort_keys(cursor, read)]
    while cursor.accept(","):
        keys += _sort_keys(cursor, read)
    return tuple(keys)


def _sort_keys(cursor: Cursor, read: Read) -> Iterator[SortKey]:
    """A key of an order; a row of values is as many."""
    if cursor.sees("ALL") and cursor.peek().upper != "(":
        raise cursor.fail(cursor.token.span, "ORDER BY ALL is not supported", hint="list what to order by.")
    expr = read(cursor)
    descending = cursor.accept("DESC")
    _ = descending or cursor.accept("ASC")
    first = cursor.accept("NULLS", "FIRST")
    _ = first or cursor.accept("NULLS", "LAST")
    if isinstance(expr, Call) and expr.op == "row":  # NULL is the greatest value in it
        yield from (SortKey(one, descending, descending) for one in expr.args)
    else:
        yield SortKey(expr, descending, first)


def read_limit(cursor: Cursor, draft: Draft, read: Read) -> Draft:
    """Read ORDER BY, LIMIT and OFFSET behind a SELECT, or nothing; each alone is left to who refuses it."""
    start = cursor.at
    ordered = cursor.accept("ORDER", "BY")
    if not ordered and (cursor.depth == 0 or not cursor.sees_any("LIMIT", "OFFSET", "FETCH")):
        return draft
    order = read_order(cursor, read) if ordered else ()
    skipped = _skipped(cursor, read)
    most = _most(cursor, read)
    skipped = _skipped(cursor, read) if skipped is None else skipped
    if most is None and skipped is None:
        if cursor.depth == 0:
            cursor.at = start
        return draft  # inside of a query, rows without a number have no order
    if not (ordered or skipped or draft.unions or draft.group_by) and most and any(map(_is_aggregate, draft.items)):
        return draft  # one row
    if draft.unions or draft.distinct or is_ranking(draft) or any(_is_numbered(key.expr) for key in order):
        draft, keys = around(draft, [key.expr for key in order])
        order = tuple(replace(key, expr=shown) for key, shown in zip(order, keys, strict=True))
    return first_rows(draft, order, most, skipped or 0, cursor.span_from(start))


def first_of_each(cursor: Cursor, draft: Draft, by: tuple[Expr, ...], read: Read) -> Draft:
    """DISTINCT ON (key, ...): the first row of each group, in the order of ORDER BY behind it, if there is no LIMIT."""
    start = cursor.at
    order = read_order(cursor, read) if cursor.accept("ORDER", "BY") else ()
    if cursor.sees_any("LIMIT", "OFFSET", "FETCH"):
        cursor.at = start
    if draft.qualify:  # it says first which rows there are
        draft, keys = around(draft, [*by, *(key.expr for key in order)])
        by, keys = keys[: len(by)], keys[len(by) :]
        order = tuple(replace(key, expr=shown) for key, shown in zip(order, keys, strict=True))
    return first_of_groups(draft, by, order)


def _is_aggregate(item: Item) -> bool:
    return calls_aggregate(item.expr)


def _is_numbered(written: Expr) -> bool:
    return any(map(is_over, walk(written)))


def _skipped(cursor: Cursor, read: Read) -> int | None:
    if not cursor.accept("OFFSET"):
        return None
    skipped = _count(cursor, read)
    _ = cursor.accept("ROW") or cursor.accept("ROWS")
    return skipped


def _most(cursor: Cursor, read: Read) -> int | None:
    if cursor.accept("LIMIT", "ALL") or cursor.accept("LIMIT", "NULL"):
        return None
    if cursor.accept("LIMIT"):
        most = _count(cursor, read)
        if cursor.sees("%") or cursor.sees("PERCENT"):
            raise cursor.fail(cursor.token.span, "LIMIT takes a number of rows", hint="write LIMIT 10.")
        return most
    if not cursor.accept("FETCH"):
        return None
    _ = cursor.accept("FIRST") or cursor.accept("NEXT")
    most = 1 if cursor.sees_any("ROW", "ROWS") else _count(cursor, read)
    _ = cursor.accept("ROW") or cursor.accept("ROWS")
    cursor.expect("ONLY", "FETCH FIRST 10 ROWS ONLY.")
    return most


def _count(cursor: Cursor, read: Read) -> int:
    """A whole number, or constants that it is worked out of."""
    if cursor.token.text.isdecimal() and not cursor.peek().upper.startswith(_SIGNS):
        return int(cursor.next().text)
    if not (cursor.token.text.isdecimal() or cursor.sees("(")):
        raise cursor.unexpected("LIMIT and OFFSET take a whole number", "write LIMIT 10.")
    start = cursor.at
    written = read(cursor)
    with contextlib.suppress(QueryError):  # it is too large
        if all(map(_is_counted, walk(written))):
            found = add_types(written)
            if isinstance(found, Literal) and isinstance(found.value, int) and found.value >= 0:
                return found.value
    span = cursor.span_from(start)
    raise cursor.fail(span, "LIMIT and OFFSET take a whole number", hint="write LIMIT 10, or LIMIT 2 * 5.")


def _is_counted(node: Expr) -> bool:
    return type(node.value) is int if isinstance(node, Literal) else isinstance(node, Call) and node.op in _SIGNS
