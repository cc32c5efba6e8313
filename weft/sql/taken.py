"""UNNEST behind SELECT is UNNEST in FROM.

    SELECT k, unnest(items) AS i FROM t      becomes      SELECT k, u.x AS i FROM t, UNNEST(items) AS u (x)

What must hold: rows are taken apart before DISTINCT and LIMIT.  Beside groups it would be the groups, so there UNNEST
stays where it is and is refused by name, and so do several lists, whose rows would stand side by side.
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from weft.expr.lists import UNNEST
from weft.expr.model import Call, Column, Expr, Literal, Udf, columns, transform, walk
from weft.query.aggregates import calls_aggregate
from weft.query.draft import Condition, Draft, Item, Join, Source, Star, Tree, has_subquery, joins

_ALIAS, _VALUE = "#unnest", "#element"


def taken_apart(draft: Draft) -> Draft:
    """The SELECT with the one list that it takes apart in FROM."""
    exprs = [item.expr for item in draft.items if isinstance(item.expr, Call | Udf)]
    calls = {node for expr in exprs for node in walk(expr) if isinstance(node, Udf) and _is_unnest(node)}
    grouped = draft.group_by or draft.having or draft.sets or any(map(calls_aggregate, exprs))
    if len(calls) != 1 or grouped or any(has_subquery(call) or len(call.args) != 1 for call in calls):
        return draft
    (call,) = calls
    if columns(call) and not draft.sources:
        return draft
    if draft.usings or any(join.using is not None for join in joins(draft.tree or 0)):
        return draft
    sources = (*draft.sources, _source(call, draft.text))
    places: list[Tree] = [*range(len(draft.sources))]
    tree = draft.tree if draft.tree is not None or not places else reduce(_beside, places)
    return replace(
        draft,
        sources=sources,
        items=tuple(one for item in draft.items for one in _items(item, call, draft)),
        tree=None if tree is None else _beside(tree, len(draft.sources)),
    )


def _beside(left: Tree, right: Tree) -> Tree:
    return Join("inner", left, right)


def _is_unnest(call: Udf) -> bool:
    return call.name.lower() == UNNEST


def _source(call: Udf, text: str) -> Source:
    """The elements; a list without columns is that of one row."""
    (listed,) = call.args
    if columns(listed):
        return Source(
            "", _ALIAS, None, call.span, None, None, (_VALUE,), lateral=True, elements=Condition(listed, text)
        )  # fmt: skip
    item = Item(Call(UNNEST, (listed, Literal(False)), None, call.span), _VALUE, text)
    return Source("", _ALIAS, None, call.span, None, Draft((), (), (item,), None, text))


def _items(item: Item, call: Udf, draft: Draft) -> tuple[Item, ...]:
    """The item with an element in place of the list; a star stands for what was there before."""
    if isinstance(item.expr, Star):
        if item.expr.alias:
            return (item,)
        own = (replace(item.expr, alias=source.alias) for source in draft.sources)
        return tuple(replace(item, expr=star) for star in own)
    assert not isinstance(item.expr, str)

    def put(node: Expr) -> Expr:
        return Column(_ALIAS, _VALUE, None, node.span) if node == call else node

    name = item.name or (UNNEST if item.expr == call else None)
    return (replace(item, expr=transform(item.expr, put), name=name),)
