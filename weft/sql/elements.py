"""Table functions of FROM that give a row for each element of a list.

    [LATERAL] UNNEST(list) [WITH ORDINALITY]     generate_series(first, last [, step])     range(first, end [, step])

The last two are UNNEST of a list that is counted out.  A list that reads no column is that of the one row of a SELECT
without FROM.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.expr.lists import ORDINAL, UNNEST
from weft.expr.model import Call, Expr, Literal, Udf, columns
from weft.query.draft import Draft, Item, has_subquery
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition
from weft.sql.forms import arguments

_SERIES = ("GENERATE_SERIES", "RANGE")


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
    """Read UNNEST(...) or a series; one that reads no column is rows of its own."""
    start = cursor.at
    cursor.accept("LATERAL")
    name = cursor.next()
    cursor.next()
    args = arguments(cursor, parse_condition)
    ordinality = cursor.accept("WITH", "ORDINALITY")
    if name.upper == "UNNEST" and len(args) != 1:
        hint = "write one UNNEST for each list."
        raise cursor.fail(cursor.span_from(start), "UNNEST takes one list", hint=hint)
    listed = args[0] if name.upper == "UNNEST" else Udf(name.text, args, None, cursor.span_from(start))
    if not columns(listed) and not has_subquery(listed):
        return _constant(cursor, listed, name.text.lower(), ordinality=ordinality)
    if is_first:
        hint = "write the stream first: FROM t, UNNEST(t.list) AS u (x)."
        raise cursor.fail(cursor.span_from(start), f"{name.upper} stands behind what it reads", hint=hint)
    return Elements(listed, ordinality, name.text.lower())


def _constant(cursor: Cursor, listed: Expr, name: str, *, ordinality: bool) -> Draft:
    """A list without columns: the one row that has it is taken apart."""
    named = {name: UNNEST, **({"ordinality": ORDINAL} if ordinality else {})}
    items = (Item(Call(op, (listed, Literal(False)), None, listed.span), one, cursor.text) for one, op in named.items())
    return Draft((), (), tuple(items), None, cursor.text)
