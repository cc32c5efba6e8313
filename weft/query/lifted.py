"""SELECTs that read columns of a query around them, also several that UNION, EXCEPT or INTERSECT join.

    FROM a, LATERAL (SELECT b.x FROM b WHERE b.k = a.k EXCEPT SELECT c.z FROM c WHERE c.k = a.k) d

is a join with a derived table that reads nothing outside: each SELECT is asked for all different values of the columns
that any of them reads there, and shows these values, too.

    FROM a JOIN (SELECT b.x, v.k FROM v, b WHERE b.k = v.k EXCEPT SELECT c.z, v.k FROM v, c WHERE c.k = v.k) d
           ON d.k is the same as a.k                                       with v = (SELECT DISTINCT k FROM a)

Inside, v has the alias under which the source is written, so that everything in there finds it, to any depth.

What must hold: rows are compared with rows of the same values, since these are columns of both.  They come behind all
others, so that places of outputs stay.  NULL is the same as NULL.  A source that an outer join pads may also be NULL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr
from weft.query.derived import in_place
from weft.query.draft import EVERY, Condition, Draft, Item, Join, Source, Star
from weft.query.foreach import own_names, with_rows
from weft.query.onlyrow import as_values, has_one_row
from weft.query.qualify import Beside, Reader
from weft.query.ranking import is_ranking, within_ties
from weft.query.scope import Scope
from weft.query.values import Read, is_timed, names_in, seen, values_of

_OF = "#of"


def is_combined(draft: Draft) -> bool:
    """Whether it is several SELECTs joined by UNION, EXCEPT or INTERSECT."""
    if draft.unions:
        return True
    inside = [in_place(source.derived) for source in draft.sources if source.derived is not None]
    return _shows_all(draft) and (len(draft.sources) == 2 or inside[0].times is not None or is_combined(inside[0]))


def lifted(reader: Reader, source: Source, draft: Draft, left: Scope, *, sparse: bool = False) -> Beside:
    """A derived table beside what it reads: such SELECTs, or a single one.

    If `sparse`, an aggregate without GROUP BY has no row for values that find nothing.
    """
    read = _read(reader, source, draft, left)
    made = _Lifter(reader, source, left, read, sparse).draft(draft)
    placed, shown = reader.place(replace(source, derived=made, lateral=False))
    first = len(shown.columns) - len(read)
    on = tuple(
        Condition(Call("same", (one.shown.value, key.value), None, source.span), draft.text)
        for one, key in zip(read, shown.columns[first:], strict=True)
    )
    return Beside(placed, replace(shown, columns=shown.columns[:first], around=left.around), on)


def _shows_all(draft: Draft) -> bool:
    """Whether a SELECT has all columns of the derived tables in it, and hidden ones behind them."""
    first, *more = draft.items
    is_by_rows = isinstance(draft.tree, Join) and draft.tree.using is not None and draft.tree.using.places
    is_all = isinstance(first.expr, Star) and not first.expr.alias
    is_all = is_all and all(item.name is not None and item.name.startswith("#") for item in more)
    plain = not draft.conditions and not draft.sets and all(key.expr == EVERY for key in draft.group_by)
    inside = [source for source in draft.sources if source.derived is not None and not source.lateral]
    return is_all and plain and len(inside) == len(draft.sources) == (2 if is_by_rows else 1)


def _leaves(draft: Draft) -> Iterator[Draft]:
    for one in (replace(draft, unions=()), *draft.unions):
        if _shows_all(one):
            for source in one.sources:
                assert source.derived is not None
                yield from _leaves(in_place(source.derived))
        else:
            yield from (one,) if not one.unions else _leaves(one)


def _read(reader: Reader, source: Source, draft: Draft, left: Scope) -> list[Read]:
    """The columns of the query around that the SELECTs may read."""
    aliases = frozenset[str]().union(*(reader.apart().read_around(leaf, left) for leaf in _leaves(draft)))
    names = set(names_in(draft))
    found = [
        Read(shown, *reader.placed[shown.value.alias])
        for shown in seen(left)
        if isinstance(shown.value, Column) and shown.value.alias in aliases and shown.name.lower() in names
    ]
    left_over = (aliases & set(reader.places)) - {one.source.alias for one in found}
    if (
        left_over
        or is_timed(source)
        or any(is_timed(one.source) for one in found)
        or not found
        or any(not one.owner for one in found)
    ):
        raise _refusal(source)
    return found


def _refusal(source: Source) -> QueryError:
    return QueryError(
        "a SELECT cannot read this of the query around it",
        detail="but for plain joins, it may read columns of streams, tables and derived tables that have no window.",
        hint="join a derived table, and write in ON what ties it to the others; or leave WITHIN out.",
        span=source.span,
    )


@dataclass(frozen=True, slots=True)
class _Lifter:
    """Lets SELECTs show the values that they are asked for."""

    reader: Reader
    source: Source
    left: Scope
    read: list[Read]
    sparse: bool

    def draft(self, draft: Draft) -> Draft:
        """All SELECTs of a UNION."""
        if draft.by_name:  # the values would stand between the columns of the SELECTs
            raise _refusal(self.source)
        first, *rest = (draft, *draft.unions)
        made = self._select(replace(first, unions=()))
        return replace(made, unions=tuple(map(self.draft, rest)))

    def _select(self, draft: Draft) -> Draft:
        draft = in_place(draft)
        if _shows_all(draft):
            return self._around(draft)
        if draft.sets or draft.within is not None or any(isinstance(one.within, int) for one in draft.sources):
            raise _refusal(self.source)
        own = own_names(self.reader.apart().open(draft, self.left))
        if own is None:
            raise _refusal(self.source)
        return self._one_row(own) if has_one_row(own) and not self.sparse else self._leaf(own)

    def _around(self, draft: Draft) -> Draft:
        """A SELECT of all columns: the values are among them."""
        inside = (
            replace(source, derived=self.draft(in_place(source.derived)))
            for source in draft.sources
            if source.derived is not None
        )
        made = replace(draft, sources=tuple(inside))
        return _numbered(made, tuple(Column("", name) for name in self._keys())) if is_ranking(made) else made

    def _leaf(self, draft: Draft) -> Draft:
        values, columns = values_of(self.read, {source.alias.lower() for source in draft.sources})
        if is_ranking(draft):
            draft = _numbered(draft, columns)
        by_keys = has_one_row(draft) or (draft.group_by and all(key.expr != EVERY for key in draft.group_by))
        keys = tuple(Item(column, name) for column, name in zip(columns, self._keys(), strict=True))
        draft = replace(
            draft,
            items=(*draft.items, *keys),
            group_by=(*draft.group_by, *map(Condition, columns)) if by_keys else draft.group_by,
        )
        for one in reversed(values):
            draft = with_rows(self.reader, draft, one)
        return draft

    def _one_row(self, draft: Draft) -> Draft:
        """Aggregates without GROUP BY, which have a row also where there is nothing."""
        values, columns = values_of(self.read)
        items, where = as_values(draft)
        keys = tuple(Item(column, name) for column, name in zip(columns, self._keys(), strict=True))
        return Draft(tuple(values), where, (*items, *keys), text=draft.text, crossed=True)

    def _keys(self) -> list[str]:
        return [f"{_OF}{at}" for at in range(len(self.read))]


def _numbered(draft: Draft, keys: tuple[Expr, ...]) -> Draft:
    """The SELECT with numbers of rows within those of the same values."""
    made = within_ties(draft, draft.conditions, keys)
    return replace(made, items=made.items[: len(draft.items)])
