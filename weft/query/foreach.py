"""A SELECT beside rows of the query around it, which everything in it can read: see `weft.query.lifted`.

    SELECT COUNT(*) FROM b WHERE b.x < a.x      becomes      SELECT COUNT(*) FROM (the rows) AS a, b WHERE b.x < a.x

What must hold: the rows have the alias under which their source is written, so that names find them to any depth.
Names of its own columns say whose they are, so that none of the rows is meant.
"""

from __future__ import annotations

from dataclasses import replace

from weft.errors import QueryError
from weft.expr.model import Column, Expr, transform
from weft.query.draft import Condition, Draft, Item, Join, Source, Star, Tree, Using, joins
from weft.query.opened import Opened
from weft.query.qualify import Reader
from weft.query.tied import expr_of


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
