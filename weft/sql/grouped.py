"""GROUP BY and HAVING."""

from __future__ import annotations

from dataclasses import dataclass

from weft.expr.model import conjuncts
from weft.query.draft import Condition
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition

_SETS = ("ROLLUP", "CUBE", "GROUPING")


@dataclass(frozen=True, slots=True)
class Groups:
    """What the two clauses say."""

    by: tuple[Condition, ...]
    having: tuple[Condition, ...]


def read_groups(cursor: Cursor) -> Groups:
    """Read GROUP BY and HAVING, each if it is there."""
    by = _keys(cursor) if cursor.accept("GROUP", "BY") else ()
    having = conjuncts(parse_condition(cursor)) if cursor.accept("HAVING") else ()
    return Groups(by, tuple(Condition(part, cursor.text) for part in having))


def _keys(cursor: Cursor) -> tuple[Condition, ...]:
    keys = [_key(cursor)]
    while cursor.accept(","):
        keys.append(_key(cursor))
    return tuple(keys)


def _key(cursor: Cursor) -> Condition:
    if cursor.sees_any(*_SETS) and cursor.peek().upper in ("(", "SETS"):
        hint = "register one query for each set of keys."
        raise cursor.fail(cursor.token.span, f"{cursor.token.upper} is not supported", hint=hint)
    if cursor.sees("ALL"):
        raise cursor.fail(cursor.token.span, "GROUP BY ALL is not supported", hint="list what to group by.")
    return Condition(parse_condition(cursor), cursor.text)
