"""A SELECT for each different row of a source that it refers to.

    FROM a, LATERAL (SELECT b.g, COUNT(*) AS n FROM b WHERE b.x < a.x GROUP BY b.g) d

is a join with a derived table that refers to nothing outside: it reads the different rows of `a` itself.

    FROM a JOIN (SELECT a.*, b.g, COUNT(*) AS n
                 FROM (SELECT DISTINCT * FROM a) AS a, b WHERE b.x < a.x GROUP BY a.*, b.g) d
           ON all columns of a are the same in d

Inside, the source has the alias under which it is written, so that everything in there finds it, to any depth.

What must hold: a group is one of a row of `a`, and so is a number of rows.  NULL is the same as NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft.errors import QueryError
from weft.expr.model import Call, Column, Expr, transform
from weft.query.draft import Condition, Draft, Item, Join, Source, Star, Tree, Using, joins
from weft.query.opened import Opened
from weft.query.qualify import Reader
from weft.query.ranking import is_ranking, within_ties
from weft.query.scope import Scope, Shown
from weft.query.tied import expr_of

_OF = "#of"


@dataclass(frozen=True, slots=True)
class Each:
    """A derived table beside the source that it was made for."""

    source: Source
    shown: tuple[Shown, ...]
    """Its own columns."""
    on: tuple[Expr, ...]


def for_each(
    reader: Reader, opened: Opened, sources: Iterable[Source], scope: Scope, name: str, *, is_grouped: bool
) -> Each | None:
    """The SELECT for each row of the one source that it refers to; None if there is no such source."""
    draft = own_names(opened)
    if draft is None:
        return None
    if draft.sets or draft.within is not None or any(source.within is not None for source in draft.sources):
        return None
    for asking in sources:
        columns = [one for one in scope.columns if isinstance(one.value, Column) and one.value.alias == asking.alias]
        if asking.within is not None or asking.lateral or not columns or not columns[0].alias:
            continue
        try:
            derived = _inside(reader, draft, asking, columns, is_grouped=is_grouped)
            placed, shown = reader.place(Source("subquery", name, derived=derived))
        except QueryError:
            continue
        first = len(columns)
        on = (
            Call("same", (mine.value, its.value))
            for mine, its in zip(columns, shown.columns[:first], strict=True)
        )  # fmt: skip
        return Each(placed, shown.columns[first : first + _width(draft, shown, first)], tuple(on))
    return None


def own_names(opened: Opened) -> Draft | None:
    """The SELECT with its own columns named so that no column of another source can be meant; None if it cannot be."""
    draft = opened.draft
    is_merged = bool(draft.usings) or any(join.using is not None for join in joins(draft.tree or 0))
    stars = [item.expr for item in draft.items if isinstance(item.expr, Star)]
    if any(not star.alias and (is_merged or star.without) for star in stars):
        return None
    shown = {item.name.lower() for item in draft.items if item.name}

    def own(node: Expr, outputs: frozenset[str] = frozenset()) -> Expr:
        if not isinstance(node, Column) or node.alias or node.name.lower() in outputs:
            return node
        return replace(node, alias=opened.scope.alias_of(node))

    def written(one: Condition, outputs: frozenset[str] = frozenset()) -> Condition:
        return replace(one, expr=transform(expr_of(one), lambda node: own(node, outputs)))

    items = tuple(
        item if isinstance(item.expr, Star) else _labelled(replace(item, expr=transform(expr_of(item), own)), item)
        for item in draft.items
    )
    made = replace(
        draft,
        items=items,
        conditions=tuple(map(written, draft.conditions)),
        group_by=tuple(map(written, draft.group_by)),
        qualify=tuple(written(one, frozenset(shown)) for one in draft.qualify),
    )
    return _starred(made)


def _labelled(item: Item, written: Item) -> Item:
    """The item under the name that it has as it is written."""
    plain = isinstance(written.expr, Column) and written.name is None
    return replace(item, name=written.expr.name) if plain and isinstance(written.expr, Column) else item


def _starred(draft: Draft) -> Draft:
    """The draft with alias.* of its own sources in place of *."""
    own = tuple(Item(Star(source.alias), text=draft.text) for source in draft.sources)
    items = [own if isinstance(i.expr, Star) and not i.expr.alias else (i,) for i in draft.items]
    return replace(draft, items=tuple(item for part in items for item in part))


def _width(draft: Draft, shown: Scope, first: int) -> int:
    """How many columns the SELECT has; behind them there are more if its rows get numbers."""
    return len(shown.columns) - first - (first if is_ranking(draft) else 0)


def _inside(reader: Reader, draft: Draft, asking: Source, columns: Sequence[Shown], *, is_grouped: bool) -> Draft:
    alias = columns[0].alias
    own = tuple(Item(one.value, one.name) for one in columns)
    values = Source("the rows", alias, derived=Draft((asking,), (), own, distinct=True))
    if any(source.alias.lower() == alias.lower() for source in draft.sources):
        raise QueryError("the name is taken")
    keys = tuple(Column(alias, one.name) for one in columns)
    if is_ranking(draft):
        draft = within_ties(draft, draft.conditions, keys)
    made = replace(
        draft,
        items=(*(Item(key, f"{_OF}{at}") for at, key in enumerate(keys)), *draft.items),
        group_by=(*map(Condition, keys), *draft.group_by) if is_grouped and not draft.distinct else draft.group_by,
    )
    return with_rows(reader, made, values)


def with_rows(reader: Reader, draft: Draft, rows: Source) -> Draft:
    """The SELECT for each of some rows, which everything in it can read."""
    return replace(
        draft,
        sources=(rows, *(_reaching(reader, source) for source in draft.sources)),
        usings=tuple(_moved(using) for using in draft.usings),
        tree=None if draft.tree is None else _beside_rows(_shifted(draft.tree)),
        crossed=True,
    )


def _reaching(reader: Reader, source: Source) -> Source:
    """A derived table that has no meaning alone reads the row."""
    if source.derived is None or source.lateral:
        return source
    try:
        reader.known.columns(source)
    except QueryError:
        return replace(source, lateral=True)
    return source


def _beside_rows(tree: Tree) -> Tree:
    """The tree with the rows, at place 0, as far inside as each of them is kept: conditions of joins there see them."""
    if isinstance(tree, Join) and tree.kind in ("inner", "left", "semi", "anti"):
        return replace(tree, left=_beside_rows(tree.left))
    if isinstance(tree, Join) and tree.kind == "right" and tree.using is None:
        return replace(tree, kind="left", left=_beside_rows(tree.right), right=tree.left)
    return Join("inner", 0, tree)


def _moved(using: Using) -> Using:
    left, right = (range(side.start + 1, side.stop + 1) for side in (using.left, using.right))
    return replace(using, left=left, right=right)


def _shifted(tree: Tree) -> Tree:
    if isinstance(tree, int):
        return tree + 1
    using = None if tree.using is None else _moved(tree.using)
    return replace(tree, left=_shifted(tree.left), right=_shifted(tree.right), using=using)
