"""Subscriptions in explain: by which conditions they are found, and which are checked on what is left."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from weft.explain.words import expressions
from weft.expr.model import Column, Expr, columns, transform
from weft.query.model import BATCH, Query
from weft.query.parameters import is_joined
from weft.topology.matching import Dimension
from weft.topology.model import Topology
from weft.topology.node import Emit
from weft.topology.store import Store

SINCE = "rows came since the subscription did"


def indexes_of(store: Store, topology: Topology) -> tuple[str, ...]:
    """The dimensions of a store of subscriptions, and the conditions that are checked."""
    emit = next(emit for emit in topology.emits if emit.matching is not None and emit.matching.store == store.id)
    matching = emit.matching
    assert matching is not None
    found = [f"bits {' AND '.join(_ends(dimension, emit))}" for dimension in matching.dimensions]
    asked = [_say(c, emit) if all(x.name != BATCH for x in columns(c)) else SINCE for c in matching.checks]
    return (*found, *(f"check {check}" for check in dict.fromkeys(asked)))


def _ends(dimension: Dimension, emit: Emit) -> Iterator[str]:
    value = _say(dimension.value, emit)
    if dimension.equal:
        yield from (f"{value} = {_say(end.expr, emit)}" for end in dimension.low)
        return
    yield from (f"{value} >{'' if end.strict else '='} {_say(end.expr, emit)}" for end in dimension.low)
    yield from (f"{value} <{'' if end.strict else '='} {_say(end.expr, emit)}" for end in dimension.high)


def say_asked(expr: Expr, query: Query) -> str:
    """An expression over joined rows and parameters, as the query has it."""
    return _write(expr, {output.name: output.expr for output in query.outputs}, {a: a for a in query.aliases})


def _say(expr: Expr, emit: Emit) -> str:
    return _write(expr, {output.name: output.expr for output in emit.outputs}, dict(emit.aliases))


def _write(expr: Expr, joined: Mapping[str, Expr], aliases: Mapping[str, str]) -> str:
    """The expression as text, with columns of aliases, and parameters, whose names need no quotes."""

    def one(node: Expr) -> Expr:
        if not isinstance(node, Column) or node.alias:
            return node
        if not is_joined(node):
            return Column("", f":{node.name}", node.type)
        found = joined[node.name]
        assert isinstance(found, Column)
        return Column(aliases[found.alias], found.name, found.type)

    return re.sub(r'":([^"]+)"', r":\1", expressions([transform(expr, one)])[0])
