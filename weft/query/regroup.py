"""Subqueries over the groups of a query.

    SELECT k, SUM(x) AS s FROM a GROUP BY k HAVING SUM(x) > (SELECT AVG(y) FROM b)

becomes a query over the groups, in which the condition stands in WHERE:

    SELECT k, s FROM (SELECT k, SUM(x) AS s, SUM(x) AS "#0" FROM a GROUP BY k) WHERE "#0" > (SELECT AVG(y) FROM b)

A subquery inside of an aggregate, as in SUM((SELECT ...)), is about rows: it stays where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.expr.model import Call, Column, Expr, Literal, Udf
from weft.query.aggregates import AGGREGATES, calls_aggregate
from weft.query.draft import SUBQUERIES, Condition, Draft, Item, Source, Star, has_subquery, in_order
from weft.query.groups import ABSENT
from weft.query.names import find
from weft.query.opened import Opened

_GROUPS = "groups"


def regroup(draft: Draft, opened: Opened) -> Draft:
    """The same query with subqueries in HAVING and SELECT around its groups; `opened` has its names looked up."""
    if not _asks(draft):
        return draft
    names = [str(item.name) for item in opened.items]
    draft = replace(draft, group_by=tuple(_key(key, draft, names, opened) for key in draft.group_by))
    over = _Groups([name for item, name in zip(draft.items, names, strict=True) if not _asks_groups(item.expr)], opened)
    items = tuple(_outer_item(over, item, name) for item, name in zip(draft.items, names, strict=True))
    asking = in_order(condition for condition in draft.having if has_subquery(condition.expr))
    where = tuple(replace(condition, expr=over.put(_expr(condition))) for condition in asking)
    shown = tuple(
        replace(item, name=name) for item, name in zip(draft.items, names, strict=True) if not _asks_groups(item.expr)
    )
    having = tuple(condition for condition in draft.having if not has_subquery(condition.expr))
    if asking and not (having or _groups(replace(draft, having=()))):
        having = (Condition(Literal(True)),)  # what HAVING made one group stays one
    keys = _keys(draft, opened, names)
    kept = (*shown, *over.items, *keys) or (Item(Literal(1), "#group"),)
    inner = replace(draft, items=kept, having=having, named=(), distinct=False, within=draft.within)
    meant = tuple((key.expr.alias, key.expr.name, str(key.name)) for key in keys if isinstance(key.expr, Column))
    source = Source("the groups", _GROUPS, derived=inner, meant=meant)
    return Draft((source,), where, items, text=draft.text, named=draft.named, distinct=draft.distinct)


def _key(key: Condition, draft: Draft, names: Sequence[str], opened: Opened) -> Condition:
    """A key that is the place or the name of an output, as it is written there: places in the inner SELECT differ."""
    expr = key.expr
    if isinstance(expr, Literal) and type(expr.value) is int and 1 <= expr.value <= len(draft.items):
        return _written(draft, expr.value - 1) or key
    if isinstance(expr, Column) and not expr.alias and not opened.scope.has(expr):
        output = find(expr.name, names)
        return (_written(draft, names.index(output)) if output is not None else None) or key
    return key


def _written(draft: Draft, place: int) -> Condition | None:
    """An output as a key; None where a star hides which it is."""
    if any(isinstance(item.expr, Star) for item in draft.items):
        return None
    return Condition(_expr(draft.items[place]), draft.items[place].text)


def _keys(draft: Draft, opened: Opened, names: Sequence[str]) -> list[Item]:
    """The keys that are columns: a subquery may call them as they are called below the groups."""
    written = (key.expr for key in draft.group_by)
    keys = {opened.scope.resolve(one) for one in written if isinstance(one, Column)} | {k.expr for k in opened.group_by}
    shown = [one for one in opened.scope.columns if one.value in keys and one.alias]
    taken = [name.lower() for name in (*names, *(one.name for one in shown))]
    return [
        Item(Column(one.alias, one.name), one.name if taken.count(one.name.lower()) == 1 else f"#key{place}")
        for place, one in enumerate(shown)
    ]


def _asks(draft: Draft) -> bool:
    if any(has_subquery(condition.expr) for condition in draft.having):
        return True
    return _groups(draft) and any(_asks_groups(item.expr) for item in draft.items)


def _groups(draft: Draft) -> bool:
    return bool(draft.group_by or draft.having) or any(calls_aggregate(item.expr) for item in draft.items)


def _asks_groups(written: object) -> bool:
    """Whether there is a subquery outside of aggregates."""
    if not isinstance(written, Call | Udf) or _is_aggregate(written):
        return False
    return (isinstance(written, Call) and written.op in SUBQUERIES) or any(map(_asks_groups, written.args))


def _is_aggregate(expr: Expr) -> bool:
    called = isinstance(expr, Udf) and expr.name.lower() in AGGREGATES
    return called or (isinstance(expr, Call) and expr.op == "filter")


def _outer_item(over: _Groups, item: Item, name: str) -> Item:
    if _asks_groups(item.expr):
        return replace(item, expr=over.put(_expr(item)), name=name)
    return Item(Column(_GROUPS, name), name)


class _Groups:
    """What conditions around the groups read of them."""

    def __init__(self, outputs: Sequence[str], opened: Opened) -> None:
        self.outputs, self.opened = outputs, opened
        self.items: list[Item] = []

    def put(self, expr: Expr) -> Expr:
        """An expression over groups, outside of them."""
        if isinstance(expr, Column) or _is_aggregate(expr) or (isinstance(expr, Call) and expr.op == ABSENT):
            return self._column(expr)
        if isinstance(expr, Call) and expr.op in SUBQUERIES:
            return replace(expr, args=(*map(self.put, expr.args[:-1]), expr.args[-1]))
        return expr if isinstance(expr, Literal) else replace(expr, args=tuple(map(self.put, expr.args)))

    def _column(self, expr: Expr) -> Column:
        if isinstance(expr, Column) and not expr.alias and not self.opened.scope.has(expr):
            output = find(expr.name, self.outputs)
            if output is not None:
                return Column(_GROUPS, output, None, expr.span)
        names = [item.name for item in self.items if item.expr == expr] or [f"#{len(self.items)}"]
        if not any(item.expr == expr for item in self.items):
            self.items.append(Item(expr, names[0]))
        return Column(_GROUPS, str(names[0]), None, expr.span)


def _expr(written: Condition | Item) -> Expr:
    assert not isinstance(written.expr, str | Star)
    return written.expr
