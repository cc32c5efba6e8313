"""Expressions that may fail, over rows as they are at the end of a batch.

Where two rows of a batch change that are joined, the new one of one side meets the old one of the other for a moment.
Such a row is taken back in the same batch.  It does no harm unless an expression fails on it:

    SELECT 10 // (n - r) FROM a JOIN b ...         with n and r counted over rows that come and go

So a join whose rows may be taken back is cut in two where it has such an expression: below, its different rows and how
often they count, as a derived stream; above, what may fail.

    SELECT 10 // (joined.n - joined.r) FROM (SELECT n, r, COUNT(*) AS "#joined" FROM a JOIN b ... GROUP BY n, r) joined

A derived stream of groups gives what they showed before the batch and what they show after it, nothing in between.

What must hold: a row above was in the join after some batch.  A condition goes above only if what may fail in it reads
several relations: one that chooses rows of a relation, or compares a value of one with that of another, stays where it
keeps the join small.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from weft.expr.model import Call, Column, Expr, Udf, aliases, columns, transform, walk
from weft.expr.safe import is_brittle
from weft.query.connectivity import parts
from weft.query.derived import derive
from weft.query.grouping import Aggregate, Grouping, key_field, value_field
from weft.query.model import BATCH, NOW, TIME, Output, Query, Relation, Stream
from weft.query.visible import unique_names

JOINED = "joined"
_TIMES = "#joined"
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "same", "before")


def settled(query: Query) -> Query:
    """The query with what may fail above the rows of its join; others as they are."""
    if not query.is_changing or _is_settled(query) or _is_timed(query):
        return query
    late = tuple(one for one in query.predicates if _is_late(one, query))
    given = tuple(output.expr for output in query.outputs)
    if not late and not any(_may_fail(expr, query) for expr in given):
        return query
    read = tuple(dict.fromkeys(column for expr in (*late, *given) for column in _columns(expr)))
    if not read or any(column.name in (BATCH, NOW, TIME) for column in read):
        return query
    names = unique_names(column.name for column in read)
    stream = _counted(query, [one for one in query.predicates if one not in late], read, names)
    above = {column.field: name for column, name in zip(read, names, strict=True)}

    def put(node: Expr) -> Expr:
        return replace(node, alias=JOINED, name=above[node.field]) if isinstance(node, Column) else node

    return replace(
        query,
        relations=(Relation(JOINED, stream, span=query.relations[0].span),),
        predicates=tuple(transform(one, put) for one in late),
        outputs=tuple(Output(output.name, transform(output.expr, put)) for output in query.outputs),
    )


def as_groups(query: Query) -> Query | None:
    """A query that was cut in two as one whose groups are the rows of its join; None if it was not cut."""
    below = _below(query)
    if below is None:
        return None
    grouping = _grouping(below)
    late, outputs = _over(query, {shown.name: shown.expr for shown in grouping.outputs})
    having = Call("and", late, pa.bool_()) if late else None
    return replace(below, grouping=replace(grouping, aggregates=(), outputs=outputs, having=having))


def in_one(query: Query) -> Query:
    """A query that was cut in two as it was before; others as they are."""
    below = _below(query)
    if below is None:
        return query
    names = (shown.name for shown in _grouping(below).outputs)
    late, outputs = _over(query, dict(zip(names, (key.expr for key in below.outputs), strict=False)))
    return replace(
        query, relations=below.relations, predicates=(*below.predicates, *late), outputs=outputs
    )  # fmt: skip


def _below(query: Query) -> Query | None:
    """The join of a query that was cut in two."""
    stream = query.relations[0].stream
    return stream.made[0] if len(query.relations) == 1 and stream.weight == _TIMES else None


def _grouping(below: Query) -> Grouping:
    assert below.grouping is not None
    return below.grouping


def _over(query: Query, meant: Mapping[str, Expr]) -> tuple[tuple[Expr, ...], tuple[Output, ...]]:
    """Conditions and outputs of the upper part over what the columns of the lower one mean."""

    def put(node: Expr) -> Expr:
        return meant[node.name] if isinstance(node, Column) else node

    outputs = (Output(output.name, transform(output.expr, put)) for output in query.outputs)
    return tuple(transform(one, put) for one in query.predicates), tuple(outputs)


def _counted(query: Query, predicates: Sequence[Expr], read: Sequence[Column], names: Sequence[str]) -> Stream:
    """The different rows of a join, and how often each counts."""
    keys = tuple(Output(key_field(at), column) for at, column in enumerate(read))
    shown = tuple(
        Output(name, Column("", key.name, key.expr.type)) for name, key in zip(names, keys, strict=True)
    )  # fmt: skip
    times = Output(_TIMES, Column("", value_field(0), pa.int64()))
    counted = Grouping(
        tuple(key.name for key in keys), (Aggregate("count", None, pa.int64()),), (*shown, times), changing=True
    )
    made = replace(query, predicates=tuple(predicates), outputs=keys, grouping=counted)
    return derive((replace(made, cross_product=query.cross_product or len(parts(made)) > 1),), _TIMES)


def _is_settled(query: Query) -> bool:
    """Whether its rows are those of one relation that has none between two batches."""
    return len(query.relations) == 1 and _has_groups(query.relations[0].stream)


def _has_groups(stream: Stream) -> bool:
    """Whether it is a derived stream of groups, which change once in a batch."""
    return bool(stream.made) and all(one.grouping is not None or _is_settled(one) for one in stream.made)


def _is_timed(query: Query) -> bool:
    """Whether groups are made by the event times of the join, which a derived stream does not have."""
    made = query.grouping
    asked = None if made is None else made.window or made.closing or made.versions or made.grows or made.latest
    return bool(asked)


def _is_late(predicate: Expr, query: Query) -> bool:
    """Whether what may fail in a condition reads several relations, or is asked of rows as a source gives them."""
    compared = isinstance(predicate, Call) and predicate.op in _COMPARISONS
    sides = predicate.args if isinstance(predicate, Call) and compared else (predicate,)
    return any(_may_fail(side, query) for side in sides if len(query.relations) == 1 or _is_joined(side))


def _is_joined(side: Expr) -> bool:
    """Whether it reads several relations; a function of the user that does is what joins them."""
    return len(aliases(side)) > 1 and not any(isinstance(node, Udf) for node in walk(side))


def _may_fail(expr: Expr, query: Query) -> bool:
    read = [query.relation(alias).stream for alias in aliases(expr)]
    return is_brittle(expr, mixed=len(read) > 1 or any(one.made and not _has_groups(one) for one in read))


def _columns(expr: Expr) -> list[Column]:
    return sorted(columns(expr), key=lambda column: column.field)
