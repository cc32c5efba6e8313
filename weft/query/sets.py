"""GROUPING SETS, ROLLUP and CUBE: groups by several sets of keys.

    SELECT a, b, SUM(x), GROUPING(b) FROM t GROUP BY GROUPING SETS ((a, b), (a))

is a SELECT for each set, added by UNION ALL.  A key that is not in a set is NULL there, of its own type: the call
`absent` says so until types are known (`weft.query.groups`).  GROUPING is a constant: a bit for each of its arguments,
1 where it is not in the set; without arguments for each key.

What must hold: an argument of an aggregate is never replaced, since it is about rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal, Udf, text_of
from weft.query.aggregates import AGGREGATES
from weft.query.derived import different_rows
from weft.query.draft import Condition, Draft, Item
from weft.query.groups import ABSENT
from weft.query.names import find
from weft.query.opened import Opened
from weft.query.ranking import GROUPING
from weft.query.tied import expr_of


def each_set(draft: Draft, opened: Opened) -> Draft:
    """The draft as SELECTs with one set of keys each, given the same with names looked up."""
    keys = [_meant(key, opened.items) for key in opened.group_by]
    parts = [_part(draft, opened, keys, chosen) for chosen in draft.sets]
    whole = replace(parts[0], unions=tuple(replace(part, named=()) for part in parts[1:]))
    if not draft.distinct:
        return whole
    return replace(different_rows(replace(whole, named=()), draft.text), named=draft.named)


def _meant(key: Condition, items: Sequence[Item]) -> Expr:
    """What a key is that is the number or the name of an output."""
    expr = expr_of(key)
    if isinstance(expr, Literal) and type(expr.value) is int and 1 <= expr.value <= len(items):
        return expr_of(items[expr.value - 1])
    if isinstance(expr, Column) and not expr.alias:
        named = {str(item.name): expr_of(item) for item in items}
        name = find(expr.name, named)
        return expr if name is None else named[name]
    return expr


def _part(draft: Draft, opened: Opened, keys: Sequence[Expr], chosen: tuple[int, ...]) -> Draft:
    kept = [keys[place] for place in chosen]
    over = _Set({text_of(key) for key in kept}, {text_of(key): key for key in keys})
    having = tuple(replace(one, expr=over.put(expr_of(one))) for one in opened.having)
    return replace(
        draft,
        items=tuple(replace(item, expr=over.put(expr_of(item))) for item in opened.items),
        group_by=tuple(Condition(key, draft.text) for key in kept),
        having=having if kept else (*having, Condition(Literal(True))),
        sets=(),
        distinct=False,
    )


class _Set:
    """Writes expressions over the groups of one set; keys are named by their texts."""

    def __init__(self, kept: set[str], keys: dict[str, Expr]) -> None:
        self.kept, self.keys = kept, keys

    def put(self, expr: Expr) -> Expr:
        """The expression, NULL for keys that are not in the set."""
        if text_of(expr) in self.keys:
            return expr if text_of(expr) in self.kept else Call(ABSENT, (expr,), None, expr.span)
        if isinstance(expr, Udf) and expr.name.lower() in GROUPING:
            return self._grouping(expr)
        if not isinstance(expr, Call | Udf) or (isinstance(expr, Udf) and expr.name.lower() in AGGREGATES):
            return expr
        if isinstance(expr, Call) and expr.op == "filter":
            return expr
        return replace(expr, args=tuple(map(self.put, expr.args)))

    def _grouping(self, call: Udf) -> Expr:
        bits = 0
        for arg in call.args or self.keys.values():
            if text_of(arg) not in self.keys:
                hint = "name an expression of GROUP BY."
                raise QueryError("GROUPING takes keys of the groups", hint=hint, span=arg.span or call.span)
            bits = 2 * bits + (text_of(arg) not in self.kept)
        return Literal(bits, None, call.span)
