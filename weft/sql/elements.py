"""Table functions of FROM that give a row for each element of a list.

    [LATERAL] UNNEST(list) [WITH ORDINALITY]     generate_series(first, last [, step])     range(first, end [, step])

The last two are UNNEST of a list that is counted out.  Where nothing stands left of them and their arguments are
constants, they are VALUES.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.expr.model import Call, Expr, Literal, Udf
from weft.query.draft import Draft, Item
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition
from weft.sql.forms import MOST_ROWS, arguments

_SERIES = {"GENERATE_SERIES": 1, "RANGE": 0}
"""Name -> by how much the last number is further than that of a range."""


@dataclass(frozen=True, slots=True)
class Elements:
    """What stands behind UNNEST."""

    listed: Expr
    ordinality: bool
    name: str
    """What it is called without an alias."""


def sees_elements(cursor: Cursor) -> bool:
    """Whether one of these functions comes next."""
    ahead = 1 if cursor.sees("LATERAL") else 0
    return cursor.peek(ahead).upper in ("UNNEST", *_SERIES) and cursor.peek(ahead + 1).upper == "("


def read_elements(cursor: Cursor, *, is_first: bool) -> Elements | Draft:
    """Read UNNEST(...) or a series; a series of constants is rows of its own."""
    start = cursor.at
    cursor.accept("LATERAL")
    name = cursor.next()
    cursor.next()
    args = arguments(cursor, parse_condition)
    ordinality = cursor.accept("WITH", "ORDINALITY")
    ends = [_whole(arg) for arg in args]
    if name.upper in _SERIES and None not in ends and not ordinality:
        return _numbers(cursor, start, name.upper, [one for one in ends if one is not None])
    if is_first:
        hint = "write the stream first: FROM t, UNNEST(t.list) AS u (x)."
        raise cursor.fail(cursor.span_from(start), f"{name.upper} stands behind what it reads", hint=hint)
    if name.upper == "UNNEST" and len(args) != 1:
        hint = "write one UNNEST for each list."
        raise cursor.fail(cursor.span_from(start), "UNNEST takes one list", hint=hint)
    listed = args[0] if name.upper == "UNNEST" else Udf(name.text, args, None, cursor.span_from(start))
    return Elements(listed, ordinality, name.text.lower())


def _numbers(cursor: Cursor, start: int, name: str, ends: list[int]) -> Draft:
    """Numbers as VALUES."""
    if not 1 <= len(ends) <= 3 or (len(ends) == 3 and ends[2] == 0):
        raise cursor.fail(cursor.span_from(start), f"{name} counts wrongly", hint=f"{name}(first, last, step).")
    first, last, step = (0, ends[0], 1) if len(ends) == 1 else (*ends, 1)[:3]
    counted = range(first, last + _SERIES[name] * (1 if step > 0 else -1), step)
    if not 0 < len(counted) <= MOST_ROWS:
        hint = "declare a table: s.table(name, source)." if counted else "count at least one number."
        detail = f"1 to {MOST_ROWS} numbers can be written in a query."
        raise cursor.fail(cursor.span_from(start), f"{name} has {len(counted)} rows", detail=detail, hint=hint)
    rows = [Draft((), (), (Item(Literal(one), name.lower(), cursor.text),), None, cursor.text) for one in counted]
    return replace(rows[0], unions=tuple(rows[1:]))


def _whole(arg: Expr) -> int | None:
    """A constant that is a whole number."""
    if isinstance(arg, Call) and arg.op == "neg" and (inner := _whole(arg.args[0])) is not None:
        return -inner
    return arg.value if isinstance(arg, Literal) and type(arg.value) is int else None
