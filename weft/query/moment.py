"""now(): the time at which a batch began.

A result is made in the batch that brings the last of its rows.  So the time of its batch is the latest one of the times
at which its rows came.  Every row gets that time when it comes, in a hidden column, if a query asks for it.

    now()  over a JOIN b    becomes    greatest(a."#now", b."#now")

That is an expression like any other: stores, plans and migrations need nothing else, and a batch that is run again
gives the same results (the time is written down before a batch begins).

What must hold: rows that are taken back would come with another time than they had.  So now() is refused where rows
may change, and over finished groups, whose rows are worked out again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Udf, transform, walk
from weft.expr.types import TIMESTAMP_UTC
from weft.expr.typing import add_types
from weft.query.model import NOW, Output, Query


def fix_now(query: Query) -> Query:
    """The query with the time of its rows in place of now()."""
    _refuse_finished(query)
    asked = _calls((*query.predicates, *(output.expr for output in query.outputs)))
    if not asked:
        return query
    if query.is_changing:
        raise QueryError(
            "now() cannot be asked of rows that may change",
            detail="a row that is taken back later would be told another time than before.",
            hint="compare event times with each other, or ask for now() where the results are read.",
            span=asked[0].span,
        )
    came = [r.alias for r in query.relations if not r.stream.table] or list(query.aliases)
    times = tuple(Column(alias, NOW, TIMESTAMP_UTC) for alias in came)
    moment = times[0] if len(times) == 1 else add_types(Call("greatest", times))

    def fixed(node: Expr) -> Expr:
        return moment if isinstance(node, Call) and node.op == "now" else node

    return replace(
        query,
        predicates=tuple(transform(predicate, fixed) for predicate in query.predicates),
        outputs=tuple(Output(output.name, transform(output.expr, fixed)) for output in query.outputs),
    )


def _refuse_finished(query: Query) -> None:
    grouping = query.grouping
    if grouping is None:
        return
    finished = (*(output.expr for output in grouping.outputs), *([grouping.having] if grouping.having else []))
    if asked := _calls(finished):
        raise QueryError(
            "now() cannot stand beside groups",
            detail="the row of a group is worked out again when it changes.",
            hint="write MAX(now()), the time of the last row of a group, or group by it.",
            span=asked[0].span,
        )


def _calls(exprs: Iterable[Expr]) -> list[Call | Udf]:
    return [node for expr in exprs for node in walk(expr) if isinstance(node, Call) and node.op == "now"]
