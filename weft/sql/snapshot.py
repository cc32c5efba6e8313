"""Flink's SNAPSHOT in FROM: a table as it is when a row of a stream comes.

    [LATERAL] TABLE(SNAPSHOT(input => TABLE rates, load_completed_condition => ..., ...))

It is `rates FOR SYSTEM_TIME AS OF now()`.  What says when a table is complete is read, and means nothing more: a table
is read before the rows of streams that come with it.  How long rows stay is another matter, and refused.
"""

from __future__ import annotations

from weft.sql.cursor import Cursor
from weft.sql.tokens import Token

_FORM = "TABLE(SNAPSHOT(input => TABLE name))."
_LOADED = ("LOAD_COMPLETED_CONDITION", "LOAD_COMPLETED_TIME", "LOAD_COMPLETED_IDLE_TIMEOUT")


def sees_snapshot(cursor: Cursor) -> bool:
    """Whether it comes next."""
    ahead = 1 if cursor.sees("LATERAL") else 0
    words = [cursor.peek(ahead + place).upper for place in range(4)]
    return words == ["TABLE", "(", "SNAPSHOT", "("]


def read_snapshot(cursor: Cursor) -> Token:
    """The name of the table."""
    cursor.accept("LATERAL")
    cursor.read("TABLE", "(", "SNAPSHOT", "(")
    _ = cursor.accept("INPUT", "=>")
    _ = cursor.accept("TABLE")
    name = cursor.name("the name of a table")
    while cursor.accept(","):
        option = cursor.word("an option", _FORM)
        if option.upper not in _LOADED:
            hint = "leave it out; a row of a table stays until another one replaces it."
            raise cursor.fail(option.span, f"SNAPSHOT has no {option.text} here", hint=hint)
        cursor.expect("=>", _FORM)
        _skip(cursor)
    cursor.expect(")", _FORM)
    cursor.expect(")", _FORM)
    return name


def _skip(cursor: Cursor) -> None:
    """Leave an argument out."""
    depth = 0
    while not cursor.at_end and (depth or not cursor.sees_any(",", ")")):
        depth += {"(": 1, ")": -1}.get(cursor.next().upper, 0)
