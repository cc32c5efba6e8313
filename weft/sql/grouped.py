"""GROUP BY and HAVING.

    GROUP BY ALL | element, ...       element: expression | (expression, ...) | ROLLUP (part, ...) | CUBE (part, ...)
                                               | GROUPING SETS (element, ...)

Sets of several elements are combined, each with each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from typing import TypeVar

from weft.expr.model import Call, Expr, conjuncts
from weft.query.draft import EVERY, Condition
from weft.sql.cursor import Cursor
from weft.sql.expression import parse_condition
from weft.sql.rowvalue import ROW

Keys = tuple[Expr, ...]
Read = TypeVar("Read")
_SETS = ("ROLLUP", "CUBE", "GROUPING")
MOST_SETS = 64
"""A query has at most so many sets of keys."""


@dataclass(frozen=True, slots=True)
class Groups:
    """What the two clauses say."""

    by: tuple[Condition, ...]
    having: tuple[Condition, ...]
    sets: tuple[tuple[int, ...], ...] = ()


def read_groups(cursor: Cursor) -> Groups:
    """Read GROUP BY and HAVING, each if it is there."""
    start = cursor.at
    sets = _sets(cursor) if cursor.accept("GROUP", "BY") else [()]
    if len(sets) > MOST_SETS:
        hint = f"{MOST_SETS} are the most."
        raise cursor.fail(cursor.span_from(start), f"GROUP BY has {len(sets)} sets of keys", hint=hint)
    keys = list(dict.fromkeys(key for chosen in sets for key in chosen))
    having = conjuncts(parse_condition(cursor)) if cursor.accept("HAVING") else ()
    places = tuple(tuple(dict.fromkeys(map(keys.index, chosen))) for chosen in sets)
    return Groups(
        tuple(Condition(key, cursor.text) for key in keys),
        tuple(Condition(part, cursor.text) for part in having),
        places if len(sets) > 1 else (),
    )


def _sets(cursor: Cursor) -> list[Keys]:
    """The sets of keys; without GROUPING SETS and the like there is one."""
    if cursor.accept("ALL"):
        return [(EVERY,)]
    elements = [_element(cursor)]
    while cursor.accept(","):
        elements.append(_element(cursor))
    return [sum(chosen, ()) for chosen in product(*elements)]


def _element(cursor: Cursor) -> list[Keys]:
    if not (cursor.sees_any(*_SETS) and cursor.peek().upper in ("(", "SETS")):
        return [_part(cursor)]
    kind = cursor.next().upper
    if kind == "GROUPING":
        if not cursor.accept("SETS"):
            raise cursor.unexpected("GROUP BY takes GROUPING SETS, not GROUPING", "GROUPING SETS ((a, b), (a), ()).")
        return [chosen for element in _listed(cursor, _element) for chosen in element]
    parts = _listed(cursor, _part)
    counts = range(len(parts), -1, -1)
    if kind == "ROLLUP":
        return [sum(parts[:count], ()) for count in counts]
    return [sum(chosen, ()) for count in counts for chosen in combinations(parts, count)]


def _listed(cursor: Cursor, read: Callable[[Cursor], Read]) -> list[Read]:
    form = "ROLLUP (a, b), CUBE (a, b) or GROUPING SETS ((a, b), (a), ())."
    cursor.expect("(", form)
    found = [read(cursor)]
    while cursor.accept(","):
        found.append(read(cursor))
    cursor.expect(")", form)
    return found


def _part(cursor: Cursor) -> Keys:
    """One key, or several in parentheses."""
    if cursor.accept("(", ")"):
        return ()
    written = parse_condition(cursor)
    return written.args if isinstance(written, Call) and written.op == ROW else (written,)
