"""A subquery that groups rows and is tied to the query around it, as a derived table.

    (SELECT MAX(y) FROM b WHERE b.k = a.k)      (SELECT b.k, MAX(y) FROM b GROUP BY b.k), joined by b.k = a.k
    (SELECT MAX(y) FROM b WHERE b.t < a.t)      a group for each different a.t, over a join of these values with b

What must hold: the query around is referred to in WHERE alone.  Equalities become keys of the groups; other comparisons
may refer to one source only.
"""

from __future__ import annotations

from dataclasses import replace

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, columns, transform
from weft.query.draft import Condition, Draft, Item, Source
from weft.query.opened import Opened, Part, conditions_of, sources_of
from weft.query.tied import COMPARED, Tie, equal_sides, expr_of, flat_joins, sides


def grouped(opened: Opened, call: Call, around: Part, text: str) -> tuple[Source, list[Tie]]:
    """A subquery that groups rows as a derived table, and what the query `around` compares its first columns with."""
    mine = {source.alias for source in sources_of(opened.part)}
    if not _far(opened, mine):
        _refuse_elsewhere(opened, mine, call)
        return Source("subquery", "subquery", derived=opened.draft), []
    return tied(opened, call, around, text)


def tied(opened: Opened, call: Call, around: Part | None, text: str) -> tuple[Source, list[Tie]]:
    """The same of a subquery with the items that it is given, over flat joins."""
    name, mine = "subquery", {source.alias for source in sources_of(opened.part)}
    far = _far(opened, mine)
    if (asking := _asking(far, mine, around)) is not None:
        return _for_each(opened, far, asking, call)
    pairs = [sides(one, mine, call) for one in far]
    keys = tuple(Condition(inner, text) for inner, _ in pairs)
    items = [Item(inner, f"#key{place}", text) for place, (inner, _) in enumerate(pairs)]
    rest = replace(opened, where=tuple(one for one in opened.where if one not in far))
    _refuse_elsewhere(rest, mine, call)
    flat = _again(rest)
    made = replace(flat, items=(*items, *opened.items), group_by=(*keys, *opened.group_by), having=opened.having)
    return Source(name, name, derived=made), [tie for _, tie in pairs]


def _far(opened: Opened, mine: set[str]) -> list[Condition]:
    """Conditions that refer to the query around."""
    return [one for one in opened.where if any(c.alias not in mine for c in columns(expr_of(one)))]


def _asking(far: list[Condition], mine: set[str], around: Part | None) -> Source | None:
    """The only source outside that comparisons refer to, where not all of them are equalities."""
    compared = [expr_of(one) for one in far]
    if not all(isinstance(one, Call) and one.op in COMPARED for one in compared):
        return None
    if all(equal_sides(one, mine) is not None for one in compared):
        return None
    outside = {column.alias for one in compared for column in columns(one)} - mine
    found = [source for source in sources_of(around) if source.alias in outside]
    return found[0] if len(outside) == 1 and found else None


def _for_each(opened: Opened, far: list[Condition], asking: Source, call: Call) -> tuple[Source, list[Tie]]:
    """The groups of a subquery for each different value that the query around compares with; NULLs have none."""
    asked = sorted({c.name for one in far for c in columns(expr_of(one)) if c.alias == asking.alias})
    items = tuple(Item(Column(asking.alias, name), name) for name in asked)
    values = Source("", "#asked", derived=Draft((asking,), (), items, distinct=True))

    def moved(node: Expr) -> Expr:
        return replace(node, alias="#asked") if isinstance(node, Column) and node.alias == asking.alias else node

    rest = replace(opened, where=tuple(one for one in opened.where if one not in far))
    _refuse_elsewhere(rest, {source.alias for source in sources_of(opened.part)}, call)
    flat = _again(rest)
    keys = tuple(Column("#asked", name) for name in asked)
    made = replace(
        flat,
        sources=(values, *flat.sources),
        conditions=(*flat.conditions, *(replace(one, expr=transform(expr_of(one), moved)) for one in far)),
        items=(*(Item(key, f"#key{place}") for place, key in enumerate(keys)), *opened.items),
        group_by=(*map(Condition, keys), *opened.group_by),
        having=opened.having,
    )
    return Source("subquery", "subquery", derived=made), [Tie(Column(asking.alias, name)) for name in asked]


def _again(opened: Opened) -> Draft:
    """The draft of a subquery over flat joins."""
    flat = flat_joins(opened.part)
    if flat is None:
        raise QueryError(
            "a subquery with an outer join cannot refer to the query around it",
            hint="put the outer join into a derived table.",
        )
    sources, on = flat
    return Draft(sources, (*on, *opened.where), (), opened.draft.within, opened.draft.text, named=opened.draft.named)


def _refuse_elsewhere(opened: Opened, mine: set[str], call: Call) -> None:
    written: tuple[Condition | Item, ...] = (
        *opened.items, *opened.having, *opened.group_by, *conditions_of(opened.part), *opened.where,
    )  # fmt: skip
    if any(c.alias not in mine and c.alias for one in written for c in columns(expr_of(one))):
        raise QueryError(
            "a subquery that groups rows refers to the query around it outside of WHERE",
            hint="compare in its WHERE by =.",
            span=call.span,
        )
