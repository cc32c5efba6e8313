"""LATERAL: a derived table that reads columns of what stands left of it in FROM.

    FROM a, LATERAL (SELECT b.y + a.x AS s FROM b WHERE b.k = a.k AND b.y > 1) d

is a join with a derived table that reads nothing outside; what ties both is the condition of the join:

    FROM a JOIN (SELECT b.y, b.k FROM b WHERE b.y > 1) d ON d.k = a.k           and d.s means d.y + a.x

One that has aggregates and no GROUP BY has exactly one row: each of its columns is a subquery that is a value.  One
without FROM has one row too: its columns are expressions over what stands left of it.  Several of them, as in VALUES,
are as many numbers beside each row, and columns that depend on the number.

What must hold: a row that a LEFT JOIN pads has NULL in every column, also in those that are no columns of a stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, Literal, columns, transform
from weft.expr.spelling import normal, order
from weft.query.derived import in_place
from weft.query.draft import Condition, Draft, Item, Source, Star, has_subquery, in_order
from weft.query.elements import unnested
from weft.query.groupedsub import tied
from weft.query.lifted import is_combined, lifted
from weft.query.onerow import ROW, is_row
from weft.query.opened import Opened, Part, sources_of
from weft.query.qualify import Beside, Reader
from weft.query.ranking import is_ranking, within_ties
from weft.query.scope import Scope, Shown
from weft.query.tied import equal_sides, expr_of, flat_joins

_HERE = "#here"


def beside(reader: Reader, source: Source, left: Scope, part: Part | None, *, padded: bool) -> Beside:
    """A LATERAL table as it is joined to what stands left of it; `padded` if that is a LEFT JOIN."""
    if source.elements is not None:
        assert part is not None
        return unnested(reader, source, left, part, padded=padded)
    assert source.derived is not None
    draft = in_place(source.derived)
    if is_row(draft):
        return _row(reader, source, draft, left)
    if draft.unions and all(one.sources and one.sources[0].stream == ROW for one in (draft, *draft.unions)):
        return _rows(reader, source, (replace(draft, unions=()), *draft.unions), left)
    if is_combined(draft):
        return lifted(reader, source, draft, left)
    opened = reader.open(draft, left)
    if is_ranking(draft) and (first := _first(reader, source, opened)) is not None:
        return first
    if opened.is_grouped and not is_ranking(draft) and not (draft.group_by or draft.having or draft.distinct):
        return _values(source, draft, opened, left)
    asked: tuple[Condition | Item, ...] = (*draft.conditions, *draft.items)
    found: tuple[Condition | Item, ...] = (*opened.where, *opened.items)
    left_asks = padded and any(has_subquery(one.expr) for one in found)
    if (
        draft.sets or opened.is_grouped or is_ranking(draft) or left_asks or not _is_near(opened)
        or any(has_subquery(one.expr) for one in asked)
    ):  # fmt: skip
        return _each(reader, source, opened, left, part)
    return _Splitter(reader, source, opened, padded).run()


def _is_near(opened: Opened) -> bool:
    """Whether no condition of a join inside refers to what stands outside, and all are inner joins."""
    joined, mine = flat_joins(opened.part), {one.alias for one in sources_of(opened.part)}
    return joined is not None and all(column.alias in mine for one in joined[1] for column in columns(expr_of(one)))


def _each(reader: Reader, source: Source, opened: Opened, left: Scope, part: Part | None) -> Beside:
    """One that is worked out for all different values that it reads."""
    if part is None and opened.group_by and (keyed := _by_keys(reader, source, opened, left)) is not None:
        return keyed
    return lifted(reader, source, opened.draft, left)


def _by_keys(reader: Reader, source: Source, opened: Opened, left: Scope) -> Beside | None:
    """Groups that are tied by equalities, as those of each value: what is compared is one more key of them."""
    draft = opened.draft
    written: tuple[Condition | Item, ...] = (*opened.where, *opened.items, *opened.having, *opened.group_by)
    if draft.sets or draft.distinct or is_ranking(draft):
        return None
    if any(has_subquery(one.expr) for one in written):
        return None
    made, ties = tied(opened, Call("exists", (), None, source.span), None, draft.text)
    placed, shown = reader.place(replace(source, derived=made.derived, columns=(), lateral=False))
    keys, values = shown.columns[: len(ties)], shown.columns[len(ties) :]
    pairs = zip(keys, ties, strict=True)
    on = tuple(Condition(tie.compared(key.value, source.span), draft.text) for key, tie in pairs)
    return Beside(placed, Scope(_named(source, [(one.name, one.value) for one in values]), around=left.around), on)


def _row(reader: Reader, source: Source, draft: Draft, left: Scope) -> Beside:
    items, where = reader.row(draft, left)
    shown = _named(source, [(str(item.name), expr_of(item)) for item in items])
    return Beside(None, Scope(shown, around=left.around), where)


def _rows(reader: Reader, source: Source, drafts: Sequence[Draft], left: Scope) -> Beside:
    """Several rows that are written: as many numbers beside each row on the left, and what each number stands for."""
    numbers = [replace(one, conditions=(), items=(Item(Literal(at), "row"),)) for at, one in enumerate(drafts)]
    derived = replace(numbers[0], unions=tuple(numbers[1:]))
    placed, shown = reader.place(replace(source, derived=derived, columns=(), lateral=False))
    number = shown.columns[0].value
    read = [reader.row(replace(one, sources=()), left) for one in drafts]
    if len({len(items) for items, _ in read}) > 1:
        hint = "select as many columns in each of them."
        raise QueryError("the rows have different numbers of columns", hint=hint, span=source.span)
    is_it = [Call("=", (number, Literal(at))) for at in range(len(read))]
    values = [
        (
            str(cells[0].name),
            Call(
                "case",
                (*(part for pair in zip(is_it, map(expr_of, cells), strict=True) for part in pair), Literal(None)),
            ),
        )
        for cells in zip(*(items for items, _ in read), strict=True)
    ]
    on = tuple(
        replace(one, expr=Call("or", (Call("<>", (number, Literal(at))), expr_of(one))))
        for at, (_, where) in enumerate(read)
        for one in where
    )
    return Beside(placed, Scope(_named(source, values), around=left.around), on)


def _values(source: Source, draft: Draft, opened: Opened, left: Scope) -> Beside:
    """One row of aggregates."""
    if any(isinstance(item.expr, Star) for item in draft.items):
        raise QueryError("* cannot stand beside aggregates", hint="list the columns.", span=source.span)
    values = [
        (str(shown.name), Call("subquery", (Literal(replace(draft, items=(item,))),), None, source.span))
        for item, shown in zip(draft.items, opened.items, strict=True)
    ]
    return Beside(None, Scope(_named(source, values), around=left.around), ())


def _first(reader: Reader, source: Source, opened: Opened) -> Beside | None:
    """First rows for each row on the left: the number of a row is that within the rows that are tied alike."""
    draft, mine = opened.draft, {one.alias for one in sources_of(opened.part)}
    written: tuple[Condition | Item, ...] = (*opened.where, *opened.items)
    far = [one for one in written if any(c.alias not in mine for c in columns(expr_of(one)))]
    meant = {one: opened.scope.resolve(expr_of(one)) for one in draft.conditions}
    is_all = len(in_order(map(Condition, meant.values()), reader.places)) == len(opened.where)
    if opened.is_grouped or not is_all or any(equal_sides(expr_of(one), mine) is None for one in far):
        return None
    near, inner, outer = list[Condition](), list[Expr](), list[Expr]()
    for raw, resolved in sorted(meant.items(), key=lambda one: order(normal(one[1], reader.places), reader.places)):
        raw_expr, sides = expr_of(raw), equal_sides(resolved, mine)
        if sides is None or not isinstance(raw_expr, Call) or not isinstance(resolved, Call):
            near.append(raw)
        else:
            inner.append(raw_expr.args[resolved.args.index(sides[0])])
            outer.append(sides[1])
    made = replace(source, derived=within_ties(draft, near, inner), columns=(), lateral=False)
    placed, shown = reader.place(made)
    values = [one.value for one in shown.columns]
    named = [(str(item.name), value) for item, value in zip(opened.items, values, strict=False)]
    on = (Call("=", pair, None, source.span) for pair in zip(values[len(named) :], outer, strict=True))
    return Beside(
        placed,
        Scope(_named(source, named), around=opened.scope.around),
        tuple(Condition(one, draft.text) for one in on),
    )


def _named(source: Source, values: Iterable[tuple[str, Expr]]) -> tuple[Shown, ...]:
    """The columns under the names that stand behind the alias."""
    listed = list(values)
    names = (*source.columns, *(name for name, _ in listed[len(source.columns) :]))
    return tuple(
        Shown(source.alias, name, value, pa.null(), at)
        for at, (name, (_, value)) in enumerate(zip(names, listed, strict=True))
    )


@dataclass(slots=True)
class _Splitter:
    """Parts a LATERAL into a derived table and what ties it to the rest."""

    reader: Reader
    source: Source
    opened: Opened
    padded: bool
    kept: dict[str, Expr] = field(default_factory=dict)
    """What the derived table selects, by name."""

    def run(self) -> Beside:
        """The derived table, its columns, and conditions of the join."""
        opened, mine = self.opened, {source.alias for source in sources_of(self.opened.part)}
        joined = flat_joins(opened.part)
        assert joined is not None
        near = [one for one in opened.where if self._is_near(one, mine)]
        tied = [replace(one, expr=self._outside(expr_of(one), mine)) for one in opened.where if one not in near]
        values = [(str(item.name), self._outside(expr_of(item), mine, whole=True)) for item in opened.items]
        self.kept[_HERE] = Literal(1)
        items = tuple(Item(expr, name, opened.draft.text) for name, expr in self.kept.items())
        draft = Draft(joined[0], (*joined[1], *near), items, opened.draft.within, opened.draft.text, crossed=True)
        placed, shown = self.reader.place(replace(self.source, derived=draft, columns=(), lateral=False))
        there = {one.name: one.value for one in shown.columns}
        found = [(name, self._padded(_placed(value, there), there)) for name, value in values]
        on = tuple(replace(one, expr=_placed(expr_of(one), there)) for one in tied)
        return Beside(placed, Scope(_named(self.source, found), around=self.opened.scope.around), on)

    def _is_near(self, one: Condition, mine: set[str]) -> bool:
        """Whether it refers to nothing outside; a subquery in it is a column on the left that is worked out."""
        return not has_subquery(one.expr) and all(column.alias in mine for column in columns(expr_of(one)))

    def _outside(self, expr: Expr, mine: set[str], *, whole: bool = False) -> Expr:
        """The expression over columns that the derived table is made to select; a whole one is selected itself."""
        is_mine = columns(expr) and all(column.alias in mine for column in columns(expr))
        if whole and is_mine and not has_subquery(expr):
            return self._keep(expr)
        return transform(expr, lambda node: self._keep(node) if _is_of(node, mine) else node)

    def _keep(self, expr: Expr) -> Column:
        name = next((name for name, kept in self.kept.items() if kept == expr), f"#{len(self.kept)}")
        self.kept[name] = expr
        return Column(_HERE, name, None, expr.span)

    def _padded(self, value: Expr, there: dict[str, Expr]) -> Expr:
        if not self.padded or (isinstance(value, Column) and value in there.values()):
            return value
        return Call("case", (Call("is_null", (there[_HERE],)), Literal(None), value), None, value.span)


def _is_of(node: Expr, aliases: set[str]) -> bool:
    return isinstance(node, Column) and node.alias in aliases


def _placed(expr: Expr, there: dict[str, Expr]) -> Expr:
    return transform(
        expr, lambda node: there[node.name] if _is_of(node, {_HERE}) and isinstance(node, Column) else node
    )
