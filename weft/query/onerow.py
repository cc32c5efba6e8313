"""SELECT without FROM, and VALUES: rows that are written in the query.

A SELECT without FROM has one row.  Where it stands beside streams that are joined, it is put in place: its columns are
constants.  Elsewhere, as in VALUES, which are several of them joined by UNION ALL, it needs a relation of one row.  An
aggregate without GROUP BY is one: it has exactly one group, from the first batch on, whatever rows come.  So

    SELECT 1, 'a'       becomes       SELECT 1, 'a' FROM (SELECT 1 AS here FROM s HAVING TRUE)

with `s` a stream that the query reads anyway, or, if it reads none, any stream of the session.  The row is made in the
first batch and never changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from weft.expr.lists import is_spread
from weft.expr.model import Call, Expr, Literal, Udf, transform, walk
from weft.query.draft import Condition, Draft, Item, Join, Named, Source, Tree
from weft.query.model import Stream
from weft.query.names import find

ROW = "one row"
Written = TypeVar("Written", Condition, Item)


def with_rows(draft: Draft, streams: Mapping[str, Stream], views: Mapping[str, object]) -> Draft | None:
    """The draft with a relation of one row where a SELECT has none; None if there is no stream to make it of."""
    if all(one.sources for one in _selects(draft)):
        return draft
    names = [s.stream for one in _selects(draft) for s in one.sources if s.derived is None]
    read = (name for among in (streams, views) for name in names if find(name, among) is not None)
    others = sorted(streams, key=lambda name: streams[name].table)
    stream = next(chain(read, others), None)
    return None if stream is None else _Filler(stream).select(draft)


def is_row(draft: Draft) -> bool:
    """Whether it is a SELECT without FROM that has one row."""
    return not draft.sources and not draft.unions and not any(is_spread(item.expr) for item in draft.items)


def _selects(draft: Draft) -> Iterator[Draft]:
    """A draft and all SELECTs in it."""
    yield draft
    for source in draft.sources:
        yield from _selects(source.derived) if source.derived is not None else ()
    for inner in (*draft.unions, *(named.draft for named in draft.named)):
        yield from _selects(inner)
    for expr in _exprs(draft):
        for node in walk(expr):
            if isinstance(node, Literal) and isinstance(node.value, Draft):
                yield from _selects(node.value)


def _exprs(draft: Draft) -> Iterator[Expr]:
    written: tuple[Condition | Item, ...] = (
        *draft.conditions, *draft.items, *draft.having, *draft.group_by, *draft.qualify,
    )  # fmt: skip
    on = (one for join in _joins(draft.tree) for one in join.on)
    yield from (one.expr for one in (*written, *on) if isinstance(one.expr, Call | Udf))


def _joins(tree: Tree | None) -> Iterator[Join]:
    if isinstance(tree, Join):
        yield from (*_joins(tree.left), *_joins(tree.right), tree)


@dataclass(frozen=True, slots=True)
class _Filler:
    stream: str

    def select(self, draft: Draft) -> Draft:
        """The draft with every SELECT in it filled in."""
        here = draft if draft.sources else replace(draft, sources=(self._row(),))
        joined = here.tree is None and any(s.derived is None or not is_row(s.derived) for s in here.sources)
        return replace(
            here,
            sources=tuple(self._source(source, joined=joined) for source in here.sources),
            conditions=tuple(map(self._written, here.conditions)),
            items=tuple(map(self._written, here.items)),
            group_by=tuple(map(self._written, here.group_by)),
            having=tuple(map(self._written, here.having)),
            qualify=tuple(map(self._written, here.qualify)),
            unions=tuple(map(self.select, here.unions)),
            named=tuple(self._named(one) for one in here.named),
            tree=None if here.tree is None else self._tree(here.tree),
        )

    def _row(self) -> Source:
        always = Condition(Literal(True))
        one = Draft((Source(self.stream, self.stream),), (), (Item(Literal(1), "here"),), "unbounded", having=(always,))
        return Source(ROW, ROW, derived=one)

    def _source(self, source: Source, *, joined: bool) -> Source:
        """One that is put in place, beside streams or as LATERAL, stays as it is."""
        inner = source.derived
        if inner is None or (is_row(inner) and (joined or source.lateral)):
            return source
        return replace(source, derived=self.select(inner))

    def _named(self, one: Named) -> Named:
        return replace(one, draft=self.select(one.draft))

    def _tree(self, tree: Tree) -> Tree:
        if isinstance(tree, int):
            return tree
        on = tuple(map(self._written, tree.on))
        return replace(tree, left=self._tree(tree.left), right=self._tree(tree.right), on=on)

    def _written(self, one: Written) -> Written:
        if not isinstance(one.expr, Call | Udf):
            return one
        return replace(one, expr=transform(one.expr, self._node))

    def _node(self, node: Expr) -> Expr:
        if isinstance(node, Literal) and isinstance(node.value, Draft):
            return replace(node, value=self.select(node.value))
        return node
