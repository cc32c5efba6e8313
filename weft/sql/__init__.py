"""SQL text to queries: tokens, a grammar that refuses by name what Weft cannot do, then name resolution.

text          tokens, cursor
SELECT        statement, named, grouped, over, window, frames, shares, taken
FROM          sources, elements, windowed, snapshot
expressions   expression, forms, rowvalue, interval, typename
scripts       script, options, topics
errors        refused, advice
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from weft.expr.model import Expr, Literal, conjuncts, transform
from weft.query.calls import FunctionSignature
from weft.query.draft import Condition, Draft, Item, Source, Star, Tree
from weft.query.model import Query, Stream
from weft.query.resolve import resolve
from weft.query.views import Views
from weft.sql.statement import parse_expression, parse_item, parse_select

__all__ = ["FunctionSignature", "parse", "parse_expression", "resolve", "to_query"]


def parse(text: str, *, is_view: bool = False) -> Draft:
    """The query that `text` states, its names not looked up; a view is read as what stands inside of a query."""
    return parse_select(text, depth=int(is_view))


def to_query(
    query: str | Draft,
    streams: Mapping[str, Stream],
    functions: Mapping[str, FunctionSignature] | None = None,
    cross_product: bool = False,
    views: Views = MappingProxyType({}),
) -> Query:
    """The checked query behind SQL text or a builder's draft."""
    draft = parse(query) if isinstance(query, str) else parse_fragments(query)
    return resolve(draft, streams, functions or {}, cross_product, views)


def parse_fragments(draft: Draft) -> Draft:
    """The draft with every fragment of SQL text parsed."""
    return replace(
        draft,
        conditions=tuple(part for condition in draft.conditions for part in _split(condition)),
        items=tuple(_parse_item(item) for item in draft.items),
        group_by=tuple(_parse(key) for key in draft.group_by),
        having=tuple(part for condition in draft.having for part in _split(condition)),
        qualify=tuple(part for condition in draft.qualify for part in _split(condition)),
        tree=None if draft.tree is None else _parse_tree(draft.tree),
        sources=tuple(_parse_source(source) for source in draft.sources),
    )


def _parse_source(source: Source) -> Source:
    source = source if source.as_of is None else replace(source, as_of=_parse(source.as_of))
    return source if source.derived is None else replace(source, derived=parse_fragments(source.derived))


def _parse_tree(tree: Tree) -> Tree:
    if isinstance(tree, int):
        return tree
    on = tuple(part for condition in tree.on for part in _split(condition))
    return replace(tree, left=_parse_tree(tree.left), right=_parse_tree(tree.right), on=on)


def _parse_subqueries(expr: Expr) -> Expr:
    def parsed(node: Expr) -> Expr:
        if isinstance(node, Literal) and isinstance(node.value, Draft):
            return replace(node, value=parse_fragments(node.value))
        return node

    return transform(expr, parsed)


def _split(condition: Condition) -> tuple[Condition, ...]:
    parsed = _parse(condition)
    assert not isinstance(parsed.expr, str)
    return tuple(Condition(part, parsed.text) for part in conjuncts(parsed.expr))


def _parse(condition: Condition) -> Condition:
    if isinstance(condition.expr, str):
        return Condition(parse_expression(condition.expr), condition.expr)
    return replace(condition, expr=_parse_subqueries(condition.expr))


def _parse_item(item: Item) -> Item:
    if isinstance(item.expr, Star):
        return item
    if not isinstance(item.expr, str):
        return replace(item, expr=_parse_subqueries(item.expr))
    parsed = parse_item(item.expr)
    return replace(parsed, name=item.name or parsed.name)
