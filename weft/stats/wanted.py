"""What queries want to know of streams: the columns they read, the keys they join by, the columns they range over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.expr.model import Call, Expr, aliases, children, columns, walk, without_alias
from weft.expr.render import to_sql
from weft.kernels.codes import has_codes
from weft.kernels.numbers import has_numbers
from weft.query.model import NOW, Query, Stream
from weft.stats.keys import is_equality, key_name


def needed_columns(stream: Stream, queries: Iterable[Query]) -> tuple[str, ...]:
    """The columns that queries read of a stream, at least one; all of them if no query reads it."""
    reads: set[str] = set()
    used = False
    for query in queries:
        mine = {relation.alias for relation in query.relations if relation.stream.name == stream.name}
        used = used or bool(mine)
        exprs = (*query.predicates, *(output.expr for output in query.outputs))
        reads |= {column.name for expr in exprs for column in columns(expr) if column.alias in mine}
    wanted = tuple(name for name in stream.schema.names if name in reads or name == stream.event_time)
    return (wanted or tuple(stream.schema.names[:1])) if used else tuple(stream.schema.names)


def asks_now(expr: Expr) -> bool:
    """Whether an expression asks when a row came: a sample does not know."""
    return any(column.name == NOW for column in columns(expr))


def join_keys(queries: Sequence[Query]) -> dict[str, dict[str, Expr]]:
    """Stream -> name -> key, without alias: columns in equalities, and what equalities join by."""
    found: dict[str, dict[str, Expr]] = {}
    for query, predicate in ((q, p) for q in queries for p in q.predicates):
        equal = [node for node in walk(predicate) if isinstance(node, Call) and node.op == "="]
        keys = {key for node in equal for key in columns(node)}
        sides = children(predicate) if is_equality(predicate) else ()
        for key in sorted({*keys, *sides}, key=to_sql):
            if key.type is not None and has_codes(key.type) and not asks_now(key):
                stream = query.relation(min(aliases(key))).stream.name
                found.setdefault(stream, {}).setdefault(key_name(key), without_alias(key))
    return found


def range_columns(queries: Sequence[Query]) -> list[tuple[str, str]]:
    """(Stream, column) of all columns of numbers that range predicates compare; the two-way range schemes need them."""
    found = {
        (query.relation(column.alias).stream.name, column.name)
        for query in queries
        if len(query.relations) == 2
        for predicate in query.joins
        for node in walk(predicate)
        if isinstance(node, Call) and node.op in ("<", "<=", ">", ">=")
        for column in columns(node)
        if has_numbers(column.type) and not asks_now(column)
    }
    return sorted(found)
