"""EXCEPT ALL and INTERSECT ALL: rows as often as two SELECTs together say.

    a EXCEPT ALL b          each row as often as a has it more than b
    a INTERSECT ALL b       each row as often as both have it

Both sides are added by UNION ALL, each with a mark of its own; the marks of equal rows are counted, and a number made
of the two counts says how often the row is there (`Draft.times`).  NULL is equal to NULL, as in GROUP BY.
"""

from __future__ import annotations

from dataclasses import replace

from weft.errors import Span
from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.query.derived import add_branch, all_rows
from weft.query.draft import EVERY, Condition, Draft, Item, Source, Star

_FIRST, _SECOND, _TIMES = Column("", "#first"), Column("", "#second"), "#times"


def counted_rows(draft: Draft, other: Draft, is_both: bool, span: Span) -> Draft:
    """The rows of a SELECT as often as another one has them too, or as often as it has them more."""
    text = draft.text
    both = add_branch(_marked(draft, 1, 0), _marked(other, 0, 1))
    first, second = (Udf("sum", (mark,), None, span) for mark in (_FIRST, _SECOND))
    times: Expr = Call("least", (first, second)) if is_both else Call("-", (first, second), None, span)
    counted = Draft(
        (Source("the rows", "rows", derived=both, span=span),),
        (),
        (Item(Star(without=(_FIRST, _SECOND)), None, text), Item(times, _TIMES, text)),
        text=text,
        group_by=(Condition(EVERY, text),),
        having=(Condition(Call(">", (times, Literal(0)), None, span), text),),
        times=_TIMES,
    )
    return all_rows(counted, text)


def _marked(draft: Draft, first: int, second: int) -> Draft:
    """All rows of a SELECT with two more columns."""
    marks = (Item(Literal(first), _FIRST.name), Item(Literal(second), _SECOND.name))
    shown = all_rows(draft, draft.text)
    return replace(shown, items=(*shown.items, *marks))
