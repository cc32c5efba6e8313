"""GROUP BY and HAVING."""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.expr.model import Call, conjuncts
from weft.query.draft import EVERY, Condition
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition
from weft.sql.rowvalue import ROW

_SETS = ("ROLLUP", "CUBE", "GROUPING")


@dataclass(frozen=True, slots=True)
class Groups:
    """What the two clauses say."""

    by: tuple[Condition, ...]
    having: tuple[Condition, ...]


def read_groups(cursor: Cursor) -> Groups:
    """Read GROUP BY and HAVING, each if it is there."""
    by = _all_or_keys(cursor) if cursor.accept("GROUP", "BY") else ()
    having = conjuncts(parse_condition(cursor)) if cursor.accept("HAVING") else ()
    return Groups(by, tuple(Condition(part, cursor.text) for part in having))


def _all_or_keys(cursor: Cursor) -> tuple[Condition, ...]:
    if cursor.accept("ALL"):
        return (Condition(EVERY, cursor.text),)
    return tuple(part for key in _keys(cursor) for part in _parts(key))


def _parts(key: Condition) -> tuple[Condition, ...]:
    """GROUP BY (a, b) is GROUP BY a, b."""
    written = key.expr
    if isinstance(written, Call) and written.op == ROW:
        return tuple(replace(key, expr=part) for part in written.args)
    return (key,)


def _keys(cursor: Cursor) -> tuple[Condition, ...]:
    keys = [_key(cursor)]
    while cursor.accept(","):
        keys.append(_key(cursor))
    return tuple(keys)


def _key(cursor: Cursor) -> Condition:
    if cursor.sees_any(*_SETS) and cursor.peek().upper in ("(", "SETS"):
        hint = "register one query for each set of keys."
        raise cursor.fail(cursor.token.span, f"{cursor.token.upper} is not supported", hint=hint)
    return Condition(parse_condition(cursor), cursor.text)
