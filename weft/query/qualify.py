"""A SELECT with every column looked up and every source under an alias of its own.

FROM becomes a tree of joins.  Subqueries in expressions stay as they are; `weft.query.subqueries` puts them into the
tree.  RIGHT JOIN is LEFT JOIN with its sides exchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Protocol

import pyarrow as pa

from weft.errors import QueryError, placed
from weft.expr.model import Call, Column, Expr, Literal, Udf, aliases, columns
from weft.query.aggregates import AGGREGATES, calls_aggregate
from weft.query.derived import branches, in_place
from weft.query.draft import (
    EVERY,
    Condition,
    Draft,
    Item,
    Join,
    Source,
    Star,
    Tree,
    Within,
    has_subquery,
    in_order,
    spelled,
    subqueries,
)
from weft.query.names import find
from weft.query.opened import Kind, Known, Node, Opened, Part, conditions_of, padded_sources, sources_of
from weft.query.reused import without_reuse
from weft.query.scope import Scope, Shown, merge
from weft.query.values import Read, is_timed, names_in, values_of
from weft.query.visible import numbered, unique_names

_Side = tuple[Part, Scope]
"""A side of a join, and what it shows."""


@dataclass(frozen=True, slots=True)
class Beside:
    """A LATERAL table as it is joined to what stands left of it."""

    part: Part | None
    """None if it has one row for every row on the left."""
    scope: Scope
    on: tuple[Condition, ...]
    """What ties it to the left."""
    left: Part | None = None
    """What stands left, if it is made anew."""


class Lateral(Protocol):
    """How a LATERAL table is opened: see `weft.query.lateral`."""

    def __call__(self, reader: Reader, source: Source, left: Scope, part: Part | None, *, padded: bool) -> Beside:
        """The table, what it shows, and what ties it to `part`; `padded` if it is the right side of a LEFT JOIN."""


class Reader:
    """Opens a query and the subqueries in it."""

    def __init__(self, known: Known, lateral: Lateral) -> None:
        self.known, self.lateral = known, lateral
        self.places: dict[str, int] = {}
        """Alias -> how many there were before it."""
        self.tied: list[Condition] = []
        """What ties derived tables of the SELECT that is read to the query around it."""
        self.types: dict[tuple[str, str], pa.DataType] = {}
        """(Alias, column) -> its type."""
        self.placed: dict[str, tuple[Source, bool]] = {}
        """Alias -> its source, and whether an outer join may pad it."""

    def apart(self) -> Reader:
        """One that reads the same, and leaves this one as it is."""
        found = Reader(self.known, self.lateral)
        found.places, found.placed = {**self.places}, {**self.placed}
        return found

    def open(self, draft: Draft, around: Scope | None = None, within: Within = None) -> Opened:
        """The SELECT that a draft states; `around` are the names of the query around it, `within` is its window."""
        draft = replace(draft, within=within if draft.within is None else draft.within)
        before, self.tied = self.tied, []
        part, scope = self._tree(draft, _tree_of(draft), around)
        tied, self.tied = tuple(self.tied), before
        draft = replace(draft, items=without_reuse(draft.items, scope.has))
        items = tuple(spelled(item, self.places) for item in self._items(draft, scope))
        keys = tuple(key for condition in draft.group_by for key in _keys(condition, scope, items))
        keys = tuple(spelled(key, self.places) for key in keys)
        having = in_order((_having(condition, scope, items, keys) for condition in draft.having), self.places)
        where = in_order((*(_resolved(condition, scope) for condition in draft.conditions), *tied), self.places)
        return Opened(part, where, items, keys, having, scope, draft)

    def row(self, draft: Draft, around: Scope) -> tuple[tuple[Item, ...], tuple[Condition, ...]]:
        """What a SELECT without FROM gives, and when."""
        scope = Scope((), around=around)
        return tuple(self._items(draft, scope)), tuple(_resolved(one, scope) for one in draft.conditions)

    def place(
        self, source: Source, around: Scope | None = None, *, padded: bool = False
    ) -> tuple[Source, Scope]:  # fmt: skip
        """A source under an alias of its own, and what it shows."""
        alias = next(name for name in numbered(source.alias) if name not in self.places)
        self.places[alias] = len(self.places)
        found = self.known.columns(source)
        self.types |= {(alias, name): kind for name, kind in found.items()}
        shown = Scope.of(source.alias, alias, found)
        meant = (Shown(of, name, Column(alias, own), found[own]) for of, name, own in source.meant)
        shown = replace(shown, merged=tuple(meant))
        placed = replace(source, alias=alias)
        self.placed[alias] = placed, padded
        return placed, replace(shown, around=around)

    def _tree(self, draft: Draft, tree: Tree, around: Scope | None, *, padded: bool = False) -> tuple[Part, Scope]:
        if isinstance(tree, int):
            source = draft.sources[tree]
            source = replace(source, within=self._within(source, draft.within))
            with placed(source.span):
                return self._leaf(source, around, padded=padded)
        outer, self.tied = self.tied, []
        left, mine = self._tree(draft, tree.left, around, padded=padded or tree.kind in ("right", "full"))
        if isinstance(tree.right, int) and draft.sources[tree.right].lateral:
            self.tied = [*outer, *self.tied]
            return self._beside(draft, tree, draft.sources[tree.right], left, mine)
        tied, self.tied = self.tied, []
        right, other = self._tree(draft, tree.right, around, padded=padded or tree.kind in ("left", "full"))
        self.tied, there = self._ties(tree, outer, tied)
        if tree.kind != "inner" and not tree.asof and (far := self._far(tree.on, mine, other)) is not None:
            return self._paired(tree, far, draft.text, (left, mine), (right, other))
        nearest = tree.asof
        if isinstance(right, Source) and right.as_of is not None:
            right, nearest = replace(right, as_of=_resolved(right.as_of, mine)), False
        self._refuse_twice(draft, mine, other, tree)
        scope, on = mine.beside(other), tree.on
        if tree.using is not None:
            scope, equal = merge(tree.kind, mine, other, tree.using)
            on = tuple(Condition(one, draft.text) for one in (at_or_after(equal) if nearest else equal))
        else:
            on = tuple(_resolved(condition, scope) for condition in on)
        on = in_order((*on, *there), self.places)
        if tree.kind == "right":
            return Node("left", right, left, on, scope=scope), scope
        found = Node(tree.kind, left, right, on, asof=tree.asof, scope=scope)
        return found, mine if tree.kind in ("semi", "anti") else scope

    def _ties(
        self, join: Join, outer: list[Condition], left: list[Condition]
    ) -> tuple[list[Condition], list[Condition]]:
        """What ties the two sides of a join to the query around: above the join, and in its ON where it pads a side."""
        right = self.tied
        above, there = {
            "inner": ([*left, *right], []),
            "right": (right, left),
            "full": ([], [*left, *right]),
        }.get(join.kind, (left, right))
        if there and (join.asof or join.kind == "full"):
            hint = "write what ties it into WHERE of the subquery, or give the derived table LEFT or RIGHT JOIN."
            raise QueryError("this join has a derived table that reads the query around", hint=hint, span=join.span)
        return [*outer, *above], there

    def _leaf(self, source: Source, around: Scope | None, *, padded: bool) -> tuple[Part, Scope]:
        """A table factor; in a subquery, a derived table may refer to the query around, as if it were LATERAL."""
        try:
            return self.place(source, around, padded=padded)
        except QueryError as alone:
            if source.derived is None or around is None:
                raise
            try:
                found = self.lateral(self, source, Scope((), around=around), None, padded=padded)
            except QueryError as error:  # with the names around it, what is wrong is something else
                raise error from None
            if found.part is None:
                raise _reads_around(source, alone) from None
            self.tied += found.on
            return found.part, replace(found.scope, around=around)

    def _beside(self, draft: Draft, join: Join, source: Source, left: Part, mine: Scope) -> tuple[Part, Scope]:
        """A join with a LATERAL table."""
        if join.kind not in ("inner", "left") or join.using is not None:
            hint = "write it behind a comma, JOIN or LEFT JOIN, with ON."
            raise QueryError("LATERAL cannot stand here", hint=hint, span=source.span)
        source = replace(source, within=self._within(source, draft.within))
        found = self.lateral(self, source, mine, left, padded=join.kind == "left")
        left = found.left or left
        self._refuse_twice(draft, mine, found.scope, join)
        scope = mine.beside(found.scope)
        on = (*found.on, *(_resolved(condition, scope) for condition in join.on))
        if found.left is not None and join.kind == "left" and any(one.expr != Literal(True) for one in on):
            hint = "write ON TRUE, or put the elements into a derived table: (SELECT ... FROM t, UNNEST(...)) AS d."
            raise QueryError("LEFT JOIN UNNEST has a condition", hint=hint, span=source.span)
        if found.part is not None:
            return Node("left" if join.kind == "left" else "inner", left, found.part, on), scope
        if join.kind == "inner":
            return Node("where", left, None, on), scope
        return left, mine.beside(_where(found.scope, on))

    def reads(self, expr: Expr, scope: Scope) -> frozenset[str]:
        """The aliases that an expression reads, and the subqueries in it; its own columns are looked up."""
        found, inside = set(aliases(expr)), self.apart()
        for call in subqueries(expr):
            found = found.union(*(self.reads(arg, scope) for arg in call.args[:-1]))
            for draft in _selects(call.args[-1]):
                found |= inside.read_around(draft, scope)
        return frozenset(found & {*self.places})

    def read_around(self, draft: Draft, scope: Scope) -> frozenset[str]:
        """The aliases that a subquery reads, its own ones among them."""
        opened = self.open(draft, scope)
        conditions = (*opened.where, *opened.group_by, *opened.having, *conditions_of(opened.part))
        written = (*(one.expr for one in conditions), *(item.expr for item in opened.items))
        asked = (self.reads(expr, opened.scope) for expr in written if not isinstance(expr, str | Star))
        return frozenset[str]().union(*asked)

    def _far(self, on: tuple[Condition, ...], left: Scope, right: Scope) -> Call | None:
        """A subquery in ON that reads both sides of the join."""
        scope, sides = left.beside(right), [_aliases(left), _aliases(right)]
        for one in on:
            for call in subqueries(_resolved(one, scope).expr) if has_subquery(one.expr) else ():
                reads = self.reads(call, scope)
                if all(reads & side for side in sides):
                    return call
        return None

    def _paired(self, join: Join, asking: Call, text: str, left: _Side, right: _Side) -> _Side:
        """A join with a subquery that reads both sides: they are joined by the values for which its ON holds.

            a LEFT JOIN b ON p        a LEFT JOIN (pairs JOIN b ON the values of b) ON the values of a
            a FULL JOIN b ON p        (a LEFT JOIN pairs ON the values of a) FULL JOIN b ON the values of b

        The pairs are the different values of all columns that ON may read, of both sides, where p holds.
        """
        turned = join.kind == "right" or (join.kind == "full" and not isinstance(right[0], Source))
        (part, mine), (other, its) = (right, left) if turned else (left, right)
        near, far = self._read(join, part, mine), self._read(join, other, its)
        if not (near and far) or (join.kind == "full" and not isinstance(other, Source)):
            raise _reads_both(asking, join)
        values, columns_of = values_of([*near, *far])
        items = (*(Item(column, f"#of{at}") for at, column in enumerate(columns_of)), Item(Literal(1), "#there"))
        made = Draft(tuple(values), join.on, items, text=text, distinct=True, crossed=True)
        try:
            pairs, shown = self.place(Source("the pairs", "pairs", derived=made))
        except QueryError:
            raise _reads_both(asking, join) from None
        *keys, there = (one.value for one in shown.columns)
        same = tuple(
            Condition(Call("same", (one.shown.value, key), None, asking.span), text)
            for one, key in zip((*near, *far), keys, strict=True)
        )
        by_mine, by_its = same[: len(near)], same[len(near) :]
        scope = left[1].beside(right[1])
        if join.kind == "full":
            is_pair = Condition(Call("=", (there, Literal(1))), text)
            return Node("full", Node("left", part, pairs, by_mine), other, (*by_its, is_pair), scope=scope), scope
        kind: Kind = "left" if join.kind == "right" else join.kind
        return Node(kind, part, Node("inner", pairs, other, by_its), by_mine), mine if kind in (
            "semi",
            "anti",
        ) else scope

    def _read(self, join: Join, part: Part, scope: Scope) -> list[Read]:
        """The columns of a side that ON may read; none if one of its sources counts only for a time."""
        names, padded = set(names_in(join.on)), {source.alias for source in padded_sources(part)}
        found = [
            Read(shown, self.placed[shown.value.alias][0], shown.value.alias in padded)
            for shown in (*scope.columns, *scope.merged)
            if isinstance(shown.value, Column) and shown.name.lower() in names
        ]
        whole = all(one.owner for one in found) and not any(is_timed(source) for source in sources_of(part))
        return found if whole else []

    def _within(self, source: Source, default: Within) -> Within:
        if source.within is not None or not isinstance(default, int) or self.known.is_table(source):
            return source.within
        return default

    def _refuse_twice(self, draft: Draft, left: Scope, right: Scope, join: Join) -> None:
        if twice := [alias for alias in right.aliases if alias in left.aliases]:
            spans = [source.span for source in draft.sources if source.alias == twice[0]]
            hint = "give each alias a name of its own with AS."
            raise QueryError(f"duplicate alias {twice[0]!r}", hint=hint, span=spans[-1] or join.span)

    def _items(self, draft: Draft, scope: Scope) -> Iterator[Item]:
        found: list[Item] = []
        for item in draft.items:
            found += _item(item, scope)
        names = unique_names(str(item.name) for item in found)
        yield from (replace(item, name=name) for item, name in zip(found, names, strict=True))


def _selects(constant: Expr) -> tuple[Draft, ...]:
    """The SELECTs of a subquery."""
    assert isinstance(constant, Literal)
    assert isinstance(constant.value, Draft)
    return branches(in_place(constant.value))


def _aliases(scope: Scope) -> set[str]:
    """The aliases of the sources whose columns can be seen."""
    return {alias for shown in (*scope.columns, *scope.merged) for alias in aliases(shown.value)}


def _reads_both(asking: Call, join: Join) -> QueryError:
    detail = (
        "it can where no stream of the join has a window, and it reads columns of streams, tables and derived tables."
    )
    hint = "let it refer to one side; or leave WITHIN out."
    if join.kind == "full":
        detail = f"{detail[:-1]}; of a FULL JOIN, one side must be a single one of these."
        hint = "let it refer to one side; or put what stands on a side into a derived table: (SELECT ...) AS name."
    return QueryError("a subquery in ON refers to both sides", detail=detail, hint=hint, span=asking.span)


def at_or_after(equal: Sequence[Expr]) -> list[Expr]:
    """ASOF JOIN ... USING (k, ts): the last column is that of the times."""
    return [*equal[:-1], *(replace(one, op=">=") for one in equal[-1:] if isinstance(one, Call))]


def _where(scope: Scope, on: tuple[Condition, ...]) -> Scope:
    """What a scope shows where conditions hold, and NULL elsewhere."""
    tests = tuple(one.expr for one in on if not isinstance(one.expr, str) and one.expr != Literal(True))
    if not tests:
        return scope
    all_hold = Call("and", tests)
    shown = (replace(one, value=Call("case", (all_hold, one.value, Literal(None)))) for one in scope.columns)
    return replace(scope, columns=tuple(shown))


def _tree_of(draft: Draft) -> Tree:
    """FROM as a tree; USINGs of flat joins are put where both of their sides are complete."""
    if draft.tree is not None:
        return draft.tree
    places: list[Tree] = [*range(len(draft.sources))]
    if not draft.usings:
        return reduce(lambda left, right: Join("inner", left, right), places)
    parts = {place: place for place in range(len(draft.sources))}  # first place -> one behind its last
    trees: dict[int, Tree] = {place: place for place in parts}
    for using in draft.usings:
        left = _united(trees, using.left)
        right = _united(trees, using.right)
        trees[using.left.start] = Join("inner", left, right, (), using, using.span)
    return reduce(lambda left, right: Join("inner", left, right), trees.values())


def _united(trees: dict[int, Tree], side: range) -> Tree:
    parts = [trees.pop(place) for place in side if place in trees]
    return reduce(lambda left, right: Join("inner", left, right), parts)


def _reads_around(source: Source, alone: QueryError) -> QueryError:
    """The error for a derived table in a subquery that has a meaning beside the query around it only."""
    return QueryError(
        f'derived table "{source.alias}" reads the query around its subquery, and cannot be joined to it',
        detail=f"{alone.message}.",
        span=source.span,
        hint="tie one that has groups by WHERE inner column = outer column, and give it GROUP BY; or leave it out: "
        "aggregate in the subquery itself.",
    )


def _resolved(condition: Condition, scope: Scope) -> Condition:
    assert not isinstance(condition.expr, str)
    return replace(condition, expr=scope.resolve(condition.expr))


def _item(item: Item, scope: Scope) -> list[Item]:
    assert not isinstance(item.expr, str)
    if isinstance(item.expr, Star):
        return [Item(one.value, one.name, item.text, one.name) for one in scope.star(item.expr)]
    return [replace(item, expr=scope.resolve(item.expr), name=item.name or scope.name_of(item.expr) or item.source)]


def _keys(condition: Condition, scope: Scope, items: tuple[Item, ...]) -> tuple[Condition, ...]:
    """What one key of GROUP BY stands for."""
    if condition.expr == EVERY:
        return every(items)
    return (_key(condition, scope, items),)


def every(items: Sequence[Item]) -> tuple[Condition, ...]:
    """The outputs that GROUP BY ALL means."""
    exprs = ((item.expr, item.text) for item in items if not isinstance(item.expr, Star | str))
    return tuple(Condition(expr, text) for expr, text in exprs if columns(expr) and not calls_aggregate(expr))


def _key(condition: Condition, scope: Scope, items: tuple[Item, ...]) -> Condition:
    """One key of GROUP BY; a number or the name of an output stays."""
    expr = condition.expr
    if isinstance(expr, Column) and not expr.alias and not scope.has(expr) and _is_output(expr, items):
        return condition
    return condition if isinstance(expr, Literal) else _resolved(condition, scope)


def _having(condition: Condition, scope: Scope, items: tuple[Item, ...], keys: tuple[Condition, ...]) -> Condition:
    """One condition of HAVING; a name that is no key may be that of an output."""
    grouped = {column for key in keys if not isinstance(key.expr, str) for column in columns(key.expr)}

    def over_groups(node: Expr) -> Expr:
        if isinstance(node, Column):
            if not node.alias and _is_output(node, items) and not (scope.has(node) and scope.resolve(node) in grouped):
                return node
            return scope.resolve(node)
        if isinstance(node, Udf) and node.name.lower() in AGGREGATES:
            return scope.resolve(node)
        return replace(node, args=tuple(map(over_groups, node.args))) if isinstance(node, Call | Udf) else node

    assert not isinstance(condition.expr, str)
    return replace(condition, expr=over_groups(condition.expr))


def _is_output(column: Column, items: tuple[Item, ...]) -> bool:
    return find(column.name, [str(item.name) for item in items]) is not None
